/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and unloads two versions of a library, and checks what they compute.
 *
 *   loading LIBRARY1 LIBRARY2
 *
 * Commands, one a line on stdin; each is answered by a line. "load N": dlopen of version N (1, 2).
 * "call N COUNT": COUNT calls of its plug(). "close N". "storm MS": a thread loads, calls and
 * unloads both in turn for that long, while two others work: answers how many loads that were.
 * "push": maps memory, so that the next library lies elsewhere. "place N": its address. "fork":
 * answered by the child with its pid; it takes the commands from then on, until "leave", which the
 * parent answers when it has ended.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

typedef unsigned long (*plug)(unsigned long);

static const char *paths[3];
static void *handles[3];
static atomic_int stop;

__attribute__((noinline)) unsigned long own(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 7;
}

QUIET static unsigned long expected(int version, unsigned long x)
{
	unsigned long m = version + 2;

	x += version == 2;
	return x * m + version + (x + 1) * m + version;
}

QUIET static void call(void *handle, int version, unsigned long count)
{
	plug f = (plug)dlsym(handle, "plug");

	for (unsigned long i = 0; i < count; i++)
		if (f(i) != expected(version, i)) {
			fprintf(stderr, "loading: version %d computed something else\n", version);
			abort();
		}
}

QUIET static void *worker(void *arg)
{
	for (unsigned long i = 0; !atomic_load(&stop); i++) {
		if (own(i) != i * 7)
			abort();
		if (i % 1000 == 0)
			nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
	return arg;
}

QUIET static void storm(int ms)
{
	struct timespec t, end;
	pthread_t threads[2];
	int loads = 0;

	atomic_store(&stop, 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += ms % 1000 * 1000000l;
	end.tv_sec += ms / 1000 + end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	do {
		int version = 1 + loads % 2;
		void *handle = dlopen(paths[version], RTLD_NOW);

		if (!handle)
			abort();
		call(handle, version, 50);
		/* some stay long enough to go live */
		if (loads % 16 < 2)
			nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
		call(handle, version, 50);
		dlclose(handle);
		loads++;
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while (t.tv_sec < end.tv_sec || (t.tv_sec == end.tv_sec && t.tv_nsec < end.tv_nsec));
	atomic_store(&stop, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("loads %d\n", loads);
}

QUIET static void hand_over(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		printf("%d\n", getpid());
	} else {
		if (pid < 0 || waitpid(pid, &status, 0) != pid || (status && !WIFSIGNALED(status)))
			abort();
		puts("back");
	}
}

QUIET int main(int argc, char **argv)
{
	char line[64];
	int n, count;

	if (argc != 3)
		return 2;
	paths[1] = argv[1];
	paths[2] = argv[2];
	own(1);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "load %d", &n) == 1) {
			handles[n] = dlopen(paths[n], RTLD_NOW);
			puts(handles[n] ? "loaded" : dlerror());
		} else if (sscanf(line, "call %d %d", &n, &count) == 2) {
			call(handles[n], n, count);
			puts("called");
		} else if (sscanf(line, "close %d", &n) == 1) {
			dlclose(handles[n]);
			puts("closed");
		} else if (sscanf(line, "storm %d", &n) == 1) {
			storm(n);
		} else if (sscanf(line, "place %d", &n) == 1) {
			printf("%lx\n", (unsigned long)((struct link_map *)handles[n])->l_addr);
		} else if (!strncmp(line, "push", 4)) {
			/* small enough for the hole that a library has left */
			for (int i = 0; i < 64; i++)
				mmap(NULL, 1 << 15, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			puts("pushed");
		} else if (!strncmp(line, "fork", 4)) {
			hand_over();
		} else if (!strncmp(line, "leave", 5)) {
			_exit(0);
		}
		fflush(stdout);
	}
	return 0;
}
