// SPDX-License-Identifier: Apache-2.0
/*
 * A signal handler that records comes between any two instructions of a hook: both events must be
 * there, each with its own stack pointer, whatever lies between the handler's stack and the
 * interrupted one. Deterministic: the hook is single-stepped by the trap flag, and the trap's
 * handler records after 0, 1, 2 ... steps.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "runtime/filter.h"
#include "runtime/rt.h"
#include "test/unit/test.h"

#define SESSION 5u
#define SUBBUFS 4u
#define OURS	0x111u
#define THEIRS	0x222u
#define MORE	0x333u

/* What init.c has in the runtime. */
volatile struct ip_gate *rt_gate;
struct ip_area_header *rt_header;
struct ip_slot *rt_slots;
struct ip_subbuf *rt_subbufs;
char *rt_data;
uint32_t *rt_duties;
struct ip_area_clock *rt_clock;
struct ip_filter_rule *rt_rules;
uint32_t rt_nrules = IP_AREA_RULES;
struct ip_filters *rt_filters;
struct ip_rt_private rt_private;
extern struct ip_meters *rt_blocks[IP_AREA_SLOTS];
static struct ip_filters filters; /* none */

/* What record.c keeps to itself. */
extern __thread struct {
	struct ip_slot *slot;
	uint32_t session;
} rt_self __attribute__((tls_model("initial-exec")));

/* steps done; the one after which the handler records, -1: none */
static volatile long steps, target;
static long again; /* steps after which it does so a second time; 0: it does not */
static volatile bool recorded;
static uint32_t modes; /* of the session; in a coarse one time moves on when the handler comes */
static struct ip_area_clock coarse_clock;
/* events of the handler beside the one that is looked for, by the hook itself */
static unsigned more;
static int64_t distance; /* of the handler's stack pointer above the hook's */
static volatile uint64_t our_sp, their_sp;
static const void *hook;

static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	if (steps != target && (!again || steps != target + again)) {
		steps++;
		return;
	}
	if (!again || steps == target + again) /* what comes behind it takes no steps */
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
	steps++;
	recorded = true;
	their_sp = our_sp + distance;
	coarse_clock.now += 1000;
	rt_record(THEIRS, IP_PROBE_ENTRY, their_sp);
	for (unsigned i = 0; i < more; i++)
		__asm__ volatile("movl %1, %%r11d\n\tcall *%0"
				 :
				 : "m"(hook), "i"(MORE)
				 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
				   "cc", "memory");
}

static __attribute__((noinline)) void call_stepped(void)
{
	__asm__ volatile("movq %%rsp, %0\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tmovl %2, "
			 "%%r11d\n\tcall *%1\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq"
			 : "=m"(our_sp)
			 : "m"(hook), "i"(OURS)
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc",
			   "memory");
}

static int setup(void **state)
{
	const size_t sizes[] = {
		4096, 4096, IP_AREA_SLOTS * sizeof(struct ip_slot), 4096, SUBBUFS * IP_SUBBUF_SIZE,
		65536};
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	void *memory[6];

	(void)state;
	for (int i = 0; i < 6; i++) {
		memory[i] = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory[i] == MAP_FAILED)
			return -1;
	}
	*(struct ip_gate *)memory[0] = (struct ip_gate){SESSION, getpid()};
	rt_gate = memory[0];
	rt_header = memory[1];
	rt_filters = &filters;
	rt_slots = memory[2];
	rt_subbufs = memory[3];
	rt_data = memory[4];
	hook = rt_hooks_base + rt_hooks[IP_PROBE_ENTRY - 1][IP_REGS_CALL];
	return sigaltstack(&(stack_t){.ss_sp = memory[5], .ss_size = 65536}, NULL) ||
	       sigaction(SIGTRAP, &action, NULL);
}

/* The thread has recorded at last_sp up to word position. */
static void begin(uint64_t position, uint64_t epoch, uint64_t last_sp)
{
	memset(rt_header, 0, 4096);
	memset(rt_subbufs, 0, 4096);
	memset(rt_data, 0, SUBBUFS * IP_SUBBUF_SIZE);
	rt_private = (struct ip_rt_private){.end = ~0ull, .place_last = ~0ull};
	rt_header->nsubbufs = rt_private.nsubbufs = SUBBUFS;
	rt_header->nfree = SUBBUFS - 1;
	rt_header->hint = 1;
	rt_subbufs[0] = (struct ip_subbuf){.state = IP_SUBBUF_OWNED, .slot = 0};
	for (unsigned i = 1; i < SUBBUFS; i++)
		rt_subbufs[i].slot = IP_NO_SLOT;
	rt_slots[0] = (struct ip_slot){.state = IP_SLOT_CLAIMED,
				       .session = modes ? SESSION | IP_SESSION_MARK : SESSION,
				       .modes = modes,
				       .cur = position,
				       .last_sp = last_sp,
				       .epoch = epoch};
	rt_private.modes = modes;
	rt_self.slot = rt_slots;
	rt_self.session = rt_slots[0].session;
	steps = 0;
	recorded = false;
}

struct event {
	uint32_t number;
	uint64_t sp, time;
};

/* As readers do, sub-buffers in the order of their ordinals. */
static size_t decode(uint64_t position, uint64_t time, uint64_t sp, struct event *ret, size_t most)
{
	size_t n = 0;

	for (uint64_t ordinal = 0; ordinal < SUBBUFS; ordinal++) {
		for (unsigned k = 0; k < SUBBUFS; k++) {
			const uint64_t *words = (const uint64_t *)(rt_data + k * IP_SUBBUF_SIZE);

			if (rt_subbufs[k].slot != 0 || rt_subbufs[k].ordinal != ordinal)
				continue;
			for (uint64_t i = k ? 1 : position; i < IP_SUBBUF_WORDS && n < most; i++) {
				unsigned id = words[i] & 7;
				uint64_t moved;

				if (!id)
					continue;
				if (id == IP_ID_EXTENDED) {
					ret[n].number = words[i + 1] >> 32 & IP_NUMBER_MAX;
					time = words[i] >> 32 | words[i + 1] << 32;
					sp = words[i + 2];
					i += 2;
				} else {
					ret[n].number = words[i] >> 32 & IP_NUMBER_MAX;
					time = (time & ~IP_TIME_MASK) |
					       (words[i] >> 3 & IP_TIME_MASK);
					moved = (words[i] >> (64 - IP_SP_BITS)) -
						(sp >> IP_SP_SHIFT);
					sp += (uint64_t)((int64_t)(moved << (64 - IP_SP_BITS)) >>
							 (64 - IP_SP_BITS))
					      << IP_SP_SHIFT;
				}
				ret[n].time = time;
				ret[n++].sp = sp;
			}
		}
	}
	return n;
}

/* The words that are no event: what the descriptors say is what lies there. */
static void check_surplus(long step, uint64_t position, size_t n)
{
	uint64_t words = rt_slots[0].cur & IP_POSITION_MASK, surplus = 0, last = 0;

	for (unsigned k = 0; k < SUBBUFS; k++)
		if (rt_subbufs[k].slot == 0) {
			surplus += rt_subbufs[k].surplus;
			last = rt_subbufs[k].ordinal > last ? rt_subbufs[k].ordinal : last;
		}
	if (words - position - last != n + surplus)
		fail_msg("after %ld steps: %lu words, %zu events, surplus %lu", step,
			 (unsigned long)(words - position - last), n, (unsigned long)surplus);
}

static void check(long step, uint64_t position, uint64_t time, uint64_t last_sp)
{
	struct event events[32];
	size_t n = decode(position, time, last_sp, events, 32);
	unsigned seen = 0;

	check_surplus(step, position, n);
	for (size_t i = 0; i < n; i++) {
		if (i && events[i].time < events[i - 1].time)
			fail_msg("a handler %+ld bytes off, after %ld steps: event %zu of %zu "
				 "comes too late",
				 (long)distance, step, i, n);
		seen |= events[i].number == OURS && events[i].sp == our_sp ? 1 : 0;
		seen |= events[i].number == THEIRS && events[i].sp == their_sp ? 2 : 0;
	}
	if (n != 2 + more || seen != 3 || rt_slots[0].guard || rt_slots[0].lost)
		fail_msg("a handler %+ld bytes off, after %ld steps: %zu events, %u right, guard "
			 "%#lx, %lu lost",
			 (long)distance, step, n, seen, (unsigned long)rt_slots[0].guard,
			 (unsigned long)rt_slots[0].lost);
}

static void walk(uint64_t position, uint64_t ago)
{
	/* the first three are all kinds there are */
	static const int64_t distances[] = {-4096, 3000, 49152, -100000, 64, 12288, 40000, 1 << 20};
	const size_t n = modes ? 3 : N_ELEMENTS(distances);
	long walked = 0;

	begin(position, 0, 0);
	target = -1;
	call_stepped();
	for (size_t d = 0; d < n; d++) {
		distance = distances[d];
		for (long step = 0;; step++) {
			uint64_t now = __rdtsc(), epoch = now >> IP_TIME_BITS,
				 last_sp = our_sp + 64;

			coarse_clock.now = now;
			begin(position,
			      (modes & IP_MODE_COARSE ? now - (ago << IP_TIME_BITS) : epoch - ago),
			      last_sp);
			target = step;
			call_stepped();
			if (!recorded)
				break;
			/* the clock's upper bits have moved on meanwhile: another way through the
			 * hook */
			if (__rdtsc() >> IP_TIME_BITS == epoch)
				check(step, position, now, last_sp);
			walked++;
		}
	}
	/* the trap flag has done something */
	assert_in_range(walked, n * 20, 100000);
}

static void test_common_way(void **state)
{
	(void)state;
	walk(70, 0);
}

static void test_extended(void **state)
{
	(void)state;
	walk(70, 1);
}

static void test_full(void **state)
{
	(void)state;
	walk(IP_SUBBUF_WORDS - 1, 0);
}

/* A3: another handler comes before the addition is undone. Then the event may be lost, by a word
 * that stays empty. */
static void test_coarse_interrupted_twice(void **state)
{
	static const int64_t distances[] = {-4096, 49152};
	static const long agains[] = {1, 2, 3, 5, 8};
	unsigned lost = 0;

	(void)state;
	modes = IP_MODE_COARSE;
	rt_clock = &coarse_clock;
	for (unsigned d = 0; d < N_ELEMENTS(distances); d++)
		for (unsigned a = 0; a < N_ELEMENTS(agains); a++) {
			again = agains[a];
			distance = distances[d];
			recorded = true;
			for (long step = 0; recorded; step++) {
				const uint64_t position = IP_SUBBUF_WORDS - 64, now = __rdtsc(),
					       last_sp = our_sp + 64;
				const uint64_t *words = (const uint64_t *)rt_data;
				struct event events[8];
				unsigned holes = 0;
				size_t n;

				coarse_clock.now = now;
				begin(position, now, last_sp);
				target = step;
				call_stepped();
				if (!recorded || steps <= target + again)
					break;
				n = decode(position, now, last_sp, events, 8);
				for (uint64_t i = position; i < rt_slots[0].cur; i++)
					holes += !words[i];
				if (n + holes != 3 || holes > 1 || rt_slots[0].guard ||
				    rt_slots[0].lost)
					fail_msg("after %ld and %ld steps: %zu events, %u holes",
						 step, again, n, holes);
				lost += holes;
			}
		}
	again = 0;
	modes = 0;
	assert_in_range(lost, 1, 1000); /* it has been met */
}

static const uint64_t lefts[] = {1, 3}; /* words up to those that are spared */

/* A1 to A3: the handler comes alone, and with more, which fill the sub-buffer where it is nearly
 * full. */
static void test_coarse(void **state)
{
	(void)state;
	modes = IP_MODE_COARSE;
	rt_clock = &coarse_clock;
	for (unsigned i = 0; i < N_ELEMENTS(lefts); i++)
		for (more = 0; more <= 5; more += 5)
			walk(IP_SUBBUF_WORDS - IP_SUBBUF_SPARE - lefts[i], 0);
	more = 0;
	walk(70, 0);
	modes = 0;
}

/* false: the hook has fewer steps. */
static bool step_exhausted(long step, uint64_t left)
{
	const uint64_t position = IP_SUBBUF_WORDS - IP_SUBBUF_SPARE - left, now = __rdtsc(),
		       last_sp = our_sp + 64;
	const struct ip_slot *slot = &rt_slots[0];
	struct event events[32];
	size_t n;

	coarse_clock.now = now;
	begin(position, now, last_sp);
	rt_header->nfree = 0;
	target = step;
	call_stepped();
	if (!recorded)
		return false;
	n = decode(position, now, last_sp, events, 32);
	if (n + slot->lost != 2 + more || slot->guard)
		fail_msg("%lu words left, after %ld steps: %zu events and %lu lost of %u",
			 (unsigned long)left, step, n, (unsigned long)slot->lost, 2 + more);
	if (slot->cur >> IP_POSITION_BITS == IP_NO_SUBBUF &&
	    (slot->cur & IP_POSITION_MASK) != 2 * IP_SUBBUF_WORDS - IP_SUBBUF_SPARE)
		fail_msg("%lu words left, after %ld steps: position %#lx without a sub-buffer",
			 (unsigned long)left, step, (unsigned long)slot->cur);
	return true;
}

/* No sub-buffer is free: what there is no room for is counted, and an addition that finds none does
 * no harm. */
static void test_coarse_exhausted(void **state)
{
	(void)state;
	modes = IP_MODE_COARSE;
	rt_clock = &coarse_clock;
	for (unsigned i = 0; i < N_ELEMENTS(lefts); i++)
		for (more = 0; more <= 5; more += 5)
			for (distance = -4096; distance <= 49152; distance += 53248)
				for (long step = 0; step_exhausted(step, lefts[i]); step++)
					;
	more = 0;
	modes = 0;
}

/* Refuses clock_gettime to this process. */
static int refuse_the_clock(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* In the child: 0, or what was wrong. */
static int refused(void)
{
	uint64_t first, before;

	begin(70, 0, 0);
	rt_slots[0].modes = IP_MODE_MONOTONIC;
	rt_private.may_read = 1;
	rt_clock->now = 1;
	before = rt_stamp(rt_slots);
	if (before <= 1)
		return 1; /* no clock at all */
	first = rt_stamp(rt_slots);
	if (refuse_the_clock())
		return 77;
	if (rt_stamp(rt_slots) != first || rt_stamp(rt_slots) != first)
		return 2; /* it does not stand still */
	rt_slots[1].modes = IP_MODE_MONOTONIC;
	if (rt_stamp(&rt_slots[1]) != 1)
		return 3; /* a thread that never had a time: the session's beginning */
	rt_clock->now = first + 1000;
	rt_private.may_read = 0;
	return rt_stamp(rt_slots) == first + 1000 ? 0 : 4; /* iprobe has seen it */
}

/* A program that forbids itself the clock: no stamp is earlier than the one before. */
static void test_the_clock_is_refused(void **state)
{
	struct ip_area_clock clock = {0};
	int status;
	pid_t pid;

	(void)state;
	rt_clock = &clock;
	pid = fork();
	if (!pid)
		_exit(refused());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	rt_clock = NULL;
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_common_way),
		cmocka_unit_test(test_extended),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_coarse),
		cmocka_unit_test(test_coarse_exhausted),
		cmocka_unit_test(test_coarse_interrupted_twice),
		cmocka_unit_test(test_the_clock_is_refused),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
