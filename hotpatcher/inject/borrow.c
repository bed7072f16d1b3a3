/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrows a thread, lets it run our code and takes it back. runtime_wake.h describes the steps; the
 * comments here name them.
 *
 * Ptrace restores the thread exactly: its system calls start again with what is left of their time
 * limits, and signals that came meanwhile are delivered where the thread really is. If we die at
 * any moment, then either nothing has been changed yet, or the thread runs through our code by
 * itself, and the end of that code brings it back.
 */
#include "hotpatcher/inject/borrow.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/proc.h"
#include "hotpatcher/arch/x86_64/borrow.h"
#include "hotpatcher/ptrace/kernel_worker.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stops.h"
#include "hotpatcher/ptrace/syscall_dispatch.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif
#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

#define BACK_TRIES 3
#define CALL_STOP  (SIGTRAP | 0x80) /* at a system call's entry or exit (PTRACE_O_TRACESYSGOOD) */
#define STOP_NS	   100000000ull
#define LOOK_NS	   20000000ull
#define ADMIN	   (1ull << 21) /* CAP_SYS_ADMIN */

static uint64_t bit(int signal_number)
{
	return 1ull << (signal_number - 1);
}

bool ip_borrow_may_suspend_seccomp(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/status", "re");
	uint64_t capabilities = 0;
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "CapEff: %" SCNx64, &capabilities);
	return (capabilities & ADMIN) && ip_proc_status(getpid(), "Seccomp") <= 0;
}

/* Whether a thread is under seccomp. If that cannot be known, it counts as a yes, where the kernel
 * knows seccomp at all. */
static bool is_confined(pid_t tid)
{
	long mode = ip_proc_status(tid, "Seccomp");

	return mode > 0 || (mode < 0 && ip_proc_status(getpid(), "Seccomp") >= 0);
}

int ip_borrow_check(pid_t pid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[512];

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	file = fopen(name, "re");
	if (!file)
		return ip_error_errno("pid %d: cannot read %s", pid, name);
	while (fgets(line, sizeof(line), file))
		if (ip_arch_tells_shadow_stack(line))
			return ip_error(
				"pid %d has a shadow stack (CET), with which none of its threads "
				"can be borrowed safely: start it without "
				"(GLIBC_TUNABLES=glibc.cpu.x86_shstk=off), or by iprobe run",
				pid);
	return 0;
}

/* Whether the thread may be borrowed, by what the kernel shows of it without a stop. A thread under
 * seccomp only counts if its filters may be suspended: a filter may kill it for our calls. */
static bool is_candidate(const struct ip_target *target, pid_t tid, enum ip_borrow_which which,
			 bool confined)
{
	const pid_t pid = target->pid;
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[256];
	uint64_t args[6];
	long number;

	if (ip_is_kernel_worker(pid, tid))
		return false;
	if (which < IP_BORROW_ANY && tid == ip_stops_of(target)->masks_more)
		return false;
	if (is_confined(tid) && !(confined && ip_borrow_may_suspend_seccomp()))
		return false;
	if (which == IP_BORROW_ANY)
		return true;
	snprintf(name, sizeof(name), "/proc/%d/task/%d/syscall", pid, tid);
	file = ip_delegation_fopen(name);
	if (!file || !fgets(line, sizeof(line), file))
		return false;
	if (!strncmp(line, "running", strlen("running")))
		return which >= IP_BORROW_RUNNING;
	/* "-1 ...": the thread waits outside of any system call, for a page */
	if (sscanf(line,
		   "%ld 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64
		   " 0x%" SCNx64,
		   &number, &args[0], &args[1], &args[2], &args[3], &args[4], &args[5]) != 7 ||
	    number < 0)
		return false;
	return ip_arch_call_restarts(number, args) ||
	       (which >= IP_BORROW_RENEWING && ip_arch_call_renews(number, args));
}

/* Whether the kernel knows restartable sequences at all. The call registers nothing. */
static bool has_sequences(void)
{
	return syscall(SYS_rseq, NULL, 0, 0, 0) == 0 || errno != ENOSYS;
}

/* a running thread was left alone since the kernel does not tell whether it is in a restartable
 * sequence */
static bool untold;

const char *ip_borrow_hindrance(void)
{
	return untold ? ", or run, and this kernel does not tell (before 5.13) whether they may be "
			"interrupted"
		      : "";
}

/* Whether the thread is in a restartable sequence. A sequence that is left for a while must be
 * aborted, and nothing would abort it here. */
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

	/* Kernels before 5.13 do not tell. What cannot be known counts as a yes, where the kernel
	 * knows restartable sequences at all. */
	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof(configuration), &configuration) < 0)
		return untold |= has_sequences();
	if (!configuration.address)
		return false;
	if (ip_target_read(target, configuration.address + 8, &current, sizeof(current)) < 0)
		return true;
	if (!current)
		return false;
	return ip_target_read(target, current, &sequence, sizeof(sequence)) < 0 ||
	       pc - sequence.start < sequence.length;
}

/* Whether the call in which the thread has stopped blocks, while it waits, a signal that the thread
 * does not block otherwise. Once the thread is back, such a signal would be delivered before the
 * call waits again, and would end the call. What cannot be read counts as a yes. (All other masks
 * are safe: a signal that the call lets through is blocked until the call waits again, or is
 * delivered at once and ends the call, as without the stop.) */
static bool masks_more(const struct ip_borrowed *b)
{
	const uint64_t cannot = bit(SIGKILL) | bit(SIGSTOP);
	uint64_t args[6], address, set;
	bool indirect;

	ip_arch_arguments(&b->regs, args);
	address = ip_arch_call_mask(b->regs.orig_rax, args, &indirect);
	if (address && indirect &&
	    ip_target_read(b->target, address, &address, sizeof(address)) < 0)
		return true;
	return address && (ip_target_read(b->target, address, &set, sizeof(set)) < 0 ||
			   (set & ~b->mask & ~cannot));
}

/* Step 2: whether a thread that has stopped may be borrowed. */
static bool may_borrow(struct ip_borrowed *b, enum ip_borrow_which which,
		       struct ip_confined *confined)
{
	const struct ip_stopped_thread *t = &b->stop.threads[0];
	uint8_t code[2];
	char name[64];

	/* The id may have been given to a thread of another process meanwhile. Once the thread has
	 * stopped, that cannot happen any more. */
	snprintf(name, sizeof(name), "/proc/%d/task/%d", b->target->pid, b->tid);
	if (ip_access(name, F_OK) < 0)
		return false;
	if (!t->stopped || !t->by_us || ptrace(PTRACE_GETREGS, b->tid, 0, &b->regs) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, b->tid, sizeof(b->mask), &b->mask) < 0 ||
	    b->regs.cs != IP_ARCH_USER_CS)
		return false;
	if (!ip_dispatch_lets_us_call(b->tid))
		return false;
	if (is_confined(b->tid)) {
		if (!confined || !ip_confined_may(b->tid))
			return false;
		b->confined = confined;
	}
	if (!ip_arch_in_call(&b->regs))
		return which >= IP_BORROW_RUNNING && !in_sequence(b->target, b->tid, b->regs.rip);
	/* the thread may have entered another call since it was looked at */
	if (b->tid == ip_stops_of(b->target)->lender && which < IP_BORROW_RUNNING &&
	    !ip_arch_waits(&b->regs) && !(which == IP_BORROW_RENEWING && ip_arch_renews(&b->regs)))
		return false;
	if (which < IP_BORROW_ANY && masks_more(b)) {
		ip_stops_of(b->target)->masks_more = b->tid;
		return false;
	}
	return ip_target_read(b->target, b->regs.rip - 2, code, 2) == 0 && code[0] == 0x0f &&
	       code[1] == 0x05;
}

/* 1: borrowed; 0: this thread may not be borrowed now; -1 with the reason why no thread may be. */
static int try_thread(struct ip_target *target, pid_t tid, enum ip_borrow_which which,
		      struct ip_confined *confined, struct ip_borrowed *ret)
{
	bool boosted;

	/* a thread that was borrowed just before runs while it is on its way back to its call */
	if (!is_candidate(target, tid,
			  tid == ip_stops_of(target)->lender && which < IP_BORROW_RUNNING
				  ? IP_BORROW_RUNNING
				  : which,
			  confined))
		return 0;
	*ret = (struct ip_borrowed){.target = target, .tid = tid};
	boosted = ip_priority_begin(&ret->priority); /* the hold is mostly the wait for a CPU */
	/* before the INTERRUPT: to stop, a waiting thread needs a CPU, and other threads may keep
	 * the CPUs busy for long */
	ret->raised = boosted && ip_priority_guard_begin() ? ip_priority_guard_raise(tid) : 0;
	if (ip_stop_one(target, tid, STOP_NS, &ret->stop) < 0) {
		int error = errno;

		ip_priority_guard_restore(ret->raised);
		ip_priority_end(&ret->priority);
		/* a thread that did not stop in time before is our tracee already */
		if (error == EPERM && ip_proc_status(tid, "TracerPid") != getpid())
			return ip_error("pid %d: thread %s cannot be traced: it is traced already, "
					"or belongs to another user",
					target->pid, IP_THREAD_TEXT(tid));
		return 0;
	}
	if (may_borrow(ret, which, confined))
		return 1;
	ip_priority_guard_restore(ret->raised);
	ip_stop_end_look(&ret->stop);
	ip_priority_end(&ret->priority);
	return 0;
}

int ip_borrow_begin(struct ip_target *target, enum ip_borrow_which which,
		    struct ip_confined *confined, struct ip_borrowed *ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	char name[64];
	int got = ip_stops_of(target)->lender
			  ? try_thread(target, ip_stops_of(target)->lender, which, confined, ret)
			  : 0;

	snprintf(name, sizeof(name), "/proc/%d/task", target->pid);
	dir = opendir(name);
	if (!dir)
		return ip_error("pid %d has ended", target->pid);
	while (got == 0 && (entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (tid && tid != ip_stops_of(target)->lender)
			got = try_thread(target, tid, which, confined, ret);
	}
	return got;
}

/* Waits for the thread to stop. Returns its wait status; -1: the thread has ended; 0: the deadline
 * has passed. */
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

/* Signals that an instruction raises. They stay unmasked, since the kernel resets the handler of
 * such a signal that is raised while it is masked. SIGSYS is raised where the thread dispatches
 * system calls itself. */
static uint64_t faults(void)
{
	return bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV) | bit(SIGSYS);
}

/* Handles a signal stop. A signal that was sent to the thread is handed on when the thread is back.
 * A signal that our own code raised is dropped. */
static void keep_signal(struct ip_borrowed *b, int status)
{
	int number = WSTOPSIG(status);
	siginfo_t info;

	if (status >> 16 || ptrace(PTRACE_GETSIGINFO, b->tid, 0, &info) < 0)
		return;
	if (info.si_code <= 0 || !(faults() & bit(number)))
		b->stop.threads[0].signal = number;
}

static int resume(struct ip_borrowed *b, enum __ptrace_request how)
{
	if (ptrace(how, b->tid, 0, 0) < 0)
		return -1;
	b->stop.threads[0].stopped = false;
	return 0;
}

/* If the thread has stopped at the entry or the exit of a system call, judges the call
 * (confined.h). True if so; the thread can go on to its next stop then. */
static bool pass_call(struct ip_borrowed *b, int status)
{
	if (!b->confined || status <= 0 || status >> 8 != CALL_STOP)
		return false;
	ip_confined_judge(b->confined, b->tid);
	return true;
}

/* Stops the thread, wherever it runs. */
static void halt(struct ip_borrowed *b)
{
	uint64_t deadline = ip_now_ns() + STOP_NS;
	int status;

	if (b->stop.threads[0].stopped || b->stop.threads[0].gone)
		return;
	ptrace(PTRACE_INTERRUPT, b->tid, 0, 0);
	/* a stop at a system call takes the place of the stop that was asked for */
	do
		status = wait_for(b, deadline);
	while (pass_call(b, status) && ptrace(PTRACE_INTERRUPT, b->tid, 0, 0) == 0 &&
	       resume(b, PTRACE_SYSCALL) == 0);
	if (status > 0 && status >> 8 != CALL_STOP)
		keep_signal(b, status);
}

/* Whether the stopped thread has not gone back yet. If we were slow it may have gone back by
 * itself; then it must be left alone. A thread on a stack of ours keeps signals masked until the
 * very end. */
static bool is_away(const struct ip_borrowed *b, const struct user_regs_struct *regs)
{
	const uint64_t cannot = bit(SIGKILL) | bit(SIGSTOP);
	uint64_t mask;

	if (!b->sent || ip_target_image_is_gone(b->target)) /* other images run no code of ours */
		return false;
	if (!b->stack)
		return regs->rip - b->code < b->end - b->code;
	return b->stack + sizeof(struct ip_wake) - regs->rsp <=
		       IP_WAKE_STACK + sizeof(struct ip_wake) &&
	       ptrace(PTRACE_GETSIGMASK, b->tid, sizeof(mask), &mask) == 0 &&
	       (mask | cannot) == (~faults() | cannot);
}

/* Whether the thread waits in the last system call of our code, by what the kernel shows of it. */
static bool seems_done(int fd, uint64_t code, uint64_t end)
{
	char line[256], *last;
	ssize_t n = pread(fd, line, sizeof(line) - 1, 0);
	uint64_t pc;

	if (n <= 0)
		return true; /* that cannot be told: stop the thread and look */
	line[n] = '\0';
	last = strrchr(line, ' ');
	return atol(line) == IP_ARCH_LAST_CALL && last && sscanf(last, " 0x%" SCNx64, &pc) == 1 &&
	       pc >= code && pc < end;
}

/* Steps 6 to 8, until the thread waits in its last system call, where we stop it. The thread runs
 * freely meanwhile: each further stop would cost two turns of the scheduler. 1; 0: a signal came
 * first; -1 with the reason. */
static int run_to_end(struct ip_borrowed *b, struct user_regs_struct *regs, uint64_t code,
		      uint64_t end, uint64_t deadline)
{
	const struct timespec nap = {.tv_nsec = 20000};
	uint64_t looked = ip_now_ns();
	_cleanup_close_ int fd = -1;
	pid_t pid = b->target->pid;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%d/syscall", pid, b->tid);
	fd = ip_delegation_open(name, O_RDONLY);
	for (unsigned turns = 0;; turns++) {
		int status = 1;

		if (b->stop.threads[0].stopped &&
		    resume(b, b->confined ? PTRACE_SYSCALL : PTRACE_CONT) < 0)
			return ip_error("pid %d has ended", pid);
		if (turns > 20)
			nanosleep(&nap, NULL);
		else
			sched_yield();
		/* also now and then in any case: if we were slow, the thread has gone back by
		 * itself */
		if (!b->confined && (seems_done(fd, code, end) || ip_now_ns() - looked > LOOK_NS) &&
		    ptrace(PTRACE_INTERRUPT, b->tid, 0, 0) == 0) {
			status = wait_for(b, deadline);
			looked = ip_now_ns();
		} else {
			status = wait_for(b, 0);
		}
		if (status < 0)
			return ip_error("pid %d has ended", pid);
		if (status == 0 && ip_now_ns() > deadline)
			return ip_error("pid %d: thread %s was not done in time", pid,
					IP_THREAD_TEXT(b->tid));
		if (status == 0)
			continue;
		if (pass_call(b, status)) {
			turns = 0;
			/* the last call returns at once then; the thread stops behind the stop at
			 * the call's exit, which takes the place of this stop */
			if (b->confined->number == IP_ARCH_LAST_CALL)
				ptrace(PTRACE_INTERRUPT, b->tid, 0, 0);
			if (!b->confined->strayed)
				continue;
			resume(b, PTRACE_SYSCALL);
			return ip_error(
				"pid %d: thread %s left iprobe's code while it was borrowed "
				"(system call %lu): something in the process changes its stack",
				pid, IP_THREAD_TEXT(b->tid), b->confined->number);
		}
		if (ptrace(PTRACE_GETREGS, b->tid, 0, regs) < 0)
			return ip_error("pid %d has ended", pid);
		/* our own stop, or the whole process is being stopped: this thread joins later */
		if (status >> 16 == PTRACE_EVENT_STOP) {
			if (ip_arch_is_done(regs, code, end))
				return 1;
			if (!is_away(b, regs))
				return b->stack ? 1 : 0;
			continue;
		}
		keep_signal(b, status);
		ip_error("pid %d: thread %s got signal %d while it was borrowed", pid,
			 IP_THREAD_TEXT(b->tid), WSTOPSIG(status));
		return 0;
	}
}

/* Step 4. */
static int send_to_code(struct ip_borrowed *b, const struct user_regs_struct *regs)
{
	b->sent = true;
	if (ptrace(PTRACE_SETREGS, b->tid, 0, regs) < 0)
		return ip_error_errno("pid %d: cannot set the registers of thread %s",
				      b->target->pid, IP_THREAD_TEXT(b->tid));
	return 0;
}

int ip_borrow_run(struct ip_borrowed *b, uint64_t code, uint64_t end, uint64_t block,
		  uint64_t deadline_ns)
{
	const uint64_t masked = ~faults();
	struct user_regs_struct regs = b->regs;
	uint64_t deadline = ip_now_ns() + deadline_ns;

	ip_arch_send(&regs, code, block);
	b->code = code;
	b->end = end;
	b->stack = block;
	if (send_to_code(b, &regs) < 0)
		return -1;
	if (ptrace(PTRACE_SETSIGMASK, b->tid, sizeof(masked), &masked) < 0) /* step 5 */
		return ip_error_errno("pid %d: cannot mask the signals of thread %s",
				      b->target->pid, IP_THREAD_TEXT(b->tid));
	return run_to_end(b, &regs, code, end, deadline) == 1 ? 0 : -1;
}

int ip_borrow_visit(struct ip_borrowed *b, struct user_regs_struct *regs, uint64_t start,
		    uint64_t end, uint64_t deadline_ns)
{
	b->code = start;
	b->end = end;
	return send_to_code(b, regs) < 0
		       ? -1
		       : run_to_end(b, regs, start, end, ip_now_ns() + deadline_ns);
}

/* Step 9, in this order: if we leave the thread between the two, it is still on its own way back.
 * False if the thread is left on that way. A wrong answer would ruin the thread's registers, so
 * each request is tried several times. */
static bool take_back(struct ip_borrowed *b)
{
	struct user_regs_struct regs;

	for (int i = 0; i < BACK_TRIES; i++) {
		if (ptrace(PTRACE_GETREGS, b->tid, 0, &regs) < 0)
			continue;
		if (!is_away(b, &regs))
			return true;
		if (ptrace(PTRACE_SETSIGMASK, b->tid, sizeof(b->mask), &b->mask) == 0 &&
		    ptrace(PTRACE_SETREGS, b->tid, 0, &b->regs) == 0)
			return true;
	}
	return false;
}

uint64_t ip_borrow_end(struct ip_borrowed *b)
{
	const struct ip_stopped_thread *t = &b->stop.threads[0];
	uint64_t held;

	halt(b);
	b->astray = b->sent && !t->gone && (!t->stopped || !take_back(b));
	ip_priority_guard_restore(b->raised);
	held = ip_stop_end(&b->stop);
	ip_priority_end(&b->priority);
	return held;
}
