/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends as it is told to: what `iprobe run` has to pass on.
 *
 *   finish exit N | signal N | echo TEXT | loop N | idle | live N
 *
 * echo copies stdin to stdout and TEXT to stderr; loop makes N rounds of calls and prints "done";
 * idle waits for stdin to be closed; live prints "ready", makes N rounds of calls as soon as their
 * code is changed, and ends at once.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))

static volatile unsigned long sink;

KEEP void finish_step(unsigned long i)
{
	sink += i;
}

KEEP static void finish_loop(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		finish_step(i);
	puts("done");
}

KEEP static int finish_echo(const char *text)
{
	int c;

	while ((c = getchar()) != EOF)
		putchar(c);
	fputs(text, stderr);
	return 0;
}

KEEP static void finish_idle(void)
{
	while (getchar() != EOF)
		finish_step(1);
}

KEEP static int finish_live(unsigned long n)
{
	enum { CODE = 32 };
	char before[CODE];

	memcpy(before, (const void *)finish_step, CODE);
	puts("ready");
	fflush(stdout);
	while (!memcmp(before, (const void *)finish_step, CODE))
		__asm__ volatile("" ::: "memory");
	for (unsigned long i = 0; i < n; i++)
		finish_step(i);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";

	finish_step(1);
	if (!strcmp(what, "exit"))
		return (int)strtol(arg, NULL, 10);
	if (!strcmp(what, "signal")) {
		raise((int)strtol(arg, NULL, 10));
		return 99;
	}
	if (!strcmp(what, "echo"))
		return finish_echo(arg);
	if (!strcmp(what, "live"))
		return finish_live(strtoul(arg, NULL, 10));
	if (!strcmp(what, "loop"))
		finish_loop(strtoul(arg, NULL, 10));
	else if (!strcmp(what, "idle"))
		finish_idle();
	else
		return 98;
	return 0;
}
