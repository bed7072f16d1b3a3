/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks thread areas. thread_areas.h describes the steps; the comments here name them.
 */
#include "hotpatcher/inject/thread_areas.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"
#include "hotpatcher/arch/x86_64/borrow.h"
#include "hotpatcher/ptrace/kernel_worker.h"

#define LOOK_NS	   20000000ull
#define LOOK_SHARE 50 /* one part in so many of our time goes to looks */
#define STOP_NS	   20000000ull
#define BATCH	   128 /* areas that are read at once */

struct area {
	uint64_t pointer; /* the thread pointer */
	pid_t tid, pid;
};

/* Where hooks take a thread's id from, in bytes from the thread pointer; 0: hooks do not. The
 * process may have written over the anchor, so only places that we know count. */
static uint16_t tid_place(const struct ip_target *target)
{
	for (size_t i = 0; i < sizeof(ip_arch_tid_places) / sizeof(*ip_arch_tid_places); i++)
		if (target->anchor.tid_at == ip_arch_tid_places[i])
			return ip_arch_tid_places[i];
	return 0;
}

/* What an area must begin with, and the id in it. */
struct content {
	uint64_t self;
	uint32_t tid;
};

static bool read_slowly(const struct ip_target *target, const struct area *a, uint16_t place,
			struct content *ret)
{
	return pread(target->mem, &ret->self, sizeof(ret->self), a->pointer) == sizeof(ret->self) &&
	       (!place || pread(target->mem, &ret->tid, sizeof(ret->tid), a->pointer + place) ==
				  sizeof(ret->tid));
}

/* Reads n areas, at most BATCH, at once. False if one of them cannot be read. */
static bool read_all(const struct ip_target *target, const struct area *areas, size_t n,
		     uint16_t place, struct content *ret)
{
	struct iovec local[2 * BATCH], remote[2 * BATCH];
	size_t parts = 0, bytes = 0;

	for (size_t i = 0; i < n; i++) {
		remote[parts] =
			(struct iovec){(void *)(uintptr_t)areas[i].pointer, sizeof(ret->self)};
		local[parts++] = (struct iovec){&ret[i].self, sizeof(ret->self)};
		bytes += sizeof(ret->self);
		if (!place)
			continue;
		remote[parts] = (struct iovec){(void *)(uintptr_t)(areas[i].pointer + place),
					       sizeof(ret->tid)};
		local[parts++] = (struct iovec){&ret[i].tid, sizeof(ret->tid)};
		bytes += sizeof(ret->tid);
	}
	return process_vm_readv(target->pid, local, parts, remote, parts, 0) == (ssize_t)bytes;
}

/* Whether the area is the thread's own. An id of 0 means that the C library is about to end the
 * thread. In another namespace the ids are different: only the id of the first thread is known
 * there. */
static bool is_own(const struct ip_target *target, const struct area *a, const struct content *c)
{
	uint32_t own = a->tid == target->pid		  ? (uint32_t)target->inner_pid
		       : target->inner_pid == target->pid ? (uint32_t)a->tid
							  : 0;

	return a->pointer && c->self == a->pointer && (!c->tid || !own || c->tid == own);
}

/* Index of the first thread that has no area of its own; n: there is none. */
static size_t find_bad(const struct ip_target *target, const struct area *areas, size_t n)
{
	uint16_t place = tid_place(target);

	for (size_t done = 0; done < n; done += BATCH) {
		size_t count = n - done < BATCH ? n - done : BATCH;
		struct content contents[BATCH] = {0};
		bool got = read_all(target, areas + done, count, place, contents);

		for (size_t i = 0; i < count; i++)
			if ((!got && !read_slowly(target, &areas[done + i], place, &contents[i])) ||
			    !is_own(target, &areas[done + i], &contents[i]))
				return done + i;
	}
	return n;
}

static int refuse(const struct ip_target *target, pid_t tid, pid_t other)
{
	if (other)
		return ip_error("pid %d: threads %s and %s share one thread area (clone() without "
				"CLONE_SETTLS): what they record cannot be told apart, and some of "
				"it would be lost",
				target->pid, IP_THREAD_TEXT(tid), IP_THREAD_TEXT(other));
	return ip_error("pid %d: thread %s has no thread area of its own from the C library "
			"(clone() without its help): its first event might end the process, or be "
			"taken for another thread's",
			target->pid, IP_THREAD_TEXT(tid));
}

static int by_pointer(const void *a, const void *b)
{
	const struct area *x = a, *y = b;

	return x->pointer < y->pointer ? -1 : x->pointer > y->pointer;
}

/* Checks all areas; sorts them. 0, or -1 with the reason. */
static int check(const struct ip_target *target, struct area *areas, size_t n)
{
	size_t bad;

	qsort(areas, n, sizeof(*areas), by_pointer);
	for (size_t i = 0; i + 1 < n; i++)
		if (areas[i].pointer && areas[i].pointer == areas[i + 1].pointer)
			return refuse(target, areas[i].tid, areas[i + 1].tid);
	bad = find_bad(target, areas, n);
	return bad < n ? refuse(target, areas[bad].tid, 0) : 0;
}

/* Reads the thread pointer of a stopped thread. -1: the thread is not stopped (ESRCH: it has been
 * killed). */
static int get_pointer(pid_t tid, uint64_t *ret)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) < 0)
		return -1;
	*ret = ip_arch_thread_pointer(&regs);
	return 0;
}

/* Whether a thread is the child of a vfork() that another one stands in. The child has its parent's
 * area, and its parent does not run before the child is done with it. */
static bool is_vfork_child(const struct ip_stop *stop, const struct ip_stopped_thread *t)
{
	unsigned long child;

	for (size_t i = 0; t->pid != stop->target->pid && i < stop->n; i++) {
		const struct ip_stopped_thread *parent = &stop->threads[i];

		if (parent->stopped && !parent->gone &&
		    parent->status >> 16 == PTRACE_EVENT_VFORK &&
		    ptrace(PTRACE_GETEVENTMSG, parent->tid, 0, &child) == 0 &&
		    child == (unsigned long)t->tid)
			return true;
	}
	return false;
}

int ip_thread_areas_check(const struct ip_stop *stop)
{
	const struct ip_target *target = stop->target;
	_cleanup_free_ struct area *areas = calloc(stop->n + 1, sizeof(*areas));
	size_t n = 0, left = 0;

	if (!areas)
		return ip_error("out of memory");
	if (target->arch->bits != 64)
		return 0;
	for (size_t i = 0; i < stop->n; i++) {
		const struct ip_stopped_thread *t = &stop->threads[i];

		if (!t->stopped || t->gone || is_vfork_child(stop, t))
			continue;
		areas[n] = (struct area){0, t->tid, t->pid};
		if (get_pointer(t->tid, &areas[n].pointer) == 0)
			n++;
		else if (errno != ESRCH)
			return ip_error_errno("pid %d: cannot read the registers of thread %s",
					      target->pid, IP_THREAD_TEXT(t->tid));
	}
	/* A program that begins: its loader has not set the area up yet, and runs before all code
	 * that has probes. */
	if (n == 1 && !areas[0].pointer)
		return 0;
	if (check(target, areas, n) == 0)
		return 0;
	/* looked for only now: that takes reading a file for each thread */
	for (size_t i = 0; i < n; i++)
		if (!ip_is_kernel_worker(areas[i].pid, areas[i].tid))
			areas[left++] = areas[i];
	return left < n ? check(target, areas, left) : -1;
}

/* Step 2. */

enum state {
	SOUND,	/* checked, or needs no check */
	SUSPECT /* the C library has not registered it */
};

struct seen {
	pid_t tid;
	enum state state;
};

struct ip_thread_areas {
	struct seen *threads; /* sorted */
	size_t n;
	bool begun;
	uint64_t next_ns;
};

struct ip_thread_areas *ip_thread_areas_create(void)
{
	struct ip_thread_areas *areas = calloc(1, sizeof(*areas));

	if (!areas)
		ip_error("out of memory");
	return areas;
}

void ip_thread_areas_destroy(struct ip_thread_areas *areas)
{
	if (areas)
		free(areas->threads);
	free(areas);
}

static bool is_registered(pid_t tid)
{
	void *head = NULL;
	size_t size;

	return syscall(SYS_get_robust_list, tid, &head, &size) == 0 && head;
}

/* 1: the thread has an area of its own; 0: not known yet; -1 with the reason. */
static int look_at(struct ip_target *target, pid_t tid)
{
	struct area area = {0, tid, target->pid};
	struct ip_stop stop;
	int ret = 0;

	if (ip_is_kernel_worker(target->pid, tid))
		return 1;
	if (ip_stop_one(target, tid, STOP_NS, &stop) < 0)
		return 0;
	/* The area is read while the thread is stopped: once the thread runs it may end, and the
	 * area may be marked as joined, used anew or unmapped. */
	if (get_pointer(tid, &area.pointer) == 0)
		ret = find_bad(target, &area, 1) ? 1 : -1;
	if (ret < 0 && get_pointer(tid, &area.pointer) < 0)
		ret = 0; /* the thread has been killed meanwhile, and its memory may be gone */
	ip_stop_end_look(&stop);
	return ret < 0 ? refuse(target, tid, 0) : ret;
}

static int by_tid(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Lists all threads of the process, sorted. Returns their number; -1: they cannot be listed. */
static ssize_t list(pid_t pid, struct seen **ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];
	size_t n = 0;

	*ret = NULL;
	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (ip_array_grow(ret, n, sizeof(**ret)) < 0)
			return -1;
		(*ret)[n++] = (struct seen){.tid = atoi(entry->d_name), .state = SUSPECT};
	}
	if (n)
		qsort(*ret, n, sizeof(**ret), by_tid);
	return dir ? (ssize_t)n : -1;
}

bool ip_thread_areas_are_registered(const struct ip_target *target)
{
	_cleanup_free_ struct seen *threads = NULL;
	ssize_t n = list(target->pid, &threads);

	for (ssize_t i = 0; i < n; i++)
		if (!is_registered(threads[i].tid) &&
		    !ip_is_kernel_worker(target->pid, threads[i].tid))
			return false;
	return n > 0;
}

int ip_thread_areas_step(struct ip_thread_areas *areas, struct ip_target *target, bool no_stop)
{
	_cleanup_free_ struct seen *now = NULL;
	uint64_t began = ip_now_ns();
	ssize_t n;
	int ret = 0;

	if (began < areas->next_ns || target->arch->bits != 64)
		return 0;
	n = list(target->pid, &now);
	if (n < 0)
		return 0;
	if (no_stop && !is_registered(target->pid))
		n = 0;
	for (ssize_t i = 0; i < n; i++) {
		const struct seen *before =
			areas->n ? bsearch(&now[i], areas->threads, areas->n, sizeof(*now), by_tid)
				 : NULL;
		int got;

		/* threads that were stopped when probes went live have been checked */
		now[i].state = before			   ? before->state
			       : !areas->begun && !no_stop ? SOUND
			       : is_registered(now[i].tid) ? SOUND
							   : SUSPECT;
		if (now[i].state == SOUND || !before || ret < 0)
			continue;
		got = look_at(target, now[i].tid);
		if (got > 0)
			now[i].state = SOUND;
		if (got < 0)
			ret = -1;
	}
	free(areas->threads);
	areas->threads = now;
	areas->n = n;
	areas->begun = true;
	now = NULL;
	areas->next_ns = ip_now_ns() + LOOK_NS + LOOK_SHARE * (ip_now_ns() - began);
	return ret;
}
