// SPDX-License-Identifier: Apache-2.0
/*
 * Sites and stubs, byte by byte and by running them: every form that a site can be seen in, also
 * half-way through a write over a page boundary, is executed and must leave the registers alone.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "common/arch/arch.h"
#include "common/elf/probe_list.h"
#include "test/unit/test.h"

static const unsigned forms[] = {IP_FORM_CALL, IP_FORM_RETURN, IP_FORM_JUMP};
static const struct ip_arch *const arch = &ip_arch_x86_64;

/* One page of code: the site under test, a stub, a hook that keeps the number it is given. */
#define SITE	   0
#define STUB	   256
#define HOOK	   512
#define HOOK_BELOW 544 /* takes the number from below its stack pointer */
#define HOOK_PUSH  576 /* takes the number from the stack */
#define HOOK_JUMP  640 /* takes it from under its return address */
#define ELSEWHERE  768 /* what a tail jump enters */
#define NUMBER	   1024
#define SLOT	   1032
#define PLT_SLOT   1040 /* through which a PLT entry jumps */
#define PAGE	   4096
#define THE_NUMBER 0x12345

static uint8_t *page;

static int setup(void **state)
{
	/* mov %r11d,NUMBER(%rip); ret */
	uint8_t hook[] = {0x44, 0x89, 0x1d, 0, 0, 0, 0, 0xc3};
	/* leaq -8(%rsp),%rsp; popq NUMBER(%rip); ret */
	uint8_t below[] = {0x48, 0x8d, 0x64, 0x24, 0xf8, 0x8f, 0x05, 0, 0, 0, 0, 0xc3};
	/* popq NUMBER(%rip); ret */
	uint8_t push[] = {0x8f, 0x05, 0, 0, 0, 0, 0xc3};
	/* pushq 8(%rsp); popq NUMBER(%rip); ret */
	uint8_t jump[] = {0xff, 0x74, 0x24, 0x08, 0x8f, 0x05, 0, 0, 0, 0, 0xc3};
	int32_t rel = NUMBER - (HOOK + 7), rel_push = NUMBER - (HOOK_PUSH + 6),
		rel_below = NUMBER - (HOOK_BELOW + 11), rel_jump = NUMBER - (HOOK_JUMP + 10);

	(void)state;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (page == MAP_FAILED)
		return -1;
	memcpy(hook + 3, &rel, sizeof(rel));
	memcpy(page + HOOK, hook, sizeof(hook));
	memcpy(below + 7, &rel_below, sizeof(rel));
	memcpy(page + HOOK_BELOW, below, sizeof(below));
	memcpy(push + 2, &rel_push, sizeof(rel));
	memcpy(page + HOOK_PUSH, push, sizeof(push));
	memcpy(jump + 6, &rel_jump, sizeof(rel));
	memcpy(page + HOOK_JUMP, jump, sizeof(jump));
	return 0;
}

static uint64_t at(size_t offset)
{
	return (uint64_t)(uintptr_t)(page + offset);
}

/* Puts the site at SITE with a return behind it, calls it, and returns the number that the hook
 * was given; 0: the hook did not run. Every register must survive, but r11 where regs says that it
 * is the stub's. */
static uint32_t run_site(const uint8_t *site, unsigned length, unsigned regs)
{
	uint64_t rax = 0xaaaaaaaaaaaaaaaa, rcx = 0xcc, rdx = 0xdd, rsi = 0x55, rdi = 0x77,
		 entry = at(SITE);
	uint64_t r8 = 0x88, r11;
	uint32_t number;

	memset(page + SITE, 0xcc, 16);
	memcpy(page + SITE, site, length);
	page[SITE + length] = 0xc3;
	memset(page + NUMBER, 0, 4);
	/* The red zone is the compiler's: step over it. */
	__asm__ volatile(
		"sub $128, %%rsp; mov %[r8], %%r8; mov $0x1111, %%r11d; call *%[entry]; mov %%r8, "
		"%[r8]; mov %%r11, %[r11]; add $128, %%rsp"
		: "+a"(rax), "+c"(rcx), "+d"(rdx), "+S"(rsi),
		  "+D"(rdi), [r8] "+r"(r8), [r11] "=&r"(r11)
		: [entry] "b"(entry)
		: "memory", "cc", "r8", "r11");
	assert_int_equal(rax, 0xaaaaaaaaaaaaaaaa);
	assert_int_equal(rcx, 0xcc);
	assert_int_equal(rdx, 0xdd);
	assert_int_equal(rsi, 0x55);
	assert_int_equal(r8, 0x88);
	if (regs != IP_REGS_CALL)
		assert_int_equal(r11, 0x1111);
	memcpy(&number, page + NUMBER, sizeof(number));
	assert_int_equal(rdi, 0x77);
	return number;
}

static void test_bytes(void **state)
{
	static const uint8_t idle[3][2][6] = {
		{{0x0f, 0x1f, 0x44, 0x00, 0x00}, {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00}},
		{{0xc3, 0x0f, 0x1f, 0x40, 0x00}, {0xc3, 0x0f, 0x1f, 0x44, 0x00, 0x00}},
		{{0x0f, 0x1f, 0x44, 0x00, 0x00}, {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00}},
	};
	static const uint8_t live[3][2][6] = {
		{{0xe8, 0xfb, 0x0f, 0x00, 0x00}, {0x67, 0xe8, 0xfa, 0x0f, 0x00, 0x00}},
		{{0xe9, 0xfb, 0x0f, 0x00, 0x00}, {0xe9, 0xfb, 0x0f, 0x00, 0x00, 0x90}},
		{{0xe9, 0xfb, 0x0f, 0x00, 0x00}, {0xe9, 0xfb, 0x0f, 0x00, 0x00, 0x90}},
	};

	(void)state;
	assert_ptr_equal(ip_arch_for_machine(62), arch);
	assert_null(ip_arch_for_machine(183));
	for (size_t k = 0; k < N_ELEMENTS(forms); k++) {
		for (unsigned length = 5; length <= 6; length++) {
			uint8_t bytes[IP_SITE_MAX];

			assert_int_equal(arch->idle(forms[k], length, 0, bytes), 0);
			assert_memory_equal(bytes, idle[k][length - 5], length);
			assert_int_equal(arch->live(forms[k], length, 0x400000, 0x401000, bytes),
					 0);
			assert_memory_equal(bytes, live[k][length - 5], length);
		}
	}
}

static void test_refused(void **state)
{
	static const unsigned lengths[] = {0, 1, 4, 7, 8, 255};
	uint8_t bytes[IP_SITE_MAX];
	uint64_t target;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(lengths); i++) {
		assert_int_equal(arch->idle(IP_FORM_CALL, lengths[i], 0, bytes), -1);
		assert_error("bytes");
		assert_int_equal(arch->live(IP_FORM_CALL, lengths[i], 0, 0, bytes), -1);
		memset(bytes, 0xe8, sizeof(bytes));
		assert_int_equal(arch->live_target(IP_FORM_CALL, lengths[i], 0, bytes, &target), 0);
		assert_int_equal(arch->transit(IP_FORM_CALL, IP_REGS_CALL, lengths[i], 1, bytes),
				 0);
	}
	assert_int_equal(arch->idle(5, 5, 0, bytes), -1);
	assert_error("form 5");
	assert_int_equal(arch->idle(IP_FORM_TAIL, 6, 0, bytes), -1);
	assert_int_equal(arch->idle(IP_FORM_PLT, 5, 0, bytes), -1);
	assert_int_equal(arch->live(5, 5, 0, 0, bytes), -1);
	assert_int_equal(arch->transit(IP_FORM_CALL, IP_REGS_CALL, 5, 0, bytes), 0);
	assert_int_equal(arch->transit(IP_FORM_CALL, IP_REGS_CALL, 5, 5, bytes), 0);
	/* no byte in front of the boundary leaves the flags alone */
	assert_int_equal(arch->transit(IP_FORM_CALL, IP_REGS_ALL, 5, 1, bytes), 0);
	assert_int_equal(arch->transit(IP_FORM_JUMP, IP_REGS_ALL, 6, 1, bytes), 0);
}

static void test_reach(void **state)
{
	/* The farthest stubs on both sides, counted from the end of the jump or call. */
	static const struct {
		unsigned kind, length, end;
	} cases[] = {
		{IP_FORM_CALL, 5, 5},
		{IP_FORM_CALL, 6, 6},
		{IP_FORM_RETURN, 6, 5},
	};
	const uint64_t site = 0x7f0000000000;
	uint8_t bytes[IP_SITE_MAX];
	uint64_t target;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		uint64_t end = site + cases[i].end;
		unsigned kind = cases[i].kind, length = cases[i].length;

		assert_int_equal(arch->live(kind, length, site, end + 0x7fffffff, bytes), 0);
		assert_int_equal(arch->live_target(kind, length, site, bytes, &target), 1);
		assert_int_equal(target, end + 0x7fffffff);
		assert_int_equal(arch->live(kind, length, site, end - 0x80000000, bytes), 0);
		assert_int_equal(arch->live_target(kind, length, site, bytes, &target), 1);
		assert_int_equal(target, end - 0x80000000);
		assert_int_equal(arch->live(kind, length, site, end + 0x80000000, bytes), -1);
		assert_error("out of reach");
		assert_int_equal(arch->live(kind, length, site, end - 0x80000001, bytes), -1);
		assert_int_equal(arch->live(kind, length, site, site + arch->reach, bytes), 0);
		assert_int_equal(arch->live(kind, length, site, site - arch->reach, bytes), 0);
	}
}

static void test_live_target(void **state)
{
	uint8_t bytes[IP_SITE_MAX];
	uint64_t target;

	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(forms); k++) {
		for (unsigned length = 5; length <= 6; length++) {
			assert_int_equal(arch->idle(forms[k], length, 0, bytes), 0);
			assert_int_equal(
				arch->live_target(forms[k], length, 0x1000, bytes, &target), 0);
			assert_int_equal(arch->live(forms[k], length, 0x401234, 0x400010, bytes),
					 0);
			assert_int_equal(
				arch->live_target(forms[k], length, 0x401234, bytes, &target), 1);
			assert_int_equal(target, 0x400010);
			/* A byte that is not an address's and differs makes it foreign. */
			for (unsigned i = 0; i < length; i++) {
				bool tail = forms[k] != IP_FORM_CALL;
				unsigned opcode = !tail && length == 6;

				if (i > opcode && i <= opcode + 4)
					continue;
				bytes[i] ^= 0x10;
				assert_int_equal(arch->live_target(forms[k], length, 0x401234,
								   bytes, &target),
						 0);
				bytes[i] ^= 0x10;
			}
		}
	}
}

static void test_stub(void **state)
{
	static const uint8_t direct[16] = {0x41, 0xbb, 0x45, 0x23, 0x01, 0x00, 0xe9, 0xf5,
					   0x00, 0x00, 0x00, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
	static const uint8_t below[16] = {0xc7, 0x44, 0x24, 0xf8, 0x45, 0x23, 0x01, 0x00,
					  0xff, 0x25, 0xf2, 0xff, 0xff, 0xff, 0xcc, 0xcc};
	static const uint8_t pushing[16] = {0x68, 0x45, 0x23, 0x01, 0x00, 0xff, 0x25, 0xf5,
					    0xff, 0xff, 0xff, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
	static const uint8_t jumping[32] = {0x48, 0x8d, 0x64, 0x24, 0x80, 0x68, 0x45, 0x23,
					    0x01, 0x00, 0x67, 0xe8, 0xf0, 0x00, 0x00, 0x00,
					    0x48, 0x8d, 0xa4, 0x24, 0x88, 0x00, 0x00, 0x00,
					    0xe9, 0xe8, 0x0f, 0x00, 0x00, 0xcc, 0xcc, 0xcc};
	uint8_t bytes[32];

	(void)state;
	assert_int_equal(arch->stub_size, 16);
	assert_int_equal(arch->jump_stub_size, 32);
	assert_int_equal(arch->stub(IP_REGS_CALL, 0x1000, 0x1100, 0, THE_NUMBER, bytes), 0);
	assert_memory_equal(bytes, direct, 16);
	for (unsigned regs = IP_REGS_ENTRY; regs <= IP_REGS_RETURN; regs++) {
		assert_int_equal(
			arch->stub(regs, 0x1000, 0x7f0000000000, 0x1000, THE_NUMBER, bytes), 0);
		assert_memory_equal(bytes, below, 16);
	}
	assert_int_equal(arch->stub(IP_REGS_ALL + 1, 0x1000, 0x1100, 0, THE_NUMBER, bytes), -1);
	assert_error("unknown registers 4");
	assert_int_equal(arch->stub(IP_REGS_ALL, 0x1000, 0x7f0000000000, 0x1000, THE_NUMBER, bytes),
			 0);
	assert_memory_equal(bytes, pushing, 16);
	assert_int_equal(
		arch->stub(IP_REGS_CALL, 0x1000, 0x7f0000000000, 0x7f0000000000, THE_NUMBER, bytes),
		-1);
	assert_error("within reach");
	assert_int_equal(arch->jump_stub(0x1000, 0x1100, 0, THE_NUMBER, 0x2005, bytes), 0);
	assert_memory_equal(bytes, jumping, 32);
	assert_int_equal(arch->jump_stub(0x1000, 0x1100, 0, THE_NUMBER, 0x7f0000000000, bytes), -1);
	assert_error("out of reach");
}

static void put_stub(unsigned form, unsigned regs, unsigned length, bool direct)
{
	const uint64_t far = 0x10000000000;
	uint64_t hook = at(form == IP_FORM_JUMP	  ? HOOK_JUMP
			   : regs == IP_REGS_ALL  ? HOOK_PUSH
			   : regs == IP_REGS_CALL ? HOOK
						  : HOOK_BELOW);
	uint64_t named = direct ? hook : hook ^ far;

	memcpy(page + SLOT, &hook, sizeof(hook));
	if (form == IP_FORM_JUMP)
		assert_int_equal(arch->jump_stub(at(STUB), named, at(SLOT), THE_NUMBER,
						 at(SITE) + length, page + STUB),
				 0);
	else
		assert_int_equal(
			arch->stub(regs, at(STUB), named, at(SLOT), THE_NUMBER, page + STUB), 0);
}

static void test_run(void **state)
{
	uint8_t bytes[IP_SITE_MAX];

	(void)state;
	for (int direct = 0; direct <= 1; direct++) {
		for (size_t k = 0; k < N_ELEMENTS(forms); k++) {
			for (unsigned length = 5; length <= 6; length++) {
				for (unsigned regs = IP_REGS_CALL; regs <= IP_REGS_ALL; regs++) {
					put_stub(forms[k], regs, length, direct);
					assert_int_equal(arch->idle(forms[k], length, 0, bytes), 0);
					assert_int_equal(run_site(bytes, length, regs), 0);
					assert_int_equal(arch->live(forms[k], length, at(SITE),
								    at(STUB), bytes),
							 0);
					assert_int_equal(run_site(bytes, length, regs), THE_NUMBER);
				}
			}
		}
	}
}

/* The three steps of a write over a page boundary, each run. */
static void run_steps(unsigned form, unsigned regs, unsigned length, unsigned split,
		      const uint8_t *from, const uint8_t *to)
{
	uint8_t bytes[IP_SITE_MAX], between[IP_SITE_MAX];
	unsigned n = arch->transit(form, regs, length, split, between);

	if (!n) {
		assert_int_equal(split, 1);
		assert_true(length == 6 ? form == IP_FORM_JUMP : regs == IP_REGS_ALL);
		return;
	}
	assert_in_range(n, 1, split);
	memcpy(bytes, from, length);
	memcpy(bytes, between, n);
	run_site(bytes, length, regs);
	memcpy(bytes + split, to + split, length - split);
	run_site(bytes, length, regs);
	memcpy(bytes, to, split);
	assert_memory_equal(bytes, to, length);
}

static void test_transit(void **state)
{
	uint8_t idle[IP_SITE_MAX], live[IP_SITE_MAX];

	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(forms); k++) {
		for (unsigned length = 5; length <= 6; length++) {
			for (unsigned regs = IP_REGS_CALL; regs <= IP_REGS_ALL; regs++) {
				put_stub(forms[k], regs, length, true);
				assert_int_equal(arch->idle(forms[k], length, 0, idle), 0);
				assert_int_equal(
					arch->live(forms[k], length, at(SITE), at(STUB), live), 0);
				for (unsigned split = 1; split < length; split++) {
					run_steps(forms[k], regs, length, split, idle, live);
					run_steps(forms[k], regs, length, split, live, idle);
				}
			}
		}
	}
}

/* A tail jump goes where it went, with the hook and without. */
static void test_tail(void **state)
{
	static const uint8_t elsewhere[] = {0x4d, 0x31, 0xdb, 0xc3}; /* xor %r11,%r11; ret */
	static const uint8_t stub[32] = {0x68, 0x45, 0x23, 0x01, 0x00, 0x67, 0xe8, 0xf5,
					 0x00, 0x00, 0x00, 0x48, 0x8d, 0x64, 0x24, 0x08,
					 0xe9, 0xeb, 0x0f, 0x00, 0x00, 0xcc, 0xcc, 0xcc,
					 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
	const int32_t jump = ELSEWHERE - (SITE + 5);
	uint64_t hook = at(HOOK_JUMP), far = hook ^ 0x10000000000, target;
	uint8_t idle[IP_SITE_MAX], live[IP_SITE_MAX], bytes[32];

	(void)state;
	memcpy(page + ELSEWHERE, elsewhere, sizeof(elsewhere));
	memcpy(page + SLOT, &hook, sizeof(hook));
	assert_int_equal(arch->idle(IP_FORM_TAIL, 5, jump, idle), 0);
	assert_int_equal(idle[0], 0xe9);
	assert_memory_equal(idle + 1, &jump, 4);
	assert_int_equal(run_site(idle, 5, IP_REGS_CALL), 0);
	assert_int_equal(arch->live(IP_FORM_TAIL, 5, at(SITE), at(STUB), live), 0);
	assert_int_equal(arch->live_target(IP_FORM_TAIL, 5, at(SITE), live, &target), 1);
	assert_int_equal(target, at(STUB));
	for (int direct = 0; direct <= 1; direct++) {
		assert_int_equal(arch->tail_stub(at(STUB), direct ? hook : far, at(SLOT),
						 THE_NUMBER, at(ELSEWHERE), page + STUB),
				 0);
		assert_int_equal(run_site(live, 5, IP_REGS_CALL), THE_NUMBER);
	}
	assert_int_equal(arch->tail_stub(0x1000, 0x1100, 0, THE_NUMBER, 0x2000, bytes), 0);
	assert_memory_equal(bytes, stub, 32);
	assert_int_equal(arch->tail_stub(0x1000, 0x1100, 0, 1, 0x7f0000000000, bytes), -1);
	assert_error("out of reach");
	/* The first byte never changes. Where more lie in front of a page, nothing could be there
	 * between two writes. */
	assert_int_equal(arch->transit(IP_FORM_TAIL, IP_REGS_ALL, 5, 1, bytes), 1);
	assert_int_equal(bytes[0], idle[0]);
	assert_int_equal(bytes[0], live[0]);
	for (unsigned split = 2; split < 5; split++)
		assert_int_equal(arch->transit(IP_FORM_TAIL, IP_REGS_CALL, 5, split, bytes), 0);
}

/* A PLT entry jumps through its slot, with the hook and without, and to what the slot holds then.
 */
static void test_plt(void **state)
{
	static const uint8_t elsewhere[] = {0x4d, 0x31, 0xdb, 0xc3}; /* xor %r11,%r11; ret */
	static const uint8_t stub[32] = {0x68, 0x45, 0x23, 0x01, 0x00, 0x67, 0xe8, 0xf5,
					 0x00, 0x00, 0x00, 0x48, 0x8d, 0x64, 0x24, 0x08,
					 0xff, 0x25, 0xea, 0x0f, 0x00, 0x00, 0xcc, 0xcc,
					 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
	const int32_t jump = PLT_SLOT - (SITE + 6);
	uint64_t hook = at(HOOK_JUMP), far = hook ^ 0x10000000000, to = at(ELSEWHERE), target;
	uint8_t idle[IP_SITE_MAX], live[IP_SITE_MAX], bytes[32];

	(void)state;
	memcpy(page + ELSEWHERE, elsewhere, sizeof(elsewhere));
	memcpy(page + SLOT, &hook, sizeof(hook));
	memcpy(page + PLT_SLOT, &to, sizeof(to));
	assert_int_equal(arch->idle(IP_FORM_PLT, 6, jump, idle), 0);
	assert_int_equal(idle[0], 0xff);
	assert_int_equal(idle[1], 0x25);
	assert_memory_equal(idle + 2, &jump, 4);
	assert_int_equal(run_site(idle, 6, IP_REGS_CALL), 0);
	assert_int_equal(arch->live(IP_FORM_PLT, 6, at(SITE), at(STUB), live), 0);
	assert_int_equal(arch->live_target(IP_FORM_PLT, 6, at(SITE), live, &target), 1);
	assert_int_equal(target, at(STUB));
	for (int direct = 0; direct <= 1; direct++) {
		assert_int_equal(arch->plt_stub(at(STUB), direct ? hook : far, at(SLOT), THE_NUMBER,
						at(PLT_SLOT), page + STUB),
				 0);
		assert_int_equal(run_site(live, 6, IP_REGS_CALL), THE_NUMBER);
	}
	assert_int_equal(arch->plt_stub(0x1000, 0x1100, 0, THE_NUMBER, 0x2000, bytes), 0);
	assert_memory_equal(bytes, stub, 32);
	assert_int_equal(arch->plt_stub(0x1000, 0x1100, 0, 1, 0x7f0000000000, bytes), -1);
	assert_error("out of reach");
	for (unsigned split = 1; split < 6; split++)
		assert_int_equal(arch->transit(IP_FORM_PLT, IP_REGS_CALL, 6, split, bytes), 0);
	assert_int_equal(ip_arch_i386.idle(IP_FORM_PLT, 6, 0, bytes), -1);
	assert_error("i386 has no sites");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),	cmocka_unit_test(test_refused),
		cmocka_unit_test(test_reach),	cmocka_unit_test(test_live_target),
		cmocka_unit_test(test_stub),	cmocka_unit_test(test_run),
		cmocka_unit_test(test_transit), cmocka_unit_test(test_tail),
		cmocka_unit_test(test_plt),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
