/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The duties of a session's probes (--payload P[:SEL]), function by function.
 *
 *   log            each event goes to the trace
 *   count          calls are counted; only entry probes go live
 *   hist           durations are put into a histogram
 *   user:FILE      a shared object of the user is called (user_payload.h); one per session
 *
 * A rule with a selection applies to the functions that it selects. A rule without one applies to
 * all functions that no other rule names; if there is no such rule, their events are logged. Two
 * rules that name the same function and give it different duties contradict each other. This is an
 * error when the session begins. For functions that come later (a library, a second attach), the
 * first rule decides.
 */
#ifndef IP_PAYLOAD_RULES_H
#define IP_PAYLOAD_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/selection/selection.h"
#include "hotpatcher/plan/selections.h"

struct ip_payload_rule {
	char *text;			/* with its option, for messages: "--payload hist:SEL" */
	uint32_t duty;			/* enum ip_duty */
	struct ip_selection *selection; /* NULL: all other functions */
	size_t functions;		/* how many functions it has applied to */
};

struct ip_payload_rules {
	struct ip_payload_rule *items;
	size_t n;
	char *object; /* absolute path of the file of user rules; NULL: there are none */
};

/* Parses "P[:SEL]" and adds it as a rule. Returns -1 with an error: it is no rule, or there already
 * is a rule without a selection. */
int ip_payload_rules_add(struct ip_payload_rules *rules, const char *text);
/* Has messages call the rule that was added last by another option. Returns -1 with an error. */
int ip_payload_rules_call(struct ip_payload_rules *rules, const char *option, const char *text);
void ip_payload_rules_clear(struct ip_payload_rules *rules);

/* Returns whether any function may have a duty other than log. rules may be NULL. */
bool ip_payload_rules_matter(const struct ip_payload_rules *rules);

/* Returns whether durations of any function may be measured, now or later. rules may be NULL. */
bool ip_payload_rules_measure(const struct ip_payload_rules *rules);

/* Returns whether calls of any function may be counted or measured instead of logged. rules may be
 * NULL. */
bool ip_payload_rules_count(const struct ip_payload_rules *rules);

/* Returns whether no function of a session that begins with the rules and functions (see
 * ip_payload_rules_select()) is logged, whatever is loaded later. rules may be NULL. */
bool ip_payload_rules_never_log(const struct ip_payload_rules *rules, const char *functions);

/* Has the functions that are measured logged as well. */
void ip_payload_rules_log_too(struct ip_payload_rules *rules);

/* Returns the rule for a function; NULL: log. *ret_other: another rule that names the function and
 * contradicts, or NULL. The other arguments are those of ip_selection_match(). */
struct ip_payload_rule *ip_payload_rules_find(const struct ip_payload_rules *rules,
					      const char *linker_name, const char *file,
					      const char *module,
					      const struct ip_payload_rule **ret_other);

/* Returns the first rule with a selection that has applied to no function; NULL: none. */
const struct ip_payload_rule *ip_payload_rules_unused(const struct ip_payload_rules *rules);

/* Adds the selections that a session begins with. This is functions; or, if functions is NULL and
 * each rule has a selection, the selections of all rules. If a rule's functions are logged as well,
 * the session begins with all functions, since the others are logged, too. */
int ip_payload_rules_select(const struct ip_payload_rules *rules, const char *functions,
			    struct ip_selections *ret);

/* Returns the name of an enum ip_duty: "log", "count", "hist"... */
const char *ip_duty_name(uint32_t duty);

#endif
