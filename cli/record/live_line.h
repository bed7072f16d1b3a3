/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands on stderr while a session works: the line that shows how far it is, and the engine's
 * notices, which take that line's place.
 */
#ifndef IP_CLI_LIVE_LINE_H
#define IP_CLI_LIVE_LINE_H

struct ip_session_progress;

/* From here on notices (common/notice.h) are printed on stderr. */
void cli_print_notices(void);

/* Shows the line; as ip_session_options.on_progress. */
void cli_live_line_show(void *context, const struct ip_session_progress *progress);

/* Takes the line away, if it is shown. */
void cli_live_line_clear(void);

#endif
