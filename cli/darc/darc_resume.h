/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe darc --resume: a live search whose state is kept in a file after each step, and that goes
 * on from there.
 *
 *   1. Before anything is started or changed, the file is read, if it is there. It must be of a
 *      search with the same options.
 *   2. Before anything goes live, the process must have the modules of that search, by build-id,
 *      and its functions.
 *   3. F0 goes live, and must be the function of that search. Its latencies are compared with those
 *      of that search. Where they differ, that is the answer.
 *   4. The search goes on with the peak, the level and the functions of the file. After each step
 *      the file is replaced as a whole.
 */
#ifndef IP_CLI_DARC_RESUME_H
#define IP_CLI_DARC_RESUME_H

#include <sys/types.h>

#include "analysis/profile/latency/profile_distance.h"
#include "cli/darc/darc_state.h"

struct cli_darc_resume {
	const char *path; /* NULL: nothing is kept */
	struct ip_dir_place place;
	bool there; /* the file was, and state is what it says */
	struct cli_darc_state state;
	bool failed; /* the state could not be kept, which was told */
};

/* Step 1. The caller ends *ret in any case. Returns 0, or -1 with an error. */
int cli_darc_resume_begin(const char *path, const struct ip_darc_options *options,
			  struct cli_darc_resume *ret);
void cli_darc_resume_end(struct cli_darc_resume *resume);
/* Step 2. Returns 0, or -1 with an error. */
int cli_darc_resume_check_process(const struct cli_darc_resume *resume, pid_t pid);
/* Step 3: how the latencies of a search differ from those of the file. */
enum ip_profile_verdict cli_darc_resume_compare(const struct cli_darc_resume *resume,
						const struct ip_darc_search *search,
						struct ip_profile_distance *ret);
/* Step 4. What cannot be kept is told once: the search goes on. */
void cli_darc_resume_keep(struct cli_darc_resume *resume, const char *text, size_t size);

#endif
