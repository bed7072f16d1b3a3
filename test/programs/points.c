/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points and scopes in all the places where compilers treat code in their own way, as C or (-x c++)
 * as C++. Each number read from stdin is a number of rounds; then it prints what it counted itself,
 * "NAME=COUNT ..." (entries of scopes, passes of points), and the checksum of its work as SUM.
 */
#include <iprobe/probe.h>

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	unsigned long start, round, red, unrolled, inlined, copied, scope, turn, early, outer,
		jumped, thrown, after, words;
} n;
static unsigned long sum;
static jmp_buf env;

/* A leaf with data in the red zone across the site. */
static __attribute__((noinline)) unsigned long red(unsigned long a)
{
	volatile unsigned long t[8];

	for (unsigned i = 0; i < 8; i++)
		t[i] = a * (i + 3);
	IPROBE_POINT(red, a, (unsigned char)a, (short)-a);
	return t[a & 7] ^ t[(a >> 3) & 7];
}

static inline unsigned long inlined(unsigned long a)
{
	IPROBE_POINT(inlined, a);
	n.inlined++;
	return a * 7;
}

/* Copied by constant propagation and by the loop that calls it. */
static __attribute__((noinline)) unsigned long copied(unsigned long a, int way)
{
	for (int i = 0; i < 4; i++) {
		IPROBE_POINT(copied, a, way);
		n.copied++;
		a = way ? a * 3 + i : a + 11;
	}
	return a;
}

static __attribute__((noinline)) unsigned long scopes(unsigned long a)
{
	IPROBE_SCOPE(scope);
	n.scope++;
	for (unsigned i = 0; i < 6; i++) {
		IPROBE_SCOPE(turn);
		n.turn++;
		a += i;
		if (i == 1)
			continue;
		if ((a & 15) == 3)
			goto out;
		if ((a & 15) == 5)
			break;
		if ((a & 63) == 9)
			return a;
		{
			IPROBE_SCOPE(early);
			n.early++;
			if (a & 1)
				continue;
			a ^= inlined(a);
		}
	}
out:
	return a * 5;
}

static __attribute__((noinline)) void jump(unsigned long a)
{
	IPROBE_SCOPE(jumped);
	n.jumped++;
	if (a % 3 == 0)
		longjmp(env, 1);
	sum += a;
}

#ifdef __cplusplus
template <typename T> static __attribute__((noinline)) T thrower(T a)
{
	IPROBE_SCOPE(thrown);
	n.thrown++;
	if (a % 3 == 1)
		throw a;
	IPROBE_POINT(after, a);
	n.after++;
	return a;
}

static unsigned long thrown(unsigned long a)
{
	try {
		return thrower(a) + thrower((int)(a & 0xffff));
	} catch (unsigned long b) {
		return b + 1;
	} catch (int b) {
		return b + 2;
	}
}
#else
static unsigned long thrown(unsigned long a)
{
	return a;
}
#endif

static __attribute__((noinline)) void a_round(unsigned long a)
{
	char text[24];

	IPROBE_SCOPE(outer);
	n.outer++;
	snprintf(text, sizeof(text), "round %lu", a);
	IPROBE_POINT(round, text, a, -1, 'x', &n, n.round);
	n.round++;
	sum += red(a);
	n.red++;
	sum ^= inlined(a);
	sum += copied(a, 0) ^ copied(a, 1);
	sum += scopes(a);
	if (!setjmp(env))
		jump(a);
	sum += thrown(a);
	for (unsigned i = 0; i < 3; i++) {
		IPROBE_POINT(unrolled, i);
		n.unrolled++;
		sum += i * a;
	}
	memset(text, 'a', 3);
	text[3] = '\0';
	IPROBE_POINT(words, text, "literal");
	n.words++;
}

int main(void)
{
	char line[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	IPROBE_POINT(start);
	n.start++;
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long rounds = strtoul(line, NULL, 0);

		for (unsigned long i = 0; i < rounds; i++)
			a_round(i * 2654435761u);
		printf("start=%lu round=%lu red=%lu unrolled=%lu inlined=%lu copied=%lu scope=%lu "
		       "turn=%lu early=%lu outer=%lu "
		       "jumped=%lu thrown=%lu after=%lu words=%lu SUM=%lu\n",
		       n.start, n.round, n.red, n.unrolled, n.inlined, n.copied, n.scope, n.turn,
		       n.early, n.outer, n.jumped, n.thrown, n.after, n.words, sum);
	}
	return 0;
}
