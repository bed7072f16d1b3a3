/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several workers would tell of their processes in the same words, told by the first of them
 * only: an item of -f that matches nothing in any.
 */
#ifndef IP_CLI_SHARED_NOTICE_H
#define IP_CLI_SHARED_NOTICE_H

#include <stdbool.h>

/* From here on this process and those that it forks count as one: to be called before they are
 * forked. Where there is no memory, each tells for itself. */
void cli_told_once_begin(void);

/* Whether the text has been told before, in any of them; it counts as told then. */
bool cli_told_before(const char *text);

#endif
