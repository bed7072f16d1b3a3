/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of a trace directory. The runtime writes the records. The collector wraps them into
 * CTF 1.8 packets without changing them. Readers decode them.
 *
 *   DIR/metadata            TSDL: the same layout, described for any CTF reader
 *   DIR/stream-N            one CTF stream: a sequence of packets. The packets of one thread are in
 *                           time order. A thread that starts after another has ended may continue
 *                           in its stream: each packet names its thread
 *   DIR/stream-N.zst        the same, compressed (--compress; common/trace/packet_codec.h). It
 * replaces DIR/stream-N; the two never exist together DIR/stream-N-P, DIR/stream-N-P.zst the same
 * in pieces (--rotate): stream N is these pieces, ordered by P. packet_seq_num and events_discarded
 * continue from one piece to the next. Those of the oldest piece begin where the removed pieces end
 *   DIR/iprobe/pieces       for such a trace: which pieces exist, and what was removed
 *                           (common/trace/trace_segments.h)
 *   DIR/iprobe/session      text, see below
 *   DIR/iprobe/stamps       for a trace with coarse time: lines "FROM TO WIDTH", in ticks of the
 *                           TSC. The true time of an event whose stamp lies from FROM to TO is at
 *                           most WIDTH after its stamp, and never before it. One line stands for
 *                           everything that --rotate has removed
 *   DIR/iprobe/HEX.probes   copies of the probe lists, by build-id
 *   DIR/iprobe/payload.txt  a table of what a payload of the user has counted; columns are
 *                           separated by tabs (include/iprobe/payload.h)
 *   DIR/iprobe/descriptors  with kernel events: what descriptors of the target were, as far as was
 *                           seen. Lines "TSC<TAB>PID<TAB>FD<TAB>KIND<TAB>TEXT": from TSC on the
 *                           descriptor FD of the process was TEXT, until a later line tells of it
 *                           again. KIND is what waiting for it is called (file, socket, pipe...).
 *                           Lines of the kind path are those of paths that system calls were
 *                           given (common/trace/call_path.h)
 *   DIR/iprobe/kernel_functions  with functions of the kernel (--kernel-functions): their names
 *                           (common/trace/kernel_functions.h)
 *   DIR/iprobe/counts       text, if functions were counted or their durations measured
 *                           (--payload): see below
 *
 * A packet is a struct ip_packet_header, then records up to content_size, and nothing after them. A
 * packet without records that reports no loss (events_discarded is that of the packet before) says
 * that its thread has ended: the thread lived at timestamp_begin, and was gone at timestamp_end. If
 * a thread has no such packet, its end was not seen. If the session file has no "ends" line, iprobe
 * did not look for ends.
 *
 * A record is one 64-bit word (compact), three (extended) or more (payload), little-endian:
 *
 *   compact   bits   0..2    event id (enum ip_probe_kind, 1..6)
 *             bits   3..31   low 29 bits of the TSC
 *             bits  32..52   probe number (21 bits, never 0)
 *             bits  53..63   (stack pointer >> 3) mod 2048
 *   extended  bits   0..2    7
 *             bits   3..31   event id + 16
 *             bits  32..95   TSC
 *             bits  96..127  probe number and stack pointer bits as above
 *             bits 128..191  stack pointer
 *   payload   the three words of an extended record, with event id + 32; then a word that
 *             describes the values:
 *             bits   0..2    0
 *             bits   3..15   n, the number of words that follow
 *             bits  16..31   which of the recorded values (those with words) could not be read:
 *                            their words are 0
 *             bits  32..62   number of the signature: the "signature" lines of the session file
 *                            give names and types
 *             bit   63       the last of the n words is no value. It is the address that the
 *                            function was called from, its return address (for an inlined
 *                            instance: the end of its entry site). Only with this bit,
 *                            signature 0 is allowed
 *             then n words with the values, each as described in common/trace/values.h
 *
 * The writer makes an extended record if a compact one could not be decoded from the record before
 * it in the same packet sequence of its thread. That is so for the first record of a sub-buffer, if
 * the upper TSC bits (TSC >> 29) differ, if the stack pointer has moved by 8 KiB or more, and after
 * a record that a signal handler has made on top of a hook. So for a compact record
 *   time = (previous time with its low 29 bits replaced)                       exactly
 *   sp   = previous sp moved by the signed 11-bit difference, in units of 8    exactly (to 8 bytes)
 * The stack pointer is that of the site, before its call (for a tail exit the caller's, before its
 * call). Readers use it to close frames that longjmp or an exception has left without an exit event
 * (analysis/callstack/frames.c).
 *
 * Why units of 8: the ABI aligns the stack to 16 bytes at calls, and there units of 16 would be
 * enough. But at a function's first instruction (placement fentry) the return address has been
 * pushed. gcc leaves out the alignment in front of calls of local functions that do not need it.
 * And a function without a frame that calls another one lies 8 bytes above it. In units of 16 two
 * open frames could have the same stack pointer. Then the entry of the inner one would look like a
 * call made after the outer one had ended.
 *
 * DIR/iprobe/session: lines "key<TAB>value...", UTF-8. Control characters and backslashes in values
 * are written as \xHH:
 *
 *   iprobe-session 1
 *            (first line)
 *   host NAME | kernel TEXT | command TEXT | pid N | start_realtime NS
 *            (start_realtime: wall time at tsc_start)
 *   boot TEXT
 *            (/proc/sys/kernel/random/boot_id: times of two traces with the same one can be
 *            compared)
 *   tsc_start N | tsc_end N | tsc_hz N
 *   ends packets
 *            (the ends of threads are in their streams)
 *   module INDEX PATH BUILDID LOAD_BIAS FIRST_NUMBER PLACEMENT
 *   function NUMBER MODULE_INDEX LINKER_NAME FILE LINE FLAGS FRAME
 *            (FLAGS "i": instances of the function that were inlined into another function, whose
 *            stack frame they share. A function that has both kinds has two numbers; readers show
 *            them as one. "e": it has entry probes only: its calls are counted, but their ends are
 *            not known. "r": its tail exits are returns, not jumps. "j": tail exits of the same
 *            function that lead to functions with live sites: the call continues there. "-": none
 *            of these.
 *            FRAME: bytes from the stack pointer at the entry site to the caller's before the
 *            call; 0: unknown)
 *   other LOAD_BIAS BUILDID PATH
 *            (with --callsite: a file without probes that was mapped at the beginning; calls may
 *            come from there)
 *   signature ID TEXT
 *            (the values that payload records contain, common/trace/values.h)
 *   jump NUMBER NUMBER
 *            (the tail exits of the first number, of FLAGS "j", lead to the second, among others)
 *   tails NUMBERS
 *            (the durations of these functions were measured in the process, and end at a tail exit
 *            if the function has one)
 *   silent | shown NUMBERS
 *            (silent: these functions were not selected; they are live because others end with a
 *            jump to them. shown: they are selected from here on)
 *   added | removed TSC NUMBERS
 *            (these functions, "1-4,7", are recorded from then on, or are no longer recorded,
 *            because the selection has changed. Other functions are recorded from the beginning. If
 *            a call is open when its function is removed, it ends there for the reader)
 *   dropped TSC NUMBER KIND(count|idle) CALLS_A_SECOND OWN_TICKS PERCENT
 *            (by --drop-hot: the function lost its probes at that moment, since they took PERCENT
 *            of its time. count: its calls are counted from then on. The function is in a "removed"
 *            line too)
 *   payload KIND(count|hist|user) NUMBERS
 *            (what these functions did instead of logging, while they were live)
 *   live TSC | idle TSC
 *            (when the probes were live, and from when on nothing was recorded any more. What lies
 *            before is preparation; behind, the sites are put back and the rest is written)
 *   stop KIND(attach|change|dlopen|repair|detach) TSC DURATION_NS THREADS PAGES SITES
 *   exec PID TSC
 *            (the process executed another program: its frames are gone)
 *   missing NUMBER TSC TSC
 *            (calls of the function are missing between the two times: another program had changed
 *            its sites)
 *   load | unload TSC LOAD_BIAS BUILDID PATH
 *            (a library with probes was loaded or unloaded during the recording; the first 10000)
 *   filter TEXT
 *            (what the session leaves out, as its options say it, one a line)
 *   filtered N
 *            (the number of events left out; written if the session has ended properly)
 *   until CONDITION
 *            (this condition of --until, as it was given, ended the recording; the line "end" tells
 *            what was measured)
 *   clock NAME
 *            (monotonic: times are nanoseconds of CLOCK_MONOTONIC_RAW wherever this text says TSC,
 *            and tsc_hz is 10^9. Without this line: the TSC)
 *   compressed zstd N
 *            (streams are compressed. N packets were left uncompressed because the compressor fell
 *            behind)
 *   thread TID NAME TSC
 *            (the thread has this name from then on, as far as was seen; "" if the name is not
 *            known. Before its first line a thread has the name of that line. Without TSC, in older
 *            traces: always)
 *   process PID PARENT FLAGS NAME COMMAND
 *            (what the process is called, and its command line; the last line of a process counts.
 *            PARENT: the process that it had as its parent when it was found, 0: not known. FLAGS
 *            "f": it was forked by a process of this recording)
 *   stack PID TID TSC NUMBER:SP,NUMBER:SP,...
 *            (the calls of the thread that were open at TSC, when recording began, the outermost
 *            first. Each goes on as if its entry had been recorded at TSC, with that stack pointer;
 *            the true time of its entry is not known. Readers leave these lines out if later events
 *            were overwritten, rotated away or trimmed)
 *   overwritten N
 *            (the session kept only the newest events: N events came before them)
 *   rotated EVENTS PIECES PACKETS BYTES TSC
 *            (the recording kept the newest pieces: what was removed. No event after TSC was
 *            removed)
 *   no_events CODE TEXT
 *            (a reason why there are none, one a line: a word for scripts, and a sentence)
 *   trimmed TSC TSC
 *            (iprobe trim has kept this part of the time. events and lost are those of this part)
 *   coarse LATE LATEST REFRESHES CPU_NS
 *            (stamps come from a clock that was updated REFRESHES times. For 99 % of the time
 *            events happened at most LATE ticks after their stamps, and never more than LATEST; 0 0
 *            0 0 while that is not known)
 *   kernel_events N LOST GROUPS
 *            (events of the kernel, "sched,irq", are in DIR/kernel: common/trace/kernel_format.h)
 *   kernel_source TEXT
 *            (where these came from: tracefs, perf)
 *   events N | lost N | unserved N | invalid N | end REASON
 *            (written if the session ends properly. lost: by threads that have streams; unserved:
 *            by other threads; invalid: words that were no records)
 *
 * DIR/iprobe/counts is written about every second and at the end, each time as a whole (a new file
 * is renamed over it). Its lines are like those above:
 *
 *   iprobe-counts 1
 *            (first line)
 *   time TSC
 *            (when it was written)
 *   buckets N SHIFT
 *            (of all histograms)
 *   count NUMBER CALLS
 *   self NUMBER SUM
 *            (after its "hist": the sum of the durations without the time of other measured calls
 *            in them)
 *   tailed NUMBER CALLS
 *            (after its "hist": for this number of calls the time ends at a tail exit; for
 *            functions that have tail exits)
 *   hist NUMBER CALLS UNMEASURED SUM MIN MAX B0,B1,...
 *            (CALLS: calls that have ended. SUM, MIN and MAX: the sum, the shortest and the longest
 *            of their durations. UNMEASURED: calls of which nothing more is known. Durations are in
 *            TSC ticks. MIN and MAX of 2^31 and more are rounded down and up, to 27 bits. B0 calls
 *            took less than 2^SHIFT ticks, Bi calls from 2^(SHIFT+i-1) to 2^(SHIFT+i), the calls of
 *            the last bucket that or more)
 *   thread PID TID CLAIMED CALLS SELF
 *            (a thread that has not ended, in the numbers of its packets: its counted and measured
 *            calls since the time of CLAIMED, by which threads of one TID are told apart, and their
 *            self times. TID 0: all threads together for which there was no memory of their own)
 *   end
 *            (last line)
 */
#ifndef IP_TRACE_FORMAT_H
#define IP_TRACE_FORMAT_H

#include <stdint.h>

/* the most frames of a "stack" line */
#define IP_STACK_FRAMES_MAX 1024

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
#define IP_PAYLOAD_MAX	   1000 /* most words of values; a record that claims more is damaged */

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
	uint32_t stream_id; /* always 0 */
	/* packet context */
	uint64_t timestamp_begin, timestamp_end; /* TSC */
	uint64_t content_size, packet_size;	 /* bits; equal */
	uint64_t packet_seq_num;		 /* for each stream file, from 0 */
	uint64_t events_discarded;		 /* for each stream file, cumulative */
	uint32_t pid, tid;
} __attribute__((packed));

_Static_assert(sizeof(struct ip_packet_header) == 80, "packet header");

#define IP_TRACE_SUBDIR	     "iprobe"
#define IP_TRACE_SESSION     "iprobe/session"
#define IP_TRACE_JOURNAL     "iprobe/journal" /* during the recording (trace_writer/journal.h) */
#define IP_TRACE_STAMPS	     "iprobe/stamps"
#define IP_TRACE_COUNTS	     "iprobe/counts"
#define IP_TRACE_PAYLOAD     "iprobe/payload.txt"
#define IP_TRACE_DESCRIPTORS "iprobe/descriptors"

#define IP_TRACE_KERNEL_FUNCTIONS "iprobe/kernel_functions"

#endif
