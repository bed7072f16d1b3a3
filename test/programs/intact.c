/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that checks itself, from its first instruction: to be executed by one that is being
 * traced. It needs no library.
 *
 *   cc -O2 -static -nostdlib -fno-stack-protector -o intact intact.c
 *
 * At the start every register is 0, and so is the stack below its pointer. Then it waits with a
 * time limit, which must end by that; registers and memory must go on as computed for a twentieth
 * of a second; and so three times, without leaving a trace on the stack. Says "intact", or what was
 * wrong; "interrupted" where a wait was.
 */
#include <sys/syscall.h>
#include <time.h>

#define REGISTERS 15
#define BELOW	  1024 /* bytes; nothing was ever there */

__asm__(".globl _start\n"
	"_start:\n"
	"	movq %rax, seen(%rip)\n	movq %rbx, 8 + seen(%rip)\n	movq %rcx, 16 + "
	"seen(%rip)\n"
	"	movq %rdx, 24 + seen(%rip)\n	movq %rsi, 32 + seen(%rip)\n	movq %rdi, 40 + "
	"seen(%rip)\n"
	"	movq %rbp, 48 + seen(%rip)\n	movq %r8, 56 + seen(%rip)\n	movq %r9, 64 + "
	"seen(%rip)\n"
	"	movq %r10, 72 + seen(%rip)\n	movq %r11, 80 + seen(%rip)\n	movq %r12, 88 + "
	"seen(%rip)\n"
	"	movq %r13, 96 + seen(%rip)\n	movq %r14, 104 + seen(%rip)\n	movq %r15, 112 + "
	"seen(%rip)\n"
	"	movq %rsp, stack(%rip)\n"
	"	leaq -1024(%rsp), %rsi\n	xorl %ecx, %ecx\n"
	"1:	movq (%rsi,%rcx,8), %rax\n	orq %rax, below(%rip)\n	incl %ecx\n	cmpl $128, "
	"%ecx\n	jne 1b\n"
	"	call check\n"
	"	ud2\n");

unsigned long seen[REGISTERS], stack, below;
static unsigned long state[8];

static long call(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "+a"(number)
			 : "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return number;
}

static void end(const char *what, long length, int code)
{
	call(SYS_write, 1, (long)what, length, 0);
	call(SYS_exit_group, code, 0, 0, 0);
}

#define WRONG(what) end("wrong: " what "\n", sizeof("wrong: " what "\n") - 1, 1)

static double now(void)
{
	struct timespec t;

	call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&t, 0, 0);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static unsigned long next(unsigned long x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

static void compute(void)
{
	unsigned long a = 88172645463325252u, b = a;
	double until = now() + 0.05;

	while (now() < until)
		for (int i = 0; i < 10000; i++) {
			a = next(a);
			__asm__ volatile("" : "+r"(b));
			b = next(b);
			state[i % 8] = a;
			if (a != b || state[i % 8] != b)
				WRONG("arithmetics");
		}
}

/* The stack below the thread's pointer belongs to nobody but itself: what it has put there stays.
 * */
static long wait_with_limit(int fd)
{
	unsigned char event[12];
	long result;

	__asm__ volatile(
		"leaq -4096(%%rsp), %%rax\n"
		"1:	movb $0x5a, (%%rax)\n	incq %%rax\n	cmpq %%rsp, %%rax\n	jne 1b\n"
		:
		:
		: "rax", "memory", "cc");
	__asm__ volatile(
		"xorl %%r10d, %%r10d\n	movb $30, %%r10b\n	movl %1, %%eax\n	syscall\n"
		"	leaq -4096(%%rsp), %%r10\n"
		"1:	cmpb $0x5a, (%%r10)\n	jne 2f\n	incq %%r10\n	cmpq %%rsp, "
		"%%r10\n	jne 1b\n"
		"	jmp 3f\n"
		"2:	movl $1000, %%eax\n"
		"3:\n"
		: "=&a"(result)
		: "i"(SYS_epoll_wait), "D"((long)fd), "S"(event), "d"(1l)
		: "rcx", "r10", "r11", "memory", "cc");
	return result;
}

void check(void)
{
	const int fd = call(SYS_epoll_create1, 0, 0, 0, 0);

	for (int i = 0; i < REGISTERS; i++)
		if (seen[i])
			WRONG("a register");
	if (below)
		WRONG("the stack");
	if (*(unsigned long *)stack != 1)
		WRONG("the arguments");
	for (int i = 0; i < 3; i++) {
		long result = wait_with_limit(fd);

		if (result == 1000)
			WRONG("the stack below a wait");
		if (result == -4) /* EINTR */
			end("interrupted\n", 12, 0);
		if (result)
			WRONG("a wait");
		compute();
	}
	end("intact\n", 7, 0);
}
