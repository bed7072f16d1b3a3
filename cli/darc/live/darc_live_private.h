/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of a live search share: darc_live.c goes from step to step, darc_live_wait.c looks
 * at the rings until a step can be decided, darc_live_decide.c tells when that is,
 * darc_live_search.c searches what they held, darc_live_callees.c tells which functions are to be
 * live.
 */
#ifndef IP_CLI_DARC_LIVE_PRIVATE_H
#define IP_CLI_DARC_LIVE_PRIVATE_H

#include "cli/darc/darc_load.h"
#include "cli/darc/darc_names.h"
#include "cli/darc/live/darc_live.h"
#include "cli/darc/live/darc_view.h"

struct cli_darc_live_search {
	const struct cli_darc_live_options *options;
	struct cli_darc_session session;
	struct ip_darc_options search; /* a key may choose another peak than the options do */
	struct cli_darc_view *view;    /* NULL: there is none */
	struct cli_darc_trace profile, moment; /* the first step; the last look */
	/* The last look of the level before, if that is what is printed; its level, and when its
	 * functions were chosen. */
	struct cli_darc_trace decided;
	uint32_t decided_level;
	struct ip_clock_reading decided_changed;
	char *f0, *name; /* linker name; private to name_of() */
	struct cli_darc_sets sets;
	uint64_t begin_ns, end_ns; /* of the profile; of the search, 0: when it is over */
	uint64_t profile_ns;	   /* how long the profile took */
	uint32_t level;
	unsigned begun;	 /* how often the search has begun again */
	uint64_t top_ns; /* at the look before: of the peak that was chosen; 0: none was */
	uint64_t calls;	 /* of F0 by then */
	bool changed;	 /* the calls are not those of the profile any more */
	bool rechosen;	 /* the user wants another peak of the profile */
	bool seeing;	 /* step 3: the callees are idle, so the last look tells no causes */
	bool over;	 /* the user, the time or the process has ended it */
	bool left;	 /* the user has left the view */
	bool concluded;	 /* it is over by itself */
	bool resumed;	 /* the profile is that of the file it was resumed from */
};

/* What a wait is for. */
enum cli_darc_live_kind {
	CLI_DARC_PROFILE,
	CLI_DARC_SEE,	 /* some calls of the peak, which show what they call */
	CLI_DARC_DECIDE, /* calls of the peak that decide on causes */
};

/* Waits for so long, or until the search has been ended or another peak was chosen. */
void cli_darc_live_nap(struct cli_darc_live_search *l, uint64_t ns);
/* Whether the search has been ended. */
bool cli_darc_live_is_over(struct cli_darc_live_search *l);
/* Whether the step that is under way is left as it is: that, or the calls are others, or another
 * peak was chosen. */
bool cli_darc_live_is_left(struct cli_darc_live_search *l);
/* Tells the user how many functions are live. */
void cli_darc_live_tell(const struct cli_darc_live_search *l, const char *what, size_t functions);
/* Looks again and again until what it is for is reached; or the rings hold no more calls of the
 * peak; or the calls are not those of the profile (changed). Where slow calls do not come any more
 * the search is over, after a message. Returns 0, or -1 with an error. */
int cli_darc_live_wait(struct cli_darc_live_search *l, enum cli_darc_live_kind kind);

/* Whether the last look reaches what it is for. */
bool cli_darc_live_is_reached(struct cli_darc_live_search *l, enum cli_darc_live_kind kind);
/* Whether it has as many calls of the peak as are wanted, and of the usual ones. */
bool cli_darc_live_has_calls(const struct cli_darc_live_search *l, size_t wanted);
/* Whether calls are of the peak far more often than in the profile, or more rarely. */
bool cli_darc_live_has_changed(const struct cli_darc_live_search *l);
/* How many more calls of the peak decide, as it seems, where there are n of them. */
size_t cli_darc_live_missing(const struct cli_darc_live_search *l, enum cli_darc_live_kind kind,
			     size_t n);
/* Where usual calls are not as long as in the profile, since callees are live: whatever is faster
 * than the peak is usual from the next look on, and the user is told. Returns whether it is so. */
bool cli_darc_live_take_all_faster(struct cli_darc_live_search *l);

/* Searches the last look once more, one level deeper: nothing is live that was not then. Returns
 * whether that decides; -1 with an error. */
int cli_darc_live_look_deeper(struct cli_darc_live_search *l);

/* Whether the profile tells if the search can go on from its file. */
bool cli_darc_live_is_compared(struct cli_darc_live_search *l);
/* The state of the search as a document (darc_state.h), which the caller frees. Returns 0, or -1
 * with an error. */
int cli_darc_live_text(struct cli_darc_live_search *l, char **ret, size_t *ret_size);
/* Tells the session what the search does, for who asks it. keep: it is the end of a step: the file
 * of --resume is written as well. */
void cli_darc_live_describe(struct cli_darc_live_search *l, bool keep);

/* Searches what the rings held. strict: the search is over. Else causes that may be chance are kept
 * for now: how much of the time a function has by itself is not known before its callees are live.
 * Returns 0, or -1 with an error. */
int cli_darc_live_search_moment(struct cli_darc_live_search *l, struct cli_darc_trace *seen,
				bool strict);
/* Searches the last look once more, and leaves out what may be chance: the search is over. Returns
 * 0, or -1 with an error. */
int cli_darc_live_conclude(struct cli_darc_live_search *l);

/* Finds the stretches of causes that are functions themselves, whose callees were live in that
 * look. Returns 0, or -1 with an error. */
int cli_darc_live_find_stretches(struct cli_darc_live_search *l, struct cli_darc_trace *look);

/* Searches the last look of the level before, which is decided then. Returns 0, or -1 with an
 * error. */
int cli_darc_live_search_decided(struct cli_darc_live_search *l);

/* The name of a function without the compiler's suffixes: a selection means all of its parts. Valid
 * until the next call. */
const char *cli_darc_live_name(struct cli_darc_live_search *l, uint32_t node);
/* Whether a callee is a root cause, which is to be gone on with. */
bool cli_darc_live_goes_on(const struct cli_darc_live_search *l);
/* Adds the callees, as the code tells them, of the functions that the search is at. Returns 0, or
 * -1 with an error. */
int cli_darc_live_find(struct cli_darc_live_search *l);
/* Adds the functions that those which the search is at were seen to call. Returns how many are new;
 * -1 with an error. */
int cli_darc_live_add_seen(struct cli_darc_live_search *l);
/* Has the callees live, and looks at them. Returns 0, or -1 with an error. */
int cli_darc_live_look(struct cli_darc_live_search *l);
/* Whether a function that calls through pointers, and whose callees have not been seen, is a cause.
 */
bool cli_darc_live_is_unseen(struct cli_darc_live_search *l);
/* Finds the functions that those are seen to call. Returns how many are new; -1 with an error. */
int cli_darc_live_see(struct cli_darc_live_search *l);

/* What is told of a look. */
struct cli_darc cli_darc_live_found(const struct cli_darc_live_search *l,
				    const struct cli_darc_trace *look);
/* Prints as much as is known, and has every byte put back before. Returns 0, or -1 with an error.
 */
int cli_darc_live_print(struct cli_darc_live_search *l);

#endif
