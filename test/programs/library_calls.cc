// SPDX-License-Identifier: Apache-2.0
/*
 * Calls functions of libraries through the PLT, with every kind of argument and result, and checks
 * what comes back: the target of tests of --plt.
 *
 *   library_calls ROUNDS   makes so many rounds in one thread, and prints "call NAME COUNT" for
 * each library function that it calls a known number of times library_calls -b FILE  eight threads
 * make rounds until stdin is closed; says "ready". FILE: as of steady.c, an array of one 64-bit
 * count of rounds a thread
 *
 * To be built with -fno-builtin: then each call in the source is one call of the library. The first
 * wrong result ends the program by abort().
 */
#include <cerrno>
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP  __attribute__((noinline))
#define BEATS 65

static uint64_t own_beats[BEATS];
static volatile uint64_t *beats = own_beats;
static volatile bool ending;

static void wrong(const char *what)
{
	fprintf(stderr, "library_calls: wrong: %s\n", what);
	abort();
}

static void expect(bool holds, const char *what)
{
	if (!holds)
		wrong(what);
}

/* Stack arguments, and vector registers, whose number is in al. */
KEEP void arguments(int i)
{
	char text[128];

	snprintf(text, sizeof(text), "%d %d %d %d %d %d %d %.2f %.2f %.1Lf", i, 1, 2, 3, 4, 5, 6,
		 0.25, 1.5, 2.5L);
	expect(strcmp(strchr(text, ' '), " 1 2 3 4 5 6 0.25 1.50 2.5") == 0, "snprintf");
	expect(atoi(text) == i, "atoi");
}

/* Results in registers of all kinds, errno, and the alignment of the stack (powl). */
KEEP void results(int i)
{
	ldiv_t d = ldiv(1000 + i, 7);
	char *end;

	expect(d.quot * 7 + d.rem == 1000 + i, "ldiv");
	expect(sqrt(i * (double)i) == i, "sqrt");
	expect(powl(2, 10) == 1024, "powl");
	expect(strtod("1.5x", &end) == 1.5 && *end == 'x', "strtod");
	errno = 0;
	expect(close(-1) == -1 && errno == EBADF, "close");
}

static int ascending(const void *a, const void *b)
{
	const int *x = (const int *)a, *y = (const int *)b;

	return (*x > *y) - (*x < *y);
}

/* A comparison that gives up: an exception leaves the library's function. */
static int throwing(const void *a, const void *b)
{
	if (*(const int *)a == 3 || *(const int *)b == 3)
		throw 3;
	return ascending(a, b);
}

KEEP void callbacks()
{
	int n[] = {5, 3, 4, 1, 2}, caught = 0;

	qsort(n, 5, sizeof(*n), ascending);
	for (int i = 0; i < 5; i++)
		expect(n[i] == i + 1, "qsort");
	try {
		qsort(n, 5, sizeof(*n), throwing);
	} catch (int what) {
		caught = what;
	}
	expect(caught == 3, "an exception out of qsort");
}

/* Functions that return twice, or not where they were called. */
KEEP void returns(bool forks)
{
	jmp_buf where;
	volatile int times = 0;
	int status = 0;
	pid_t pid;

	if (setjmp(where) == 0) {
		times = times + 1;
		longjmp(where, 1);
	}
	expect(times == 1, "setjmp");
	if (!forks)
		return;
	pid = vfork();
	if (pid == 0)
		_exit(7);
	expect(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7, "vfork");
}

KEEP void memory(int i)
{
	char *p = (char *)malloc(64 + i % 7), *q;

	memset(p, 'a', 63);
	p[63] = 0;
	expect(strlen(p) == 63, "strlen");
	q = strdup(p);
	expect(memcmp(p, q, 64) == 0, "memcmp");
	free(p);
	free(q);
}

KEEP void round_of_calls(int i, bool forks)
{
	arguments(i);
	results(i);
	callbacks();
	returns(forks);
	memory(i);
}

static void *rounds(void *arg)
{
	const uintptr_t index = (uintptr_t)arg;

	for (int i = 0; !ending; i++) {
		round_of_calls(i & 0xffff, i % 4096 == 0);
		beats[index] = beats[index] + 1;
		if (i % 64 == 0)
			usleep(100);
	}
	return nullptr;
}

static void serve(const char *path)
{
	const int fd = open(path, O_RDWR | O_CREAT, 0600);
	pthread_t threads[8];
	char byte;

	expect(fd >= 0 && ftruncate(fd, sizeof(own_beats)) == 0, "the file of beats");
	beats = (volatile uint64_t *)mmap(nullptr, sizeof(own_beats), PROT_READ | PROT_WRITE,
					  MAP_SHARED, fd, 0);
	for (uintptr_t i = 0; i < 8; i++)
		expect(pthread_create(&threads[i], nullptr, rounds, (void *)i) == 0, "a thread");
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	ending = true;
	for (pthread_t thread : threads)
		pthread_join(thread, nullptr);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int calls; /* a round */
	} counts[] = {{"snprintf", 1}, {"strchr", 1}, {"strcmp", 1},  {"ldiv", 1},   {"sqrt", 1},
		      {"powl", 1},     {"strtod", 1}, {"close", 1},   {"qsort", 2},  {"longjmp", 1},
		      {"vfork", 1},    {"malloc", 1}, {"memset", 1},  {"strlen", 1}, {"strdup", 1},
		      {"memcmp", 1},   {"free", 2},   {"waitpid", 1}, {"_setjmp", 1}};
	int n;

	if (argc == 3) {
		serve(argv[2]);
		return 0;
	}
	n = argc == 2 ? atoi(argv[1]) : 1;
	for (int i = 0; i < n; i++)
		round_of_calls(i, true);
	for (const auto &c : counts)
		printf("call %s %d\n", c.name, n * c.calls);
	return 0;
}
