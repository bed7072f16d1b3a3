/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parsed form of DIR/iprobe/session of a trace (common/trace/trace_format.h): where the
 * recording comes from, and which function a probe number stands for. The file is input from
 * outside: everything is checked.
 *
 * A function can have several numbers: its out-of-line and its inlined instances, and the copies
 * that the compiler made (.isra.0, .constprop.1 ...). The numbers of one function in one module
 * become one function here. A part that the compiler split off (.part.0) is a function of its
 * own: the stack machine (frames_part.c) tells whether the part goes on with a call of the
 * function or is called by itself.
 */
#ifndef IP_READ_SESSION_H
#define IP_READ_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/names/name_list.h"

#include "analysis/read/changes.h"
#include "analysis/read/values.h"
#include "common/trace/trace_format.h"

struct ip_recording_module {
	const char *path;
	const char *build_id; /* hexadecimal */
	const char *placement;
	uint64_t load_bias;
	uint32_t first_number;
	/* index of the first module with this path and build-id; its own index where it is the
	 * first */
	uint32_t same_as;
	uint32_t member; /* the first member that has it (members.h) */
	bool present;
};

struct ip_recording_function {
	/* without the compiler's suffixes; the name of a part ends in ".part" */
	const char *linker_name;
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: unknown */
	uint32_t module;  /* index into modules */
	bool returns;	  /* its tail exits are returns, not jumps to other functions */
	bool kernel;	  /* it is one of the kernel (kernel_calls.h) */
	/* The process measured its durations; where a call ends by a tail call, its duration
	 * ends there. */
	bool tails;
};

struct ip_recording_stop {
	const char *kind; /* "attach", "detach" */
	uint64_t tsc, duration_ns, threads, pages, sites;
	bool failed;	 /* nothing was changed at this stop */
	uint32_t member; /* whose process was stopped (members.h) */
};

/* The thread had the name from tsc on. An empty name: it is not known from then on. */
struct ip_recording_thread {
	uint32_t tid;
	uint32_t member; /* to which the thread belongs (members.h) */
	uint32_t order;	 /* in the file: private */
	uint64_t tsc;
	const char *name;
};

/* What a process was called when it was last looked at. */
struct ip_recording_process {
	uint32_t pid, parent; /* parent 0: not known */
	uint32_t order;	      /* in the file: private */
	bool forked;	      /* by a process of this recording */
	const char *name, *command;
};

/* The calls of a thread that were open when the recording of the thread's process began. */
struct ip_recording_stack {
	uint32_t pid, tid; /* as in packets */
	uint64_t tsc;	   /* from then on its events are recorded */
	size_t first, n;   /* in stack_frames, the outermost first */
};

struct ip_recording_stack_frame {
	uint32_t number;
	uint64_t sp; /* as the entry's event would have had it */
};

/* Why there are no events: a word for scripts, and a line for people. */
struct ip_recording_reason {
	const char *code, *text;
};

/* The process became another program at tsc: none of the calls that were open went on. */
struct ip_recording_exec {
	uint32_t pid;
	uint32_t member;
	uint64_t tsc;
	uint64_t gap_tsc,
		/* The process was recorded again from again_tsc on; nothing was recorded from
		 * gap_tsc to again_tsc. 0: the process was not recorded again, or it waited for
		 * the tracer. */
		again_tsc;
};

/* Calls of a function are missing between from and to: another tool had changed its sites. */
struct ip_recording_missing {
	uint32_t number;
	uint32_t member;
	uint64_t from, to;
};

/* --drop-hot took the probes of a function away at tsc. */
struct ip_recording_drop {
	uint32_t function; /* index into functions */
	uint32_t member;
	uint64_t tsc, per_second, own_ticks,
		/* Why: it had per_second calls a second, its own code took own_ticks a call, and
		 * the probes took percent of its time. */
		percent;
	bool counted; /* its calls were counted from then on (counts.h) */
};

/* A library was loaded or unloaded while the process was recorded. */
struct ip_recording_library {
	const char *path, *build_id;
	uint64_t tsc, load_bias;
	uint32_t member;
	bool unload;
};

/* What the probes of a function did. */
enum ip_recording_payload {
	IP_RECORDING_LOG,
	IP_RECORDING_COUNT, /* counted calls: counts.h */
	IP_RECORDING_HIST,  /* put durations into a histogram: counts.h */
	IP_RECORDING_USER,  /* ran a payload of the user's */
};

/* What a number stands for. */
struct ip_recording_number {
	uint32_t function; /* index into functions */
	/* The bytes that a new frame takes below its caller's stack pointer, at least; a
	 * multiple of 8. 0: the instance is inlined, its frame is the caller's. */
	uint32_t room;
	bool entry_only; /* the number has no exit probes */
	uint8_t payload; /* enum ip_recording_payload */
	/* its tail exits jump to functions with live exits: see ip_recording_leads_to() */
	bool jumps;
	/* It was not selected. It is live because selected functions end by jumping to it: its
	 * events tell where those calls return. */
	bool silent;
	/* it was removed from the recording while that went on: see ip_changes_is_off() */
	bool changes;
};

/* The tail exits of number lead to function to. */
struct ip_recording_jump {
	uint32_t number;
	uint32_t to; /* a number; when all has been read, the index of its function */
};

struct ip_recording {
	/* NULL: the file does not tell. end: why the recording ended. boot: id of the boot of the
	 * kernel. */
	const char *host, *kernel, *command, *end, *boot;
	/* tsc_end 0: the file does not tell */
	uint64_t pid, start_realtime, tsc_start, tsc_end, tsc_hz;
	/* when probes became live at first, and idle at last; 0: it is not told */
	uint64_t tsc_live, tsc_idle;
	uint64_t overwritten; /* events that newer events have overwritten */
	bool overwrites;
	/* The recording kept the newest events only. It removed rotated events, in
	 * rotated_packets packets, rotated_pieces pieces and rotated_bytes bytes. */
	bool rotates;
	uint64_t rotated;
	/* rotated_lost: events that were lost in the removed pieces or before them */
	uint64_t rotated_pieces, rotated_packets, rotated_bytes, rotated_lost;
	uint64_t rotated_tsc; /* nothing that happened after it was removed */
	bool ends;	      /* packets tell when threads ended (ip_packet.ended) */
	bool monotonic;	      /* times are those of CLOCK_MONOTONIC_RAW, not of the TSC */
	bool compressed;      /* its streams are compressed */
	uint64_t plain;	      /* packets of compressed streams that are not compressed */
	/* events that filters left out; 0: none, or there was no filter */
	uint64_t filtered;
	uint64_t events, lost, unserved; /* 0 where the recording was cut off */
	uint64_t invalid;		 /* words in rings that were no records */
	bool ended; /* The last lines are there: the recording ended properly. */
	/* The recording ended early at this many bytes, and limit_by tells whose limit that was.
	 * 0: it did not. */
	uint64_t limit;
	const char *limit_by;
	const char *until;   /* the condition of --until that ended it; NULL: none did */
	uint32_t end_member; /* whose end is `end` (members.h) */
	/* Time stamps are coarse: an event happened at most late ticks after its stamp in 99 %
	 * of the time, and at most latest ticks after it always. 0: not known. */
	bool coarse;
	uint64_t late, latest;
	/* which events of the kernel were recorded ("sched,irq"), how many, and how many it had no
	 * room for; NULL: none were */
	const char *kernel_groups;
	uint64_t kernel_events, kernel_lost;
	const char *kernel_source; /* of them: "tracefs", "perf"; NULL: not told */
	/* it is a part of a trace (analysis/trim/trim.h), from trimmed_from to trimmed_to */
	bool trimmed;
	uint64_t trimmed_from, trimmed_to;
	bool payloads; /* some functions had another payload than log */

	/* filters: what was left out, in the words of the options. selections: what was
	 * selected, in the order in which the selection changed. */
	const char **filters;
	size_t nfilters;
	const char **selections;
	size_t nselections;

	struct ip_recording_module *modules;
	size_t nmodules;
	/* functions[0] stands for numbers that the file does not know; its module is
	 * IP_NO_MODULE */
	struct ip_recording_function *functions;
	size_t nfunctions;
	struct ip_recording_stop *stops;
	size_t nstops;
	/* stops beyond stops[]: their number, the sum of their times, and the longest time */
	uint64_t more_stops, more_stops_ns, more_stops_longest_ns;
	/* short holds of one thread that are no stops: as above */
	uint64_t looks, looks_ns, looks_longest_ns;
	/* names of threads, by number and time; a thread whose name has changed has several */
	struct ip_recording_thread *threads;
	size_t nthreads;
	/* by pid, and in the order of the file; of one recording only, not of several */
	struct ip_recording_process *processes;
	size_t nprocesses;
	/* by pid and tid; those of members (members.h) one after the other */
	struct ip_recording_stack *stacks;
	size_t nstacks;
	struct ip_recording_stack_frame *stack_frames;
	size_t nstack_frames;
	struct ip_recording_reason *no_events;
	size_t nno_events;
	struct ip_recording_exec *execs;
	size_t nexecs;
	struct ip_recording_missing *missing;
	size_t nmissing;

	struct ip_recording_drop *drops;
	size_t ndrops;
	struct ip_changes changes;
	/* modules without probes; only path, build_id and load_bias are known */
	struct ip_recording_module *others;
	size_t nothers;
	struct ip_recording_library *libraries; /* in order of time */
	size_t nlibraries;

	struct ip_recording_number *numbers; /* by number; numbers beyond are unknown */
	size_t nnumbers;

	struct ip_recording_jump *jumps; /* sorted */
	size_t njumps;

	struct ip_signature *signatures; /* by number - 1; n 0: not known */
	size_t nsignatures;

	/* what several recordings were put together from (members.h); NULL: it is one recording,
	 * and every member index is 0 */
	struct ip_recording_members *members;

	/* calls of functions of the kernel (kernel_calls.h); NULL: none were read */
	struct ip_kernel_calls *kernel_calls;

	/* Private: the text that the strings point into, and the index that merges functions. */
	char *text;
	uint32_t *index;
	size_t index_size;
};

#define IP_NO_MODULE		UINT32_MAX
#define IP_RECORDING_MODULES	8192u
#define IP_RECORDING_SIGNATURES 65536u

/* Reads the session file of the trace directory dir. Returns 0, or -1 with an error that names
 * the file and the line. */
int ip_recording_load(const char *dir, struct ip_recording **ret);

/* Reads a session file from memory. name is for messages. */
int ip_recording_parse(const char *name, const void *data, size_t size, struct ip_recording **ret);

void ip_recording_destroy(struct ip_recording *session);

/* Returns the function that function is a part of. 0: it is no part, or that function has no
 * probes. */
uint32_t ip_recording_host(const struct ip_recording *session, uint32_t function);

/* Returns how many functions are silent (struct ip_recording_number) and never shown. */
size_t ip_recording_silent(const struct ip_recording *session);
/* The same with the names of the first ones. */
void ip_recording_silent_names(const struct ip_recording *session, struct ip_name_list *ret);

/* Returns the last component of the path of the function's module; "[unknown]" where there is no
 * module. */
const char *ip_recording_module_name(const struct ip_recording *session,
				     const struct ip_recording_function *function);

/* Sorts threads[]. Must be called before any name is asked for, when names have been added. */
void ip_recording_index_threads(struct ip_recording *session);

/* Returns the last name of the thread that is known, of a member (0 in a recording of one process);
 * NULL: none is. */
const char *ip_recording_thread_name(const struct ip_recording *session, uint32_t member,
				     uint32_t tid);

/* Returns what is told of a process, last; NULL: nothing. To be asked of one recording only. */
const struct ip_recording_process *ip_recording_process(const struct ip_recording *session,
							uint32_t pid);

/* Returns the index + 1 of the thread's first stack; 0: it has none. To be asked of the recording
 * of one member only. */
size_t ip_recording_find_stack(const struct ip_recording *s, uint32_t pid, uint32_t tid);

/* Returns the name that the thread had at the TSC time ts; NULL: not known. */
const char *ip_recording_thread_name_at(const struct ip_recording *session, uint32_t member,
					uint32_t tid, uint64_t ts);

static inline struct ip_recording_number ip_recording_number(const struct ip_recording *session,
							     uint32_t number)
{
	return number < session->nnumbers ? session->numbers[number]
					  : (struct ip_recording_number){0};
}

/* Returns whether the number's tail exits lead to the function, as far as the recording knew. */
bool ip_recording_leads_to(const struct ip_recording *session, uint32_t number, uint32_t function);

/* Returns the signature of the values of a payload; NULL: not known. payload may be NULL. */
static inline const struct ip_signature *ip_recording_signature(const struct ip_recording *session,
								const uint64_t *payload)
{
	uint32_t number = payload ? IP_PAYLOAD_SIGNATURE(payload[0]) : 0;

	return number && number <= session->nsignatures && session->signatures[number - 1].n
		       ? &session->signatures[number - 1]
		       : NULL;
}

/* Returns the return address that came with an entry (--callsite); 0: none. payload may be NULL. */
static inline uint64_t ip_recording_call_site(const uint64_t *payload)
{
	uint32_t n = payload && payload[0] & IP_PAYLOAD_CALLER ? IP_PAYLOAD_N(payload[0]) : 0;

	return n ? payload[n] : 0;
}

/* Converts TSC ticks to nanoseconds, rounded to nearest. */
uint64_t ip_recording_ns(const struct ip_recording *session, uint64_t ticks);

/* Converts the TSC time ts to nanoseconds since tsc_start; 0 for a time before it. */
uint64_t ip_recording_since_start(const struct ip_recording *session, uint64_t ts);

#endif
