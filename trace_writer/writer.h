/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a trace directory (common/trace_format.h).
 */
#ifndef IP_WRITER_H
#define IP_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/clock.h"
#include "common/dir.h"
#include "common/trace_format.h"
#include "hotpatcher/plan/plan.h"
#include "trace_writer/journal.h"

struct ip_trace;

/* Makes the directory. One that exists and is a trace (or is empty) is kept as DIR.old, in place
 * of a DIR.old that is a trace. Anything else in the way is refused. command: of the target, for
 * people. */
int ip_trace_create(const char *dir, pid_t pid, const char *command,
		    const struct ip_clock_reading *start, struct ip_trace **ret);

/* The same at a place, which is the trace's from now on, however it ends. dir: what people call
 * it. */
int ip_trace_create_at(struct ip_dir_place *place, const char *dir, pid_t pid, const char *command,
		       const struct ip_clock_reading *start, struct ip_trace **ret);

/* Its streams will be compressed (common/packet_codec.h). Before the journal, and any packet. -1
 * with an error. */
int ip_trace_compress(struct ip_trace *trace);
bool ip_trace_compresses(const struct ip_trace *trace);
/* What that came to: packets that were left as they were because it fell behind. */
void ip_trace_add_compressed(struct ip_trace *trace, uint64_t plain);

/* It keeps the newest max_size bytes of packets, or nearly, in so many pieces (2 to
 * IP_TRACE_SEGMENTS_MAX) of which the oldest is removed when there is no room for a new one
 * (rotate.h). After ip_trace_compress(), before the journal. -1 with an error. */
/* bytes: so that what the last packet leaves of it is little */
#define IP_TRACE_PIECE_LEAST (256u << 10)
int ip_trace_rotate(struct ip_trace *trace, unsigned pieces, uint64_t max_size);
bool ip_trace_rotates(const struct ip_trace *trace);
/* From the next piece on. -1 with an error. */
int ip_trace_set_max_size(struct ip_trace *trace, uint64_t max_size);
/* What was removed, up to now; nothing that happened after tsc was. early: when the last of the
 * pieces that were removed began; little of what happened before that is still there. 0: not
 * known. */
struct ip_trace_rotated {
	uint64_t pieces, packets, bytes, events, tsc, early;
};
void ip_trace_rotated(const struct ip_trace *trace, struct ip_trace_rotated *ret);
/* Nanoseconds from the trace's start to tsc, as well as they are known by now. */
uint64_t ip_trace_ns(const struct ip_trace *trace, uint64_t tsc);
/* The same as a line of the session file: at the end. */
void ip_trace_add_rotated(struct ip_trace *trace);

/* From now on another iprobe can go on with the trace, should this one be killed (journal.h).
 * session: the area's; max_size: as asked for. */
int ip_trace_begin_journal(struct ip_trace *trace, uint32_t session, uint64_t max_size);

/* It will go on in another area, under that number: an iprobe that goes on with it finds it by
 * both. -1 with an error. */
int ip_trace_expect_journal(struct ip_trace *trace, uint32_t session);
/* It does. The same. */
int ip_trace_move_journal(struct ip_trace *trace, uint32_t session);

/* Opens the trace of an iprobe that was killed; streams are cut off where the journal says.
 * *ret_max_size: what it was begun with. -1 with the reason where there is none, or it is not
 * that of this process's session. */
int ip_trace_reopen(const char *dir, pid_t pid, uint32_t session, struct ip_trace **ret,
		    uint64_t *ret_max_size);

/* How far the slot's stream had come then; false: it had not begun. */
bool ip_trace_progress(const struct ip_trace *trace, uint32_t stream, struct ip_progress *ret);
/* When it was begun. */
const struct ip_clock_reading *ip_trace_start(const struct ip_trace *trace);
/* The selections of its session then, in the order in which they were asked for; "": everything. */
size_t ip_trace_selections(const struct ip_trace *trace, char *const **ret);

/* The session records by this selection too, from now on; text: ip_selections_item.text. */
void ip_trace_add_selection(struct ip_trace *trace, const char *text);

/* A signature of values (common/values.h). Its number, from 1; 0: there are too many; -1 with an
 * error. */
int64_t ip_trace_add_signature(struct ip_trace *trace, const char *text);

/* The modules and functions of a plan that has been bound; may be called again (exec): what is
 * there already is not doubled. Copies the modules' probe lists. */
int ip_trace_add_plan(struct ip_trace *trace, const struct ip_plan *plan,
		      const struct ip_modules *modules, const struct ip_area *area);
/* Whether the function with that number was added already. */
bool ip_trace_knows(const struct ip_trace *trace, uint32_t number);
/* How many functions were added; the two instances of one count once. */
size_t ip_trace_functions(const struct ip_trace *trace);
/* The functions of a plan that has been bound are recorded from tsc on ("added"), or are not any
 * more ("removed"). */
int ip_trace_add_change(struct ip_trace *trace, const char *what, uint64_t tsc,
			const struct ip_plan *plan);
/* What the functions of a plan that has been bound do, where it is not to log (enum ip_duty). */
int ip_trace_add_payloads(struct ip_trace *trace, const struct ip_plan *plan);
/* The functions with these two numbers lost their probes because they were hot (drop_hot.h); their
 * calls are counted from then on, or not. */
void ip_trace_add_dropped(struct ip_trace *trace, uint64_t tsc, uint32_t first, bool counted,
			  uint64_t per_second, uint64_t own_ticks, unsigned percent);
int ip_trace_add_stop(struct ip_trace *trace, const char *kind, const struct ip_stop_record *stop);
/* A library came or went, just now; what: "load", "unload". */
void ip_trace_add_library(struct ip_trace *trace, const char *what, const struct ip_module *module);
/* The process has become another program, just now. */
void ip_trace_add_exec(struct ip_trace *trace, pid_t pid);
/* It is recorded again, as that program; when it was recorded last before. */
void ip_trace_add_again(struct ip_trace *trace, pid_t pid, uint64_t from_tsc, uint64_t to_tsc);
/* Calls of the function were not recorded meanwhile: somebody else had changed its sites. */
void ip_trace_add_missing(struct ip_trace *trace, uint32_t number, uint64_t from_tsc,
			  uint64_t to_tsc);
/* Stamps are coarse; NULL: how coarse is not known yet. */
void ip_trace_add_coarse(struct ip_trace *trace, uint64_t late, uint64_t latest, uint64_t refreshes,
			 uint64_t cpu_ns);
/* Times are another clock's than the TSC's. */
void ip_trace_add_clock(struct ip_trace *trace, const char *name);
/* It ended at so many bytes, and whose word that was. */
void ip_trace_add_limit(struct ip_trace *trace, uint64_t bytes, const char *by);
/* What the session leaves out ("depth 3"), and how many events it has left out in the end. */
void ip_trace_add_filter(struct ip_trace *trace, const char *text);
/* The modules without probes. */
void ip_trace_add_others(struct ip_trace *trace, const struct ip_modules *modules);
void ip_trace_add_filtered(struct ip_trace *trace, uint64_t events);
int ip_trace_add_thread(struct ip_trace *trace, pid_t tid, const char *name);

/* The session overwrites: events that are not in the trace because newer ones are. */
void ip_trace_add_overwritten(struct ip_trace *trace, uint64_t events);

/* A new directory for the same session, at a place, which is the new trace's from now on,
 * however it ends: all that is known so far, and no packets. Refused where it would take the
 * place of the session's own. */
int ip_trace_clone(const struct ip_trace *trace, struct ip_dir_place *place, struct ip_trace **ret);

/* Writes metadata and session file as far as they are known, each atomically (new file, rename). */
int ip_trace_sync(struct ip_trace *trace);
/* The same where there is anything new. */
int ip_trace_sync_new(struct ip_trace *trace);

/* Writes a file of the trace directory, atomically; name: under it. */
int ip_trace_save(struct ip_trace *trace, const char *name, const void *data, size_t size);

/* The last words: calibrated clock, totals, reason. Writes all. */
int ip_trace_finish(struct ip_trace *trace, uint64_t events, uint64_t lost, uint64_t unserved,
		    uint64_t invalid, const char *reason);
void ip_trace_close(struct ip_trace *trace);

/* Removes the directory again, brings back the one that was kept as DIR.old for it, and closes.
 * NULL is fine.
 */
void ip_trace_discard(struct ip_trace *trace);

/* Appends a packet to stream-N, made on its first packet. header->magic, uuid, sizes and seq_num
 * are filled in here. progress: what holds once it is there. -1 with an error: nothing of it is
 * there, and errno says why. */
int ip_trace_write_packet(struct ip_trace *trace, uint32_t stream, struct ip_packet_header *header,
			  const uint64_t *words, size_t n, const struct ip_progress *progress);
/* The same of a compressed stream in two steps: header is filled in and numbered; later, in the
 * order of the numbers, what has become of it is appended. */
int ip_trace_prepare_packet(struct ip_trace *trace, uint32_t stream,
			    struct ip_packet_header *header, size_t n);
int ip_trace_append_encoded(struct ip_trace *trace, uint32_t stream, const void *bytes, size_t size,
			    const struct ip_progress *progress);
/* The slot has come that far, without a packet. */
int ip_trace_note_progress(struct ip_trace *trace, uint32_t stream,
			   const struct ip_progress *progress);

uint64_t ip_trace_bytes(const struct ip_trace *trace); /* of packets that are there */
int ip_trace_dirfd(const struct ip_trace *trace);      /* its */

/* "command line" of a process, arguments separated by blanks, as people would type it
 * (malloc'ed, never NULL). */
char *ip_proc_command(pid_t pid);

#endif
