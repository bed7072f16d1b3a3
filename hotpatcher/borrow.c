/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps are told in wake.h; the comments here name them.
 *
 * Ptrace restores the thread exactly: its calls start again with what is left of their time limits, signals that came meanwhile are
 * delivered where the thread really is. Should we die at any moment, then either nothing has been changed yet, or the thread runs
 * through our code by itself, whose end brings it back.
 */
#include "hotpatcher/borrow.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/arch/x86_64/borrow.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif
#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

#define STOP_NS	    100000000ull
#define SYSCALL_STOP (SIGTRAP | 0x80)

static uint64_t bit(int signal_number)
{
	return 1ull << (signal_number - 1);
}

/* What the kernel shows of a thread without stopping it. A seccomp filter may kill it for our calls. */
static bool is_candidate(pid_t pid, pid_t tid, enum ip_borrow_which which)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[256];
	uint64_t args[6];
	long number;

	if (ip_proc_status(tid, "Seccomp") > 0)
		return false;
	if (which == IP_BORROW_ANY)
		return true;
	snprintf(name, sizeof(name), "/proc/%d/task/%d/syscall", pid, tid);
	file = fopen(name, "re");
	if (!file || !fgets(line, sizeof(line), file))
		return false;
	if (!strncmp(line, "running", strlen("running")))
		return which >= IP_BORROW_RUNNING;
	/* "-1 ...": it waits outside of any call, for a page */
	return sscanf(line, "%ld 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64, &number,
		      &args[0], &args[1], &args[2], &args[3], &args[4], &args[5]) == 7 &&
	       number >= 0 && ip_arch_call_restarts(number, args);
}

/* Whether the thread is in a restartable sequence: leaving that for a while must abort it, and nobody would. */
static bool in_sequence(const struct ip_target *target, pid_t tid, uint64_t pc)
{
	struct {
		uint64_t address;
		uint32_t size, signature, flags, pad;
	} configuration;
	struct {
		uint32_t version, flags;
		uint64_t start, length, abort;
	} sequence;
	uint64_t current;

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof(configuration), &configuration) < 0 ||
	    !configuration.address)
		return false;
	if (ip_target_read(target, configuration.address + 8, &current, sizeof(current)) < 0)
		return true;
	if (!current)
		return false;
	return ip_target_read(target, current, &sequence, sizeof(sequence)) < 0 || pc - sequence.start < sequence.length;
}

/* Step 2, judging: the thread has stopped. */
static bool may_borrow(struct ip_borrowed *b, enum ip_borrow_which which)
{
	const struct ip_stopped_thread *t = &b->stop.threads[0];
	uint8_t code[2];

	if (!t->stopped || !t->by_us || ptrace(PTRACE_GETREGS, b->tid, 0, &b->regs) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, b->tid, sizeof(b->mask), &b->mask) < 0 || b->regs.cs != IP_ARCH_USER_CS)
		return false;
	if (!ip_arch_in_call(&b->regs))
		return which >= IP_BORROW_RUNNING && !in_sequence(b->target, b->tid, b->regs.rip);
	return ip_target_read(b->target, b->regs.rip - 2, code, 2) == 0 && code[0] == 0x0f && code[1] == 0x05;
}

int ip_borrow_begin(struct ip_target *target, enum ip_borrow_which which, struct ip_borrowed *ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", target->pid);
	dir = opendir(name);
	if (!dir)
		return ip_error("pid %d has ended", target->pid);
	while ((entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (!tid || !is_candidate(target->pid, tid, which))
			continue;
		*ret = (struct ip_borrowed){.target = target, .tid = tid};
		if (ip_stop_one(target, tid, STOP_NS, &ret->stop) < 0) {
			/* one that did not stop in time before is ours already */
			if (errno == EPERM && ip_proc_status(tid, "TracerPid") != getpid())
				return ip_error("pid %d: thread %d cannot be traced: it is traced already, or belongs to "
						"another user",
						target->pid, tid);
			continue;
		}
		if (may_borrow(ret, which))
			return 1;
		ip_stop_end(&ret->stop);
	}
	return 0;
}

/* Waits for the thread to stop. Its status; -1: it has ended; 0: the deadline has passed. */
static int wait_for(struct ip_borrowed *b, uint64_t deadline)
{
	struct ip_stopped_thread *t = &b->stop.threads[0];
	const struct timespec nap = {.tv_nsec = 20000};
	int status;

	for (unsigned turns = 0;; turns++) {
		pid_t got = waitpid(b->tid, &status, __WALL | WNOHANG);

		if (got == b->tid && WIFSTOPPED(status)) {
			t->stopped = true;
			return status;
		}
		if (got == b->tid || (got < 0 && errno == ECHILD)) {
			t->gone = true;
			if (got == b->tid && b->tid == b->target->pid) {
				b->target->exited = true;
				b->target->exit_status = status;
			}
			return -1;
		}
		if (ip_now_ns() > deadline)
			return 0;
		if (turns > 50)
			nanosleep(&nap, NULL);
	}
}

/* A signal stop: one that somebody sent is handed on when the thread is back; one that our own code raised dies here. */
static void keep_signal(struct ip_borrowed *b, int status)
{
	siginfo_t info;

	if (status >> 16 == 0 && WSTOPSIG(status) != SYSCALL_STOP && ptrace(PTRACE_GETSIGINFO, b->tid, 0, &info) == 0 &&
	    info.si_code <= 0)
		b->stop.threads[0].signal = WSTOPSIG(status);
}

static int resume(struct ip_borrowed *b, enum __ptrace_request how)
{
	if (ptrace(how, b->tid, 0, 0) < 0)
		return -1;
	b->stop.threads[0].stopped = false;
	return 0;
}

/* Wherever the thread runs: stops it. */
static void halt(struct ip_borrowed *b)
{
	int status;

	if (b->stop.threads[0].stopped || b->stop.threads[0].gone)
		return;
	ptrace(PTRACE_INTERRUPT, b->tid, 0, 0);
	status = wait_for(b, ip_now_ns() + STOP_NS);

	/* at the entry of a call of ours the registers that are set would be taken for the call: not here */
	if (status > 0 && WSTOPSIG(status) == SYSCALL_STOP && status >> 16 == 0 &&
	    ptrace(PTRACE_POKEUSER, b->tid, offsetof(struct user_regs_struct, orig_rax), -1l) == 0 &&
	    resume(b, PTRACE_CONT) == 0)
		status = wait_for(b, ip_now_ns() + STOP_NS);
	if (status > 0)
		keep_signal(b, status);
}

int ip_borrow_run(struct ip_borrowed *b, uint64_t code, uint64_t end, uint64_t block, uint64_t deadline_ns)
{
	/* the kernel resets the handler of a forced signal that is masked; SYS: where the thread dispatches system calls itself */
	const uint64_t ours = bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV) | bit(SIGSYS),
		       masked = ~ours;
	struct user_regs_struct regs = b->regs;
	uint64_t deadline = ip_now_ns() + deadline_ns;
	pid_t pid = b->target->pid;
	int status;

	ip_arch_send(&regs, code, block);
	/* 4, 5 */
	if (ptrace(PTRACE_SETOPTIONS, b->tid, 0, PTRACE_O_TRACESYSGOOD) < 0 ||
	    ptrace(PTRACE_SETREGS, b->tid, 0, &regs) < 0 ||
	    ptrace(PTRACE_SETSIGMASK, b->tid, sizeof(masked), &masked) < 0)
		return ip_error_errno("pid %d: cannot set the registers of thread %d", pid, b->tid);
	for (;;) { /* 6, 7 */
		int kind;

		if (resume(b, PTRACE_SYSCALL) < 0)
			return ip_error("pid %d has ended", pid);
		status = wait_for(b, deadline);
		if (status < 0)
			return ip_error("pid %d has ended", pid);
		if (status == 0)
			return ip_error("pid %d: thread %d was not done in time", pid, b->tid);
		kind = WSTOPSIG(status);
		if (status >> 16 == PTRACE_EVENT_STOP)
			continue; /* the process is being stopped; this thread joins later */
		keep_signal(b, status);
		if (kind != SYSCALL_STOP)
			return ip_error("pid %d: thread %d got signal %d while it was borrowed", pid, b->tid, kind);
		if (ptrace(PTRACE_GETREGS, b->tid, 0, &regs) < 0)
			return ip_error("pid %d has ended", pid);
		if (ip_arch_is_done(&regs, code, end))
			break;
	}
	/* 8: not this call; and stop where a thread's own calls are started again */
	if (ptrace(PTRACE_POKEUSER, b->tid, offsetof(struct user_regs_struct, orig_rax), -1l) < 0 ||
	    ptrace(PTRACE_INTERRUPT, b->tid, 0, 0) < 0 || resume(b, PTRACE_CONT) < 0)
		return ip_error("pid %d has ended", pid);
	status = wait_for(b, deadline);
	if (status > 0)
		keep_signal(b, status);
	return status < 0 ? ip_error("pid %d has ended", pid) : 0;
}

uint64_t ip_borrow_end(struct ip_borrowed *b)
{
	struct ip_stopped_thread *t = &b->stop.threads[0];

	halt(b);
	/* 9: in this order. A thread that we leave between the two is still on its own way back. */
	if (t->stopped && !t->gone) {
		ptrace(PTRACE_SETSIGMASK, b->tid, sizeof(b->mask), &b->mask);
		ptrace(PTRACE_SETREGS, b->tid, 0, &b->regs);
	}
	return ip_stop_end(&b->stop);
}
