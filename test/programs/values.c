/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls functions with values of every type and says on stdout what they were: one JSON object a
 * call, {"f", "args", "ret"}, as `iprobe dump --json` shows them.
 *
 *   values           the list of calls
 *   values race N    prints "ready", waits for a line, then calls consistent() N times in each of 4
 *                    threads, under a timer signal whose handler calls it too, while other threads
 *                    change and unmap what strings point to
 *   values sandbox   prints "ready", puts itself under seccomp at the first line, calls named() at
 *                    this and every further line
 */
#define _GNU_SOURCE
#include <complex.h>
#include <errno.h>
#include <fenv.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The compiler may not see through a call: else it leaves out those whose result nobody uses. */
#if defined(__has_attribute) && __has_attribute(noipa)
#define NOINLINE __attribute__((noipa))
#else
#define NOINLINE __attribute__((noinline, optnone))
#endif

#ifdef __clang__
#define IS_GCC 0
#else
#define IS_GCC 1
#endif

enum colour { RED, GREEN = 5, BLUE = 70000 };
enum sign { MINUS = -1, ZERO, PLUS };
enum __attribute__((packed)) tiny { ONE = 1, LAST = 200 };
typedef const char *text;
typedef int32_t number;
struct pair {
	int x, y;
};
struct mixed {
	double d;
	long n;
};
struct floats {
	float a, b, c;
};
struct large {
	long a[5];
};
struct packed {
	char c;
	long n;
} __attribute__((packed));
struct bits {
	unsigned a : 3, b : 29;
	long c : 40;
};
union any {
	double d;
	long n;
};
struct list {
	struct list *next;
	int value;
};

NOINLINE long integers(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned f,
		       long g, unsigned long h, long long i)
{
	return a + b + c + d + e + f + g + (long)h + i;
}

NOINLINE char characters(char a, wchar_t b, bool c, _Bool d)
{
	return c && !d ? a : (char)b;
}

NOINLINE double floats(float a, double b, long double c, float d, double e, double f, double g,
		       double h, double i, double j, float k)
{
	return a + b + (double)c + d + e + f + g + h + i + j + k;
}

NOINLINE long double extended(int n, long double a)
{
	return a * n;
}

NOINLINE float single(float a)
{
	return a / 3;
}

NOINLINE const char *strings(const char *a, char *b, text c, const unsigned char *d, char **e,
			     void *f)
{
	return a ? a : b ? b : c ? c : (const char *)(d && e && f ? "all" : "some");
}

NOINLINE enum colour enums(enum colour a, enum sign b, enum tiny c)
{
	return b == MINUS ? a : c == LAST ? GREEN : (enum colour)3;
}

NOINLINE void *pointers(struct list *a, int (*b)(void), const void *c, int d[3])
{
	return b || c ? (void *)a : (void *)d;
}

NOINLINE int structures(struct pair a, struct mixed b, struct floats c, struct large d, int e,
			struct packed f, double g, struct bits h, union any i, long j,
			struct pair k, long l, double m)
{
	return a.x + (int)(b.d + c.c) + (int)d.a[4] + e + (int)f.n + (int)g + h.b + (int)i.n +
	       (int)j + k.y + (int)l + (int)m;
}

NOINLINE struct large hidden(int a, const char *b)
{
	return (struct large){{a, (long)strlen(b)}};
}

NOINLINE struct pair small(int a, int b)
{
	return (struct pair){a, b};
}

NOINLINE unsigned wide(unsigned __int128 a, unsigned b, __int128 c, int d, int e, __int128 f,
		       unsigned g)
{
	return (unsigned)a + b + (unsigned)c + d + e + (unsigned)f + g;
}

NOINLINE double complexes(double complex a, float complex b, double c, long double complex d, int e)
{
	return creal(a) + crealf(b) + c + (double)creall(d) + e;
}

NOINLINE int variadic(const char *format, int n, ...)
{
	va_list list;
	int sum = 0;

	va_start(list, n);
	for (int i = 0; i < n; i++)
		sum += va_arg(list, int);
	va_end(list);
	return sum + format[0];
}

unsigned recursive(unsigned depth, const char *name);
static unsigned (*volatile call_recursive)(unsigned depth, const char *name) = recursive;

NOINLINE unsigned recursive(unsigned depth, const char *name)
{
	return depth ? call_recursive(depth - 1, name + 1) + depth : 0;
}

/* Without a prototype, of which there are still some: a float comes as a double. */
#if __STDC_VERSION__ < 202000L && !defined(__clang__)
NOINLINE int old_style(a, b, c)
float a;
char b;
double c;
{
	return (int)(a + b + c);
}
#define HAVE_OLD_STYLE 1
#endif

NOINLINE void nothing(void)
{
	__asm__ volatile("");
}

/* Its parameters are changed by the compiler where it may: one is constant, one not used, of one
 * only what it points to is. */
static __attribute__((noinline)) number changed(number constant, number unused,
						const number *pointed, number last)
{
	return constant * *pointed + last;
}

static char *page_end(const char *s)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(pages + 4096, 4096, PROT_NONE);
	return memcpy(pages + 4096 - strlen(s) - 1, s, strlen(s) + 1);
}

static char *unterminated(size_t length)
{
	char *pages = page_end("");

	memset(pages - length + 1, 'u', length);
	return pages - length + 1;
}

static void list_strings(void)
{
	static char lengths[300][301];
	char *end = page_end("at the page's end"), *open = unterminated(20),
	     *across = unterminated(4096);
	char *guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	strings(end, "", NULL, (const unsigned char *)"", &end, NULL);
	printf("{\"f\":\"strings\",\"args\":{\"a\":\"at the page's "
	       "end\",\"b\":\"\",\"c\":null,\"e\":\"%p\",\"f\":\"0x0\"},\"ret\":\"at the "
	       "page's end\"}\n",
	       (void *)&end);
	strings(open, NULL, "\xc3\xa9\t\"\\", NULL, NULL, end);
	printf("{\"f\":\"strings\",\"args\":{\"a\":\"uuuuuuuuuuuuuuuuuuuu\",\"b\":null,\"c\":"
	       "\"\xc3\xa9\\t\\\"\\\\\",\"f\":\"%p\"},"
	       "\"ret\":\"uuuuuuuuuuuuuuuuuuuu\",\"cut\":true}\n",
	       (void *)end);
	strings(guarded, (char *)8, (char *)0x7ff000000000, NULL, NULL, NULL);
	printf("{\"f\":\"strings\",\"args\":{\"a\":{\"unreadable\":\"%p\"},\"b\":{\"unreadable\":"
	       "\"0x8\"},\"c\":{\"unreadable\":"
	       "\"0x7ff000000000\"}},\"ret\":{\"unreadable\":\"%p\"}}\n",
	       (void *)guarded, (void *)guarded);
	strings((char *)0x8000000000000000, (char *)-1, (char *)-4096, NULL, NULL, NULL);
	printf("{\"f\":\"strings\",\"args\":{\"a\":{\"unreadable\":\"0x8000000000000000\"},\"b\":{"
	       "\"unreadable\":\"0xffffffffffffffff\"},"
	       "\"c\":{\"unreadable\":\"0xfffffffffffff000\"}},\"ret\":{\"unreadable\":"
	       "\"0x8000000000000000\"}}\n");
	(void)across;
	for (size_t i = 0; i < 300; i++) {
		memset(lengths[i], 'a' + (int)(i % 26), i);
		strings(lengths[i], NULL, NULL, NULL, NULL, NULL);
		printf("{\"f\":\"strings\",\"full\":\"%s\"}\n", lengths[i]);
	}
}

static int a_function(void)
{
	return 1;
}

static void list_calls(void)
{
	struct list node = {NULL, 3};
	int array[3] = {1, 2, 3};
	const struct large big = {{1, 2, 3, 4, 5}};
	number six = 6;

	long sum = integers(-128, 255, -32768, 65535, -2147483647 - 1, 4294967295u,
			    -9000000000000000000l, 18000000000000000000ul, -7);

	printf("{\"f\":\"integers\",\"args\":{\"a\":-128,\"b\":255,\"c\":-32768,\"d\":65535,\"e\":-"
	       "2147483648,\"f\":4294967295,"
	       "\"g\":-9000000000000000000,\"h\":18000000000000000000,\"i\":-7},\"ret\":%ld}\n",
	       sum);
	characters('x', 'Z', true, false);
	printf("{\"f\":\"characters\",\"args\":{\"a\":120,\"b\":90,\"c\":true,\"d\":false},\"ret\":"
	       "120}\n");
	characters((char)-1, -5, false, true);
	printf("{\"f\":\"characters\",\"args\":{\"a\":-1,\"b\":-5,\"c\":false,\"d\":true},\"ret\":-"
	       "5}\n");
	floats(0.5f, -1e300, 1.25L, 3, 4, 5, 6, 7, 8, 9, 10);
	printf("{\"f\":\"floats\",\"args\":{\"a\":0.5,\"b\":-1e300,\"c\":1.25,\"d\":3,\"e\":4,"
	       "\"f\":5,\"g\":6,\"h\":7,\"i\":8,\"j\":9,\"k\":10},"
	       "\"ret\":-1e300}\n");
	floats(INFINITY, -INFINITY, NAN, 0, 0, 0, 0, 0, 0, 0, 0);
	printf("{\"f\":\"floats\",\"args\":{\"a\":\"inf\",\"b\":\"-inf\",\"c\":\"nan\",\"d\":0},"
	       "\"ret\":\"nan\"}\n");
	extended(3, 0.25L);
	printf("{\"f\":\"extended\",\"args\":{\"n\":3,\"a\":0.25},\"ret\":0.75}\n");
	single(1.5f);
	printf("{\"f\":\"single\",\"args\":{\"a\":1.5},\"ret\":0.5}\n");
	list_strings();
	enums(BLUE, MINUS, ONE);
	printf("{\"f\":\"enums\",\"args\":{\"a\":\"BLUE\",\"b\":\"MINUS\",\"c\":\"ONE\"},\"ret\":"
	       "\"BLUE\"}\n");
	enums((enum colour)9, PLUS, LAST);
	printf("{\"f\":\"enums\",\"args\":{\"a\":9,\"b\":\"PLUS\",\"c\":\"LAST\"},\"ret\":"
	       "\"GREEN\"}\n");
	enums(RED, ZERO, ONE);
	printf("{\"f\":\"enums\",\"args\":{\"a\":\"RED\",\"b\":\"ZERO\",\"c\":\"ONE\"},\"ret\":3}"
	       "\n");
	pointers(&node, a_function, NULL, array);
	printf("{\"f\":\"pointers\",\"args\":{\"a\":\"%p\",\"b\":\"%p\",\"c\":\"0x0\",\"d\":\"%p\"}"
	       ",\"ret\":\"%p\"}\n",
	       (void *)&node, (void *)a_function, (void *)array, (void *)&node);
	structures((struct pair){1, 2}, (struct mixed){0.5, 7}, (struct floats){1, 2, 3}, big, 11,
		   (struct packed){'c', 5}, 1.5, (struct bits){1, 2, 3}, (union any){.n = 9}, 77,
		   (struct pair){3, 4}, 88, 2.5);
	printf("{\"f\":\"structures\",\"args\":{\"a\":\"{...}\",\"b\":\"{...}\",\"c\":\"{...}\","
	       "\"d\":\"{...}\",\"e\":11,\"f\":\"{...}\",\"g\":1.5,"
	       "\"h\":\"{...}\",\"i\":\"{...}\",\"j\":77,\"k\":\"{...}\",\"l\":88,\"m\":2.5}}\n");
	hidden(5, "five");
	printf("{\"f\":\"hidden\",\"args\":{\"a\":5,\"b\":\"five\"}}\n");
	small(6, 7);
	printf("{\"f\":\"small\",\"args\":{\"a\":6,\"b\":7}}\n");
	wide(1, 2, 3, 4, 5, 6, 7);
	/* compilers have not agreed on how a 128-bit integer is aligned on the stack: what comes
	 * behind it is known of gcc only */
	printf("{\"f\":\"wide\",\"args\":{\"a\":\"{...}\",\"b\":2,\"c\":\"{...}\",\"d\":4,\"e\":5,"
	       "\"f\":\"{...}\"},\"%s\":{\"g\":7},\"ret\":28}\n",
	       IS_GCC ? "more" : "might");
	complexes(1, 2, 3.5, 4, 5);
	printf("{\"f\":\"complexes\",\"args\":{\"a\":\"{...}\",\"b\":\"{...}\",\"c\":3.5,\"d\":\"{."
	       "..}\",\"e\":5},\"ret\":15.5}\n");
	variadic("%d", 2, 30, 40);
	printf("{\"f\":\"variadic\",\"args\":{\"format\":\"%%d\",\"n\":2},\"ret\":107}\n");
	recursive(2, "name");
	printf("{\"f\":\"recursive\",\"args\":{\"depth\":2,\"name\":\"name\"},\"ret\":3}\n");
	printf("{\"f\":\"recursive\",\"args\":{\"depth\":1,\"name\":\"ame\"},\"ret\":1}\n");
	printf("{\"f\":\"recursive\",\"args\":{\"depth\":0,\"name\":\"me\"},\"ret\":0}\n");
#ifdef HAVE_OLD_STYLE
	old_style(0.5f, 3, 1.5);
	printf("{\"f\":\"old_style\",\"args\":{\"a\":0.5,\"b\":3,\"c\":1.5},\"ret\":5}\n");
#endif
	nothing();
	printf("{\"f\":\"nothing\"}\n");
	printf("{\"f\":\"changed\",\"might\":{\"constant\":7,\"unused\":8,\"last\":9},\"ret\":%d}"
	       "\n",
	       changed(7, 8, &six, 9));
}

/* What goes in and out of it follows from its first argument. b: a * 3; text: a in decimal; c: a /
 * 2. */
NOINLINE uint64_t consistent(uint64_t a, uint64_t b, const char *text, double c,
			     const char *changing)
{
	return a ^ b;
}

static char changing[64];
static char *volatile going; /* mapped and not, by turns */

static void call_consistent(uint64_t a)
{
	char text[24], *p = text + sizeof(text) - 1;
	uint64_t rest = a;

	*p = '\0';
	do {
		*--p = '0' + (char)(rest % 10);
	} while (rest /= 10);
	consistent(a, a * 3, p, (double)a / 2, a % 2 ? changing : going);
}

static void on_signal(int number)
{
	/* the signal is the process's: several threads may be here at once */
	static uint64_t calls;
	int saved = errno;

	call_consistent(1000000000000ull + __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED));
	if (errno != saved)
		abort();
}

static unsigned long rounds;

static void *work(void *argument)
{
	uint64_t base = (uint64_t)(uintptr_t)argument * 1000000000;

	for (uint64_t i = 0; i < rounds; i++) {
		errno = (int)(i % 100);
		call_consistent(base + i);
		if (errno != (int)(i % 100))
			abort();
	}
	return NULL;
}

static volatile bool stop;

static void *disturb(void *argument)
{
	char *pages = argument;

	for (unsigned i = 0; !stop; i++) {
		memset(changing, 'A' + (char)(i % 26), i % (sizeof(changing) - 1));
		changing[i % (sizeof(changing) - 1)] = '\0';
		mprotect(pages, 8192, i % 2 ? PROT_NONE : PROT_READ | PROT_WRITE);
		if (i % 16 == 0) {
			munmap(pages + 4096, 4096);
			mmap(pages + 4096, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		}
	}
	return NULL;
}

static int race(unsigned long n)
{
	const struct itimerspec often = {{0, 50000}, {0, 50000}}; /* 20 kHz */
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	timer_t timer;
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	     line[8];
	pthread_t threads[4], disturber;

	rounds = n;
	going = pages + 4090;
	memset(pages, 'g', 8192);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&disturber, NULL, disturb, pages);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &often, NULL);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	timer_delete(timer);
	stop = true;
	pthread_join(disturber, NULL);
	puts("done");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}

NOINLINE size_t named(const char *name)
{
	size_t length = strlen(name);

	/* no tail call, which would have no result to record */
	__asm__ volatile("" : "+r"(length));
	return length;
}

static int sandbox(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
	char line[8];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		return 77;
	do {
		printf("called %zu\n", named("unread"));
		fflush(stdout);
	} while (fgets(line, sizeof(line), stdin));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "race"))
		return race(strtoul(argv[2], NULL, 10));
	if (argc == 2 && !strcmp(argv[1], "sandbox"))
		return sandbox();
	list_calls();
	return 0;
}
