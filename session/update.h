/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing what a session records while it runs.
 *
 *   1. Read the maps again. Hold the selections against the modules, and the plan against the text:
 *      what is to go live and what idle (plan_diff.h). A pump drains the rings meanwhile
 *      (drain_thread.h), since this may take a while.
 *   2. Stubs for what goes live; its functions into the trace, on disk: readers know a number
 *      before its first event.
 *   3. One patch, one stop, writes both. Sites that stay live keep their bytes, so their functions
 *      miss nothing. The gate stays open. Where the caller asks for it (no_stop), and a thread that
 *      waits can be borrowed at once, pages are switched instead and nothing is stopped (remap.h).
 *      Where that fails the stop comes in its place, by a difference that is made anew if pieces
 *      had been switched; and the next changes do not try for a while, twice as long after each
 *      further failure.
 *   4. The trace learns when functions were added (the beginning of the stop) and removed (a moment
 *      behind its end: no site of theirs is live then, only a hook that was in flight may still
 *      record). Readers close the frames of removed functions there.
 *
 * Failing at any step leaves the session as it was. Killed at any step, what is live is known by
 * the text: `iprobe detach`.
 */
#ifndef IP_UPDATE_H
#define IP_UPDATE_H

#include "session/control_socket.h"
#include "session/session.h"

struct ip_link_map;
struct ip_session;

/* Who is told of a change without a stop in which probes that are live are idle for a moment
 * (remap.h, step 4). */
struct ip_change_gap {
	/* Before: of each function that is live now and whose probes will be idle then, or go. May
	 * be called several times for one. */
	void (*begins)(void *context, const struct ip_module *module, uint32_t function);
	/* After, whatever came of it: once, if the other was called. ns: how long they were
	 * idle. */
	void (*ended)(void *context, uint64_t ns);
	void *context;
};

struct ip_change_options {
	const char *kind; /* of the stop, for the trace: "change", "dlopen"... */
	bool must_match;  /* the last selection has to speak of some function */
	bool dry_run;	  /* only count */
	bool quiet;	  /* the trace is told nothing: nobody will read it */
	bool urgent;	  /* planning keeps our priority: what is live now costs the target more */
	/* of a process that the session's target has forked: nothing is taken away, and its sites
	 * are not watched */
	bool child;
	bool no_stop;			 /* where that can be had at once */
	const struct ip_change_gap *gap; /* NULL: nobody is told */
	uint64_t max_stop_ns;
	struct ip_value_options values; /* of what goes live */
	/* is told what went live in libraries that may go (ip_link_map_expect()); NULL: nobody
	 * is */
	struct ip_link_map *link_map;
};

struct ip_change_result {
	size_t functions_added, functions_removed, sites_added, sites_removed;
	size_t functions, sites; /* selected, as far as their modules are there; live now */
	size_t left_out, foreign;
	size_t threads, pages;
	struct ip_stop_log stops; /* none: there was nothing to do */
	bool remapped;		  /* it came about without a stop: */
	/* so long mappings were changed, which running threads may have had to wait for; of a
	 * failure, too */
	uint64_t changing_ns;
	/* of a failure: some of several stops had been made, or some pages switched */
	bool partial;
};

/* Makes exactly what s->selections mean of s->modules live. For changes of the selections and of
 * the modules: put the new ones there and call this. -1 with an error: nothing has changed, or
 * ret->partial: call it again with the old ones. The session goes on, but look at
 * s->write_failed. */
int ip_session_update(struct ip_session *s, const struct ip_change_options *options,
		      struct ip_change_result *ret);

/* Carries out a request that came by the control socket (struct ip_session as context). */
void ip_session_serve(void *context, const struct ip_control_request *request,
		      const char *selection, int directory, struct ip_control_reply *reply,
		      char *text, size_t *text_size);

/* The other side, for who finds that the target has a session: s->target, s->area and s->options
 * are there. Fills in s->summary. Tries for some seconds where nobody listens: 1 where the
 * session is free by then. */
int ip_session_ask(struct ip_session *s, bool dry_run);

#endif
