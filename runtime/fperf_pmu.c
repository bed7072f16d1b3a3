/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the kernel. A thread opens them at its first sample, for itself alone, and reads them
 * in its hooks.
 *
 * The program may do what it wants with its descriptors: close all of them (close_range, as daemons
 * do), put others in their place, or run out of them. So:
 *   1. Opening. perf_event_open gives the lowest free number. The descriptor is moved up at once
 *      (LOW). So what the program opens gets the numbers that it would have got, except for what
 *      another thread opens in these microseconds. That thread may also put a file of its own at
 *      this number (dup2, close_range). Therefore a number is closed, and a copy kept, only after
 *      it has answered with the counter's number. exec closes the descriptors. They take no more
 *      than a part of the program's limit (SHARE).
 *   2. The page of each counter is mapped, if the counter belongs to a PMU. If the kernel lets all
 *      of them be read there by rdpmc, the descriptors are closed: a mapping keeps the counter
 *      alive. From then on the runtime has nothing in the table of descriptors, and reading takes
 *      no system call.
 *   3. Otherwise counters are read by read(2), by one call for all if they are a group. Before each
 *      use the descriptor is asked for the number of its counter (PERF_EVENT_IOC_ID; this is an
 *      error for any other file, and changes nothing there). Numbers never repeat. So the
 *      descriptor is either the runtime's, or it is not touched. The data that was read names the
 *      counters once more. One case is not prevented: a thread closes the descriptor and puts
 *      another file at its number by dup2, in the same microsecond, between the question and the
 *      reading or closing.
 *   4. If a descriptor is gone, all descriptors that still belong to counters are closed. They are
 *      opened anew at the next sample. A sample that is open then has no values of these counters.
 *   5. fork: the counters count this thread alone (no inherit). A child has no hooks. A child that
 *      shares the memory (vfork) is not tid: it opens and closes no counter.
 *   6. The thread ends without notice. What it held stays noted in its block. The next thread that
 *      takes the block closes it first; iprobe closes what is left at the end (fperf/pmu.c). exec
 *      closes what another image of the process has opened.
 *
 * The kernel multiplexes counters if there are more than the PMU has room for. A counter that was
 * not on the PMU during the whole sample has no value; or it has a scaled one, if the user asked
 * for that.
 */
#include "runtime/fperf_pmu.h"

#include <linux/perf_event.h>

#include "runtime/arch/cpu.h"
#include "runtime/rt.h"

#define PAGE 4096ul
#define LOW  512 /* descriptors are moved to this number, or to half of the limit */
/* no more than one in this many descriptors of the limit is the runtime's */
#define SHARE	     8
#define READ_TRIES   64
#define RLIMIT_FILES 7
#define DUP_CLOEXEC  1030 /* F_DUPFD_CLOEXEC */
#define EINTR	     4
#define EMFILE	     24

#define FAILED(ret) ((unsigned long)(ret) > -4096ul)

/* Identifies this image of the process. */
static uint64_t image;

static uint64_t this_image(void)
{
	uint64_t none = 0;

	if (!image)
		__atomic_compare_exchange_n(&image, &none, cpu_clock() | 1, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	return image;
}

static uint32_t counters_of(const struct ip_pmu_set *set)
{
	uint32_t n = *(const volatile uint32_t *)&set->ncounters,
		 most = *(volatile uint32_t *)&rt_private.fperf_counters;

	most = most < IP_PMU_COUNTERS ? most : IP_PMU_COUNTERS;
	return n < most ? n : most;
}

static uint64_t id_of(long fd)
{
	uint64_t id = 0;

	return cpu_syscall(SYS_ioctl, fd, PERF_EVENT_IOC_ID, &id, 0) == 0 ? id : 0;
}

/* Pages of counters that this process has mapped. An address that the area gives is compared with
 * them before it is used. A page is stored by its address, in the next free place. 1: the place was
 * used and is free again. */
#define PAGES	   8192u
#define PAGES_NEAR 32u

static uint64_t pages[PAGES];

static uint64_t *place_of(uint64_t page, uint64_t what)
{
	for (uint32_t i = 0; page && i < PAGES_NEAR; i++) {
		uint64_t *place = &pages[(page / PAGE + i) % PAGES], there = cpu_load_word(place);

		if (there == what || (there == 1 && !what))
			return place;
	}
	return NULL;
}

int rt_pmu_note_page(uint64_t page)
{
	for (uint64_t *place; (place = place_of(page, 0));) {
		uint64_t there = cpu_load_word(place);

		if (there <= 1 && __atomic_compare_exchange_n(place, &there, page, 0,
							      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return 1;
	}
	return 0;
}

int rt_pmu_forget_page(uint64_t page)
{
	uint64_t *place = place_of(page, page);

	return place &&
	       __atomic_compare_exchange_n(place, &page, 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Step 3. */
static int is_ours(const struct ip_pmu_held *h)
{
	return h->fd >= 0 && h->id && id_of(h->fd) == h->id;
}

static void close_fd(struct ip_pmu_held *h)
{
	if (is_ours(h))
		cpu_syscall(SYS_close, h->fd, 0, 0, 0);
	h->fd = -1;
}

static void unmap(struct ip_pmu_held *h)
{
	uint64_t page = cpu_load_word(&h->page);

	if (rt_pmu_forget_page(page))
		cpu_syscall(SYS_munmap, page, PAGE, 0, 0);
	h->page = 0;
}

static void forget(struct ip_pmu_thread *t)
{
	for (uint32_t i = 0; i < IP_PMU_COUNTERS; i++)
		t->held[i] = (struct ip_pmu_held){.fd = -1};
}

void rt_pmu_close(struct ip_pmu_thread *t)
{
	if (t->image == this_image())
		for (uint32_t i = 0; i < IP_PMU_COUNTERS; i++) {
			unmap(&t->held[i]);
			close_fd(&t->held[i]);
		}
	forget(t);
	cpu_store_order();
	t->state = IP_PMU_NONE;
}

static uint64_t limit_of_files(void)
{
	uint64_t limit[2] = {0, 0};

	cpu_syscall(SYS_prlimit64, 0, RLIMIT_FILES, 0, limit);
	return limit[0];
}

static void close_counter(long fd, uint64_t id)
{
	if (id_of(fd) == id)
		cpu_syscall(SYS_close, fd, 0, 0, 0);
}

/* Step 1. Returns the descriptor, and the number of its counter; or an error. EINTR: another thread
 * has put something else at the low number in the meantime. */
static long move_up(long fd, uint64_t limit, uint64_t *ret_id)
{
	uint64_t id = id_of(fd), from = limit / 2 < LOW ? limit / 2 : LOW;
	long up;

	if (!id)
		return -EINTR;
	up = cpu_syscall(SYS_fcntl, fd, DUP_CLOEXEC, from, 0);
	close_counter(fd, id);
	if (!FAILED(up) && id_of(up) != id) {
		/* a copy of a file of the program */
		cpu_syscall(SYS_close, up, 0, 0, 0);
		return -EINTR;
	}
	if (!FAILED(up) && (uint64_t)up >= from + limit / SHARE) {
		close_counter(up, id);
		return -EMFILE;
	}
	*ret_id = id;
	return up;
}

/* Whether the counters are one group. In a group only the tick updates a clock, unless the clock is
 * the leader (seen on Linux 6.18). If there is a clock, each counter is by itself. */
static int is_group(const struct ip_pmu_set *set)
{
	int group = !set->scale;

	for (uint32_t i = 0; i < counters_of(set); i++)
		group &= set->counters[i].type != PERF_TYPE_SOFTWARE ||
			 (set->counters[i].config != PERF_COUNT_SW_TASK_CLOCK &&
			  set->counters[i].config != PERF_COUNT_SW_CPU_CLOCK);
	return group;
}

/* leader: -1: the counter joins no group. */
static long open_counter(const struct ip_pmu_counter *c, int group, long leader)
{
	struct perf_event_attr attr;

	cpu_zero(&attr, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = c->type;
	attr.config = c->config;
	attr.config1 = c->config1;
	attr.config2 = c->config2;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING |
			   PERF_FORMAT_ID | (group ? PERF_FORMAT_GROUP : 0);
	attr.exclude_user = (c->exclude & IP_PMU_NO_USER) != 0;
	attr.exclude_kernel = (c->exclude & IP_PMU_NO_KERNEL) != 0;
	attr.exclude_hv = (c->exclude & IP_PMU_NO_HV) != 0;
	return cpu_syscall6(SYS_perf_event_open, (long)&attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC,
			    0);
}

/* Returns 0, or an errno. */
static int hold(const struct ip_pmu_set *set, struct ip_pmu_thread *t, uint32_t i, int group,
		uint64_t limit)
{
	struct ip_pmu_held *h = &t->held[i];
	long fd = open_counter(&set->counters[i], group, group ? t->held[0].fd : -1);
	uint64_t id = 0;

	if (!FAILED(fd))
		fd = move_up(fd, limit, &id);
	if (FAILED(fd))
		return -fd;
	/* from here on the thread that finds it can close it */
	h->fd = fd;
	cpu_store_order();
	h->id = id;
	return 0;
}

static int is_of_a_pmu(uint32_t type)
{
	return type != PERF_TYPE_SOFTWARE && type != PERF_TYPE_TRACEPOINT &&
	       type != PERF_TYPE_BREAKPOINT;
}

static int may_rdpmc(const struct ip_pmu_held *h)
{
	uint64_t page = cpu_load_word(&h->page);

	return place_of(page, page) &&
	       ((const volatile struct perf_event_mmap_page *)(uintptr_t)page)->cap_user_rdpmc;
}

/* Step 2: whether all counters can now be read without a descriptor. */
static int map_pages(const struct ip_pmu_set *set, struct ip_pmu_thread *t, uint32_t n)
{
	int all = 1;

	for (uint32_t i = 0; i < n && all; i++)
		all = CPU_READS_PMCS && is_of_a_pmu(set->counters[i].type);
	for (uint32_t i = 0; i < n && all; i++) {
		long page = cpu_syscall6(CPU_SYS_MMAP, 0, PAGE, 1 /* PROT_READ */,
					 1 /* MAP_SHARED */, t->held[i].fd, 0);

		if (!FAILED(page) && !rt_pmu_note_page(page)) {
			cpu_syscall(SYS_munmap, page, PAGE, 0, 0);
			page = 0;
		}
		t->held[i].page = FAILED(page) ? 0 : page;
		all = may_rdpmc(&t->held[i]);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (all)
			close_fd(&t->held[i]);
		else
			unmap(&t->held[i]);
	}
	return all;
}

static void open_all(const struct ip_pmu_set *set, struct ip_pmu_thread *t, uint32_t tid)
{
	uint32_t n = counters_of(set);
	uint64_t limit = limit_of_files();
	int group = is_group(set);

	t->image = this_image();
	t->tid = tid;
	forget(t);
	cpu_store_order();
	t->state = IP_PMU_OPENING;
	for (uint32_t i = 0; i < n; i++) {
		int error = hold(set, t, i, group, limit);

		if (!error)
			continue;
		rt_pmu_close(t);
		if (error == EINTR) /* a signal came first: try again at the next sample */
			return;
		t->failed = i;
		t->error = error;
		t->state = IP_PMU_FAILED;
		return;
	}
	t->generation++;
	n = map_pages(set, t, n) ? IP_PMU_PAGES : group ? IP_PMU_GROUP : IP_PMU_SINGLE;
	cpu_store_order();
	t->state = n;
}

int rt_pmu_ready(const struct ip_pmu_set *set, struct ip_pmu_thread *t, uint32_t tid)
{
	int stale =
		t->state && (t->state == IP_PMU_LEFT || t->tid != tid || t->image != this_image());

	if (stale || t->state == IP_PMU_NONE) {
		/* step 5 */
		if (cpu_syscall(SYS_gettid, 0, 0, 0, 0) != tid)
			return 0;
		if (stale) {
			rt_pmu_close(t);
			t->error = 0;
		}
		if (t->state == IP_PMU_NONE)
			open_all(set, t, tid);
	}
	return t->state >= IP_PMU_PAGES && t->state <= IP_PMU_SINGLE;
}

/* As linux/perf_event.h describes. */
static int read_page(const struct ip_pmu_held *h, struct ip_pmu_mark *m)
{
	uint64_t page = cpu_load_word(&h->page);
	const volatile struct perf_event_mmap_page *p =
		(const volatile struct perf_event_mmap_page *)(uintptr_t)page;

	if (!place_of(page, page))
		return 0;
	for (unsigned i = 0; i < READ_TRIES; i++) {
		uint32_t lock = p->lock, index, shift = 0, mult = 0, width;
		uint64_t cycles = 0, offset = 0, delta;
		int timed;

		cpu_load_order();
		m->enabled = p->time_enabled;
		m->running = p->time_running;
		timed = p->cap_user_time;
		if (timed) {
			cycles = cpu_clock();
			offset = p->time_offset;
			mult = p->time_mult;
			shift = p->time_shift;
		}
		index = p->index;
		m->value = p->offset;
		width = p->pmc_width;
		/* it is on another PMU now, or off: offset is the whole value */
		if (index && (!p->cap_user_rdpmc || !width || width > 64))
			return 0;
		if (index)
			m->value += (uint64_t)((int64_t)(cpu_read_pmc(index - 1) << (64 - width)) >>
					       (64 - width));
		cpu_load_order();
		if (p->lock != lock)
			continue;
		/* if it is off, nothing tells for how long */
		if (!index && !timed)
			return 0;
		if (timed) {
			delta = offset + (cycles >> shift) * mult +
				(((cycles & ((1ull << shift) - 1)) * mult) >> shift);
			m->enabled += delta;
			m->running += index ? delta : 0;
		}
		return 1;
	}
	return 0;
}

static int read_group(const struct ip_pmu_thread *t, uint32_t n, struct ip_pmu_mark *marks)
{
	uint64_t got[3 + 2 * IP_PMU_COUNTERS];
	long bytes = (3 + 2 * n) * sizeof(*got);

	if (!is_ours(&t->held[0]) || cpu_syscall(SYS_read, t->held[0].fd, got, bytes, 0) != bytes ||
	    got[0] != n)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (got[4 + 2 * i] != t->held[i].id)
			return 0;
		marks[i] = (struct ip_pmu_mark){
			.value = got[3 + 2 * i], .enabled = got[1], .running = got[2]};
	}
	return 1;
}

static int read_single(const struct ip_pmu_held *h, struct ip_pmu_mark *m)
{
	uint64_t got[4];

	if (!is_ours(h) || cpu_syscall(SYS_read, h->fd, got, sizeof(got), 0) != sizeof(got) ||
	    got[3] != h->id)
		return 0;
	*m = (struct ip_pmu_mark){.value = got[0], .enabled = got[1], .running = got[2]};
	return 1;
}

void rt_pmu_read(const struct ip_pmu_set *set, struct ip_pmu_thread *t, struct rt_pmu_reading *ret)
{
	uint32_t n = counters_of(set), state = t->state;
	int good = state >= IP_PMU_PAGES && state <= IP_PMU_SINGLE;

	ret->ncounters = n;
	if (good && state == IP_PMU_GROUP)
		good = read_group(t, n, ret->marks);
	for (uint32_t i = 0; good && state != IP_PMU_GROUP && i < n; i++)
		good = state == IP_PMU_PAGES ? read_page(&t->held[i], &ret->marks[i])
					     : read_single(&t->held[i], &ret->marks[i]);
	ret->generation = good ? t->generation : 0;
	/* Step 4. A child that shares the memory (vfork) may have closed only its own copies. */
	if (!good && (state == IP_PMU_GROUP || state == IP_PMU_SINGLE) &&
	    cpu_syscall(SYS_gettid, 0, 0, 0, 0) == t->tid) {
		t->gone++;
		rt_pmu_close(t);
	}
}

void rt_pmu_note(const struct ip_pmu_set *set, struct ip_pmu_thread *t, uint32_t frame,
		 const struct rt_pmu_reading *reading)
{
	uint32_t n = counters_of(set);

	frame %= IP_FPERF_DEPTH;
	t->generations[frame] = reading->generation;
	for (uint32_t i = 0; i < n && i < reading->ncounters; i++)
		t->marks[frame * n + i] = reading->marks[i];
}

/* Computes what a counter has counted, in *ret. Returns 1 if it counted all the time, 2 if the
 * value is scaled, 0 if it did not count all the time. A counter that was not even enabled has been
 * switched off by the program (PR_TASK_PERF_EVENTS_DISABLE does that to all counters of a thread);
 * pages may not tell so. */
static int difference(const struct ip_pmu_set *set, int tells, const struct ip_pmu_mark *from,
		      const struct ip_pmu_mark *to, uint64_t *ret)
{
	uint64_t enabled = to->enabled - from->enabled, running = to->running - from->running,
		 factor;

	*ret = to->value - from->value;
	if (enabled == running)
		return enabled || !tells;
	if (!set->scale || !running || running > enabled || *ret >> 40)
		return 0;
	/* in units of 1 / 2^16: the shorter it ran, the less its count is worth anyway */
	factor = enabled >> 47 ? 0 : (enabled << 16) / running;
	if (!factor || factor >> 24)
		return 0;
	*ret = *ret * factor >> 16;
	return 2;
}

void rt_pmu_since(const struct ip_pmu_set *set, const struct ip_pmu_thread *t, uint32_t frame,
		  const struct rt_pmu_reading *now, struct rt_pmu_values *ret)
{
	uint32_t n = counters_of(set), off = 0, scaled = 0;
	uint64_t more[IP_PMU_COUNTERS];

	frame %= IP_FPERF_DEPTH;
	ret->missing = ret->scaled = 0;
	if (!now->generation || now->generation != t->generations[frame]) {
		ret->missing = ~0u;
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		int whole = difference(set, t->state != IP_PMU_PAGES, &t->marks[frame * n + i],
				       &now->marks[i], &more[i]);

		off |= !whole << i;
		scaled |= (whole == 2) << i;
	}
	for (uint32_t e = 0; e < set->nevents && e < IP_FPERF_EVENTS; e++) {
		uint32_t uses = set->events[e].uses;

		ret->value[e] = 0;
		for (uint32_t i = 0; i < n; i++)
			if (uses >> i & 1)
				ret->value[e] +=
					more[i] * (uint64_t)(int64_t)set->events[e].weights[i];
		ret->missing |= ((uses & off) != 0) << e;
		ret->scaled |= ((uses & scaled) != 0) << e;
	}
}
