/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of 4096 functions: says "ready", and for each line on stdin calls all of them once,
 * function f_000 twice, and says "called".
 */
#include <stdio.h>

#define QUIET __attribute__((no_instrument_function))

static volatile unsigned sum;

#define ONE(n)                                                                                     \
	__attribute__((noinline)) void f_##n(void)                                                 \
	{                                                                                          \
		sum += 0x1##n;                                                                     \
	}
#define EACH(make, n)                                                                              \
	make(n##0) make(n##1) make(n##2) make(n##3) make(n##4) make(n##5) make(n##6) make(n##7)    \
		make(n##8) make(n##9) make(n##a) make(n##b) make(n##c) make(n##d) make(n##e)       \
			make(n##f)
#define ROW(n) EACH(ONE, n)
#define EACH2(make, n)                                                                             \
	make(n##0) make(n##1) make(n##2) make(n##3) make(n##4) make(n##5) make(n##6) make(n##7)    \
		make(n##8) make(n##9) make(n##a) make(n##b) make(n##c) make(n##d) make(n##e)       \
			make(n##f)
#define ALL(make)                                                                                  \
	make(0) make(1) make(2) make(3) make(4) make(5) make(6) make(7) make(8) make(9) make(a)    \
		make(b) make(c) make(d) make(e) make(f)
#define PAGE(n) EACH2(ROW, n)
ALL(PAGE)

#define NAME(n)	     f_##n,
#define NAME_ROW(n)  EACH(NAME, n)
#define NAME_PAGE(n) EACH2(NAME_ROW, n)
static void (*const functions[])(void) = {ALL(NAME_PAGE)};

QUIET int main(void)
{
	char line[16];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (unsigned i = 0; i < sizeof(functions) / sizeof(*functions); i++)
			functions[i]();
		f_000();
		puts("called");
		fflush(stdout);
	}
	return 0;
}
