/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the probes of a session do (--payload P[:SEL]), function by function.
 *
 *   log            each event goes to the trace
 *   count          calls are counted; entry probes alone go live
 *   hist           durations are put into a histogram
 *   user:FILE      a shared object of the user's is called (user_payload.h); one a session
 *
 * A rule with a selection is for what that selects; one without is for everything that no other
 * rule names; where there is none that is log. Two rules that name the same function and want
 * different things of it contradict each other: an error where the session begins; of what comes
 * later (a library, a second attach) the first has its way.
 */
#ifndef IP_PAYLOAD_RULES_H
#define IP_PAYLOAD_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/selection/selection.h"
#include "hotpatcher/plan/selections.h"

struct ip_payload_rule {
	char *text;			/* as it was given, for messages */
	uint32_t duty;			/* enum ip_duty */
	struct ip_selection *selection; /* NULL: everything else */
	size_t functions;		/* that it has been for */
};

struct ip_payload_rules {
	struct ip_payload_rule *items;
	size_t n;
	char *object; /* of user rules: the file, absolute; NULL: there is none */
};

/* Parses "P[:SEL]" as one rule more. -1 with an error: it is none, or there is one without a
 * selection already. */
int ip_payload_rules_add(struct ip_payload_rules *rules, const char *text);
void ip_payload_rules_clear(struct ip_payload_rules *rules);

/* Whether any function may do something else than log. rules may be NULL. */
bool ip_payload_rules_matter(const struct ip_payload_rules *rules);

/* Whether durations of any function may be measured, now or later. rules may be NULL. */
bool ip_payload_rules_measure(const struct ip_payload_rules *rules);

/* Whether calls of any function may be counted or measured instead of logged. rules may be NULL. */
bool ip_payload_rules_count(const struct ip_payload_rules *rules);

/* What is measured is to be logged as well. */
void ip_payload_rules_log_too(struct ip_payload_rules *rules);

/* The rule for a function; NULL: log. *ret_other: another one that names it and contradicts, or
 * NULL. Arguments as of ip_selection_match(). */
struct ip_payload_rule *ip_payload_rules_find(const struct ip_payload_rules *rules,
					      const char *linker_name, const char *file,
					      const char *module,
					      const struct ip_payload_rule **ret_other);

/* The first rule with a selection that has been for no function; NULL: none. */
const struct ip_payload_rule *ip_payload_rules_unused(const struct ip_payload_rules *rules);

/* The selections that a session begins with: functions; or, where that is NULL and each rule has
 * a selection, all of theirs (but for what is logged as well: others are, too). */
int ip_payload_rules_select(const struct ip_payload_rules *rules, const char *functions,
			    struct ip_selections *ret);

/* "log", "count", "hist"... of an enum ip_duty. */
const char *ip_duty_name(uint32_t duty);

#endif
