/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for threads that are in a hook. late_hooks.h describes the steps; the comments here name
 * them.
 */
#include "hotpatcher/plan/window/late_hooks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/now.h"
#include "hotpatcher/process/shared_mm.h"
#include "hotpatcher/ptrace/kernel_worker.h"
#include "hotpatcher/ptrace/stop.h"
#include "hotpatcher/shm/late_slots.h"

#define NAP_NS	  500000l
#define NAPS	  4u		/* for threads that run, before they are stopped */
#define STOP_NS	  20000000ull	/* for one thread */
#define STACK_MAX (16ull << 20) /* larger stacks are not read */
#define STACKS	  16u		/* for one thread; nor are more */
#define CHUNK	  65536u
#define RSP	  7 /* DWARF's number */

#define FRAME_WORDS   4
#define FRAME	      (FRAME_WORDS * sizeof(uint64_t))
#define EFLAGS_ALWAYS 2ull     /* the bit that is always set */
#define EFLAGS_IF     0x200ull /* set in all programs */
#define EFLAGS_ALL    0x3f7fd7ull
#define USER_CS	      0x33 /* the code segment of 64-bit programs */
#define USER_SS	      0x2b

struct look {
	struct ip_target *target;
	const struct ip_area *area;
	uint64_t limit_ns; /* CLOCK_MONOTONIC */
	bool may_stop;
	pid_t *seen; /* outside of hooks */
	size_t nseen, capacity;
	uint64_t *words; /* CHUNK */
};

/* The stacks of a thread on which handlers have interrupted each other. */
struct stacks {
	struct {
		uint64_t from, end;
	} items[STACKS];
	unsigned n;
};

/* What the kernel tells of a thread. */
struct state {
	bool known, waits, gone;
	uint64_t sp, pc;
	char turns[64]; /* how often it has run */
};

static bool is_in_hooks(const struct ip_target *target, uint64_t address)
{
	const struct ip_rt_anchor *a = &target->anchor;

	if (address - a->restart < a->restart_end - a->restart)
		return false;
	return address - a->text_start < a->text_end - a->text_start ||
	       ip_target_is_stub(target, address);
}

static int tell(const struct look *l, pid_t tid)
{
	return ip_error("pid %d: thread %d may be in a hook yet", l->target->pid, tid);
}

static bool was_seen(const struct look *l, pid_t tid)
{
	for (size_t i = 0; i < l->nseen; i++)
		if (l->seen[i] == tid)
			return true;
	return false;
}

static int note(struct look *l, pid_t tid)
{
	if (l->nseen == l->capacity) {
		size_t capacity = l->capacity ? 2 * l->capacity : 64;
		pid_t *seen = reallocarray(l->seen, capacity, sizeof(*seen));

		if (!seen)
			return ip_error("out of memory");
		l->seen = seen;
		l->capacity = capacity;
	}
	l->seen[l->nseen++] = tid;
	return 0;
}

/* False: the kernel does not count how often the thread has run. */
static bool read_turns(pid_t pid, pid_t tid, char ret[64])
{
	unsigned long long turns;
	char name[80];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/task/%d/schedstat", pid, tid);
	_cleanup_close_ int fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, 63);
	ret[n > 0 ? n : 0] = '\0';
	return sscanf(ret, "%*u %*u %llu", &turns) == 1 && turns > 0;
}

static struct state look_at(pid_t pid, pid_t tid)
{
	struct state s = {0};
	char name[80], line[256];
	_cleanup_fclose_ FILE *file = NULL;

	s.known = read_turns(pid, tid, s.turns);
	snprintf(name, sizeof(name), "/proc/%d/task/%d/syscall", pid, tid);
	file = ip_delegation_fopen(name);
	if (!file || !fgets(line, sizeof(line), file)) {
		snprintf(name, sizeof(name), "/proc/%d/task/%d", pid, tid);
		s.gone = ip_access(name, F_OK) < 0 && errno == ENOENT;
		s.known = false;
		return s;
	}
	s.waits = sscanf(line, "-1 0x%" SCNx64 " 0x%" SCNx64, &s.sp, &s.pc) == 2 ||
		  sscanf(line, "%*d %*x %*x %*x %*x %*x %*x 0x%" SCNx64 " 0x%" SCNx64, &s.sp,
			 &s.pc) == 2;
	return s;
}

/* Whether the words may be those of a signal's frame: stack pointer, program counter, flags and
 * segments of the interrupted code (struct sigcontext). */
static bool may_be_frame(const uint64_t *words)
{
	return (words[2] & EFLAGS_ALWAYS) && !(words[2] >> 32) && (words[3] & 0xffff) == USER_CS;
}

/* Whether they are so in all their bits. Old kernels save no stack segment. */
static bool is_frame(const uint64_t *words)
{
	const uint64_t rest = words[3] >> 16;

	return (words[2] & EFLAGS_IF) && !(words[2] & ~EFLAGS_ALL) &&
	       (!rest || rest == (uint64_t)USER_SS << 32);
}

/* Notes the stack that has sp, unless it will be read anyway. It goes on where another mapping
 * adjoins: the kernel splits a stack of which a part is locked, named, or not dumped. 0; -1: it
 * cannot be read. */
static int add_stack(const struct look *l, struct stacks *s, uint64_t sp)
{
	const struct ip_maps *maps = &l->target->maps;
	const struct ip_mapping *m = ip_maps_find(maps, sp);
	uint64_t end;

	/* the maps may be older than the stack */
	if (!m && (ip_target_refresh(l->target) < 0 || !(m = ip_maps_find(maps, sp))))
		return -1;
	for (end = m->end; m + 1 < maps->items + maps->n && m[1].start == end &&
			   !memcmp(m[1].perms, m->perms, sizeof(m->perms));
	     m++)
		end = m[1].end;
	for (unsigned i = 0; i < s->n; i++)
		if (sp >= s->items[i].from && sp < s->items[i].end)
			return 0;
	if (s->n == STACKS || end - sp > STACK_MAX)
		return -1;
	s->items[s->n].from = sp & ~7ull;
	s->items[s->n++].end = end;
	return 0;
}

/* Whether a signal handler has interrupted a hook, as one of the frames on the stack tells; adds
 * the stacks that they lead to. 1: yes, or it cannot be known; 0: no. */
static int read_stack(const struct look *l, struct stacks *s, uint64_t at, uint64_t end)
{
	/* frames may lie across the end of what is read at a time */
	for (size_t size; end - at >= FRAME; at += size - FRAME + sizeof(*l->words)) {
		size = end - at < CHUNK ? end - at : CHUNK;
		if (ip_now_ns() >= l->limit_ns || ip_target_read(l->target, at, l->words, size) < 0)
			return 1;
		for (size_t i = 0; i + FRAME_WORDS <= size / sizeof(*l->words); i++)
			if (may_be_frame(&l->words[i]) &&
			    (is_in_hooks(l->target, l->words[i + 1]) ||
			     (is_frame(&l->words[i]) && add_stack(l, s, l->words[i]) < 0)))
				return 1;
	}
	return 0;
}

/* Whether a frame of a signal handler lies above a hook: on the stack, or on one that a handler has
 * interrupted which has a stack of its own (sigaltstack()). 1: yes, or it cannot be known; 0: no.
 */
static int has_interrupted_hook(const struct look *l, uint64_t sp)
{
	struct stacks s = {.n = 0};

	if (add_stack(l, &s, sp) < 0)
		return 1;
	for (unsigned i = 0; i < s.n; i++)
		if (read_stack(l, &s, s.items[i].from, s.items[i].end))
			return 1;
	return 0;
}

/* Step 3. 1: the thread is outside of hooks, or gone; 0: it runs; -1: it may be in a hook. */
static int check_waiting(const struct look *l, pid_t pid, pid_t tid)
{
	const struct state before = look_at(pid, tid);
	char turns[64];

	if (before.gone)
		return 1;
	if (!before.known || !before.waits || !before.sp || !before.pc)
		return 0;
	if (is_in_hooks(l->target, before.pc) || has_interrupted_hook(l, before.sp))
		return read_turns(pid, tid, turns) && !strcmp(turns, before.turns) ? tell(l, tid)
										   : 0;
	return read_turns(pid, tid, turns) && !strcmp(turns, before.turns);
}

/* Step 4. As check_waiting(). */
static int check_running(const struct look *l, pid_t tid)
{
	struct ip_stop stop;
	int ret = 0;

	if (ip_stop_one(l->target, tid, STOP_NS, &stop) < 0)
		return 0;
	if (stop.threads[0].stopped) {
		const uint64_t *registers = stop.threads[0].registers;

		ret = stop.threads[0].narrow || is_in_hooks(l->target, stop.threads[0].pc) ||
				      has_interrupted_hook(l, registers[RSP])
			      ? -1
			      : 1;
	}
	ip_stop_end_look(&stop);
	return ret < 0 ? tell(l, tid) : ret;
}

static int check_thread(struct look *l, pid_t pid, int task, const char *name)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	const pid_t tid = atoi(name);
	int got = 0;

	for (unsigned i = 0; got == 0; i++) {
		const struct ip_task_look is = ip_task_look(task, pid, name, false);

		if (is.kernel_worker || is.state == 'Z' || is.state == 'X') {
			got = 1;
			break;
		}
		got = check_waiting(l, pid, tid);
		if (got == 0 && i >= NAPS && l->may_stop)
			got = check_running(l, tid);
		if (got == 0 && ip_now_ns() >= l->limit_ns)
			return tell(l, tid);
		if (got == 0)
			nanosleep(&nap, NULL);
	}
	return got < 0 ? -1 : note(l, tid);
}

/* Step 2. */
static int check_slots(const struct look *l)
{
	uint32_t tid;

	if (!ip_late_slots_any(l->area, l->target->pid, &tid))
		return 0;
	if (tid)
		return tell(l, tid);
	return ip_error("pid %d: a thread may be in a hook of an earlier session yet",
			l->target->pid);
}

/* Steps 3 and 4, for the threads of one process that were not looked at. *ret_more: there were
 * some. */
static int check_threads(struct look *l, pid_t pid, bool *ret_more)
{
	char name[64];
	const struct dirent *entry;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	_cleanup_closedir_ DIR *dir = opendir(name);
	if (!dir) /* a process that has ended is in no hook */
		return pid == l->target->pid ? ip_error("pid %d has ended", pid) : 0;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]) || was_seen(l, atoi(entry->d_name)))
			continue;
		if (check_thread(l, pid, dirfd(dir), entry->d_name) < 0)
			return -1;
		*ret_more = true;
	}
	return 0;
}

/* Steps 1 and 3 to 5. */
static int check_processes(struct look *l)
{
	const pid_t pid = l->target->pid;

	for (bool more = true; more;) {
		_cleanup_free_ pid_t *others = NULL;
		size_t n = 0;

		more = false;
		if (ip_shared_mm_find(pid, pid, &others, &n) < 0 ||
		    check_threads(l, pid, &more) < 0)
			return -1;
		for (size_t i = 0; i < n; i++)
			if (check_threads(l, others[i], &more) < 0)
				return -1;
	}
	return 0;
}

static int check_gate(const struct ip_target *target, const struct ip_gate *gate)
{
	return gate->session ? ip_error("pid %d: a session records", target->pid) : 0;
}

int ip_late_hooks_check(struct ip_target *target, const struct ip_area *area, uint64_t limit_ns,
			bool may_stop)
{
	struct look l = {.target = target,
			 .area = area,
			 .limit_ns = ip_now_ns() + limit_ns,
			 .may_stop = may_stop,
			 .words = malloc(CHUNK)};
	struct ip_gate gate;
	int ret = -1;

	if (!l.words)
		return ip_error("out of memory");
	if (target->arch->bits != 64)
		ip_error("pid %d is a 32-bit process", target->pid);
	else if (ip_maps_read(target->pid, &target->maps) == 0 &&
		 ip_target_read(target, target->anchor.gate, &gate, sizeof(gate)) == 0 &&
		 check_gate(target, &gate) == 0 && check_slots(&l) == 0 && check_processes(&l) == 0)
		ret = check_slots(&l);
	free(l.seen);
	free(l.words);
	return ret;
}
