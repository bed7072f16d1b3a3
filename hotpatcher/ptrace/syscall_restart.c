/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a stop go unnoticed by system calls. The steps are told in syscall_restart.h; the comments
 * here name them.
 */
#include "hotpatcher/ptrace/syscall_restart.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/proc.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/ptrace/restart_slot.h"
#include "hotpatcher/ptrace/stops.h"
#include "hotpatcher/ptrace/syscall_dispatch.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

#define SECOND	     1000000000ull
#define NO_DEADLINE  UINT64_MAX
#define CLOSE_ENOUGH 10000000ull /* a limit that is longer by less than this counts as kept */

/* A call of a thread that is looked after. */
struct broken {
	struct ip_target *target;
	pid_t tid;
	struct ip_syscall_waits *waits;
	struct ip_arch_syscall call;
	bool may_take; /* a slot of the runtime's memory may be taken */
	bool kept;     /* the kernel has noted the time left in the program's memory */
	struct ip_time_left left;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

/* Reads the thread's memory, with the access that the thread has. Sets no error on failure, since
 * there is always another way. */
static int copy_in(pid_t tid, uint64_t address, void *buffer, size_t size)
{
	const struct iovec ours = {buffer, size}, theirs = {(void *)(uintptr_t)address, size};

	return process_vm_readv(tid, &ours, 1, &theirs, 1, 0) == (ssize_t)size ? 0 : -1;
}

static int copy_out(pid_t tid, uint64_t address, const void *buffer, size_t size)
{
	const struct iovec ours = {(void *)buffer, size},
			   theirs = {(void *)(uintptr_t)address, size};

	return process_vm_writev(tid, &ours, 1, &theirs, 1, 0) == (ssize_t)size ? 0 : -1;
}

/* Whether a signal has no handler and does nothing. */
static bool is_ignored(pid_t tid, int signal_number)
{
	_cleanup_fclose_ FILE *file = NULL;
	uint64_t ignored = 0, caught = 0, bit = 1ull << (signal_number - 1);
	char name[64], line[256];

	snprintf(name, sizeof(name), "/proc/%d/status", tid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "SigIgn: %" SCNx64, &ignored);
		sscanf(line, "SigCgt: %" SCNx64, &caught);
	}
	if (!file || (caught & bit))
		return false;
	return (ignored & bit) || signal_number == SIGCHLD || signal_number == SIGURG ||
	       signal_number == SIGWINCH || signal_number == SIGCONT;
}

/* Step 2: whether iprobe is the reason why the thread has left its call. */
static bool is_ours(pid_t tid, int status)
{
	if (status >> 16)
		return status >> 8 == (SIGTRAP | PTRACE_EVENT_STOP << 8);
	return WSTOPSIG(status) != SIGTRAP && is_ignored(tid, WSTOPSIG(status));
}

static uint64_t in_ns(uint64_t seconds, uint64_t ns)
{
	return seconds > (uint64_t)INT64_MAX / 2 / SECOND ? NO_DEADLINE : seconds * SECOND + ns;
}

/* Gets a descriptor of the target's socket, of which options can be read; the caller closes it. -1:
 * it is no socket, or cannot be had. */
static int borrow_socket(const struct broken *b)
{
	int fd = syscall(SYS_pidfd_getfd, b->target->pidfd, (int)b->call.arguments[0], 0), type;
	socklen_t size = sizeof(type);

	if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int socket_option(int fd, int option)
{
	socklen_t size = sizeof(int);
	int value = -1;

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/* Reads the time limit of the call, in nanoseconds. NO_DEADLINE: it has none, or one of more than a
 * hundred years. 0; -1: it is unknown. */
static int read_limit(const struct broken *b, int socket, uint64_t *ret)
{
	const struct ip_wait *wait = &b->call.wait;
	uint64_t value = b->call.arguments[wait->argument];
	struct timeval tv = {0};
	socklen_t size = sizeof(tv);
	uint32_t two[2];
	uint64_t time[2];

	switch (wait->limit) {
	case IP_WAIT_MILLISECONDS:
		*ret = (uint64_t)(uint32_t)value * 1000000;
		return 0;
	case IP_WAIT_TIMESPEC:
	case IP_WAIT_TIMEVAL:
		if (copy_in(b->tid, value, time, sizeof(time)) < 0)
			return -1;
		*ret = in_ns(time[0], wait->limit == IP_WAIT_TIMEVAL ? time[1] * 1000 : time[1]);
		return 0;
	case IP_WAIT_TIMESPEC32:
		if (copy_in(b->tid, value, two, sizeof(two)) < 0)
			return -1;
		*ret = in_ns(two[0], two[1]);
		return 0;
	case IP_WAIT_RECEIVE:
	case IP_WAIT_SEND:
		if (socket < 0 ||
		    getsockopt(socket, SOL_SOCKET,
			       wait->limit == IP_WAIT_SEND ? SO_SNDTIMEO : SO_RCVTIMEO, &tv,
			       &size) < 0)
			return -1;
		*ret = tv.tv_sec || tv.tv_usec ? in_ns(tv.tv_sec, tv.tv_usec * 1000ull)
					       : NO_DEADLINE;
		return 0;
	default:
		return -1;
	}
}

/* When an unbroken sleep began. CLOCK_MONOTONIC is slewed, by at most 1/2000; the clock of a CPU is
 * not. */
static uint64_t began_at(const struct ip_syscall_wait *s)
{
	const uint64_t now = now_ns();

	return now > s->since_ns ? s->since_ns + ((now - s->since_ns) >> 11) : now;
}

/* When the call's time is over. If the thread was seen in the sleep that the stop broke off, the
 * call began with that sleep. Otherwise it began after the look, and at the latest now. *ret_late:
 * by how much the result may be too late. */
static uint64_t deadline_of(const struct broken *b, uint64_t limit, uint64_t *ret_late)
{
	const struct ip_syscall_wait s = ip_syscall_waits_find(b->waits, b->tid);
	uint64_t now = now_ns(), began = now;

	*ret_late = 0;
	if (limit == NO_DEADLINE)
		return NO_DEADLINE;
	if (s.number != b->call.number) {
		*ret_late = now - s.looked_ns; /* it was not in the call at the look */
	} else if (!s.seen || !s.since_ns) {
		*ret_late = UINT64_MAX;
	} else if (!ip_syscall_wait_was_unbroken(b->target->pid, &s)) {
		*ret_late = now - s.since_ns;
	} else {
		began = began_at(&s);
	}
	return began + limit;
}

/* Counts a call whose limit begins anew. limit: what is broken off of it, at most; UINT64_MAX:
 * unknown. */
static void count_renewed(const struct broken *b, uint64_t limit)
{
	struct ip_syscall_wait s = {.number = -1};
	uint64_t late = limit, ran;

	if (b->waits && b->waits->n) {
		s = ip_syscall_waits_find(b->waits, b->tid);
		ran = now_ns() - s.looked_ns;
		if (s.number != b->call.number && ran < late) /* it began after the look */
			late = ran;
		if (s.number != b->call.number || !s.seen ||
		    !ip_syscall_wait_was_unbroken(b->target->pid, &s))
			s.since_ns = 0;
	}
	ip_renewed_calls_add(&ip_stops_of(b->target)->renewed, b->tid, b->call.number, s.since_ns,
			     late);
}

/* Sets the time left until the deadline, in the form that the call needs: in restart->time, or in
 * an argument. */
static void set_time(const struct ip_wait *wait, struct ip_restart *restart, uint64_t *arguments)
{
	uint64_t now = now_ns(), left = restart->deadline > now ? restart->deadline - now : 0;
	uint32_t two[2] = {left / SECOND, left % SECOND};

	restart->time[0] = left / SECOND;
	restart->time[1] = left % SECOND;
	if (wait->limit == IP_WAIT_TIMEVAL) {
		left += 999;
		restart->time[0] = left / SECOND;
		restart->time[1] = left % SECOND / 1000;
	}
	if (wait->limit == IP_WAIT_TIMESPEC32)
		memcpy(restart->time, two, sizeof(two));
	if (wait->limit == IP_WAIT_MILLISECONDS)
		arguments[wait->argument] = (left + 999999) / 1000000;
}

bool ip_restart_is_waiting(const struct ip_target *target, uint64_t pc)
{
	const struct ip_rt_anchor *a = &target->anchor;

	return target->has_runtime && a->restart && pc >= a->restart && pc < a->restart_end;
}

/* Whether the thread can be sent through the runtime's code: the code is there; the call was made
 * by the instruction by which the code makes it; and it is known that calls are not dispatched by
 * where they come from. */
static bool can_go_through(const struct broken *b)
{
	uint8_t code[2];

	if (!b->target->has_runtime || !b->target->anchor.restart ||
	    b->call.narrow != (b->target->arch->bits == 32) ||
	    copy_in(b->tid, b->call.pc - sizeof(code), code, sizeof(code)) < 0 ||
	    !ip_arch_is_own_call(&b->call, code))
		return false;
	return ip_dispatch_of(b->tid) == IP_DISPATCH_OFF;
}

/* Makes the kernel start the very call again. */
static void do_the_same(const struct broken *b)
{
	ip_arch_restart_plainly(b->tid);
}

/* Notes what ip_restart_release() will need for a thread that goes on in the runtime's code with
 * the time left at this address. With 32-bit code this memory could not be written at the release:
 * such a limit becomes longer by the length of the stop, and no longer than that after further
 * stops. */
static void keep(struct broken *b, uint64_t address)
{
	const enum ip_wait_limit limit = b->call.wait.limit;

	if (!b->call.narrow && limit != IP_WAIT_MILLISECONDS)
		b->left = (struct ip_time_left){address, limit == IP_WAIT_TIMEVAL, now_ns()};
}

/* How the thread goes on: behind one of the calls of the code, and what that needs. */
struct way {
	uint64_t at; /* address of the struct ip_restart */
	uint64_t behind;
	struct ip_restart_place place;
};

/* Finds how to go on. call: 0, IP_RESTART_POLL or IP_RESTART_REST; 32-bit code has the first alone.
 * 0; -1: there is no way. */
static int find_way(const struct broken *b, uint64_t call, struct way *ret)
{
	if (!b->may_take || ip_restart_slot_take(b->target, b->tid, b->call.sp, &ret->place) < 0)
		return -1;
	ret->at = ret->place.slot + (b->call.narrow ? IP_RESTART_NARROW_DATA : 0);
	ret->behind = ret->place.calls + call + IP_ARCH_CALL_LENGTH;
	return 0;
}

static int write_slot(const struct broken *b, const struct way *way,
		      const struct ip_restart *restart)
{
	const struct ip_restart_slot slot = {.restart = *restart,
					     .calls = way->place.calls,
					     .owner = ip_proc_inner_pid(b->tid),
					     .sp = b->call.sp};
	uint8_t image[IP_RESTART_NARROW];

	if (!b->call.narrow)
		return copy_out(b->tid, way->at, &slot, sizeof(slot));
	ip_restart_narrow_image(restart, &way->place, slot.owner, slot.sp, image);
	return ip_target_write(b->target, way->place.slot, image, sizeof(image));
}

/* Gives back a slot to which the thread was not sent after all. A slot of 32-bit code stays the
 * thread's. */
static void give_back(const struct broken *b, const struct way *way)
{
	const uint64_t nobody = 0;

	if (!b->call.narrow)
		copy_out(b->tid, way->at + offsetof(struct ip_restart_slot, owner), &nobody,
			 sizeof(nobody));
}

/* Step 3: sends the thread on, behind one of the calls of the code. 0; -1: this is not possible,
 * and the thread is unchanged. */
static int go_through(struct broken *b, struct ip_restart *restart, uint64_t which)
{
	uint64_t arguments[6], time;
	struct ip_arch_syscall call = b->call;
	struct way way;

	if (find_way(b, which, &way) < 0)
		return -1;
	time = way.at + offsetof(struct ip_restart, time);
	restart->pc = call.pc;
	restart->flags = call.regs.eflags & ~0x100ull;
	restart->number = call.number;
	memcpy(restart->arguments, call.arguments, sizeof(restart->arguments));
	memcpy(arguments, which == IP_RESTART_REST ? restart->rest + 1 : call.arguments,
	       sizeof(arguments));
	if (restart->deadline != NO_DEADLINE) {
		set_time(&call.wait, restart, arguments);
		if (!b->kept && call.wait.limit != IP_WAIT_MILLISECONDS &&
		    call.wait.limit < IP_WAIT_RECEIVE)
			arguments[call.wait.argument] = time;
	}
	if (write_slot(b, &way, restart) < 0)
		return -1;
	if (b->kept && copy_out(b->tid, call.arguments[call.wait.argument], restart->time,
				sizeof(restart->time)) < 0) {
		give_back(b, &way);
		return -1;
	}
	if (which == IP_RESTART_POLL) {
		ip_arch_do_poll(&call.regs, way.at, way.behind);
		call.regs.rcx = way.behind;
	} else {
		ip_arch_prepare(&call, arguments,
				which == IP_RESTART_REST ? (long)restart->rest[0] : call.number,
				way.behind);
	}
	if (ptrace(PTRACE_SETREGS, b->tid, 0, &call.regs) < 0) {
		give_back(b, &way);
		return -1;
	}
	if (restart->deadline != NO_DEADLINE)
		keep(b, b->kept ? call.arguments[call.wait.argument] : time);
	return 0;
}

/* Looks after a call with a time limit of its own. */
static void wait_on(struct broken *b)
{
	struct ip_restart restart = {0};
	uint64_t limit, late;

	if (read_limit(b, -1, &limit) < 0)
		return;
	restart.deadline = deadline_of(b, limit, &late);
	if (limit != NO_DEADLINE && can_go_through(b) && go_through(b, &restart, 0) == 0) {
		if (late > CLOSE_ENOUGH)
			count_renewed(b, limit);
		return;
	}
	do_the_same(b);
	if (limit != NO_DEADLINE)
		count_renewed(b, limit);
}

/* Looks after a call on a socket that has a time limit: nothing was transferred. */
static void wait_on_socket(struct broken *b)
{
	_cleanup_close_ int socket = borrow_socket(b);
	struct ip_restart restart = {0};
	uint64_t limit, late;

	/* without a limit the call would not have returned EINTR: then iprobe is not the reason */
	if (read_limit(b, socket, &limit) < 0 || limit == NO_DEADLINE)
		return;
	restart.deadline = deadline_of(b, limit, &late);
	if (!b->call.narrow && can_go_through(b) && ip_proc_status(b->tid, "Seccomp") == 0 &&
	    ip_arch_poll_first(b->call.number, b->call.arguments, 0,
			       socket_option(socket, SO_DOMAIN), socket_option(socket, SO_TYPE),
			       &restart) &&
	    go_through(b, &restart, IP_RESTART_POLL) == 0) {
		if (late > CLOSE_ENOUGH)
			count_renewed(b, limit);
		return;
	}
	do_the_same(b);
	count_renewed(b, limit);
}

/* Whether the descriptor gives and takes byte by byte: only then does a call return in the middle
 * because of the stop. */
static bool is_stream_of_bytes(const struct broken *b)
{
	struct stat st;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%d/fd/%d", b->target->pid, b->tid,
		 (int)b->call.arguments[0]);
	if (stat(name, &st) < 0)
		return false;
	return S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ||
	       (S_ISCHR(st.st_mode) &&
		(major(st.st_rdev) == 4 || major(st.st_rdev) == 5 ||
		 (major(st.st_rdev) >= 136 && major(st.st_rdev) <= 143))); /* terminals */
}

/* Looks after a call that has transferred a part. */
static void move_rest(struct broken *b)
{
	_cleanup_close_ int socket = -1;
	struct ip_restart restart = {.deadline = NO_DEADLINE};
	uint64_t limit = NO_DEADLINE, late;

	if (!is_stream_of_bytes(b) || !can_go_through(b))
		return;
	socket = borrow_socket(b);
	if (socket >= 0 &&
	    (socket_option(socket, SO_TYPE) != SOCK_STREAM || read_limit(b, socket, &limit) < 0))
		return;
	if (limit == NO_DEADLINE) {
		ip_arch_rest_of_call(b->call.number, b->call.arguments, b->call.result, &restart);
		go_through(b, &restart, IP_RESTART_REST);
		return;
	}
	restart.deadline = deadline_of(b, limit, &late);
	if (ip_proc_status(b->tid, "Seccomp") == 0 &&
	    ip_arch_poll_first(b->call.number, b->call.arguments, b->call.result,
			       socket_option(socket, SO_DOMAIN), socket_option(socket, SO_TYPE),
			       &restart))
		go_through(b, &restart, IP_RESTART_POLL);
}

/* Finds where a thread in the runtime's code stands: in which call of it, and where its struct
 * ip_restart is. */
static bool find_there(const struct broken *b, uint64_t *ret_call, uint64_t *ret_at)
{
	struct ip_restart_place place;

	if (!ip_restart_slot_at(b->target, b->tid, b->call.pc, &place))
		return false;
	*ret_call = place.call;
	*ret_at = place.slot + (b->call.narrow ? IP_RESTART_NARROW_DATA : 0);
	return true;
}

/* Step 5: looks after a thread that is in the runtime's code already. */
static void wait_on_there(struct broken *b)
{
	struct ip_arch_syscall call = b->call;
	struct ip_restart restart;
	uint64_t which, at, time, limit;

	if (!find_there(b, &which, &at) || copy_in(b->tid, at, &restart, sizeof(restart)) < 0)
		return;
	time = at + offsetof(struct ip_restart, time);
	if (!which && restart.deadline != NO_DEADLINE && call.wait.limit < IP_WAIT_RECEIVE) {
		/* in the runtime's memory, or in the program's */
		if (call.wait.limit != IP_WAIT_MILLISECONDS && !call.narrow)
			time = call.arguments[call.wait.argument];
		set_time(&call.wait, &restart, call.arguments);
		ip_arch_prepare(&call, call.arguments, call.number, call.pc);
	} else if (!which) {
		do_the_same(b);
		count_renewed(b, read_limit(b, -1, &limit) < 0 ? UINT64_MAX : limit);
		return;
	} else if (restart.poll_events) {
		set_time(&call.wait, &restart, call.arguments);
		ip_arch_do_poll(&call.regs, at, call.pc - which + IP_RESTART_POLL);
		call.regs.rcx = call.regs.rip;
	} else {
		return;
	}
	if ((call.narrow ? ip_target_write(b->target, time, restart.time, sizeof(restart.time))
			 : copy_out(b->tid, time, restart.time, sizeof(restart.time))) == 0 &&
	    ptrace(PTRACE_SETREGS, b->tid, 0, &call.regs) == 0)
		keep(b, time);
}

static bool is_in_poll(const struct broken *b)
{
	struct ip_restart_place place;

	return ip_restart_slot_at(b->target, b->tid, b->call.pc, &place) &&
	       place.call == IP_RESTART_POLL;
}

/* Whether the kernel, left alone, would not start the call again as it should. */
static bool is_broken_off(const struct broken *b)
{
	const struct ip_arch_syscall *call = &b->call;

	return call->result == -EINTR ||
	       (!call->narrow && call->result == IP_ARCH_RESTART_UNLESS_HANDLER &&
		(ip_arch_restarts_anew(call->number) || is_in_poll(b)));
}

static bool is_partial(const struct ip_arch_syscall *call)
{
	return !call->narrow && ip_arch_is_partial(call->number, call->arguments, call->result);
}

/* Whether the call starts again with the time that it has itself left in the program's memory. */
static bool keeps_time(const struct ip_arch_syscall *call)
{
	return !call->narrow && call->result == IP_ARCH_RESTART_UNLESS_HANDLER &&
	       (call->wait.limit == IP_WAIT_TIMESPEC || call->wait.limit == IP_WAIT_TIMEVAL);
}

/* Looks after a call that has noted in the program's memory what was left when it woke up. It would
 * go on with that time, and so become longer at each stop by all the time until it gets to run. So
 * it goes through the runtime's code, too, which keeps the end of its limit. */
static void wait_on_kept(struct broken *b)
{
	const struct ip_syscall_wait s = ip_syscall_waits_find(b->waits, b->tid);
	const uint64_t at = b->call.arguments[b->call.wait.argument];
	struct ip_restart restart = {0};
	uint64_t limit, end;

	if (read_limit(b, -1, &limit) < 0 || limit == NO_DEADLINE)
		return;
	restart.deadline = now_ns() + limit;
	if (s.number == b->call.number && s.since_ns &&
	    ip_syscall_wait_was_unbroken(b->target->pid, &s)) {
		end = began_at(&s) +
		      in_ns(s.time[0],
			    s.time[1] * (b->call.wait.limit == IP_WAIT_TIMEVAL ? 1000 : 1));
		if (end < restart.deadline)
			restart.deadline = end;
	}
	b->kept = true;
	if (!can_go_through(b) || go_through(b, &restart, 0) < 0)
		b->left =
			(struct ip_time_left){at, b->call.wait.limit == IP_WAIT_TIMEVAL, now_ns()};
}

bool ip_restart_concerns(const struct ip_target *target, pid_t tid,
			 const struct ip_arch_syscall *call)
{
	const struct broken b = {.target = (struct ip_target *)target, .tid = tid, .call = *call};

	return call->number >= 0 && call->wait.limit != IP_WAIT_OTHER &&
	       (is_partial(call) || is_broken_off(&b) || keeps_time(call));
}

void ip_restart_stopped(struct ip_target *target, pid_t tid, int status,
			struct ip_syscall_waits *waits, bool may_take,
			struct ip_time_left *ret_left)
{
	struct broken b = {.target = target, .tid = tid, .waits = waits, .may_take = may_take};
	const struct ip_arch_syscall *call = &b.call;

	*ret_left = (struct ip_time_left){0};
	if (ip_arch_syscall(tid, &b.call) < 0 || !ip_restart_concerns(target, tid, call) ||
	    !is_ours(tid, status))
		return;
	if (ip_restart_is_waiting(target, call->pc)) {
		if (!is_partial(call)) /* there it goes on by itself */
			wait_on_there(&b);
	} else if (is_partial(call)) {
		move_rest(&b);
	} else if (!is_broken_off(&b)) {
		wait_on_kept(&b);
	} else if (call->wait.limit == IP_WAIT_ENDLESS) {
		do_the_same(&b);
	} else if (call->wait.limit < IP_WAIT_RECEIVE) {
		wait_on(&b);
	} else {
		wait_on_socket(&b);
	}
	*ret_left = b.left;
}

/* To the program the stop is a signal that it does not know of, and that may end a call. So only a
 * call that returns EINTR, and would not have done so without the stop, begins anew. */
void ip_restart_plainly(const struct ip_target *target, pid_t tid, int status)
{
	struct broken b = {.target = (struct ip_target *)target, .tid = tid};
	_cleanup_close_ int socket = -1;
	uint64_t limit = UINT64_MAX;

	if (status >> 16 == PTRACE_EVENT_EXEC || ip_arch_syscall(tid, &b.call) < 0 ||
	    b.call.number < 0 || b.call.wait.limit == IP_WAIT_OTHER || b.call.result != -EINTR ||
	    !is_ours(tid, status))
		return;
	if (b.call.wait.limit >= IP_WAIT_RECEIVE) {
		socket = target ? borrow_socket(&b) : -1;
		if (read_limit(&b, socket, &limit) < 0 || limit == NO_DEADLINE)
			return;
	} else if (read_limit(&b, -1, &limit) < 0) {
		limit = UINT64_MAX;
	}
	ip_arch_restart_plainly(tid);
	if (target && b.call.wait.limit != IP_WAIT_ENDLESS)
		count_renewed(&b, limit);
}

void ip_restart_release(pid_t tid, const struct ip_time_left *left)
{
	const uint64_t second = left->timeval ? 1000000 : SECOND;
	uint64_t stopped, time[2], all;

	if (!left->address || copy_in(tid, left->address, time, sizeof(time)) < 0 ||
	    time[0] > (uint64_t)INT64_MAX / 2 / SECOND || time[1] >= second)
		return;
	stopped = (now_ns() - left->stopped_ns) / (SECOND / second);
	all = time[0] * second + time[1];
	all = all > stopped ? all - stopped : 0;
	time[0] = all / second;
	time[1] = all % second;
	copy_out(tid, left->address, time, sizeof(time));
}

void ip_restart_describe(const struct ip_target *target, char *ret, size_t size)
{
	const char *name = target->arch->bits == 32
				   ? NULL
				   : ip_arch_wait_name(ip_stops_of(target)->renewed.number);

	if (name)
		snprintf(ret, size, "thread %s in %s",
			 IP_THREAD_TEXT(ip_stops_of(target)->renewed.tid), name);
	else
		snprintf(ret, size, "thread %s in system call %ld",
			 IP_THREAD_TEXT(ip_stops_of(target)->renewed.tid),
			 ip_stops_of(target)->renewed.number);
}
