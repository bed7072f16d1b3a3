/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that end by jumping to others (at -O2), each called from main, which measures how long
 * that takes, by its own clock.
 *
 * tail_times ROUNDS US [SECONDS]: each function so often, each call lasts about US (the shortest)
 * and a bit more each time. With SECONDS it says "ready" and goes on so long, in rounds. Prints
 * "NAME CALLS NANOSECONDS EACH...", how long each of the first calls took, for each function.
 */
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#define KEEP extern "C" __attribute__((noinline))

extern "C" int lib_direct(int us);

static volatile int sink;
static jmp_buf back;

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

KEEP int work(int us)
{
	long end = now() + us * 1000l;

	while (now() < end)
		;
	return us;
}

KEEP int direct(int us)
{
	return work(us + 1);
}

KEEP __attribute__((visibility("hidden"))) int hop(int us)
{
	return work(us + 2);
}

/* To a function that nothing outside of this file knows. */
static __attribute__((noinline, noclone)) int inner(int us, int more)
{
	sink = more;
	return hop(us + more);
}

KEEP int chain(int us)
{
	return inner(us, us & 1);
}

KEEP int wide(int a, int b, int c, int d, int e, int f, int g, int us)
{
	sink = a + b + c + d + e + f + g;
	work(us);
	return sink + us;
}

KEEP int stacked(int a, int b, int c, int d, int e, int f, int us, int g)
{
	sink = us;
	return wide(b, a, d, c, f, e, g, us);
}

KEEP int many(int us, ...)
{
	va_list list;
	int sum = 0;

	va_start(list, us);
	sum += va_arg(list, int);
	sum += (int)va_arg(list, double);
	va_end(list);
	work(us);
	return sum;
}

KEEP int variadic(int us)
{
	return many(us, 1, 2.0);
}

KEEP int pong(int n, int us);

KEEP int ping(int n, int us)
{
	return n > 0 ? pong(n - 1, us) : work(us);
}

KEEP int pong(int n, int us)
{
	return n > 0 ? ping(n - 1, us) : work(us);
}

/* Out of a recursion, and back into it. */
KEEP int deep(int n, int us)
{
	if (n > 0) {
		int r = deep(n - 1, us);

		sink = 1;
		return r;
	}
	return inner(us, 0);
}

KEEP int across(int us)
{
	return lib_direct(us);
}

KEEP int throws(int us)
{
	work(us);
	if (sink != -1)
		throw us;
	return 0;
}

KEEP int catches(int us)
{
	return throws(us + 1);
}

KEEP int leaps(int us)
{
	work(us);
	if (sink != -1)
		longjmp(back, 1);
	return 0;
}

KEEP int left(int us)
{
	return leaps(us + 1);
}

/* Not known, or without probes. */
static int (*volatile pointer)(int) = hop;

KEEP int indirect(int us)
{
	return pointer(us);
}

KEEP int nobody(int us)
{
	return usleep(us);
}

KEEP int half(int us)
{
	if (us & 1)
		return pointer(us);
	return work(us);
}

static void on_timer(int number)
{
	sink = hop(3);
}

struct figures {
	const char *name;
	long calls, ns, each[64];
};

static struct figures all[] = {{"direct"}, {"chain"},  {"stacked"}, {"variadic"}, {"ping"},
			       {"deep"},   {"across"}, {"catches"}, {"left"},	  {"indirect"},
			       {"nobody"}, {"half"},   {"throws"},  {"work"}};

static int call(int which, int us)
{
	switch (which) {
	case 0:
		return direct(us);
	case 1:
		return chain(us);
	case 2:
		return stacked(1, 2, 3, 4, 5, 6, us, 7);
	case 3:
		return variadic(us);
	case 4:
		return ping(us * 4, us);
	case 5:
		return deep(0, us);
	case 6:
		return across(us);
	case 7:
		return catches(us);
	case 8:
		return left(us);
	case 9:
		return indirect(us);
	case 10:
		return nobody(us);
	case 11:
		return half(us);
	case 12:
		return throws(us);
	default:
		return work(us);
	}
}

int main(int argc, char **argv)
{
	int rounds = atoi(argv[1]), us = atoi(argv[2]);
	long end = argc > 3 ? now() + atol(argv[3]) * 1000000000l : 0;
	const struct itimerval often = {{0, 700}, {0, 700}};

	signal(SIGALRM, on_timer);
	setitimer(ITIMER_REAL, &often, nullptr);
	if (end) {
		puts("ready");
		fflush(stdout);
	}
	do {
		for (int i = 0; i < rounds; i++)
			for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
				volatile long begin = now();

				if (!setjmp(back)) {
					try {
						sink = call(k, us + i);
					} catch (int thrown) {
						sink = thrown;
					}
				}
				begin = now() - begin;
				all[k].ns += begin;
				if (all[k].calls < 64)
					all[k].each[all[k].calls] = begin;
				all[k].calls++;
			}
	} while (now() < end);
	for (const struct figures &f : all) {
		printf("%s %ld %ld", f.name, f.calls, f.ns);
		for (int i = 0; i < f.calls && i < 64; i++)
			printf(" %ld", f.each[i]);
		putchar('\n');
	}
	return 0;
}
