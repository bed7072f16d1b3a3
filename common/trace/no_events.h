/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a recording has no events, as far as that is proved: summaries and traces contain it.
 */
#ifndef IP_NO_EVENTS_H
#define IP_NO_EVENTS_H

#include <stddef.h>

#define IP_NO_EVENTS_MAX 5

struct ip_no_events_reason {
	const char *code; /* one word for scripts; static text */
	char text[320];	  /* one line for people */
};

/* All zero at first: there are events, or nothing is known. */
struct ip_no_events {
	struct ip_no_events_reason items[IP_NO_EVENTS_MAX];
	size_t n;
};

/* Adds a reason; beyond IP_NO_EVENTS_MAX it is left out. code is static text. */
void ip_no_events_add(struct ip_no_events *reasons, const char *code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
