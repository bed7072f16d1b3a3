/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace directory for its readers: the session, the streams, and the threads that wrote them.
 */
#ifndef IP_TRACE_H
#define IP_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/frames.h"
#include "analysis/callstack/trace_progress.h"
#include "analysis/read/session.h"
#include "analysis/read/stream.h"

/* Consecutive packets of one thread in one stream. A thread has one run, unless its process
 * became another program. */
struct ip_thread_packets {
	uint32_t stream; /* index into first */
	uint32_t pid, tid;
	/* by the machine's ids, which events of the kernel have: the same, until
	 * analysis/wait/machine_ids.h has looked; 0: not known */
	uint32_t machine_pid, machine_tid;
	uint32_t packets;
	uint64_t events; /* 0 until they have been counted or visited */
	/* size of its records as the packet headers tell: mostly 8 bytes an event */
	uint64_t bytes;
	uint64_t begin;
	/* The time up to which the calls that are open at the run's last event count. It is
	 * never later than the thread's true end.
	 *   Where the trace tells of the thread's end: the time at which the thread was last
	 *   seen.
	 *   Else the run's last event, where another thread has the stream after it, or where
	 *   the recording did not look for the ends of threads (a trace of an older iprobe).
	 *   Else the thread's next run, its process's next exec, or the time at which the sites
	 *   became idle; the trace's end where it does not tell. */
	uint64_t end;
	uint64_t gone;	  /* the thread had ended by then; 0: its end was not seen */
	uint64_t lost;	  /* events lost before its packets */
	uint32_t process; /* index into process_list */
	uint32_t member;  /* of the recording (analysis/read/members.h) */
	bool off;	  /* its process was not chosen: readers pass over it */
	/* index + 1 in session->stacks of what was open when its recording began; 0: not known */
	size_t stack;
};

/* A process of the trace. */
struct ip_trace_process {
	/* The pid as people see it. Processes of other pid namespaces may have one and the same,
	 * and so may several that the kernel gave it to, one after the other: then one of them has
	 * a number here that is larger than any pid. */
	uint32_t pid;
	uint32_t member;
	uint32_t own; /* the pid in the packets */
	bool began;   /* the recording of its member began with it */
	char *name;   /* "nginx" */
	bool named;   /* the trace tells what the process was called, last */
	/* The number of its parent when it was found, as people see it where it is a process of the
	 * trace; 0: not known. */
	uint32_t parent;
	bool forked; /* while its parent was recorded */
	/* the text of the trace; NULL: not told */
	const char *command;
	uint64_t threads, lost;
	bool off;	 /* it was not chosen */
	uint32_t joined; /* in a member: its index in the list of all members */
	/* private, until the list is made: what the process goes on in (process_parts.h) */
	struct ip_trace_process *later;
};

struct ip_trace_reader {
	char *dir;
	struct ip_recording *session;
	char **names; /* paths of the stream files, sorted by number */
	size_t nnames;
	/* By stream: the index of its first file in names. The files up to the next stream's
	 * first one are its pieces, in order. */
	size_t *first;
	size_t nstreams;
	struct ip_thread_packets *runs; /* by stream, in the order of the file */
	size_t nruns;
	uint64_t threads;   /* number of different threads */
	uint64_t processes; /* number of different processes */
	/* TSC. The times of the session, or of the first and last event where the session has
	 * none. */
	uint64_t begin, end;
	uint64_t lost; /* events lost in the whole trace */
	/* of the events that were visited or counted last: those of functions that were not
	 * selected (ip_recording_silent()) */
	uint64_t silent;
	uint64_t ended; /* runs whose end was seen */
	/* at most so many ticks passed from a run's end until that was seen */
	uint64_t ended_within;
	uint64_t missing; /* packets that are missing */
	char **damages;	  /* a line for each damaged stream, as far as packet headers tell */
	size_t ndamages;
	/* Called for each packet whose events have been visited, where the caller has set it. A
	 * negative value ends the reading: the reader returns it, with the callback's error. */
	int (*on_packet)(void *context, const struct ip_packet *packet);
	/* So many threads may read at once (trace_parts.h), where on_packet is NULL; 0 is taken
	 * as 1. The caller may set it. */
	unsigned jobs;
	void *on_packet_context;
	/* Who is told how far ip_trace_reader_visit() and ip_trace_reader_visit_parts() are; NULL:
	 * nobody. The caller may set it. */
	struct ip_trace_progress *progress;
	struct ip_trace_process *process_list;
	size_t nprocesses; /* of process_list, those that were not chosen included */
	/* The traces that this one is put together from, as in session->members; NULL: it is the
	 * trace of one recording. stream_member: by stream. */
	struct ip_trace_reader **members;
	size_t nmembers;
	uint32_t *stream_member;
	bool borrowed; /* private: the session belongs to the trace that this one is a member of */
};

/* Opens a trace and looks at all packet headers. A directory with the traces of several processes
 * (common/trace/trace_members.h) is opened as one trace. Returns 0, or -1 with an error. */
int ip_trace_reader_open(const char *dir, struct ip_trace_reader **ret);
/* The same. progress is told how many bytes of records have been found (all_bytes is 0, since their
 * number is not known before); NULL: nobody is. Where it asks for an early end, that is an error.
 */
int ip_trace_reader_open_told(const char *dir, struct ip_trace_progress *progress,
			      struct ip_trace_reader **ret);
void ip_trace_reader_close(struct ip_trace_reader *trace);

/* Returns the time of the first event, or of the first stack, in TSC. It is begin or later: before
 * it, iprobe made ready, and the program was loaded. Of a part of a trace, and of a trace without
 * events, it is begin. */
uint64_t ip_trace_reader_first_event(const struct ip_trace_reader *trace);

/* Returns the time after which nothing could be recorded any more, in TSC: when probes were idle,
 * where the trace tells, but not before the last event. Of a part of a trace it is end. */
uint64_t ip_trace_reader_last_moment(const struct ip_trace_reader *trace);

/* Returns for how long events could be recorded, in TSC ticks: from when probes were live until
 * they were idle, where the trace tells; else from begin to end. */
uint64_t ip_trace_reader_recorded(const struct ip_trace_reader *trace);

/* Returns for how long the events are whole that a flight recorder or a rotated trace has kept, in
 * TSC ticks before the end of what ip_trace_reader_recorded() tells: no event of that time was
 * overwritten or removed. Where none was at all it is the same as that. Threads of which nothing
 * is kept do not count. */
uint64_t ip_trace_reader_kept(const struct ip_trace_reader *trace);

/* Chooses processes: by pid, or by a pattern of names as of glob(7). Readers pass over the others
 * from then on, and the figures of the trace are about the chosen ones. Returns 0, or -1 with an
 * error: there is none. */
int ip_trace_reader_choose(struct ip_trace_reader *trace, const char *process);

/* Returns how many events of each process have been counted or visited, by index in process_list.
 * The caller frees the array. Returns NULL with an error where memory ran out. */
uint64_t *ip_trace_reader_processes_events(const struct ip_trace_reader *trace);

/* Opens a stream with all of its pieces. The caller closes it. Returns 0, or -1 with an error. */
int ip_trace_reader_stream(const struct ip_trace_reader *trace, uint32_t stream,
			   struct ip_stream **ret);
/* Opens a stream with all of its pieces as ip_stream_open_small() does. */
int ip_trace_reader_stream_small(const struct ip_trace_reader *trace, uint32_t stream,
				 struct ip_unpack **unpack, struct ip_stream **ret);

/* The receiver of the events of a trace, which come one thread after the other. */
struct ip_trace_visitor {
	const struct ip_frames_ops *ops;
	void *context; /* for ops and run */
	/* Takes the first of the words, and returns how many: of the calls that begin and end so,
	 * ops are told nothing (frames_words.h). *ret_ts and *ret_sp are those of the last word.
	 * NULL: all events go through ops. */
	size_t (*words)(void *context, struct ip_frames *frames,
			const struct ip_stream_words *words, uint64_t *ret_ts, uint64_t *ret_sp);
	/* The events that follow belong to this thread. */
	void (*run)(void *context, const struct ip_thread_packets *run);
};

/* Feeds all events to the visitor, thread by thread. *ret_events is their number. Returns 0, or
 * -1 with an error. */
int ip_trace_reader_visit(struct ip_trace_reader *trace, const struct ip_trace_visitor *visitor,
			  uint64_t *ret_events);

/* Opens the frames that were open before the first event of the run, where the trace tells them; to
 * be called before that event is fed. Returns 0, or -1 with an error. */
int ip_frames_begin_run(struct ip_frames *frames, const struct ip_thread_packets *run);
/* Does ip_frames_set_kernel() for the run, as ip_frames_begin_run() does besides. */
void ip_frames_begin_kernel(struct ip_frames *frames, const struct ip_thread_packets *run);

/* Counts all events. Returns 0, or -1 with an error. */
int ip_trace_reader_count(struct ip_trace_reader *trace, uint64_t *ret_events);

/* Goes to the next packet of a run. The packet was there when the trace was opened. Returns 1,
 * or -1 with an error. */
int ip_trace_reader_next_packet(struct ip_stream *stream, struct ip_packet *ret);

/* Adds a damage line where it is not there yet. Returns 0, or -1 with an error where memory ran
 * out. */
int ip_trace_reader_damaged(struct ip_trace_reader *trace, const char *line);

#endif
