/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIR/iprobe/session of a trace (common/trace_format.h), parsed: where the recording comes from,
 * and which function a probe number stands for. The file is input from outside: everything is
 * checked.
 *
 * Numbers of one function become one function here: its out-of-line and its inlined instances, and
 * the copies that the compiler made (.isra.0, .constprop.1 ...), each within one module. A part
 * that it split off (.part.0) is a function of its own: the frames (frames_part.c) tell whether it
 * is called to go on with a call, or by itself.
 */
#ifndef IP_READ_SESSION_H
#define IP_READ_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/read/changes.h"
#include "analysis/read/values.h"
#include "common/trace_format.h"

struct ip_recording_module {
	const char *path;
	const char *build_id; /* hexadecimal */
	const char *placement;
	uint64_t load_bias;
	uint32_t first_number;
	/* the first module with this path and build-id; its own index where it is the first */
	uint32_t same_as;
	bool present;
};

struct ip_recording_function {
	/* without the compiler's suffixes; of a part with ".part" behind */
	const char *linker_name;
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: unknown */
	uint32_t module;  /* index into modules */
	bool returns;	  /* its tail exits are returns: no jumps to other functions */
	/* it was measured in the process, until a tail call where it has ended by one */
	bool tails;
};

struct ip_recording_stop {
	const char *kind; /* "attach", "detach" */
	uint64_t tsc, duration_ns, threads, pages, sites;
	bool failed; /* nothing was changed */
};

struct ip_recording_thread {
	uint32_t tid;
	const char *name;
};

/* The process became another program at that moment: none of its calls went on. */
struct ip_recording_exec {
	uint32_t pid;
	uint64_t tsc;
	uint64_t gap_tsc,
		/* recorded again from then on, nothing between these; 0: it was not, or waited for
		 * us */
		again_tsc;
};

/* Calls of a function are missing between the two: somebody else had changed its sites. */
struct ip_recording_missing {
	uint32_t number;
	uint64_t from, to;
};

/* --drop-hot took the probes of a function away. */
struct ip_recording_drop {
	uint32_t function; /* index into functions */
	uint64_t tsc, per_second, own_ticks,
		/* when, and why: calls a second, of so many ticks, and what part of its time probes
		 * took */
		percent;
	bool counted; /* its calls were counted from then on (counts.h) */
};

/* A library came or went while the process was recorded. */
struct ip_recording_library {
	const char *path, *build_id;
	uint64_t tsc, load_bias;
	bool unload;
};

/* What the probes of a function did. */
enum ip_recording_payload {
	IP_RECORDING_LOG,
	IP_RECORDING_COUNT,   /* calls were counted: counts.h */
	IP_RECORDING_HIST, /* durations were put into a histogram: counts.h */
	IP_RECORDING_USER,    /* something of the user's own */
};

/* What a number stands for. */
struct ip_recording_number {
	uint32_t function; /* index into functions */
	/* Bytes that a new frame takes below its caller's stack pointer, at least; a multiple of
	 * 8. 0: the instance is inlined, its frame is the caller's. */
	uint32_t room;
	bool entry_only; /* it has no exit probes */
	uint8_t payload; /* enum ip_recording_payload */
	/* its tail exits lead on to where exits are live: see ip_recording_leads_to() */
	bool jumps;
	/* nobody has selected it: its events tell where calls that were, and ended by jumping to
	 * it, return */
	bool silent;
	/* it was removed from the recording while that went on: see ip_changes_is_off() */
	bool changes;
};

/* The tail exits of a number lead to a function. */
struct ip_recording_jump {
	uint32_t number;
	uint32_t to; /* a number, when all has been read the index of its function */
};

struct ip_recording {
	/* NULL: not there. end: why the recording ended */
	const char *host, *kernel, *command, *end;
	uint64_t pid, start_realtime, tsc_start, tsc_end, tsc_hz; /* tsc_end 0: not there */
	uint64_t overwritten; /* by newer events: the recording kept those */
	bool overwrites;
	bool rotates;	  /* the recording kept the newest, and removed: */
	uint64_t rotated; /* events */
	/* lost: in what was removed or before */
	uint64_t rotated_pieces, rotated_packets, rotated_bytes, rotated_lost;
	uint64_t rotated_tsc; /* nothing that happened after it was removed */
	bool ends;	      /* packets tell of the ends of threads (ip_packet.ended) */
	bool monotonic;	      /* times are CLOCK_MONOTONIC_RAW's, not the TSC's */
	bool compressed;      /* its streams are */
	uint64_t plain;	      /* packets of them that are not */
	/* events that were left out on purpose; 0: none, or nothing was filtered */
	uint64_t filtered;
	uint64_t events, lost, unserved; /* 0 where the recording was cut off */
	uint64_t invalid;		 /* words in rings that were no records */
	bool ended; /* the last lines are there: the recording ended properly */
	/* it ended at so many bytes, before its time, and whose limit that was; 0: it did not */
	uint64_t limit;
	const char *limit_by;
	/* stamps are: events happened up to late ticks after theirs (99 % of the time), latest at
	 * most; 0: not known */
	bool coarse;
	uint64_t late, latest;
	bool trimmed; /* it is a part of a trace (analysis/trim/trim.h): this time of it */
	uint64_t trimmed_from, trimmed_to;
	bool payloads; /* some functions did something else than log */

	/* what was left out, as the options said it; what was selected, in the order in which that
	 * changed */
	const char **filters;
	size_t nfilters;
	const char **selections;
	size_t nselections;

	struct ip_recording_module *modules;
	size_t nmodules;
	/* functions[0] stands for numbers that the file does not know; its module is NO_MODULE */
	struct ip_recording_function *functions;
	size_t nfunctions;
	struct ip_recording_stop *stops;
	size_t nstops;
	/* beyond these; sum, and the longest */
	uint64_t more_stops, more_stops_ns, more_stops_longest_ns;
	struct ip_recording_thread *threads;
	size_t nthreads;
	struct ip_recording_exec *execs;
	size_t nexecs;
	struct ip_recording_missing *missing;
	size_t nmissing;

	struct ip_recording_drop *drops;
	size_t ndrops;
	struct ip_changes changes;
	/* without probes; path, build_id and load_bias are known */
	struct ip_recording_module *others;
	size_t nothers;
	struct ip_recording_library *libraries; /* in the order of time */
	size_t nlibraries;

	struct ip_recording_number *numbers; /* by number; those beyond are unknown */
	size_t nnumbers;

	struct ip_recording_jump *jumps; /* in order */
	size_t njumps;

	struct ip_signature *signatures; /* by number - 1; n 0: not known */
	size_t nsignatures;

	/* private: what the strings point into, and the index that merges functions */
	char *text;
	uint32_t *index;
	size_t index_size;
};

#define IP_NO_MODULE		UINT32_MAX
#define IP_RECORDING_MODULES	8192u
#define IP_RECORDING_SIGNATURES 65536u

/* Reads the session file of the trace directory dir. 0, or -1 with an error that names the file and
 * line. */
int ip_recording_load(const char *dir, struct ip_recording **ret);

/* The same from memory; name is for messages. */
int ip_recording_parse(const char *name, const void *data, size_t size, struct ip_recording **ret);

void ip_recording_destroy(struct ip_recording *session);

/* The function that function is a part of; 0: it is none, or that one has no probes. */
uint32_t ip_recording_host(const struct ip_recording *session, uint32_t function);

/* Last component of the path of the function's module; "[unknown]" where there is none. */
const char *ip_recording_module_name(const struct ip_recording *session,
				     const struct ip_recording_function *function);

/* What the thread was called; NULL: not known. */
const char *ip_recording_thread_name(const struct ip_recording *session, uint32_t tid);

static inline struct ip_recording_number ip_recording_number(const struct ip_recording *session,
							     uint32_t number)
{
	return number < session->nnumbers ? session->numbers[number]
					  : (struct ip_recording_number){0};
}

/* Whether the number's tail exits lead to the function, as far as was known. */
bool ip_recording_leads_to(const struct ip_recording *session, uint32_t number, uint32_t function);

/* What the values of a payload are; NULL: not known. payload may be NULL. */
static inline const struct ip_signature *ip_recording_signature(const struct ip_recording *session,
								const uint64_t *payload)
{
	uint32_t number = payload ? IP_PAYLOAD_SIGNATURE(payload[0]) : 0;

	return number && number <= session->nsignatures && session->signatures[number - 1].n
		       ? &session->signatures[number - 1]
		       : NULL;
}

/* The return address that came with an entry (--callsite); 0: none. payload may be NULL. */
static inline uint64_t ip_recording_call_site(const uint64_t *payload)
{
	uint32_t n = payload && payload[0] & IP_PAYLOAD_CALLER ? IP_PAYLOAD_N(payload[0]) : 0;

	return n ? payload[n] : 0;
}

/* TSC ticks in nanoseconds, rounded to nearest. */
uint64_t ip_recording_ns(const struct ip_recording *session, uint64_t ticks);

/* What the TSC ts is in nanoseconds since tsc_start; 0 for what lies before it. */
uint64_t ip_recording_since_start(const struct ip_recording *session, uint64_t ts);

#endif
