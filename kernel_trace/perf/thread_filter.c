/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Makes the programs, and the maps that they use. thread_filter.h has the protocol.
 *
 * The kernel lets a program call perf_event_output() only if it is under a licence that goes with
 * the GPL. So this file, which has the text of the programs, is given under the MIT licence or
 * version 2 of the GPL as well, and they are loaded as "Dual MIT/GPL" (bpf_program.c).
 *
 * Registers: r6 the context, r7 an id of a thread, r8 whether it is in the set.
 */
#include "kernel_trace/perf/thread_filter.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/perf/bpf_program.h"
#include "kernel_trace/perf/perf_event.h"
#include "kernel_trace/record_source.h"
#include "kernel_trace/thread_list.h"

#define TIDS_MOST   (4u << 20) /* PID_MAX_LIMIT of the kernel */
#define WORDS	    (TIDS_MOST / 64)
#define COMMON	    8 /* type, flags, pid: a program cannot read these */
#define RECORD_MOST 256u
#define FORK_CHILD  3u /* field of IP_KERNEL_SCHED_FORK: child_tid */

/* A bit for each id. */
struct threads {
	uint64_t now, ended;
};

struct hook {
	int event;
	uint32_t program;
};

struct ip_thread_filter {
	int set, output;	 /* maps */
	struct threads *threads; /* the map `set` */
	struct hook *hooks;
	size_t nhooks, nkept; /* nkept: the first hooks, which keep the set */
};

/* r0 = the set's word with the thread r7. */
static void put_find(struct ip_bpf_program *p, int set)
{
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_7, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_1, 0, 0, 6);
	ip_bpf_put(p, BPF_STX | BPF_MEM | BPF_W, BPF_REG_10, BPF_REG_1, -4, 0);
	ip_bpf_put_map(p, BPF_REG_1, set);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4);
	ip_bpf_call(p, BPF_FUNC_map_lookup_elem);
	ip_bpf_exit_unless(p, BPF_REG_0);
}

/* r6 = the context; r7 = the thread that runs; r8 = whether it is in the set; r0 as put_find(). */
static void put_begin(struct ip_bpf_program *p, int set)
{
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_1, 0, 0);
	ip_bpf_call(p, BPF_FUNC_get_current_pid_tgid);
	ip_bpf_put(p, BPF_ALU | BPF_MOV | BPF_X, BPF_REG_7, BPF_REG_0, 0, 0); /* its low half */
	put_find(p, set);
	ip_bpf_put(p, BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_8, BPF_REG_0,
		   offsetof(struct threads, now), 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_7, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_1, 0, 0, 63);
	ip_bpf_put(p, BPF_ALU64 | BPF_RSH | BPF_X, BPF_REG_8, BPF_REG_1, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_8, 0, 0, 1);
}

/* r2 = the bit of the thread r7; r3 = all others. */
static void put_bits(struct ip_bpf_program *p)
{
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_7, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_1, 0, 0, 63);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, 1);
	ip_bpf_put(p, BPF_ALU64 | BPF_LSH | BPF_X, BPF_REG_2, BPF_REG_1, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_2, 0, 0);
	ip_bpf_put(p, BPF_ALU64 | BPF_XOR | BPF_K, BPF_REG_3, 0, 0, -1);
}

static void put_or(struct ip_bpf_program *p, int16_t offset)
{
	ip_bpf_put(p, BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_0, BPF_REG_2, offset, BPF_OR);
}

static void put_and(struct ip_bpf_program *p, int16_t offset)
{
	ip_bpf_put(p, BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_0, BPF_REG_3, offset, BPF_AND);
}

void ip_thread_filter_put(const struct ip_thread_filter *f, struct ip_bpf_program *p)
{
	put_begin(p, f->set);
	ip_bpf_exit_unless(p, BPF_REG_8);
}

/* Loads a program, and attaches it to a tracepoint. Its name tells whose it is, and the letter what
 * it does: f, e, r: fork, exit, record. */
static int attach(struct ip_thread_filter *f, const struct ip_tracepoint *tracepoint,
		  struct ip_bpf_program *p, char letter)
{
	char name[BPF_OBJ_NAME_LEN];
	_cleanup_close_ int loaded = -1;
	_cleanup_close_ int hook = -1;

	snprintf(name, sizeof(name), IP_THREAD_FILTER_PROGRAMS "%d%c", getpid(), letter);
	loaded = ip_bpf_load(p, name);
	if (loaded < 0 || ip_array_grow(&f->hooks, f->nhooks, sizeof(*f->hooks)) < 0)
		return -1;
	hook = ip_perf_event_open_hook(tracepoint);
	if (hook < 0)
		return -1;
	if (ioctl(hook, PERF_EVENT_IOC_SET_BPF, loaded) < 0)
		return ip_error_errno("cannot attach a BPF program to %s:%s", tracepoint->system,
				      tracepoint->name);
	f->hooks[f->nhooks++] =
		(struct hook){.event = ip_steal_fd(&hook), .program = ip_bpf_id(loaded)};
	return 0;
}

static int follow_forks(struct ip_thread_filter *f, const struct ip_tracepoint *tracepoint,
			unsigned child)
{
	struct ip_bpf_program p = {.type = BPF_PROG_TYPE_TRACEPOINT};
	unsigned branch, skip;

	put_begin(&p, f->set);
	ip_bpf_put(&p, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_7, BPF_REG_6, child, 0);
	put_find(&p, f->set);
	put_bits(&p);
	branch = p.n;
	ip_bpf_put(&p, BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_8, 0, 3, 0); /* not ours: behind the ja */
	put_and(&p, offsetof(struct threads, ended));
	put_or(&p, offsetof(struct threads, now));
	skip = p.n;
	ip_bpf_put(&p, BPF_JMP | BPF_JA, 0, 0, 2, 0);
	p.insns[branch].off = p.n - branch - 1;
	put_and(&p, offsetof(struct threads, now));
	put_and(&p, offsetof(struct threads, ended));
	p.insns[skip].off = p.n - skip - 1;
	return attach(f, tracepoint, &p, 'f');
}

static int follow_exits(struct ip_thread_filter *f, const struct ip_tracepoint *tracepoint)
{
	struct ip_bpf_program p = {.type = BPF_PROG_TYPE_TRACEPOINT};

	ip_thread_filter_put(f, &p);
	put_bits(&p);
	put_or(&p, offsetof(struct threads, ended));
	put_and(&p, offsetof(struct threads, now));
	return attach(f, tracepoint, &p, 'e');
}

/* Copies the record to the stack, to_stack from its end, by loads that the kernel allows: each as
 * large as its offset is aligned. */
static void put_copy(struct ip_bpf_program *p, unsigned size, int to_stack)
{
	static const struct {
		unsigned bytes;
		uint8_t code;
	} loads[] = {{8, BPF_DW}, {4, BPF_W}, {2, BPF_H}, {1, BPF_B}};

	for (unsigned at = COMMON; at < size;) {
		unsigned i = 0;

		while (at % loads[i].bytes || at + loads[i].bytes > size)
			i++;
		ip_bpf_put(p, BPF_LDX | BPF_MEM | loads[i].code, BPF_REG_1, BPF_REG_6, at, 0);
		ip_bpf_put(p, BPF_STX | BPF_MEM | loads[i].code, BPF_REG_10, BPF_REG_1,
			   to_stack + (int)at, 0);
		at += loads[i].bytes;
	}
}

int ip_thread_filter_record(struct ip_thread_filter *f, const struct ip_tracepoint *tracepoint)
{
	const unsigned size = tracepoint->size;
	const int stack = -8 - (int)((size + 7) / 8 * 8);
	struct ip_bpf_program p = {.type = BPF_PROG_TYPE_TRACEPOINT};

	if (size <= COMMON || size > RECORD_MOST)
		return ip_error("this kernel's records of %s:%s are laid out in a way that iprobe "
				"does not know",
				tracepoint->system, tracepoint->name);
	ip_thread_filter_put(f, &p);
	/* what every record begins with: its type, no flags, the thread */
	ip_bpf_put(&p, BPF_ALU64 | BPF_LSH | BPF_K, BPF_REG_7, 0, 0, 32);
	ip_bpf_put(&p, BPF_ALU64 | BPF_OR | BPF_K, BPF_REG_7, 0, 0, tracepoint->type);
	ip_bpf_put(&p, BPF_STX | BPF_MEM | BPF_DW, BPF_REG_10, BPF_REG_7, stack, 0);
	put_copy(&p, size, stack);
	ip_bpf_put(&p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_6, 0, 0);
	ip_bpf_put_map(&p, BPF_REG_2, f->output);
	ip_bpf_put(&p, BPF_ALU | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, -1); /* BPF_F_CURRENT_CPU */
	ip_bpf_put(&p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_4, BPF_REG_10, 0, 0);
	ip_bpf_put(&p, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_4, 0, 0, stack);
	ip_bpf_put(&p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_5, 0, 0, size);
	ip_bpf_call(&p, BPF_FUNC_perf_event_output);
	return attach(f, tracepoint, &p, 'r');
}

int ip_thread_filter_output(struct ip_thread_filter *f, unsigned cpu, int event)
{
	if (ip_bpf_map_set(f->output, cpu, &event) < 0)
		return ip_error_errno("cannot send events of CPU %u to its perf ring", cpu);
	return 0;
}

/* (Those of other iprobes are not in the way.) */
bool ip_thread_filter_owns(const struct ip_thread_filter *f, uint32_t program)
{
	for (size_t i = 0; f && i < f->nhooks; i++)
		if (f->hooks[i].program == program)
			return true;
	return ip_bpf_is_named(program, IP_THREAD_FILTER_PROGRAMS);
}

static void close_hooks(const struct ip_thread_filter *f, size_t from)
{
	for (size_t i = from; i < f->nhooks; i++)
		close(f->hooks[i].event);
}

void ip_thread_filter_stop(struct ip_thread_filter *f)
{
	close_hooks(f, f->nkept);
	f->nhooks = f->nkept;
}

static int choose(void *context, const pid_t *tids, size_t n)
{
	struct threads *threads = context;

	for (size_t i = 0; i < n; i++) {
		const uint64_t bit = 1ull << (tids[i] & 63);

		if ((unsigned)tids[i] >= TIDS_MOST)
			return ip_error("no thread has the id %d", tids[i]);
		__atomic_fetch_and(&threads[tids[i] / 64].ended, ~bit, __ATOMIC_SEQ_CST);
		__atomic_fetch_or(&threads[tids[i] / 64].now, bit, __ATOMIC_SEQ_CST);
	}
	return 0;
}

int ip_thread_filter_add(struct ip_thread_filter *f, pid_t pid)
{
	return ip_thread_list_choose(pid, choose, f->threads);
}

bool ip_thread_filter_has(const struct ip_thread_filter *f, pid_t tid)
{
	const struct threads *word = &f->threads[(uint32_t)tid / 64 % WORDS];

	return (__atomic_load_n(&word->now, __ATOMIC_ACQUIRE) |
		__atomic_load_n(&word->ended, __ATOMIC_ACQUIRE)) >>
		       (tid & 63) &
	       1;
}

int ip_thread_filter_list(const struct ip_thread_filter *f, int (*each)(void *context, pid_t tid),
			  void *context)
{
	for (size_t i = 0; i < WORDS; i++) {
		uint64_t left = __atomic_load_n(&f->threads[i].now, __ATOMIC_ACQUIRE);

		for (; left; left &= left - 1)
			if (each(context, (pid_t)(i * 64 + __builtin_ctzll(left))) < 0)
				return -1;
	}
	return 0;
}

static int make(struct ip_thread_filter *f, const struct ip_event_layout *layout)
{
	const struct ip_tracepoint *forks =
					   ip_event_layout_tracepoint(layout, IP_KERNEL_SCHED_FORK),
				   *exits =
					   ip_event_layout_tracepoint(layout, IP_KERNEL_SCHED_EXIT);
	void *threads;

	if (!forks || !exits)
		return ip_error("this kernel does not tell of threads that come and go "
				"(sched_process_fork, sched_process_exit)");
	f->set = ip_bpf_map(BPF_MAP_TYPE_ARRAY, sizeof(*f->threads), WORDS, BPF_F_MMAPABLE);
	f->output = f->set < 0 ? -1
			       : ip_bpf_map(BPF_MAP_TYPE_PERF_EVENT_ARRAY, sizeof(int),
					    ip_record_cpus(), 0);
	if (f->output < 0)
		return -1;
	threads = mmap(NULL, WORDS * sizeof(*f->threads), PROT_READ | PROT_WRITE, MAP_SHARED,
		       f->set, 0);
	if (threads == MAP_FAILED)
		return ip_error_errno("cannot map the set of threads");
	f->threads = threads;
	if (follow_forks(f, forks,
			 ip_event_layout_offset(layout, IP_KERNEL_SCHED_FORK, FORK_CHILD)) < 0 ||
	    follow_exits(f, exits) < 0)
		return -1;
	f->nkept = f->nhooks;
	return 0;
}

struct ip_thread_filter *ip_thread_filter_create(const struct ip_event_layout *layout)
{
	struct ip_thread_filter *f = calloc(1, sizeof(*f));

	if (!f) {
		ip_error("out of memory");
		return NULL;
	}
	f->set = f->output = -1;
	if (make(f, layout) == 0)
		return f;
	ip_thread_filter_destroy(f);
	return NULL;
}

void ip_thread_filter_leave(const struct ip_thread_filter *f)
{
	close_hooks(f, 0);
	if (f->set >= 0)
		close(f->set);
	if (f->output >= 0)
		close(f->output);
	if (f->threads)
		munmap(f->threads, WORDS * sizeof(*f->threads));
}

void ip_thread_filter_destroy(struct ip_thread_filter *f)
{
	if (!f)
		return;
	ip_thread_filter_leave(f);
	free(f->hooks);
	free(f);
}
