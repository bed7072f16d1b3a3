/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls are put together by: function and caller, call site, thread, module, source file.
 * Groups are made as calls come; their number is that of different ones.
 */
#ifndef IP_GROUPS_H
#define IP_GROUPS_H

#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/read/symbolize.h"

enum ip_group_by {
	IP_GROUP_BY_FUNCTION,
	IP_GROUP_BY_CALLER,
	IP_GROUP_BY_CALL_SITE,
	IP_GROUP_BY_THREAD,
	IP_GROUP_BY_MODULE,
	IP_GROUP_BY_FILE,
};

/* How a caller is known. */
enum ip_caller_from {
	IP_CALLER_NONE, /* nothing was recorded above the call */
	IP_CALLER_SITE, /* by the return address: --callsite */
	/* it is the recorded call around this one; functions without probes in between are not
	 * seen */
	IP_CALLER_FRAME,
};

#define IP_NO_FUNCTION UINT32_MAX

struct ip_group {
	uint32_t function; /* IP_NO_FUNCTION: of threads, modules, files */
	uint32_t module;   /* index into session->modules, IP_NO_MODULE: unknown */
	const char *file;  /* of files; NULL: unknown */
	uint32_t pid, tid; /* of threads */
	enum ip_caller_from from;
	uint32_t caller;	     /* function, with IP_CALLER_FRAME */
	const struct ip_place *site; /* with IP_CALLER_SITE; by caller: of one of its calls */
};

struct ip_groups {
	enum ip_group_by by;
	const struct ip_recording *session;
	struct ip_group *groups;
	size_t n;
	struct ip_symbolizer *places;
	/* private: open addressing, by key; what callers are called */
	struct ip_group_slot {
		uint64_t a, b;
		uint32_t value; /* + 1; 0: free */
	} * index;
	size_t size, used;
	char **callers;
	size_t ncallers;
};

#define IP_NO_GROUP UINT32_MAX

/* by: not IP_GROUP_BY_FUNCTION. NULL with an error where memory ran out. */
struct ip_groups *ip_groups_create(const struct ip_trace_reader *trace, enum ip_group_by by);
void ip_groups_destroy(struct ip_groups *groups);

/* The group of a call; frame[-1] is the call around it where depth is not 0. payload: what came
 * with its entry, NULL: nothing. IP_NO_GROUP with an error where memory ran out. */
uint32_t ip_groups_of_call(struct ip_groups *groups, const struct ip_run *run,
			   const struct ip_frame *frame, size_t depth, const uint64_t *payload);

/* The group of a point, or of what was counted (run NULL; not by caller, call site, thread). */
uint32_t ip_groups_of_function(struct ip_groups *groups, const struct ip_run *run,
			       uint32_t function);

#endif
