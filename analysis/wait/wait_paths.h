/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of call paths by what it went to: a CPU, waiting for one, or an object; and, if that is
 * asked for, by who ended the waits and what those were in.
 */
#ifndef IP_WAIT_PATHS_H
#define IP_WAIT_PATHS_H

#include "analysis/profile/tree_threads.h"
#include "analysis/wait/trace_waits.h"
#include "analysis/wait/wait_profile.h"
#include "analysis/wait/waker_paths.h"

/* In the place of an object. */
#define IP_PATH_CPU	 (UINT32_MAX - 1)
#define IP_PATH_RUNQUEUE (UINT32_MAX - 2)
#define IP_PATH_UNKNOWN	 (UINT32_MAX - 3)
#define IP_PATH_IDLE	 (UINT32_MAX - 4) /* all idle waits, where they are told apart */

/* Who ended a wait; of a wait for a CPU, who had that at first. */
struct ip_waker {
	uint32_t node;	  /* of wakers->tree: the innermost call that it was in; 0: in none */
	const char *name; /* of its thread, of the states; "": not known; NULL: an interrupt */
};

struct ip_wait_path {
	uint32_t node;	 /* of tree */
	uint32_t object; /* index into profile->objects, or IP_PATH_ */
	uint32_t waker;	 /* index into waker_list; 0: nobody, or not asked for */
	uint64_t ticks, count;
};

struct ip_wait_paths {
	struct ip_wait_profile *profile;
	struct ip_calltree *tree;   /* of call paths; of its sums none is filled in */
	struct ip_wait_path *items; /* by node; of a node the longest first */
	size_t n;
	struct ip_waker_paths *wakers; /* NULL: not asked for */
	struct ip_waker *waker_list;
	size_t nwakers;
	uint64_t unknown;	      /* ticks of all call paths */
	struct ip_trace_waits *waits; /* private, as what follows */
	char **texts;		      /* by object; NULL: not made yet */
};

struct ip_wait_paths_options {
	const bool *roots; /* by function: call paths begin at these */
	uint32_t tid;	   /* this thread only; 0: all */
	/* the first level of the tree, as in ip_calltree_options; NULL: not told apart */
	const struct ip_tree_threads *threads;
	bool wakers;
	const struct ip_idle_waits *idle; /* told apart; NULL: none */
};

/* Reads the calls of the trace; with wakers twice. waits: must outlive the paths. Returns NULL with
 * an error. */
struct ip_wait_paths *ip_wait_paths_make(struct ip_trace_reader *trace,
					 struct ip_trace_waits *waits,
					 const struct ip_wait_paths_options *options);
/* An object as ip_trace_waits_object() has it, "runqueue", "cpu" or "unknown". The paths own it.
 * NULL with an error where memory ran out. */
const char *ip_wait_paths_object(struct ip_wait_paths *paths, uint32_t object);
void ip_wait_paths_destroy(struct ip_wait_paths *paths);

#endif
