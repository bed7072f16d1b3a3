/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: the calls of F0, each with what it has called. Of several calls of one node within
 * one call of the node above it, the longest one is kept, with its callees; and how many there
 * were, and how long all of them took.
 *
 * What calls begin and end comes from outside, thread by thread: so a trace and a live process are
 * searched by the same code. A recursion of F0 is a part of its outermost call.
 */
#ifndef IP_DARC_OPERATIONS_H
#define IP_DARC_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/darc/values/open_values.h"

#include "analysis/darc/ftree.h"

struct ip_darc_call {
	/* of the longest call, TSC. ticks: without those in which the thread waited for a CPU or
	 * was interrupted, where that is known */
	uint64_t start, ticks;
	uint64_t inside;     /* of it: ticks in all of its callees */
	uint64_t sum, count; /* of all calls of the node in the same call of the node above */
	struct ip_darc_call *callees, *next; /* the first one; the next one of the node above */
	uint32_t node;
	uint32_t run; /* of the trace: in which thread */
};

struct ip_darc_operation {
	uint64_t start, ticks; /* ticks: all of them */
	/* in which the thread waited for a CPU or was interrupted, as far as is known */
	uint64_t queued;
	size_t run;		   /* of the trace: in which thread; else the caller's number */
	struct ip_darc_call *call; /* of node 0 */
	/* what belongs to each node alone, in all of its calls; where that was wanted */
	struct ip_darc_own {
		uint32_t node;
		uint64_t ticks, calls;
	} * own;
	size_t nown;
};

/* Some operations. */
struct ip_darc_operations {
	struct ip_darc_operation *items;
	size_t n;
};

/* A call of a node that has ended: from start to end, TSC, whatever its thread did. queued: the
 * ticks for which something else had had the CPU of the thread by then. */
struct ip_darc_call_end {
	size_t run;	    /* as in ip_darc_operation */
	uint64_t operation; /* the begin of that */
	uint32_t node;
	uint64_t start, end;
	uint64_t start_queued, end_queued;
	uint32_t number; /* of the call, as ip_darc_builder_enter() has returned it */
	/* where a reader of a trace is to tell that: what came with its entry and its points, and
	 * with its exit (common/trace/trace_format.h); NULL: nothing. Valid until the callback
	 * returns */
	const struct ip_open_call *open;
	const uint64_t *result;
};

struct ip_darc_builder_options {
	uint32_t function; /* F0 */
	uint32_t depth;	   /* levels below F0; what is deeper belongs to the last one */
	bool own;	   /* ip_darc_operation.own is wanted */
	/* Whether a function was called by another one, as far as the return address tells; NULL:
	 * each is called by the one around it. What was not is no node, nor is what it calls: its
	 * time belongs to the node around it. */
	bool (*is_callee)(void *context, uint32_t above, uint32_t function, uint32_t member,
			  uint64_t call_site);
	/* An operation has ended. Returns whether it is taken: its call and own are the caller's
	 * then, and freed by ip_darc_operation_clear(). */
	bool (*ended)(void *context, struct ip_darc_operation *operation);
	/* A call within an operation has ended, or that of F0 itself, which comes last; also where
	 * the operation is spoilt. NULL: nobody wants to know. */
	void (*call_ended)(void *context, const struct ip_darc_call_end *call);
	void *context;
};

/* What builds operations of the calls of one thread after the other. */
struct ip_darc_builder;

/* ftree: that of F0; it must outlive the builder. Returns NULL with an error. */
struct ip_darc_builder *ip_darc_builder_create(struct ip_ftree *ftree,
					       const struct ip_darc_builder_options *options);
void ip_darc_builder_destroy(struct ip_darc_builder *builder);

/* The calls that follow are of another thread. */
void ip_darc_builder_run(struct ip_darc_builder *builder, size_t run);
/* The calls that follow are parts of the operation that is open, in another thread, or in its own
 * one again. */
void ip_darc_builder_switch(struct ip_darc_builder *builder, size_t run);
/* The begin of the operation that is open. Returns false where there is none. */
bool ip_darc_builder_operation(const struct ip_darc_builder *builder, uint64_t *ret_start);
/* A call begins in the thread. queued: the ticks for which others had had its CPU by then;
 * 0: that is not known. Returns its number, which tells whether it is a part of an operation: 0 is
 * none. Returns 0 with an error in ip_darc_builder_failed() where memory ran out, or the user wants
 * the end (common/interrupted.h). */
uint32_t ip_darc_builder_enter(struct ip_darc_builder *builder, uint32_t function, uint32_t member,
			       uint64_t call_site, uint64_t tsc, uint64_t queued);
/* The call that began at a time, with this number, has ended, and so have those within it. */
void ip_darc_builder_leave(struct ip_darc_builder *builder, uint32_t number, uint64_t start,
			   uint64_t tsc, uint64_t queued);
/* The operation that is open is no good: a thread went on in a call that it had left, events were
 * lost, or its end is not known. */
void ip_darc_builder_spoil(struct ip_darc_builder *builder);
/* How many operations were left out so. */
uint64_t ip_darc_builder_spoilt(const struct ip_darc_builder *builder);
bool ip_darc_builder_failed(const struct ip_darc_builder *builder);

/* Frees what belongs to an operation that was taken. */
void ip_darc_operation_clear(struct ip_darc_operation *operation);
void ip_darc_operations_clear(struct ip_darc_operations *operations);
/* Takes an operation's contents into the array. Returns 0, or -1 with an error. */
int ip_darc_operations_add(struct ip_darc_operations *operations,
			   const struct ip_darc_operation *operation);

/* Whether calls that end belong to one of n operations, as far as is known before F0 ends; and
 * whether the call of F0 that has ended is an operation. */
bool ip_darc_may_be_of(const struct ip_darc_call_end *call,
		       const struct ip_darc_operation *const *operations, size_t n);
bool ip_darc_is_operation(const struct ip_darc_call_end *call,
			  const struct ip_darc_operation *operation);

/* The callee of a call at a node; NULL: none. call may be NULL. */
const struct ip_darc_call *ip_darc_callee(const struct ip_darc_call *call, uint32_t node);

#endif
