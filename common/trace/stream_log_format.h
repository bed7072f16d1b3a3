/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of a live log (--stream): what reaches a file, a device or another machine while a
 * process is recorded, so that the last calls are known when all has stopped without warning.
 *
 * A live log is a sequence of batches, little-endian. A batch is a struct ip_stream_log_header and
 * sections. Its size is a multiple of 8. All batches of one log have the same id, which is random:
 * what an earlier log has left behind on a device is no part of this one. The first batch has
 * number 0, and each one the next number. A batch counts only if its checksum fits; so a log may be
 * cut off at any byte.
 *
 * The header of a batch is the end mark of all that lies before its end:
 *
 *   complete   TSC. Every event before this time is in the log, but for three kinds: events of the
 *              threads in the section BEHIND, those that were dropped, and those that were lost.
 *              Nothing is known of what happened later: it may be missing.
 *   dropped    Records that found no room on their way to the log so far: since whoever takes it
 *              was too slow, but for those that the section UNSORTED tells.
 *   lost       Events that found no room in the rings so far.
 *   late       Records of this batch that are older than `complete` of an earlier batch: their
 *              hooks were interrupted for longer than iprobe waits.
 *
 * A batch is written when there is something to tell, and at the latest after the interval that is
 * in each header, also where nothing has happened.
 *
 * A section is a struct ip_stream_log_section, then its content, padded with zeros to a multiple of
 * 8. Sections of other kinds belong to a newer version, and are passed over:
 *
 *   TEXT       The next bytes of the text of the session (DIR/iprobe/session, trace_format.h). A
 *              line may go on in the next section of this kind.
 *   THREADS    struct ip_stream_log_thread: threads that follow, by number. A number is never used
 *              for another thread; a thread that was told without a record is told again.
 *   RECORDS    A base time (64 bits), then struct ip_stream_log_record: in order of time over all
 *              threads, those of one thread in the order in which they happened.
 *   BEHIND     struct ip_stream_log_behind: threads of which not all is read that lies in the rings
 *              before `complete`.
 *   ENDED      struct ip_stream_log_ended: threads that have ended.
 *   UNSORTED   64 bits: how many of the records that were dropped so far found no room in iprobe
 *              itself, where they are put in order. The section is there if any were.
 */
#ifndef IP_STREAM_LOG_FORMAT_H
#define IP_STREAM_LOG_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define IP_STREAM_LOG_MAGIC   0x474c5049u /* "IPLG" */
#define IP_STREAM_LOG_VERSION 1u
#define IP_STREAM_LOG_MOST    (1u << 20) /* bytes of a batch */
#define IP_STREAM_LOG_THREADS (1u << 20) /* their numbers are below this */

struct ip_stream_log_header {
	uint32_t magic, version;
	uint32_t size; /* of the batch, in bytes, with this header */
	/* of the batch, while this field is 0 */
	uint32_t checksum;
	uint64_t id, number;
	uint64_t complete, dropped, lost;
	uint32_t late;
	uint32_t interval_us; /* between two batches, at most */
};

enum ip_stream_log_kind {
	IP_STREAM_LOG_TEXT = 1,
	IP_STREAM_LOG_THREAD = 2,
	IP_STREAM_LOG_RECORDS = 3,
	IP_STREAM_LOG_BEHIND = 4,
	IP_STREAM_LOG_ENDED = 5,
	IP_STREAM_LOG_UNSORTED = 6,
};

struct ip_stream_log_section {
	uint32_t kind; /* enum ip_stream_log_kind */
	uint32_t size; /* of the content, in bytes, without the padding */
};

struct ip_stream_log_thread {
	uint32_t thread;
	uint32_t pid, tid; /* as the process sees them itself */
	uint32_t unused;
	uint64_t sp; /* of its first record; 0: it has none yet */
};

struct ip_stream_log_record {
	uint32_t after; /* its time less the base */
	uint32_t thread;
	uint32_t sp; /* the stack pointer >> 3, its lowest 32 bits */
	/* bits 0..20: number of the function; 21..23: kind (enum ip_probe_kind); 24..31: the next 8
	 * bits of the stack pointer. The bits above these are those of the thread's first record */
	uint32_t what;
};

struct ip_stream_log_behind {
	uint32_t thread;
	uint32_t words;	 /* of 8 bytes, that wait in its ring */
	uint64_t newest; /* TSC of the newest record that was read of it; 0: none was */
};

struct ip_stream_log_ended {
	uint32_t thread, unused;
	uint64_t time; /* TSC: it had ended by then */
};

#define IP_STREAM_LOG_NUMBER(what) ((what)&0x1fffffu)
#define IP_STREAM_LOG_KIND(what)   ((what) >> 21 & 7u)
#define IP_STREAM_LOG_WHAT(number, kind, sp)                                                       \
	((uint32_t)(number) | (uint32_t)(kind) << 21 | ((uint32_t)((sp) >> 35) & 0xffu) << 24)
#define IP_STREAM_LOG_SP_BITS 43 /* that a record has, the lowest three of them 0 */

_Static_assert(sizeof(struct ip_stream_log_header) == 64 &&
		       sizeof(struct ip_stream_log_thread) == 24 &&
		       sizeof(struct ip_stream_log_record) == 16 &&
		       sizeof(struct ip_stream_log_behind) == 16 &&
		       sizeof(struct ip_stream_log_ended) == 16,
	       "as it is on disk");

#endif
