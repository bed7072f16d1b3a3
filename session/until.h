/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ending a session when a condition holds (--until; common/condition.h): its functions are
 * measured, and looked at four times in each while.
 */
#ifndef IP_UNTIL_H
#define IP_UNTIL_H

#include "common/condition.h"

struct ip_session;

/* Adds a controller (controller.h) to the session, which ends it when one of the conditions holds:
 * the summary says which one, before the end where the session is to linger (--linger). conditions
 * are borrowed. 0, or -1 with an error. */
int ip_until_add(struct ip_session *s, const struct ip_conditions *conditions);

#endif
