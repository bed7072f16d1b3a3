/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-written sites of every form and with every set of live registers, run in a loop with all
 * registers filled: general ones, flags, x87, MXCSR, vector and mask registers as far as the
 * processor has them, and the red zone. What may be live at a site must be the same behind it,
 * whether its probe is idle, live, or being changed; errno always.
 *
 *   registers [ROUNDS]    says "ready", runs so many rounds or until stdin is closed, prints their
 *                         number; ends with 1 where something has changed
 */
#include <cpuid.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S(x) #x

/* The table of sites as iprobe's compilers write it (coldpatch/sites/site_table.h). */
#define SITE(bytes, kind, length, form, regs)                                                      \
	"1:\t.byte " bytes "\n"                                                                    \
	"\t.pushsection .pdr.iprobe, \"o\", @progbits, .text\n"                                    \
	"\t.quad 1b; .byte " S(kind) ", " S(length) ", " S(form) ", " S(                           \
		regs) "; .long 0xffffffff\n"                                                       \
		      "\t.popsection\n"
#define NOP5	"0x0f, 0x1f, 0x44, 0, 0"
#define NOP6	"0x66, 0x0f, 0x1f, 0x44, 0, 0"
#define RETNOP5 "0xc3, 0x0f, 0x1f, 0x40, 0"
#define RETNOP6 "0xc3, 0x0f, 0x1f, 0x44, 0, 0"

/* A point, as iprobe/probe.h records it; of its arguments the last is a string, wherever that may
 * be. */
#define POINT(name)                                                                                \
	"1:\t.byte " NOP5 "\n"                                                                     \
	"\t.pushsection .iprobe.points, \"o\", @progbits, .text\n"                                 \
	"\t.balign 8\n2:\t.4byte 3f - 2b; .byte 1, 0, 8, 0; .8byte 1b\n"                           \
	"\t.asciz \"" name "\"; .asciz \"8@%r15;8@-8(%rsp);8@-128(%rsp);8@%rbx\"; .asciz \"\"\n"   \
	"\t.balign 8\n3:\t.popsection\n"

/* Where the site is a return, it is that of a function of its own. */
#define RUN(name, site)                                                                            \
	"\t.type " name ", @function\n" name ":\n\tcall fill\n" site "\tjmp keep\n\t.size " name   \
	", . - " name "\n"
#define RUN_RETURN(name, site)                                                                     \
	"\t.type " name ", @function\n" name ":\n\tcall fill\n\tleaq 8(%rsp), %rsp\n"              \
	"\tcall 2f\n\tleaq -8(%rsp), %rsp\n\tjmp keep\n2:\n" site "\t.size " name ", . - " name    \
	"\n"

extern void run_site(const void *site); /* one of the below */
extern const char call_entry[], call_exit_6[], entry_entry[], return_exit[], return_itself[],
	tail_all[], tail_return[], tail_return_6[], all_entry[], all_exit_6[], jumping_entry[],
	jumping_exit_6[], point_site[];

/* rax rcx rdx rbx rsp rbp rsi rdi r8..r15 flags */
enum { RSP = 4, FLAGS = 16, REGISTERS };
uint64_t before[REGISTERS], after[REGISTERS], site_stack, own_stack, site_to_run;
void *vectors_before, *vectors_after;
uint32_t vectors_mask;

__asm__("\t.macro each op\n"
	"\t\\op rax, 0\n\t\\op rcx, 8\n\t\\op rdx, 16\n\t\\op rbx, 24\n\t\\op rbp, 40\n\t"
	"\\op rsi, 48\n"
	"\t\\op rdi, 56\n\t\\op r8, 64\n\t\\op r9, 72\n\t\\op r10, 80\n\t\\op r11, 88\n\t"
	"\\op r12, 96\n"
	"\t\\op r13, 104\n\t\\op r14, 112\n\t\\op r15, 120\n\t.endm\n"
	"\t.macro load reg, at\n\tmovq before + \\at(%rip), %\\reg\n\t.endm\n"
	"\t.macro store reg, at\n\tmovq %\\reg, after + \\at(%rip)\n\t.endm\n"
	"\t.text\n"
	"\t.globl run_site\n\t.type run_site, @function\n"
	"run_site:\n"
	"\tpushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\t"
	"pushq %r15\n"
	"\tmovq %rsp, own_stack(%rip)\n"
	"\tmovq %rdi, site_to_run(%rip)\n"
	"\tmovl vectors_mask(%rip), %eax\n\txorl %edx, %edx\n\tmovq vectors_before(%rip), "
	"%rcx\n\txrstor64 (%rcx)\n"
	"\tmovq site_stack(%rip), %rsp\n"
	"\tjmp *site_to_run(%rip)\n"
	/* called with nothing below the site's stack; leaves the return address where the red zone
	 * ends */
	"fill:\n"
	"\tpopq site_to_run(%rip)\n"
	"\tleaq -256(%rsp), %rsp\n\tpushq 128 + before(%rip)\n\tpopfq\n\tleaq 256(%rsp), "
	"%rsp\n"
	"\tmovq 120 + before(%rip), %r15\n\tmovq %r15, -8(%rsp)\n\tmovq %r15, -128(%rsp)\n"
	"\teach load\n"
	"\tjmp *site_to_run(%rip)\n"
	"keep:\n"
	"\teach store\n"
	"\tmovq %rsp, 32 + after(%rip)\n"
	"\tleaq -256(%rsp), %rsp\n\tpushfq\n\tpopq 128 + after(%rip)\n\tpushq "
	"$2\n\tpopfq\n"
	"\tmovl vectors_mask(%rip), %eax\n\txorl %edx, %edx\n\tmovq vectors_after(%rip), "
	"%rcx\n\txsave64 (%rcx)\n"
	"\tmovq own_stack(%rip), %rsp\n"
	"\tpopq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\t"
	"popq %rbx\n\tret\n"
	"\t.size run_site, . - run_site\n");

__asm__(RUN("call_entry", SITE(NOP5, 1, 5, 0, 0)));
__asm__(RUN("call_exit_6", SITE(NOP6, 2, 6, 0, 0)));
__asm__(RUN("entry_entry", SITE(NOP5, 1, 5, 0, 1)));
__asm__(RUN("return_exit", SITE(NOP5, 2, 5, 0, 2)));
__asm__(RUN_RETURN("return_itself", SITE(RETNOP5, 2, 5, 1, 2)));
__asm__(RUN("tail_all", SITE(NOP5, 3, 5, 0, 3)));
__asm__(RUN_RETURN("tail_return", SITE(RETNOP5, 3, 5, 1, 0)));
__asm__(RUN_RETURN("tail_return_6", SITE(RETNOP6, 3, 6, 1, 0)));
__asm__(RUN("all_entry", SITE(NOP5, 1, 5, 0, 3)));
__asm__(RUN("all_exit_6", SITE(NOP6, 2, 6, 0, 3)));
__asm__(RUN("jumping_entry", SITE(NOP5, 1, 5, 2, 3)));
__asm__(RUN("jumping_exit_6", SITE(NOP6, 2, 6, 2, 3)));
__asm__(RUN("point_site", POINT("a_point")));

#define SAVED_BY_CALLS (1u << 3 | 1u << RSP | 1u << 5 | 0xf000u)
#define ALL_FLAGS      0x40cd5u /* AC DF OF SF ZF AF PF CF */

static const struct site {
	const char *name;
	const void *code;
	uint32_t registers, flags;
	int red_zone;
} sites[] = {
	{"call_entry", call_entry, 0, 0, 0},
	{"call_exit_6", call_exit_6, 0, 0, 0},
	{"entry_entry", entry_entry, 0xffff, 0, 0},
	{"return_exit", return_exit, 0xffff, 0, 0},
	{"return_itself", return_itself, 0xffff, 0, 0},
	{"tail_all", tail_all, 0xffff, ALL_FLAGS, 0},
	{"tail_return", tail_return, 0, 0, 0},
	{"tail_return_6", tail_return_6, 0, 0, 0},
	{"all_entry", all_entry, 0xffff, ALL_FLAGS, 0},
	{"all_exit_6", all_exit_6, 0xffff, ALL_FLAGS, 0},
	{"jumping_entry", jumping_entry, 0xffff, ALL_FLAGS, 1},
	{"jumping_exit_6", jumping_exit_6, 0xffff, ALL_FLAGS, 1},
	{"point_site", point_site, 0xffff, ALL_FLAGS, 1},
};

#define VECTORS 16384

static uint64_t random64(void)
{
	static uint64_t state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* Any bits are a state, but for the control words, the header and the upper parts of x87
 * registers. */
static void fill_vectors(void)
{
	char *v = vectors_before;

	for (size_t i = 0; i < VECTORS; i += 8)
		memcpy(v + i, &(uint64_t){random64()}, 8);
	memset(v, 0, 32);
	*(uint16_t *)v = 0x037f ^ (random64() & 0xc00);
	((uint16_t *)v)[1] = random64() & 0x7800;
	v[4] = (char)random64();
	*(uint32_t *)(v + 24) = 0x1f80 ^ (random64() & 0xe03f);
	for (int i = 0; i < 8; i++)
		memset(v + 32 + 16 * i + 10, 0, 6);
	memset(v + 416, 0, 96);
	memset(v + 512, 0, 64);
	*(uint64_t *)(v + 512) = vectors_mask;
}

static int wrong(const struct site *s, const char *what, int number)
{
	printf("%s: %s %d has changed: %#lx, %#lx\n", s->name, what, number, before[number],
	       after[number]);
	return 1;
}

static int check(const struct site *s)
{
	uint32_t registers = s->registers | SAVED_BY_CALLS;
	const uint64_t *zone = (const uint64_t *)site_stack;

	before[RSP] = site_stack;
	for (int i = 0; i < FLAGS; i++)
		if (registers & 1u << i && before[i] != after[i])
			return wrong(s, "register", i);
	if ((before[FLAGS] ^ after[FLAGS]) & s->flags)
		return wrong(s, "flags", FLAGS);
	if (s->red_zone && (zone[-1] != before[15] || zone[-16] != before[15]))
		return wrong(s, "red zone", 15);
	memcpy((char *)vectors_before + 28, (char *)vectors_after + 28, 4); /* MXCSR_MASK */
	for (int i = 0; i < VECTORS; i++)
		if (((char *)vectors_before)[i] != ((char *)vectors_after)[i])
			return wrong(s, "byte of the vector state", i % FLAGS);
	if (errno != 4711)
		return wrong(s, "errno", 0);
	return 0;
}

int main(int argc, char **argv)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	uint32_t eax, ebx, ecx, edx;
	unsigned long rounds = 0, wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & 1 << 27)) {
		puts("no xsave");
		return 77;
	}
	__asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
	vectors_mask = eax & 0xe7; /* x87, SSE, AVX, AVX-512 */
	vectors_before = aligned_alloc(64, VECTORS);
	vectors_after = aligned_alloc(64, VECTORS);
	site_stack = (uint64_t)aligned_alloc(64, 1 << 17) + (1 << 16);
	puts("ready");
	fflush(stdout);
	while (wanted ? rounds < wanted : poll(&in, 1, 0) == 0) {
		fill_vectors();
		for (size_t i = 0; i < sizeof(sites) / sizeof(*sites); i++) {
			for (int r = 0; r < FLAGS; r++)
				before[r] = random64();
			/* the direction flag is clear wherever a function begins or ends */
			before[FLAGS] =
				0x202 | (random64() & (sites[i].flags ? ALL_FLAGS : 0x408d5));
			before[FLAGS] &= sites[i].flags ? ~0ull : ~0x400ull;
			memcpy(vectors_after, vectors_before, VECTORS);
			errno = 4711;
			run_site(sites[i].code);
			if (check(&sites[i]))
				return 1;
		}
		rounds++;
	}
	printf("%lu rounds\n", rounds);
	return 0;
}
