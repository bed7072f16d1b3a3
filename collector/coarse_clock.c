/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock thread of --time coarse. One refresh:
 *
 *   1. Read the TSC: v.
 *   2. Store v in the clock line. The store is done, and every processor sees it, before step 3
 *      begins.
 *   3. Read the TSC again: w.
 *
 * An event with stamp v took v from the line. So it happened not before v was stored, and thus not
 * before v. It also happened before its thread could see the next stamp v', and thus not after w'.
 * So the event's true time lies in [v, w'], however long the clock thread was kept from running in
 * between. A processor that reads ahead gives a stamp that is off by the time it reads ahead, some
 * 100 ns. rdtsc has this error as well.
 *
 * The thread writes down runs of refreshes. In one run all widths w' - v are usual (below 2^USUAL
 * ticks), or all lie between the same two powers of two. The line of a run has its first stamp, its
 * last stamp, and its largest width. So nothing is assumed. The file grows with disturbances, and a
 * little with time.
 *
 * If only the newest events are kept (--rotate), another thread replaces older runs by one
 * (ip_coarse_clock_condense):
 *
 *   C1. It writes a new file: the replacing run, and a copy of the runs that stay. Meanwhile the
 *       clock thread goes on in the old file.
 *   C2. It locks the file, copies the runs that have come in between, renames the new file over the
 *       old one, and makes it the file that the clock thread writes to.
 *
 * The clock thread does not wait for this. If the file is locked, its current run goes on, as wide
 * as needed. If iprobe is killed before the renaming, the old file is complete.
 *
 * The clock thread sleeps between refreshes (coarse_interval.h): for a short time while threads of
 * the target record, for a longer time if it would take a CPU from other threads, and for longer
 * and longer times while no thread takes stamps. It uses a real-time priority, one above that of
 * the draining thread, if it may. If it may not, the widths show the delays.
 */
#include "collector/coarse_clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "access/delegation.h"
#include "collector/coarse_interval.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/now.h"
#include "common/trace/trace_format.h"
#include "hotpatcher/arch/x86_64/regs.h"

#define NEW	   IP_TRACE_STAMPS ".new"
#define LOAD_TICKS (1ull << 27) /* 52 ms at 2.6 GHz */
#define USUAL	   17		/* 50 us at 2.6 GHz */
/* number of refreshes after which a run is written down: an iprobe that is killed loses its current
 * run */
#define WRITE 4096

struct run {
	uint64_t from, to, width;
};

struct ip_coarse_clock {
	struct ip_area *area;
	int dirfd;		 /* the trace's */
	pthread_mutex_t writing; /* protects out */
	FILE *out;
	pthread_t thread;
	atomic_bool stop;
	uint64_t stamp; /* v of the last refresh */
	uint64_t seen;	/* sum of what the slots have recorded and left out */
	struct ip_coarse_interval interval;
	int loadavg;	 /* /proc/loadavg. -1: cannot be read */
	uint64_t loaded; /* stamp at which loadavg was read last */
	struct run run;
	unsigned class; /* class of run: number of bits of its widths; 0: usual */
	/* ticks spent with widths of so many bits while stamps were taken */
	uint64_t weight[65];
	/* the same since the last look, which will tell whether stamps were taken */
	uint64_t since[65];
	struct ip_coarse_clock_stats stats;
};

static unsigned bits(uint64_t n)
{
	return n ? 64 - __builtin_clzll(n) : 0;
}

static void write_run(FILE *out, const struct run *run)
{
	fprintf(out, "%lu %lu %lu\n", run->from, run->to, run->width);
}

/* Returns false if there is no further complete run. A part of a run is read again the next
 * time. */
static bool read_run(FILE *in, struct run *ret)
{
	char line[80];

	while (fgets(line, sizeof(line), in)) {
		if (!strchr(line, '\n')) {
			fseeko(in, -(off_t)strlen(line), SEEK_CUR);
			return false;
		}
		if (sscanf(line, "%lu %lu %lu", &ret->from, &ret->to, &ret->width) == 3)
			return true;
	}
	return false;
}

static void end_run(struct ip_coarse_clock *p)
{
	if (!p->run.width || pthread_mutex_trylock(&p->writing))
		return;
	write_run(p->out, &p->run);
	fflush(p->out);
	pthread_mutex_unlock(&p->writing);
	p->run.width = 0;
}

/* A stamp v may be up to width ticks too early. */
static void note(struct ip_coarse_clock *p, uint64_t v, uint64_t width)
{
	unsigned class = bits(width) > USUAL ? bits(width) : 0;

	if (p->run.width && p->class != class)
		end_run(p);
	if (!p->run.width) {
		p->run.from = v;
		p->class = class;
	}
	p->run.to = v;
	if (width > p->run.width)
		p->run.width = width;
	if (width > p->stats.latest)
		p->stats.latest = width;
	p->since[bits(width)] += width;
}

static void refresh(struct ip_coarse_clock *p)
{
	uint64_t v = ip_clock_now(), w;

	__atomic_store_n(&p->area->clock->now, v, __ATOMIC_RELEASE);
	w = ip_clock_now_after();
	if (p->stats.refreshes++)
		note(p, p->stamp, w - p->stamp);
	if (p->stats.refreshes % WRITE == 0)
		end_run(p);
	p->stamp = v;
}

/* Returns whether stamps were taken since the last look. */
static bool look(struct ip_coarse_clock *p)
{
	uint32_t used = __atomic_load_n(&p->area->header->slots_used, __ATOMIC_RELAXED);
	uint64_t sum = 0;
	bool taken;

	for (uint32_t i = 0; i < used && i < IP_AREA_SLOTS; i++) {
		const struct ip_slot *slot = &p->area->slots[i];

		sum += (__atomic_load_n(&slot->cur, __ATOMIC_RELAXED) & IP_POSITION_MASK) +
		       __atomic_load_n(&slot->filtered, __ATOMIC_RELAXED) +
		       __atomic_load_n(&slot->held, __ATOMIC_RELAXED) +
		       __atomic_load_n(&slot->lost, __ATOMIC_RELAXED);
	}
	taken = sum != p->seen;
	p->seen = sum;
	for (unsigned i = 0; i <= 64; i++) {
		p->weight[i] += taken ? p->since[i] : 0;
		p->since[i] = 0;
	}
	return taken;
}

/* Returns the number of threads that run or wait for a CPU on the whole machine, the clock thread
 * included. 0: not known, or it is too early to look again, since a look takes longer than a
 * refresh. */
static unsigned runnable(struct ip_coarse_clock *p)
{
	char text[64] = "";
	unsigned n = 0;

	if (p->stamp - p->loaded < LOAD_TICKS)
		return 0;
	p->loaded = p->stamp;
	if (p->loadavg < 0 || pread(p->loadavg, text, sizeof(text) - 1, 0) <= 0 ||
	    sscanf(text, "%*s %*s %*s %u", &n) != 1)
		return 0;
	return n;
}

static void *run(void *data)
{
	const struct sched_param above = {.sched_priority = 2};
	struct ip_coarse_clock *p = data;

	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	if (!ip_delegation_is_lent()) /* iprobed lends the privilege for stops only */
		pthread_setschedparam(pthread_self(), SCHED_FIFO, &above);
	while (!atomic_load_explicit(&p->stop, memory_order_relaxed)) {
		const uint64_t ns = ip_coarse_interval_nap(&p->interval);
		const struct timespec nap = {.tv_nsec = ns};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		refresh(p);
		if (ip_coarse_interval_is_time(&p->interval))
			ip_coarse_interval_note(&p->interval, look(p), runnable(p),
						ip_thread_cpu_ns());
	}
	return NULL;
}

static FILE *as_file(int fd, const char *mode)
{
	FILE *file = fdopen(fd, mode);

	if (!file)
		close(fd);
	return file;
}

/* Returns NULL with errno. */
static FILE *open_stamps(const struct ip_coarse_clock *p, int flags)
{
	int fd = openat(p->dirfd, IP_TRACE_STAMPS,
			flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);

	return fd < 0 ? NULL : as_file(fd, flags == O_RDONLY ? "r" : flags & O_APPEND ? "a" : "w");
}

/* Goes on after an iprobe that was killed. Its last stamps, from the end of its last written run
 * on, are as late as the first refresh here. */
static void go_on(struct ip_coarse_clock *p)
{
	uint64_t last = p->area->clock->now;
	_cleanup_fclose_ FILE *in = last ? open_stamps(p, O_RDONLY) : NULL;
	struct run run;

	while (in && read_run(in, &run)) {
		p->stamp = run.to + 1;
		if (run.width > p->stats.latest)
			p->stats.latest = run.width;
	}
	if (!p->stamp)
		return;
	p->stats.refreshes = 1;
	refresh(p);
	p->run.to = last > p->run.from ? last : p->run.from;
	end_run(p);
}

/* Makes the new file beside the old one, which it will replace. Returns NULL with errno. */
static FILE *make_new(const struct ip_coarse_clock *p)
{
	int fd;

	unlinkat(p->dirfd, NEW, 0); /* left by an iprobe that was killed */
	fd = ip_file_make(p->dirfd, NEW, O_WRONLY);
	return fd < 0 ? NULL : as_file(fd, "w");
}

static void destroy(struct ip_coarse_clock *p)
{
	if (p->out)
		fclose(p->out);
	if (p->loadavg >= 0)
		close(p->loadavg);
	pthread_mutex_destroy(&p->writing);
	if (p->dirfd >= 0)
		close(p->dirfd);
	free(p);
}

int ip_coarse_clock_start(struct ip_area *area, int dirfd, struct ip_coarse_clock **ret)
{
	struct ip_coarse_clock *p = calloc(1, sizeof(*p));
	sigset_t all, before;
	int error;

	if (!p)
		return ip_error("out of memory");
	pthread_mutex_init(&p->writing, NULL);
	p->area = area;
	p->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
	p->loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	ip_coarse_interval_begin(&p->interval, sysconf(_SC_NPROCESSORS_ONLN));
	p->out = p->dirfd < 0 ? NULL
			      : open_stamps(p, O_WRONLY | O_CREAT |
						       (area->clock->now ? O_APPEND : O_TRUNC));
	if (!p->out) {
		ip_error_errno("cannot write " IP_TRACE_STAMPS " of the trace");
		destroy(p);
		return -1;
	}
	unlinkat(p->dirfd, NEW, 0); /* left by an iprobe that was killed */
	go_on(p);
	refresh(p);
	/* Write the first run at once: if iprobe is killed, the next iprobe goes on from there. */
	refresh(p);
	end_run(p);
	sigfillset(&all); /* signals are for the main thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&p->thread, NULL, run, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		destroy(p);
		return ip_error("cannot start the thread that keeps coarse time (%s)",
				strerror(error));
	}
	*ret = p;
	return 0;
}

static void copy_runs(FILE *in, FILE *out)
{
	struct run run;

	clearerr(in);
	while (read_run(in, &run))
		write_run(out, &run);
}

void ip_coarse_clock_condense(struct ip_coarse_clock *p, uint64_t before)
{
	_cleanup_fclose_ FILE *in = open_stamps(p, O_RDONLY), *out = NULL;
	struct run all = {0}, run;
	unsigned n = 0;
	bool more;

	if (!in)
		return;
	while ((more = read_run(in, &run)) && run.to < before) {
		if (!n++)
			all.from = run.from;
		all.to = run.to;
		if (run.width > all.width)
			all.width = run.width;
	}
	if (n < 2)
		return;
	/* C1 */
	out = make_new(p);
	if (!out)
		return;
	write_run(out, &all);
	if (more)
		write_run(out, &run);
	copy_runs(in, out);
	/* C2 */
	pthread_mutex_lock(&p->writing);
	copy_runs(in, out);
	if (fflush(out) == 0 && !ferror(out) &&
	    renameat(p->dirfd, NEW, p->dirfd, IP_TRACE_STAMPS) == 0) {
		FILE *old = p->out;

		p->out = out;
		out = old;
	} else {
		unlinkat(p->dirfd, NEW, 0);
	}
	pthread_mutex_unlock(&p->writing);
}

/* Returns the width that 99 % of the time stays within: a power of two, or the largest width. */
static uint64_t usual_width(const struct ip_coarse_clock *p)
{
	uint64_t all = 0, sum = 0;
	unsigned i = 0;

	for (unsigned k = 0; k <= 64; k++)
		all += p->weight[k];
	while (i < 63 && (sum += p->weight[i]) < all - all / 100)
		i++;
	return 1ull << i < p->stats.latest ? 1ull << i : p->stats.latest;
}

void ip_coarse_clock_stop(struct ip_coarse_clock *p, struct ip_coarse_clock_stats *ret)
{
	struct timespec t = {0};
	clockid_t clock;

	if (!p)
		return;
	if (pthread_getcpuclockid(p->thread, &clock) == 0)
		clock_gettime(clock, &t);
	atomic_store(&p->stop, true);
	pthread_join(p->thread, NULL);
	refresh(p);
	end_run(p);
	look(p);
	p->stats.cpu_ns = t.tv_sec * 1000000000ull + t.tv_nsec;
	p->stats.late = usual_width(p);
	if (ret)
		*ret = p->stats;
	destroy(p);
}
