/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function waits for, in the place of a view of iprobe tui. The trace is read for it when it
 * is first asked for.
 */
#ifndef IP_CLI_TUI_WAITS_H
#define IP_CLI_TUI_WAITS_H

#include "cli/tui/tui.h"

/* Shows the waits of a function from the next picture on, until any key. Where the trace has no
 * events of the kernel, the message tells. */
void cli_tui_waits_show(struct cli_tui *tui, uint32_t function);
/* Prints them in so many lines. */
void cli_tui_waits_draw(const struct cli_tui *tui, FILE *out, size_t lines, size_t columns);
void cli_tui_waits_close(struct cli_tui *tui);

#endif
