/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the names of recorded threads into the trace. The steps are told in thread_names.h; the
 * comments here name them.
 */
#include "session/thread_names.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/notice.h"
#include "common/now.h"

#define NAME_SIZE   16	       /* TASK_COMM_LEN, with the NUL */
#define PID_LIMIT   (1u << 22) /* of Linux (PID_MAX_LIMIT) */
#define SHORTEST_NS 2000000ull /* between two readings of one name */
#define LONGEST_NS  500000000ull
#define READINGS    64u	   /* in one step; more of new slots come in the next step */
#define SHARE	    50u	   /* readings take at most this part of the time */
#define LINES_MAX   10000u /* as of libraries: a program may make threads all day */

/* What is known of the thread that has a slot. */
struct named {
	uint64_t claimed;  /* the slot's time of claim; 0: the slot was not seen in use */
	uint64_t from;	   /* the same, if it can be true; else when the slot was seen first */
	uint32_t pid, tid; /* in the target's namespace */
	pid_t outer_pid, outer_tid; /* in ours; 0: not known yet */
	uint64_t since_ns, next_ns; /* when it was seen first; when to read its name again */
	bool told;		    /* name has been written */
	char name[NAME_SIZE];
};

struct ip_thread_names {
	struct named slots[IP_AREA_SLOTS];
	uint8_t tids[PID_LIMIT / 8]; /* a bit for each thread of which a line was written */
	uint64_t rest_until_ns;	     /* no name is read before that time */
	uint64_t scan_after_ns;	     /* the same for the search in other namespaces */
	unsigned lines;
};

struct ip_thread_names *ip_thread_names_create(void)
{
	return calloc(1, sizeof(struct ip_thread_names));
}

void ip_thread_names_destroy(struct ip_thread_names *names)
{
	free(names);
}

bool ip_thread_names_has(const struct ip_thread_names *n, uint32_t tid)
{
	return n && tid < PID_LIMIT && n->tids[tid / 8] & 1 << tid % 8;
}

/* Reads the name of a thread, which may hold any byte but NUL. False: the thread has ended. */
static bool read_name(pid_t pid, pid_t tid, char ret[NAME_SIZE])
{
	char path[64], text[64];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	n -= text[n - 1] == '\n';
	n = n < NAME_SIZE ? n : NAME_SIZE - 1;
	memcpy(ret, text, n);
	ret[n] = '\0';
	return true;
}

static void tell(struct ip_thread_names *n, struct ip_trace *trace, const struct named *t,
		 uint64_t from)
{
	if (++n->lines > LINES_MAX) {
		if (n->lines == LINES_MAX + 1)
			ip_notice(
				"more than %u names of threads: those of later threads, and later "
				"changes, are not in the trace",
				LINES_MAX);
		return;
	}
	ip_trace_add_thread(trace, t->tid, t->name, from);
	n->tids[t->tid / 8] |= 1 << t->tid % 8;
}

/* Whether the process has executed another program. One that has ended has no image either, and its
 * threads keep their names until somebody has waited for them. */
static bool has_executed(const struct ip_target *target, const struct ip_follow_fork *followed,
			 pid_t pid)
{
	if (pid != target->pid)
		return !followed || !ip_follow_fork_has(followed, pid);
	return ip_thread_names_are_others(target);
}

bool ip_thread_names_are_others(const struct ip_target *target)
{
	return ip_target_image_is_gone(target) && ip_proc_has_memory(target->pid);
}

/* Reads the name of a thread, and tells it if it is new. */
static void look(struct ip_thread_names *n, struct ip_trace *trace, struct named *t,
		 const struct ip_target *target, const struct ip_follow_fork *followed)
{
	const uint64_t now = ip_now_ns(), clock = ip_clock_now(), age = now - t->since_ns;
	char name[NAME_SIZE];

	t->next_ns = now + (age < SHORTEST_NS ? SHORTEST_NS : age < LONGEST_NS ? age : LONGEST_NS);
	if (!read_name(t->outer_pid, t->outer_tid, name)) {
		/* another thread had this number before: its name is not that of this thread */
		if (!t->told && ip_thread_names_has(n, t->tid))
			tell(n, trace, t, t->from);
		t->told = true;
		return;
	}
	if (t->told && !strcmp(name, t->name))
		return;
	/* after the reading: it may be of another program, which is nothing of the session's */
	if (has_executed(target, followed, t->outer_pid))
		return;
	strcpy(t->name, name);
	tell(n, trace, t, t->told ? clock : t->from);
	t->told = true;
}

/* Returns our id of a process that the slots name; 0: it is neither the target nor a followed child
 * that is known by now. */
static pid_t outer_pid(const struct ip_target *target, const struct ip_follow_fork *followed,
		       uint32_t pid)
{
	if (pid == (uint32_t)target->inner_pid)
		return target->pid;
	return followed && pid <= INT_MAX ? ip_follow_fork_outer_pid(followed, pid) : 0;
}

/* Notes what is new in a slot. False: the slot is not in use. */
static bool meet(struct named *t, const struct ip_slot *slot)
{
	const uint64_t claimed = slot->claimed, clock = ip_clock_now();
	/* with another clock the time of the claim, which is of the TSC, means nothing */
	const bool sane = claimed < clock && ip_clock_selected() == IP_CLOCK_TSC;

	if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != IP_SLOT_CLAIMED || !claimed) {
		t->claimed = 0;
		return false;
	}
	if (t->claimed == claimed && t->pid == slot->pid && t->tid == slot->tid)
		return true;
	*t = (struct named){.claimed = claimed,
			    .from = sane ? claimed : clock,
			    .pid = slot->pid,
			    .tid = slot->tid,
			    .since_ns = ip_now_ns()};
	/* the slot may have changed since it was copied: a thread has a number below the limit */
	if (!t->tid || t->tid >= PID_LIMIT)
		t->claimed = 0;
	return t->claimed;
}

/* Finds our ids of the threads of a process in another PID namespace, of which only the kernel
 * knows both. Costs one file for each thread. */
static void scan(struct ip_thread_names *n, uint32_t used, pid_t outer)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", outer);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		const pid_t tid =
			isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
		const pid_t inner = tid ? ip_proc_inner_pid(tid) : 0;

		for (uint32_t i = 0; inner && i < used; i++)
			if (n->slots[i].claimed && !n->slots[i].outer_tid &&
			    n->slots[i].outer_pid == outer && n->slots[i].tid == (uint32_t)inner)
				n->slots[i].outer_tid = tid;
	}
}

/* Finds the thread of a slot. True: its name can be read. */
static bool find(struct ip_thread_names *n, struct named *t, uint32_t used,
		 const struct ip_target *target, const struct ip_follow_fork *followed)
{
	if (t->outer_tid)
		return true;
	if (!t->outer_pid)
		t->outer_pid = outer_pid(target, followed, t->pid);
	if (!t->outer_pid)
		return false;
	if (t->outer_pid == (pid_t)t->pid) /* our own namespace: all its numbers are ours */
		t->outer_tid = t->tid;
	else if (t->tid == t->pid)
		t->outer_tid = t->outer_pid;
	else if (ip_now_ns() >= n->scan_after_ns) {
		const uint64_t began = ip_now_ns();

		scan(n, used, t->outer_pid);
		n->scan_after_ns = ip_now_ns() + SHARE * (ip_now_ns() - began);
	}
	return t->outer_tid;
}

void ip_thread_names_step(struct ip_thread_names *n, const struct ip_area *area,
			  const struct ip_target *target, const struct ip_follow_fork *followed,
			  struct ip_trace *trace, bool last)
{
	const uint64_t began = ip_now_ns();
	uint32_t used = __atomic_load_n(&area->header->slots_used, __ATOMIC_ACQUIRE);
	unsigned readings = 0;

	if (!last && began < n->rest_until_ns)
		return;
	used = used < IP_AREA_SLOTS ? used : IP_AREA_SLOTS;
	for (uint32_t i = 0; i < used && (last || readings < READINGS); i++) {
		struct named *t = &n->slots[i];

		if (!meet(t, &area->slots[i]) || (!last && began < t->next_ns) ||
		    !find(n, t, used, target, followed))
			continue;
		look(n, trace, t, target, followed);
		readings++;
	}
	if (readings)
		n->rest_until_ns = began + SHARE * (ip_now_ns() - began);
}
