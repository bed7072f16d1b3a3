/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Makes the program. (The kernel wants its text under a licence that goes with the GPL: see
 * thread_filter.c.)
 *
 * It runs when a system call returns, of any thread. Of threads that are not in the filter's set
 * and of calls without a path it takes nothing. Registers: r6 the context, r7 the thread and then
 * the scratch memory, r8 which arguments are paths, r9 the caller's registers.
 */
#include "kernel_trace/perf/path_program.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/user.h>
#include <unistd.h>

#include "common/arch/syscalls.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "kernel_trace/perf/bpf_program.h"
#include "kernel_trace/perf/thread_filter.h"

#define PATHS_MOST   2u	 /* of a call */
#define PATH_BITS    16u /* of each in the word that tells of a call */
#define FAILED_SHIFT 32u /* the bit above: only a call that has failed */
#define STACK_KEY    (-4)
#define STACK_NUMBER (-16)

/* Where the kernel keeps an argument of a system call (struct pt_regs, which user_regs_struct has
 * the layout of). */
static unsigned register_of(unsigned argument)
{
	static const uint8_t at[IP_SYSCALL_ARGUMENTS] = {
		offsetof(struct user_regs_struct, rdi), offsetof(struct user_regs_struct, rsi),
		offsetof(struct user_regs_struct, rdx), offsetof(struct user_regs_struct, r10),
		offsetof(struct user_regs_struct, r8),	offsetof(struct user_regs_struct, r9)};

	return at[argument];
}

/* What the program does of a call: for each path the place of its register, and above it which
 * argument it is. 0: nothing. */
static uint64_t word_of(unsigned number)
{
	const unsigned paths = ip_syscall_path_arguments(number);
	uint64_t word = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < IP_SYSCALL_ARGUMENTS && n < PATHS_MOST; i++)
		if (paths >> i & 1)
			word |= (uint64_t)(register_of(i) | i << 8) << PATH_BITS * n++;
	return word && ip_syscall_path_if_failed(number) ? word | 1ull << FAILED_SHIFT : word;
}

static int make_words(void)
{
	_cleanup_close_ int words =
		ip_bpf_map(BPF_MAP_TYPE_ARRAY, sizeof(uint64_t), ip_syscall_end(), 0);

	for (unsigned i = 0; words >= 0 && i < ip_syscall_end(); i++) {
		const uint64_t word = word_of(i);

		if (ip_bpf_map_set(words, i, &word) < 0)
			return ip_error_errno(
				"cannot tell a BPF program which arguments are paths");
	}
	return ip_steal_fd(&words);
}

/* Copies 8 bytes of the kernel's memory at r3 to r1. */
static void put_read(struct ip_bpf_program *p)
{
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, 8);
	ip_bpf_call(p, BPF_FUNC_probe_read_kernel);
}

/* r0 = the entry of an array; its number stands on the stack. */
static void put_lookup(struct ip_bpf_program *p, int map, int16_t key)
{
	ip_bpf_put_map(p, BPF_REG_1, map);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, key);
	ip_bpf_call(p, BPF_FUNC_map_lookup_elem);
	ip_bpf_exit_unless(p, BPF_REG_0);
}

/* r8 = what is to be done of the call. */
static void put_choice(struct ip_bpf_program *p, int words)
{
	ip_bpf_put(p, BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_9, BPF_REG_6, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_10, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_1, 0, 0, STACK_NUMBER);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_9, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_3, 0, 0,
		   offsetof(struct user_regs_struct, orig_rax));
	put_read(p);
	put_lookup(p, words, STACK_NUMBER); /* its lower half: a call that is none has no entry */
	ip_bpf_put(p, BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_8, BPF_REG_0, 0, 0);
	ip_bpf_exit_unless(p, BPF_REG_8);
	/* the result >> 63 is 0 if the call has not failed */
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_8, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_1, 0, 0, FAILED_SHIFT);
	ip_bpf_put(p, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_1, 0, 3, 0);
	ip_bpf_put(p, BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_1, BPF_REG_6, 8, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_1, 0, 0, 63);
	ip_bpf_exit_unless(p, BPF_REG_1);
}

/* r7 = the scratch memory, with what all records of the call have. */
static void put_head(struct ip_bpf_program *p, int scratch)
{
	ip_bpf_put(p, BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, STACK_KEY, 0);
	put_lookup(p, scratch, STACK_KEY);
	ip_bpf_put(p, BPF_STX | BPF_MEM | BPF_W, BPF_REG_0, BPF_REG_7,
		   offsetof(struct ip_path_record, tid), 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_7, BPF_REG_0, 0, 0);
	ip_bpf_put(p, BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_1, BPF_REG_10, STACK_NUMBER, 0);
	ip_bpf_put(p, BPF_STX | BPF_MEM | BPF_H, BPF_REG_7, BPF_REG_1,
		   offsetof(struct ip_path_record, number), 0);
	ip_bpf_call(p, BPF_FUNC_ktime_get_ns);
	ip_bpf_put(p, BPF_STX | BPF_MEM | BPF_DW, BPF_REG_7, BPF_REG_0,
		   offsetof(struct ip_path_record, ns), 0);
}

/* Writes the record of the i-th path, if there is one. */
static void put_path(struct ip_bpf_program *p, unsigned i, int ring, int dropped)
{
	unsigned refused;

	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_8, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_1, 0, 0, PATH_BITS * i);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_1, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_1, 0, 0, 0xff);
	ip_bpf_exit_unless(p, BPF_REG_1); /* (no argument stands at 0) */
	ip_bpf_put(p, BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_3, 0, 0, 8);
	ip_bpf_put(p, BPF_STX | BPF_MEM | BPF_B, BPF_REG_7, BPF_REG_3,
		   offsetof(struct ip_path_record, argument), 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_9, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_ADD | BPF_X, BPF_REG_3, BPF_REG_1, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_7, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_1, 0, 0,
		   offsetof(struct ip_path_record, address));
	put_read(p);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_7, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_1, 0, 0,
		   offsetof(struct ip_path_record, text));
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, IP_CALL_PATH_MOST);
	ip_bpf_put(p, BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_3, BPF_REG_7,
		   offsetof(struct ip_path_record, address), 0);
	ip_bpf_call(p, BPF_FUNC_probe_read_user_str);
	/* an error is more than any length */
	ip_bpf_put(p, BPF_JMP | BPF_JLE | BPF_K, BPF_REG_0, 0, 1, IP_CALL_PATH_MOST);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0);
	ip_bpf_put_map(p, BPF_REG_1, ring);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_7, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_0, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_3, 0, 0,
		   offsetof(struct ip_path_record, text));
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_4, 0, 0, BPF_RB_NO_WAKEUP);
	ip_bpf_call(p, BPF_FUNC_ringbuf_output);
	refused = p->n;
	ip_bpf_put(p, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 0, 0);
	put_lookup(p, dropped, STACK_KEY);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1);
	ip_bpf_put(p, BPF_STX | BPF_XADD | BPF_DW, BPF_REG_0, BPF_REG_1, 0, 0);
	if (refused < IP_BPF_INSNS)
		p->insns[refused].off = p->n - refused - 1;
}

int ip_path_program_attach(const struct ip_thread_filter *filter, int ring, int dropped)
{
	_cleanup_close_ int words = make_words();
	_cleanup_close_ int scratch =
		ip_bpf_map(BPF_MAP_TYPE_PERCPU_ARRAY, sizeof(struct ip_path_record), 1, 0);
	_cleanup_close_ int loaded = -1;
	struct ip_bpf_program p = {.type = BPF_PROG_TYPE_RAW_TRACEPOINT};
	char name[BPF_OBJ_NAME_LEN];

	if (words < 0 || scratch < 0)
		return -1;
	ip_thread_filter_put(filter, &p);
	put_choice(&p, words);
	put_head(&p, scratch);
	for (unsigned i = 0; i < PATHS_MOST; i++)
		put_path(&p, i, ring, dropped);
	snprintf(name, sizeof(name), IP_THREAD_FILTER_PROGRAMS "%dp", getpid());
	loaded = ip_bpf_load(&p, name);
	return loaded < 0 ? -1 : ip_bpf_attach_raw(loaded, "sys_exit");
}
