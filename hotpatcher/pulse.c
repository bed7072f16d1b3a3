/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One refresh:
 *
 *   1. Read the TSC: v.
 *   2. Store v in the line. The store is done, and every processor sees it, before step 3 begins.
 *   3. Read the TSC again: w.
 *
 * An event with stamp v took it from the line: not before the store of v, so not before v; and before it saw the next stamp v', so not
 * after w'. So its true time lies in [v, w'], however long we were kept from running in between. Who takes stamps late, because the
 * processor read ahead, is off by what it reads ahead, some 100 ns, with rdtsc as well.
 *
 * What is written down are runs of refreshes whose widths w' - v are all usual (below 2^USUAL ticks), or between the same two powers of two:
 * where they begin and end, and the widest. So nothing is assumed, and what is written grows with disturbances, not with time.
 *
 * We sleep in between (pulse_pace.h): for a short time while threads of the target record, for a longer one where that would take a CPU from
 * somebody, and for longer and longer ones while nobody takes stamps. The real-time priority, one above that of draining, is ours where we may
 * have it; where not, the widths tell.
 */
#include "hotpatcher/pulse.h"

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

#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace_format.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/clock.h"
#include "hotpatcher/pulse_pace.h"

#define LOAD_TICKS (1ull << 27) /* 52 ms at 2.6 GHz */
#define USUAL	   17		/* 50 us at 2.6 GHz */
#define WRITE                                                                                                \
	4096 /* refreshes after which a run is written down, lest an iprobe that is killed take it along */

struct ip_pulse {
	struct ip_area *area;
	FILE *out;
	pthread_t thread;
	atomic_bool stop;
	uint64_t stamp; /* v of the last refresh */
	uint64_t seen;	/* sum of what the slots have recorded and left out */
	struct ip_pulse_pace pace;
	int loadavg;	 /* /proc/loadavg; -1: not there */
	uint64_t loaded; /* stamp at which it was read last */
	struct {
		uint64_t from, to, width;
		unsigned class;
	} run;
	uint64_t weight[65]; /* ticks spent with widths of so many bits, where stamps were taken; */
	uint64_t since[65];  /* since the last look, which will tell whether they were */
	struct ip_pulse_stats stats;
};

static unsigned bits(uint64_t n)
{
	return n ? 64 - __builtin_clzll(n) : 0;
}

static void end_run(struct ip_pulse *p)
{
	if (p->run.width)
		fprintf(p->out, "%lu %lu %lu\n", p->run.from, p->run.to, p->run.width);
	p->run.width = 0;
}

/* The stamp at v may be so much too early. */
static void note(struct ip_pulse *p, uint64_t v, uint64_t width)
{
	unsigned class = bits(width) > USUAL ? bits(width) : 0;

	if (p->run.width && p->run.class != class)
		end_run(p);
	if (!p->run.width) {
		p->run.from = v;
		p->run.class = class;
	}
	p->run.to = v;
	if (width > p->run.width)
		p->run.width = width;
	if (width > p->stats.latest)
		p->stats.latest = width;
	p->since[bits(width)] += width;
}

static void refresh(struct ip_pulse *p)
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

/* Whether stamps were taken since the last look. */
static bool look(struct ip_pulse *p)
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

/* Threads that are running or waiting for a CPU, on the whole machine, us included; 0: not known, or it is not time to look again: reading it
 * takes longer than a refresh. */
static unsigned runnable(struct ip_pulse *p)
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

static uint64_t own_cpu_ns(void)
{
	struct timespec t = {0};

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void *run(void *data)
{
	const struct sched_param above = {.sched_priority = 2};
	struct ip_pulse *p = data;

	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &above);
	while (!atomic_load_explicit(&p->stop, memory_order_relaxed)) {
		const uint64_t ns = ip_pulse_pace_nap(&p->pace);
		const struct timespec nap = {.tv_nsec = ns};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		refresh(p);
		if (ip_pulse_pace_is_time(&p->pace))
			ip_pulse_pace_note(&p->pace, look(p), runnable(p), own_cpu_ns());
	}
	return NULL;
}

/* Of an iprobe that was killed: its last stamps are as late as we are, from the last run that it has written down on. */
static void go_on(struct ip_pulse *p, const char *path)
{
	uint64_t last = p->area->clock->now, from, to, width;
	_cleanup_fclose_ FILE *in = last ? fopen(path, "re") : NULL;

	while (in && fscanf(in, "%lu %lu %lu", &from, &to, &width) == 3) {
		p->stamp = to + 1;
		if (width > p->stats.latest)
			p->stats.latest = width;
	}
	if (!p->stamp)
		return;
	p->stats.refreshes = 1;
	refresh(p);
	p->run.to = last > p->run.from ? last : p->run.from;
	end_run(p);
}

static void destroy(struct ip_pulse *p)
{
	if (p->out)
		fclose(p->out);
	if (p->loadavg >= 0)
		close(p->loadavg);
	free(p);
}

int ip_pulse_start(struct ip_area *area, const char *dir, struct ip_pulse **ret)
{
	_cleanup_free_ char *path = NULL;
	struct ip_pulse *p = calloc(1, sizeof(*p));
	sigset_t all, before;
	int error;

	if (!p || asprintf(&path, "%s/%s", dir, IP_TRACE_STAMPS) < 0) {
		free(p);
		return ip_error("out of memory");
	}
	p->area = area;
	p->loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	ip_pulse_pace_begin(&p->pace, sysconf(_SC_NPROCESSORS_ONLN));
	p->out = fopen(path, area->clock->now ? "ae" : "we");
	if (!p->out) {
		ip_error_errno("cannot write %s", path);
		destroy(p);
		return -1;
	}
	setvbuf(p->out, NULL, _IOLBF, 0);
	go_on(p, path);
	refresh(p);
	/* the first run at once: if we are killed, who goes on reckons from there */
	refresh(p);
	end_run(p);
	sigfillset(&all); /* they are the main thread's */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&p->thread, NULL, run, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		destroy(p);
		return ip_error("cannot start the thread that keeps coarse time (%s)", strerror(error));
	}
	*ret = p;
	return 0;
}

/* What 99 % of the time are within: a power of two, or the widest. */
static uint64_t usual_width(const struct ip_pulse *p)
{
	uint64_t all = 0, sum = 0;
	unsigned i = 0;

	for (unsigned k = 0; k <= 64; k++)
		all += p->weight[k];
	while (i < 63 && (sum += p->weight[i]) < all - all / 100)
		i++;
	return 1ull << i < p->stats.latest ? 1ull << i : p->stats.latest;
}

void ip_pulse_stop(struct ip_pulse *p, struct ip_pulse_stats *ret)
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
