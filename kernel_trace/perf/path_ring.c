/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the ring of paths. path_ring.h has the protocol.
 */
#include "kernel_trace/perf/path_ring.h"

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/arch/x86_64/tsc.h"
#include "common/error.h"
#include "kernel_trace/perf/bpf_program.h"
#include "kernel_trace/perf/path_program.h"
#include "kernel_trace/perf/perf_clock.h"
#include "kernel_trace/perf/thread_filter.h"

#define SIZE (2u << 20) /* some 20,000 paths, five times a second */
#define NS   1000000000ull

struct ip_path_ring {
	const struct ip_thread_filter *threads;
	struct ip_thread_filter *own; /* NULL: they are another's */
	int ring, dropped, program;
	uint64_t *consumer; /* how far it was read; a page */
	uint8_t *producer;  /* a page with how far it was written, then the data, twice */
	size_t page;
	struct ip_perf_clock clock;
	uint64_t told;	  /* dropped records */
	uint64_t counted; /* when, or a moment before */
};

/* As ip_perf_clock_read(), of the clock that programs can read. */
static uint64_t read_clock(uint64_t *ret_ns, uint64_t *ret_tsc)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < 10; i++) {
		const uint64_t before = ip_tsc();
		struct timespec t;
		uint64_t within;

		clock_gettime(CLOCK_MONOTONIC, &t);
		within = ip_tsc() - before;
		if (within >= best)
			continue;
		best = within;
		*ret_tsc = before + within / 2;
		*ret_ns = t.tv_sec * NS + t.tv_nsec;
	}
	return best;
}

static int map(struct ip_path_ring *r)
{
	void *consumer, *producer;

	r->page = sysconf(_SC_PAGESIZE);
	consumer = mmap(NULL, r->page, PROT_READ | PROT_WRITE, MAP_SHARED, r->ring, 0);
	if (consumer == MAP_FAILED)
		return ip_error_errno("cannot map the ring of paths");
	r->consumer = consumer;
	producer = mmap(NULL, r->page + 2 * SIZE, PROT_READ, MAP_SHARED, r->ring, r->page);
	if (producer == MAP_FAILED)
		return ip_error_errno("cannot map the ring of paths");
	r->producer = producer;
	return 0;
}

static int make(struct ip_path_ring *r, const struct ip_event_layout *layout)
{
	r->clock.read = read_clock;
	if (ip_perf_clock_begin(&r->clock) < 0)
		return -1;
	if (!r->threads)
		r->threads = r->own = ip_thread_filter_create(layout);
	r->ring = r->threads ? ip_bpf_map(BPF_MAP_TYPE_RINGBUF, 0, SIZE, 0) : -1;
	if (r->ring < 0 || map(r) < 0)
		return -1;
	r->dropped = ip_bpf_map(BPF_MAP_TYPE_ARRAY, sizeof(uint64_t), 1, 0);
	if (r->dropped < 0)
		return -1;
	r->program = ip_path_program_attach(r->threads, r->ring, r->dropped);
	return r->program < 0 ? -1 : 0;
}

struct ip_path_ring *ip_path_ring_create(const struct ip_event_layout *layout,
					 struct ip_thread_filter *threads)
{
	struct ip_path_ring *r = calloc(1, sizeof(*r));

	if (!r) {
		ip_error("out of memory");
		return NULL;
	}
	r->ring = r->dropped = r->program = -1;
	r->counted = ip_tsc();
	r->threads = threads;
	if (make(r, layout) == 0)
		return r;
	ip_path_ring_destroy(r);
	return NULL;
}

static void close_all(const struct ip_path_ring *r)
{
	const int fds[] = {r->program, r->ring, r->dropped};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (r->consumer)
		munmap(r->consumer, r->page);
	if (r->producer)
		munmap(r->producer, r->page + 2 * SIZE);
}

void ip_path_ring_leave(const struct ip_path_ring *r)
{
	if (!r)
		return;
	close_all(r);
	if (r->own)
		ip_thread_filter_leave(r->own);
}

void ip_path_ring_destroy(struct ip_path_ring *r)
{
	if (!r)
		return;
	close_all(r);
	ip_thread_filter_destroy(r->own);
	free(r);
}

int ip_path_ring_add(struct ip_path_ring *r, pid_t pid)
{
	return r->own ? ip_thread_filter_add(r->own, pid) : 0;
}

/* What had no room came behind the count before, and before this one. */
static int tell_gap(struct ip_path_ring *r,
		    int (*take)(void *context, const struct ip_call_path *path), void *context)
{
	struct ip_call_path gap = {.tsc = r->counted};
	const uint64_t before = ip_tsc();
	uint64_t dropped = 0;
	bool is_gap;

	ip_bpf_map_get(r->dropped, 0, &dropped);
	gap.address = ip_tsc();
	is_gap = dropped != r->told;
	r->counted = before;
	r->told = dropped;
	return is_gap ? take(context, &gap) : 0;
}

int ip_path_ring_drain(struct ip_path_ring *r,
		       int (*take)(void *context, const struct ip_call_path *path), void *context)
{
	const uint64_t end = __atomic_load_n((uint64_t *)r->producer, __ATOMIC_ACQUIRE);
	uint64_t at = *r->consumer;
	int ret = 0;

	while (at < end && ret >= 0) {
		const uint8_t *place = r->producer + r->page + at % SIZE;
		const uint32_t head = __atomic_load_n((const uint32_t *)place, __ATOMIC_ACQUIRE);
		const uint32_t size = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
		const struct ip_path_record *record =
			(const struct ip_path_record *)(place + BPF_RINGBUF_HDR_SZ);

		if (head & BPF_RINGBUF_BUSY_BIT)
			break;
		if (!(head & BPF_RINGBUF_DISCARD_BIT)) {
			const struct ip_call_path path = {
				.tsc = ip_perf_clock_tsc(&r->clock, record->ns),
				.address = record->address,
				.tid = record->tid,
				.number = record->number,
				.argument = record->argument,
				.text = size > offsetof(struct ip_path_record, text) ? record->text
										     : NULL};

			ret = take(context, &path);
		}
		at += (size + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
		__atomic_store_n(r->consumer, at, __ATOMIC_RELEASE);
	}
	if (ret >= 0)
		ret = tell_gap(r, take, context);
	return ret < 0 ? ret : 0;
}
