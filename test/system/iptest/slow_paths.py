# SPDX-License-Identifier: Apache-2.0
"""
Writes C++ programs with a function serve() some of whose calls are slow, and tells by which call
path: the cause that is planted. The same seed writes the same program.

What is planted lasts long against what else a machine does to a program. All other functions take
some microseconds, and have callees that take no part in it.
"""

import random

HEAD = """\
// A program with a planted cause: test/system/iptest/slow_paths.py, seed SEED.
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function, always_inline)) static inline
#define FUNC __attribute__((noinline))
#define BARRIER asm volatile("" ::: "memory")

static thread_local bool slow;
static thread_local int depth_left;
static volatile int sink;

QUIET uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Works for so many microseconds. */
QUIET void work(unsigned us)
{
	for (uint64_t end = now() + us * 1000ull; now() < end;)
		sink++;
}

QUIET void wait_ms(unsigned ms)
{
	struct timespec t = {0, (long)ms * 1000000};

	nanosleep(&t, NULL);
}

"""

MAIN = """\
struct range {
	int first, end;
};

static int percent_of_1000;

/* Whether an operation is slow: pseudo-random, the same in each run. */
QUIET bool is_slow(int i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;

	x ^= x >> 31;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 29;
	return x % 1000 < (uint64_t)percent_of_1000;
}

__attribute__((no_instrument_function)) static void *operate(void *argument)
{
	struct range *r = (struct range *)argument;

	for (int i = r->first; i != r->end; i++) {
		slow = is_slow(i);
		serve();
		wait_ms(THREADS); /* others are to have the CPU, too */
	}
	return NULL;
}

__attribute__((no_instrument_function)) int main(int argc, char **argv)
{
	const int n = argc > 1 ? atoi(argv[1]) : OPERATIONS;
	pthread_t threads[THREADS];
	struct range ranges[THREADS];

	percent_of_1000 = PER_MILLE;
	START;
	for (int i = 0; i < THREADS; i++) {
		/* -1: for ever */
		ranges[i].first = i * (n / THREADS);
		ranges[i].end = n < 0 ? -1 : (i + 1) * (n / THREADS);
		if (pthread_create(&threads[i], NULL, operate, &ranges[i]))
			return 2;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
"""

QUEUE = """\
/* One thread serves what others hand to it. */
static sem_t handed, taken, served;
static bool order_is_slow;

FUNC void process_order(void)
{
	work(5);
	if (order_is_slow)
		wait_ms(LONG);
	BARRIER;
}

__attribute__((no_instrument_function)) static void *serve_orders(void *)
{
	pthread_setname_np(pthread_self(), "order-server");
	for (;;) {
		sem_wait(&handed);
		process_order();
		sem_post(&served);
	}
	return NULL;
}

QUIET void start_queue(void)
{
	pthread_t thread;

	sem_init(&handed, 0, 0);
	sem_init(&taken, 0, 1);
	sem_init(&served, 0, 0);
	if (pthread_create(&thread, NULL, serve_orders, NULL))
		abort();
}

"""

# A page that another thread fills when it is touched, after LONG milliseconds.
FAULT = """\
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int faults;
static char *lazy_page;

__attribute__((no_instrument_function)) static void *fill_pages(void *)
{
	static char page[4096] __attribute__((aligned(4096)));
	struct uffd_msg message;

	pthread_setname_np(pthread_self(), "page-filler");
	while (read(faults, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_copy copy = {(uintptr_t)lazy_page, (uintptr_t)page, 4096, 0, 0};

		wait_ms(LONG);
		ioctl(faults, UFFDIO_COPY, &copy);
	}
	return NULL;
}

QUIET void start(void)
{
	struct uffdio_api api = {UFFD_API, 0, 0};
	struct uffdio_register range = {};
	pthread_t thread;

	faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	lazy_page = (char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				 0);
	range.range.start = (uintptr_t)lazy_page;
	range.range.len = 4096;
	range.mode = UFFDIO_REGISTER_MODE_MISSING;
	if (ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &range) ||
	    pthread_create(&thread, NULL, fill_pages, NULL))
		abort();
}

"""

# A lock that another thread holds for LONG milliseconds when it is told to.
FUTEX = """\
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t rotate_now, rotating;

FUNC void rotate_table(void)
{
	pthread_mutex_lock(&table_lock);
	sem_post(&rotating);
	wait_ms(LONG);
	pthread_mutex_unlock(&table_lock);
	BARRIER;
}

__attribute__((no_instrument_function)) static void *rotate_tables(void *)
{
	pthread_setname_np(pthread_self(), "table-rotator");
	for (;;) {
		sem_wait(&rotate_now);
		rotate_table();
	}
	return NULL;
}

QUIET void start(void)
{
	pthread_t thread;

	sem_init(&rotate_now, 0, 0);
	sem_init(&rotating, 0, 0);
	if (pthread_create(&thread, NULL, rotate_tables, NULL))
		abort();
}

"""

KINDS = ("direct", "loop", "pointer", "virtual", "recursion", "exception", "two_places")
CAUSES = ("sleep", "iterations", "queue")


class Program:
    """seed: of what is written; planted: a cause is. outside: "fault" or "futex", what it is then.
    two: there are two causes in two paths; the second one has so many percent of the slow calls.
    """

    def __init__(self, seed, planted=True, outside=None, two=0):
        self.random = random.Random(seed)
        self.seed, self.planted = seed, planted
        self.per_mille = self.random.choice([10, 20, 50, 100, 200, 300, 500])
        self.operations = max(400, 40 * 1000 // self.per_mille)
        self.threads = self.random.choice([1, 1, 1, 2, 4])
        self.long_ms = self.random.choice([12, 16, 20])
        self.cause = self.random.choices(CAUSES, (6, 2, 2))[0] if planted else "none"
        if outside:
            self.cause, self.threads = outside, 1
        if two:
            self.cause = self.random.choice(("sleep", "iterations"))
        self.path, self.paths, self.functions, self.number = [], [], [], 0
        self.times = 1  # so often each function of the path is called in an operation
        if two:
            body = self._serve_two(two)
        else:
            body = self._function("serve", self.random.randint(2, 8), ["serve"])
            self.paths = [self.path]
        text = HEAD.replace("SEED", str(seed))
        if self.cause == "queue":
            text += QUEUE.replace("LONG", str(self.long_ms))
            self.threads = 1
        if outside:
            text += {"fault": FAULT, "futex": FUTEX}[outside].replace("LONG", str(self.long_ms))
        start = {"queue": "start_queue()", "fault": "start()", "futex": "start()"}
        text += "".join(self.functions) + body
        self.text = text + (
            MAIN.replace("OPERATIONS", str(self.operations))
            .replace("THREADS", str(self.threads))
            .replace("PER_MILLE", str(self.per_mille))
            .replace("START", start.get(self.cause, "(void)0"))
        )

    def _name(self, word):
        self.number += 1
        return f"{word}{self.number}"

    def _decoy(self):
        """A function that takes no part: its time is always about the same."""
        name = self._name(self.random.choice(["check", "parse", "hash_key", "copy_out", "note"]))
        inner = self._decoy() if self.random.random() < 0.3 else ""
        us = self.random.randint(1, 12)
        self.functions.append(
            f"FUNC void {name}(void)\n{{\n\twork({us});\n"
            f"\t{inner and inner + '();'}\n\tBARRIER;\n}}\n\n"
        )
        return name

    def _decoys(self):
        return [f"\t{self._decoy()}();\n" for _ in range(self.random.randint(0, 2))]

    def _serve_two(self, percent):
        """serve() with two paths, one after the other; a slow call is slow in one of them."""
        for name in ("first", "second"):
            self.times = 1
            self.functions.append(
                self._function(name, self.random.randint(1, 4), ["serve", name])
            )
            self.paths.append(self.path)
        return (
            "static thread_local unsigned lot;\n\n"
            "FUNC void serve(void)\n{\n\tconst bool any = slow;\n\n"
            "\tlot = lot * 1103515245 + 12345;\n"
            f"\tconst bool other = any && (lot >> 16) % 100 < {percent};\n\n"
            "\tslow = any && !other;\n\tfirst();\n"
            "\tslow = other;\n\tsecond();\n\tslow = any;\n\tBARRIER;\n}\n\n"
        )

    def _end(self, name):
        """The function that is the cause, by itself."""
        lines = ["\twork(3);\n"]
        if self.cause == "sleep":
            lines.append(f"\tif (slow)\n\t\twait_ms({self.long_ms});\n")
        elif self.cause == "iterations":
            step = self._name("step")
            self.functions.append(f"FUNC void {step}(void)\n{{\n\twork(20);\n\tBARRIER;\n}}\n\n")
            lines.append(
                f"\tfor (int i = slow ? {self.long_ms * 50} : 2; i > 0; i--)\n\t\t{step}();\n"
            )
        elif self.cause == "fault":
            lines.append(
                "\tif (slow)\n\t\tmadvise(lazy_page, 4096, MADV_DONTNEED);\n"
                "\tif (slow)\n\t\tsink += *(volatile char *)lazy_page;\n"
            )
        elif self.cause == "futex":
            lines.append(
                "\tif (slow) {\n\t\tsem_post(&rotate_now);\n\t\tsem_wait(&rotating);\n\t}\n"
                "\tpthread_mutex_lock(&table_lock);\n\tpthread_mutex_unlock(&table_lock);\n"
            )
        elif self.cause == "queue":
            lines.append(
                "\tsem_wait(&taken);\n\torder_is_slow = slow;\n\tsem_post(&handed);\n"
                "\tsem_wait(&served);\n\tsem_post(&taken);\n"
            )
        return lines

    def _function(self, name, levels, path):
        """The text of a function on the path, with as many levels below it."""
        decoys = self._decoys()
        if not levels:
            self.path = path
            lines = decoys + self._end(name)
        else:
            lines = decoys + self._call(name, levels, path) + self._decoys()
        constant = self.random.random() < 0.15
        if constant:  # always as long, and longer than all others
            long = self._name("always_long")
            self.functions.append(f"FUNC void {long}(void)\n{{\n\twork(150);\n\tBARRIER;\n}}\n\n")
            lines.insert(0, f"\t{long}();\n")
        return f"FUNC void {name}(void)\n{{\n{''.join(lines)}\tBARRIER;\n}}\n\n"

    def _call(self, name, levels, path):
        """The lines by which a function calls the next one of the path."""
        kind = self.random.choice(KINDS)
        if kind in ("loop", "two_places") and self.times > 4:
            kind = "direct"
        callee = self._name(self.random.choice(["find", "load", "flush", "send", "index"]))
        if kind == "virtual":
            shape = self._name("Shape")
            text = self._function("BODY", levels - 1, path + [f"{shape}::run"])
            text = text.split("{", 1)[1].rsplit("}", 1)[0]
            self.functions.append(
                f"struct Base{shape} {{\n\tvirtual void run(void) = 0;\n}};\n\n"
                f"struct {shape} : Base{shape} {{\n\tFUNC void run(void) override;\n}};\n\n"
                f"void {shape}::run(void)\n{{{text}}}\n\n"
                f"static {shape} the_{shape};\nstatic Base{shape} *volatile any_{shape} = "
                f"&the_{shape};\n\n"
            )
            return [f"\tany_{shape}->run();\n"]
        if kind == "recursion":
            again = self.random.randint(1, 3)
            if levels - 1 < again:
                kind = "direct"
            else:
                below = path + [callee] * (again + 1)
                inner = self._function("BODY", levels - 1 - again, below)
                inner = inner.split("{", 1)[1].rsplit("}", 1)[0]
                self.functions.append(
                    f"FUNC void {callee}(int left)\n{{\n\tif (left) {{\n\t\twork(2);\n"
                    f"\t\t{callee}(left - 1);\n\t\tBARRIER;\n\t\treturn;\n\t}}\n{inner}}}\n\n"
                )
                return [f"\t{callee}({again});\n"]
        if kind == "exception":
            inner = self._function("BODY", levels - 1, path + [callee])
            inner = inner.split("{", 1)[1].rsplit("}", 1)[0]
            self.functions.append(f"FUNC void {callee}(void)\n{{{inner}\tthrow 1;\n}}\n\n")
            return [f"\ttry {{\n\t\t{callee}();\n\t}} catch (int) {{\n\t\tsink++;\n\t}}\n"]
        if kind == "loop":
            # one call of several is the slow one
            times = self.random.randint(2, 6)
            which = self.random.randrange(times)
            self.times *= times
            inner = self._function(callee, levels - 1, path + [callee])
            self.functions.append(inner)
            return [
                "\tconst bool kept = slow;\n",
                f"\tfor (int i = 0; i < {times}; i++) {{\n\t\tslow = kept && i == {which};\n"
                f"\t\t{callee}();\n\t}}\n\tslow = kept;\n",
            ]
        if kind == "two_places":
            # the same function twice, slow at the second place
            self.times *= 2
            self.functions.append(self._function(callee, levels - 1, path + [callee]))
            return [
                "\tconst bool held = slow;\n\tslow = false;\n",
                f"\t{callee}();\n\tslow = held;\n\twork(2);\n\t{callee}();\n",
            ]
        self.functions.append(self._function(callee, levels - 1, path + [callee]))
        if kind == "pointer":
            self.functions.append(f"static void (*volatile to_{callee})(void) = {callee};\n\n")
            return [f"\tto_{callee}();\n"]
        return [f"\t{callee}();\n"]

    def write(self, path):
        path.write_text(self.text)
