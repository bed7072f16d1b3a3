/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits of x86-64 system calls (hotpatcher/arch/waits.h): the calls that wait, and how a call on a
 * socket is made only when the socket is ready.
 */
#ifndef IP_X86_64_WAITS_H
#define IP_X86_64_WAITS_H

#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include "common/abi/restart.h"
#include "hotpatcher/arch/waits.h"

#define IP_ARCH_CALL_LENGTH 2 /* length of the instruction `syscall` */

#define IP_ARCH_RESTART_UNLESS_HANDLER (-514l) /* ERESTARTNOHAND */

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

static inline void ip_arch_arguments(const struct user_regs_struct *r, uint64_t *ret)
{
	const uint64_t arguments[6] = {r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9};

	memcpy(ret, arguments, sizeof(arguments));
}

static inline void ip_arch_set_arguments(struct user_regs_struct *r, const uint64_t *arguments)
{
	r->rdi = arguments[0];
	r->rsi = arguments[1];
	r->rdx = arguments[2];
	r->r10 = arguments[3];
	r->r8 = arguments[4];
	r->r9 = arguments[5];
}

/* If there is no limit, the call is endless. */
static inline struct ip_wait ip_wait_by_pointer(const uint64_t *args, unsigned i,
						enum ip_wait_limit limit)
{
	return (struct ip_wait){args[i] ? limit : IP_WAIT_ENDLESS, i};
}

static inline struct ip_wait ip_arch_wait(long number, const uint64_t *args)
{
	switch (number) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (struct ip_wait){(int)args[3] < 0 ? IP_WAIT_ENDLESS : IP_WAIT_MILLISECONDS,
					3};
	case SYS_epoll_pwait2:
	case SYS_semtimedop:
		return ip_wait_by_pointer(args, 3, IP_WAIT_TIMESPEC);
	case SYS_rt_sigtimedwait:
	/* ppoll, pselect6 and select: only if the kernel cannot write the rest of the limit back to
	 * the program */
	case SYS_ppoll:
		return ip_wait_by_pointer(args, 2, IP_WAIT_TIMESPEC);
	case SYS_pselect6:
		return ip_wait_by_pointer(args, 4, IP_WAIT_TIMESPEC);
	case SYS_select:
		return ip_wait_by_pointer(args, 4, IP_WAIT_TIMEVAL);
	case SYS_io_getevents:
	case SYS_io_pgetevents:
		return ip_wait_by_pointer(args, 4, IP_WAIT_TIMESPEC);
	case SYS_semop:
		return (struct ip_wait){IP_WAIT_ENDLESS, 0};
	case SYS_io_uring_enter: /* only if it just waits: nothing to submit, no limit */
		return (struct ip_wait){
			!args[1] && (args[3] & (IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG)) ==
						IORING_ENTER_GETEVENTS
				? IP_WAIT_ENDLESS
				: IP_WAIT_OTHER,
			0};
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_accept:
	case SYS_accept4:
		return (struct ip_wait){IP_WAIT_RECEIVE, 0};
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_connect:
		return (struct ip_wait){IP_WAIT_SEND, 0};
	}
	return (struct ip_wait){IP_WAIT_OTHER, 0};
}

/* Returns the call's name; NULL: it is none of these calls. */
static inline const char *ip_arch_wait_name(long number)
{
	static const struct {
		long number;
		const char *name;
	} names[] = {
		{SYS_epoll_wait, "epoll_wait"},
		{SYS_epoll_pwait, "epoll_pwait"},
		{SYS_epoll_pwait2, "epoll_pwait2"},
		{SYS_semtimedop, "semtimedop"},
		{SYS_rt_sigtimedwait, "rt_sigtimedwait"},
		{SYS_ppoll, "ppoll"},
		{SYS_pselect6, "pselect6"},
		{SYS_select, "select"},
		{SYS_io_getevents, "io_getevents"},
		{SYS_io_pgetevents, "io_pgetevents"},
		{SYS_read, "read"},
		{SYS_readv, "readv"},
		{SYS_recvfrom, "recvfrom"},
		{SYS_recvmsg, "recvmsg"},
		{SYS_recvmmsg, "recvmmsg"},
		{SYS_accept, "accept"},
		{SYS_accept4, "accept4"},
		{SYS_write, "write"},
		{SYS_writev, "writev"},
		{SYS_sendto, "sendto"},
		{SYS_sendmsg, "sendmsg"},
		{SYS_sendmmsg, "sendmmsg"},
		{SYS_connect, "connect"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].number == number)
			return names[i].name;
	return NULL;
}

/* Returns whether the call starts again by itself, but with its whole limit. */
static inline bool ip_arch_restarts_anew(long number)
{
	return number == SYS_io_pgetevents;
}

/* Returns whether the call, after it has moved n bytes, is to move more: without the stop it would
 * not have returned yet. */
static inline bool ip_arch_is_partial(long number, const uint64_t *args, long n)
{
	const bool some = n > 0 && (uint64_t)n < args[2] && args[2] < INT64_MAX;

	return some &&
	       (number == SYS_write || (number == SYS_sendto && !(args[3] & MSG_DONTWAIT)) ||
		(number == SYS_recvfrom && (args[3] & MSG_WAITALL) &&
		 !(args[3] & (MSG_DONTWAIT | MSG_PEEK))));
}

/* Makes the call that moves the bytes after the first n. It waits as the original call did. */
static inline void ip_arch_rest_of_call(long number, const uint64_t *args, long n,
					struct ip_restart *restart)
{
	restart->rest[0] = number;
	memcpy(restart->rest + 1, args, 6 * sizeof(*args));
	restart->rest[2] += n;
	restart->rest[3] -= n;
	restart->part = n;
	restart->all = 1;
	restart->tries = 1;
}

/* Makes the same as ip_arch_rest_of_call(), but with ppoll() first, then the call on a socket
 * without waiting. n may be 0: the original call has moved nothing yet. Returns whether this is
 * possible: after ppoll() has reported the socket as ready, the call must not wait, and nothing
 * else may be different from the original call. */
static inline bool ip_arch_poll_first(long number, const uint64_t *args, long n, int domain,
				      int type, struct ip_restart *restart)
{
	const uint64_t receive_flags = MSG_PEEK | MSG_TRUNC | MSG_WAITALL | MSG_CMSG_CLOEXEC,
		       send_flags = MSG_NOSIGNAL | MSG_MORE;
	const bool stream = type == SOCK_STREAM, internet = domain == AF_INET || domain == AF_INET6,
		   known = internet || domain == AF_UNIX || domain == AF_NETLINK;
	uint64_t flags;

	restart->limit_error = -EAGAIN;
	restart->poll_fd = args[0];
	ip_arch_rest_of_call(number, args, 0, restart);
	restart->all = 0;
	switch (number) {
	case SYS_read: /* of a socket: becomes recv() */
		restart->rest[0] = SYS_recvfrom;
		restart->rest[4] = restart->rest[5] = restart->rest[6] = 0;
		/* fall through */
	case SYS_recvfrom:
		flags = restart->rest[4];
		restart->rest[4] |= MSG_DONTWAIT;
		restart->all = stream && (flags & MSG_WAITALL) && !(flags & MSG_PEEK);
		restart->poll_events = POLLIN;
		break;
	case SYS_recvmsg:
		flags = restart->rest[3];
		if (flags & MSG_WAITALL)
			return false;
		restart->rest[3] |= MSG_DONTWAIT;
		restart->poll_events = POLLIN;
		break;
	case SYS_accept:
	case SYS_accept4:
		restart->poll_events = POLLIN;
		flags = 0;
		break;
	case SYS_write:
		restart->rest[0] = SYS_sendto;
		restart->rest[4] = restart->rest[5] = restart->rest[6] = 0;
		/* fall through */
	case SYS_sendto:
		flags = restart->rest[4];
		restart->rest[4] |= MSG_DONTWAIT;
		restart->all = stream;
		restart->poll_events = POLLOUT;
		if (!stream && !internet)
			return false; /* the socket may be ready while the receiver is not */
		break;
	case SYS_connect:
		restart->poll_events = POLLOUT;
		restart->limit_error = -EINPROGRESS;
		if (!stream || !internet)
			return false;
		flags = 0;
		break;
	default:
		return false;
	}
	if (n) {
		restart->rest[2] += n;
		restart->rest[3] -= n;
		restart->part = n;
	}
	restart->tries = 64;
	return known && !(flags & ~(restart->poll_events == POLLIN ? receive_flags : send_flags));
}

/* Sets the registers of a thread so that it makes the call again. behind: the address after the
 * call's instruction. The kernel starts the call anew, unless a signal comes first. */
static inline void ip_arch_do_restart(struct user_regs_struct *r, long number, uint64_t behind)
{
	r->orig_rax = number;
	r->rax = IP_ARCH_RESTART_UNLESS_HANDLER;
	r->rip = behind;
}

static inline void ip_arch_do_poll(struct user_regs_struct *r, uint64_t restart, uint64_t behind)
{
	const uint64_t arguments[6] = {restart + offsetof(struct ip_restart, poll_fd), 1,
				       restart + offsetof(struct ip_restart, time), 0, 8};

	ip_arch_set_arguments(r, arguments);
	ip_arch_do_restart(r, SYS_ppoll, behind);
}

#endif
