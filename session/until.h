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
/* Looks at what is due. IP_END_NONE: the session goes on; IP_END_UNTIL: it ends, and the summary
 * says which condition was met. Where the session is to linger the summary says it before. */
enum ip_end_reason ip_until_step(struct ip_session *s);
void ip_until_destroy(struct ip_until *until);

#endif
