/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the kernel in a trace: an input is the text of descriptors, and behind it streams of
 * two CPUs and of the target, each with its length in front (32 bits). What is read is followed
 * through: the spans of a thread are in order, a wait has one object, and the critical path of an
 * interval covers it without gap and overlap. A thread works for one client at a time. What is told
 * of locks is no more than their times, and each moment of a wait for one has one holder. System
 * calls are put together: their parts are the whole, their text is cut off where the memory ends,
 * and sums have each of them once. Calls of the kernel's functions lie in each other or behind each
 * other, as far as their ends are known, and the stack machine shows all of them and ends each.
 *
 * covers: analysis/read/kernel_reader.c analysis/read/kernel_packets.c
 * covers: analysis/wait/states/thread_states.c
 * covers: analysis/wait/states/thread_spans.c analysis/wait/states/thread_calls.c
 * covers: analysis/wait/wait_object.c analysis/wait/descriptors/descriptors.c
 * covers: analysis/wait/critical_path.c
 * covers: analysis/wait/wait_chain.c analysis/wait/locks/lock_profile.c
 * covers: analysis/wait/locks/lock_holder.c
 * covers: analysis/syscalls/syscall_reader.c analysis/syscalls/syscall_sums.c
 * covers: analysis/syscalls/syscall_text.c analysis/syscalls/syscall_flags.c
 * covers: analysis/wait/clients/client_intervals.c analysis/wait/clients/client_connections.c
 * covers: analysis/wait/descriptors/descriptor_births.c
 * covers: analysis/read/kernel_calls.c analysis/callstack/frames_kernel.c
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "analysis/callstack/frames.h"
#include "analysis/read/kernel_calls.h"
#include "analysis/syscalls/syscall_flags.h"
#include "analysis/syscalls/syscall_reader.h"
#include "analysis/syscalls/syscall_sums.h"
#include "analysis/syscalls/syscall_text.h"
#include "analysis/wait/clients/client_intervals.h"
#include "analysis/wait/clients/client_sums.h"
#include "analysis/wait/critical_path.h"
#include "analysis/wait/descriptors/descriptor_births.h"
#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/locks/lock_holder.h"
#include "analysis/wait/locks/lock_profile.h"
#include "analysis/wait/thread_states.h"
#include "analysis/wait/wait_chain.h"
#include "analysis/wait/wait_object.h"
#include "common/dir.h"
#include "fuzz.h"

#define THREADS 16u

static struct ip_dir_place place;
static char path[PATH_MAX];

static void remove_directory(void)
{
	ip_dir_remove(place.parent, place.name);
}

static int directory(void)
{
	static int fd = -1;

	if (fd < 0) {
		int made = ip_dir_make_temporary("/tmp", "fuzz-kernel", &place);

		fuzz_assert(made >= 0);
		atexit(remove_directory);
		snprintf(path, sizeof(path), "/tmp/%s", place.name);
		fuzz_assert(mkdirat(made, "kernel", 0700) == 0);
		fuzz_assert(mkdirat(made, "iprobe", 0700) == 0);
		fd = openat(made, "kernel", O_DIRECTORY | O_CLOEXEC);
		close(made);
	}
	fuzz_assert(fd >= 0);
	return fd;
}

/* Takes the next part of the input. */
static const uint8_t *take(const uint8_t **data, size_t *size, uint32_t *ret)
{
	const uint8_t *at;

	if (*size < 4)
		return NULL;
	memcpy(ret, *data, 4);
	if (*ret > *size - 4)
		*ret = *size - 4;
	at = *data + 4;
	*data += 4 + *ret;
	*size -= 4 + *ret;
	return at;
}

static void write_file(const char *name, const uint8_t *data, uint32_t size)
{
	int fd = openat(directory(), name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	fuzz_assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void check_path(const struct ip_states *states, const struct ip_thread_states *t)
{
	const uint64_t from = states->begin, to = states->end;
	struct ip_path_step *steps;
	uint64_t at = from;
	size_t n;

	fuzz_assert(ip_critical_path_find(states, t, from, to, &steps, &n) == 0);
	for (size_t i = 0; i < n; i++) {
		fuzz_assert(steps[i].from == at && steps[i].to > at && steps[i].to <= to);
		fuzz_assert(steps[i].depth <= IP_PATH_DEPTH_MAX);
		fuzz_assert(steps[i].state != IP_THREAD_BLOCKED ||
			    steps[i].wait < steps[i].thread->nwaits);
		at = steps[i].to;
	}
	fuzz_assert(!t->nspans || at == to);
	free(steps);
}

static uint32_t pid_of(const void *context, int32_t tid, uint64_t tsc)
{
	return tid == 9 ? 0 : 7;
}

static const struct ip_thread_owners owners = {.pid_of = pid_of};

static void check_chain(const struct ip_states *states, const struct ip_descriptors *descriptors,
			const struct ip_thread_states *t)
{
	struct ip_wait_chain chain;

	ip_wait_chain_find(states, descriptors, &owners, t, states->begin, states->end, &chain);
	fuzz_assert(chain.n <= IP_CHAIN_MOST);
	for (size_t i = 0; i < chain.n; i++) {
		const struct ip_chain_link *link = &chain.links[i];

		fuzz_assert(link->ticks && link->ticks <= link->to - link->from);
		fuzz_assert(link->from >= states->begin && link->to <= states->end);
		fuzz_assert(!i || link->thread == chain.links[i - 1].ender);
	}
}

static int follows(void *context, const struct ip_thread_wait *wait,
		   const struct ip_thread_states *holder, uint64_t from, uint64_t to)
{
	uint64_t *at = context;

	fuzz_assert(wait && holder && from < to && to == *at);
	*at = from;
	return 0;
}

/* Who had the locks that a thread waited for. */
static void check_holders(const struct ip_states *states, const struct ip_thread_states *t)
{
	for (size_t i = 0; i + 1 < t->nspans; i++) {
		const struct ip_thread_span *span = &t->spans[i];
		uint64_t at = span[1].from;
		const struct ip_thread_wait *wait;

		if (span->state != IP_THREAD_BLOCKED || span->from >= at)
			continue;
		wait = &t->waits[t->waits[span->wait].last];
		if (!ip_wait_is_lock(&wait->call) || !wait->waking.tsc || wait->waking.context ||
		    !wait->waking.waker ||
		    !ip_states_find(states, wait->waking.waker, wait->waking.tsc))
			continue;
		fuzz_assert(ip_lock_holders(states, wait, span->from, at, follows, &at) == 0);
		fuzz_assert(at == span->from);
	}
}

static void check_locks(const struct ip_states *states, const struct ip_descriptors *descriptors)
{
	struct ip_lock_profile *p = ip_lock_profile_make(NULL, states, descriptors, &owners);
	const uint64_t most = states->end - states->begin;

	fuzz_assert(p);
	for (size_t i = 0; i < p->n; i++) {
		const struct ip_lock_sums *s = &p->locks[i].sums;

		fuzz_assert(s->waits && s->wait_max <= s->wait_ticks && s->had_max <= s->had_ticks);
		fuzz_assert(s->whole <= s->had && s->whole_ticks <= s->had_ticks);
		/* one has it at a time */
		fuzz_assert(s->wait_max <= most && s->had_ticks <= most);
		fuzz_assert(!i || s->wait_ticks <= p->locks[i - 1].sums.wait_ticks);
		fuzz_assert(p->locks[i].nfunctions == 1); /* none is known */
	}
	ip_lock_profile_destroy(p);
}

static void check_states(const struct ip_states *states, const struct ip_descriptors *descriptors)
{
	for (size_t i = 0; i < states->n; i++) {
		const struct ip_thread_states *t = &states->threads[i];

		for (size_t k = 0; k < t->nspans; k++) {
			fuzz_assert(!k || t->spans[k].from > t->spans[k - 1].from);
			fuzz_assert(t->spans[k].state != IP_THREAD_BLOCKED ||
				    t->spans[k].wait < t->nwaits);
			fuzz_assert(ip_states_span_at(t, t->spans[k].from) == k);
		}
		for (size_t k = 0; k < t->nwaits; k++) {
			struct ip_wait_object object;

			fuzz_assert(t->waits[k].last >= k && t->waits[k].last < t->nwaits);
			ip_wait_object_of(&t->waits[k], descriptors, 7, t->tid, &object);
			fuzz_assert(object.kind < IP_WAIT_KINDS);
			fuzz_assert(*ip_wait_kind_name(object.kind));
		}
		fuzz_assert(!ip_states_find(states, t->tid, t->begin) ||
			    ip_states_find(states, t->tid, t->begin)->tid == t->tid);
		if (i < THREADS) {
			check_path(states, t);
			check_chain(states, descriptors, t);
			check_holders(states, t);
		}
	}
	check_locks(states, descriptors);
}

struct calls {
	const struct ip_descriptors *descriptors;
	struct ip_syscall_sums sums;
	uint64_t n, open;
};

static const char *find_descriptor(void *context, int32_t tid, int32_t fd, uint64_t tsc)
{
	const struct calls *calls = context;
	const struct ip_descriptor *d =
		ip_descriptors_find(calls->descriptors, pid_of(NULL, tid, tsc), fd, tsc);

	return d ? d->text : NULL;
}

static const char *find_path(void *context, const struct ip_syscall_call *call, unsigned argument)
{
	const struct calls *calls = context;

	return ip_syscall_path(&calls->descriptors->paths, call, argument);
}

static int take_call(void *context, const struct ip_syscall_call *call)
{
	struct calls *calls = context;
	const struct ip_syscall_descriptors descriptors = {find_descriptor, find_path, calls};
	const struct ip_syscall_parts *p = &call->parts;
	char text[256], *room = malloc(1 + call->tid % 128u);
	bool made;

	fuzz_assert(room);
	fuzz_assert(call->end >= call->begin);
	fuzz_assert(p->cpu + p->runqueue + p->blocked + p->unknown == call->end - call->begin);
	fuzz_assert(strchr(ip_syscall_text(call, &descriptors, text, sizeof(text)), '('));
	fuzz_assert(*ip_syscall_result_text(call, &descriptors, text, sizeof(text)));
	/* memory that ends there: what writes behind it is found */
	ip_syscall_text(call, &descriptors, room, 1 + call->tid % 128u);
	ip_syscall_result_text(call, NULL, room, 1 + call->tid % 128u);
	fuzz_assert(ip_syscall_descriptor(call, &made) >= -1);
	fuzz_assert(ip_syscall_sums_add(&calls->sums, call->tid & 3, call) == 0);
	calls->n += call->outcome != IP_SYSCALL_OPEN;
	calls->open += call->outcome == IP_SYSCALL_OPEN;
	free(room);
	return 0;
}

static void see_open(void *context, const struct ip_syscall_call *call)
{
	fuzz_assert(call->outcome == IP_SYSCALL_OPEN && call->end >= call->begin);
	++*(uint64_t *)context;
}

static void check_syscalls(const struct ip_descriptors *descriptors)
{
	struct calls calls = {.descriptors = descriptors};
	struct ip_syscall_reader *syscalls = ip_syscall_reader_create(take_call, &calls);
	struct ip_syscall_sums copy = {0};
	struct ip_kernel_reader *reader;
	struct ip_kernel_record record;
	uint64_t seen = 0, n = 0, open = 0;
	int got;

	fuzz_assert(syscalls && ip_kernel_reader_open(path, &reader) == 1);
	while ((got = ip_kernel_reader_next(reader, &record)) > 0)
		fuzz_assert(ip_syscall_reader_feed(syscalls, &record) == 0);
	fuzz_assert(got == 0);
	ip_kernel_reader_close(reader);
	open = calls.open;
	ip_syscall_reader_each_open(syscalls, ip_syscall_reader_read(syscalls).end, see_open,
				    &seen);
	fuzz_assert(ip_syscall_reader_end(syscalls, ip_syscall_reader_read(syscalls).end) == 0);
	fuzz_assert(calls.open == open + seen);
	fuzz_assert(strlen(ip_syscall_reader_thread(syscalls, 7)) < 16);
	fuzz_assert(ip_syscall_sums_copy(&copy, &calls.sums) == 0);
	ip_syscall_sums_sort(&copy);
	open = 0;
	for (size_t i = 0; i < copy.n; i++) {
		uint64_t errors = 0;

		for (size_t k = 0; k < copy.items[i].nby_error; k++)
			errors += copy.items[i].by_error[k].count;
		fuzz_assert(errors == copy.items[i].errors && errors <= copy.items[i].calls);
		fuzz_assert(ip_syscall_sum_mean(&copy.items[i]) <= copy.items[i].max);
		n += copy.items[i].calls;
		open += copy.items[i].open;
	}
	fuzz_assert(n == calls.n && open == calls.open);
	ip_syscall_sums_clear(&copy);
	ip_syscall_sums_clear(&calls.sums);
	ip_syscall_reader_destroy(syscalls);
}

static void check_clients(const struct ip_states *states, const struct ip_descriptors *descriptors)
{
	struct ip_client_connections connections;
	struct ip_client_intervals all;
	struct ip_kernel_reader *reader;
	char name[16];

	ip_client_connections_init(&connections, descriptors, pid_of, NULL);
	fuzz_assert(ip_kernel_reader_open(path, &reader) == 1);
	fuzz_assert(ip_client_intervals_read(reader, states, &connections, &all) == 0);
	ip_kernel_reader_close(reader);
	for (size_t i = 0; i < all.n; i++) {
		const struct ip_client_interval *a = &all.items[i], *before = a - 1;

		fuzz_assert(a->from < a->to && a->client < connections.nclients);
		fuzz_assert(!i || before->tid < a->tid ||
			    (before->tid == a->tid && before->to <= a->from));
	}
	for (size_t i = 0; i < connections.nclients; i++) {
		if (!connections.clients[i])
			continue;
		ip_client_name(connections.clients[i], i % 2, name, sizeof(name));
		fuzz_assert(strlen(name) < sizeof(name) && (*name || !*connections.clients[i]));
	}
	ip_client_intervals_clear(&all);
	ip_client_connections_clear(&connections);
}

struct shown {
	size_t opened, closed;
	uint64_t now;
};

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct shown *shown = context;

	fuzz_assert(depth < IP_KERNEL_DEPTH + 1 && frame->start >= shown->now);
	shown->now = frame->start;
	shown->opened++;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct shown *shown = context;

	fuzz_assert(end >= frame->start && frame->self <= end - frame->start && end >= shown->now);
	shown->now = end;
	shown->closed++;
}

static void check_functions(void)
{
	static const char text[] = "iprobe-session\t1\ntsc_hz\t1000000000\n",
			  names[] = "vfs_read\t\nvfs_write.isra.0\text4\nlock\t\n";
	static const struct ip_frames_ops ops = {.opened = on_opened, .closed = on_closed};
	struct ip_recording *session;

	write_file("../iprobe/kernel_functions", (const uint8_t *)names, sizeof(names) - 1);
	fuzz_assert(ip_recording_parse("s", text, sizeof(text) - 1, &session) == 0);
	fuzz_assert(ip_kernel_calls_load(path, session) == 0);
	for (uint32_t tid = 0; tid < THREADS; tid++) {
		const struct ip_kernel_thread *t =
			ip_kernel_calls_find(session->kernel_calls, tid, tid);
		struct shown shown = {0};
		struct ip_frames *frames = ip_frames_create(session, &ops, &shown);

		fuzz_assert(frames);
		for (size_t i = 0; t && i < t->n; i++)
			fuzz_assert(!i || t->calls[i].start >= t->calls[i - 1].start);
		ip_frames_set_kernel(frames, tid, tid, 0);
		ip_frames_finish(frames, UINT64_MAX);
		ip_frames_destroy(frames);
		fuzz_assert(shown.closed == shown.opened && shown.opened <= (t ? t->n : 0));
		fuzz_assert(!t || shown.opened == t->n ||
			    t->calls[shown.opened].start == UINT64_MAX);
	}
	ip_recording_destroy(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"all_0", "all_1", "target_0"};
	struct ip_descriptors descriptors = {0};
	struct ip_kernel_reader *reader;
	struct ip_states *states;
	const uint8_t *part;
	uint32_t n;

	part = take(&data, &size, &n);
	if (!part)
		return 0;
	write_file("../iprobe/descriptors", part, n);
	fuzz_assert(ip_descriptors_read(path, &descriptors) == 0);
	for (size_t i = 0; i < 3; i++) {
		part = take(&data, &size, &n);
		write_file(names[i], part ? part : (const uint8_t *)"", part ? n : 0);
	}
	fuzz_assert(ip_kernel_reader_open(path, &reader) == 1);
	states = ip_states_read(reader);
	fuzz_assert(states);
	for (const char *const *line = ip_kernel_reader_damage(reader); *line; line++)
		fuzz_assert(strstr(*line, path) == *line);
	ip_kernel_reader_close(reader);
	ip_descriptors_end(&descriptors, states->closings, states->nclosings, pid_of, NULL);
	for (size_t i = 0; i < descriptors.n; i++)
		fuzz_assert(descriptors.items[i].to >= descriptors.items[i].from);
	descriptors.births = ip_descriptor_births_create(states, pid_of, NULL);
	fuzz_assert(descriptors.births);
	check_states(states, &descriptors);
	check_syscalls(&descriptors);
	check_functions();
	check_clients(states, &descriptors);
	ip_states_destroy(states);
	ip_descriptors_clear(&descriptors);
	return 0;
}
