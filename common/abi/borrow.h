/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: what a borrowed thread does in code of the runtime, and its way back, which it takes by
 * itself if its iprobe has died. Fixed-width types, no pointers, no libc: both sides include it.
 */
#ifndef IP_ABI_BORROW_H
#define IP_ABI_BORROW_H

#include <stdint.h>

#define IP_WAKE_STACK 262144ull /* bytes below wake_block (arch/ARCH/wake.S) */

/* The way back of a borrowed thread, which it takes by itself if its iprobe has died; the stack is
 * below. */
struct ip_wake {
	uint64_t registers[15]; /* in the order in which the code at wake takes them off */
	/* as an interrupt's: instruction pointer, cs, flags, stack pointer, ss */
	uint64_t frame[5];
	uint64_t mask; /* of signals */
	uint64_t tid;  /* whose, as iprobe names it; 0: nobody's */
};

/* Text that is switched as a whole, in pages. */
struct ip_remap_piece {
	uint64_t at, size;
	uint64_t staged; /* where pages of it lie besides; 0: nowhere */
	uint32_t what;	 /* enum ip_remap_what */
	int32_t error;	 /* errno of what was done last; 0: none */
};

enum ip_remap_what {
	IP_REMAP_NOTHING = 0,
	/* moves the text's pages away, to a mapping of the same file; it has the file's then */
	IP_REMAP_STAGE = 1,
	IP_REMAP_SWITCH = 2, /* puts the staged pages in the place of the text's */
	IP_REMAP_DROP = 3,   /* unmaps what is staged */
	IP_REMAP_REVERT = 4, /* the text has the file's pages then: staged, and dropped */
	/* no text: closes descriptor at, if it is that of the kernel's counter size
	 * (fperf_pmu.h) */
	IP_REMAP_CLOSE = 5,
	IP_REMAP_INHERIT = 7,  /* no text: forked children get the area (at, size); */
	IP_REMAP_WITHHOLD = 8, /* or do not */
	/* no text: error says whether the thread, and those that it makes, may read the processor's
	 * clock */
	IP_REMAP_CLOCK = 10,
	/* no text: the area (at, size) is put out of this process's reach, by zeros of its own */
	IP_REMAP_DISOWN = 9,
	/* the text stays as it is, but for the moment that it takes; staged is another mapping of
	 * the same file then, and has the file's pages */
	IP_REMAP_COPY = 6,
};

#define IP_REMAP_PIECES 512u

struct ip_remap {
	/* the thread's way back, which it takes by itself if its iprobe has died; the stack is
	 * below */
	struct ip_wake back;
	uint32_t npieces;
	/* 1 + the thread's scheduling policy, where it was raised: it goes back to that by itself;
	 * 0: it was not */
	uint32_t policy;
	/* Of the last run, nanoseconds, written by the thread: so long mappings were changed; so
	 * long, of these, pieces that were being copied had the file's pages, one after the
	 * other. */
	uint32_t changing_ns, bare_ns;
	struct ip_remap_piece pieces[IP_REMAP_PIECES];
};

_Static_assert(sizeof(struct ip_remap) == 192 + IP_REMAP_PIECES * 32, "arch/x86_64/flip.S");

#endif
