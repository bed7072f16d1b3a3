/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe darc --handover 'GIVER(VALUE)=SERVER(VALUE)': how work goes to other threads.
 */
#ifndef IP_CLI_DARC_HANDOVERS_H
#define IP_CLI_DARC_HANDOVERS_H

#include "cli/darc/darc_load.h"
#include "cli/darc/darc_names.h"
#include "common/values/value_request.h"

#define CLI_DARC_HANDOVERS_MOST 16u

/* Texts of the option, borrowed. */
struct cli_darc_handovers {
	const char *texts[CLI_DARC_HANDOVERS_MOST];
	size_t n;
	struct ip_handover_rule *rules; /* by text, once they have been found */
	/* of a process: the functions, by their linker names, and what is recorded of them */
	struct cli_darc_names names;
	struct ip_value_requests requests;
	char *functions[2 * CLI_DARC_HANDOVERS_MOST]; /* selections: giver, server of each text */
};

/* Takes optarg. Returns -1, or the exit code after a message. */
int cli_darc_handovers_take(const char *command, struct cli_darc_handovers *handovers);
/* Finds the functions and values in a trace, and has the search follow them. Returns 0, or -1 with
 * an error: there is no such function, or none has such a value. What was found before is
 * forgotten. The caller clears the handovers in any case, after the search. */
int cli_darc_handovers_find(struct cli_darc_handovers *handovers,
			    const struct cli_darc_trace *trace, struct ip_darc_options *options);
/* Finds the functions in a process, and makes requests for their values. f0: the selection of F0,
 * which is no part of names. Returns 0, or -1 with an error: there is no such function, or several.
 */
int cli_darc_handovers_find_live(struct cli_darc_handovers *handovers, pid_t pid, const char *f0);
/* Tells of functions that were not seen with their values in the last search. */
void cli_darc_handovers_tell_unseen(const struct cli_darc_handovers *handovers);
void cli_darc_handovers_clear(struct cli_darc_handovers *handovers);

#endif
