/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: one target, its live probes, one trace directory. From outside (attach) or from the
 * first instruction (run).
 */
#ifndef IP_SESSION_H
#define IP_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/clock.h"
#include "common/condition.h"
#include "common/trace/end_reason.h"
#include "hotpatcher/patch/patch.h"
#include "hotpatcher/plan/filters.h"
#include "hotpatcher/plan/payload_rules.h"
#include "hotpatcher/plan/value_plan.h"
#include "trace_writer/writer.h"

#define IP_DEFAULT_MEMORY   (64ull << 20)
#define IP_DEFAULT_MAX_STOP 50000000ull

/* Whose word the limit of a trace's size is. */
#define IP_LIMIT_ASKED	 "--max-size"
#define IP_LIMIT_DEFAULT "the default"
#define IP_LIMIT_SPACE	 "a tenth of the space that was free"
#define IP_LIMIT_BEGUN	 "as the recording was begun"

struct ip_session_controller;

/* How far a session is. */
struct ip_session_progress {
	uint64_t events, lost; /* so far */
	uint64_t per_second;   /* events, since the last call */
	uint64_t written;      /* bytes of the trace */
	bool has_duration;     /* it is to last for a time, of which is left: */
	uint64_t left_ns;
};

struct ip_session_options {
	const char *functions; /* NULL: all */
	const char *dir;
	uint64_t duration_ns; /* 0: until the end */
	uint64_t memory;      /* of the rings, bytes */
	/* of the trace, bytes; 0: 1 GiB or a tenth of the free space, whichever is less */
	uint64_t max_size;
	uint64_t max_stop_ns;
	bool follow_exec; /* attach: what the target executes, too */
	bool overwrite;	  /* keep the newest (flight_recorder.h) */
	bool follow_fork; /* forked children record, too */
	bool no_stop;	  /* switch pages instead (remap.h) */
	bool resume;	  /* go on with the recording in dir, whose iprobe was killed */
	/* an option that was given and that only a new session can have; NULL: none */
	const char *own;
	enum ip_clock_source clock;
	bool compress; /* streams (compressor.h) */
	/* keep the newest max_size bytes, in so many pieces (rotate.h); 0: stop there */
	unsigned rotate;
	/* called once, when probes have gone live; NULL: nobody is */
	void (*on_live)(void *context);
	/* called some four times a second; NULL: nobody is */
	void (*on_progress)(void *context, const struct ip_session_progress *progress);
	void *context;
	unsigned drop_hot; /* per cent (hot_functions.h); 0: not asked for */
	bool coarse;	   /* time from a clock that is refreshed from outside (coarse_clock.h) */
	struct ip_value_options values;
	struct ip_filter_options filters;
	struct ip_payload_rules payloads;
	struct ip_conditions until; /* their functions have the payload hist; */
	uint64_t linger_ns;	    /* when one is met the session goes on for so long */
	/* in place of recording; NULL: none. Borrowed */
	const struct ip_session_controller *controller;
};

/* What a second attach has changed. */
struct ip_session_change {
	bool done; /* the target had a session, which was changed */
	size_t functions_added, functions_removed, sites_added, sites_removed;
	char *dir;    /* of the session; malloc'ed */
	char *unused; /* items that matched nothing; malloc'ed or NULL */
};

struct ip_session_summary {
	pid_t pid;
	size_t sites, functions, threads, pages, left_out;
	/* functions of which calls are missing: somebody else changed their live sites
	 * (site_monitor.h) */
	size_t disturbed;
	/* selected sites that somebody else had changed: left as they were (plan_conflicts.h) */
	size_t foreign;
	size_t unswitched;	  /* selected sites that --no-stop had to leave idle */
	char unswitched_why[256]; /* the first of them */
	struct ip_stop_log stops; /* the hold of a borrowed thread is one, too */
	struct {		  /* changes that were made without a stop (update.h): */
		size_t changes;
		/* so long mappings were changed, all together, those of attempts that failed as
		 * well */
		uint64_t changing_ns;
		uint64_t hold_ns; /* the longest hold of a thread that waited */
		uint64_t gap_ns;  /* the longest time for which probes that stayed live were idle */
	} remapped;
	/* system calls of the target whose time limit began anew after a stop
	 * (syscall_restart.h) */
	size_t renewed;
	char renewed_last[64]; /* thread and call of the last */
	uint64_t events, lost, unserved, invalid;
	bool rotates;			 /* --rotate: */
	struct ip_trace_rotated rotated; /* what was removed; events, written are what is there */
	/* nothing was removed of what happened so long after the start, or later */
	uint64_t kept_from_ns;
	uint64_t filtered;   /* events that were left out on purpose */
	uint64_t written;    /* bytes of packets */
	uint64_t plain;	     /* packets that were not compressed, though they should have been */
	size_t dropped;	     /* functions by --drop-hot; */
	char *dropped_names; /* of them; malloc'ed or NULL */
	bool counting;	     /* functions have payloads of their own */
	uint64_t calls;	     /* that were counted or measured instead of logged */
	uint64_t overwritten;
	uint64_t processes;	  /* that recorded anything */
	size_t children_restored; /* silent ones that had live sites */
	size_t execs;		  /* that were followed under attach */
	uint64_t exec_gap_ns;	  /* in the longest of them nothing was recorded */
	enum ip_end_reason end;
	/* bytes of the trace after which it ends, and whose word that is (static text) */
	uint64_t limit;
	const char *limit_by;
	char until_said[512];
	size_t until; /* the condition of --until that was met, from 1 on; 0: none */
	uint64_t length_ns;
	bool recorded; /* probes went live */
	struct ip_value_gaps value_gaps;
	struct ip_session_change change; /* functions and sites are those that are live now, then */
};

/* What an attach would do. */
struct ip_session_preview {
	struct ip_session_summary summary;
	struct {
		char *path;
		size_t sites, functions;
	} * modules;
	size_t nmodules;
	uint64_t expected_stop_ns; /* of the longest; --no-stop: 0 */
	size_t nstops;
	size_t pieces; /* --no-stop: that would be switched, one after the other */
};

/* Attaches, records until the end, puts everything back. Where the target has a session already,
 * that one is changed instead, at once: see ret->change. 0; -1: the reason; what was recorded
 * until then is kept and every site is back, or the message says what is left. */
int ip_session_attach(pid_t pid, const struct ip_session_options *options,
		      struct ip_session_summary *ret);

/* The plan, without stopping or changing anything. */
int ip_session_preview(pid_t pid, const struct ip_session_options *options,
		       struct ip_session_preview *ret);
void ip_session_preview_clear(struct ip_session_preview *preview);

/* Launches argv with the runtime and records from its first instruction. *ret_status: how it
 * ended, as from waitpid. -1 where it could not be launched or recorded; then it has not run its
 * own code, unless the message says so. runtime: path of the shared object. */
int ip_session_run(char **argv, const char *runtime, const struct ip_session_options *options,
		   struct ip_session_summary *ret, int *ret_status);

/* Asks the session of the target, which overwrites, to write what its rings hold now. dir: as we
 * see it. */
struct ip_session_snapshot {
	uint64_t events, lost, invalid, overwritten, torn;
};
int ip_session_ask_snapshot(pid_t pid, const char *dir, struct ip_session_snapshot *ret);

/* The same (see ip_session_ask_counts()) of a target that may have no session: 1 then. Tries for
 * some seconds where nobody listens. */
int ip_session_join(pid_t pid, char **ret_dir);

/* Asks the session of the target to change what it records: selection as in a second attach, no
 * stop longer than that. */
int ip_session_ask_change(pid_t pid, const char *selection, uint64_t max_stop_ns,
			  struct ip_session_summary *ret);

/* Asks the session of the target to write what it has counted and measured up to now (--payload).
 * *ret_dir: the trace's directory, the caller's. */
int ip_session_ask_counts(pid_t pid, char **ret_dir);

/* Why it ended, in words: which condition of --until was met, where it was one. NULL: it has not
 * ended. Of the summary, or static. */
const char *ip_session_end_text(const struct ip_session_summary *summary);

#endif
