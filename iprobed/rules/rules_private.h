/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the process that carries out rules, for rules*.c alone.
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

#define IP_RULES_WAITING 8u /* firings that wait for a process */
#define IP_RULES_WHY	 512u
#define IP_RULES_BEGIN	 4u /* sessions that one turn begins: requests are served between turns */
#define IP_RULES_ACTING                                                                            \
	32u /* that record at the same time: each has 64 MiB, unless its rule says otherwise */
#define IP_RULES_TIMEOUT_NS 20000000000ull /* beyond what a session is to take */
/* What benchmarks/active measures here, rounded up: nanoseconds of the process's time. */
#define IP_RULES_EVENT_NS   13.0
#define IP_RULES_MEASURE_NS 30.0		    /* a call with a histogram */
#define IP_RULES_WATCHED    (IP_CONDITIONS_MAX / 2) /* each may have a limit of calls besides */

/* A program that a process has just begun to run. */
struct ip_rules_begun {
	pid_t pid;
	unsigned long long start;
	uint64_t exe; /* a hash */
};

/* What is kept of a rule. */
struct ip_rules_state {
	const struct ip_rules_rule *rule;
	struct ip_rules_history history;
	uint64_t fired; /* times, since we began */
	char last[96];	/* when and of whom, for people; "": never */
	bool told_most, told_processes;
	struct ip_rules_begun *begun; /* that it has met: they start once */
	size_t nbegun;
};

/* A rule and a process that it is for. */
struct ip_rules_arm {
	struct ip_rules_state *state;
	struct ip_rules_hold cpu, memory, pressure[IP_RULES_PRESSURES];
	uint64_t pressure_us[IP_RULES_PRESSURES]; /* at the last look */
	uint64_t every_ns;			  /* when next; 0: never */
	uint64_t not_before_ns;			  /* until what it has cost is paid back */
	bool fresh;				  /* the process has just started */
	bool told_waits, told_deaf;
};

/* A rule has fired. */
struct ip_rules_firing {
	struct ip_rules_arm *arm;
	uint64_t due_ns; /* of a snapshot, later than it has fired */
	char why[IP_RULES_WHY];
};

enum ip_rules_doing {
	IP_RULES_NOTHING,
	IP_RULES_WATCH,
	IP_RULES_ACT,
	/* puts back what one that was killed, or failed, may have left; between two tries there is
	 * no job */
	IP_RULES_CLEAN,
};

struct ip_rules_target {
	struct ip_rules_process process;
	int pidfd;
	struct ip_rules_arm *arms;
	size_t narms;
	struct ip_rules_stat stat; /* at the last look */
	uint64_t looked_ns;	   /* 0: there was none */
	enum ip_rules_doing doing;
	struct ip_rules_job job;
	struct ip_rules_arm *by; /* who acts; of a flight recorder: whose it is; else NULL */
	char *dir;		 /* of the session */
	uint64_t memory;	 /* that it may take, its worker included */
	bool told_memory;	 /* that there is none for it now */
	struct ip_rules_arm *watched[IP_CONDITIONS_MAX]; /* by condition of --until, */
	bool is_overhead[IP_CONDITIONS_MAX]; /* that ends the watch because it costs too much */
	size_t nwatched;
	struct ip_rules_job side; /* asks the flight recorder for a snapshot */
	struct ip_rules_arm *side_by;
	char *side_dir;
	char side_why[IP_RULES_WHY];
	struct ip_rules_firing waiting[IP_RULES_WAITING];
	size_t nwaiting;
	/* after something has failed: when again, and how long it was */
	uint64_t retry_ns, backoff_ns;
	char said[IP_RULES_JOB_WORD]; /* what was logged last about that */
	bool unclean;		      /* that was putting back */
	bool told_watch;
	bool gone; /* it has ended, or is another program now */
};

/* A process that has been looked at. */
struct ip_rules_seen {
	pid_t pid;
	unsigned long long start;
	uint64_t exe; /* a hash */
	long uid;
	uint64_t since_ns; /* when it was found, or had another program */
	/* what meets it before has seen it start; 0: it was there before us */
	uint64_t fresh_until_ns;
	bool met; /* a rule is for it */
	/* to be read once more, when what has just been executed has its command line */
	bool again;
	bool left_out; /* a rule had enough processes */
	bool pending;  /* to be met when its session has ended */
};

struct ip_rules {
	const struct ip_rules_options *options;
	struct ip_probes_d probes;
	char *environment; /* IPROBE_PROBES_D=DIR */
	char *fperf;
	struct ip_rules_state *states; /* of the rules that are carried out */
	size_t nstates;
	struct ip_rules_target **targets;
	size_t ntargets;
	struct ip_rules_seen *seen; /* by pid */
	size_t nseen;
	struct ip_rules_seen *found; /* by the look that goes on, in any order */
	size_t nfound;
	struct ip_rules_reader reader;
	bool first;    /* what is found now has been there before us */
	bool room;     /* a process has gone: one that was left out may take its place */
	bool wanted;   /* one would take a place of a process that is busy: it is looked at again */
	bool all;      /* rules are others than they were */
	bool users;    /* some of them are for users, */
	bool cmdlines; /* or for command lines */
	uint64_t scan_ns;	/* when next */
	int listening;		/* for requests; -1: not */
	int lock;		/* -1: not taken */
	unsigned begun, acting; /* sessions: begun in this turn; that record */
	bool held_back;		/* one has to wait for these */
	bool ending, reloading;
	struct ip_probes_d next; /* while reloading: what is to be carried out then */
	uint64_t reload_ns;	 /* since when */
};

/* Of a rule (may be NULL) and a process (may be NULL). */
void ip_rules_log(const struct ip_rules_state *state, const struct ip_rules_target *target,
		  const char *format, ...) __attribute__((format(printf, 3, 4)));

/* scan.c. Looks for processes where it is time to. */
void ip_rules_scan(struct ip_rules *e, uint64_t now_ns);
/* Rules are others: all processes are looked at anew. Which have been there before is known
 * still. */
void ip_rules_scan_again(struct ip_rules *e);
/* The process, of which there is a target that goes, is to be met anew. */
void ip_rules_scan_pending(struct ip_rules *e, pid_t pid);

/* quota.c. Whether the rule has a place for one more process of the user: one that is free, or
 * that of a user who has more than his share, whose newest process loses it. */
bool ip_rules_has_place(struct ip_rules *e, const struct ip_rules_state *state, uid_t uid);
/* The same, and takes it. */
bool ip_rules_take_place(struct ip_rules *e, const struct ip_rules_state *state, uid_t uid);

/* poll_conditions.c. Conditions of a process that are looked at now and then; fires what is due. */
void ip_rules_look(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns);

/* target_state.c */
int ip_rules_target_add(struct ip_rules *e, struct ip_rules_process *process,
			struct ip_rules_target **ret);
void ip_rules_target_free(struct ip_rules_target *t);
/* No rule is for it any more. */
void ip_rules_target_disarm(struct ip_rules_target *t);
/* Goes on with it. False: it is gone, and nothing of it is left. */
bool ip_rules_target_step(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns);
/* Whether nothing is being done to it. */
bool ip_rules_target_rests(const struct ip_rules_target *t);
/* The rule fires, unless it has too often, or has not paid back yet what it has cost. forced: all
 * the same. Whether it does. */
bool ip_rules_fire(struct ip_rules *e, struct ip_rules_target *t, struct ip_rules_arm *arm,
		   bool forced, uint64_t now_ns, const char *format, ...)
	__attribute__((format(printf, 6, 7)));
/* Logs, once, that there is no memory for its session now. */
void ip_rules_tell_memory(const struct ip_rules_state *state, struct ip_rules_target *t);
/* Whether the rule may fire now. */
bool ip_rules_may_fire(const struct ip_rules_arm *arm, uint64_t now_ns);

/* action.c and arm.c. Each: 0, or -1 with an error. */
int ip_rules_act_begin(struct ip_rules *e, struct ip_rules_target *t,
		       const struct ip_rules_firing *firing);
int ip_rules_watch_begin(struct ip_rules *e, struct ip_rules_target *t);
int ip_rules_clean_begin(struct ip_rules *e, struct ip_rules_target *t);
int ip_rules_snapshot_begin(struct ip_rules *e, struct ip_rules_target *t,
			    const struct ip_rules_firing *firing);
/* The directory of what the rule is to record, for which there is room then. *ret: malloc'ed. */
int ip_rules_begin_directory(struct ip_rules *e, struct ip_rules_target *t,
			     const struct ip_rules_arm *arm, const char *why, char **ret);
/* What an action, or a snapshot, has come to: logs it, and lets the rule pay back. Whether it
 * worked. */
bool ip_rules_act_end(struct ip_rules *e, struct ip_rules_target *t, uint64_t now_ns);
bool ip_rules_snapshot_end(struct ip_rules *e, struct ip_rules_target *t);
/* The flight recorder has ended because the rule's latency was too much: what it has written is
 * kept. */
void ip_rules_recorder_keep(struct ip_rules *e, struct ip_rules_target *t, struct ip_rules_arm *arm,
			    const char *why);

/* memory.c. Bytes that a session of the rule takes, its process included. */
uint64_t ip_rules_memory_of(const struct ip_rules_rule *rule);
/* Whether it can ever have so much: 0, or -1 with an error. */
int ip_rules_memory_check(const struct ip_rules *e, uint64_t needed);
/* Whether there is room for it beside all others; watch: it only watches. True also where it never
 * can have so much. */
bool ip_rules_memory_fits(const struct ip_rules *e, const struct ip_rules_target *t,
			  uint64_t needed, bool watch);

/* recovery.c. Notes of processes that have a session, or have had one that may have left
 * something. */
int ip_rules_note(const struct ip_rules *e, const struct ip_rules_process *process);
void ip_rules_forget(const struct ip_rules *e, const struct ip_rules_process *process);
/* Whether one before us has ended in another way than it should. */
bool ip_rules_were_here(const struct ip_rules *e);
/* Takes the lock: waits for one before us to end, and puts back what it has left. 0, or -1 with an
 * error. */
int ip_rules_left_over(struct ip_rules *e);
/* At the end, or where there is nothing to be carried out. */
void ip_rules_unlock(struct ip_rules *e);

/* control.c. 0, or -1 with an error. */
int ip_rules_listen(struct ip_rules *e);
void ip_rules_listen_no_more(struct ip_rules *e);
void ip_rules_serve(struct ip_rules *e, uint64_t now_ns);

#endif
