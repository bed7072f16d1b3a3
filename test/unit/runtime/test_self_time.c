// SPDX-License-Identifier: Apache-2.0
/*
 * Self time of --payload hist (runtime/meters.c, rules 5 to 7), by the hooks' own C: whatever a
 * program does with its stack, what a function has is its duration less those of the measured calls
 * that it made, to the tick; and all of them add up to what the outmost calls took. And calls that
 * go on in what they have jumped to (runtime/open_calls.h, rules 8 to 10).
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include "common/elf/probe_list.h"
#include "runtime/rt.h"
#include "test/unit/test.h"

#define SESSION 5u
#define BLOCK	8192u
#define DEPTH	16u
#define NUMBERS 16u
#define STACK	(1ull << 40)  /* stack pointers are but numbers here */
#define FAR	(64ull << 20) /* another stack */

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

static char *memory; /* two blocks */

/* X, Y, Z end by jumps, which have numbers of their own; nobody has selected Z. */
enum function { A = 1, B, C, D, E, H, X = 8, X_JUMPS, Y, Y_JUMPS, Z, Z_JUMPS };

static struct ip_meters *block(void)
{
	return (struct ip_meters *)(memory + BLOCK);
}

static struct ip_hist *hist(enum function f)
{
	return (struct ip_hist *)((char *)block() + IP_DUTY_OFFSET(rt_duties[f]));
}

static int group_setup(void **state)
{
	(void)state;
	memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -1;
	rt_gate = (struct ip_gate *)(memory + 65536);
	rt_header = (struct ip_area_header *)(memory + 2 * 65536);
	rt_slots = (struct ip_slot *)(memory + 3 * 65536);
	rt_duties = (uint32_t *)(memory + 4 * 65536);
	rt_filters = (struct ip_filters *)(memory + 5 * 65536);
	rt_clock = (struct ip_area_clock *)(memory + 6 * 65536);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	memset(memory, 0, 1 << 20);
	*(struct ip_gate *)rt_gate = (struct ip_gate){SESSION, getpid(), SESSION, 0};
	rt_private.modes = IP_MODE_PAYLOADS;
	rt_private.meters = memory - (char *)rt_header;
	rt_header->nmeters = rt_private.nmeters = 2;
	rt_private.meters_size = BLOCK;
	rt_private.frames = DEPTH * sizeof(struct ip_meters_frame);
	rt_private.end = rt_private.place_last = ~0ull;
	rt_slots[0] = (struct ip_slot){.state = IP_SLOT_CLAIMED,
				       .session = SESSION | IP_SESSION_MARK,
				       .modes = IP_MODE_PAYLOADS,
				       .cur = IP_NO_SUBBUF << IP_POSITION_BITS,
				       .epoch = ~0ull,
				       .block = 1};
	rt_blocks[0] = block();
	rt_self.slot = rt_slots;
	rt_self.session = SESSION | IP_SESSION_MARK;
	block()->state = IP_METERS_OWNED;
	block()->outmost = ~0ull;
	for (uint32_t i = 0; i < NUMBERS; i++)
		rt_duties[i] = IP_DUTY(IP_DUTY_HIST, 1024 + i * sizeof(struct ip_hist));
	rt_duties[X_JUMPS] = rt_duties[Y_JUMPS] = rt_duties[Z_JUMPS] = IP_DUTY_JUMP;
	rt_duties[Z] = IP_DUTY(IP_DUTY_JOIN, 0);
	return 0;
}

static void spend(void)
{
	for (uint64_t end = __rdtsc() + 2000; __rdtsc() < end;)
		;
}

static void enter(enum function f, uint64_t sp)
{
	rt_record(f, IP_PROBE_ENTRY, sp);
	spend();
}

static void leave(enum function f, uint64_t sp)
{
	spend();
	rt_record(f, IP_PROBE_EXIT, sp);
}

static void call(enum function f, uint64_t sp)
{
	enter(f, sp);
	leave(f, sp);
}

static uint64_t all_self(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < NUMBERS; i++)
		sum += IP_DUTY_OFFSET(rt_duties[i]) >= 1024 ? hist(i)->self : 0;
	return sum;
}

static unsigned measured(enum function f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < IP_HIST_BUCKETS; i++)
		n += hist(f)->buckets[i];
	return n;
}

static void test_nested(void **state)
{
	(void)state;
	enter(A, STACK);
	enter(B, STACK - 64);
	call(C, STACK - 128);
	leave(B, STACK - 64);
	call(D, STACK - 64);
	leave(A, STACK);
	assert_int_equal(hist(C)->self, hist(C)->sum);
	assert_int_equal(hist(D)->self, hist(D)->sum);
	assert_int_equal(hist(B)->self, hist(B)->sum - hist(C)->sum);
	assert_int_equal(hist(A)->self, hist(A)->sum - hist(B)->sum - hist(D)->sum);
	assert_int_equal(block()->inner, hist(A)->sum);
	assert_int_equal(all_self(), hist(A)->sum);
}

static void test_recursion(void **state)
{
	uint64_t outmost;

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		enter(A, STACK - 64 * i);
	for (unsigned i = 8; i-- > 1;)
		leave(A, STACK - 64 * i);
	outmost = hist(A)->sum;
	leave(A, STACK);
	outmost = hist(A)->sum - outmost;
	assert_int_equal(hist(A)->self, outmost);
	assert_int_equal(block()->inner, outmost);
	assert_in_range(hist(A)->sum, outmost, 8 * outmost);
}

/* An instance that was inlined has its host's stack pointer. */
static void test_inlined(void **state)
{
	(void)state;
	enter(A, STACK);
	call(B, STACK);
	call(B, STACK);
	leave(A, STACK);
	assert_int_equal(hist(A)->self, hist(A)->sum - hist(B)->sum);
}

/* A calls B and that C, which jumps back into A. What A calls then is A's, above their frames and
 * below them. */
static void test_longjmp(void **state)
{
	(void)state;
	enter(A, STACK);
	enter(B, STACK - 512);
	enter(C, STACK - 1024);
	call(D, STACK - 64);
	call(E, STACK - 768); /* B passes for its caller */
	leave(A, STACK);
	assert_int_equal(hist(B)->sum + hist(C)->sum, 0);
	assert_int_equal(hist(A)->self, hist(A)->sum - hist(D)->sum - hist(E)->sum);
	assert_int_equal(all_self(), hist(A)->sum);
	/* their frames are there still, and nothing of what comes now is theirs */
	enter(A, STACK);
	call(E, STACK - 768);
	leave(A, STACK);
	assert_int_equal(all_self(), hist(A)->sum);
	assert_int_equal(block()->inner, hist(A)->sum);
}

/* Again and again, until frames pile up and have to go. */
static void test_exceptions(void **state)
{
	uint64_t unmeasured;

	(void)state;
	enter(H, STACK);
	for (unsigned i = 0; i < 100; i++) {
		enter(A, STACK - 64);
		enter(B, STACK - 512 - 8 * (i % 7)); /* throws what A catches */
		call(D, STACK - 128); /* where room is needed, those that are gone go */
		call(C, STACK - 520);
		leave(A, STACK - 64);
	}
	leave(H, STACK);
	unmeasured = hist(B)->unmeasured;
	assert_in_range(unmeasured, 50, 100);
	assert_int_equal(hist(H)->self, hist(H)->sum - hist(A)->sum);
	assert_int_equal(hist(A)->self, hist(A)->sum - hist(C)->sum - hist(D)->sum);
	assert_int_equal(all_self(), hist(H)->sum);
}

/* What a handler takes is none of the function's own that it interrupts, wherever its stack
 * lies. */
static void test_handlers(void **state)
{
	const uint64_t stacks[] = {STACK - 2048, STACK + FAR, STACK - FAR};

	for (unsigned i = 0; i < N_ELEMENTS(stacks); i++) {
		setup(state);
		enter(A, STACK);
		enter(B, STACK - 64);
		enter(H, stacks[i]);
		call(C, stacks[i] - 64);
		leave(H, stacks[i]);
		leave(B, STACK - 64);
		leave(A, STACK);
		assert_int_equal(hist(H)->self, hist(H)->sum - hist(C)->sum);
		assert_int_equal(hist(B)->self, hist(B)->sum - hist(H)->sum);
		assert_int_equal(hist(A)->self, hist(A)->sum - hist(B)->sum);
		assert_int_equal(all_self(), hist(A)->sum);
	}
}

/* A coroutine is resumed by A, yields, and ends when B has resumed it: its calls are its own. */
static void test_coroutine(void **state)
{
	(void)state;
	enter(A, STACK);
	enter(C, STACK - FAR);
	call(D, STACK - FAR - 64);
	leave(A, STACK); /* yielded */
	enter(B, STACK);
	leave(C, STACK - FAR);
	leave(B, STACK);
	assert_int_equal(hist(C)->self, hist(C)->sum - hist(D)->sum);
	assert_int_equal(hist(B)->self, hist(B)->sum);
	assert_int_equal(hist(A)->self, hist(A)->sum);
}

/* Ticks of two processors that disagree: never below 0. */
static void test_never_below_zero(void **state)
{
	(void)state;
	enter(A, STACK);
	block()->frames[0].inner = 1ull << 50;
	leave(A, STACK);
	assert_int_equal(hist(A)->self, 0);
	assert_true(hist(A)->sum > 0);
}

/*
 * A handler that calls H comes between any two instructions of the exit's hook: what H took is
 * taken off at most once, and is in A's duration, or not.
 */
static volatile long steps, target;
static volatile bool happened;
static uint64_t our_sp;
static const void *hook;

static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	if (steps++ != target)
		return;
	happened = true;
	rt_record(H, IP_PROBE_ENTRY, our_sp - 4096);
	rt_record(H, IP_PROBE_EXIT, our_sp - 4096);
}

static __attribute__((noinline)) void call_stepped(void)
{
	__asm__ volatile("movq %%rsp, %0\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tmovl %2, "
			 "%%r11d\n\tcall *%1\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq"
			 : "=m"(our_sp)
			 : "m"(hook), "i"(A)
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc",
			   "memory");
}

static void test_nested_signal(void **state)
{
	static char stack[65536];
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	long walked = 0;

	assert_int_equal(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL),
			 0);
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	hook = rt_hooks_base + rt_hooks[IP_PROBE_EXIT - 1][IP_REGS_CALL];
	target = -1;
	call_stepped(); /* where the stack is */
	for (;; walked++) {
		setup(state);
		happened = false;
		steps = 0;
		target = -1;
		rt_record(B, IP_PROBE_ENTRY, our_sp + 64);
		rt_record(A, IP_PROBE_ENTRY, our_sp);
		target = walked;
		call_stepped();
		rt_record(B, IP_PROBE_EXIT, our_sp + 64);
		if (!happened)
			break;
		assert_int_equal(block()->top, 0);
		assert_int_equal(measured(A), 1);
		assert_int_equal(measured(B), 1);
		assert_int_equal(measured(H), 1);
		assert_in_range(hist(A)->self,
				hist(A)->sum > hist(H)->sum ? hist(A)->sum - hist(H)->sum : 0,
				hist(A)->sum);
		assert_in_range(block()->inner, hist(B)->sum, hist(B)->sum);
		/* nothing is in two functions; what H took in the moment in which A's frame goes
		 * may be in none */
		assert_in_range(all_self(),
				hist(B)->sum > hist(H)->sum ? hist(B)->sum - hist(H)->sum : 0,
				hist(B)->sum + hist(H)->sum);
	}
	assert_in_range(walked, 30, 1000);
}

/* Where chains of jumps lie: what is returned to stands there. */
static uint64_t chained_stack[64];

static uint64_t place(unsigned i, uint64_t returns_to)
{
	chained_stack[i] = returns_to;
	return (uint64_t)&chained_stack[i];
}

static void jump(enum function f, uint64_t sp)
{
	spend();
	rt_record(f + 1, IP_PROBE_TAIL_EXIT, sp + 8);
}

static void test_jump(void **state)
{
	uint64_t sp = place(40, 1);

	(void)state;
	enter(A, STACK);
	enter(X, sp);
	call(B, sp - 64);
	jump(X, sp);
	enter(Y, sp);
	call(C, sp - 64);
	jump(Y, sp);
	call(D, sp);
	leave(A, STACK);
	assert_int_equal(block()->top, 0);
	assert_int_equal(block()->jumped, 0);
	assert_true(measured(X) == 1 && measured(Y) == 1);
	assert_int_equal(hist(X)->self, hist(X)->sum - hist(B)->sum - hist(Y)->sum);
	assert_int_equal(hist(Y)->self, hist(Y)->sum - hist(C)->sum - hist(D)->sum);
	assert_int_equal(all_self(), hist(A)->sum);
}

/* What nobody has selected takes nothing off the call that goes on in it, and its other calls leave
 * nothing behind. */
static void test_jump_to_unselected(void **state)
{
	uint64_t sp = place(40, 1);

	(void)state;
	call(Z, sp);
	enter(X, sp);
	call(Z, sp - 64);
	jump(X, sp);
	enter(Z, sp);
	call(Z, sp - 64); /* a handler's, or a recursion */
	call(B, sp - 64);
	jump(Z, sp);
	call(Z, sp - 64); /* between the jump and what it leads to */
	enter(Y, sp);
	assert_int_equal(measured(X), 0);
	leave(Y, sp);
	assert_int_equal(block()->top, 0);
	assert_int_equal(block()->jumped, 0);
	assert_int_equal(measured(X), 1);
	assert_int_equal(hist(X)->self, hist(X)->sum - hist(B)->sum - hist(Y)->sum);
	assert_int_equal(block()->inner, hist(X)->sum);
}

/* A loop of jumps has one frame a function, and the other calls have no time of their own. */
static void test_loop_of_jumps(void **state)
{
	uint64_t sp = place(40, 1);

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		enter(X, sp);
		jump(X, sp);
		enter(i % 3 ? Y : Z, sp);
		jump(i % 3 ? Y : Z, sp);
		assert_in_range(block()->top, 1, 3 * sizeof(struct ip_meters_frame));
	}
	call(B, sp);
	assert_int_equal(block()->top, 0);
	assert_int_equal(block()->jumped, 0);
	assert_int_equal(measured(X) + hist(X)->unmeasured, 1000);
	assert_int_equal(measured(Y) + hist(Y)->unmeasured, 666);
	assert_int_equal(measured(X), 1);
	assert_int_equal(block()->inner, hist(X)->sum);
}

/* Those that never come back are not taken for the chain of who comes after them: what they jumped
 * to lies in between, */
static void test_unwound_chain(void **state)
{
	uint64_t sp = place(40, 1);

	for (int selected = 0; selected < 2; selected++) {
		setup(state);
		for (int i = 0; i < 3; i++) {
			enter(X, sp);
			jump(X, sp);
			enter(selected ? Y : Z, sp); /* throws */
		}
		enter(X, sp);
		jump(X, sp);
		call(selected ? Y : Z, sp);
		assert_int_equal(measured(X), 1);
		assert_int_equal(block()->jumped, 3);
		call(B, sp);
		assert_int_equal(measured(X), 1);
	}
}

/* or they were to return elsewhere. */
static void test_chain_of_another(void **state)
{
	uint64_t sp = place(40, 1);

	(void)state;
	enter(X, sp);
	jump(X, sp);
	place(40, 2);
	call(Y, sp);
	assert_int_equal(measured(X), 0);
	assert_int_equal(measured(Y), 1);
	place(40, 1);
	call(Y, sp);
	assert_int_equal(measured(X), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nested, setup),
		cmocka_unit_test_setup(test_recursion, setup),
		cmocka_unit_test_setup(test_inlined, setup),
		cmocka_unit_test_setup(test_longjmp, setup),
		cmocka_unit_test_setup(test_exceptions, setup),
		cmocka_unit_test_setup(test_handlers, setup),
		cmocka_unit_test_setup(test_coroutine, setup),
		cmocka_unit_test_setup(test_never_below_zero, setup),
		cmocka_unit_test_setup(test_nested_signal, setup),
		cmocka_unit_test_setup(test_jump, setup),
		cmocka_unit_test_setup(test_jump_to_unselected, setup),
		cmocka_unit_test_setup(test_loop_of_jumps, setup),
		cmocka_unit_test_setup(test_unwound_chain, setup),
		cmocka_unit_test_setup(test_chain_of_another, setup),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
