/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading values at a site and recording them with its event.
 *
 *   1. payloads[] says which probe's event the payload number is and which program reads its
 *      values.
 *   2. Copy the program, block by block. If a block does not belong to this session, both before
 *      and after it is copied, record the event without values.
 *   3. Run the program (values.c). The values go to a buffer on the stack, as large as the program
 *      says it needs; strings that are read together, and what expressions read, go to another
 *      first. All of it is RT_VALUES_STACK bytes at most. The compiler's stack-clash protection
 *      touches each page on the way down, so a stack that is too small ends at its guard page. The
 *      hook does not touch the slot until the values are there. So a handler that comes now finds
 *      the thread outside of any hook.
 *   4. Record event and values together (record.c), unless the program's condition is not true.
 *
 * No access to memory that a value points to can fault. Memory in the page of the site's stack
 * pointer is mapped. All other memory is copied by the kernel, from the process to itself
 * (process_vm_writev, process_vm_readv): a system call whose error is a return value. It changes
 * neither errno nor signals, and is never interrupted. Under a seccomp filter it might end the
 * thread. So if any thread has a filter, the hotpatcher forbids the call (may_read). A value that
 * would need it is then recorded as unreadable.
 */
#include "runtime/payload.h"

#include "common/trace/trace_format.h"
#include "runtime/arch/cpu.h"
#include "runtime/rt.h"
#include "runtime/values.h"

/* The first words of a program. Returns 0 if it does not belong to the session. */
static int read_head(uint32_t index, uint32_t session, struct ip_value_program *ret)
{
	const volatile struct ip_value_program *p = &rt_programs[index];

	if (p->session != session)
		return 0;
	cpu_load_order();
	ret->signature = p->signature;
	ret->nops = p->nops;
	ret->max_words = p->max_words;
	cpu_load_order();
	return p->session == session && ret->nops <= IP_PROGRAM_OPS &&
	       ret->max_words <= IP_PROGRAM_WORDS &&
	       index + (ret->nops + IP_PROGRAM_BLOCK_OPS - 1) / IP_PROGRAM_BLOCK_OPS <=
		       IP_AREA_PROGRAMS;
}

/* Copies n operations. Returns 0 if a block of them does not belong to the session. *ret_loads:
 * twice the number of strings, plus 1 if an operation loads. */
static int copy_ops(uint32_t index, uint32_t session, uint32_t n, struct ip_value_op *ret,
		    int *ret_loads)
{
	*ret_loads = 0;
	for (uint32_t i = 0; i < n; i++) {
		const volatile struct ip_value_program *p =
			&rt_programs[index + i / IP_PROGRAM_BLOCK_OPS];
		const volatile uint64_t *from =
			(const volatile uint64_t *)&p->ops[i % IP_PROGRAM_BLOCK_OPS];

		if (i % IP_PROGRAM_BLOCK_OPS == 0 && p->session != session)
			return 0;
		cpu_load_order();
		((uint64_t *)&ret[i])[0] = from[0];
		((uint64_t *)&ret[i])[1] = from[1];
		*ret_loads |= ret[i].source == IP_VALUE_LOAD;
		*ret_loads += 2 * ((ret[i].flags & IP_VALUE_STRING) != 0);
		cpu_load_order();
		if ((i % IP_PROGRAM_BLOCK_OPS == IP_PROGRAM_BLOCK_OPS - 1 || i == n - 1) &&
		    p->session != session)
			return 0;
	}
	return 1;
}

void rt_record_values(const struct rt_frame *frame, uint32_t payload, uint32_t kind)
{
	uint64_t sp = frame->general[RT_STACK_POINTER];
	uint32_t session = rt_session(), base;
	struct ip_value_program program;
	struct ip_value_op *ops;
	struct rt_payload record;
	struct ip_payload what;
	struct rt_run r;
	int loads;

	if (!session)
		session = rt_follow_fork();
	if (!session || payload >= IP_AREA_PAYLOADS)
		return;
	what.number = ((volatile struct ip_payload *)rt_payloads)[payload].number;
	what.program = ((volatile struct ip_payload *)rt_payloads)[payload].program;
	if (!what.number || what.number >= IP_AREA_DUTIES)
		return;
	base = rt_gate->base;
	if (!what.program || what.program > IP_AREA_PROGRAMS ||
	    !read_head(what.program - 1, base, &program)) {
		rt_record(what.number, kind, sp);
		return;
	}
	ops = __builtin_alloca_with_align(sizeof(*ops) * (program.nops + 1), 64);
	if (!copy_ops(what.program - 1, base, program.nops, ops, &loads)) {
		rt_record(what.number, kind, sp);
		return;
	}
	r.frame = frame;
	r.ops = ops;
	r.nops = program.nops;
	r.words = __builtin_alloca_with_align(8ull * (program.max_words + 1), 64);
	r.room = program.max_words;
	r.n = r.place = r.missing = r.out = r.pending = r.at = 0;
	r.unknown = ~0ull; /* no temporary has a value */
	r.strings = loads >> 1;
	/* one string alone is read into the words directly */
	r.loads = loads && loads != 2 ? __builtin_alloca_with_align(sizeof(*r.loads), 64) : NULL;
	if (r.loads) {
		r.loads->guess = rt_values_guess(what.program, base, sp);
		r.loads->nreads = r.loads->nwaiting = r.loads->asked = r.loads->used = 0;
		r.loads->room = RT_READ_BYTES + (r.strings ? 8 * program.max_words : 0);
		r.loads->bytes = __builtin_alloca_with_align(r.loads->room, 64);
		for (uint32_t i = 0; i < RT_READS; i++)
			r.loads->held[i].size = 0;
	}
	rt_values_run(&r);
	record = (struct rt_payload){.tells = IP_PAYLOAD_WORD(r.n, r.missing, program.signature),
				     .words = r.words,
				     .n = r.n,
				     .session = session,
				     .bare = !program.signature,
				     .out = r.out};
	rt_record_payload(what.number, kind, sp, &record);
}
