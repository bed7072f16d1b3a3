/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads waited for.
 */
#include "analysis/wait/wait_object.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/thread_states.h"
#include "common/arch/syscalls.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_futex_wait
#define SYS_futex_wait 455
#endif

/* Of the kernel */
#define ERESTARTNOHAND	      514
#define ERESTART_RESTARTBLOCK 516

#define LOCK_CONTENDED 2u /* the value of a lock with waiters: glibc, Rust, Go */

const char *ip_wait_kind_name(enum ip_wait_kind kind)
{
	static const char *const names[IP_WAIT_KINDS] = {
		[IP_WAIT_FILE] = "file",	 [IP_WAIT_SOCKET] = "socket",
		[IP_WAIT_PIPE] = "pipe",	 [IP_WAIT_FUTEX] = "futex",
		[IP_WAIT_CHILD] = "child",	 [IP_WAIT_TIMER] = "timer",
		[IP_WAIT_FAULT] = "fault",	 [IP_WAIT_SIGNAL] = "signal",
		[IP_WAIT_IO_URING] = "io_uring", [IP_WAIT_POLL] = "poll",
		[IP_WAIT_OTHER] = "other"};

	return names[kind];
}

bool ip_wait_is_lock(const struct ip_thread_call *call)
{
	const unsigned operation = call->arguments[1] & FUTEX_CMD_MASK;
	const uint32_t value = call->arguments[2];

	if (call->number != SYS_futex)
		return false;
	if (operation == FUTEX_LOCK_PI || operation == FUTEX_LOCK_PI2)
		return true;
	/* barriers, thread ends, conditions and semaphores wait at other values */
	return (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) &&
	       (value == LOCK_CONTENDED || value & FUTEX_WAITERS);
}

bool ip_wait_tells_owner(const struct ip_thread_call *call, int64_t result)
{
	const unsigned operation = call->arguments[1] & FUTEX_CMD_MASK;

	if (!ip_wait_is_lock(call) || result == -ETIMEDOUT)
		return false;
	if (operation == FUTEX_LOCK_PI || operation == FUTEX_LOCK_PI2)
		return result == 0;
	return (uint32_t)call->arguments[2] == LOCK_CONTENDED;
}

bool ip_wait_is_wake(const struct ip_thread_call *call)
{
	const unsigned operation = call->arguments[1] & FUTEX_CMD_MASK;

	return call->number == SYS_futex &&
	       (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET ||
		operation == FUTEX_UNLOCK_PI);
}

uint64_t ip_wait_woken_word(const struct ip_thread_call *call)
{
	return ip_wait_is_wake(call) && call->arguments[1] & FUTEX_PRIVATE_FLAG ? call->arguments[0]
										: 0;
}

/* The word at which a waker has found a thread that waits for a word of its own process: another
 * one, where the thread was moved there (FUTEX_REQUEUE), or the only one that is told. 0: that is
 * not known. */
static uint64_t woken_at(const struct ip_thread_wait *wait)
{
	const bool own = wait->call.untold || wait->call.arguments[1] & FUTEX_PRIVATE_FLAG;

	return wait->waking.tsc && own ? wait->waking.word : 0;
}

bool ip_wait_is_poll(const struct ip_thread_call *call)
{
	switch (call->number) {
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
		return true;
	default:
		return false;
	}
}

bool ip_wait_is_for_one(const struct ip_thread_call *call)
{
	switch (call->number) {
	case SYS_futex:
	case SYS_futex_wait:
	case SYS_futex_waitv:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
	case SYS_flock:
		return true;
	default:
		return ip_wait_is_poll(call);
	}
}

int32_t ip_wait_call_fd(const struct ip_thread_call *call)
{
	if (call->untold)
		return -1;
	switch (call->number) {
	case SYS_read:
	case SYS_write:
	case SYS_pread64:
	case SYS_pwrite64:
	case SYS_readv:
	case SYS_writev:
	case SYS_preadv:
	case SYS_pwritev:
	case SYS_preadv2:
	case SYS_pwritev2:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
	case SYS_shutdown:
	case SYS_close:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_sync_file_range:
	case SYS_syncfs:
	case SYS_ftruncate:
	case SYS_fallocate:
	case SYS_flock:
	case SYS_fcntl:
	case SYS_ioctl:
	case SYS_getdents64:
	case SYS_getdents:
	case SYS_fstat:
	case SYS_splice:
	case SYS_tee:
	case SYS_vmsplice:
	case SYS_readahead:
		return call->arguments[0] <= INT32_MAX ? (int32_t)call->arguments[0] : -1;
	case SYS_sendfile: /* mostly the file is there, and the other end is waited for */
	case SYS_copy_file_range:
		return call->arguments[0] <= INT32_MAX ? (int32_t)call->arguments[0] : -1;
	default:
		return -1;
	}
}

/* Calls that always work on sockets: what they wait for is known without their descriptor. */
static bool is_socket_call(uint16_t number)
{
	switch (number) {
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
	case SYS_shutdown:
		return true;
	default:
		return false;
	}
}

bool ip_wait_is_open(const struct ip_thread_call *call)
{
	return call->number == SYS_openat || call->number == SYS_open ||
	       call->number == SYS_openat2 || call->number == SYS_creat;
}

/* Calls on files by their paths, but those that open them. */
static bool is_path_call(uint16_t number)
{
	switch (number) {
	case SYS_stat:
	case SYS_lstat:
	case SYS_newfstatat:
	case SYS_statx:
	case SYS_access:
	case SYS_faccessat:
	case SYS_unlink:
	case SYS_unlinkat:
	case SYS_rename:
	case SYS_renameat:
	case SYS_renameat2:
	case SYS_mkdir:
	case SYS_mkdirat:
	case SYS_rmdir:
	case SYS_link:
	case SYS_linkat:
	case SYS_symlink:
	case SYS_symlinkat:
	case SYS_readlink:
	case SYS_readlinkat:
	case SYS_chmod:
	case SYS_fchmodat:
	case SYS_chown:
	case SYS_fchownat:
	case SYS_truncate:
	case SYS_utimensat:
	case SYS_execve:
	case SYS_execveat:
	case SYS_sync:
	case SYS_mount:
	case SYS_umount2:
		return true;
	default:
		return false;
	}
}

static void of_descriptor(struct ip_wait_object *o, const struct ip_descriptors *descriptors,
			  uint32_t pid, int32_t fd, uint64_t tsc, enum ip_wait_kind unknown)
{
	const struct ip_descriptor *d =
		descriptors ? ip_descriptors_find(descriptors, pid, fd, tsc) : NULL;

	o->fd = fd;
	o->kind = descriptors ? ip_descriptors_kind(descriptors, pid, fd, tsc) : IP_WAIT_OTHER;
	if (!d && o->kind == IP_WAIT_OTHER)
		o->kind = unknown;
	o->text = d ? d->text : NULL;
}

static void of_open(struct ip_wait_object *o, const struct ip_thread_wait *wait,
		    const struct ip_descriptors *descriptors, uint32_t pid)
{
	const struct ip_descriptor *d =
		descriptors && wait->returned && wait->result >= 0 && wait->result <= INT32_MAX
			? ip_descriptors_find(descriptors, pid, (int32_t)wait->result, wait->end)
			: NULL;

	o->kind = IP_WAIT_FILE;
	if (d) {
		o->kind = d->kind;
		o->text = d->text;
	} else if (wait->waking.tsc && !wait->waking.context && wait->waking.opens) {
		o->kind = IP_WAIT_PIPE;
	}
}

/* A signal broke the call off; the event has the kernel's own numbers for it. */
static bool is_broken(int64_t result)
{
	return result == -EINTR || result == -ERESTARTNOHAND || result == -ERESTART_RESTARTBLOCK;
}

static void of_poll(struct ip_wait_object *o, const struct ip_thread_wait *wait,
		    const struct ip_descriptors *descriptors, uint32_t pid)
{
	o->kind = IP_WAIT_POLL;
	if (wait->returned && wait->result == 0)
		o->kind = IP_WAIT_TIMER;
	else if (wait->returned && is_broken(wait->result))
		o->kind = IP_WAIT_SIGNAL;
	else if (wait->returned && wait->result > 0 && wait->next_fd >= 0)
		of_descriptor(o, descriptors, pid, wait->next_fd, wait->call.begin, IP_WAIT_POLL);
}

/* Completions: which request was the last one that was waited for is no event. */
static enum ip_wait_kind kind_of_completions(const struct ip_thread_wait *wait)
{
	if (!wait->returned)
		return IP_WAIT_IO_URING;
	if (is_broken(wait->result))
		return IP_WAIT_SIGNAL;
	if (wait->call.number == SYS_io_uring_enter)
		return wait->result == -ETIME ? IP_WAIT_TIMER : IP_WAIT_IO_URING;
	return wait->result == 0 ? IP_WAIT_TIMER : IP_WAIT_IO_URING;
}

/* A wait outside of system calls. */
static void of_no_call(struct ip_wait_object *o, const struct ip_thread_wait *wait)
{
	if (wait->kind == 'T' || wait->kind == 't')
		o->kind = IP_WAIT_SIGNAL;
	else if (wait->fault) {
		o->kind = IP_WAIT_FAULT;
		o->address = wait->fault;
	}
}

/* The path that a call was given, of two the first one. NULL: it has none, or it is not known. */
static const char *path_of(const struct ip_thread_call *call, uint64_t end,
			   const struct ip_call_paths *paths, int32_t tid)
{
	const unsigned arguments = call->untold ? 0 : ip_syscall_path_arguments(call->number);
	const unsigned first = arguments ? __builtin_ctz(arguments) : 0;
	const struct ip_call_path key = {.tid = tid,
					 .number = call->number,
					 .argument = first,
					 .address = call->arguments[first]};

	return arguments ? ip_call_paths_find(paths, &key, call->begin, end) : NULL;
}

static void add_path(struct ip_wait_object *o, const struct ip_thread_wait *wait,
		     const struct ip_descriptors *descriptors, int32_t tid)
{
	if (tid && o->kind == IP_WAIT_FILE && !o->text && descriptors && wait->returned &&
	    wait->call.number != IP_NO_CALL &&
	    (wait->result < 0 || !ip_syscall_path_if_failed(wait->call.number)))
		o->text = path_of(&wait->call, wait->end, &descriptors->paths, tid);
}

void ip_wait_object_of(const struct ip_thread_wait *wait, const struct ip_descriptors *descriptors,
		       uint32_t pid, int32_t tid, struct ip_wait_object *ret)
{
	const struct ip_thread_call *call = &wait->call;
	struct ip_wait_object o = {
		.kind = IP_WAIT_OTHER,
		.fd = -1,
		.call = call->untold && call->number == IP_NO_CALL ? IP_UNTOLD_CALL : call->number};

	if (call->number == IP_NO_CALL || wait->kind == 'T' || wait->kind == 't')
		of_no_call(&o, wait);
	else if (ip_wait_is_poll(call))
		of_poll(&o, wait, descriptors, pid);
	else if (ip_wait_call_fd(call) >= 0)
		of_descriptor(&o, descriptors, pid, ip_wait_call_fd(call), call->begin,
			      is_socket_call(call->number) ? IP_WAIT_SOCKET : IP_WAIT_OTHER);
	else if (ip_wait_is_open(call))
		of_open(&o, wait, descriptors, pid);
	else if (is_path_call(call->number))
		o.kind = IP_WAIT_FILE;
	else
		switch (call->number) {
		case SYS_futex:
			o.kind = IP_WAIT_FUTEX;
			o.address = woken_at(wait) ? woken_at(wait) : call->arguments[0];
			break;
		case SYS_futex_wait:
			o.kind = IP_WAIT_FUTEX;
			o.address = call->arguments[0];
			break;
		case SYS_futex_waitv:
			o.kind = IP_WAIT_FUTEX;
			break;
		case SYS_nanosleep:
		case SYS_clock_nanosleep:
			o.kind = IP_WAIT_TIMER;
			break;
		case SYS_wait4:
		case SYS_waitid:
			o.kind = IP_WAIT_CHILD;
			if (call->number == SYS_wait4 && wait->returned && wait->result > 0)
				o.pid = wait->result;
			else if ((int32_t)call->arguments[call->number == SYS_waitid] > 0)
				o.pid = (int32_t)call->arguments[call->number == SYS_waitid];
			break;
		case SYS_vfork: /* the parent waits for its child to execute a program */
		case SYS_clone:
		case SYS_clone3:
			o.kind = IP_WAIT_CHILD;
			if (wait->returned && wait->result > 0)
				o.pid = wait->result;
			break;
		case SYS_pause:
		case SYS_rt_sigsuspend:
		case SYS_rt_sigtimedwait:
			o.kind = IP_WAIT_SIGNAL;
			break;
		case SYS_io_uring_enter:
		case SYS_io_getevents:
		case SYS_io_pgetevents:
			o.kind = kind_of_completions(wait);
			break;
		case SYS_io_submit:
			o.kind = IP_WAIT_IO_URING;
			break;
		default:
			break;
		}
	add_path(&o, wait, descriptors, tid);
	*ret = o;
}

bool ip_wait_object_same(const struct ip_wait_object *a, const struct ip_wait_object *b)
{
	if (a->kind != b->kind || a->address != b->address || a->pid != b->pid ||
	    a->member != b->member)
		return false;
	if (a->text || b->text)
		return a->text && b->text && !strcmp(a->text, b->text);
	return a->fd == b->fd && a->call == b->call;
}

void ip_wait_object_of_thread(const struct ip_thread_wait *wait,
			      const struct ip_descriptors *descriptors,
			      const struct ip_thread_owners *owners, int32_t tid, uint64_t tsc,
			      struct ip_wait_object *ret)
{
	ip_wait_object_of(wait, descriptors, owners->pid_of(owners->context, tid, tsc), tid, ret);
	ip_wait_object_in(ret, owners->member_of ? owners->member_of(owners->context, tid) : 0);
}
