/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where rules keep what they record: DIR/RULE/TIME-PID/, with why.txt, and trace/ (or fperf.json)
 * in it.
 *
 * TIME is 20261122T153110.123Z, so names in their order are in the order of time, and a new iprobed
 * knows from them when a rule has fired. No rule has more on disk than it may: room is made before
 * a session begins, by removing the oldest; and the session gets a limit.
 */
#ifndef IP_RULES_STORE_H
#define IP_RULES_STORE_H

#include <stdint.h>
#include <sys/types.h>

#include "config/rule.h"
#include "iprobed/rules/rate_limit.h"

/* Makes DIR if need be. Only root, or who we are, may be able to write there. 0, or -1 with an
 * error. */
int ip_rules_store_open(const char *dir);

/* Takes the times out of the names that are there into the history, as of a clock that says now_ns
 * now. */
void ip_rules_store_history(const char *dir, const char *rule, uint64_t now_ns,
			    struct ip_rules_history *ret);

/* Removes the oldest until no more than a half of what the rule may have is used. *ret_removed: how
 * many. 0 or -1. */
int ip_rules_store_make_room(const char *dir, const struct ip_rules_rule *rule,
			     unsigned *ret_removed);

/* Makes the directory for one more, and why.txt. *ret_path: malloc'ed. 0, or -1 with an error. */
int ip_rules_store_begin(const char *dir, const struct ip_rules_rule *rule, pid_t pid,
			 const char *exe, const char *cmdline, const char *why, char **ret_path);

/* Where a session of the rule may write what is not to be kept yet: DIR/RULE/.recorder-PID, which
 * does not exist then. *ret_path: malloc'ed. 0 or -1. */
int ip_rules_store_begin_recorder(const char *dir, const struct ip_rules_rule *rule, pid_t pid,
				  char **ret_path);
/* It is kept, as PATH/trace. 0, or -1 with an error. */
int ip_rules_store_keep_recorder(const char *recorder, const char *path);
/* Removes those that nobody writes to any more. */
void ip_rules_store_remove_recorders(const char *dir, const struct ip_rules_rule *rule);

/* A line more for why.txt. */
void ip_rules_store_note(const char *path, const char *line);

/* Removes a directory with all that is in it. */
void ip_rules_store_remove(const char *path);

#endif
