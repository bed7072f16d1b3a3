/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: one target, its live probes, one trace directory. It begins from outside (attach) or
 * with the target's first instruction (run).
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
#include "common/trace/no_events.h"
#include "hotpatcher/patch/patch.h"
#include "hotpatcher/plan/filters.h"
#include "hotpatcher/plan/payload_rules.h"
#include "hotpatcher/plan/value_plan.h"
#include "kernel_trace/recorder.h"
#include "session/end_time.h"
#include "stream_log/stream_log.h"
#include "trace_writer/writer.h"

#define IP_DEFAULT_MEMORY   (64ull << 20)
#define IP_DEFAULT_MAX_STOP 50000000ull

/* What has set the limit of a trace's size. */
#define IP_LIMIT_ASKED	 "--max-size"
#define IP_LIMIT_DEFAULT "the default"
#define IP_LIMIT_SPACE	 "a tenth of the space that was free"
#define IP_LIMIT_BEGUN	 "as the recording was begun"

struct ip_process_set;
struct ip_session_controller;

/* How far a session has come. */
struct ip_session_progress {
	uint64_t events, lost; /* so far */
	uint64_t per_second;   /* events, since the last call */
	uint64_t written;      /* of the trace, in bytes */
	bool has_duration;     /* the session lasts for a given time, of which is left: */
	uint64_t left_ns;
};

/* A session that is one of several of a service (service/service.h). */
struct ip_session_service {
	int dir;	   /* the directory of all traces */
	const char *name;  /* of this trace's sub-directory */
	uint64_t *written; /* bytes of all traces; max_size is the limit of their sum */
	/* gets the processes that have recorded events, at the end; shared by all workers */
	struct ip_process_set *processes;
	/* the process that has started this one and the other workers. A target that one of their
	 * sessions records already is left to it */
	pid_t parent;
	/* events of the kernel are recorded by each session for itself, not by the service */
	bool own_kernel;
	/* the session follows this child no longer, since it has become another user; gets the
	 * context of the options. Returns whether the child is to have a session of its own. NULL:
	 * it has none */
	bool (*on_let_go)(void *context, pid_t pid);
};

struct ip_session_options {
	const char *functions; /* NULL: all */
	const char *dir;
	bool dir_given;	      /* the user has named dir */
	uint64_t duration_ns; /* 0: until the end */
	uint64_t memory;      /* of the rings, in bytes */
	bool memory_exact; /* the user asked for that much: a target that cannot map it is refused
			    */
	/* of the trace, in bytes; 0: 1 GiB or a tenth of the free space, whichever is less */
	uint64_t max_size;
	uint64_t max_stop_ns;
	bool plt;	  /* functions of modules' PLTs can be selected, too */
	bool follow_exec; /* attach: also follow the programs that the target executes */
	bool overwrite;	  /* keep the newest events (flight_recorder.h) */
	bool follow_fork; /* forked children record, too */
	bool no_stop;	  /* switch pages instead (remap.h) */
	bool may_switch;  /* the same where nothing is lost by it (nostop_choice.c) */
	/* the caller marks the functions that it shows where their times end at a tail call: there
	 * is no notice about them */
	bool marks_tails;
	bool yields; /* end when another iprobe attaches: it begins a session of its own */
	bool resume; /* continue the recording in dir, whose iprobe was killed */
	/* an option that the user gave and that only a new session can have; NULL: none */
	const char *own;
	enum ip_clock_source clock;
	bool compress; /* compress the streams (compressor.h) */
	/* keep the newest max_size bytes, in that many pieces (rotate.h); 0: stop at max_size */
	unsigned rotate;
	/* NULL: the session is alone. dir is for messages then. Borrowed */
	const struct ip_session_service *service;
	/* attach: when the process was started (ip_proc_started_at()), where the caller has chosen
	 * it before: another process that has its pid by now is refused. 0: any */
	uint64_t started;
	/* called once, when probes have gone live; NULL: not called */
	void (*on_live)(void *context);
	/* called about four times a second; NULL: not called */
	void (*on_progress)(void *context, const struct ip_session_progress *progress);
	/* writes what the program does that has this session into a memory, for an iprobe that
	 * asks; the session waits meanwhile. 0, or -1 with an error. NULL: it does nothing but
	 * record */
	int (*on_describe)(void *context, int memory);
	void *context;
	/* a live log of the events goes there (stream_log/log_place.h); NULL: there is none */
	const char *stream;
	uint64_t stream_interval_ns; /* its longest silence; 0: 10 ms */
	unsigned drop_hot;	     /* per cent (hot_functions.h); 0: not asked for */
	bool coarse; /* time from a clock that is refreshed from outside (coarse_clock.h) */
	struct ip_value_options values;
	struct ip_filter_options filters;
	struct ip_payload_rules payloads;
	struct ip_conditions until;	 /* its functions have the payload hist */
	struct ip_kernel_options kernel; /* events of the kernel beside those of the target */
	uint64_t linger_ns;		 /* how long the session goes on after a condition holds */
	/* how often what is counted and measured is written into the trace; 0: once a second */
	uint64_t save_counts_ns;
	/* counts have the functions that are logged as well: the caller reads counts or events, not
	 * both as one */
	bool save_timed;
	/* works in place of recording; NULL: none. Borrowed */
	const struct ip_session_controller *controller;
};

/* What a second attach has changed. */
struct ip_session_change {
	bool done; /* the target had a session, which was changed */
	size_t functions_added, functions_removed, sites_added, sites_removed;
	char *dir;    /* of the session; the owner of the struct frees it */
	char *unused; /* items that matched nothing, or NULL; freed like dir */
};

/* A condition of --until that was not met. */
struct ip_session_unmet {
	const struct ip_condition *condition; /* of the options */
	char function[256];		      /* that came nearest to the limit; "": none */
	struct ip_condition_figure highest;   /* of this function */
	char said[512];			      /* the same in words */
};

/* A condition of --until that is for no function of the process. */
struct ip_session_absent {
	size_t condition;  /* of the options, from 1 on */
	char nearest[256]; /* names, as ip_selection_nearest() gives them; "": none */
};

struct ip_session_summary {
	pid_t pid;
	size_t sites, functions, threads, pages, left_out;
	/* functions that are live since others end by jumping to them, and are not selected
	 * (plan_choice.h): they are not in functions, and their sites are in sites */
	struct ip_name_list silent_functions;
	size_t silent_sites;
	/* functions of which calls are missing: another tool changed their live sites
	 * (site_monitor.h) */
	size_t disturbed;
	/* selected sites that another tool had changed: left as they were (plan_conflicts.h) */
	size_t foreign;
	bool in_vain;		  /* a change failed, since threads did not stop in time */
	size_t unswitched;	  /* selected sites that --no-stop had to leave idle */
	char unswitched_why[256]; /* the reason of the first of them */
	const char *stopped_why;  /* with may_switch: why there was a stop; NULL: none was needed */
	struct ip_stop_log stops; /* the hold of a borrowed thread counts as a stop, too */
	struct {		  /* changes that were made without a stop (update.h): */
		size_t changes;
		/* for how long mappings were changed, all changes and all failed attempts
		 * together */
		uint64_t changing_ns;
		uint64_t hold_ns; /* the longest hold of a thread that waited */
		uint64_t gap_ns;  /* the longest time for which probes that stayed live were idle */
	} remapped;
	/* system calls of the target whose time limit began anew after a stop
	 * (syscall_restart.h) */
	size_t renewed;
	uint64_t renewed_latest_ns; /* by how much one of them may last longer; UINT64_MAX: unknown
				     */
	char renewed_last[192];	    /* thread and system call of the last one */
	/* unserved, unfinished: those of lost whose thread got no slot, and whose hook never came
	 * back */
	uint64_t events, lost, unserved, unfinished, invalid;
	bool rotates; /* the session was begun with --rotate */
	/* what was removed; events and written count what is left */
	struct ip_trace_rotated rotated;
	/* from this time after the start on, nothing that happened was removed */
	uint64_t kept_from_ns;
	struct ip_kernel_stats kernel; /* of --kernel */
	/* not all of its events could be recorded, which was told; false where the disk is full */
	bool kernel_failed;
	uint64_t filtered; /* events that were left out on purpose */
	uint64_t written;  /* bytes of packets */
	uint64_t plain;	   /* packets that were not compressed, although they should have been */
	size_t dropped;	   /* functions that --drop-hot dropped */
	char *dir; /* the trace, where it was found by --resume; malloc'ed; NULL: as in options */
	struct ip_stream_log_counts stream; /* of --stream */
	char stream_failure[160];	    /* why its log ended early; "": it did not */
	char *dropped_names; /* names of the first of them, or NULL; freed like dir */
	bool counting;	     /* functions have payloads of their own */
	uint64_t calls;	     /* calls that were counted or measured instead of logged */
	bool overwrites;     /* the session was begun with --overwrite */
	uint64_t overwritten;
	uint64_t processes;	  /* that recorded anything */
	size_t children_restored; /* silent children that had live sites */
	size_t execs;		  /* execs that were followed under attach */
	uint64_t exec_gap_ns;	  /* nothing was recorded during the longest gap of an exec */
	enum ip_end_reason end;
	/* bytes of the trace after which the recording ends, and what has set this limit (static
	 * text) */
	uint64_t limit;
	const char *limit_by;
	char until_said[512];
	char until_function[1024]; /* linker name; "": it is longer than that */
	size_t until;		   /* the condition of --until that was met, from 1 on; 0: none */
	uint64_t until_ns;	   /* when it was met, after the start of the recording */
	/* the conditions of --until, if none was met; freed like dir */
	struct ip_session_unmet *unmet;
	size_t nunmet;
	/* where the session could not begin: the conditions that are for no function */
	struct ip_session_absent absent[IP_CONDITIONS_MAX];
	size_t nabsent;
	uint64_t length_ns;  /* of the recording, also where it was resumed */
	uint64_t resumed_ns; /* of this session, where it has resumed a recording; else 0 */
	struct ip_end_time end_time;
	bool recorded; /* probes went live */
	/* the iprobe that has the target's session, where this one needed one of its own, and
	 * failed for it; 0: none */
	pid_t taken_by;
	/* another session of the same service records the target; nothing was done */
	bool followed;
	bool nothing; /* no module of the target has probes, or none that is selected */
	struct ip_value_gaps value_gaps;
	struct ip_no_events no_events; /* if there are none: why */
	/* if done, functions and sites above are those that are live now */
	struct ip_session_change change;
};

/* What an attach would do. */
struct ip_session_preview {
	struct ip_session_summary summary;
	struct {
		char *path;
		size_t sites, functions;
	} * modules;
	size_t nmodules;
	uint64_t expected_stop_ns; /* the longest stop; --no-stop: 0 */
	size_t nstops;
	/* what comes besides: holds of one thread that bring or wake the runtime, looks at one, and
	 * stops at the end; --no-stop: 0 */
	size_t holds, looks, end_stops;
	size_t pieces; /* that would be switched, one after the other; 0: it would be stopped */
	const char *stopped_why; /* as of a summary */
};

/* Attaches, records until the end, and puts everything back. If the target has a session already,
 * that session is changed instead, at once: see ret->change. 0; -1 with an error: what was recorded
 * until then is kept, and every site is put back, or the message tells what is left. */
int ip_session_attach(pid_t pid, const struct ip_session_options *options,
		      struct ip_session_summary *ret);

/* Makes the plan, without stopping or changing anything. 0, or -1 with an error. */
int ip_session_preview(pid_t pid, const struct ip_session_options *options,
		       struct ip_session_preview *ret);
void ip_session_preview_clear(struct ip_session_preview *preview);

/* Holds what --args, --retval and --when name against the functions of a process, which is left as
 * it is. Returns 0: they fit, or there are none; 1: it cannot be told before the attach, which
 * tells why; -1 with an error: one of them fits no function. */
int ip_session_check_requests(pid_t pid, const struct ip_session_options *options);

/* What became of a command that was to be launched. */
struct ip_command_end {
	bool started; /* code of its own has run */
	bool ended;   /* by itself: status tells how, as from waitpid. Else iprobe has ended it */
	int status;
};

/* Launches argv with the runtime, and records from its first instruction. runtime: path of the
 * shared object. *ret_command is set in any case. -1 if the command could not be launched or
 * recorded. */
int ip_session_run(char **argv, const char *runtime, const struct ip_session_options *options,
		   struct ip_session_summary *ret, struct ip_command_end *ret_command);

/* Asks the session of the target, which must be one with --overwrite, to write what its rings hold
 * now. by: the iprobe that must have the session; 0: whichever has it. dir: path of the new
 * directory as the caller sees it. since: what ended before then may be left out; NULL: nothing is.
 * 0, or -1 with an error. */
struct ip_session_snapshot {
	uint64_t events, lost, invalid, overwritten, torn;
};
int ip_session_ask_snapshot(pid_t pid, pid_t by, const char *dir,
			    const struct ip_clock_reading *since, struct ip_session_snapshot *ret);

/* Does the same as ip_session_ask_counts(), of a target that may have no session, or one that only
 * watches for a rule of iprobed and makes way (--yield): returns 1 then. Tries for some seconds if
 * the session does not listen. */
int ip_session_join(pid_t pid, char **ret_dir);

/* Asks the session of the target to change what it records. by: as above. selection: as in a second
 * attach.
 * max_stop_ns: no stop may be longer. 0, or -1 with an error: ret->in_vain tells whether that was
 * because threads did not stop in time. */
int ip_session_ask_change(pid_t pid, pid_t by, const char *selection, uint64_t max_stop_ns,
			  struct ip_session_summary *ret);

/* Asks the session of the target to write what it has counted and measured up to now (--payload).
 * *ret_dir: the trace's directory, which the caller frees. 0, or -1 with an error. */
int ip_session_ask_counts(pid_t pid, char **ret_dir);

/* Asks the session of the target what the program does that has it: a live search, as yet. most:
 * bytes. *ret_text, which the caller frees, is followed by a zero byte; *ret_iprobe: pid of the
 * program. 0, or -1 with an error. */
int ip_session_ask_description(pid_t pid, size_t most, char **ret_text, size_t *ret_size,
			       pid_t *ret_iprobe);

/* Tells why the session ended, in words: if it was a condition of --until, which one. NULL: it has
 * not ended. The text belongs to the summary, or is static. */
const char *ip_session_end_text(const struct ip_session_summary *summary);

#endif
