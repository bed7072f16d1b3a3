/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sources of the session share: attach, run and the dry run.
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
#include "session/control/control_socket.h"
#include "session/controller.h"
#include "session/follow/follow_dlopen.h"
#include "session/follow/follow_fork.h"
#include "session/monitor/site_monitor.h"
#include "session/nap.h"
#include "session/no_events.h"
#include "session/session.h"
#include "trace_writer/writer.h"

struct ip_change_gap;
struct ip_stacks;
struct ip_process_names;
struct ip_thread_names;
struct ip_remap_plan;
struct ip_remap_result;

struct ip_session {
	const struct ip_session_options *options;
	struct ip_session_summary *summary;
	struct ip_clock_reading start;
	uint64_t start_ns;
	uint64_t live_tsc;    /* when probes were live at first; 0: they were not yet */
	uint64_t resumed_tsc; /* when this iprobe began to record; with --resume later than live_tsc
			       */
	/* from then on nothing is recorded any more (end_time.h); 0: the session goes on */
	uint64_t idle_tsc;
	struct ip_target *target;
	struct ip_area *area;
	/* of the present image; files and probe lists stay open until the end */
	struct ip_modules modules;
	struct ip_selections selections;
	struct ip_plan plan; /* of what is to go live next */
	bool planned;	     /* the plan is made, and not yet carried out */
	bool all_idle;	     /* every site of the modules was idle when it was made */
	/* what the plan leaves out, since other tools have changed it */
	struct ip_plan_conflicts conflicts;
	struct ip_trace *trace;
	struct ip_counters *counters; /* NULL: every function logs */
	struct ip_user_payload user;  /* path NULL: the session has no payload of the user's */
	/* they decide what is live in the session, and when it ends */
	const struct ip_session_controller *controllers[IP_CONTROLLERS_MAX];
	size_t ncontrollers;
	uint64_t saved_ns,
		/* when counts were saved last; how long from then to the next time */
		save_after_ns;
	struct ip_collector *collector;
	struct ip_coarse_clock *coarse_clock; /* the clock of coarse time; NULL: none */
	struct ip_kernel_recorder *kernel;    /* NULL: no kernel events are recorded */
	uint64_t condensed; /* how many pieces were removed when its notes were condensed last */
	struct ip_follow_fork *followed;
	struct ip_follow_dlopen *follow;
	struct ip_follow_exec *follow_exec; /* NULL: no exec is being followed */
	struct ip_control *control;	    /* NULL: no other iprobe can change the session */
	/* watches threads that come while the session records; NULL: not yet */
	struct ip_thread_areas *threads;
	struct ip_site_monitor *watch;	  /* watches the live sites of the present image */
	uint64_t shown_ns, shown_events;  /* of the progress that was last reported */
	struct ip_poll_interval interval; /* between steps of the session */
	struct ip_nap nap;		  /* of a session that only watches */
	/* until then requests are looked for often: a client has connected */
	uint64_t attend_ns;
	uint64_t listened_ns; /* when the session looked for requests last */
	uint64_t sync_ns;     /* when to look next whether the session file is out of date */
	struct ip_filter_names names;		/* of threads (--thread) */
	struct ip_thread_names *thread_names;	/* NULL: none was read yet */
	struct ip_process_names *process_names; /* likewise */
	struct ip_stacks *stacks; /* of the attach, while they are walked; else NULL */
	uint64_t children_ns;	  /* when to look at what followed children load */
	uint32_t changes;	  /* how often a request has changed the selection */
	uint64_t remap_after_ns,
		/* after a failed change without a stop: no other one before that time; how long
		 * that wait is. 0: the last one did not fail */
		remap_wait_ns;
	uint64_t watch_ns; /* when to look again whether the target is under seccomp */
	/* bits by number: it is in the summary's functions and sites; behind all of these: it is in
	 * silent_functions and silent_sites */
	uint8_t *counted;
	size_t disturbed_before, restored_before; /* in images that are gone */
	bool live;     /* sites of the target's present image may be live */
	bool records;  /* some function writes into rings */
	bool forked;   /* its area was made in place of its parent's (area_renew.h) */
	bool launched; /* by iprobe run, which detects exec by itself */
	bool execed;   /* the target executes another program now: nothing of it is ours */
	bool mixed;    /* a thread has come that has no thread area of its own */
	bool switched; /* it went live without a stop, by may_switch */
	/* the target has come under seccomp, and its clock is read by system calls */
	bool confined;
	bool write_failed;
	/* resume: what the area holds still belongs to the killed iprobe; if we fail, it is left
	 * there */
	bool is_others;
	struct ip_cpu_used cpu_used;
	struct ip_end_time_notes end_time;
	int own_nice; /* before ip_session_hurry() */
	bool hurries;
};

/* Selects the clock of the session, before anything of the session is measured. Reports if it is
 * not the TSC. */
void ip_session_choose_clock(const struct ip_session_options *options);

/* Opens the target of the session. 0, or -1 with an error. */
int ip_session_open(struct ip_session *s, pid_t pid);

/* Makes the session's selections from its options, and opens nothing: a dry run calls it as well.
 * 0, or -1 with an error. */
int ip_session_select(struct ip_session *s);

/* Checks the probe lists that the user named: a list that fits no module of the target is a
 * mistake. 0, or -1 with an error. */
int ip_session_check_lists(const struct ip_target *target, const struct ip_modules *modules);

/* Reports on stderr which items of the selection have matched no probe so far. Most likely they are
 * misspelt. */
void ip_session_tell_unused(const struct ip_session *s);

/* The steps by which the present image of a target goes live (attach.c describes all of them). Each
 * returns 0, or -1 with an error.
 *
 * Plan: loads the modules, puts back what an earlier iprobe left live in them, and makes the
 * changes that the selection asks for. A plan that is made is kept until it is carried out.
 * allow_none: returns 1, without an error, if no module has probes. */
int ip_session_plan(struct ip_session *s, bool allow_none);
/* Begin: leaves out what other tools have changed, and finds the user's payload. Once in a session
 * it makes area, trace, collector and control socket ready. */
int ip_session_begin(struct ip_session *s);
/* Patch: writes stubs, names and duties of the plan; its sites go live. */
int ip_session_patch(struct ip_session *s);

/* How often these steps were tried. */
struct ip_session_tries {
	unsigned n;
	unsigned images; /* of the target, at the first try */
};

/* To be called after a step has failed. Returns whether to begin with the plan again, since a
 * library of the plan has been unloaded meanwhile. */
bool ip_session_replans(struct ip_session *s, struct ip_session_tries *tries);

/* Plan, begin and patch, for an image that waits for us or that the target has executed. Returns 0,
 * or 1 and -1 as ip_session_plan() does. */
int ip_session_go_live(struct ip_session *s, bool allow_none);

/* Makes area, trace, collector and control socket of a session whose plan is made. 0, or -1 with an
 * error. begin.c */
int ip_session_begin_trace(struct ip_session *s, const struct ip_plan *plan,
			   const struct ip_modules *modules);
/* Makes the collector, the list of followed children and the control socket of a session whose
 * trace and area are ready. 0, or -1 with an error. */
int ip_session_begin_collector(struct ip_session *s, uint64_t max_size);

/* Continues a session whose iprobe was killed, in place of ip_session_go_live() (resume.c). 0; 1:
 * its gate is closed, and it remains only to end the session properly; -1 with an error. options:
 * room for the options of the session, which must outlive s. */
int ip_session_resume(struct ip_session *s, struct ip_session_options *options);

/* Returns the memory that rings need from the beginning, in bytes; 0: the session counts or
 * measures, and how it divides its memory is not known yet. */
uint64_t ip_session_ring_memory(const struct ip_session *s);

/* Puts the runtime into the target if it has none, and wakes it. It maps what rings need at first,
 * or the least where that is too much and the user has not asked for it. ret_held_ns: for how long
 * a thread was held for either, 0: none was. 0, or -1 with an error. */
int ip_session_bring_runtime(const struct ip_session *s, const struct ip_modules *modules,
			     uint64_t ret_held_ns[2]);

/* Begins the session in an area: in the first area, and in the area of a program that the target
 * executes later (plan and modules are NULL then, since the session has no payloads). 0, or -1 with
 * an error. */
int ip_session_begin_area(struct ip_session *s, struct ip_area *area, const struct ip_plan *plan,
			  const struct ip_modules *modules);

#define IP_SESSION_SETTLE_NS 200000000ull /* for threads that stand in hooks to leave them */
#define IP_SESSION_TRY_NS    5000000ull	  /* between tries to stop, or to remap */
void ip_session_nap(uint64_t ns);

#define IP_SESSION_TRIES	4  /* of a stop whose failure may not last, */
#define IP_SESSION_ATTACH_TRIES 25 /* and at the start, when nothing waits to be collected */

/* The plan's sites have gone live: adds them to the summary's functions and sites, unless they are
 * counted there already. */
void ip_session_count(struct ip_session *s, const struct ip_plan *plan);
/* Which functions are silent: a bitmap by number; NULL: none is. */
const uint8_t *ip_session_silent(const struct ip_session *s);

/* Adds one stop to the summary, and to the trace if there is one. */
void ip_session_add_stop(struct ip_session *s, const struct ip_stop_record *stop);

/* Adds all stops that were not reported yet to the summary, and to the trace if there is one. kind:
 * for stops that have no kind of their own. */
void ip_session_tell_stops(struct ip_session *s, const char *kind);

/* Determines which values the functions of a plan record, and writes their signatures into the
 * trace. To be called before the plan is bound. 0, or -1 with an error. */
int ip_session_plan_values(struct ip_session *s, struct ip_plan *plan,
			   const struct ip_modules *modules,
			   const struct ip_value_options *options);

/* Adds all stops of the result to the summary, and to the trace if there is one. kind: "attach",
 * "detach", "change"... */
void ip_session_note_stop(struct ip_session *s, const char *kind, const struct ip_patch_result *r);
/* Between the start of an attach and its first event, programs that keep every CPU busy must take
 * no more than a small share from us: we ask for nine parts in ten of the CPU time, if we may. We
 * do not ask for all of it, nor for real-time priority: planning a large target takes a second, and
 * the target needs a CPU, too. start: true begins; false ends, and does nothing if it has ended. */
void ip_session_hurry(struct ip_session *s, bool start);

/* The plan's sites have gone live: watches them (site_monitor.h). 0, or -1 with an error. */
int ip_session_watch(struct ip_session *s, const struct ip_plan *plan);
/* The same for a plan whose changes nobody needs any more: it may have none afterwards. */
int ip_session_watch_whole(struct ip_session *s, struct ip_plan *plan);

/* Removes notes of --time coarse that are about parts of the trace which --rotate has removed
 * (coarse_clock.h). */
void ip_session_condense(struct ip_session *s);

/* Collects what was counted, and writes it to the trace. 0, or -1 with an error. */
int ip_session_save_counts(struct ip_session *s);

/* Does one step of the loop: drains, reports, decides. IP_END_NONE: the session goes on; else the
 * reason why it ends. */
enum ip_end_reason ip_session_step(struct ip_session *s);

/* How long the session's loop may sleep with regard to events that no descriptor reports, ns. */
uint64_t ip_session_longest_nap(const struct ip_session *s, uint64_t now_ns);

/* Puts everything back, and drains the rest. Keeps trying for some seconds if threads cannot be
 * stopped. 0, or -1 with an error. */
int ip_session_go_idle(struct ip_session *s);

/* Writes the last lines of the trace, and fills in the summary. If nothing ever went live, the
 * trace is removed. 0, or -1 with an error. */
int ip_session_finish(struct ip_session *s, enum ip_end_reason reason);

/* --no-stop (nostop.c): makes the plan's changes live. Functions that cannot go live in this way
 * are taken out of the plan and counted. Notes the holds. The patch lock must be held. 0, or -1
 * with an error. */
int ip_session_remap_live(struct ip_session *s, struct ip_plan *plan,
			  struct ip_patch_result *result);

/* Makes the changes of a session that goes on without a stop; some of its sites stay live. gate: as
 * for ip_patch_apply(). idle: the plan of the functions that are removed. 1: done; 0: it cannot be
 * done now, and nothing has changed; -1: some of the changes may have been made. */
int ip_session_remap_change(struct ip_session *s, const struct ip_change *changes, size_t n,
			    int64_t gate, const struct ip_plan *idle,
			    const struct ip_change_gap *gap, struct ip_remap_result *ret);

/* Puts back whatever is live, without a stop. find_ns: how long to search for a thread; where that
 * is less than IP_REMAP_FIND_NS, it is tried once. Notes the holds. 0, or -1 with an error. */
int ip_session_remap_idle(struct ip_session *s, const struct ip_modules *modules, const char *kind,
			  uint64_t find_ns, struct ip_patch_result *result);
/* Unmaps the copies of text that changes without a stop have left where they found no thread in
 * time; a notice says so if there is none now either. Notes the hold. */
void ip_session_unmap_copies(struct ip_session *s, const char *kind);
/* Fills in *result as a stop would, except for the length, and notes each hold as a stop. */
void ip_session_note_holds(struct ip_session *s, const char *kind,
			   const struct ip_remap_result *remapped, struct ip_patch_result *result);

/* Whether the attach records calls that are open at the start. */
bool ip_session_tells_open_calls(const struct ip_session *s, const struct ip_plan *plan);
/* may_switch (nostop_choice.c): why the plan is to be made live in a stop. NULL: it need not be,
 * and *ret is how it can be switched, which the caller destroys. */
const char *ip_session_why_stop(const struct ip_session *s, const struct ip_modules *modules,
				const struct ip_plan *plan, struct ip_remap_plan **ret);
/* may_switch: notes why the process was stopped all the same; of several reasons the first. */
void ip_session_tell_why(struct ip_session *s, const char *why);
/* Makes the plan live without a stop. 1: done; 0: a stop is needed, and nothing is live; -1 with an
 * error. The patch lock must be held. */
int ip_session_try_switch(struct ip_session *s, const struct ip_plan *plan,
			  struct ip_patch_result *result);
/* Puts back in the same way what went live so. Returns whether it has; if not, a stop is needed. */
bool ip_session_switch_idle(struct ip_session *s, struct ip_patch_result *result);

/* Walks stacks of the attach (stacks.h). last: all that are left. */
void ip_session_walk_stacks(struct ip_session *s, bool last);

/* Reads the names of threads and processes that are new or may have changed (thread_names.h,
 * process_names.h). last: of all. */
void ip_session_watch_names(struct ip_session *s, bool last);
/* The name of the target's first thread, unless the trace has it. */
void ip_session_add_names(const struct ip_session *s, struct ip_trace *trace);

/* The number of the area's session if that ends when another iprobe attaches (--yield); else 0. */
uint32_t ip_session_yields(const struct ip_area *area);
/* Has the session of that number end, and waits until it has. Another session may have the area
 * then: it goes on. Whoever may attach to the target may do this, as `iprobe detach`: it takes no
 * more than access to the area. 0, or -1 with an error: it does not end. */
int ip_session_take_over(struct ip_session *s, uint32_t number);

/* Fills in the client's summary with what a session has answered to a change. text, size: as from
 * ip_control_ask(). 0, or -1 with an error. control_client.c */
int ip_session_note_change(struct ip_session_summary *summary, const struct ip_control_reply *reply,
			   const char *text, size_t size);

/* Writes what has been counted up to now. 0, or -1 with an error. counts_request.c */
int ip_session_serve_counts(struct ip_session *s);
/* Writes what the session's program does into a memory. 0, or -1 with an error. state_request.c */
int ip_session_serve_description(struct ip_session *s, int memory);
/* Asks the session of a process for something that is no change. by: as of ip_control_ask().
 * request: its flags, and what goes with these. directory: a descriptor to pass along; -1: none.
 * nobody: for the error message if there is no session: what the user can do. *ret_text: the caller
 * frees it. 0, or -1 with an error. counts_request.c */
int ip_session_request(pid_t pid, pid_t by, const struct ip_control_request *request,
		       const char *text, int directory, const char *nobody,
		       struct ip_control_reply *ret, char **ret_text);
/* Serves a request for a snapshot, which is to be made in the directory by that name. 0, or -1 with
 * an error. */
int ip_session_snapshot(struct ip_session *s, int directory, const char *name,
			const struct ip_control_request *request, struct ip_control_reply *reply);

void ip_session_clear(struct ip_session *s);

/* Whether the session of an area that the target shares with the process that it was forked from
 * records the target, too, or may at any moment: the target's gate is open, or the target may open
 * it by itself (runtime/claim.c). 1, 0, or -1 with an error. */
int ip_session_is_followed(const struct ip_target *target, const struct ip_area *area);
/* Whether the target shares its area with a session that records it. 1: s->area is open; 0; -1 with
 * an error. */
int ip_session_is_recorded_with_parent(struct ip_session *s);

#endif
