/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits of i386 system calls (hotpatcher/arch/waits.h), as a 64-bit tracer sees them: with the
 * numbers of i386, and with arguments in ebx, ecx, edx, esi, edi, ebp.
 */
#ifndef IP_I386_WAITS_H
#define IP_I386_WAITS_H

#include <stdbool.h>
#include <string.h>
#include <sys/user.h>

#include "hotpatcher/arch/waits.h"

/* The code segment of 32-bit programs (asm/segment.h: __USER32_CS). */
#define IP_I386_CODE_SEGMENT 0x23

/* Numbers of asm/unistd_32.h, which a 64-bit program cannot include beside its own */
enum {
	IP_I386_READ = 3,
	IP_I386_WRITE = 4,
	IP_I386_IPC = 117,
	IP_I386_RT_SIGTIMEDWAIT = 177,
	IP_I386_IO_GETEVENTS = 247,
	IP_I386_EPOLL_WAIT = 256,
	IP_I386_EPOLL_PWAIT = 319,
	IP_I386_CONNECT = 362,
	IP_I386_ACCEPT4 = 364,
	IP_I386_SENDTO = 369,
	IP_I386_SENDMSG = 370,
	IP_I386_RECVFROM = 371,
	IP_I386_RECVMSG = 372,
	IP_I386_SEMTIMEDOP_TIME64 = 420,
	IP_I386_RT_SIGTIMEDWAIT_TIME64 = 421,
	IP_I386_EPOLL_PWAIT2 = 441,
	/* first argument of ipc (linux/ipc.h) */
	IP_I386_SEMOP = 1,
	IP_I386_SEMTIMEDOP = 4,
};

static inline void ip_i386_arguments(const struct user_regs_struct *r, uint64_t *ret)
{
	const uint64_t arguments[6] = {(uint32_t)r->rbx, (uint32_t)r->rcx, (uint32_t)r->rdx,
				       (uint32_t)r->rsi, (uint32_t)r->rdi, (uint32_t)r->rbp};

	memcpy(ret, arguments, sizeof(arguments));
}

static inline void ip_i386_set_arguments(struct user_regs_struct *r, const uint64_t *arguments)
{
	r->rbx = arguments[0];
	r->rcx = arguments[1];
	r->rdx = arguments[2];
	r->rsi = arguments[3];
	r->rdi = arguments[4];
	r->rbp = arguments[5];
}

static inline struct ip_wait ip_i386_wait(long number, const uint64_t *args)
{
	struct ip_wait ret = {IP_WAIT_OTHER, 0};

	switch (number) {
	case IP_I386_EPOLL_WAIT:
	case IP_I386_EPOLL_PWAIT:
		return (struct ip_wait){
			(int32_t)args[3] < 0 ? IP_WAIT_ENDLESS : IP_WAIT_MILLISECONDS, 3};
	case IP_I386_EPOLL_PWAIT2:
	case IP_I386_SEMTIMEDOP_TIME64:
		ret = (struct ip_wait){IP_WAIT_TIMESPEC, 3};
		break;
	case IP_I386_RT_SIGTIMEDWAIT:
		ret = (struct ip_wait){IP_WAIT_TIMESPEC32, 2};
		break;
	case IP_I386_RT_SIGTIMEDWAIT_TIME64:
		ret = (struct ip_wait){IP_WAIT_TIMESPEC, 2};
		break;
	case IP_I386_IO_GETEVENTS:
		ret = (struct ip_wait){IP_WAIT_TIMESPEC32, 4};
		break;
	case IP_I386_IPC:
		if ((args[0] & 0xffff) == IP_I386_SEMTIMEDOP)
			ret = (struct ip_wait){IP_WAIT_TIMESPEC32, 5};
		else if ((args[0] & 0xffff) == IP_I386_SEMOP)
			ret = (struct ip_wait){IP_WAIT_ENDLESS, 0};
		break;
	case IP_I386_READ:
	case IP_I386_ACCEPT4:
	case IP_I386_RECVFROM:
	case IP_I386_RECVMSG:
		return (struct ip_wait){IP_WAIT_RECEIVE, 0};
	case IP_I386_WRITE:
	case IP_I386_CONNECT:
	case IP_I386_SENDTO:
	case IP_I386_SENDMSG:
		return (struct ip_wait){IP_WAIT_SEND, 0};
	}
	if ((ret.limit == IP_WAIT_TIMESPEC || ret.limit == IP_WAIT_TIMESPEC32) &&
	    !args[ret.argument])
		ret.limit = IP_WAIT_ENDLESS;
	return ret;
}

#endif
