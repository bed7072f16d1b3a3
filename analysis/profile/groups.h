/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of calls: by function and caller, call site, thread, module, source file, process, or a
 * recorded value; any of these but the value, and functions, also within each process. A group is
 * made when its first call comes; there are as many groups as different keys.
 */
#ifndef IP_GROUPS_H
#define IP_GROUPS_H

#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/profile/value_groups.h"
#include "analysis/read/symbolize.h"

enum ip_group_by {
	IP_GROUP_BY_FUNCTION,
	IP_GROUP_BY_CALLER,
	IP_GROUP_BY_CALL_SITE,
	IP_GROUP_BY_THREAD,
	IP_GROUP_BY_MODULE,
	IP_GROUP_BY_FILE,
	IP_GROUP_BY_VALUE,
	IP_GROUP_BY_PROCESS,
};

/* How the caller is known. */
enum ip_caller_from {
	IP_CALLER_NONE, /* nothing was recorded above the call */
	IP_CALLER_SITE, /* by the return address: --callsite */
	/* It is the recorded call around this one. Functions without probes between them are not
	 * seen. */
	IP_CALLER_FRAME,
};

#define IP_NO_FUNCTION UINT32_MAX

struct ip_group {
	uint32_t function; /* IP_NO_FUNCTION in groups by thread, module or file */
	uint32_t module;   /* index into session->modules; IP_NO_MODULE: unknown */
	const char *file;  /* in groups by file; NULL: unknown */
	uint32_t pid, tid; /* in groups by thread */
	uint32_t member;   /* likewise: of the recording, to which the thread belongs */
	/* in groups by process, and in groups within processes: index into process_list of the
	 * trace */
	uint32_t process;
	enum ip_caller_from from;
	uint32_t caller; /* function; valid with IP_CALLER_FRAME */
	/* valid with IP_CALLER_SITE; in groups by caller: the site of one of its calls */
	const struct ip_place *site;
	const struct ip_value_key *value; /* in groups by value */
};

struct ip_groups {
	enum ip_group_by by;
	const struct ip_recording *session;
	struct ip_group *groups;
	size_t n;
	bool per_process; /* calls of different processes are never in one group */
	struct ip_symbolizer *places;
	struct ip_value_groups *values; /* NULL: not by value; its groups have the same numbers */
	/* Private: a hash table by key (open addressing), and the names of callers. */
	struct ip_group_slot {
		uint64_t a, b;
		uint32_t value; /* value + 1; 0: free */
	} * index;
	size_t size, used;
	uint64_t within; /* the process of the current call, as a part of keys; 0: not wanted */
	char **callers;
	size_t ncallers;
};

#define IP_NO_GROUP UINT32_MAX

/* per_process of the result may be set at once. by is not IP_GROUP_BY_FUNCTION, unless it is. value
 * is for groups by value: NAME or NAME/log2. Returns NULL with an error: no function records that
 * value, or memory ran out. */
struct ip_groups *ip_groups_create(const struct ip_trace_reader *trace, enum ip_group_by by,
				   const char *value);
void ip_groups_destroy(struct ip_groups *groups);

/* Returns the group of a call. frame[-1] is the call around it where depth is not 0. payload is
 * what came with its entry; NULL: nothing. Returns IP_NO_GROUP with an error where memory ran
 * out. */
uint32_t ip_groups_of_call(struct ip_groups *groups, const struct ip_thread_packets *run,
			   const struct ip_frame *frame, size_t depth, const uint64_t *payload);

/* In groups by value: finds the group of a call by what came with its exit. Returns 1; 0: the value
 * is not among it, and the group of ip_groups_of_call() stands; -1 with an error. */
int ip_groups_of_result(struct ip_groups *groups, const struct ip_frame *frame,
			const uint64_t *payload, uint32_t *ret);

/* Returns the group of a point. payload is what came with it; NULL: nothing. */
uint32_t ip_groups_of_point(struct ip_groups *groups, const struct ip_thread_packets *run,
			    uint32_t function, const uint64_t *payload);

/* Returns the group of a point, or of calls that were counted. For counted calls run is NULL,
 * and groups are not by caller, call site or thread. */
uint32_t ip_groups_of_function(struct ip_groups *groups, const struct ip_thread_packets *run,
			       uint32_t function);

#endif
