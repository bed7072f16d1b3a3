/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a wait is for whether its thread is idle. idle_waits.h has the rules.
 */
#include "analysis/wait/idle/idle_kind.h"

#include <sys/syscall.h>

#include "analysis/wait/wait_object.h"

#ifndef SYS_futex_wait
#define SYS_futex_wait 455
#endif

bool ip_idle_call_asks(uint16_t number)
{
	const struct ip_thread_call call = {.number = number};

	return ip_wait_is_poll(&call) || number == SYS_accept || number == SYS_accept4;
}

static enum ip_idle_kind kind_of_socket(const struct ip_service_ports *ports,
					const struct ip_wait_object *o, bool reads)
{
	const enum ip_socket_role role =
		o->text ? ip_service_ports_role(ports, o->text) : IP_SOCKET_OTHER;

	if (role == IP_SOCKET_MADE)
		return IP_IDLE_ASKS;
	return !reads || role == IP_SOCKET_ACCEPTED || role == IP_SOCKET_DATAGRAM ||
			       role == IP_SOCKET_WAITS
		       ? IP_IDLE_WORK
		       : IP_IDLE_ASKS;
}

enum ip_idle_kind ip_idle_kind_of(const struct ip_descriptors *descriptors,
				  const struct ip_service_ports *ports, uint32_t pid,
				  const struct ip_thread_wait *wait)
{
	const struct ip_thread_call *call = &wait->call;
	struct ip_wait_object o;

	if (call->number == IP_NO_CALL || call->untold || wait->kind != 'S')
		return IP_IDLE_NONE;
	switch (call->number) {
	case SYS_accept:
	case SYS_accept4:
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
	case SYS_futex_wait:
		return IP_IDLE_WORK;
	case SYS_futex:
		return ip_wait_is_lock(call) ? IP_IDLE_NONE : IP_IDLE_WORK;
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
		return IP_IDLE_SLEEPS;
	case SYS_io_uring_enter:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
		return IP_IDLE_ASKS;
	default:
		break;
	}
	ip_wait_object_of(wait, descriptors, pid, 0, &o);
	if (ip_wait_is_poll(call))
		return o.kind == IP_WAIT_SOCKET ? kind_of_socket(ports, &o, false) : IP_IDLE_WORK;
	switch (call->number) {
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
		return o.kind == IP_WAIT_SOCKET ? kind_of_socket(ports, &o, true)
		       : o.kind == IP_WAIT_PIPE ? IP_IDLE_PIPE
						: IP_IDLE_NONE;
	default:
		return IP_IDLE_NONE;
	}
}
