/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight threads that check their own arithmetic without end: the target of attach and detach tests.
 *
 *   steady [-b BEATFILE] [-t THREADS] [-c] [-i] [-n] [-x]
 *
 * Every value that an ABI passes in a register or on the stack goes through an instrumented
 * function and is compared with what an uninstrumented one computes; errno, the rounding mode and
 * the carry flag are watched too. The first mismatch is told on stderr and ends the program by
 * abort(). BEATFILE is a shared array of one 64-bit count of rounds a thread (the last one counts
 * threads created by -c). -c: one more thread creates and joins threads all the time. -i: an
 * interval timer runs a checking signal handler every millisecond. Without -x all threads but one
 * take short naps, so that some are found blocked and some running, and the machine is left to
 * others now and then. -n: that one too, so that traces do not grow too fast.
 *
 * Ends when stdin is closed. Before that, letters on stdin: f forks a child that goes on checking
 * (the beat before the last is its own) and prints "child PID"; e executes the program anew; v
 * makes a thread wait in vfork() for two seconds, where nothing can stop it, and prints "waiting";
 * z ends the first thread, the others go on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

#define BEATS 65

static uint64_t own_beats[BEATS];
static volatile uint64_t *beats = own_beats;
static int never_nap, always_nap;

QUIET static void wrong(const char *what, uint64_t got, uint64_t want)
{
	char line[200];
	int n = snprintf(line, sizeof(line), "steady: %s: got %#llx, expected %#llx\n", what,
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

/* Sixty-four plain functions. */
#define FUNCTION(k)                                                                                \
	KEEP uint64_t step_##k(uint64_t x)                                                         \
	{                                                                                          \
		uint64_t y = (x ^ (k##ull * 0x9e3779b97f4a7c15ull)) * (2 * k##ull + 1);            \
		__asm__ volatile("" : "+rm"(y));                                                   \
		return (y << (k % 63 + 1) | y >> (63 - k % 63)) + k##ull;                          \
	}
#define EIGHT(X, d) X(d##0) X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7)
#define ALL(X)                                                                                     \
	EIGHT(X, 1)                                                                                \
	EIGHT(X, 2) EIGHT(X, 3) EIGHT(X, 4) EIGHT(X, 5) EIGHT(X, 6) EIGHT(X, 7) EIGHT(X, 8)
ALL(FUNCTION)

struct step {
	uint64_t (*call)(uint64_t);
	uint64_t k;
};
#define ENTRY(k) {step_##k, k},
static const struct step steps[] = {ALL(ENTRY)};
#define NSTEPS (sizeof(steps) / sizeof(steps[0]))

/* One function for each way in which values travel. */
typedef float float4 __attribute__((vector_size(16)));
struct pair {
	uint64_t a, b;
};
struct mixed {
	double d;
	uint64_t u;
};
struct large {
	uint64_t v[9];
};

KEEP double by_double(double a, double b, double c, double d, double e, double f, double g,
		      double h)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}

KEEP long double by_long_double(long double a, long double b)
{
	return a * b + 0.5L;
}

KEEP float4 by_vector(float4 a, float4 b)
{
	return a * b + a;
}

#ifdef __SIZEOF_INT128__ /* not in 32-bit programs */
KEEP unsigned __int128 by_int128(unsigned __int128 a, unsigned __int128 b)
{
	return a * b + (a >> 64);
}
#endif

KEEP struct pair by_pair(struct pair p)
{
	return (struct pair){p.b + 1, p.a - 1};
}

KEEP struct mixed by_mixed(struct mixed m)
{
	return (struct mixed){m.d * 2, m.u * 3};
}

KEEP struct large by_large(struct large l, uint64_t x)
{
	for (int i = 0; i < 9; i++)
		l.v[i] += x + i;
	return l;
}

KEEP uint64_t by_stack(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
		       uint64_t g, uint64_t h, uint64_t i, uint64_t j)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

KEEP double by_dots(int n, ...)
{
	double sum = 0;
	va_list args;

	va_start(args, n);
	for (int i = 0; i < n; i++)
		sum += i & 1 ? va_arg(args, double) : (double)va_arg(args, int);
	va_end(args);
	return sum;
}

KEEP void by_errno(void)
{
	__asm__ volatile("" ::: "memory");
}

KEEP double by_rounding(double x, double y)
{
	return x / y;
}

KEEP uint64_t by_recursion(uint64_t n, uint64_t x)
{
	if (!n)
		return x;
	return by_recursion(n - 1, x * 3) + n;
}

static inline uint64_t by_inlining(uint64_t x)
{
	__asm__ volatile("" : "+rm"(x));
	return x * 5 + 1;
}

/* An argument array on the stack of a function that calls nothing: the red zone's case, were it not
 * instrumented. */
KEEP uint64_t by_locals(uint64_t x)
{
	volatile uint64_t v[8];
	uint64_t sum = 0;

	for (int i = 0; i < 8; i++)
		v[i] = x * i;
	for (int i = 0; i < 8; i++)
		sum += v[i];
	return sum;
}

QUIET static void check_integers(uint64_t x)
{
	for (unsigned i = 0; i < NSTEPS; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		CHECK("step", steps[i].call(x), expected(x, steps[i].k));
	}
#ifdef __SIZEOF_INT128__
	unsigned __int128 a = (unsigned __int128)x << 64 | ~x, b = x | 1;
	unsigned __int128 c = by_int128(a, b), d = a * b + (a >> 64);

	CHECK("int128 low", (uint64_t)c, (uint64_t)d);
	CHECK("int128 high", (uint64_t)(c >> 64), (uint64_t)(d >> 64));
#endif
	struct pair p = by_pair((struct pair){x, ~x});

	CHECK("pair a", p.a, ~x + 1);
	CHECK("pair b", p.b, x - 1);
	struct large l = {.v = {x, 1, 2, 3, 4, 5, 6, 7, 8}};

	l = by_large(l, x);
	CHECK("large", l.v[0] + l.v[8], x + x + 8 + x + 8);
	CHECK("stack", by_stack(x, 1, 2, 3, 4, 5, 6, 7, 8, x),
	      x + 2 + 6 + 12 + 20 + 30 + 42 + 56 + 72 + 10 * x);
	uint64_t want = x;

	for (int i = 0; i < 12; i++)
		want *= 3;
	CHECK("recursion", by_recursion(12, x), want + 78);
	CHECK("inlining", by_inlining(x), x * 5 + 1);
	CHECK("locals", by_locals(x), x * 28);
}

QUIET static void check_floats(uint64_t x)
{
	double r = (double)(x & 0xffff);
	double got = by_double(r, 1, 2, 3, 4, 5, 6, 7);

	CHECK("double", (uint64_t)got, (uint64_t)(r + 168));
	long double ld = by_long_double(r, 3.0L);

	CHECK("long double", (uint64_t)(ld * 2), (uint64_t)(6 * r + 1));
	float4 v = by_vector((float4){1, 2, 3, (float)(x & 255)}, (float4){4, 5, 6, 7});

	CHECK("vector", (uint64_t)(v[0] + v[1] + v[2]), 38);
	CHECK("vector 3", (uint64_t)v[3], (x & 255) * 8);
	struct mixed m = by_mixed((struct mixed){r, x});

	CHECK("mixed d", (uint64_t)m.d, (uint64_t)(2 * r));
	CHECK("mixed u", m.u, x * 3);
	CHECK("dots", (uint64_t)by_dots(4, 1, r, 3, 4.0), (uint64_t)(r + 8));
}

QUIET static void check_state(uint64_t x)
{
	volatile double one = 1, three = 3;
	double up, down;

	errno = (int)(x % 100) + 1;
	by_errno();
	CHECK("errno", errno, x % 100 + 1);
	fesetround(FE_UPWARD);
	up = by_rounding(one, three);
	fesetround(FE_DOWNWARD);
	down = by_rounding(one, three);
	CHECK("rounding mode", fegetround(), FE_DOWNWARD);
	fesetround(FE_TONEAREST);
	CHECK("rounding", up == nextafter(down, 1), 1);
}

QUIET static void check_all(uint64_t x)
{
	check_integers(x);
	check_floats(x);
	check_state(x);
}

QUIET static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

QUIET static void *checker(void *arg)
{
	size_t index = (size_t)arg;
	uint64_t x = index * 1234567 + 1;

	for (;;) {
		check_all(x++);
		beats[index]++;
		if ((index > 0 || always_nap) && x % 64 == 0 && !never_nap)
			nap();
	}
	return NULL;
}

QUIET static void *short_checker(void *arg)
{
	for (uint64_t i = 0; i < 20; i++)
		check_all((uintptr_t)arg + i);
	return arg;
}

QUIET static void *churner(void *arg)
{
	for (uint64_t n = 0;; n++) {
		pthread_t threads[3];

		for (size_t i = 0; i < 3; i++)
			if (pthread_create(&threads[i], NULL, short_checker,
					   (void *)(uintptr_t)(n * 3 + i)))
				wrong("pthread_create", errno, 0);
		for (size_t i = 0; i < 3; i++) {
			void *ret;

			pthread_join(threads[i], &ret);
			CHECK("thread result", (uintptr_t)ret, (uintptr_t)(n * 3 + i));
		}
		beats[BEATS - 1] += 3;
		/* Without it the kernel lets the rest of the machine wait for seconds. */
		nap();
	}
	return arg;
}

QUIET static void on_alarm(int sig)
{
	int saved = errno;
	static volatile uint64_t x;

	check_integers(x++);
	errno = saved;
}

QUIET static void open_beats(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0644);

	if (fd < 0 || ftruncate(fd, sizeof(own_beats)))
		exit(3);
	beats = mmap(NULL, sizeof(own_beats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (beats == MAP_FAILED)
		exit(3);
	close(fd);
}

QUIET static void fork_checker(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		checker((void *)(BEATS - 2ul));
	}
	printf("child %d\n", pid);
	fflush(stdout);
}

QUIET static void *wait_in_vfork(void *arg)
{
	pid_t pid = vfork();

	if (!pid) {
		/* the memory is the parent's: nothing but system calls */
		const struct timespec two = {.tv_sec = 2};

		syscall(SYS_nanosleep, &two, NULL);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return arg;
}

/* Does what the letters ask for until stdin is closed. */
QUIET static void obey(char **argv)
{
	pthread_t thread;
	char c;

	while (read(0, &c, 1) > 0) {
		if (c == 'f')
			fork_checker();
		if (c == 'e')
			execv(argv[0], argv);
		if (c == 'v' && !pthread_create(&thread, NULL, wait_in_vfork, NULL)) {
			usleep(100000);
			puts("waiting");
			fflush(stdout);
		}
		if (c == 'z')
			pthread_exit(NULL);
	}
}

QUIET int main(int argc, char **argv)
{
	size_t nthreads = 8;
	int opt, churn = 0, interrupt = 0;
	pthread_t thread;

	while ((opt = getopt(argc, argv, "b:t:cinx")) != -1) {
		switch (opt) {
		case 'b':
			open_beats(optarg);
			break;
		case 't':
			nthreads = strtoul(optarg, NULL, 10);
			break;
		case 'c':
			churn = 1;
			break;
		case 'i':
			interrupt = 1;
			break;
		case 'n':
			always_nap = 1;
			break;
		case 'x':
			never_nap = 1;
			break;
		default:
			return 2;
		}
	}
	if (interrupt) {
		struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
		struct itimerval it = {{0, 1000}, {0, 1000}};

		sigaction(SIGALRM, &sa, NULL);
		setitimer(ITIMER_REAL, &it, NULL);
	}
	for (size_t i = 0; i < nthreads && i < BEATS - 1; i++)
		if (pthread_create(&thread, NULL, checker, (void *)i))
			return 3;
	if (churn && pthread_create(&thread, NULL, churner, NULL))
		return 3;
	puts("ready");
	fflush(stdout);
	obey(argv);
	return 0;
}
