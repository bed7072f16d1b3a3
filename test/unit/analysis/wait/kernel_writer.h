/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the kernel that unit tests write, and what the analysis makes of them.
 */
#ifndef TEST_KERNEL_WRITER_H
#define TEST_KERNEL_WRITER_H

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "analysis/wait/thread_states.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

#define CPUS 400u /* more than streams stay open */

/* The streams of a test: packets of CPU 0 and 1, and of the target on CPU 0. */
struct writer {
	struct ip_dir_place place;
	char path[PATH_MAX];
	int dir;
	uint8_t packet[65536];
	uint32_t used;
	uint64_t begin, end, packets[CPUS], lost;
};

static inline int setup(void **state)
{
	struct writer *w = calloc(1, sizeof(*w));
	int made;

	assert_non_null(w);
	made = ip_dir_make_temporary("/tmp", "test-states", &w->place);
	assert_true(made >= 0);
	snprintf(w->path, sizeof(w->path), "/tmp/%s", w->place.name);
	assert_int_equal(mkdirat(made, IP_KERNEL_SUBDIR, 0700), 0);
	w->dir = openat(made, IP_KERNEL_SUBDIR, O_DIRECTORY | O_CLOEXEC);
	assert_true(w->dir >= 0);
	close(made);
	*state = w;
	return 0;
}

static inline int teardown(void **state)
{
	struct writer *w = *state;

	close(w->dir);
	ip_dir_remove(w->place.parent, w->place.name);
	ip_dir_place_close(&w->place);
	free(w);
	return 0;
}

static inline void put(struct writer *w, unsigned id, uint64_t tsc, int32_t tid, uint8_t context,
		       const void *fields, size_t size)
{
	struct ip_kernel_event_header h = {.id = id, .tsc = tsc, .tid = tid, .context = context};

	assert_int_equal(ip_kernel_fields_size(id), size);
	if (!w->used) {
		w->used = sizeof(struct ip_kernel_packet_header);
		w->begin = tsc;
	}
	memcpy(w->packet + w->used, &h, sizeof(h));
	memcpy(w->packet + w->used + sizeof(h), fields, size);
	w->used += sizeof(h) + size;
	w->end = tsc;
}

/* The events become a packet of a stream. */
static inline void flush(struct writer *w, const char *part, uint32_t cpu)
{
	struct ip_kernel_packet_header h = {.magic = IP_CTF_MAGIC,
					    .timestamp_begin = w->begin,
					    .timestamp_end = w->end,
					    .content_size = w->used * 8ull,
					    .packet_size = w->used * 8ull,
					    .packet_seq_num = w->packets[cpu]++,
					    .events_discarded = w->lost,
					    .cpu_id = cpu};
	char name[32];
	int fd;

	memcpy(w->packet, &h, sizeof(h));
	snprintf(name, sizeof(name), "%s_%u", part, cpu);
	fd = openat(w->dir, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, w->packet, w->used), w->used);
	close(fd);
	w->used = 0;
}

static inline void switch_to(struct writer *w, uint64_t tsc, int32_t prev, int64_t state,
			     int32_t next)
{
	struct {
		char prev_comm[16];
		int32_t prev_tid, prev_prio;
		int64_t prev_state;
		char next_comm[16];
		int32_t next_tid, next_prio;
	} __attribute__((packed)) fields = {"prev", prev, 120, state, "next", next, 120};

	put(w, IP_KERNEL_SCHED_SWITCH, tsc, prev, 0, &fields, sizeof(fields));
}

static inline void wake(struct writer *w, unsigned id, uint64_t tsc, int32_t by, int32_t tid,
			uint8_t context)
{
	struct {
		char comm[16];
		int32_t tid, prio, cpu;
	} __attribute__((packed)) fields = {"woken", tid, 120, 0};

	put(w, id, tsc, by, context, &fields, sizeof(fields));
}

static inline void call2(struct writer *w, uint64_t tsc, int32_t tid, unsigned number,
			 uint64_t argument, uint64_t second)
{
	uint64_t arguments[6] = {argument, second};

	put(w, IP_KERNEL_SYSCALL_ENTRY + number, tsc, tid, 0, arguments,
	    ip_kernel_fields_size(IP_KERNEL_SYSCALL_ENTRY + number));
}

static inline void call(struct writer *w, uint64_t tsc, int32_t tid, unsigned number,
			uint64_t argument)
{
	call2(w, tsc, tid, number, argument, 0);
}

static inline void futex(struct writer *w, uint64_t tsc, int32_t tid, uint64_t word,
			 unsigned operation, uint32_t value)
{
	const uint64_t arguments[6] = {word, operation | FUTEX_PRIVATE_FLAG, value};

	put(w, IP_KERNEL_SYSCALL_ENTRY + SYS_futex, tsc, tid, 0, arguments, sizeof(arguments));
}

static inline void ret(struct writer *w, uint64_t tsc, int32_t tid, unsigned number, int64_t result)
{
	put(w, IP_KERNEL_SYSCALL_EXIT + number, tsc, tid, 0, &result, sizeof(result));
}

static inline struct ip_states *states_of(struct writer *w)
{
	struct ip_kernel_reader *reader;
	struct ip_states *states;

	assert_int_equal(ip_kernel_reader_open(w->path, &reader), 1);
	states = ip_states_read(reader);
	assert_non_null(states);
	assert_null(*ip_kernel_reader_damage(reader));
	ip_kernel_reader_close(reader);
	return states;
}

/* The state of a thread at a time. */
static inline const struct ip_thread_span *span(const struct ip_states *states, int32_t tid,
						uint64_t tsc)
{
	const struct ip_thread_states *t = ip_states_find(states, tid, tsc);
	size_t i;

	assert_non_null(t);
	i = ip_states_span_at(t, tsc);
	assert_true(i < t->nspans);
	return &t->spans[i];
}

static inline const struct ip_thread_wait *wait_at(const struct ip_states *states, int32_t tid,
						   uint64_t tsc)
{
	const struct ip_thread_span *s = span(states, tid, tsc);

	assert_int_equal(s->state, IP_THREAD_BLOCKED);
	return &ip_states_find(states, tid, tsc)->waits[s->wait];
}

#endif
