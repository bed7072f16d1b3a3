/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies registers and stacks in a stop. The steps are told in stack_copies.h; the comments here
 * name them.
 */
#include "hotpatcher/ptrace/stack_copies.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/now.h"
#include "hotpatcher/ptrace/stop.h"

#define STACK_MAX   (64u << 10) /* bytes of one thread */
#define UNKNOWN_MAX (8u << 10)	/* where its mapping is not known */
#define ROOM_MAX    (4u << 20)	/* bytes of all threads */
#define ROOM_LEAST  (STACK_MAX * 4)
#define THREADS_MAX 4096u

int ip_stack_copies_create(const struct ip_target *target, struct ip_stack_copies **ret)
{
	struct ip_stack_copies *c = calloc(1, sizeof(*c));
	const long found = ip_proc_status(target->pid, "Threads");
	/* threads may have come until the stop */
	const size_t threads = found < 1 ? 1 : found > THREADS_MAX ? THREADS_MAX : found;

	if (!c)
		return ip_error("out of memory");
	c->capacity = threads + threads / 8 + 8;
	c->room = threads > ROOM_MAX / STACK_MAX ? ROOM_MAX : threads * STACK_MAX;
	c->room = c->room < ROOM_LEAST ? ROOM_LEAST : c->room;
	c->items = calloc(c->capacity, sizeof(*c->items));
	c->bytes = malloc(c->room);
	if (!c->items || !c->bytes) {
		ip_stack_copies_destroy(c);
		return ip_error("out of memory");
	}
	memset(c->items, 0xff, c->capacity * sizeof(*c->items));
	memset(c->bytes, 0xff, c->room);
	*ret = c;
	return 0;
}

void ip_stack_copies_destroy(struct ip_stack_copies *c)
{
	if (!c)
		return;
	free(c->items);
	free(c->bytes);
	free(c);
}

/* Returns how many bytes of the stack there may be: what lies behind its mapping is none of it. (A
 * read through /proc/PID/mem does not stop at a guard page, and costs time where pages were never
 * touched.) */
static size_t room_of(const struct ip_stack_copies *c, const struct ip_target *target, uint64_t sp)
{
	const struct ip_mapping *m = ip_maps_find(&target->maps, sp);
	size_t room = c->room - c->used < STACK_MAX ? c->room - c->used : STACK_MAX;

	/* a thread that is newer than the maps */
	if (!m)
		return room < UNKNOWN_MAX ? room : UNKNOWN_MAX;
	return room < m->end - sp ? room : m->end - sp;
}

/* Reads memory of a thread that stands. process_vm_readv() takes a fraction of the time, but a
 * worker of iprobed may not use it: it is asked for the caller's own rights. */
static ssize_t read_stack(const struct ip_target *target, pid_t tid, uint64_t sp, uint8_t *buffer,
			  size_t size)
{
	const struct iovec here = {buffer, size}, there = {(void *)sp, size};
	const ssize_t n = process_vm_readv(tid, &here, 1, &there, 1, 0);

	return n > 0 ? n : pread(target->mem, buffer, size, sp);
}

/* Copies one thread. False: it is gone, or there is no room. */
static bool take(struct ip_stack_copies *c, const struct ip_stop *stop,
		 const struct ip_stopped_thread *t)
{
	struct ip_stack_copy *copy = &c->items[c->n];
	ssize_t n;

	if (c->n == c->capacity || c->used == c->room)
		return false;
	*copy = (struct ip_stack_copy){.tid = t->tid, .narrow = t->narrow};
	memcpy(copy->registers, t->registers, sizeof(copy->registers));
	copy->sp = copy->registers[t->narrow ? 4 : 7];
	n = read_stack(stop->target, t->tid, copy->sp, c->bytes + c->used,
		       room_of(c, stop->target, copy->sp));
	if (n <= 0)
		return false;
	copy->bytes = c->bytes + c->used;
	copy->size = n;
	c->used += (n + 15) & ~15ull;
	c->used = c->used < c->room ? c->used : c->room;
	c->n++;
	return true;
}

void ip_stack_copies_take(struct ip_stack_copies *c, const struct ip_stop *stop)
{
	const uint64_t began = ip_now_ns(),
		       allowed = IP_STACK_COPIES_NS + (began - stop->began_ns) / 8;

	if (c->tsc)
		return;
	c->tsc = ip_clock_now();
	/* running threads are the last of the list (ip_stop_order) */
	for (size_t i = stop->n; i-- > 0;) {
		const struct ip_stopped_thread *t = &stop->threads[i];

		/* a process that shares the memory is no part of the recording */
		if (!t->stopped || t->gone || t->pid != stop->target->pid)
			continue;
		if (ip_now_ns() - began > allowed || !take(c, stop, t))
			c->missed++;
	}
	c->ns = ip_now_ns() - began;
}
