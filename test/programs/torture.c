/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target that does at once whatever makes patching hard, and checks every result: the target of
 * the torture test.
 *
 *   torture [-b BEATFILE] [-t THREADS] [-l LIBRARY]
 *
 * THREADS threads call 512 functions and a deep recursion; others create and join threads, fork
 * (children check, and exec /bin/true), open and close LIBRARY, wait in blocking calls; a timer of
 * 1 kHz runs a checking handler on an alternate signal stack. The first wrong result ends the
 * program by abort(). BEATFILE: 64-bit counts of rounds, one for each thread and one for each other
 * activity behind them. Ends when stdin is closed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

#define MAX_THREADS 256
enum { CHURN, FORK, LIBRARY, HANDLER, BLOCK, ACTIVITIES };
static uint64_t own_beats[MAX_THREADS + ACTIVITIES];
static volatile uint64_t *beats = own_beats;
static size_t nthreads = 64;
static const char *library;

QUIET static void wrong(const char *what, uint64_t got, uint64_t want)
{
	char line[200];
	int n = snprintf(line, sizeof(line), "torture: %s: got %#llx, expected %#llx\n", what,
			 (unsigned long long)got, (unsigned long long)want);

	if (write(2, line, n) < 0)
		_exit(4);
	abort();
}

#define CHECK(what, got, want)                                                                     \
	do {                                                                                       \
		uint64_t got_ = (got), want_ = (want);                                             \
		if (got_ != want_)                                                                 \
			wrong(what, got_, want_);                                                  \
	} while (0)

QUIET static inline uint64_t expected(uint64_t x, uint64_t k)
{
	uint64_t y = (x ^ (k * 0x9e3779b97f4a7c15ull)) * (2 * k + 1);

	return (y << (k % 63 + 1) | y >> (63 - k % 63)) + k;
}

#define NUMBER(a, b, c) (a##ull * 64 + b##ull * 8 + c##ull)
#define FUNCTION(a, b, c)                                                                          \
	KEEP uint64_t step_##a##b##c(uint64_t x)                                                   \
	{                                                                                          \
		uint64_t y = (x ^ (NUMBER(a, b, c) * 0x9e3779b97f4a7c15ull)) *                     \
			     (2 * NUMBER(a, b, c) + 1);                                            \
		__asm__ volatile("" : "+rm"(y));                                                   \
		return (y << (NUMBER(a, b, c) % 63 + 1) | y >> (63 - NUMBER(a, b, c) % 63)) +      \
		       NUMBER(a, b, c);                                                            \
	}
#define EIGHT(X, a, b)                                                                             \
	X(a, b, 0) X(a, b, 1) X(a, b, 2) X(a, b, 3) X(a, b, 4) X(a, b, 5) X(a, b, 6) X(a, b, 7)
#define ROW(X, a)                                                                                  \
	EIGHT(X, a, 0)                                                                             \
	EIGHT(X, a, 1)                                                                             \
	EIGHT(X, a, 2) EIGHT(X, a, 3) EIGHT(X, a, 4) EIGHT(X, a, 5) EIGHT(X, a, 6) EIGHT(X, a, 7)
#define ALL(X) ROW(X, 0) ROW(X, 1) ROW(X, 2) ROW(X, 3) ROW(X, 4) ROW(X, 5) ROW(X, 6) ROW(X, 7)
ALL(FUNCTION)

#define ENTRY(a, b, c) step_##a##b##c,
static uint64_t (*const steps[])(uint64_t) = {ALL(ENTRY)};
#define NSTEPS (sizeof(steps) / sizeof(steps[0]))

KEEP uint64_t step_deep(uint64_t n, uint64_t x)
{
	if (!n)
		return x;
	return step_deep(n - 1, x * 3) + n;
}

QUIET static void check_steps(uint64_t x, size_t from, size_t n)
{
	for (size_t i = from; i < from + n; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		CHECK("step", steps[i % NSTEPS](x), expected(x, i % NSTEPS));
	}
}

QUIET static void check_deep(uint64_t x, uint64_t depth)
{
	uint64_t want = x;

	for (uint64_t i = 0; i < depth; i++)
		want *= 3;
	CHECK("recursion", step_deep(depth, x), want + depth * (depth + 1) / 2);
}

QUIET static void nap(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

QUIET static void on_alarm(int sig)
{
	static volatile uint64_t x;
	int saved = errno;

	(void)sig;
	check_steps(x, x % NSTEPS, 16);
	x++;
	beats[nthreads + HANDLER]++;
	errno = saved;
}

/* Handlers run on a stack of their own in each thread that calls this. */
QUIET static void use_alternate_stack(void)
{
	static __thread char stack[64 << 10];
	stack_t s = {.ss_sp = stack, .ss_size = sizeof(stack)};

	if (sigaltstack(&s, NULL))
		wrong("sigaltstack", errno, 0);
}

QUIET static void *worker(void *arg)
{
	size_t index = (size_t)arg;

	use_alternate_stack();
	for (uint64_t x = index * 1234567;; x++) {
		check_steps(x, 0, NSTEPS);
		if (x % 16 == 0)
			check_deep(x, 1000);
		beats[index]++;
		if (index)
			nap(1000000 * (1 + x % 4));
	}
	return NULL;
}

QUIET static void *short_worker(void *arg)
{
	check_steps((uintptr_t)arg, (uintptr_t)arg % NSTEPS, 64);
	return arg;
}

QUIET static void *churn(void *arg)
{
	for (uint64_t n = 0;; n++) {
		pthread_t threads[3];

		for (size_t i = 0; i < 3; i++)
			if (pthread_create(&threads[i], NULL, short_worker,
					   (void *)(uintptr_t)(n * 3 + i)))
				wrong("pthread_create", errno, 0);
		for (size_t i = 0; i < 3; i++) {
			void *ret;

			pthread_join(threads[i], &ret);
			CHECK("thread result", (uintptr_t)ret, (uintptr_t)(n * 3 + i));
		}
		beats[nthreads + CHURN]++;
		nap(2000000);
	}
	return arg;
}

QUIET static void *forks(void *arg)
{
	for (uint64_t n = 0;; n++) {
		pid_t pid = fork();
		int status;

		if (pid < 0)
			wrong("fork", errno, 0);
		if (!pid) {
			check_steps(n, n % NSTEPS, 64);
			if (n % 4 == 0)
				execl("/bin/true", "true", NULL);
			_exit(0);
		}
		while (waitpid(pid, &status, 0) < 0)
			if (errno != EINTR)
				wrong("waitpid", errno, 0);
		CHECK("status of a child", status, 0);
		beats[nthreads + FORK]++;
		nap(5000000);
	}
	return arg;
}

QUIET static void *libraries(void *arg)
{
	for (uint64_t n = 0;; n++) {
		void *handle = dlopen(library, RTLD_NOW);
		uint64_t (*call)(uint64_t) =
			handle ? (uint64_t(*)(uint64_t))dlsym(handle, "from_library") : NULL;

		if (!call)
			wrong(dlerror(), 0, 1);
		CHECK("library", call(n), n * 7 + 3);
		dlclose(handle);
		beats[nthreads + LIBRARY]++;
		nap(3000000);
	}
	return arg;
}

/* Waits that are ended by another thread, in turn; a signal or a stop may end those early that
 * signal(7) names. */
QUIET static void *blocker(void *arg)
{
	int *ends = arg, set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	char c;

	epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
	for (uint64_t n = 0;; n++) {
		struct pollfd p = {.fd = ends[0], .events = POLLIN};
		int got = n % 3 == 0   ? poll(&p, 1, -1)
			  : n % 3 == 1 ? epoll_wait(set, &event, 1, -1)
				       : 1;

		if (got < 0 && errno == EINTR)
			continue;
		CHECK("wait", got, 1);
		if (read(ends[0], &c, 1) != 1)
			wrong("read", errno, 0);
		CHECK("byte", c, 'x');
		check_steps(n, n % NSTEPS, 8);
		beats[nthreads + BLOCK]++;
	}
	return NULL;
}

QUIET static void *waker(void *arg)
{
	int *ends = arg;

	for (;;) {
		if (write(ends[1], "x", 1) != 1)
			wrong("write", errno, 0);
		nap(4000000);
	}
	return NULL;
}

QUIET static void start(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 20);
	if (pthread_create(&thread, &attr, run, arg))
		exit(3);
}

QUIET int main(int argc, char **argv)
{
	static int ends[2];
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART | SA_ONSTACK};
	struct itimerval it = {{0, 1000}, {0, 1000}};
	int opt, fd;
	char c;

	while ((opt = getopt(argc, argv, "b:t:l:")) != -1) {
		if (opt == 'b') {
			fd = open(optarg, O_RDWR | O_CREAT, 0644);
			if (fd < 0 || ftruncate(fd, sizeof(own_beats)))
				return 3;
			beats = mmap(NULL, sizeof(own_beats), PROT_READ | PROT_WRITE, MAP_SHARED,
				     fd, 0);
			if (beats == MAP_FAILED)
				return 3;
		} else if (opt == 't') {
			nthreads = strtoul(optarg, NULL, 10);
		} else if (opt == 'l') {
			library = optarg;
		} else {
			return 2;
		}
	}
	if (!nthreads || nthreads > MAX_THREADS || pipe(ends))
		return 2;
	use_alternate_stack();
	sigaction(SIGALRM, &sa, NULL);
	for (size_t i = 0; i < nthreads; i++)
		start(worker, (void *)i);
	start(churn, NULL);
	start(forks, NULL);
	if (library)
		start(libraries, NULL);
	start(blocker, ends);
	start(waker, ends);
	setitimer(ITIMER_REAL, &it, NULL);
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) > 0 || errno == EINTR)
		errno = 0;
	return 0;
}
