/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What assembler must know of C: sizes and offsets. record.c asserts that they are right.
 */
#ifndef RT_X86_64_LAYOUT_H
#define RT_X86_64_LAYOUT_H

#define RT_POOL_SIZE (64 << 20)

/* struct ip_slot */
#define SLOT_CUR     0
#define SLOT_GUARD   8
#define SLOT_LAST_SP 16
#define SLOT_EPOCH   24
#define SLOT_STATE   64 /* the thread's id follows it */
#define SLOT_SESSION 76
#define SLOT_CLAIMED 1

/* struct ip_slot, in a session with modes */
#define SLOT_MODES     96
#define SESSION_MARK   0x80000000
#define MODE_CAREFUL   1
#define MODE_COARSE    2
#define MODE_PAYLOADS  4
#define MODE_MONOTONIC 16
#define MODE_SITES     32
#define MODE_WITHIN    64
#define MODE_ALONE     128
#define CAREFUL_MODES                                                                              \
	(MODE_CAREFUL | MODE_COARSE | MODE_PAYLOADS | MODE_MONOTONIC | MODE_SITES | MODE_WITHIN |  \
	 MODE_ALONE)
#define SLOT_FILTERED 104

/* struct ip_filters, struct ip_filter_rule */
#define FILTERS_NRULES 24
#define RULE_SHIFT     4 /* log2 of its bytes */
#define RULE_FRAME     12
#define RULE_FLAGS     14
#define RULE_SITE      32
#define RULE_WITHIN    256

/* struct rt_flow */
#define FLOW_SHIFT 5 /* log2 of its bytes */
#define FLOW_BASE  0
#define FLOW_SP	   8
#define FLOW_LAST  16
#define FLOW_STATE 28
/* RT_FLOW_AWAY, or calls that are open on other stacks */
#define FLOW_ELSEWHERE 0xffff0002

/* struct ip_subbuf */
#define SUBBUF_DESCRIPTOR_SHIFT 5 /* log2 of its bytes */
#define SUBBUF_SURPLUS		26

/* struct ip_meters, struct ip_meters_frame, struct ip_hist */
#define DUTY_MASK     7
#define DUTY_LOG      0
#define DUTY_COUNT    1
#define DUTY_HIST     2
#define DUTY_JOIN     7
#define DUTY_JUMP_BIT 8
#define METERS_TOP    8
#define METERS_JUMPED 16
#define METERS_FRAMES 64
#define METERS_FRAME  32
#define FRAME_SP      0
#define FRAME_TIME    8
#define FRAME_DUTY    16
#define FRAME_INNER   24
#define FRAME_NEAR    (1 << 16) /* open_calls.h: NEAR */
#define HIST_SUM      0
#define HIST_SELF     8
#define HIST_MAX      16
#define HIST_MIN      20
#define HIST_RECENT   28
#define HIST_BUCKETS  32
#define HIST_TAILED   128 /* in struct ip_hist_tails */
#define HIST_SHIFT    7
#define HIST_LAST     23 /* the last bucket */

/* struct rt_self */
#define SELF_SLOT    0
#define SELF_SESSION 8

#define SLOT_SHIFT 7 /* log2 of its bytes */

/* struct ip_rt_private */
#define PRIVATE_PLACE_LAST 8
#define PRIVATE_FRAMES	   16
#define PRIVATE_NSUBBUFS   24

/* struct ip_gate */
#define GATE_SESSION 0

/* common/trace/trace_format.h, common/abi/ring.h */
#define TIME_BITS     29
#define NUMBER_BITS   21
#define SP_SHIFT      3
#define SP_WINDOW     (1 << 14)
#define SUBBUF_WORDS  4096
#define SUBBUF_SHIFT  15 /* log2 of its bytes */
#define SUBBUF_SPARE  8	 /* coarse time: words */
#define POSITION_BITS 48
#define NO_SUBBUF     0xffff
#define PAGE_SHIFT    12

/* The record of an entry with its call site, and nothing else: five words. */
#define SITE_WORDS 5
#define SITE_KIND  ((1 + 32) << 3 | 7) /* of an entry: with the payload's base, extended */
#define SITE_TELLS (1 << 3 | 1 << 63)  /* one word, which is the call site */

#endif
