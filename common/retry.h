/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retrying what fails while a session lasts: no real-time priority on a busy machine, a thread that
 * cannot stop, a library that is gone before it goes live. For ten seconds the retries come soon
 * and in silence. Then the failure is reported, once, and the retries come once a second.
 */
#ifndef IP_RETRY_H
#define IP_RETRY_H

#include <stdbool.h>
#include <stdint.h>

struct ip_retry {
	uint64_t failing_ns; /* since when it has failed; 0: it worked last time */
	bool told;
};

/* The try has failed again. began_ns: when the try began. Returns the time of the next try.
 * *ret_tell: the caller must report the failure now, and set told. */
uint64_t ip_retry_failed(struct ip_retry *retry, uint64_t began_ns, bool *ret_tell);

/* The try has worked. Returns whether a failure was reported before. */
bool ip_retry_worked(struct ip_retry *retry);

#endif
