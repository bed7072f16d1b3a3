/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trying again what fails while a session lasts: soon and in silence for ten seconds (no real-time
 * priority on a busy machine, a thread that cannot stop, a library that is gone before it goes
 * live); then it is told, once, and the tries come once a second.
 */
#ifndef IP_RETRY_H
#define IP_RETRY_H

#include <stdbool.h>
#include <stdint.h>

struct ip_retry {
	uint64_t failing_ns; /* since when; 0: it worked last time */
	bool told;
};

/* It has failed again; began_ns: when the try did. When to try next. *ret_tell: now is the time to
 * say so; set told then. */
uint64_t ip_retry_failed(struct ip_retry *retry, uint64_t began_ns, bool *ret_tell);

/* It has worked. Whether a failure was told before. */
bool ip_retry_worked(struct ip_retry *retry);

#endif
