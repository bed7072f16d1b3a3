/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: what a borrowed thread does in code of the runtime, and its way back. The thread takes this
 * way by itself if its iprobe has died. Types have fixed widths; there are no pointers and no libc,
 * since both sides include this file.
 */
#ifndef IP_ABI_BORROW_H
#define IP_ABI_BORROW_H

#include <stdint.h>

#define IP_WAKE_STACK 262144ull /* bytes of stack below wake_block (arch/ARCH/wake.S) */

/* The way back of a borrowed thread. The thread takes it by itself if its iprobe has died. Its
 * stack lies below this structure. */
struct ip_wake {
	uint64_t registers[15]; /* in the order in which the code at wake pops them */
	/* as an interrupt leaves it: instruction pointer, cs, flags, stack pointer, ss */
	uint64_t frame[5];
	uint64_t mask; /* signal mask */
	uint64_t tid;  /* the thread's id, as iprobe sees it; 0: no thread is borrowed */
};

/* A range of text whose pages are switched all at once. */
struct ip_remap_piece {
	uint64_t at, size;
	/* address of the other mapping of its pages; 0: there is none */
	uint64_t staged;
	uint32_t what; /* enum ip_remap_what */
	int32_t error; /* errno of the last operation; 0: no error */
};

enum ip_remap_what {
	IP_REMAP_NOTHING = 0,
	/* moves the text's pages to another mapping of the same file; the text then has the file's
	 * pages */
	IP_REMAP_STAGE = 1,
	IP_REMAP_SWITCH = 2, /* puts the staged pages in place of the text's */
	IP_REMAP_DROP = 3,   /* unmaps the staged pages */
	IP_REMAP_REVERT = 4, /* gives the text the file's pages: stages and drops */
	/* no text: closes descriptor `at` if it is the kernel's counter with the number `size`
	 * (fperf_pmu.h) */
	IP_REMAP_CLOSE = 5,
	/* no text: from now on forked children get the area (at, size) */
	IP_REMAP_INHERIT = 7,
	IP_REMAP_WITHHOLD = 8, /* no text: from now on they do not */
	/* no text: error says whether this thread, and the threads that it makes, may read the
	 * processor's clock */
	IP_REMAP_CLOCK = 10,
	/* no text: replaces the area (at, size) in this process by zero pages of its own */
	IP_REMAP_DISOWN = 9,
	/* no text: gives this process, a forked child, an area of its own at (at, size): where
	 * nothing is mapped there, or in the place of what is (runtime/area.c) */
	IP_REMAP_RENEW = 11,
	IP_REMAP_REPLACE = 12,
	/* no text: the area, which begins at `at`, is mapped up to `size` from now on; hooks may
	 * use it up to `staged`, which is the size of the file or less (runtime/area_window.c) */
	IP_REMAP_WIDEN = 13,
	IP_REMAP_TABLES = 14, /* no text: maps the tables of the area, which begins at `at` */
	IP_REMAP_POOL = 15,   /* no text: maps one more pool of `size` bytes there */
	/* no text, when no hook is in flight: unmaps what lies behind the first `size` bytes of the
	 * area, which begins at `at`, and the tables; or all of the area but covers, and all pools
	 */
	IP_REMAP_NARROW = 16,
	IP_REMAP_REMOVE = 17,
	/* the text stays as it is, except for a short moment; afterwards `staged` is another
	 * mapping of the same file, with the file's pages */
	IP_REMAP_COPY = 6,
};

#define IP_REMAP_PIECES 512u

struct ip_remap {
	/* the thread's way back, which it takes by itself if its iprobe has died; its stack lies
	 * below */
	struct ip_wake back;
	uint32_t npieces;
	/* If the thread's scheduling policy was raised: 1 + the old policy, which the thread
	 * restores by itself. 0: it was not raised */
	uint32_t policy;
	/* Times of the last run in nanoseconds, written by the thread. changing_ns: how long
	 * mappings were being changed. bare_ns: the part of it during which pieces that were being
	 * copied had the file's pages, the sum over all pieces. */
	uint32_t changing_ns, bare_ns;
	struct ip_remap_piece pieces[IP_REMAP_PIECES];
};

_Static_assert(sizeof(struct ip_remap) == 192 + IP_REMAP_PIECES * 32, "arch/x86_64/remap.S");

#endif
