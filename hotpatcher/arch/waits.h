/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kind of waiting a system call does, as far as a stop cannot break it off unnoticed: it
 * returns EINTR after any stop, even where no signal has a handler, or what it has transferred so
 * far (signal(7)). All others start again by themselves, with what is left of their time limit:
 * nanosleep, poll, futex by a restart block, calls with absolute limits by nature.
 */
#ifndef IP_WAITS_H
#define IP_WAITS_H

#include <stdbool.h>
#include <stdint.h>

enum ip_wait_limit {
	IP_WAIT_OTHER = 0,    /* not our concern */
	IP_WAIT_ENDLESS,      /* no limit: may simply start again */
	IP_WAIT_MILLISECONDS, /* an int, negative: none */
	IP_WAIT_TIMESPEC,     /* the address of a struct timespec, 0: none */
	IP_WAIT_TIMESPEC32,   /* of two 32-bit numbers */
	IP_WAIT_TIMEVAL,
	IP_WAIT_RECEIVE, /* the socket's SO_RCVTIMEO, if it is a socket */
	IP_WAIT_SEND,	 /* SO_SNDTIMEO */
};

struct ip_wait {
	enum ip_wait_limit limit;
	unsigned argument; /* which one holds the limit, or the socket */
};

#endif
