/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading values at a site and recording them with its event.
 *
 *   1. payloads[] says which probe's event the payload number is and which program reads its
 *      values.
 *   2. Copy the program. If it does not belong to this session, both before and after the copy,
 *      record the event without values.
 *   3. Run the program. The values go to a buffer on the stack, as large as the program says it
 *      needs. The hook does not touch the slot until the values are there. So a handler that comes
 *      now finds the thread outside of any hook.
 *   4. Record event and values together (record.c).
 *
 * No access to memory that a value points to can fault. Memory in the page of the site's stack
 * pointer is mapped. All other memory is read by process_vm_readv from the process itself: one
 * system call, whose error is a return value. It changes neither errno nor signals, and is never
 * interrupted. Under a seccomp filter it might end the thread. So if any thread has a filter, the
 * hotpatcher forbids the call (may_read). A value that would need it is then recorded as
 * unreadable.
 */
#include "runtime/payload.h"

#include "common/trace/trace_format.h"
#include "common/trace/values.h"
#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

#define PAGE 4096ull

struct run {
	const struct rt_frame *frame;
	uint64_t *words; /* [room] */
	uint32_t n, room;
	uint32_t missing; /* one bit a value */
};

static int read_memory(const struct run *r, uint64_t address, uint64_t *ret, uint32_t size)
{
	uint64_t sp = r->frame->general[RT_STACK_POINTER];

	*ret = 0;
	if (address / PAGE != sp / PAGE || (address + size - 1) / PAGE != sp / PAGE)
		return rt_read(address, ret, size) == size;
	for (uint32_t i = 0; i < size; i++)
		*ret |= (uint64_t)((const volatile uint8_t *)address)[i] << 8 * i;
	return 1;
}

static uint64_t extend(uint64_t value, uint32_t size, int is_signed)
{
	uint32_t unused = 64 - 8 * size;

	return is_signed ? (uint64_t)((int64_t)(value << unused) >> unused)
			 : value << unused >> unused;
}

static void put(struct run *r, uint64_t word)
{
	if (r->n < r->room)
		r->words[r->n++] = word;
}

/* Stores st(0) in its own precision. It does so by storing the whole x87 state, which does not
 * change the state. */
static void put_x87(struct run *r)
{
	uint64_t state[64] __attribute__((aligned(16)));

	__asm__ volatile("fxsave64 %0" : "=m"(state));
	put(r, state[4]);
	put(r, state[5] & 0xffff);
}

/* `limit` bytes and one more byte, which tells whether the string ends there, fit into the words
 * that the program has counted. */
static void put_string(struct run *r, uint64_t address, uint32_t limit)
{
	uint64_t *head = r->words + r->n;
	char *bytes = (char *)(head + 1);
	uint64_t got, length = 0;

	if (r->n + 2 + limit / 8 > r->room) {
		put(r, IP_STRING_UNREADABLE);
		put(r, address);
		return;
	}
	got = address ? rt_read(address, bytes, limit + 1) : 0;
	if (!got) {
		put(r, address ? IP_STRING_UNREADABLE : IP_STRING_NULL);
		if (address)
			put(r, address);
		return;
	}
	while (length < got && bytes[length])
		length++;
	*head = length;
	if (length == got) { /* no end of the string was found */
		length = length > limit ? limit : length;
		*head = length | IP_STRING_CUT;
	}
	for (uint64_t i = length; i % 8; i++)
		bytes[i] = 0;
	r->n += 1 + (length + 7) / 8;
}

static uint64_t general(const struct run *r, uint32_t number)
{
	return number < RT_GENERAL_REGISTERS ? r->frame->general[number] : 0;
}

static void run_op(struct run *r, const struct ip_value_op *op, uint32_t place)
{
	uint32_t size = op->size && op->size <= 8 ? op->size : 8;
	uint64_t value = 0;
	int there = 1;

	switch (op->source) {
	case IP_VALUE_REGISTER:
		value = general(r, op->base);
		break;
	case IP_VALUE_IMMEDIATE:
		value = (uint64_t)op->value;
		break;
	case IP_VALUE_MEMORY:
		value = (uint64_t)op->value + general(r, op->base) +
			general(r, op->index) * op->scale;
		there = read_memory(r, value, &value, size);
		break;
	case IP_VALUE_VECTOR:
		value = r->frame->vector[op->base % RT_VECTOR_REGISTERS];
		break;
	case IP_VALUE_X87:
		put_x87(r);
		return;
	default:
		there = 0;
	}
	if (op->flags & IP_VALUE_LONG) {
		uint64_t high = 0, address = (uint64_t)op->value + general(r, op->base);

		if (!there || !read_memory(r, address + 8, &high, 2))
			r->missing |= 1u << place;
		put(r, value);
		put(r, high);
		return;
	}
	value = extend(value, size, op->flags & IP_VALUE_SIGNED);
	if (!there) {
		r->missing |= 1u << place;
		put(r, op->flags & IP_VALUE_STRING ? IP_STRING_NULL : 0);
	} else if (op->flags & IP_VALUE_STRING) {
		put_string(r, value, op->limit);
	} else {
		put(r, value);
	}
}

/* Step 2. */
static int copy_program(uint32_t index, uint32_t session, struct ip_value_program *ret)
{
	const volatile struct ip_value_program *p = &rt_programs[index];
	const volatile uint64_t *from = (const volatile uint64_t *)p;
	uint64_t *to = (uint64_t *)ret;
	uint32_t words;

	if (p->session != session)
		return 0;
	cpu_load_order();
	to[0] = from[0];
	to[1] = from[1];
	if (ret->nops > IP_PROGRAM_OPS || ret->max_words > IP_PROGRAM_WORDS)
		return 0;
	words = 2 + 2 * ret->nops;
	for (uint32_t i = 2; i < words; i++)
		to[i] = from[i];
	cpu_load_order();
	return p->session == session;
}

void rt_record_values(const struct rt_frame *frame, uint32_t payload, uint32_t kind)
{
	uint64_t sp = frame->general[RT_STACK_POINTER];
	uint32_t session = rt_session();
	struct ip_value_program program;
	struct rt_payload record;
	struct ip_payload what;
	struct run r;

	if (!session)
		session = rt_follow_fork();
	if (!session || payload >= IP_AREA_PAYLOADS)
		return;
	what.number = ((volatile struct ip_payload *)rt_payloads)[payload].number;
	what.program = ((volatile struct ip_payload *)rt_payloads)[payload].program;
	if (!what.number || what.number >= IP_AREA_DUTIES)
		return;
	if (!what.program || what.program > IP_AREA_PROGRAMS ||
	    !copy_program(what.program - 1, rt_gate->base, &program)) {
		rt_record(what.number, kind, sp);
		return;
	}
	r = (struct run){.frame = frame,
			 .words = __builtin_alloca_with_align(8ull * (program.max_words + 1), 64),
			 .room = program.max_words};
	for (uint32_t i = 0; i < program.nops; i++)
		run_op(&r, &program.ops[i], i);
	record = (struct rt_payload){.tells = IP_PAYLOAD_WORD(r.n, r.missing, program.signature),
				     .words = r.words,
				     .n = r.n,
				     .session = session};
	rt_record_payload(what.number, kind, sp, &record);
}
