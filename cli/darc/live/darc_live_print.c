/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a live search has found by its end.
 */
#include <signal.h>

#include "cli/darc/darc_html.h"
#include "cli/darc/live/darc_live_private.h"
#include "common/error.h"
#include "common/interrupted.h"

struct cli_darc cli_darc_live_found(const struct cli_darc_live_search *l,
				    const struct cli_darc_trace *look)
{
	return cli_darc_of(look, l->profile.trace ? &l->profile.search : NULL);
}

int cli_darc_live_print(struct cli_darc_live_search *l)
{
	struct cli_darc_trace *last = l->moment.trace ? &l->moment : &l->profile;
	const struct cli_darc_resume *resume = l->options->resume;
	struct cli_darc d;

	if (!last->trace)
		return ip_error("nothing was recorded");
	if (l->over) {
		const sig_atomic_t interrupted = ip_interrupted;
		int ret;

		/* what ended the search is not to end this as well; the next signal does */
		ip_interrupted = 0;
		ret = cli_darc_live_conclude(l);
		if (l->seeing)
			ip_darc_search_forget_causes(&last->search);
		if (ret == 0 && !last->search.causes.n && *l->session.kept) {
			ret = cli_darc_live_search_decided(l);
			last = &l->decided;
		}
		ip_interrupted |= interrupted;
		if (ret < 0)
			return -1;
	}
	if (l->over)
		last->search.state = IP_DARC_IN_PROGRESS;
	if (!l->level || last == &l->profile)
		ip_darc_search_forget_causes(&last->search);
	if (cli_darc_live_find_stretches(l, last) < 0)
		return -1;
	d = cli_darc_live_found(l, last);
	/* the last stops are those by which every byte is put back */
	cli_darc_session_detach(&l->session);
	d.stops = l->session.stops;
	if (resume->there && l->over && !last->search.causes.n)
		d.kept = &resume->state;
	return cli_darc_print(&d, l->options->json, l->options->output) < 0
		       ? -1
		       : cli_darc_html(&d, last->trace, l->options->html);
}
