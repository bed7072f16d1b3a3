// SPDX-License-Identifier: Apache-2.0
/*
 * Hooks that a signal handler interrupts between any two instructions, and that never come back, or
 * come back in another session.
 * Deterministic: a hook is single-stepped by the trap flag, and after 0, 1, 2 ... steps the trap's
 * handler does it.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "runtime/rt.h"
#include "test/unit/test.h"

#define OLD	5u
#define NEW	6u
#define SUBBUFS 8u
#define NUMBER	0x111u
#define BLOCK	1024u
#define BLOCKS	4u
#define DEPTH	4u
#define OLD_AT	256u /* where in a block the number counts and measures, in the old session; */
#define NEW_AT	640u /* in the new one */
#define HELD	2u

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

/* What record.c keeps to itself. */
extern __thread struct {
	struct ip_slot *slot;
	uint32_t session;
} rt_self __attribute__((tls_model("initial-exec")));

static volatile long steps, target; /* done; the one after which it happens */
static volatile bool happened;
static void (*what)(void);
static const void *hook;
static uint64_t our_sp;
static sigjmp_buf way_out;
static char *memory; /* of blocks: the old session's, then the new one's */

static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	if (steps++ != target)
		return;
	happened = true;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &=
		~0x100; /* what comes behind it takes no steps */
	what();
}

static __attribute__((noinline)) void call_stepped(void)
{
	__asm__ volatile("movq %%rsp, %0\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tmovl %2, "
			 "%%r11d\n\tcall *%1\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq"
			 : "=m"(our_sp)
			 : "m"(hook), "i"(NUMBER)
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc",
			   "memory");
}

static int setup(void **state)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	const size_t sizes[] = {4096,
				4096,
				IP_AREA_SLOTS * sizeof(struct ip_slot),
				4096,
				SUBBUFS * IP_SUBBUF_SIZE,
				65536,
				65536,
				65536,
				4096,
				4096};
	void *at[10];

	(void)state;
	for (int i = 0; i < 10; i++) {
		at[i] = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
		if (at[i] == MAP_FAILED)
			return -1;
	}
	rt_gate = at[0];
	rt_header = at[1];
	rt_slots = at[2];
	rt_subbufs = at[3];
	rt_data = at[4];
	memory = at[6];
	rt_duties = at[7];
	rt_filters = at[8];
	rt_clock = at[9];
	rt_rules = calloc(65536, sizeof(*rt_rules));
	return sigaltstack(&(stack_t){.ss_sp = at[5], .ss_size = 65536}, NULL) ||
	       sigaction(SIGTRAP, &action, NULL);
}

static void begin(uint32_t modes)
{
	memset(rt_header, 0, 4096);
	memset(rt_slots, 0, 4 * sizeof(*rt_slots));
	memset(rt_subbufs, 0, 4096);
	memset(rt_data, 0, SUBBUFS * IP_SUBBUF_SIZE);
	memset(memory, 0, 2 * BLOCKS * BLOCK);
	*(struct ip_gate *)rt_gate = (struct ip_gate){OLD, getpid(), OLD, 0};
	rt_private = (struct ip_rt_private){.end = ~0ull,
					    .place_last = ~0ull,
					    .frames = DEPTH * sizeof(struct ip_meters_frame)};
	rt_blocks[0] = NULL;
	rt_header->nsubbufs = rt_private.nsubbufs = SUBBUFS;
	rt_header->nfree = SUBBUFS;
	rt_private.modes = modes;
	rt_slots[0] = (struct ip_slot){.state = IP_SLOT_CLAIMED,
				       .session = OLD | IP_SESSION_MARK,
				       .modes = modes,
				       .cur = IP_NO_SUBBUF << IP_POSITION_BITS,
				       .epoch = ~0ull};
	rt_self.slot = rt_slots;
	rt_self.session = OLD | IP_SESSION_MARK;
	steps = 0;
	happened = false;
}

static struct ip_meters *block(unsigned i)
{
	return (struct ip_meters *)(memory + (size_t)i * BLOCK);
}

/*
 * The session ends and another one begins, as hotpatcher/shm/area.c does it: a slot with a guard is
 * out of use, any other one is another thread's by now, which has block 1 of the new session.
 */
static bool was_late;

static void next_session(void)
{
	struct ip_slot *slot = &rt_slots[0];

	was_late = slot->guard || slot->oldest;
	((struct ip_gate *)rt_gate)->session = ((struct ip_gate *)rt_gate)->base = NEW;
	rt_private.meters = memory + (size_t)BLOCKS * BLOCK - (char *)rt_header;
	rt_header->nmeters = rt_private.nmeters = BLOCKS;
	rt_header->meters_hint = 1;
	block(BLOCKS)->state = block(BLOCKS + 1)->state = IP_METERS_OWNED;
	block(BLOCKS + 1)->outmost = ~0ull;
	rt_duties[NUMBER] = IP_DUTY(rt_duties[NUMBER] & IP_DUTY_MASK, NEW_AT);
	if (was_late) {
		slot->state = IP_SLOT_LATE;
		slot->block = 0;
		return;
	}
	rt_blocks[0] = block(BLOCKS + 1);
	*slot = (struct ip_slot){.state = IP_SLOT_CLAIMED,
				 .session = NEW | IP_SESSION_MARK,
				 .modes = IP_MODE_PAYLOADS,
				 .tid = 1,
				 .block = 1};
}

/* Bytes of a block of the new session that are not zero, but for those that the beginning has
 * set. */
static unsigned touched(unsigned i)
{
	unsigned n = 0;

	for (unsigned at = IP_METERS_HEAD; at < BLOCK; at++)
		n += memory[(size_t)(BLOCKS + i) * BLOCK + at] != 0;
	return n + block(BLOCKS + i)->top;
}

static void held_up(unsigned kind, uint32_t duty, bool own_block)
{
	long late = 0;

	hook = rt_hooks_base + rt_hooks[kind - 1][IP_REGS_CALL];
	what = next_session;
	target = -1;
	call_stepped(); /* where the stack is */
	for (long step = 0;; step++) {
		begin(IP_MODE_PAYLOADS);
		rt_duties[NUMBER] = IP_DUTY(duty, OLD_AT);
		rt_private.meters = memory - (char *)rt_header;
		rt_header->nmeters = rt_private.nmeters = BLOCKS;
		rt_private.meters_size = BLOCK;
		block(0)->state = IP_METERS_OWNED;
		if (own_block) {
			struct ip_meters *m = block(2);

			m->state = IP_METERS_OWNED;
			m->outmost = ~0ull;
			m->frames[0] = (struct ip_meters_frame){our_sp, __rdtsc() - 1000,
								rt_duties[NUMBER], 0};
			m->top = sizeof(struct ip_meters_frame);
			rt_blocks[0] = m;
			rt_slots[0].block = 2;
		}
		target = step;
		call_stepped();
		if (!happened)
			break;
		late += was_late;
		/* that of all and that of another thread; the third may be ours: then it is the new
		 * session's event */
		if (touched(0) || touched(1) || touched(3))
			fail_msg("kind %u, duty %u, after %ld steps: the new session's blocks have "
				 "%u, %u, %u bytes of ours",
				 kind, duty, step, touched(0), touched(1), touched(3));
		assert_false(!was_late && rt_slots[0].guard);
	}
	assert_in_range(late, 1, 1000);
}

static void test_held_up_into_the_next_session(void **state)
{
	(void)state;
	for (int own_block = 1; own_block >= 0; own_block--) {
		held_up(IP_PROBE_ENTRY, IP_DUTY_COUNT, own_block);
		held_up(IP_PROBE_ENTRY, IP_DUTY_HIST, own_block);
		held_up(IP_PROBE_EXIT, IP_DUTY_HIST, own_block);
		held_up(IP_PROBE_ENTRY, IP_DUTY_TIMED, own_block);
		held_up(IP_PROBE_EXIT, IP_DUTY_TIMED, own_block);
	}
}

/* Nested hooks leave the guard to the one below; one that is stale is taken over, and the slot
 * tells so. */
static void test_guard_of_meters(void **state)
{
	(void)state;
	begin(IP_MODE_PAYLOADS);
	rt_duties[NUMBER] = IP_DUTY(IP_DUTY_COUNT, OLD_AT);
	block(2)->state = IP_METERS_OWNED;
	rt_blocks[0] = block(2);
	rt_slots[0].guard = 1 << 20;
	rt_record(NUMBER, IP_PROBE_ENTRY, (1 << 20) - 4096);
	assert_int_equal(rt_slots[0].guard, 1 << 20);
	assert_int_equal(rt_slots[0].oldest, 0);
	rt_record(NUMBER, IP_PROBE_ENTRY, 1 << 20);
	assert_int_equal(rt_slots[0].guard, 0);
	assert_int_equal(rt_slots[0].oldest, 1);
	assert_int_equal(*(uint64_t *)((char *)block(2) + OLD_AT), 2);
}

/* The shortest of calls that are all longer than 32 bits tell. */
static void test_long_minimum(void **state)
{
	/* the clock has counted no more than it has since the machine was started */
	const uint64_t most = __rdtsc() > 1ull << 40 ? 1ull << 40 : __rdtsc();
	const uint64_t ticks[] = {most, 5000000000ull, 1ull << 33};
	struct ip_hist *h = (struct ip_hist *)((char *)block(2) + OLD_AT);

	(void)state;
	begin(IP_MODE_PAYLOADS);
	rt_duties[NUMBER] = IP_DUTY(IP_DUTY_HIST, OLD_AT);
	block(2)->state = IP_METERS_OWNED;
	rt_blocks[0] = block(2);
	for (unsigned i = 0; i < N_ELEMENTS(ticks); i++) {
		block(2)->frames[0] =
			(struct ip_meters_frame){4096, __rdtsc() - ticks[i], rt_duties[NUMBER], 0};
		block(2)->top = sizeof(struct ip_meters_frame);
		rt_record(NUMBER, IP_PROBE_EXIT, 4096);
	}
	assert_int_equal(block(2)->top, 0);
	/* some ticks have gone by, and 27 bits are kept */
	assert_in_range(ip_hist_unpack(~h->min), 4999999000ull, 5100000000ull);
	assert_in_range(ip_hist_unpack_most(h->max), most, most + 100000000ull);
	for (uint64_t t = 1; t < 1ull << 62; t += t / 3 + 1) {
		uint64_t back = ip_hist_unpack(ip_hist_pack(t));

		assert_true(back <= t && t - back <= t >> 26);
		assert_in_range(ip_hist_unpack_most(ip_hist_pack(t)), t, t + (t >> 26));
		assert_true(ip_hist_pack(t) <= ip_hist_pack(t + t / 3 + 1));
	}
}

static void jump(void)
{
	siglongjmp(way_out, 1);
}

static uint64_t filtered(void)
{
	return rt_slots[0].filtered + rt_slots[0].held;
}

/* Entries and exits of NUMBER in the sub-buffers, those words that are none left out. */
static unsigned written(void)
{
	unsigned n = 0;

	for (unsigned k = 0; k < SUBBUFS; k++) {
		const uint64_t *words = (const uint64_t *)(rt_data + k * IP_SUBBUF_SIZE);

		if (rt_subbufs[k].state != IP_SUBBUF_OWNED || rt_slots[0].memory == k + 1)
			continue;
		for (unsigned i = 1; i < 256; i++)
			if ((words[i] & 7) == IP_ID_EXTENDED) {
				n += words[i] && words[i + 1] && words[i + 2];
				i += 2;
			} else {
				n += (words[i] & 7) != 0;
			}
	}
	return n;
}

/* Whether words were reserved and never filled. */
static bool left_words(void)
{
	uint64_t cur = rt_slots[0].cur;
	const uint64_t *words =
		(const uint64_t *)(rt_data + (cur >> IP_POSITION_BITS) * IP_SUBBUF_SIZE);

	if (cur >> IP_POSITION_BITS == IP_NO_SUBBUF)
		return false;
	for (unsigned i = 1; i < cur % IP_SUBBUF_WORDS; i++)
		if (!words[i])
			return true;
	return false;
}

/* A function that is timed has its durations, and all of its events. */
static void test_timed(void **state)
{
	const struct ip_hist *h = (struct ip_hist *)((char *)block(2) + OLD_AT);

	(void)state;
	begin(IP_MODE_PAYLOADS);
	rt_duties[NUMBER] = IP_DUTY(IP_DUTY_TIMED, OLD_AT);
	block(2)->state = IP_METERS_OWNED;
	rt_blocks[0] = block(2);
	rt_record(NUMBER, IP_PROBE_ENTRY, 8192);
	assert_int_equal(block(2)->top, sizeof(struct ip_meters_frame));
	assert_int_equal(written(), 1);
	rt_record(NUMBER, IP_PROBE_POINT, 8192);
	assert_int_equal(block(2)->top, sizeof(struct ip_meters_frame));
	rt_record(NUMBER, IP_PROBE_EXIT, 8192);
	assert_int_equal(block(2)->top, 0);
	assert_int_equal(written(), 3);
	assert_int_not_equal(h->sum, 0);
	assert_int_equal(ip_hist_unpack_most(h->max), h->sum);
	assert_int_equal(rt_slots[0].guard, 0);
	/* without a block there is no duration, and the events are there all the same */
	rt_blocks[0] = NULL;
	rt_record(NUMBER, IP_PROBE_ENTRY, 8192);
	assert_int_equal(written(), 4);
}

/*
 * HELD entries are held back, and a hook writes them since they have lasted long enough; a handler
 * on top of it never comes back. What happens afterwards must find each entry either held back or
 * written: the calls end, and recorded + filtered is what has happened. The event of the hook that
 * was left may be missing, and one that it had reserved words for.
 */
static void test_left_while_writing_what_was_held_back(void **state)
{
	volatile long walked = 0;

	(void)state;
	what = jump;
	hook = rt_hooks_base + rt_hooks[IP_PROBE_ENTRY - 1][IP_REGS_CALL];
	rt_duties[NUMBER] = 0;
	target = -1;
	call_stepped();
	for (volatile long step = 0;; step++) {
		const uint64_t sp = our_sp + 4096;
		volatile unsigned events = 0;
		volatile bool done = false;

		begin(IP_MODE_CAREFUL);
		*rt_filters =
			(struct ip_filters){.frames = 1, .min_ticks = 1ull << 40, .nrules = 0};
		for (unsigned i = 0; i < HELD; i++, events++)
			rt_record(NUMBER, IP_PROBE_ENTRY, sp - 64 * i);
		assert_int_equal(rt_slots[0].held, HELD);
		rt_filters->min_ticks = 1;
		if (sigsetjmp(way_out, 1) == 0) {
			target = step;
			call_stepped();
			done = !happened;
		}
		rt_filters->min_ticks = 1ull << 40;
		if (happened) {
			rt_record(NUMBER, IP_PROBE_ENTRY, sp - 64 * HELD);
			events++;
			rt_record(NUMBER, IP_PROBE_EXIT, sp - 64 * HELD);
			events++;
			assert_in_range(rt_slots[0].held, 0, HELD + 1);
			for (unsigned i = HELD; i--; events++)
				rt_record(NUMBER, IP_PROBE_EXIT, sp - 64 * i);
			assert_int_equal(rt_slots[0].held, 0);
			assert_int_equal(rt_slots[0].guard, 0);
			/* that event may be there too; what is missing is what words were reserved
			 * for and never filled */
			if (written() + filtered() > events + 1 ||
			    written() + filtered() + left_words() < events)
				fail_msg("after %ld steps: %u events, of which %u are written and "
					 "%lu filtered",
					 step, events, written(), (unsigned long)filtered());
			walked++;
		}
		if (done)
			break;
	}
	assert_in_range(walked, 200, 100000);
}

#define IN_HANDLER 6u

static void call_thrice(void)
{
	for (unsigned i = 0; i < IN_HANDLER / 2; i++) {
		rt_record(NUMBER, IP_PROBE_ENTRY, our_sp - 4096);
		rt_record(NUMBER, IP_PROBE_EXIT, our_sp - 4096);
	}
}

/*
 * A handler that makes calls comes in a thread's first hook of a session that keeps frames, before
 * and while memory for them is taken. Nothing is lost where there is memory, one piece of which is
 * for the frames; where there is none, or none but that one, what is missing is counted.
 */
static void test_handler_in_the_first_hook(void **state)
{
	static const int32_t nfree[] = {2, 1, 0};

	(void)state;
	what = call_thrice;
	hook = rt_hooks_base + rt_hooks[IP_PROBE_ENTRY - 1][IP_REGS_CALL];
	rt_duties[NUMBER] = 0;
	for (unsigned n = 0; n < N_ELEMENTS(nfree); n++) {
		long walked = 0;

		/* what is lost is counted between any two steps alike: some will do */
		for (long step = 0;; step += nfree[n] < 2 ? 5 : 1, walked++) {
			const struct ip_slot *slot = &rt_slots[0];
			unsigned taken = 0;

			begin(IP_MODE_CAREFUL);
			for (int k = nfree[n]; k < (int)SUBBUFS; k++)
				rt_subbufs[k].state = IP_SUBBUF_FULL;
			rt_header->nfree = nfree[n];
			*rt_filters = (struct ip_filters){.frames = 1, .depth = 100};
			target = step;
			call_stepped();
			if (!happened)
				break;
			for (unsigned k = 0; k < SUBBUFS; k++)
				taken += rt_subbufs[k].state == IP_SUBBUF_OWNED;
			if (written() + filtered() + slot->lost != 1 + IN_HANDLER ||
			    (slot->lost && nfree[n] >= 2) || slot->guard ||
			    taken != (nfree[n] < 2 ? (unsigned)nfree[n] : 2))
				fail_msg("%d free, after %ld steps: %u written, %lu filtered, %lu "
					 "lost, guard %#lx, %u taken",
					 nfree[n], step, written(), (unsigned long)filtered(),
					 (unsigned long)slot->lost, (unsigned long)slot->guard,
					 taken);
		}
		assert_in_range(walked, 20, 100000);
	}
}

/* A handler's calls and the hook's own all last less than is asked for, in whichever order they
 * come: none is written. */
static void test_handler_among_short_calls(void **state)
{
	long step = 0;

	(void)state;
	what = call_thrice;
	hook = rt_hooks_base + rt_hooks[IP_PROBE_ENTRY - 1][IP_REGS_CALL];
	rt_duties[NUMBER] = 0;
	for (;; step++) {
		begin(IP_MODE_CAREFUL);
		*rt_filters = (struct ip_filters){.frames = 1, .min_ticks = 1ull << 40};
		target = step;
		call_stepped();
		if (!happened)
			break;
		if (written() || filtered() != 1 + IN_HANDLER || rt_slots[0].held > 1 ||
		    rt_slots[0].lost)
			fail_msg("after %ld steps: %u written, %lu filtered, %u of them held back, "
				 "%lu lost",
				 step, written(), (unsigned long)filtered(), rt_slots[0].held,
				 (unsigned long)rt_slots[0].lost);
	}
	assert_in_range(step, 100, 100000);
}

/* A handler that makes calls comes between any two steps of a hook that records its call site: all
 * are there, each with one, and in the order of time. */
static void test_handler_among_call_sites(void **state)
{
	long step = 0;

	(void)state;
	what = call_thrice;
	hook = rt_hooks_base + rt_hooks[IP_PROBE_ENTRY - 1][IP_REGS_CALL];
	rt_rules[NUMBER] = (struct ip_filter_rule){.flags = IP_RULE_SITE};
	target = -1;
	call_stepped(); /* where the stack is */
	for (;; step++) {
		const struct ip_slot *slot = &rt_slots[0];
		const uint64_t *words;
		uint64_t last = 0;
		unsigned entries = 0, exits = 0;

		begin(IP_MODE_CAREFUL | IP_MODE_SITES);
		*rt_filters = (struct ip_filters){.callsite = 1, .nrules = NUMBER + 1};
		/* not the first one of all: that takes a sub-buffer, in C */
		rt_record(NUMBER, IP_PROBE_EXIT, our_sp);
		*(volatile uint64_t *)(our_sp - 4096 - 8) = 1; /* where the handler's come from */
		target = step;
		call_stepped();
		words = (const uint64_t *)(rt_data +
					   (slot->cur >> IP_POSITION_BITS) * IP_SUBBUF_SIZE);
		for (uint64_t i = 1; i < slot->cur % IP_SUBBUF_WORDS;) {
			const bool extended = (words[i] & 7) == IP_ID_EXTENDED,
				   site = extended &&
					  (words[i] >> 3 & IP_TIME_MASK) >= IP_ID_PAYLOAD_BASE;
			const uint64_t time =
				extended ? words[i] >> 32 | words[i + 1] << 32
					 : (last & ~IP_TIME_MASK) | (words[i] >> 3 & IP_TIME_MASK);

			if (!words[i] || time < last)
				fail_msg("after %ld steps: word %lu", step, (unsigned long)i);
			last = time;
			entries += site;
			exits += !site;
			if (site)
				assert_int_not_equal(words[i + IP_PAYLOAD_HEAD], 0);
			i += site ? IP_PAYLOAD_HEAD + 1 : extended ? IP_EXT_WORDS : 1;
		}
		if (entries != 1 + (happened ? IN_HANDLER / 2 : 0) ||
		    exits != 1 + (happened ? IN_HANDLER / 2 : 0) || slot->guard || slot->lost)
			fail_msg("after %ld steps: %u entries, %u exits, guard %#lx", step, entries,
				 exits, (unsigned long)slot->guard);
		if (!happened)
			break;
	}
	/* in line: through C it takes far more */
	assert_in_range(step, 50, 120);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_held_up_into_the_next_session),
		cmocka_unit_test(test_guard_of_meters),
		cmocka_unit_test(test_long_minimum),
		cmocka_unit_test(test_timed),
		cmocka_unit_test(test_left_while_writing_what_was_held_back),
		cmocka_unit_test(test_handler_in_the_first_hook),
		cmocka_unit_test(test_handler_among_short_calls),
		cmocka_unit_test(test_handler_among_call_sites),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
