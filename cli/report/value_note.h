/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reports by value say of values that have no row of their own.
 */
#ifndef IP_CLI_VALUE_NOTE_H
#define IP_CLI_VALUE_NOTE_H

#include "analysis/profile/value_groups.h"

/* Prints how many calls the rows of (others) stand for, if there are any, and what shows them. by
 * is the figure by which values were chosen; NULL: those that were recorded first. */
void cli_value_note(const struct ip_value_groups *values, const char *by);

#endif
