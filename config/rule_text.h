/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rule was understood to say, for people.
 */
#ifndef IP_RULE_TEXT_H
#define IP_RULE_TEXT_H

#include "config/rule.h"

/* Returns two lines without the last newline: condition and action; limits. The caller frees the
 * text. NULL: out of memory. */
char *ip_rules_text(const struct ip_rules_rule *rule);

#endif
