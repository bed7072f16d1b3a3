/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes what a session records while it runs.
 *
 *   1. Read the maps again. Compare the selections with the modules, and the plan with the text:
 *      the result is what is to go live and what is to become idle (plan_diff.h). This may take a
 *      while, so a thread drains the rings meanwhile (drain_thread.h).
 *   2. Write the stubs for what goes live. Write its functions into the trace, and the trace to
 *      disk: readers must know a number before its first event.
 *   3. One patch, in one stop, writes both. Sites that stay live keep their bytes, so their
 *      functions miss nothing. The gate stays open. If the caller asks for it (no_stop), and a
 *      thread that waits can be borrowed at once, pages are switched instead and nothing is stopped
 *      (remap.h). If that fails, a stop takes its place; its difference is made anew if pieces had
 *      been switched. The next changes do not try to switch pages for a while, and for twice as
 *      long after each further failure.
 *   4. The trace is told when functions were added (the beginning of the stop) and removed (a
 *      moment after its end: none of their sites is live then, only a hook that was in flight may
 *      still record). Readers close the frames of removed functions there.
 *
 * A failure at any step leaves the session as it was. If iprobe is killed at any step, the text
 * itself tells what is live: `iprobe detach`.
 */
#ifndef IP_UPDATE_H
#define IP_UPDATE_H

#include "session/control/control_socket.h"
#include "session/session.h"

struct ip_link_map;
struct ip_session;

/* Callbacks for a change without a stop in which live probes are idle for a moment (remap.h, step
 * 4). */
struct ip_change_gap {
	/* Called before the change, for each function that is live now and whose probes will be
	 * idle then, or go. May be called several times for one function. */
	void (*begins)(void *context, const struct ip_module *module, uint32_t function);
	/* Called after the change, whatever its result: once, if begins was called. ns: for how
	 * long the probes were idle. */
	void (*ended)(void *context, uint64_t ns);
	void *context;
};

struct ip_change_options {
	const char *kind; /* of the stop, for the trace: "change", "dlopen"... */
	bool must_match;  /* the last selection must name a function of the target */
	bool dry_run;	  /* only count */
	/* what goes live may be functions that an earlier change has taken away: that is written
	 * into the trace, as with must_match */
	bool adds;
	/* removed functions are not written into the trace: no reader needs them */
	bool quiet;
	bool urgent; /* planning keeps our priority: what is live now costs the target more */
	/* of a process that the session's target has forked: nothing is removed, and its sites are
	 * not watched */
	bool child;
	/* switch pages instead of a stop, if a thread can be borrowed at once */
	bool no_stop;
	const struct ip_change_gap *gap; /* NULL: none */
	uint64_t max_stop_ns;
	struct ip_value_options values; /* of what goes live */
	/* is told what went live in libraries that may be unloaded (ip_link_map_expect()); NULL:
	 * none */
	struct ip_link_map *link_map;
};

struct ip_change_result {
	size_t functions_added, functions_removed, sites_added, sites_removed;
	size_t functions, sites; /* selected, as far as their modules are there; live now */
	size_t left_out, foreign;
	size_t threads, pages;
	struct ip_stop_log stops; /* none: there was nothing to do */
	bool remapped;		  /* the change was made without a stop: */
	/* for how long mappings were changed: running threads may have had to wait so long; also
	 * after a failure */
	uint64_t changing_ns;
	/* after a failure: some of several stops had been made, or some pages switched */
	bool partial;
	/* after a failure: nothing was changed, since threads did not stop in time */
	bool transient;
};

/* Makes live exactly what s->selections mean in s->modules. To change the selections or the
 * modules, put the new ones there and call this. 0; -1 with an error: nothing has changed; or, if
 * ret->partial is set, call it again with the old ones. The session goes on, but the caller must
 * look at s->write_failed. */
int ip_session_update(struct ip_session *s, const struct ip_change_options *options,
		      struct ip_change_result *ret);

/* Carries out a request that came by the control socket. context: the struct ip_session. */
void ip_session_serve(void *context, const struct ip_control_request *request,
		      const char *selection, int directory, struct ip_control_reply *reply,
		      char *text, size_t *text_size);

/* The client's side of a change, for an iprobe that finds that the target has a session. s->target,
 * s->area and s->options must be set. Fills in s->summary. Tries for some seconds if the session
 * does not listen. 0: done; 1: the session is free by then; -1 with an error. */
int ip_session_ask(struct ip_session *s, bool dry_run);

#endif
