/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a trace directory (common/trace/trace_format.h).
 */
#ifndef IP_WRITER_H
#define IP_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/clock.h"
#include "common/dir.h"
#include "common/trace/trace_format.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/ptrace/stop_log.h"
#include "trace_writer/journal.h"

struct ip_trace;

/* Makes the trace directory. If DIR exists and is a trace (or is empty), it is kept as DIR.old;
 * a DIR.old that is a trace is removed first. If DIR or DIR.old is anything else, the call is
 * refused. command: the target's command line, for people to read. Returns 0, or -1 with an
 * error. */
int ip_trace_create(const char *dir, pid_t pid, const char *command,
		    const struct ip_clock_reading *start, struct ip_trace **ret);

/* Like ip_trace_create(), at a given place. The trace owns the place from now on, also if the call
 * fails. dir: the directory's name in messages. */
int ip_trace_create_at(struct ip_dir_place *place, const char *dir, pid_t pid, const char *command,
		       const struct ip_clock_reading *start, struct ip_trace **ret);

/* The streams will be compressed (common/trace/packet_codec.h). Call this before the journal and
 * any packet. Returns 0, or -1 with an error. */
int ip_trace_compress(struct ip_trace *trace);
bool ip_trace_compresses(const struct ip_trace *trace);
/* Kernel events were recorded: which groups (bits of enum ip_kernel_group), how many, how many the
 * kernel had no room for, and where they came from (kernel_trace/record_source.h). */
void ip_trace_add_kernel(struct ip_trace *trace, unsigned groups, uint64_t events, uint64_t lost,
			 const char *source);
/* Counts what others have written into the directory (kernel_trace/recorder.h). */
void ip_trace_add_bytes(struct ip_trace *trace, uint64_t bytes);
/* The frequency of the clock, as it was last written. */
uint64_t ip_trace_hz(const struct ip_trace *trace);
/* Adds the result of compression to the session file. plain: the number of packets that were left
 * uncompressed because the compressor fell behind. */
void ip_trace_add_compressed(struct ip_trace *trace, uint64_t plain);

/* The trace keeps about the newest max_size bytes of its packets, in `pieces` pieces (2 to
 * IP_TRACE_SEGMENTS_MAX). The oldest piece is removed when there is no room for a new one
 * (rotate.h). Call this after ip_trace_compress() and before the journal. Returns 0, or -1 with an
 * error. */
/* the smallest size of a piece, in bytes: the last packet of a piece must leave little of it
 * unused */
#define IP_TRACE_PIECE_LEAST (256u << 10)
int ip_trace_rotate(struct ip_trace *trace, unsigned pieces, uint64_t max_size);
bool ip_trace_rotates(const struct ip_trace *trace);
/* How much disk space a trace may take where the user has not said it: 1 GiB, or a tenth of what is
 * free, whichever is less. dir: where it is to be. *ret_tenth: it is the latter. */
uint64_t ip_trace_usual_max_size(int dir, bool *ret_tenth);
/* Changes max_size from the next piece on. Returns 0, or -1 with an error. */
int ip_trace_set_max_size(struct ip_trace *trace, uint64_t max_size);
/* What has been removed up to now. All events that were removed happened before tsc. early: the tsc
 * at which the last of the removed pieces began. Few events from before that time are still in the
 * trace. 0: not known. */
struct ip_trace_rotated {
	uint64_t pieces, packets, bytes, events, tsc, early;
};
void ip_trace_rotated(const struct ip_trace *trace, struct ip_trace_rotated *ret);
/* Of a trace in pieces: begins another piece if the newest one is full already. *ret_first,
 * *ret_newest: the pieces that exist. Returns 0, or -1 with an error. */
int ip_trace_rotate_if_full(struct ip_trace *trace, uint32_t *ret_first, uint32_t *ret_newest);
/* Begins another piece. *ret_newest: its number. Returns 0, or -1 with an error. */
int ip_trace_rotate_now(struct ip_trace *trace, uint32_t *ret_newest);
/* Nanoseconds from the trace's start to tsc, as exactly as the clock is known by now. */
uint64_t ip_trace_ns(const struct ip_trace *trace, uint64_t tsc);
/* Adds ip_trace_rotated() as a line of the session file. Call this at the end. */
void ip_trace_add_rotated(struct ip_trace *trace);

/* From now on another iprobe can go on with the trace if this one is killed (journal.h). session:
 * the area's number; max_size: as the user gave it, in bytes. Returns 0, or -1 with an error. */
int ip_trace_begin_journal(struct ip_trace *trace, uint32_t session, uint64_t max_size);

/* The trace will go on in another area, under the number `session`. Another iprobe that goes on
 * with the trace finds it by both numbers. Returns 0, or -1 with an error. */
int ip_trace_expect_journal(struct ip_trace *trace, uint32_t session);
/* The trace has gone on in the other area: only the new number is valid. Returns 0, or -1 with an
 * error. */
int ip_trace_move_journal(struct ip_trace *trace, uint32_t session);

/* Opens the trace of an iprobe that was killed. The streams are cut off where the journal says.
 * *ret_max_size: the value that ip_trace_begin_journal() got. Returns 0, or -1 with an error if
 * there is no such trace, or if it does not belong to this process's session. */
int ip_trace_reopen(const char *dir, pid_t pid, uint32_t session, struct ip_trace **ret,
		    uint64_t *ret_max_size);

/* How far a slot's stream had come when the trace was reopened. Returns false if the stream had not
 * begun. */
bool ip_trace_progress(const struct ip_trace *trace, uint32_t stream, struct ip_progress *ret);
/* The time at which the trace was begun. */
const struct ip_clock_reading *ip_trace_start(const struct ip_trace *trace);
/* The selections of a reopened trace's session, in the order in which the user asked for them. "":
 * everything. Returns their number. The trace owns them. */
size_t ip_trace_selections(const struct ip_trace *trace, char *const **ret);

/* The session records by this selection too, from now on. text: ip_selections_item.text. */
void ip_trace_add_selection(struct ip_trace *trace, const char *text);

/* Adds a signature of values (common/trace/values.h). Returns its number, from 1; 0 if there are
 * too many; -1 with an error. */
int64_t ip_trace_add_signature(struct ip_trace *trace, const char *text);

/* Adds the modules and functions of a bound plan, and copies the modules' probe lists. It may be
 * called again (exec): a module or function that is in the trace is not added twice. Returns 0, or
 * -1 with an error. */
int ip_trace_add_plan(struct ip_trace *trace, const struct ip_plan *plan,
		      const struct ip_modules *modules, const struct ip_area *area);
/* Functions that were silent are selected now. Returns 0, or -1 with an error. */
int ip_trace_show(struct ip_trace *trace, const struct ip_plan *plan);
/* Whether the function with that number has been added. */
bool ip_trace_knows(const struct ip_trace *trace, uint32_t number);
/* How many functions have been added. The two instances of one function count once. */
size_t ip_trace_functions(const struct ip_trace *trace);
/* The functions of a bound plan are recorded from tsc on (what: "added"), or are no longer recorded
 * ("removed"). */
int ip_trace_add_change(struct ip_trace *trace, const char *what, uint64_t tsc,
			const struct ip_plan *plan);
/* Adds the payloads (enum ip_duty) of a bound plan's functions. Functions that log are left out. */
int ip_trace_add_payloads(struct ip_trace *trace, const struct ip_plan *plan);
/* The function that has the numbers first and first + 1 lost its probes because it was hot
 * (drop_hot.h). counted: its calls are still counted from then on. */
void ip_trace_add_dropped(struct ip_trace *trace, uint64_t tsc, uint32_t first, bool counted,
			  uint64_t per_second, uint64_t own_ticks, unsigned percent);
int ip_trace_add_stop(struct ip_trace *trace, const struct ip_stop_record *stop);
/* Adds looks to those that the trace tells the number and the times of. */
void ip_trace_add_looks(struct ip_trace *trace, const struct ip_stop_looks *looks);
/* A library was loaded or unloaded just now; what: "load", "unload". */
void ip_trace_add_library(struct ip_trace *trace, const char *what, const struct ip_module *module);
/* The process has executed another program just now. */
void ip_trace_add_exec(struct ip_trace *trace, pid_t pid);
/* Notes that probes are live from now on, for the next time that the session file is written. In a
 * trace that is gone on with, an earlier iprobe has noted it: that stays. Returns the TSC that is
 * noted. */
uint64_t ip_trace_add_live(struct ip_trace *trace);
/* Notes when nothing was recorded any more. */
void ip_trace_add_idle(struct ip_trace *trace, uint64_t tsc);
/* The process is recorded again, as that program, from to_tsc on. from_tsc: when it was last
 * recorded before. */
void ip_trace_add_resumed(struct ip_trace *trace, pid_t pid, uint64_t from_tsc, uint64_t to_tsc);
/* Calls of the function were not recorded from from_tsc to to_tsc: another program had changed its
 * sites. */
void ip_trace_add_missing(struct ip_trace *trace, uint32_t number, uint64_t from_tsc,
			  uint64_t to_tsc);
/* Stamps are coarse. The four numbers say how coarse; all are 0 while this is not known yet. */
void ip_trace_add_coarse(struct ip_trace *trace, uint64_t late, uint64_t latest, uint64_t refreshes,
			 uint64_t cpu_ns);
/* Times come from another clock than the TSC. */
void ip_trace_add_clock(struct ip_trace *trace, const char *name);
/* The trace ended at that many bytes. by: who or what set this limit. */
void ip_trace_add_limit(struct ip_trace *trace, uint64_t bytes, const char *by);
/* The recording ended because this condition of --until holds. */
void ip_trace_add_until(struct ip_trace *trace, const char *condition);
/* What the session leaves out ("depth 3"). */
void ip_trace_add_filter(struct ip_trace *trace, const char *text);
/* Adds the modules of which the plan has no function, and copies their probe lists: calls may come
 * from there (--callsite). Returns 0, or -1 with an error. */
int ip_trace_add_others(struct ip_trace *trace, const struct ip_plan *plan,
			const struct ip_modules *modules);
/* How many events the session has left out in the end. */
void ip_trace_add_filtered(struct ip_trace *trace, uint64_t events);
/* Adds a reason why there are no events. */
struct ip_no_events_reason;
void ip_trace_add_no_events(struct ip_trace *trace, const struct ip_no_events_reason *reason);
void ip_trace_add_thread(struct ip_trace *trace, pid_t tid, const char *name, uint64_t tsc);
/* What a process is called. parent: 0: not known; forked: parent is a process of the session, or
 * was. */
void ip_trace_add_process(struct ip_trace *trace, pid_t pid, pid_t parent, bool forked,
			  const char *name, const char *command);

/* The calls of a thread that were open at tsc, n of them, the outermost first; at most
 * IP_STACK_FRAMES_MAX. */
struct ip_trace_stack_frame {
	uint32_t number;
	uint64_t sp; /* as an event of the entry would have had it */
};
void ip_trace_add_stack(struct ip_trace *trace, pid_t pid, pid_t tid, uint64_t tsc,
			const struct ip_trace_stack_frame *frames, size_t n);

/* The session overwrites. events: how many events newer events have replaced in the rings. */
void ip_trace_add_overwritten(struct ip_trace *trace, uint64_t events);

/* Makes a new directory for the same session, at a given place. The new trace owns the place from
 * now on, also if the call fails. The directory holds all that is known so far, and no packets. The
 * call is refused if the new directory would take the place of the session's own. Returns 0, or -1
 * with an error. */
int ip_trace_clone(const struct ip_trace *trace, struct ip_dir_place *place, struct ip_trace **ret);

/* Writes the metadata and the session file as far as their content is known. Each is replaced
 * atomically (new file, rename). Returns 0, or -1 with an error. */
int ip_trace_sync(struct ip_trace *trace);
/* Like ip_trace_sync(), but does nothing if nothing is new. */
int ip_trace_sync_new(struct ip_trace *trace);

/* The text of the session file as far as it is known, for a reader that gets it while the session
 * goes on. ip_trace_head() returns the lines that are known from the beginning (malloc'ed; NULL: no
 * memory). ip_trace_text() returns the lines that have been added behind them up to now, which
 * stay as they are; they are valid until the next call for the trace. */
char *ip_trace_head(struct ip_trace *trace, size_t *ret_size);
const char *ip_trace_text(struct ip_trace *trace, size_t *ret_size);

/* Writes a file of the trace directory atomically. name: its path in the directory. */
int ip_trace_save(struct ip_trace *trace, const char *name, const void *data, size_t size);

/* Ends the trace: writes the calibrated clock, the totals, the reason, and all that is not written
 * yet. Returns 0, or -1 with an error. */
int ip_trace_finish(struct ip_trace *trace, uint64_t events, uint64_t lost, uint64_t unserved,
		    uint64_t invalid, const char *reason);
void ip_trace_close(struct ip_trace *trace);

/* Removes the trace directory. Brings back the directory that was kept as DIR.old for it. Closes
 * the trace. trace may be NULL. */
void ip_trace_discard(struct ip_trace *trace);

/* Appends a packet to stream-N, which is made on its first packet. This function fills in magic,
 * uuid, sizes and packet_seq_num of the header. progress: the slot's state once the packet is
 * written. Returns 0, or -1 with an error and errno: then no part of the packet is in the
 * stream. */
int ip_trace_write_packet(struct ip_trace *trace, uint32_t stream, struct ip_packet_header *header,
			  const uint64_t *words, size_t n, const struct ip_progress *progress);
/* Does the work of ip_trace_write_packet() in two steps, for a compressed stream. The first step
 * fills in the header and numbers the packet. Later the second step appends the encoded packet.
 * Packets must be appended in the order of their numbers. */
int ip_trace_prepare_packet(struct ip_trace *trace, uint32_t stream,
			    struct ip_packet_header *header, size_t n);
int ip_trace_append_encoded(struct ip_trace *trace, uint32_t stream, const void *bytes, size_t size,
			    const struct ip_progress *progress);
/* The slot's state has changed without a packet. Returns 0, or -1 with an error. */
int ip_trace_note_progress(struct ip_trace *trace, uint32_t stream,
			   const struct ip_progress *progress);

uint64_t ip_trace_bytes(const struct ip_trace *trace); /* of packets in the trace */
/* Several traces, written by several processes, share one limit. written: in memory that all of
 * them share; what is written of this trace is added to it. Borrowed. */
void ip_trace_share_limit(struct ip_trace *trace, uint64_t *written);
/* What the limit counts: the bytes of this trace, or of all that share the limit. */
uint64_t ip_trace_limited_bytes(const struct ip_trace *trace);
int ip_trace_dirfd(const struct ip_trace *trace); /* of the trace directory */

/* Returns the "command line" of a process: its arguments, separated by blanks, as a user would type
 * it (malloc'ed, never NULL). */
char *ip_proc_command(pid_t pid);

#endif
