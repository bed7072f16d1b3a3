/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters of system calls (seccomp(2)), by which processes of iprobed give up what they never need.
 */
#ifndef IP_CALL_FILTER_H
#define IP_CALL_FILTER_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#define IP_CALL_FILTER_ROOM 256u

/* The instructions so far. The accumulator holds the number of the system call between them. */
struct ip_call_filter {
	struct sock_filter code[IP_CALL_FILTER_ROOM];
	unsigned n; /* more than there is room for: it cannot be put in force */
};

/* Begins a filter: calls of another architecture, or of x32, kill the process. */
void ip_call_filter_begin(struct ip_call_filter *f);
void ip_call_filter_put(struct ip_call_filter *f, struct sock_filter instruction);
/* The calls of a list end with an action (SECCOMP_RET_*). */
void ip_call_filter_list(struct ip_call_filter *f, const unsigned short *calls, size_t ncalls,
			 uint32_t action);
/* All other calls end with an action. Puts the filter in force for this process, for ever. Returns
 * 0, or -1 with an error; who: "the reader of kernel events". */
int ip_call_filter_end(struct ip_call_filter *f, uint32_t action, const char *who);

#endif
