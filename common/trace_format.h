/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies in a trace directory. The runtime writes the records, the collector wraps
 * them into CTF 1.8 packets without touching them, readers decode them.
 *
 *   DIR/metadata            TSDL: the same layout told to any CTF reader
 *   DIR/stream-N            one CTF stream: a sequence of packets; packets of one thread are in
 *                           time order. A thread that starts after another has ended may go on in
 *                           its stream: each packet names its thread
 *   DIR/stream-N.zst        the same, compressed (--compress; common/packet_codec.h): in the place
 *                           of DIR/stream-N, never beside it
 *   DIR/stream-N-P, DIR/stream-N-P.zst   the same in pieces (--rotate): stream N is these, by P,
 *                                        one behind the other; packet_seq_num and
 *                           events_discarded go on from one to the next, and those of the oldest
 *                           begin where what was removed ends
 *   DIR/iprobe/pieces       of such a trace: which pieces there are, and what was removed
 *                           (common/trace_segments.h)
 *   DIR/iprobe/session      text, see below
 *   DIR/iprobe/stamps       of a trace with coarse time: lines "FROM TO WIDTH", ticks of the TSC.
 *                           The true time of an event whose stamp lies from FROM to TO is at most
 *                           WIDTH after its stamp, and never before it. Of what --rotate has
 *                           removed there is one line
 *   DIR/iprobe/HEX.probes   copies of the probe lists, by build-id
 *   DIR/iprobe/payload.txt  a table of what a payload of the user's has counted, columns separated
 *                           by tabs (include/iprobe/payload.h)
 *   DIR/iprobe/counts       text, where functions were counted or their durations measured
 *                           (--payload): see below
 *
 * A packet: struct ip_packet_header, then records up to content_size, nothing behind. One without
 * records that tells of no loss (events_discarded is that of the packet before) says that its
 * thread has ended: it lived at timestamp_begin and was gone at timestamp_end. Of a thread that has
 * none nobody saw an end; where the session file has no "ends" line nobody looked.
 *
 * A record is one 64-bit word (compact), three (extended) or more (payload), little-endian:
 *
 *   compact   bits  0..2   event id (enum ip_probe_kind, 1..6)
 *             bits  3..31  low 29 bits of the TSC
 *             bits 32..52  probe number (21 bits, never 0)
 *             bits 53..63  (stack pointer >> 3) mod 2048
 *   extended  bits  0..2   7, bits 3..31 event id + 16
 *             bits 32..95  TSC
 *             bits 96..127 probe number and stack pointer bits as above
 *             bits 128..191 stack pointer
 *   payload   the three words of an extended record, with event id + 32, then a word that tells of
 *             the values
 *             bits  0..2   0
 *             bits  3..15  n, how many words follow
 *             bits 16..31  which of the recorded values (those with words) could not be had: their
 *                          words are 0
 *             bits 32..62  number of the signature: "signature" lines of the session file tell
 *                          names and types
 *             bit  63 the last of the n words is no value: the address that the function was called
 *                  from, its return address
 *                          (of an instance that was inlined: the end of its entry site). Signature
 *                          0 is allowed only then
 *             and n words with the values, each as common/values.h has it
 *
 * The writer makes a record extended where the compact one could not be decoded from the record
 * before it in the same packet sequence of its thread: first of a sub-buffer, the upper TSC bits
 * (TSC >> 29) differ, the stack pointer moved by 8 KiB or more, or after a record made by a signal
 * handler on top of a hook. So for a compact record
 *   time = (previous time with its low 29 bits replaced)                       exactly
 *   sp   = previous sp moved by the signed 11-bit difference, in units of 8 exactly (to 8 bytes)
 * The stack pointer is that of the site, before its call (for a tail exit the caller's, before its
 * call): it closes frames that longjmp or an exception left without an exit event
 * (analysis/callstack/frames.c).
 *
 * Why units of 8: the ABI aligns the stack to 16 bytes at calls, and there units of 16 would do.
 * But at a function's first instruction (placement fentry) the return address has been pushed; gcc
 * leaves out the alignment in front of calls of local functions that do not need it; and a function
 * without a frame that calls another one lies 8 bytes above it. In units of 16 two frames that are
 * both open could have one stack pointer, and the entry of the inner one would look like a call
 * from where the outer one had been.
 *
 * DIR/iprobe/session: lines "key<TAB>value...", UTF-8, control characters and backslash in values
 * as \xHH:
 *   iprobe-session  1                      (first line)
 *   host NAME | kernel TEXT | command TEXT | pid N | start_realtime NS   (wall time at tsc_start)
 *   tsc_start N | tsc_end N | tsc_hz N
 *   ends    packets                       (the ends of threads are in their streams)
 *   module  INDEX PATH BUILDID LOAD_BIAS FIRST_NUMBER PLACEMENT
 *   function NUMBER MODULE_INDEX LINKER_NAME FILE LINE FLAGS FRAME
 *            (FLAGS "i": instances of the function that were inlined into another, whose stack
 *            frame is the other's. A function that has both has two numbers; readers show them as
 *            one. "e": it has entry probes only: its calls are counted, their ends are not known.
 *            "r": its tail exits are returns, no jumps. "-": none of these.
 *            FRAME: bytes from the stack pointer at the entry site up to the caller's before the
 *            call, 0: unknown)
 *   other   LOAD_BIAS BUILDID PATH (with --callsite: a file without probes that was mapped at the
 *           beginning; calls may come from there)
 *   signature ID TEXT                     (values that payload records carry, common/values.h)
 *            ("j": the same function's tail exits that lead on to where sites are live: the call
 *            goes on there)
 *   jump NUMBER NUMBER                    (the tail exits of the first one, of FLAGS "j", lead to
 *                                         the second, among others)
 *   tails NUMBERS                         (durations of these were measured in the process, and end
 *                                         at a tail exit where the function has one)
 *   silent | shown NUMBERS                (nobody has selected these, they are live since others
 *                                         end by jumping to them; they are selected now)
 *   added | removed TSC NUMBERS            (these functions, "1-4,7", are recorded from then on, or
 *                                          are not any more, because the selection
 *            changed; others are from the beginning. A call that is open when its function is
 *            removed ends there for the reader)
 *   dropped TSC NUMBER KIND(count|idle) CALLS_A_SECOND OWN_TICKS PERCENT (by --drop-hot: the
 *   function lost its probes at that moment, since they took
 *            PERCENT of its time; count: its calls are counted from then on. It is in a "removed"
 *            line too)
 *   payload KIND(count|hist|user) NUMBERS  (what these functions did instead of logging, as long as
 *                                          they were live)
 *   stop    KIND(attach|change|dlopen|repair|detach) TSC DURATION_NS THREADS PAGES SITES
 *   exec    PID TSC (the process became another program: its frames are gone)
 *   missing NUMBER TSC TSC                (calls of the function are missing between the two:
 *                                         somebody else had changed its sites)
 *   load | unload TSC LOAD_BIAS BUILDID PATH (a library with probes came or went while we recorded,
 *   of the first 10000)
 *   filter  TEXT (what the session leaves out, as its options say it, one a line)
 *   filtered N                            (events that it has left out; when the session has ended
 *                                         properly)
 *   clock   NAME (monotonic: times are nanoseconds of CLOCK_MONOTONIC_RAW, wherever TSC is said,
 *           and tsc_hz is 10^9. Left out: the TSC)
 *   compressed zstd N                     (streams are compressed; N packets were left as they were
 *                                         because the compressor fell behind)
 *   thread  TID NAME
 *   overwritten N                         (the session kept the newest events only: so many were
 *                                         there before them)
 *   rotated EVENTS PIECES PACKETS BYTES TSC (the recording kept the newest: what was removed;
 *   nothing that happened after TSC was)
 *   trimmed TSC TSC                       (iprobe trim has left this part of the time; events, lost
 *                                         are the part's)
 *   coarse LATE LATEST REFRESHES CPU_NS    (stamps are those of a clock that was refreshed so
 *                                          often: events happened up to LATE ticks after
 *            theirs for 99 % of the time, and never more than LATEST; 0 0 0 0 as long as that is
 *            not known)
 *   events N | lost N (by threads that have streams) | unserved N (by others) | invalid N (words
 *   that were no records) | end REASON (written when the session ends properly)
 *
 * DIR/iprobe/counts, written every second or so and at the end, each time as a whole (a new file is
 * renamed over it), lines as above:
 *   iprobe-counts 1                       (first line)
 *   time    TSC                           (when it was written)
 *   buckets N SHIFT                       (of all histograms)
 *   count   NUMBER CALLS
 *   self    NUMBER SUM (behind its "hist": of the durations without what other measured calls in
 *           them took)
 *   tailed  NUMBER CALLS (behind its "hist": of these calls the time ends at a tail exit; of
 *           functions that have some)
 *   hist    NUMBER CALLS UNMEASURED SUM MIN MAX B0,B1,...
 *            (CALLS that have ended, of which the sum, the shortest and the longest duration
 *            follow, and UNMEASURED ones, of which nothing more is known. Durations are in TSC
 *            ticks; MIN and MAX of 2^31 and more are rounded down and up, to 27 bits. B0 calls took
 *            less than 2^SHIFT ticks, Bi from 2^(SHIFT+i-1) up to 2^(SHIFT+i), the last one that or
 *            more)
 *   end                                   (last line)
 */
#ifndef IP_TRACE_FORMAT_H
#define IP_TRACE_FORMAT_H

#include <stdint.h>

#define IP_TIME_BITS	   29
#define IP_TIME_MASK	   ((1ull << IP_TIME_BITS) - 1)
#define IP_NUMBER_BITS	   21
#define IP_NUMBER_MAX	   ((1u << IP_NUMBER_BITS) - 1)
#define IP_SP_BITS	   11
#define IP_SP_SHIFT	   3
#define IP_SP_WINDOW	   (1ull << (IP_SP_BITS + IP_SP_SHIFT)) /* 16 KiB */
#define IP_ID_EXTENDED	   7
#define IP_ID_EXT_BASE	   16 /* id in an extended record = event id + this */
#define IP_EXT_WORDS	   3
#define IP_ID_PAYLOAD_BASE 32	/* id in a payload record = event id + this */
#define IP_PAYLOAD_HEAD	   4	/* words in front of the values */
#define IP_PAYLOAD_MAX	   1000 /* words of values; a record that claims more is damaged */

/* The word in front of the values. */
#define IP_PAYLOAD_WORD(n, missing, signature)                                                     \
	((uint64_t)(n) << 3 | (uint64_t)(missing) << 16 | (uint64_t)(signature) << 32)
#define IP_PAYLOAD_N(word)	   ((uint32_t)((word) >> 3) & 0x1fff)
#define IP_PAYLOAD_MISSING(word)   ((uint32_t)((word) >> 16) & 0xffff)
#define IP_PAYLOAD_SIGNATURE(word) ((uint32_t)((word) >> 32) & 0x7fffffff)
#define IP_PAYLOAD_CALLER	   (1ull << 63)

#define IP_CTF_MAGIC 0xC1FC1FC1u

struct ip_packet_header {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id; /* 0 */
	/* packet context */
	uint64_t timestamp_begin, timestamp_end; /* TSC */
	uint64_t content_size, packet_size;	 /* bits; equal */
	uint64_t packet_seq_num;		 /* per stream file, from 0 */
	uint64_t events_discarded;		 /* per stream file, cumulative */
	uint32_t pid, tid;
} __attribute__((packed));

_Static_assert(sizeof(struct ip_packet_header) == 80, "packet header");

#define IP_TRACE_SUBDIR	 "iprobe"
#define IP_TRACE_SESSION "iprobe/session"
#define IP_TRACE_JOURNAL "iprobe/journal" /* while it is recorded (trace_writer/journal.h) */
#define IP_TRACE_STAMPS	 "iprobe/stamps"
#define IP_TRACE_COUNTS	 "iprobe/counts"
#define IP_TRACE_PAYLOAD "iprobe/payload.txt"

#endif
