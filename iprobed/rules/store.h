/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where rules keep what they record: DIR/RULE/TIME-PID/, with why.txt, and trace/ (or fperf.json)
 * in it.
 *
 * TIME is 20261122T153110.123Z. So the order of names is the order of time, and a new iprobed
 * learns from the names when a rule has fired. No rule has more on disk than it may. Room is made
 * before a session begins, by removing the oldest directories, and the session gets a limit.
 */
#ifndef IP_RULES_STORE_H
#define IP_RULES_STORE_H

#include <stdint.h>
#include <sys/types.h>

#include "config/rule.h"
#include "iprobed/rules/service.h"

/* Makes DIR if needed. Only root, or the user that iprobed runs as, may be able to write there.
 * Returns 0, or -1 with an error. */
int ip_rules_store_open(const char *dir);

/* Adds what was recorded before: the times of the existing names, for the services that stand in
 * why.txt. now_ns: the present time on the clock of the services. */
void ip_rules_store_history(const char *dir, const struct ip_rules_rule *rule, uint64_t now_ns,
			    struct ip_rules_services *ret);

/* Removes the oldest directories until at most half of the rule's disk space is used. *ret_removed:
 * number of removed directories. Returns 0 or -1. */
int ip_rules_store_make_room(const char *dir, const struct ip_rules_rule *rule,
			     unsigned *ret_removed);

/* Makes one more directory, with why.txt. service: NULL: not known. *ret_path: its path; the caller
 * frees it. Returns 0, or -1 with an error. */
int ip_rules_store_begin(const char *dir, const struct ip_rules_rule *rule, pid_t pid,
			 const char *exe, const char *cmdline, const char *service, const char *why,
			 char **ret_path);

/* Names the place where a session of the rule may write a trace that is not to be kept yet:
 * DIR/RULE/.recorder-PID. It does not exist afterwards. *ret_path: the caller frees it. Returns 0
 * or -1. */
int ip_rules_store_begin_recorder(const char *dir, const struct ip_rules_rule *rule, pid_t pid,
				  char **ret_path);
/* Keeps such a trace as PATH/trace. Returns 0, or -1 with an error. */
int ip_rules_store_keep_recorder(const char *recorder, const char *path);
/* Removes such traces that no session writes any more. */
void ip_rules_store_remove_recorders(const char *dir, const struct ip_rules_rule *rule);

/* Adds a line to why.txt. */
void ip_rules_store_note(const char *path, const char *line);

/* Removes a directory with everything in it. */
void ip_rules_store_remove(const char *path);

#endif
