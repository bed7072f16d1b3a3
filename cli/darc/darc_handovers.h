/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe darc --handover 'GIVER(VALUE)=SERVER(VALUE)': how work goes to other threads.
 */
#ifndef IP_CLI_DARC_HANDOVERS_H
#define IP_CLI_DARC_HANDOVERS_H

#include "cli/darc/darc_load.h"

#define CLI_DARC_HANDOVERS_MOST 16u

/* Texts of the option, borrowed. */
struct cli_darc_handovers {
	const char *texts[CLI_DARC_HANDOVERS_MOST];
	size_t n;
	struct ip_handover_rule *rules; /* by text, once they have been found */
};

/* Takes optarg. Returns -1, or the exit code after a message. */
int cli_darc_handovers_take(const char *command, struct cli_darc_handovers *handovers);
/* Finds the functions and values in a trace, and has the search follow them. Returns 0, or -1 with
 * an error: there is no such function, or none has such a value. The caller clears the handovers in
 * any case, after the search. */
int cli_darc_handovers_find(struct cli_darc_handovers *handovers,
			    const struct cli_darc_trace *trace, struct ip_darc_options *options);
void cli_darc_handovers_clear(struct cli_darc_handovers *handovers);

#endif
