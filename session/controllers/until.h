/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a session when a condition holds (--until; common/condition.h). The functions of a condition
 * are measured. They are looked at four times in each period that the condition names; which
 * periods are judged tells common/condition_history.h.
 */
#ifndef IP_UNTIL_H
#define IP_UNTIL_H

#include "common/condition.h"

struct ip_modules;
struct ip_session;
struct ip_session_summary;

/* Adds a controller (controller.h) to the session, which ends the session when one of the
 * conditions holds. The summary tells which condition that is; if the session is to linger
 * (--linger), it tells so before the end. If none holds, not even at the last look, when the
 * session has ended, the summary tells how near each one came. conditions are borrowed. 0, or -1
 * with an error. */
int ip_until_add(struct ip_session *s, const struct ip_conditions *conditions);

/* A session could not begin: notes in the summary which conditions are for no function of the
 * modules. Without memory it notes none. */
void ip_until_find_absent(const struct ip_conditions *conditions, const struct ip_modules *modules,
			  struct ip_session_summary *summary);

#endif
