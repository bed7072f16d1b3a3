/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the process that carries out rules, only for the sources of this directory.
 */
#ifndef IP_RULES_PRIVATE_H
#define IP_RULES_PRIVATE_H

#include "common/condition.h"
#include "config/probes_d.h"
#include "iprobed/rules/cmdline_reader.h"
#include "iprobed/rules/job.h"
#include "iprobed/rules/match.h"
#include "iprobed/rules/rate_limit.h"
#include "iprobed/rules/rules.h"
#include "iprobed/rules/service.h"

#define IP_RULES_WAITING 8u /* firings that may wait for one target */
#define IP_RULES_WHY	 512u
#define IP_RULES_LIMIT	 96u
/* sessions that may begin in one step of the loop: requests are served between steps */
#define IP_RULES_BEGIN 4u
/* Sessions that watch, and are not live yet: so many for each CPU. One that takes longer than that
 * time is not waited for. */
#define IP_RULES_STARTING    4u
#define IP_RULES_STARTING_NS 500000000ull
/* an undisturbed session that watches is looked at so often, besides when it ends */
#define IP_RULES_LOOK_NS 10000000000ull
/* A watch is begun for the threads that there are. It begins anew when there are twice as many, and
 * more than so many: it has memory for twice as many again (hotpatcher/shm/area_lean.h). */
#define IP_RULES_FEW_THREADS 15u
/* Targets that record at the same time. Each has 64 MiB, unless its rule says otherwise. */
#define IP_RULES_ACTING	    32u
#define IP_RULES_TIMEOUT_NS 20000000000ull /* added to the time that a session takes */
/* As benchmarks/active measures it, rounded up: nanoseconds of the target's time. */
#define IP_RULES_EVENT_NS   13.0
#define IP_RULES_MEASURE_NS 30.0 /* a call with a histogram */
/* Events of the kernel: what one costs; the room for them, for each CPU and kind. */
#define IP_RULES_KERNEL_NS     300.0
#define IP_RULES_KERNEL_BUFFER (2u << 20)
/* each of these may also have a limit of calls */
#define IP_RULES_WATCHED (IP_CONDITIONS_MAX / 2)

/* A program that a process has just begun to run. */
struct ip_rules_begun {
	pid_t pid;
	unsigned long long start;
	uint64_t exe; /* a hash of its path */
};

/* The state of a rule. */
struct ip_rules_state {
	const struct ip_rules_rule *rule;
	struct ip_rules_services services; /* that it has fired for */
	uint64_t fired;			   /* number of times since this process began */
	/* when and for which process it fired last, as text; "": never */
	char last[96];
	/* what came of it last: "pid 5: has recorded: ..."; "": nothing yet */
	char outcome[IP_RULES_WHY];
	bool recorded; /* outcome: something was recorded */
	bool told_processes;
	struct ip_rules_begun *begun; /* program starts that the rule has seen: each counts once */
	size_t nbegun;
};

/* A rule and a target that it is for. */
struct ip_rules_arm {
	struct ip_rules_state *state;
	uint64_t service; /* of the target */
	struct ip_rules_above cpu, memory, pressure[IP_RULES_PRESSURES];
	uint64_t pressure_us[IP_RULES_PRESSURES]; /* at the last check */
	uint64_t every_ns;			  /* the next time; 0: never */
	/* no earlier: its cost must be paid back first */
	uint64_t not_before_ns;
	bool fresh; /* the target has just started */
	/* The target had no function of its latency: when that is tried again, how long the pause
	 * is, and a hash of what was logged; 0: nothing of this. */
	uint64_t absent_ns, absent_backoff_ns, absent_said;
	/* the function whose latency it has fired for last, by its linker name; NULL: another
	 * reason */
	char *function;
	bool told_waits, told_deaf, told_rests, told_watch;
};

/* A rule that has fired. */
struct ip_rules_firing {
	struct ip_rules_arm *arm;
	uint64_t due_ns; /* when to act; for a snapshot, some time after the firing */
	/* its flight recorder rests, and must begin first; due_ns is not known until then */
	bool awaits_recorder;
	char why[IP_RULES_WHY];
};

enum ip_rules_doing {
	IP_RULES_NOTHING,
	IP_RULES_WATCH,
	IP_RULES_ACT,
	/* another target's session records it (members.h) */
	IP_RULES_JOINED,
	/* restores what a session that was killed or failed may have left. Between two tries there
	 * is no job */
	IP_RULES_CLEAN,
};

struct ip_rules_target {
	struct ip_rules_process process;
	int pidfd;
	struct ip_rules_arm *arms;
	size_t narms;
	struct ip_rules_stat stat; /* at the last check */
	uint64_t looked_ns;	   /* time of the last check; 0: none */
	double cpu_percent;	   /* between the last two checks */
	char *service;		   /* its name */
	char *unit;		   /* of members.h: ip_rules_service_unit(); NULL: not known */
	uid_t owner;		   /* whose it is, for members.h */
	/* whose session records it, or is about to; NULL: its own, or none */
	const struct ip_rules_target *lead;
	bool leads; /* it leads others */
	enum ip_rules_doing doing;
	struct ip_rules_job job;
	uint64_t stepped_ns; /* when the job was looked at last */
	/* WATCH: how many threads it had; what comes beyond a multiple is not measured */
	uint32_t threads;
	bool outgrown; /* it has more threads now than its watch was begun for */
	/* the arm that acts, or whose flight recorder runs; otherwise NULL */
	struct ip_rules_arm *by;
	char *dir; /* the session's */
	/* where a session wrote that was killed, to be removed; NULL: none */
	char *left_dir;
	size_t nmembers; /* ACT: how many processes of a service it records; 0: this one alone */
	uint64_t memory; /* most memory of the session, its worker included */
	/* it was logged that there is no memory for the session now */
	bool told_memory;
	struct ip_rules_arm *watched[IP_CONDITIONS_MAX]; /* by condition of --until */
	/* the condition ends the watch because it costs too much */
	bool is_overhead[IP_CONDITIONS_MAX];
	size_t nwatched;
	struct ip_rules_job side; /* asks the flight recorder for a snapshot */
	struct ip_rules_arm *side_by;
	char *side_dir;
	char side_why[IP_RULES_WHY];
	struct ip_rules_firing waiting[IP_RULES_WAITING];
	size_t nwaiting;
	/* After a failure: when to try again, and the length of that pause. */
	uint64_t retry_ns, backoff_ns;
	char said[IP_RULES_JOB_WORD]; /* last log message about a failure */
	/* the iprobe whose session keeps the target from being watched; 0: none, or not known */
	pid_t waits_for;
	bool unclean; /* the failure was in restoring */
	bool gone;    /* the process has ended, or runs another program now */
};

/* A process that the scan has seen. */
struct ip_rules_seen {
	pid_t pid;
	unsigned long long start;
	uint64_t exe; /* a hash of its path */
	long uid;
	/* when it was found, or was found to run another program */
	uint64_t since_ns;
	uint64_t looked_ns; /* when its files were read last */
	/* A rule that is matched before this time has seen the process start. 0: the process was
	 * there before this one. */
	uint64_t fresh_until_ns;
	bool met; /* a rule is for it */
	/* To be read once more, when a program that has just been executed has its command line. */
	bool again;
	bool left_out; /* left out because a rule had enough processes */
	bool pending;  /* to be matched again when its session has ended */
};

struct ip_rules {
	const struct ip_rules_options *options;
	struct ip_probes_d probes;
	char *environment; /* IPROBE_PROBES_D=DIR */
	char *fperf;
	struct ip_rules_state *states; /* states of the rules that are carried out */
	size_t nstates;
	struct ip_rules_target **targets;
	size_t ntargets;
	struct ip_rules_seen *seen; /* sorted by pid */
	size_t nseen;
	struct ip_rules_seen *found; /* found by the present scan, in any order */
	size_t nfound;
	struct ip_rules_reader reader;
	bool first; /* processes that are found now were there before this one */
	/* a process has gone: one that was left out may take its place */
	bool room;
	bool unsorted; /* targets have been added: which of them are members of one service? */
	/* a process could take the place of one that is busy: to be tried again */
	bool wanted;
	bool all;	  /* the rules have changed */
	bool users;	  /* some rules ask for users */
	bool cmdlines;	  /* some rules ask for command lines */
	bool services;	  /* some rules record services */
	uint64_t scan_ns; /* time of the next scan */
	int listening;	  /* socket for requests; -1: none */
	int lock;	  /* -1: not taken */
	/* number of sessions begun in this step, and number of targets that record */
	unsigned begun, acting;
	/* how many sessions that watch are not live yet, and how many may be */
	unsigned starting, may_start;
	bool child_ended; /* some job has ended, or was stopped, since the last step */
	bool hurries;	  /* something is being done that the next step should not wait for */
	/* the newest process of the machine when it was scanned last; -1: it is to be scanned */
	long last_pid;
	/* the lowest of the newest numbers that were no process's then: one may be yet, so the
	 * next scan tries them again; 0: none */
	long unfound_pid;
	uint64_t scanned_ns;
	uint64_t young_ns; /* a process that was found lately may still change until then */
	unsigned leading;  /* how many of these record a service */
	bool held_back;	   /* a target must wait because of these limits */
	bool ending, reloading;
	/* while reloading: the rules to be carried out then */
	struct ip_probes_d next;
	uint64_t reload_ns; /* when reloading began */
};

/* Logs a line about a rule (may be NULL) and a target (may be NULL). */
void ip_rules_log(const struct ip_rules_state *state, const struct ip_rules_target *target,
		  const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same of what came of a firing, or why the rule cannot watch: it is kept for iprobed --rules,
 * too. */
void ip_rules_came_of(struct ip_rules_state *state, const struct ip_rules_target *target,
		      bool recorded, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* rules.c. Counts the targets that are being recorded. */
void ip_rules_count_acting(struct ip_rules *e);

/* scan.c. Looks for processes if it is time to. */
void ip_rules_scan(struct ip_rules *e, uint64_t now_ns);
/* The rules have changed: all processes are matched again. The process still knows which of them
 * were there before. */
void ip_rules_rescan(struct ip_rules *e);
/* Matches the process again when its target, which goes, has gone. */
void ip_rules_scan_pending(struct ip_rules *e, pid_t pid);

/* quota.c. Returns whether the rule has a place for one more process of the user: a free one, or
 * one of a user who has more than his share and whose newest process loses it. */
bool ip_rules_has_place(struct ip_rules *e, const struct ip_rules_state *state, uid_t uid);
/* Takes such a place. Returns whether there was one. */
bool ip_rules_take_place(struct ip_rules *e, const struct ip_rules_state *state, uid_t uid);

/* poll_conditions.c. Checks the conditions of a target that are polled, and fires rules that are
 * due. */
void ip_rules_look(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns);

/* target_state.c */
int ip_rules_target_add(struct ip_rules *e, struct ip_rules_process *process,
			struct ip_rules_target **ret);
void ip_rules_target_free(struct ip_rules_target *t);
/* No rule is for the target any more. */
void ip_rules_target_disarm(struct ip_rules_target *t);
/* Does the next step for the target. Returns false if it is gone, and nothing of it is left to
 * do. */
bool ip_rules_target_step(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns);
/* Returns whether nothing is being done to the target. */
bool ip_rules_target_rests(const struct ip_rules_target *t);
/* Returns whether it is watched, or nothing is done to it, and no step is due: a job that ends
 * wakes this process. */
bool ip_rules_target_is_quiet(const struct ip_rules_target *t);
/* Notes how many threads it has now. */
void ip_rules_target_has_threads(struct ip_rules_target *t, uint32_t threads);
/* Returns whether its session was begun lately and is not live yet. */
bool ip_rules_target_starts(const struct ip_rules_target *t, uint64_t now_ns);
/* Fires the rule, unless it has fired too often, or has not paid back its cost yet. forced: fires
 * it in any case. Returns whether it fires. */
bool ip_rules_fire(struct ip_rules *e, struct ip_rules_target *t, struct ip_rules_arm *arm,
		   bool forced, uint64_t now_ns, const char *format, ...)
	__attribute__((format(printf, 6, 7)));
/* Logs, once, that there is no memory for the target's session now. */
void ip_rules_tell_memory(const struct ip_rules_state *state, struct ip_rules_target *t);
/* Returns whether the rule may fire now. */
bool ip_rules_may_fire(const struct ip_rules_arm *arm, uint64_t now_ns);

/* arm_state.c. Returns the nanoseconds until the limits of the rule let it fire by itself for the
 * target; 0: they do now. */
uint64_t ip_rules_arm_wait(const struct ip_rules_arm *arm, uint64_t now_ns);
/* Writes why the rule may not fire by itself for the target, and when it may again:
 * "limit 3 per 1h reached, next at 08:18:31". Returns false, with "": it may fire. */
bool ip_rules_arm_limit(const struct ip_rules_arm *arm, uint64_t now_ns, char text[IP_RULES_LIMIT]);
/* Whether the flight recorder of the rule is not to run: the rule may not fire for a while. */
bool ip_rules_arm_rests(const struct ip_rules_target *t, const struct ip_rules_arm *arm,
			uint64_t now_ns);
/* Whether a session that begins now is to watch the latency of the rule. */
bool ip_rules_arm_watches_latency(const struct ip_rules_arm *arm, uint64_t now_ns);
/* Whether the rule wants a session that watches, now. */
bool ip_rules_arm_wants_watch(const struct ip_rules_target *t, const struct ip_rules_arm *arm,
			      uint64_t now_ns);
/* The rule whose session watches the target just now, where that keeps this one from watching it;
 * NULL: none does. */
const struct ip_rules_rule *ip_rules_arm_waits_for(const struct ip_rules_target *t,
						   const struct ip_rules_arm *arm);
/* Logs, once each, which rules are not watched because of their limits. */
void ip_rules_arms_tell_rest(struct ip_rules_target *t, uint64_t now_ns);
/* Whether the session that watches is to end: no rule that it is for may fire for a while, or a
 * rule that was left out of it is tried again. */
bool ip_rules_watch_is_over(const struct ip_rules_target *t, uint64_t now_ns);
/* The session that watches has failed: leaves those rules out for a while of which the target has
 * no function. Returns whether there are such rules. */
bool ip_rules_arms_leave_out(struct ip_rules_target *t, uint64_t now_ns);
/* The session that watches has begun, so the functions of its rules are there. */
void ip_rules_arms_found(struct ip_rules_target *t);

/* action.c and arm.c. Each returns 0, or -1 with an error. */
int ip_rules_act_begin(struct ip_rules *e, struct ip_rules_target *t,
		       const struct ip_rules_firing *firing);
int ip_rules_watch_begin(struct ip_rules *e, struct ip_rules_target *t);
/* Logs, once each, which rules the target is watched for: what they need is live. */
void ip_rules_watch_tell(const struct ip_rules_target *t, uint64_t now_ns);
int ip_rules_clean_begin(struct ip_rules *e, struct ip_rules_target *t);
int ip_rules_snapshot_begin(struct ip_rules *e, struct ip_rules_target *t,
			    const struct ip_rules_firing *firing);
/* Makes room on the disk, and makes the directory for what the rule is to record. *ret: its path;
 * the caller frees it. */
int ip_rules_begin_directory(struct ip_rules *e, struct ip_rules_target *t,
			     const struct ip_rules_arm *arm, const char *why, char **ret);
/* An action, or a snapshot, has ended: logs the result, and makes the rule pay back the cost.
 * Returns whether it succeeded. */
bool ip_rules_act_end(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns);
bool ip_rules_snapshot_end(struct ip_rules *e, struct ip_rules_target *t);
/* The flight recorder has ended because the rule's latency was too high: keeps the trace that it
 * has written. */
void ip_rules_recorder_keep(struct ip_rules *e, struct ip_rules_target *t, struct ip_rules_arm *arm,
			    const char *why);

/* search.c. Makes the command line of a search for root causes. */
struct ip_rules_command;
void ip_rules_search_command(const struct ip_rules *e, const struct ip_rules_target *t,
			     const struct ip_rules_arm *arm, struct ip_rules_command *c);
/* Writes what a search has found, in one line. Returns whether it has come to a result. */
bool ip_rules_search_said(const struct ip_rules_job *job, char *line, size_t size);
/* Tells what a search had to do without. */
void ip_rules_search_tell_missing(struct ip_rules_target *t);

/* memory.c. Returns the bytes that the rule's sessions of n processes take, their own processes
 * included. */
uint64_t ip_rules_memory_of(const struct ip_rules_rule *rule, size_t n);
/* Checks whether a session can ever have that much memory. Returns 0, or -1 with an error. */
int ip_rules_memory_check(const struct ip_rules *e, uint64_t needed);
/* Returns whether there is memory for the session beside all others. watch: it is a session that
 * only watches. Returns true also if the session can never have that much. */
bool ip_rules_memory_fits(const struct ip_rules *e, const struct ip_rules_target *t,
			  uint64_t needed, bool watch);

/* recovery.c. Notes of targets that have a session, or have had one that may have left sites
 * live. */
int ip_rules_note(const struct ip_rules *e, const struct ip_rules_process *process);
void ip_rules_forget(const struct ip_rules *e, const struct ip_rules_process *process);
/* Returns whether an earlier process of rules has not ended properly. */
bool ip_rules_were_here(const struct ip_rules *e);
/* Takes the lock: waits until an earlier process has ended, and restores what it has left. Returns
 * 0, or -1 with an error. */
int ip_rules_left_over(struct ip_rules *e);
/* To be called at the end, or if there are no rules to be carried out. */
void ip_rules_unlock(struct ip_rules *e);

/* control.c. ip_rules_listen() returns 0, or -1 with an error. */
int ip_rules_listen(struct ip_rules *e);
void ip_rules_listen_no_more(struct ip_rules *e);
void ip_rules_serve(struct ip_rules *e, uint64_t now_ns);

#endif
