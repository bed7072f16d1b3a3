/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target that does at random what is hard on a tracer, while three of its threads check their own
 * arithmetic.
 *
 *   hostile SEED SECONDS VICTIM [ACTS]
 *
 * VICTIM is the program victim.c, set-user-ID root or not. ACTS: letters of those below; all, if
 * left out. Prints "ready", and when its time is over, or stdin is closed, "good ROUNDS ACTS" and
 * ends with 0. What is wrong is told on stderr, and ends it by abort(): a wrong result, a victim
 * that found itself changed, a system call with a result that it cannot have.
 *
 *   v  a vfork() that lasts m maps and unmaps memory over its own u an operation of io_uring in a
 *      kernel worker
 *   s  executes VICTIM in a child a scribbles over iprobe's shared memory d a child that makes
 *      itself undumpable
 *   c  a child that changes its ids, r a raw clone() that shares the TLS x executes itself anew, as
 *      a whole process
 *      and scribbles                   f a thread under a seccomp filter k system calls on a small
 *                                      stack between data
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define QUIET	__attribute__((no_instrument_function))
#define KEEP	__attribute__((noinline))
#define NOBODY	65534
#define WORKERS 3
#define AREAS	8
#define SMALL	16384 /* bytes of the small stack: a signal frame does not fit below it twice */
#define PATTERN 4096
#define NS(ms)	((ms)*1000000l)

static volatile uint64_t rounds[WORKERS];
static volatile int over;
static const char *victim, *acts = "vsrcmafkudx";
static uint64_t seed, acts_done;
static double deadline;
static char **arguments;

QUIET static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

QUIET static void wrong(const char *what, long got, long want)
{
	dprintf(2, "hostile: %s: got %ld, expected %ld\n", what, got, want);
	abort();
}

QUIET static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

KEEP uint64_t step(uint64_t x, uint64_t k)
{
	__asm__ volatile("" : "+r"(x));
	return x * 2654435761u + k;
}

KEEP uint64_t deeper(uint64_t x, int depth)
{
	return depth ? step(deeper(x, depth - 1), depth) : x;
}

QUIET static void check_steps(uint64_t x)
{
	uint64_t want = x;

	for (uint64_t k = 1; k <= 6; k++)
		want = want * 2654435761u + k;
	if (deeper(x, 6) != want)
		wrong("arithmetic", (long)deeper(x, 6), (long)want);
}

QUIET static void nap(long ns)
{
	const struct timespec t = {ns / 1000000000, ns % 1000000000};

	syscall(SYS_nanosleep, &t, NULL);
}

QUIET static void *work(void *arg)
{
	const uintptr_t i = (uintptr_t)arg;

	while (!over) {
		for (int k = 0; k < 200; k++)
			check_steps(rounds[i] + k);
		rounds[i]++;
		nap(i ? NS(1) / 4 : 1000);
	}
	return NULL;
}

/* Ends of children: a victim's says whether it was changed. */
QUIET static void wait_for(pid_t child, const char *what)
{
	int status;
	pid_t got;

	do
		got = waitpid(child, &status, __WALL);
	while (got < 0 && errno == EINTR);
	if (got != child)
		wrong("waitpid", got, child);
	/* a kill is nobody's business here but the tester's */
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		wrong(what, -WTERMSIG(status), 0);
	if (WIFEXITED(status) && WEXITSTATUS(status))
		wrong(what, WEXITSTATUS(status), 0);
}

/* Only system calls, and memory of its own: the rest may be in use by other threads of the
 * parent. */
QUIET static void scribble(uint64_t state, int words)
{
	char maps[65536];
	size_t n = 0;
	ssize_t got;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && n < sizeof(maps) - 1 &&
	       (got = read(fd, maps + n, sizeof(maps) - 1 - n)) > 0)
		n += got;
	maps[n] = '\0';
	close(fd);
	for (char *line = maps; line && *line; line = strchr(line, '\n'), line += line != NULL) {
		unsigned long start, end;
		char *stop = strchr(line, '\n'), mode[8];

		if (stop)
			*stop = '\0';
		if (strstr(line, "memfd:iprobe") &&
		    sscanf(line, "%lx-%lx %7s", &start, &end, mode) == 3 && mode[1] == 'w' &&
		    mode[3] == 's') {
			static const uint64_t words_of[] = {0,
							    1,
							    UINT32_MAX,
							    UINT64_MAX,
							    0x7fffffffffffffff,
							    0x5555555500000007};

			for (int i = 0; i < words; i++) {
				uint64_t at = draw(&state);
				/* mostly where headers and tables are */
				uint64_t offset =
					at %
					((at >> 60) < 4
						 ? end - start
						 : (end - start > 1 << 20 ? 1 << 20 : end - start));
				uint64_t what = draw(&state);
				struct iovec from = {&what, 8}, to = {NULL, 8};

				to.iov_base = (void *)(start + (offset & ~7ull));
				/* a hole of the file would end us, not them: by the kernel's own
				 * copy */
				if (what % 8 < 6)
					what = words_of[what % 6];
				syscall(SYS_process_vm_writev, getpid(), &from, 1, &to, 1, 0);
			}
		}
		if (stop)
			*stop = '\n';
	}
}

QUIET static void act_vfork(uint64_t r)
{
	const struct timespec t = {0, NS(r % 40)};
	pid_t child = vfork();

	if (child == 0) {
		syscall(SYS_nanosleep, &t, NULL);
		_exit(0);
	}
	wait_for(child, "a vfork");
}

QUIET static void act_victim(uint64_t r)
{
	char text[32];
	pid_t child;

	snprintf(text, sizeof(text), "%lu", (unsigned long)(r % 20));
	char *words[] = {(char *)victim, text, NULL};

	child = fork();
	if (child == 0) {
		nap((long)(r >> 8) % NS(5));
		execv(victim, words);
		_exit(126);
	}
	wait_for(child, "a victim");
}

QUIET static void act_ids(uint64_t r)
{
	pid_t child = fork();

	if (child == 0) {
		if (getuid() == 0) {
			if (syscall(SYS_setgroups, 0, NULL) ||
			    syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) ||
			    syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY))
				_exit(1);
		}
		scribble(r, 64);
		check_steps(r);
		_exit(0);
	}
	wait_for(child, "a child with other ids");
}

QUIET static void act_undumpable(uint64_t r)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_DUMPABLE, 0);
		nap(r % NS(20));
		check_steps(r);
		_exit(0);
	}
	wait_for(child, "an undumpable child");
}

QUIET static void act_map(uint64_t r)
{
	const size_t size = 64 * 4096;
	unsigned char *p =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	for (int i = 0; i < 32; i++) {
		unsigned char *at = p + (draw(&r) % 63) * 4096;

		if (mmap(at, 4096, PROT_READ | PROT_WRITE | (i % 4 ? 0 : PROT_EXEC),
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
			wrong("mmap", 0, 1);
		*at = i;
		mprotect(at, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_EXEC);
	}
	munmap(p, size);
}

QUIET static void act_scribble(uint64_t r)
{
	scribble(r, 256);
}

static volatile int raw_done;

/* It has the TLS of the thread that made it, which waits meanwhile: errno and all else of the C
 * library is taken. */
QUIET static int raw_thread(void *arg)
{
	(void)arg;
	check_steps(77);
	raw_done = 1;
	syscall(SYS_exit, 0);
	return 0;
}

QUIET static void act_raw_clone(uint64_t r)
{
	static char stack[65536] __attribute__((aligned(16)));
	static volatile pid_t tid;

	(void)r;
	raw_done = 0;
	tid = -1;
	if (clone(raw_thread, stack + sizeof(stack),
		  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
			  CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID,
		  NULL, &tid, NULL, &tid) < 0)
		return;
	while (tid)
		nap(20000);
	if (!raw_done)
		wrong("a raw thread", 0, 1);
}

QUIET static void *filtered(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return NULL;
	for (int i = 0; i < 20; i++) {
		long got = syscall(SYS_getppid);

		if (got != -1 || errno != EPERM)
			wrong("a filtered call", got, -1);
		check_steps(i);
		nap((uintptr_t)arg % NS(1));
	}
	return NULL;
}

QUIET static void act_filter(uint64_t r)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, filtered, (void *)(uintptr_t)r) == 0)
		pthread_join(thread, NULL);
}

static struct {
	unsigned char below[PATTERN], stack[SMALL], above[PATTERN];
} small __attribute__((aligned(64)));
static ucontext_t small_back, small_context;
static uint64_t small_draw;

QUIET static void on_small(void)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	check_steps(small_draw);
	for (int i = 0; i < 3; i++) {
		int got = epoll_wait(fd, &event, 1, 1 + small_draw % 8);

		if (got)
			wrong("epoll_wait", got < 0 ? -errno : got, 0);
		got = poll(NULL, 0, 1 + small_draw % 4);
		if (got)
			wrong("poll", got < 0 ? -errno : got, 0);
	}
	close(fd);
}

/* Nearly full, so that what is written far below the stack pointer is data's. */
QUIET static void act_small_stack(uint64_t r)
{
	memset(small.below, 0xa5, PATTERN);
	memset(small.above, 0x5a, PATTERN);
	small_draw = r;
	getcontext(&small_context);
	small_context.uc_stack.ss_sp = small.stack;
	small_context.uc_stack.ss_size = SMALL;
	small_context.uc_link = &small_back;
	makecontext(&small_context, on_small, 0);
	swapcontext(&small_back, &small_context);
	for (int i = 0; i < PATTERN; i++)
		if (small.below[i] != 0xa5 || small.above[i] != 0x5a)
			wrong("data beside a stack", i, -1);
}

struct ring {
	int fd;
	void *sq, *cq;
	struct io_uring_sqe *sqes;
	struct io_uring_params p;
};

QUIET static void *use_io_uring(void *arg)
{
	const uint64_t r = (uintptr_t)arg;
	struct ring ring = {0};
	int pipe_fds[2];
	char c = 0;

	ring.fd = syscall(SYS_io_uring_setup, 4, &ring.p);
	if (ring.fd < 0 || pipe2(pipe_fds, O_CLOEXEC))
		return NULL;
	const size_t sq_size = ring.p.sq_off.array + ring.p.sq_entries * 4,
		     cq_size = ring.p.cq_off.cqes + ring.p.cq_entries * sizeof(struct io_uring_cqe);
	ring.sq = mmap(NULL, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
		       IORING_OFF_SQ_RING);
	ring.cq = mmap(NULL, cq_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
		       IORING_OFF_CQ_RING);
	ring.sqes = mmap(NULL, 4 * sizeof(*ring.sqes), PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
			 IORING_OFF_SQES);
	if (ring.sq == MAP_FAILED || ring.cq == MAP_FAILED || ring.sqes == MAP_FAILED)
		abort();
	ring.sqes[0] = (struct io_uring_sqe){.opcode = IORING_OP_READ,
					     .flags = IOSQE_ASYNC,
					     .fd = pipe_fds[0],
					     .addr = (uintptr_t)&c,
					     .len = 1,
					     .user_data = 7};
	((uint32_t *)((char *)ring.sq + ring.p.sq_off.array))[0] = 0;
	__atomic_store_n((uint32_t *)((char *)ring.sq + ring.p.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0) == 1) {
		const uint32_t *tail = (uint32_t *)((char *)ring.cq + ring.p.cq_off.tail);
		const struct io_uring_cqe *cqe = (void *)((char *)ring.cq + ring.p.cq_off.cqes);

		nap(r % NS(20));
		if (write(pipe_fds[1], "x", 1) != 1)
			abort();
		for (int i = 0; i < 20000 && !__atomic_load_n(tail, __ATOMIC_ACQUIRE); i++)
			nap(100000);
		if (!__atomic_load_n(tail, __ATOMIC_ACQUIRE) || cqe->res != 1 || c != 'x')
			wrong("io_uring", cqe->res, 1);
	}
	munmap(ring.sq, sq_size);
	munmap(ring.cq, cq_size);
	munmap(ring.sqes, 4 * sizeof(*ring.sqes));
	close(ring.fd);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return NULL;
}

/* In a thread of its own: work for the ring interrupts system calls of the thread that has made
 * it. */
QUIET static void act_io_uring(uint64_t r)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, use_io_uring, (void *)(uintptr_t)r) == 0)
		pthread_join(thread, NULL);
}

/* Not too often: nothing is recorded of what is gone. */
QUIET static void act_exec(uint64_t r)
{
	char text[2][32];
	double left = deadline - now();

	if (r % 8 || left < 0.3)
		return;
	snprintf(text[0], sizeof(text[0]), "%lu", (unsigned long)(r >> 1 | 1));
	snprintf(text[1], sizeof(text[1]), "%.3f", left);
	arguments[1] = text[0];
	arguments[2] = text[1];
	execv("/proc/self/exe", arguments);
	wrong("exec", errno, 0);
}

static const struct {
	char letter;
	void (*run)(uint64_t);
} table[] = {
	{'v', act_vfork},    {'s', act_victim},	    {'c', act_ids},    {'m', act_map},
	{'a', act_scribble}, {'r', act_raw_clone},  {'f', act_filter}, {'k', act_small_stack},
	{'u', act_io_uring}, {'d', act_undumpable}, {'x', act_exec},
};

QUIET static void act_once(uint64_t *state)
{
	const char letter = acts[draw(state) % strlen(acts)];

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (table[i].letter == letter)
			table[i].run(draw(state));
	acts_done++;
}

int main(int argc, char **argv)
{
	pthread_t threads[WORKERS];
	uint64_t state, all = 0;

	if (argc < 4)
		return 2;
	arguments = argv;
	seed = strtoull(argv[1], NULL, 0);
	deadline = now() + atof(argv[2]);
	victim = argv[3];
	if (argc > 4)
		acts = argv[4];
	state = seed * 0x9e3779b97f4a7c15ull + 1;
	prctl(PR_SET_DUMPABLE, 1);
	signal(SIGPIPE, SIG_IGN);
	puts("ready");
	fflush(stdout);
	for (uintptr_t i = 0; i < WORKERS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			return 1;
	while (now() < deadline) {
		struct pollfd in = {.fd = 0, .events = POLLIN};

		act_once(&state);
		if (poll(&in, 1, (int)(draw(&state) % 8)) > 0)
			break;
	}
	over = 1;
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], NULL);
		all += rounds[i];
	}
	printf("good %lu %lu\n", (unsigned long)all, (unsigned long)acts_done);
	return 0;
}
