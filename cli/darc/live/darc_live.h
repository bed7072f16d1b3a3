/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search in a live process: F0 alone is live at first, then the callees that the search has to
 * look at, level by level.
 */
#ifndef IP_CLI_DARC_LIVE_H
#define IP_CLI_DARC_LIVE_H

#include "analysis/darc/search.h"
#include "cli/darc/darc_handovers.h"
#include "cli/darc/darc_resume.h"
#include "cli/darc/live/darc_session.h"
#include "cli/filter_options.h"

struct cli_darc_live_options {
	struct cli_darc_session_options session;
	const struct cli_filter *filter;
	struct ip_darc_options search; /* function is not set */
	uint64_t duration_ns;	       /* the search ends behind it; 0: it takes what it takes */
	size_t max_functions;	       /* live at once beside those of the path */
	struct cli_darc_handovers *handovers; /* cleared in the end */
	struct cli_darc_resume *resume;	      /* keeps the state, and may have one to go on from */
	bool json, quiet;
	bool live;	    /* a view of the search stands on the terminal until the user leaves */
	const char *html;   /* the page that is written, too; NULL: none */
	const char *output; /* the file of the JSON; NULL: all is printed */
};

/* Searches, and prints what was found: as far as it has come where a signal, the time or the end of
 * the process ends it. Returns the exit code, after a message. */
int cli_darc_live(const struct cli_darc_live_options *options);

#endif
