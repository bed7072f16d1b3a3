/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a system call waits, as far as a stop cannot interrupt it without the program noticing. After
 * any stop such a call returns EINTR, even if no signal has a handler, or it returns the number of
 * bytes that it has transferred so far (signal(7)). All other calls start again by themselves, with
 * what is left of their time limit: nanosleep, poll and futex by a restart block, calls with
 * absolute limits by nature.
 */
#ifndef IP_WAITS_H
#define IP_WAITS_H

#include <stdbool.h>
#include <stdint.h>

enum ip_wait_limit {
	IP_WAIT_OTHER = 0,    /* not treated here */
	IP_WAIT_ENDLESS,      /* no limit: the call may simply start again */
	IP_WAIT_MILLISECONDS, /* an int; negative: no limit */
	IP_WAIT_TIMESPEC,     /* the address of a struct timespec; 0: no limit */
	IP_WAIT_TIMESPEC32,   /* the same with two 32-bit numbers */
	IP_WAIT_TIMEVAL,
	IP_WAIT_RECEIVE, /* the socket's SO_RCVTIMEO, if the descriptor is a socket */
	IP_WAIT_SEND,	 /* the socket's SO_SNDTIMEO */
};

struct ip_wait {
	enum ip_wait_limit limit;
	unsigned argument; /* index of the argument that holds the limit, or the socket */
};

#endif
