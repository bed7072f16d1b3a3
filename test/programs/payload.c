/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A payload (<iprobe/payload.h>) for test/programs/count.c, which disturbs all that it must not
 * disturb, and is disturbed: changes vector registers, x87 state, rounding modes and errno; and in
 * thread_size bytes of its own it keeps what is to be the same in each call of a thread.
 */
#include <iprobe/payload.h>
#include <string.h>
#include <unistd.h>

struct cell {
	uint64_t entries, exits, longest_name, lowest_thread, callers, wrong, number;
};

struct scratch {
	uint32_t thread, depth;
	uint64_t calls;
};

static const struct iprobe_field fields[] = {
	{"entries", offsetof(struct cell, entries), IPROBE_SUM},
	{"exits", offsetof(struct cell, exits), IPROBE_SUM},
	{"longest_name", offsetof(struct cell, longest_name), IPROBE_MAX},
	{"lowest_thread", offsetof(struct cell, lowest_thread), IPROBE_MIN},
	{"callers", offsetof(struct cell, callers), IPROBE_SUM},
	{"wrong", offsetof(struct cell, wrong), IPROBE_SUM},
};

static void spoil(void)
{
	unsigned short control = 0x0f7f; /* of x87: rounds to zero */
	unsigned mxcsr = 0x1f80 | 3 << 13;

	__asm__ volatile("fldcw %0\n\tfldpi\n\tfldpi\n\tfldpi\n\tldmxcsr %1\n\t"
			 "pcmpeqd %%xmm0, %%xmm0\n\tpcmpeqd %%xmm1, %%xmm1\n\tpcmpeqd %%xmm2, "
			 "%%xmm2\n\tpcmpeqd %%xmm7, %%xmm7\n\t"
			 "pcmpeqd %%xmm15, %%xmm15\n\t"
			 :
			 : "m"(control), "m"(mxcsr)
			 : "memory");
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroall" : : : "memory");
	errno = EXDEV;
}

static void on_call(const struct iprobe_call *call)
{
	struct scratch *s = call->scratch;
	struct cell *c = call->cell;

	c->wrong += call->size < sizeof(*call) || !call->number ||
		    (c->number && c->number != call->number) ||
		    (s->thread && s->thread != call->thread);
	s->thread = call->thread;
	c->number = call->number;
	s->calls++;
	c->entries += call->event == IPROBE_ENTRY;
	c->exits += call->event == IPROBE_EXIT || call->event == IPROBE_TAIL_EXIT;
	c->longest_name = strlen(call->function);
	c->lowest_thread = call->thread;
	c->callers += call->event == IPROBE_ENTRY && call->caller;
	spoil();
}

IPROBE_PAYLOAD(on_call, sizeof(struct cell), sizeof(struct scratch), fields);
