/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What compilers do with functions, in C: inlining (also of recursive functions), tail calls,
 * partial inlining, cold parts, clones, jump tables, computed goto, spills, functions that do not
 * return, big frames, aligned and variable stacks, weak and hidden functions. Prints a number that
 * depends on all.
 */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))

int cold_forms(int n);

static uint64_t sum = 1;

static inline void mix(uint64_t v)
{
	sum = (sum ^ v) * 1099511628211u;
}

static inline int clamp(int v, int top)
{
	if (v < 0)
		return 0;
	return v > top ? top : v;
}

static int fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static int even(int n);

static int odd(int n)
{
	return n == 0 ? 0 : even(n - 1);
}

static int even(int n)
{
	return n == 0 ? 1 : odd(n - 1);
}

EXPORT void empty(void)
{
}

EXPORT int forward(int n)
{
	return clamp(n * 3, 1000);
}

EXPORT void through_pointer(void (*f)(void))
{
	f();
}

static void leaf_store(void)
{
	mix(7);
}

/* a jump table, each case with other functions inlined */
static int choose(int what, int v)
{
	switch (what) {
	case 0:
		return clamp(v, 3);
	case 1:
		mix(v);
		return 4;
	case 2:
		return fibonacci(v & 7);
	case 3:
		return forward(v);
	case 4:
		mix(v + 1);
		mix(v + 2);
		return v;
	case 5:
		return odd(v & 15);
	case 6:
		return v / 3;
	case 7:
		return clamp(-v, 8) + clamp(v, 9);
	case 8:
		leaf_store();
		return 0;
	case 9:
		through_pointer(empty);
		return 2;
	default:
		return -1;
	}
}

/* threaded code */
static int interpret(const unsigned char *code, int v)
{
	static const void *const targets[] = {&&stop, &&add, &&twice, &&clip, &&note};

#define NEXT goto *targets[*code++]
	NEXT;
add:
	v += 3;
	NEXT;
twice:
	v = clamp(v * 2, 100000);
	NEXT;
clip:
	v = clamp(v, 50);
	NEXT;
note:
	mix(v);
	NEXT;
stop:
	return v;
#undef NEXT
}

static jmp_buf out;

__attribute__((noreturn)) static void give_up(int why)
{
	mix(why);
	longjmp(out, 1);
}

__attribute__((noreturn, cold)) static void fail(const char *why)
{
	fputs(why, stderr);
	exit(3);
}

static int checked(int v)
{
	if (v == 12345)
		fail("impossible\n");
	if (v % 17 == 0)
		give_up(v);
	if (__builtin_expect(v % 13 == 0, 0)) {
		mix(v);
		mix(clamp(v, 40));
		return forward(v);
	}
	return v + 1;
}

static int guarded(int v)
{
	if (setjmp(out))
		return -2;
	return checked(v);
}

/* many values live across calls: the function's own address is spilled */
static long crowded(const long *p, long a, long b, long c, long d, long e)
{
	long f = p[0], g = p[1], h = p[2], i = p[3], j = p[4], k = p[5], l = p[6], m = p[7];

	for (int n = 0; n < 3; n++) {
		f += clamp((int)a, 5), g ^= f + b, h += g * c, i ^= h + d, j += i * e;
		mix(f);
		k ^= j + a, l += k * b, m ^= l + c, a += m;
		leaf_store();
		b ^= f, c += g, d ^= h, e += i;
	}
	return f + g + h + i + j + k + l + m + a + b + c + d + e;
}

static int many_arguments(int a, int b, int c, int d, int e, int f, int g, int h, int i)
{
	return clamp(a + b + c + d + e + f + g + h + i, 99);
}

struct big {
	long v[40];
};

static long by_value(struct big b, int n)
{
	return b.v[n % 40] + clamp(n, 39);
}

static int variable(int n)
{
	char text[n + 1];

	memset(text, n, n);
	text[n] = 0;
	mix(text[n / 2]);
	return clamp(text[0], 9);
}

static int aligned(int n)
{
	_Alignas(64) int v[16] = {n, n + 1};

	mix((uintptr_t)v % 64);
	return v[n & 1] + clamp(n, 3);
}

__attribute__((weak)) int weak_one(int n)
{
	return clamp(n, 77);
}

HIDDEN int hidden_one(int n)
{
	return weak_one(n) + 1;
}

static double real(double x, int n)
{
	double r = 1;

	while (n-- > 0)
		r = r * x + clamp(n, 2);
	return r;
}

static int compare(const void *a, const void *b)
{
	return clamp(*(const int *)a, 1 << 20) - clamp(*(const int *)b, 1 << 20);
}

__attribute__((noinline)) static int specialised(int a, int mode)
{
	if (mode == 1)
		return clamp(a, 10);
	mix(a);
	return a * mode;
}

EXPORT int cold_forms(int n)
{
	static const unsigned char code[] = {1, 4, 2, 1, 3, 4, 2, 2, 0};
	long words[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	int order[9] = {5, 3, 9, 1, 7, 2, 8, 6, 4};
	struct big big = {{1, 2, 3}};

	for (int i = 0; i < n; i++) {
		mix(choose(i % 11, i));
		mix(guarded(i));
		mix(interpret(code, i));
		mix(crowded(words, i, 2, 3, 4, 5));
		mix(many_arguments(i, 1, 2, 3, 4, 5, 6, 7, 8));
		mix(by_value(big, i));
		mix(variable(i % 50 + 1));
		mix(aligned(i));
		mix(hidden_one(i));
		mix((uint64_t)real(1.01, i % 20));
		mix(specialised(i, 1) + specialised(i, 2));
	}
	qsort(order, 9, sizeof(*order), compare);
	mix(order[4]);
	mix(fibonacci(12));
	mix(even(20));
	printf("%016lx\n", (unsigned long)sum);
	return (int)(sum & 7);
}

__attribute__((constructor)) static void before(void)
{
	mix(11);
}

__attribute__((destructor)) static void after(void)
{
	mix(12);
}

#ifndef COLD_LIBRARY
int main(int argc, char **argv)
{
	(void)argv;
	return cold_forms(200 + argc) & 0;
}
#endif
