/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C program of the matrix: every way in which a function can be entered and left that compilers
 * and placements treat differently, with all kinds of arguments and results in registers. Prints
 * what it computes and how often each function was called (calls.h); both are the same on every
 * run, under every option.
 */
#define _GNU_SOURCE
#include "calls.h"

#include <complex.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* --- recursion and tail calls */

KEEP static unsigned fibonacci(unsigned n)
{
	CALLED_INLINE; /* one of the two calls may become a loop */
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

KEEP static int is_odd(unsigned n);

KEEP static int is_even(unsigned n)
{
	CALLED;
	return n == 0 ? 1 : is_odd(n - 1);
}

KEEP static int is_odd(unsigned n)
{
	CALLED;
	return n == 0 ? 0 : is_even(n - 1);
}

/* every argument register is live at the jump */
KEEP static long last_of_six(long a, long b, long c, long d, long e, long f)
{
	CALLED;
	return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f;
}

KEEP static long first_of_six(long a, long b, long c, long d, long e, long f)
{
	CALLED;
	return last_of_six(f, e, d, c, b, a);
}

KEEP static double last_of_floats(double a, float b, double c, float d, double e, float f, double g,
				  float h)
{
	CALLED;
	return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h;
}

KEEP static double first_of_floats(double a, float b, double c, float d, double e, float f,
				   double g, float h)
{
	CALLED;
	return last_of_floats(g, h, e, f, c, d, a, b);
}

typedef long (*operation)(long, long);

KEEP static long add(long a, long b)
{
	CALLED;
	return a + b;
}

KEEP static long multiply(long a, long b)
{
	CALLED;
	return a * b;
}

KEEP static long subtract(long a, long b)
{
	CALLED;
	return a - b;
}

/* the target of the jump is in a register */
KEEP static long apply(operation f, long a, long b)
{
	CALLED;
	return f(b, a);
}

KEEP static long on_the_stack(long a, long b, long c, long d, long e, long f, long g, long h,
			      double i)
{
	CALLED;
	return a ^ b << 1 ^ c << 2 ^ d << 3 ^ e << 4 ^ f << 5 ^ g << 6 ^ h << 7 ^
	       (long)(i * 16) << 8;
}

/* --- switch tables */

KEEP static long dispatch(int which, long a, long b)
{
	CALLED;
	switch (which) {
	case 0:
		return add(a, b);
	case 1:
		return multiply(a, b);
	case 2:
		return subtract(b, a);
	case 3:
		return a << (b & 7);
	case 4:
		return apply(multiply, a, b + 1);
	case 5:
		return a * 31 + b;
	case 6:
		return on_the_stack(1, 2, 3, a, b, 6, 7, 8, 9.5);
	case 7:
		return -a;
	case 8:
		return a / (b | 1);
	default:
		return which;
	}
}

KEEP static int threaded(const unsigned char *code)
{
	static const void *const labels[] = {&&l_stop, &&l_inc, &&l_double, &&l_dec};
	int value = 1;

	CALLED;
	goto *labels[*code++];
l_inc:
	value++;
	goto *labels[*code++];
l_double:
	value *= 2;
	goto *labels[*code++];
l_dec:
	value--;
	goto *labels[*code++];
l_stop:
	return value;
}

/* --- varargs, results of all classes */

KEEP static double sum(const char *format, ...)
{
	va_list list;
	double total = 0;

	CALLED;
	va_start(list, format);
	for (; *format; format++)
		total += *format == 'd'	  ? va_arg(list, int)
			 : *format == 'f' ? va_arg(list, double)
			 : *format == 'L' ? (double)va_arg(list, long double)
					  : (double)va_arg(list, long);
	va_end(list);
	return total;
}

struct small {
	long a, b;
};
struct mixed {
	long a;
	double b;
};
struct floats {
	double a, b;
};
struct large {
	long a[9];
};
typedef float vector __attribute__((vector_size(16)));

KEEP static struct small make_small(long a)
{
	CALLED;
	return (struct small){a, ~a};
}

KEEP static struct mixed make_mixed(long a)
{
	CALLED;
	return (struct mixed){a, a / 8.0};
}

KEEP static struct floats make_floats(double a)
{
	CALLED;
	return (struct floats){a, -a * 3};
}

KEEP static struct large make_large(long a)
{
	struct large made;

	CALLED;
	for (int i = 0; i < 9; i++)
		made.a[i] = a * i;
	return made;
}

KEEP static struct large pass_large(struct large a, long b)
{
	CALLED;
	a.a[8] += b;
	return a;
}

KEEP static vector scale(vector a, vector b)
{
	CALLED;
	return a * b + (vector){1, 2, 3, 4};
}

KEEP static vector scale_again(vector a, vector b)
{
	CALLED;
	return scale(b, a);
}

KEEP static long double root(long double a)
{
	long double x = a;

	CALLED;
	for (int i = 0; i < 40; i++)
		x = (x + a / x) / 2;
	return x;
}

KEEP static double complex turn(double complex z)
{
	CALLED;
	return z * (2 + 3 * I);
}

KEEP static long double complex turn_long(long double complex z)
{
	CALLED;
	return z * (1 - 2 * I);
}

KEEP static __int128 wide(__int128 a, long b)
{
	CALLED;
	return a * a + b;
}

KEEP static _Bool truth(long a)
{
	CALLED;
	return a > 3;
}

KEEP static void nothing(void)
{
	CALLED;
}

/* --- leaf with data below the stack pointer, odd frames */

KEEP static unsigned red_zone(unsigned a)
{
	volatile unsigned char t[64];
	unsigned s = 0;

	CALLED;
	for (unsigned i = 0; i < sizeof(t); i++)
		t[i] = a * i + 1;
	for (unsigned i = 0; i < sizeof(t); i++)
		s = s * 3 + t[i];
	return s;
}

/* nothing but the red zone, not even a counter's call */
static inline unsigned bare_leaf(unsigned a)
{
	volatile unsigned t[8];

	for (unsigned i = 0; i < 8; i++)
		t[i] = a + i;
	return t[a & 7] ^ t[7];
}

static unsigned (*volatile bare)(unsigned) = bare_leaf;

KEEP static unsigned variable_frame(unsigned n)
{
	unsigned char room[n];
	unsigned s = 0;

	CALLED;
	memset(room, 7, n);
	for (unsigned i = 0; i < n; i++)
		s += room[i] * i;
	return s;
}

KEEP static int aligned_frame(int a)
{
	_Alignas(64) volatile int room[32];

	CALLED;
	room[a & 31] = a;
	return (uintptr_t)room % 64 == 0 ? room[a & 31] : -1;
}

KEEP static int same_frame(void *caller)
{
	CALLED;
	return __builtin_frame_address(0) != caller && __builtin_return_address(0) != NULL;
}

KEEP static int carry(unsigned char *flags, unsigned a, unsigned b)
{
	CALLED;
	*flags = __builtin_add_overflow(a, b, &a);
	return a;
}

KEEP static int leaves_errno(int value)
{
	CALLED;
	errno = value;
	return value + 1;
}

/* --- linkage */

static inline int small_inline(int a)
{
	CALLED_INLINE;
	return 3 * a + 1;
}

static inline __attribute__((always_inline)) int forced_inline(int a)
{
	CALLED_INLINE;
	return a ^ 0x55;
}

static int inlined_twice(int a)
{
	CALLED_INLINE;
	return small_inline(forced_inline(a)) + small_inline(a);
}

/* returns early: compilers split such functions */
static int mostly_early(const int *a, int n)
{
	CALLED_INLINE;
	if (!a)
		return -1;
	int s = 0;
	for (int i = 0; i < n; i++)
		s += a[i] * small_inline(i);
	return s;
}

__attribute__((visibility("hidden"))) KEEP int hidden(int a)
{
	CALLED;
	return a + 1000;
}

__attribute__((weak)) KEEP int weak_defined(int a)
{
	CALLED;
	return a + 2000;
}

extern int weak_undefined(int) __attribute__((weak));

KEEP int aliased(int a)
{
	CALLED;
	return a + 3000;
}
extern int other_name(int) __attribute__((alias("aliased")));

KEEP static int version_one(int a)
{
	CALLED;
	return a * 5;
}

/* Runs while the program is being relocated: it must not have probes at all. */
QUIET static int (*resolve(void))(int)
{
	return version_one;
}
int chosen(int) __attribute__((ifunc("resolve")));

QUIET KEEP static int uninstrumented(int a)
{
	return a - 1;
}

static int begun[2];

__attribute__((constructor(101))) KEEP static void begin_early(void)
{
	CALLED;
	begun[0] = 1;
}

__attribute__((constructor)) KEEP static void begin_late(void)
{
	CALLED;
	begun[1] = begun[0] + 1;
}

__attribute__((destructor)) KEEP static void end_late(void)
{
	puts("the end");
}

/* --- cold parts and functions that do not return */

static jmp_buf escape;

__attribute__((noreturn)) KEEP static void give_up(int code)
{
	CALLED;
	LEFT;
	longjmp(escape, code);
}

KEEP static int check(int a)
{
	CALLED;
	if (__builtin_expect(a > 100, 0)) {
		LEFT;
		printf("too large: %d\n", a);
		give_up(a);
	}
	return 2 * a;
}

KEEP static int deep(int n)
{
	CALLED;
	if (n == 0) {
		LEFT;
		return check(101) + 1;
	}
	LEFT;
	return deep(n - 1) + check(n);
}

KEEP static int jumps(void)
{
	volatile int rounds = 0, total = 0;

	CALLED;
	for (; rounds < 3; rounds++) {
		int code = setjmp(escape);

		if (code) {
			total += code + check(rounds);
			continue;
		}
		total += deep(rounds);
	}
	return total;
}

/* --- signals */

static volatile sig_atomic_t handled;
static sigjmp_buf out_of_handler;

KEEP static int in_handler(int a)
{
	CALLED;
	return a + 1;
}

KEEP static void on_signal(int number)
{
	CALLED;
	handled += in_handler(number);
}

KEEP static void on_signal_info(int number, siginfo_t *info, void *context)
{
	CALLED;
	handled += in_handler(info->si_signo == number && context ? 10 : 20);
}

KEEP static void on_fault(int number)
{
	CALLED;
	LEFT;
	siglongjmp(out_of_handler, in_handler(number));
}

KEEP static int fault(void)
{
	CALLED;
	LEFT;
	raise(SIGUSR2);
	return fibonacci(3);
}

KEEP static int signals(void)
{
	static char room[65536];
	stack_t other = {.ss_sp = room, .ss_size = sizeof(room)};
	struct sigaction action = {.sa_handler = on_signal},
			 with_info = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
	struct sigaction leaves = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
	int code;

	CALLED;
	with_info.sa_sigaction = on_signal_info;
	sigaltstack(&other, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGWINCH, &with_info, NULL);
	sigaction(SIGUSR2, &leaves, NULL);
	for (int i = 0; i < 5; i++) {
		raise(SIGUSR1);
		raise(SIGWINCH);
	}
	code = sigsetjmp(out_of_handler, 1);
	if (!code)
		fault();
	return handled + code;
}

/* --- threads */

static _Thread_local int of_thread;

KEEP static void finish_thread(void *result)
{
	CALLED;
	LEFT;
	pthread_exit(result);
}

KEEP static void *thread(void *argument)
{
	CALLED;
	LEFT;
	of_thread = (int)(intptr_t)argument;
	for (int i = 0; i < 20; i++)
		of_thread += (int)dispatch(i % 10, of_thread & 1023, i) & 0xffff;
	if ((intptr_t)argument % 2)
		finish_thread((void *)(intptr_t)of_thread);
	return (void *)(intptr_t)of_thread;
}

KEEP static long threads(void)
{
	pthread_t made[4];
	long total = 0;

	CALLED;
	for (int i = 0; i < 4; i++)
		pthread_create(&made[i], NULL, thread, (void *)(intptr_t)(i + 1));
	for (int i = 0; i < 4; i++) {
		void *result;

		pthread_join(made[i], &result);
		total += (intptr_t)result;
	}
	return total + of_thread;
}

/* --- callbacks, cleanups, nested functions */

KEEP static int compare(const void *a, const void *b)
{
	CALLED;
	return *(const int *)a - *(const int *)b;
}

KEEP static void release(int *a)
{
	CALLED;
	printf("released %d\n", *a);
}

KEEP static int cleaned(int a)
{
	__attribute__((cleanup(release))) int held = a + 1;

	CALLED;
	return held * 2;
}

#ifdef __clang__
/* clang has no nested functions */
KEEP static int with_inner(int a)
{
	CALLED;
	return 22 * a - 9;
}
#else
KEEP static int with_inner(int a)
{
	/* its frame is reached through r10, live at its entry */
	KEEP int inner(int b)
	{
		CALLED;
		return a * b;
	}

	CALLED;
	return inner(10) + inner(12) - 9;
}
#endif

static void print_vector(const char *what, vector v)
{
	printf("%s %g %g %g %g\n", what, v[0], v[1], v[2], v[3]);
}

KEEP static void results(void)
{
	struct small s = make_small(42);
	struct mixed m = make_mixed(43);
	struct floats f = make_floats(1.5);
	struct large l = pass_large(make_large(7), 5);
	double complex z = turn(1 + 2 * I);
	long double complex y = turn_long(3 + 4 * I);

	CALLED;
	printf("structs %ld %ld %ld %g %g %g %ld %ld\n", s.a, s.b, m.a, m.b, f.a, f.b, l.a[1],
	       l.a[8]);
	printf("complex %g %g %Lg %Lg\n", creal(z), cimag(z), creall(y), cimagl(y));
	print_vector("vector", scale_again((vector){1, 2, 3, 4}, (vector){5, 6, 7, 8}));
	printf("root %.12Lf wide %ld bool %d %d\n", root(2),
	       (long)(wide((__int128)1 << 40, 17) >> 30), truth(3), truth(4));
	printf("sum %g\n", sum("dflLd", 1, 2.5, 3L, 4.25L, 5));
}

int main(int argc, char **argv)
{
	static const operation operations[] = {add, multiply, subtract};
	int numbers[] = {5, 3, 9, 1, 7, 2, 8};
	unsigned char flag;
	long total = 0;
	int a = argc, low, error;

	CALLED;
	OPAQUE(a);
	(void)argv;
	printf("begun %d %d\n", begun[0], begun[1]);
	printf("fibonacci %u even %d odd %d\n", fibonacci(11), is_even(40), is_odd(40));
	printf("six %ld floats %g\n", first_of_six(1, 2, 3, 4, 5, 6),
	       first_of_floats(1, 2, 3, 4, 5, 6, 7, 8));
	for (int i = 0; i < 30; i++)
		total += apply(operations[i % 3], i, a + i) + dispatch(i % 11, i, 3);
	printf("operations %ld threaded %d\n", total,
	       threaded((const unsigned char *)"\1\2\2\3\2"));
	results();
	nothing();
	printf("frames %u %u %u %d %d\n", red_zone(a), bare(a), variable_frame(a * 50),
	       aligned_frame(a), same_frame(__builtin_frame_address(0)));
	low = carry(&flag, 0xfffffff0u, a * 0x20);
	error = leaves_errno(EDOM);
	printf("carry %d %d errno %d %d\n", low, flag, error, errno);
	printf("inline %d %d %d\n", inlined_twice(a), mostly_early(NULL, 0),
	       mostly_early(numbers, 7));
	printf("linkage %d %d %d %d %d\n", hidden(a), weak_defined(a), other_name(a), chosen(a),
	       uninstrumented(a));
	printf("absent %d\n", weak_undefined ? weak_undefined(1) : -1);
	printf("jumps %d\n", jumps());
	printf("signals %d\n", signals());
	printf("threads %ld\n", threads());
	qsort(numbers, 7, sizeof(*numbers), compare);
	printf("sorted %d %d %d\n", numbers[0], numbers[3], numbers[6]);
	printf("cleaned %d nested %d\n", cleaned(4), with_inner(2));
	fflush(stdout);
	calls_print();
	return 3;
}
