/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe darc --live: the screen that shows what a search does, and its keys. During the search it
 * shows what iprobe darc --status tells; then what was found, until the user leaves or chooses
 * another peak.
 */
#ifndef IP_CLI_DARC_VIEW_H
#define IP_CLI_DARC_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/darc/darc.h"

#define CLI_DARC_VIEW_PEAKS 9u /* peaks have a key up to this number */

struct cli_darc_view {
	const char *functions; /* F0, as the user has named it; borrowed */
	pid_t pid;
	uint64_t begin_ns; /* of the search */
	/* Private: */
	char *text; /* of the last look or of what was found; NULL: nothing yet */
	bool found; /* it is the latter */
	bool help;
	size_t first; /* line of the text at the top of the screen */
	uint64_t shown_ns;
	char message[96];
};

/* What the user wants. */
enum cli_darc_request {
	CLI_DARC_REQUEST_NONE,
	CLI_DARC_REQUEST_LEAVE,
	CLI_DARC_REQUEST_PEAK,
};

/* Whether stdin and stdout are terminals. Returns 0, or -1 with an error. */
int cli_darc_view_check(void);
/* Takes the terminal: stdin and stdout. functions, pid and begin_ns are to be set. Returns 0, or -1
 * with an error. */
int cli_darc_view_open(struct cli_darc_view *view);
/* Gives it back, and frees what was shown. Does nothing where it is not open. */
void cli_darc_view_close(struct cli_darc_view *view);

/* Shows the state of the search: a document of darc_state.h. */
void cli_darc_view_state(struct cli_darc_view *view, const char *document, size_t size);
/* Shows what was found. Returns 0, or -1 with an error. */
int cli_darc_view_found(struct cli_darc_view *view, const struct cli_darc *d);

/* Waits until until_ns (CLOCK_MONOTONIC) for a key that the search has to know; a signal ends that.
 * The others move the text. profile: whose peaks may be chosen; NULL: none may. *ret_number: of the
 * peak; 0: the rightmost. */
enum cli_darc_request cli_darc_view_wait(struct cli_darc_view *view, uint64_t until_ns,
					 const struct ip_darc_search *profile, size_t *ret_number);

#endif
