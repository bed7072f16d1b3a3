/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the filters of a session mean for the figures of a view that adds calls up.
 */
#ifndef IP_CLI_FILTER_NOTE_H
#define IP_CLI_FILTER_NOTE_H

#include <stdio.h>

#include "analysis/read/session.h"

/* Prints a line for each filter of the session that left calls out whose time is in the self time
 * of their callers; each begins with before. */
void cli_filter_note(FILE *out, const char *before, const struct ip_recording *session);

#endif
