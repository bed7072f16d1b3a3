/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of a live search share: darc_live.c looks and decides, darc_live_callees.c tells
 * which functions are to be live.
 */
#ifndef IP_CLI_DARC_LIVE_PRIVATE_H
#define IP_CLI_DARC_LIVE_PRIVATE_H

#include "cli/darc/darc_live.h"
#include "cli/darc/darc_load.h"
#include "cli/darc/darc_names.h"

struct cli_darc_live_search {
	const struct cli_darc_live_options *options;
	struct cli_darc_session session;
	struct cli_darc_trace profile, moment; /* the first step; the last look */
	char *f0, *name;		       /* linker name; private to name_of() */
	struct cli_darc_names path;	       /* functions on the paths of causes */
	struct cli_darc_names below;	       /* those of them whose callees are looked at */
	struct cli_darc_names pointers;	       /* those that call through pointers */
	struct cli_darc_names known;	       /* those of them whose callees have been seen */
	struct cli_darc_names callees;
	uint64_t begin_ns, end_ns;
	uint32_t level;
	bool over; /* the user, the time or the process has ended it */
};

/* Whether the search has been ended. */
bool cli_darc_live_is_over(struct cli_darc_live_search *l);
/* Tells the user how many functions are live. */
void cli_darc_live_tell(const struct cli_darc_live_search *l, const char *what, size_t functions);
/* Looks again and again until there are as many calls of the peak as are wanted; or the rings hold
 * no more of them. Returns 0, or -1 with an error. */
int cli_darc_live_wait(struct cli_darc_live_search *l, size_t wanted);

/* The name of a function without the compiler's suffixes: a selection means all of its parts. Valid
 * until the next call. */
const char *cli_darc_live_name(struct cli_darc_live_search *l, uint32_t node);
/* Whether a callee is a root cause, which is to be gone on with. */
bool cli_darc_live_goes_on(const struct cli_darc_live_search *l);
/* Adds the callees, as the code tells them, of the functions that the search is at. Returns 0, or
 * -1 with an error. */
int cli_darc_live_find(struct cli_darc_live_search *l);
/* Has the callees live, and looks at them. Returns 0, or -1 with an error. */
int cli_darc_live_look(struct cli_darc_live_search *l);
/* Whether a function that calls through pointers, and whose callees have not been seen, is a cause.
 */
bool cli_darc_live_is_unseen(struct cli_darc_live_search *l);
/* Finds the functions that those are seen to call. Returns how many are new; -1 with an error. */
int cli_darc_live_see(struct cli_darc_live_search *l);

#endif
