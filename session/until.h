/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ending a session when a condition holds (--until; common/condition.h): its functions are
 * measured, and looked at four times in each while.
 */
#ifndef IP_UNTIL_H
#define IP_UNTIL_H

#include "common/condition.h"

struct ip_session;
struct ip_plan;
struct ip_until;

/* The functions of a plan, which has been bound, are watched where a condition names them. 0, or -1
 * with an error. */
int ip_until_plan(struct ip_session *s, const struct ip_plan *plan);
/* Now and then. NULL: go on; else why the session ends, in the summary, says which condition it
 * was. That is known (summary->until) before the session ends, where it is to linger. */
const char *ip_until_step(struct ip_session *s);
void ip_until_destroy(struct ip_until *until);

#endif
