/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a trace, or its processes, as the first level of a calling-context tree, each with
 * its process and its name. In such a tree a thread stands in the place of a function: its number
 * is that of the last function, plus one, plus its index here.
 */
#ifndef IP_TREE_THREADS_H
#define IP_TREE_THREADS_H

#include "analysis/callstack/trace.h"
#include "analysis/read/names.h"

struct ip_tree_thread {
	const struct ip_trace_process *process; /* of the trace */
	uint32_t tid;				/* 0: it is a process */
	/* The last name that the trace tells (NULL: none), of the trace, may hold any byte. Equal
	 * names and ids of several processes are told apart by the process. */
	const char *name;
};

struct ip_tree_threads {
	struct ip_tree_thread *items;
	uint32_t n;
	uint32_t *of_run; /* by run of the trace: index into items */
	uint32_t first;	  /* the number that stands for the first thread */
	bool several;	  /* processes */
	bool by_process;  /* items are processes */
};

/* The threads of the chosen processes of a trace, or with by_process those processes in the place
 * of threads: their tid is 0, and their name that of the process. The trace must outlive them.
 * Returns 0, or -1 with an error where memory ran out. */
int ip_tree_threads_create(const struct ip_trace_reader *trace, bool by_process,
			   struct ip_tree_threads **ret);
void ip_tree_threads_destroy(struct ip_tree_threads *threads);

/* Returns the thread that stands in the place of a function; NULL: it is a function, or threads is
 * NULL. */
const struct ip_tree_thread *ip_tree_thread_of(const struct ip_tree_threads *threads,
					       uint32_t function);

/* Returns "thread 1234 worker", with the process in front of the id where there are several:
 * "thread 4711/1234 worker"; of a process, "process 4711 nginx". The caller frees it. NULL: out of
 * memory, with an error. */
char *ip_tree_thread_text(const struct ip_tree_threads *threads,
			  const struct ip_tree_thread *thread);

/* Gives the threads' numbers their texts in names. Returns 0, or -1 with an error. */
int ip_tree_threads_name(const struct ip_tree_threads *threads, struct ip_names *names);

#endif
