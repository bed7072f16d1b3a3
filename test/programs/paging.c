/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of which it is known how many pages they fault in at each call.
 *
 *   paging [-x CALLS] [-t THREADS] [-s MS] [-r SEED] [-n CALLS] [-c] [-l] [-j] [-f] [-p] [-e
 *   THREADS] [-v MS]
 *
 * Says "ready", waits for a line, works for MS milliseconds (or CALLS rounds) on each thread, waits
 * for a line again, and prints for each function its calls and pages: "function NAME CALLS PAGES".
 * none, three, and eleven fault in as many; some fault in 0 to 8, at random by SEED; outer calls
 * three twice. -c closes all descriptors above 2, and opens others in their place, as daemons do;
 * -l calls hot(), an empty function, as often as it can meanwhile; -j leaves jumped() by longjmp,
 * past its exit; -f forks a child that does the same work, and ends well. -p calls phased() in
 * phases of 1000 rounds: in one twenty times a round, and it faults in a page, in the next once,
 * and it faults in 9. -e has so many threads end inside of ended(), first of all. -x, which comes
 * first, does so many rounds, and executes the program anew, with all that follows. -v has another
 * thread wait in vfork() for so long meanwhile: nobody can stop it there.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET	     __attribute__((no_instrument_function))
#define KEEP	     __attribute__((noinline))
#define PAGE	     4096
#define PHASE_ROUNDS 1000

enum { NONE, THREE, ELEVEN, SOME, OUTER, HOT, JUMPED, PHASED, ENDED, NFUNCTIONS };
static const char *const names[NFUNCTIONS] = {"none", "three",	"eleven", "some", "outer",
					      "hot",  "jumped", "phased", "ended"};

static __thread uint64_t calls[NFUNCTIONS], pages[NFUNCTIONS];
static uint64_t total_calls[NFUNCTIONS], total_pages[NFUNCTIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned nthreads = 1, seed = 1;
static uint64_t milliseconds, rounds, vfork_ms;
static int do_close, do_hot, do_jump, do_fork, do_phases;
static unsigned nended;
static __thread jmp_buf back;
static __thread uint64_t nrounds;

QUIET static inline void note(int function, unsigned n)
{
	calls[function]++;
	pages[function] += n;
}

/* A function that ended in a jump to this one would have ended there. */
QUIET static inline __attribute__((always_inline)) void fault_in(unsigned n)
{
	volatile char *memory;

	if (!n)
		return;
	memory = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		abort();
	for (unsigned i = 0; i < n; i++)
		memory[i * PAGE] = 1;
	munmap((void *)memory, n * PAGE);
}

KEEP void none(void)
{
	note(NONE, 0);
	fault_in(0);
}

KEEP void three(void)
{
	note(THREE, 3);
	fault_in(3);
}

KEEP void eleven(void)
{
	note(ELEVEN, 11);
	fault_in(11);
}

KEEP void some(unsigned n)
{
	note(SOME, n);
	fault_in(n);
}

KEEP void outer(void)
{
	note(OUTER, 6);
	three();
	three();
	__asm__ volatile(""); /* no tail call */
}

KEEP void hot(void)
{
	calls[HOT]++;
}

KEEP void phased(unsigned n)
{
	note(PHASED, n);
	fault_in(n);
}

KEEP void ended(void)
{
	__atomic_fetch_add(&total_calls[ENDED], 1, __ATOMIC_RELAXED);
	pthread_exit(NULL);
}

KEEP void jumped(void)
{
	note(JUMPED, 0);
	longjmp(back, 1);
}

QUIET static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

/* Daemons do so; what is opened then has the numbers of what was closed. */
QUIET static void close_all(void)
{
	syscall(SYS_close_range, 3, ~0u, 0);
	for (int i = 0; i < 16; i++)
		if (open("/dev/zero", O_RDONLY) < 0)
			abort();
}

QUIET static void round_of(unsigned *state)
{
	none();
	three();
	eleven();
	some(rand_r(state) % 9);
	outer();
	for (int i = 0; do_hot && i < 100000; i++)
		hot();
	if (do_jump && !setjmp(back))
		jumped();
	if (do_phases && nrounds++ / PHASE_ROUNDS % 2)
		phased(9);
	else
		for (int i = 0; do_phases && i < 20; i++)
			phased(1);
}

QUIET static void *end_inside(void *arg)
{
	(void)arg;
	ended();
	return NULL;
}

QUIET static void fork_one(void)
{
	unsigned state = 1;
	int status;
	pid_t child = fork();

	if (!child) {
		for (int i = 0; i < 200; i++)
			round_of(&state);
		_exit(7);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
	    WEXITSTATUS(status) != 7)
		abort();
}

QUIET static void *wait_in_vfork(void *arg)
{
	const struct timespec t = {.tv_sec = vfork_ms / 1000, .tv_nsec = vfork_ms % 1000 * 1000000};
	int status;
	pid_t child = vfork();

	if (!child) {
		syscall(SYS_nanosleep, &t, NULL);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	return arg;
}

QUIET static void *work(void *arg)
{
	unsigned state = seed + (uintptr_t)arg;
	uint64_t end = now_ms() + milliseconds;

	for (uint64_t i = 0; rounds ? i < rounds : now_ms() < end; i++) {
		round_of(&state);
		if (do_close && i == 50)
			close_all();
		if (do_fork && i == 50)
			fork_one();
	}
	pthread_mutex_lock(&lock);
	for (int i = 0; i < NFUNCTIONS; i++) {
		total_calls[i] += calls[i];
		total_pages[i] += pages[i];
		calls[i] = pages[i] = 0;
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

QUIET static void wait_for_line(void)
{
	int c;

	while ((c = getchar()) != '\n' && c != EOF)
		;
}

QUIET int main(int argc, char **argv)
{
	pthread_t threads[64], waiting;
	unsigned state = 1;
	uint64_t nbefore = 0;
	int option;

	while ((option = getopt(argc, argv, "t:s:r:n:e:v:x:cljfp")) >= 0) {
		switch (option) {
		case 't':
			nthreads = atoi(optarg);
			break;
		case 's':
			milliseconds = atoll(optarg);
			break;
		case 'r':
			seed = atoi(optarg);
			break;
		case 'n':
			rounds = atoll(optarg);
			break;
		case 'c':
			do_close = 1;
			break;
		case 'l':
			do_hot = 1;
			break;
		case 'j':
			do_jump = 1;
			break;
		case 'f':
			do_fork = 1;
			break;
		case 'p':
			do_phases = 1;
			break;
		case 'e':
			nended = atoi(optarg);
			break;
		case 'x':
			nbefore = atoll(optarg);
			break;
		case 'v':
			vfork_ms = atoll(optarg);
			break;
		default:
			return 2;
		}
	}
	if (nthreads > 64)
		return 2;
	for (uint64_t i = 0; i < nbefore; i++)
		round_of(&state);
	if (nbefore) {
		argv[2] = argv[0];
		execv("/proc/self/exe", argv + 2);
		return 3;
	}
	round_of(&state); /* what is bound and mapped lazily is so now */
	for (int i = 0; i < NFUNCTIONS; i++)
		calls[i] = pages[i] = 0;
	puts("ready");
	fflush(stdout);
	wait_for_line();
	for (unsigned i = 0; i < nended; i++) {
		pthread_create(&threads[0], NULL, end_inside, NULL);
		pthread_join(threads[0], NULL);
	}
	if (vfork_ms && pthread_create(&waiting, NULL, wait_in_vfork, NULL))
		return 1;
	if (nthreads == 1)
		work(NULL);
	for (uintptr_t i = 0; nthreads > 1 && i < nthreads; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (unsigned i = 0; nthreads > 1 && i < nthreads; i++)
		pthread_join(threads[i], NULL);
	if (vfork_ms)
		pthread_join(waiting, NULL);
	puts("done");
	fflush(stdout);
	wait_for_line();
	for (int i = 0; i < NFUNCTIONS; i++)
		printf("function %s %lu %lu\n", names[i], total_calls[i], total_pages[i]);
	return 0;
}
