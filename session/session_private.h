/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What attach, run and the dry run share of a session.
 */
#ifndef IP_SESSION_PRIVATE_H
#define IP_SESSION_PRIVATE_H

#include "collector/coarse_clock.h"
#include "collector/collector.h"
#include "collector/meters.h"
#include "collector/poll_interval.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/plan/plan_conflicts.h"
#include "hotpatcher/plan/user_payload.h"
#include "hotpatcher/process/modules.h"
#include "hotpatcher/shm/area.h"
#include "session/control_socket.h"
#include "session/controller.h"
#include "session/follow_dlopen.h"
#include "session/follow_fork.h"
#include "session/session.h"
#include "session/site_monitor.h"
#include "trace_writer/writer.h"

struct ip_change_gap;
struct ip_remap_result;

struct ip_session {
	const struct ip_session_options *options;
	struct ip_session_summary *summary;
	struct ip_clock_reading start;
	uint64_t start_ns;
	struct ip_target *target;
	struct ip_area *area;
	/* of the present image; files and lists stay open until the end */
	struct ip_modules modules;
	struct ip_selections selections;
	struct ip_plan plan;		    /* of what is to go live next; */
	bool planned;			    /* it is made, and not yet carried out */
	struct ip_plan_conflicts conflicts; /* what it leaves out, since others have changed it */
	struct ip_trace *trace;
	struct ip_counters *counters; /* NULL: every function logs */
	struct ip_user_payload user;  /* its path NULL: the session has no payload of the user's */
	/* who decides in it what is live, and when it ends */
	const struct ip_session_controller *controllers[IP_CONTROLLERS_MAX];
	size_t ncontrollers;
	uint64_t saved_ns,
		/* when counts were saved last; how long from then to the next time */
		save_after_ns;
	struct ip_collector *collector;
	struct ip_coarse_clock *coarse_clock; /* of coarse time; NULL: none */
	uint64_t condensed; /* pieces that were removed when its notes were condensed last */
	struct ip_follow_fork *followed;
	struct ip_follow_dlopen *follow;
	struct ip_follow_exec *follow_exec; /* NULL: no exec is being followed */
	struct ip_control *control;	    /* NULL: nobody can change the session */
	struct ip_thread_areas *threads;  /* over those that come while it records; NULL: not yet */
	struct ip_site_monitor *watch;	  /* over the live sites of the present image */
	uint64_t shown_ns, shown_events;  /* of the live line */
	struct ip_poll_interval interval; /* of its turns */
	uint64_t attend_ns;		  /* until when somebody who has knocked is attended to */
	uint64_t listened_ns;		  /* when requests were looked for last */
	uint64_t sync_ns; /* when to look next whether the session file is out of date */
	struct ip_filter_names names; /* of threads (--thread) */
	uint64_t children_ns;	      /* when to look at what followed children load */
	uint32_t changes;	      /* of the selection, by request */
	uint64_t remap_after_ns,
		/* changes without a stop have failed: not before then; so long was waited last. 0:
		 * they have not */
		remap_wait_ns;
	uint64_t watch_ns; /* when to look again whether the target is under seccomp */
	uint8_t *counted;  /* bits, by number: in the summary's functions and sites */
	size_t disturbed_before, restored_before; /* in images that are gone */
	bool live;     /* sites of the target's present image may be live */
	bool records;  /* some function fills rings */
	bool launched; /* by iprobe run, which knows of exec by itself */
	bool execed;   /* the target is another program now: nothing of it is ours */
	bool mixed;    /* a thread has come that has no thread area of its own */
	/* the target has come under seccomp, and its clock is read by system calls */
	bool confined;
	bool write_failed;
	/* resume: what the area holds is still the killed iprobe's; it stays where we fail */
	bool is_others;
	int own_nice; /* before ip_session_hurry() */
	bool hurries;
};

/* The clock of the session, before anything of it is measured; says where it is not the TSC. */
void ip_session_choose_clock(const struct ip_session_options *options);

/* Makes the session's selections of its options. */
int ip_session_select(struct ip_session *s);

/* A list of probes that the user named and that fits no module of the target is a mistake. */
int ip_session_check_lists(const struct ip_target *target, const struct ip_modules *modules);

/* Says on stderr which items of the selection have matched no probe so far: misspelt, most
 * likely. */
void ip_session_tell_unused(const struct ip_session *s);

/* The steps by which the present image of a target goes live (attach.c tells all of them). Each
 * returns 0, or -1 with an error.
 *
 * Plan: modules, what an earlier iprobe left live in them, the changes that the selection asks for.
 * A plan that is made is kept until it is carried out. allow_none: returns 1, without an error,
 * where no module has probes. */
int ip_session_plan(struct ip_session *s, bool allow_none);
/* Begin: leaves out what others have changed, and finds the user's payload; once in a session it
 * readies area, trace, collector and control. */
int ip_session_begin(struct ip_session *s);
/* Patch: stubs, names and duties of the plan; its sites go live. */
int ip_session_patch(struct ip_session *s);

/* Tries of these steps. */
struct ip_session_tries {
	unsigned n;
	unsigned images; /* of the target, at the first */
};

/* After a step has failed: whether to begin with the plan again, since a library of it has been
 * unloaded meanwhile. */
bool ip_session_replans(struct ip_session *s, struct ip_session_tries *tries);

/* Plan, begin and patch, for an image that waits or that the target has executed. */
int ip_session_go_live(struct ip_session *s, bool allow_none);

/* Area, trace, collector and control of a session whose plan is made. begin.c */
int ip_session_begin_trace(struct ip_session *s, const struct ip_plan *plan,
			   const struct ip_modules *modules);
/* Collector, followed children and control of a session whose trace and area are ready. */
int ip_session_begin_collector(struct ip_session *s, uint64_t max_size);

/* In the place of ip_session_go_live(): goes on with a session whose iprobe was killed
 * (resume.c). 1: its gate is closed, what is left is to end it properly. options: room for those
 * of the session, which outlives s. */
int ip_session_resume(struct ip_session *s, struct ip_session_options *options);

/* Begins the session in an area: the first one, and that of what the target executes later (of a
 * session without payloads: plan and modules are NULL then). */
int ip_session_begin_area(const struct ip_session *s, struct ip_area *area,
			  const struct ip_plan *plan, const struct ip_modules *modules);

#define IP_SESSION_SETTLE_NS                                                                       \
	200000000ull		     /* for threads that stand in hooks to come out of them        \
				      */
#define IP_SESSION_TRY_NS 5000000ull /* between tries to stop, or to flip */
void ip_session_nap(uint64_t ns);

#define IP_SESSION_TRIES	4  /* of a stop whose failure may not last, */
#define IP_SESSION_ATTACH_TRIES 25 /* and at the start, where nothing waits to be collected */

/* The plan's sites have gone live: into the summary's functions and sites, where they are not there
 * yet. */
void ip_session_count(struct ip_session *s, const struct ip_plan *plan);

/* One more stop, into the summary. */
void ip_session_add_stop(struct ip_session *s, const struct ip_stop_record *stop);

/* The same, into the summary and the trace, for all stops that nobody has been told of yet; kind:
 * of those that have none of their own. */
void ip_session_tell_stops(struct ip_session *s, const char *kind);

/* What values the functions of a plan record, and their signatures into the trace; before the plan
 * is bound. -1 with an error. */
int ip_session_plan_values(struct ip_session *s, struct ip_plan *plan,
			   const struct ip_modules *modules,
			   const struct ip_value_options *options);

/* All its stops, into the summary and the trace; kind: "attach", "detach", "change"... */
void ip_session_note_stop(struct ip_session *s, const char *kind, const struct ip_patch_result *r);
/* Between the start of an attach and its first event programs that keep every CPU busy take no
 * more than a small share from us: nine parts in ten are ours where we may have them. Not all,
 * and no real-time priority: planning a large target takes a second, and the target needs a CPU
 * too. start: begins; else ends, and again does nothing. */
void ip_session_hurry(struct ip_session *s, bool start);

/* The plan's sites have gone live: look after them (site_monitor.h). */
int ip_session_watch(struct ip_session *s, const struct ip_plan *plan);

/* What --rotate has removed needs no notes of --time coarse any more (coarse_clock.h). */
void ip_session_condense(struct ip_session *s);

/* Takes over what was counted and writes it to the trace. */
int ip_session_save_counts(struct ip_session *s);

/* One turn of the loop: drain, show, decide. NULL: go on; else why to end. */
enum ip_end_reason ip_session_step(struct ip_session *s);

/* Puts everything back, drains the rest. Keeps trying for some seconds where threads cannot be
 * stopped. */
int ip_session_go_idle(struct ip_session *s);

/* Writes the last words of the trace and fills the summary. Where nothing ever went live the
 * trace goes away again. */
int ip_session_finish(struct ip_session *s, enum ip_end_reason reason);

/* --no-stop (nostop.c): makes the plan's changes live; functions that cannot be are taken out of
 * it and counted. Notes the holds. The patch lock must be held. */
int ip_session_remap_live(struct ip_session *s, struct ip_plan *plan,
			  struct ip_patch_result *result);

/* The changes of a session that goes on, some of whose sites stay live. gate: as for
 * ip_patch_apply(). idle: what goes. 1: done; 0: it cannot be had now, and nothing has changed;
 * -1: some of it may have. */
int ip_session_remap_change(struct ip_session *s, const struct ip_change *changes, size_t n,
			    int64_t gate, const struct ip_plan *idle,
			    const struct ip_change_gap *gap, struct ip_remap_result *ret);

/* Puts back whatever is live, without a stop. The same. */
int ip_session_remap_idle(struct ip_session *s, const struct ip_modules *modules, const char *kind,
			  struct ip_patch_result *result);

/* Names of the threads that live now. */
void ip_session_add_names(const struct ip_session *s, struct ip_trace *trace);

/* What a session has answered to a change, into the summary of who asked: text, size as from
 * ip_control_ask(). control_client.c */
int ip_session_note_change(struct ip_session_summary *summary, const struct ip_control_reply *reply,
			   const char *text, size_t size);

/* Writes what has been counted up to now. counts_request.c */
int ip_session_serve_counts(struct ip_session *s);
/* Asks the session of a process for something that is no change. directory: goes along; -1:
 * none. nobody: what to do where there is none. *ret_text: the caller's. 0, or -1 with an error.
 * counts_request.c */
int ip_session_request(pid_t pid, uint32_t flags, const char *text, int directory,
		       const char *nobody, struct ip_control_reply *ret, char **ret_text);
/* Serves a request for a snapshot, to be made in the directory by that name. */
int ip_session_snapshot(struct ip_session *s, int directory, const char *name,
			struct ip_control_reply *reply);

void ip_session_clear(struct ip_session *s);

#endif
