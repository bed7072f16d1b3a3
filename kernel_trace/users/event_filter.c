/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves out what is other users'. event_filter.h has the rules.
 */
#include "kernel_trace/users/event_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/trace/kernel_format.h"

#define BUCKETS		 4096u
#define REQUESTS	 1024u /* to block devices, that are under way */
#define NOBODY		 (-1)  /* no thread is known to run on the CPU */
#define USUAL_PRIO	 120
#define DEAD		 0x30 /* of prev_state: EXIT_DEAD, EXIT_ZOMBIE */
#define ENDED		 (-1) /* a process that is not known, since its thread has ended */
#define NOT_KNOWN	 0
#define FAULT_PROTECTION 1u /* of error_code: the page is there */

/* Fields as they lie in events: common/trace/kernel_events.c. */
struct thread_fields {
	char comm[16];
	int32_t tid, prio;
} __attribute__((packed));

struct switch_fields {
	struct thread_fields prev;
	int64_t prev_state;
	struct thread_fields next;
} __attribute__((packed));

struct woken_fields {
	struct thread_fields thread;
	int32_t target_cpu;
} __attribute__((packed));

struct exit_fields {
	struct thread_fields thread;
} __attribute__((packed));

struct fork_fields {
	char parent_comm[16];
	int32_t parent_tid;
	char child_comm[16];
	int32_t child_tid;
} __attribute__((packed));

struct exec_fields {
	int32_t tid, old_tid;
} __attribute__((packed));

struct rename_fields {
	int32_t tid;
} __attribute__((packed));

struct timer_entry_fields {
	uint64_t hrtimer;
	int64_t now;
	uint64_t function;
} __attribute__((packed));

struct timer_exit_fields {
	uint64_t hrtimer;
} __attribute__((packed));

struct fault_fields {
	uint64_t address, ip, error_code;
} __attribute__((packed));

/* The largest event that is changed. */
struct event {
	struct ip_kernel_event_header header;
	union {
		struct switch_fields switch_;
		struct woken_fields woken;
		struct exit_fields exit;
		struct fork_fields fork;
		struct exec_fields exec;
		struct rename_fields rename;
		struct timer_entry_fields timer_entry;
		struct timer_exit_fields timer_exit;
		struct fault_fields fault;
		uint8_t bytes[64];
	};
} __attribute__((packed));

struct check {
	uint64_t asked; /* when it began */
	uint64_t ended; /* the thread is shown from then on; 0: there was none */
};

/* A thread that is shown, or was until its exec. A process may become a target while events wait
 * that are older: of a thread that is shown already, or of one that had its id before. */
struct shown {
	struct shown *next; /* of the bucket */
	pid_t tid, pid;	    /* pid: NOT_KNOWN, ENDED, or its process */
	char comm[16];	    /* as an event has named it last */
	struct check check, later;
	uint64_t exec; /* its last exec, or what counts as one */
	bool told[2];  /* that something of it is missing: in its own stream, in that of all */
};

/* As who it is told that a thread runs on a CPU. */
struct running {
	int32_t tid; /* NOBODY: not known */
	char comm[16];
};

struct ip_event_filter {
	struct ip_event_filter_output output;
	unsigned cpus;
	struct running *running; /* of each CPU */
	struct shown *buckets[BUCKETS];
	size_t n;
};

struct ip_event_filter *ip_event_filter_create(unsigned cpus,
					       const struct ip_event_filter_output *output)
{
	struct ip_event_filter *f = calloc(1, sizeof(*f));

	if (f)
		f->running = calloc(cpus ? cpus : 1, sizeof(*f->running));
	if (!f || !f->running) {
		free(f);
		ip_error("out of memory");
		return NULL;
	}
	f->output = *output;
	f->cpus = cpus;
	for (unsigned i = 0; i < cpus; i++)
		f->running[i].tid = NOBODY;
	return f;
}

void ip_event_filter_destroy(struct ip_event_filter *f)
{
	for (size_t i = 0; f && i < BUCKETS; i++)
		while (f->buckets[i]) {
			struct shown *next = f->buckets[i]->next;

			free(f->buckets[i]);
			f->buckets[i] = next;
		}
	if (f)
		free(f->running);
	free(f);
}

static struct shown **place_of(struct ip_event_filter *f, pid_t tid)
{
	struct shown **at = &f->buckets[(uint32_t)tid % BUCKETS];

	while (*at && (*at)->tid != tid)
		at = &(*at)->next;
	return at;
}

static struct shown *find(struct ip_event_filter *f, pid_t tid)
{
	return tid > 0 ? *place_of(f, tid) : NULL;
}

static void hide(struct ip_event_filter *f, pid_t tid)
{
	struct shown **at = place_of(f, tid), *gone = *at;

	if (!gone)
		return;
	*at = gone->next;
	free(gone);
	f->n--;
}

static void tell_anew(struct shown *s)
{
	s->told[0] = s->told[1] = false;
}

/* What it has executed while it was checked may be another program than the one that was found. */
static bool holds(const struct check *c, const struct shown *s)
{
	return c->ended && s->exec < c->asked;
}

/* Whether a thread is shown at that time. */
static bool is_shown(const struct shown *s, uint64_t tsc)
{
	return s && ((s->check.ended <= tsc && holds(&s->check, s)) ||
		     (s->later.ended <= tsc && holds(&s->later, s)));
}

/* Makes an entry for a thread where it has none. NULL with an error; *ret_full: there are too many
 * threads. */
static struct shown *make(struct ip_event_filter *f, pid_t tid, bool *ret_full)
{
	struct shown **at = place_of(f, tid);

	*ret_full = !*at && f->n >= IP_EVENT_FILTER_THREADS;
	if (*at || *ret_full)
		return *at;
	*at = calloc(1, sizeof(**at));
	if (!*at) {
		ip_error("out of memory");
		return NULL;
	}
	f->n++;
	(*at)->tid = tid;
	return *at;
}

int ip_event_filter_show(struct ip_event_filter *f, pid_t tid, pid_t pid, const char *comm,
			 uint64_t asked, uint64_t tsc)
{
	const struct check check = {asked, tsc};
	bool full;
	struct shown *s = make(f, tid, &full);

	if (!s)
		return full ? 0 : -1;
	if (holds(&s->check, s)) {
		s->later = check;
	} else {
		s->check = check;
		s->later = (struct check){0};
		tell_anew(s);
	}
	s->pid = pid;
	snprintf(s->comm, sizeof(s->comm), "%s", comm);
	return 0;
}

/* The thread has ended, or another one gets its id. Of one that is checked later nothing is known
 * yet. */
static void end(struct ip_event_filter *f, pid_t tid, uint64_t tsc)
{
	struct shown *s = find(f, tid);

	if (!s)
		return;
	if (s->later.ended > tsc) {
		s->check = s->later;
		s->later = (struct check){0};
		tell_anew(s);
	} else if (s->check.ended <= tsc) {
		hide(f, tid);
	}
}

static void note_exec(struct shown *s, uint64_t tsc)
{
	if (holds(&s->check, s) || holds(&s->later, s))
		tell_anew(s);
	s->exec = s->exec < tsc ? tsc : s->exec;
}

static int32_t other(uint32_t cpu)
{
	return IP_KERNEL_OTHER + (int32_t)cpu;
}

/* As who a thread is told that runs on the CPU. The idle thread is nobody's. */
static int32_t name_of(struct ip_event_filter *f, uint32_t cpu, pid_t tid, uint64_t tsc)
{
	return !tid || is_shown(find(f, tid), tsc) ? tid : other(cpu);
}

static void put_other(struct thread_fields *t, int32_t name)
{
	if (name < IP_KERNEL_OTHER)
		return;
	*t = (struct thread_fields){.tid = name, .prio = USUAL_PRIO};
	memcpy(t->comm, IP_KERNEL_OTHER_NAME, sizeof(IP_KERNEL_OTHER_NAME));
}

/* A name is kept of a thread that is shown: that of a program which it executes then is not. */
static void note_name(struct ip_event_filter *f, pid_t tid, const char *comm, uint64_t tsc)
{
	struct shown *s = find(f, tid);

	if (is_shown(s, tsc))
		memcpy(s->comm, comm, sizeof(s->comm));
}

static void set_running(struct ip_event_filter *f, uint32_t cpu, int32_t name)
{
	struct running *r = &f->running[cpu];
	const struct shown *s = find(f, name);

	*r = (struct running){.tid = name};
	if (s)
		memcpy(r->comm, s->comm, sizeof(r->comm));
	else if (!name)
		snprintf(r->comm, sizeof(r->comm), "swapper/%u", cpu);
}

/* A thread in an event that none of the kernel's has. */
static void put_running(struct thread_fields *t, const struct running *r)
{
	*t = (struct thread_fields){.tid = r->tid, .prio = USUAL_PRIO};
	memcpy(t->comm, r->comm, sizeof(t->comm));
	put_other(t, r->tid);
}

static int put(struct ip_event_filter *f, bool all, uint32_t cpu, const struct event *e,
	       size_t size)
{
	return f->output.event(f->output.context, all, cpu, (const uint8_t *)e, size);
}

/* Something was left out in which another thread came to run: a switch says so. */
static int tell_running(struct ip_event_filter *f, uint32_t cpu, uint64_t tsc, int32_t name)
{
	const struct running before = f->running[cpu];
	struct event e = {.header = {.id = IP_KERNEL_SCHED_SWITCH, .tsc = tsc, .tid = before.tid}};

	set_running(f, cpu, name);
	if (before.tid == name || before.tid == NOBODY)
		return 0;
	put_running(&e.switch_.prev, &before);
	put_running(&e.switch_.next, &f->running[cpu]);
	return put(f, true, cpu, &e, sizeof(e.header) + sizeof(e.switch_));
}

/* A thread that would be shown has to be checked first: what it did is missing. That is told once
 * until it is shown again: how much it did, and when, is another user's affair perhaps. Nothing is
 * known of it from then on. */
static int withhold(struct ip_event_filter *f, bool all, uint32_t cpu, struct shown *s,
		    uint64_t tsc)
{
	if (!s || is_shown(s, tsc) || s->told[all])
		return 0;
	s->told[all] = true;
	return f->output.lost(f->output.context, all, cpu);
}

static int on_switch(struct ip_event_filter *f, uint32_t cpu, struct event *e, size_t size)
{
	struct switch_fields *s = &e->switch_;
	const int32_t prev = name_of(f, cpu, s->prev.tid, e->header.tsc),
		      next = name_of(f, cpu, s->next.tid, e->header.tsc);
	struct shown *from = find(f, s->prev.tid), *to = find(f, s->next.tid);
	const pid_t tid = s->prev.tid;
	const bool ends = s->prev_state & DEAD;
	int ret;

	note_name(f, s->prev.tid, s->prev.comm, e->header.tsc);
	note_name(f, s->next.tid, s->next.comm, e->header.tsc);
	ret = tell_running(f, cpu, e->header.tsc, prev);
	if (ret == 0)
		ret = withhold(f, true, cpu, from, e->header.tsc);
	if (ret == 0)
		ret = withhold(f, true, cpu, to, e->header.tsc);

	if (ret == 0 && prev != next) {
		if (prev >= IP_KERNEL_OTHER)
			s->prev_state = 0;
		put_other(&s->prev, prev);
		put_other(&s->next, next);
		e->header.tid = prev;
		set_running(f, cpu, next);
		ret = put(f, true, cpu, e, size);
	}
	if (ends && tid)
		end(f, tid, e->header.tsc);
	return ret;
}

static int on_fork(struct ip_event_filter *f, uint32_t cpu, struct event *e, size_t size)
{
	const struct check check = {e->header.tsc, e->header.tsc};
	const pid_t child = e->fork.child_tid;
	struct shown *s;
	bool full;

	note_name(f, e->fork.parent_tid, e->fork.parent_comm, e->header.tsc);
	end(f, child, e->header.tsc); /* of another thread that had the id before */
	if (!is_shown(find(f, e->fork.parent_tid), e->header.tsc))
		return 0;
	s = make(f, child, &full);
	if (!s && !full)
		return -1;
	if (s && s->check.ended) /* it has become a target since */
		s->later = s->check;
	if (s)
		s->check = check;
	note_name(f, child, e->fork.child_comm, e->header.tsc);
	/* the thread that runs is the parent */
	e->header.tid = e->fork.parent_tid;
	if (tell_running(f, cpu, e->header.tsc, e->header.tid) < 0)
		return -1;
	return put(f, true, cpu, e, size);
}

static void find_process(const struct ip_event_filter *f, struct shown *s)
{
	if (s->pid != NOT_KNOWN)
		return;
	s->pid = f->output.process_of(s->tid);
	s->pid = s->pid > 0 ? s->pid : ENDED;
}

/* A process gets a new name in an exec, and then it has one thread, which has its id. Whose thread
 * it was cannot be asked for now: its id may be another's by now. */
static void on_rename(struct ip_event_filter *f, const struct event *e)
{
	struct shown *s = find(f, e->rename.tid);

	if (!s)
		return;
	if (s->pid == s->tid || s->pid == ENDED || s->pid == NOT_KNOWN)
		note_exec(s, e->header.tsc);
}

/* The program may have other rights. Of several threads the one that executes it has the id of the
 * first from here on. */
static void on_exec(struct ip_event_filter *f, const struct event *e)
{
	struct shown *old = find(f, e->exec.old_tid), *s = find(f, e->exec.tid);
	bool full;

	if (old && !s) {
		s = make(f, e->exec.tid, &full);
		if (s) {
			s->pid = old->pid;
			s->check = old->check;
			s->later = old->later;
			memcpy(s->comm, old->comm, sizeof(s->comm));
		}
	}
	if (old && old != s)
		hide(f, e->exec.old_tid);
	if (!s)
		return;
	note_exec(s, e->header.tsc);
	if (s->pid == ENDED) /* it is asked for anew */
		s->pid = NOT_KNOWN;
}

static bool is_of_kernel(uint64_t address)
{
	return address >> 63;
}

/* What tells where the kernel's code and data lie: also whether there is something. Of that the
 * kernel says the same in signals. */
static void hide_addresses(struct event *e)
{
	switch (e->header.id) {
	case IP_KERNEL_HRTIMER_ENTRY:
		e->timer_entry.hrtimer = e->timer_entry.function = 0;
		break;
	case IP_KERNEL_HRTIMER_EXIT:
		e->timer_exit.hrtimer = 0;
		break;
	case IP_KERNEL_FAULT_USER:
	case IP_KERNEL_FAULT_KERNEL:
		if (is_of_kernel(e->fault.ip))
			e->fault.ip = 0;
		if (is_of_kernel(e->fault.address)) {
			e->fault.error_code |= FAULT_PROTECTION;
			e->fault.address = 0;
		}
		break;
	default:
		break;
	}
}

/* What happened while a thread ran, in its own name. */
static int of_thread(struct ip_event_filter *f, bool all, uint32_t cpu, struct event *e,
		     size_t size)
{
	struct shown *s = find(f, e->header.tid);

	if (!is_shown(s, e->header.tsc))
		return withhold(f, all, cpu, s, e->header.tsc);
	if (tell_running(f, cpu, e->header.tsc, e->header.tid) < 0)
		return -1;
	hide_addresses(e);
	return put(f, all, cpu, e, size);
}

static int on_woken(struct ip_event_filter *f, uint32_t cpu, struct event *e, size_t size)
{
	const int32_t name = name_of(f, cpu, e->header.tid, e->header.tsc);
	struct shown *s = find(f, e->woken.thread.tid);

	note_name(f, e->woken.thread.tid, e->woken.thread.comm, e->header.tsc);
	if (!is_shown(s, e->header.tsc))
		return withhold(f, true, cpu, s, e->header.tsc);
	if (tell_running(f, cpu, e->header.tsc, name) < 0)
		return -1;
	e->header.tid = name;
	return put(f, true, cpu, e, size);
}

int ip_event_filter_event(struct ip_event_filter *f, bool all, uint32_t cpu, const uint8_t *event,
			  size_t size)
{
	struct ip_kernel_event_header header;
	const struct ip_kernel_kind *kind;
	struct event e = {0};

	if (cpu >= f->cpus || size < sizeof(header))
		return 0;
	memcpy(&header, event, sizeof(header));
	kind = ip_kernel_kind_of(header.id);
	if (kind && !kind->system) /* what is read of /proc does not come here */
		return 0;
	if (size > sizeof(e) || (int)(size - sizeof(header)) != ip_kernel_fields_size(header.id))
		return 0;
	memcpy(&e, event, size);
	switch (header.id) {
	case IP_KERNEL_SCHED_SWITCH:
		return on_switch(f, cpu, &e, size);
	case IP_KERNEL_SCHED_WAKING:
	case IP_KERNEL_SCHED_WAKEUP:
	case IP_KERNEL_SCHED_WAKEUP_NEW:
		return on_woken(f, cpu, &e, size);
	case IP_KERNEL_SCHED_FORK:
		return on_fork(f, cpu, &e, size);
	case IP_KERNEL_SCHED_EXEC:
		on_exec(f, &e);
		return 0;
	case IP_KERNEL_TASK_RENAME:
		on_rename(f, &e);
		return 0;
	case IP_KERNEL_BLOCK_COMPLETE: /* who issues a request is not who has asked for it */
	case IP_KERNEL_BLOCK_ISSUE:
		return 0;
	case IP_KERNEL_SCHED_EXIT: /* it is the thread that runs */
		return e.exit.thread.tid == header.tid ? of_thread(f, all, cpu, &e, size) : 0;
	default:
		return of_thread(f, all, cpu, &e, size);
	}
}

int ip_event_filter_lost(struct ip_event_filter *f, bool all, uint32_t cpu, uint64_t tsc)
{
	/* an id may be that of another process' thread by now */
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct shown *s = f->buckets[i]; s; s = s->next) {
			note_exec(s, tsc);
			s->pid = NOT_KNOWN;
		}
	return cpu < f->cpus ? f->output.lost(f->output.context, all, cpu) : 0;
}

static int by_pid(const void *left, const void *right)
{
	const pid_t a = *(const pid_t *)left, b = *(const pid_t *)right;

	return (a > b) - (a < b);
}

int ip_event_filter_each(struct ip_event_filter *f, int (*visit)(void *context, pid_t pid),
			 void *context)
{
	pid_t *pids = calloc(f->n + 1, sizeof(*pids));
	size_t n = 0;
	int ret = 0;

	if (!pids)
		return ip_error("out of memory");
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct shown *s = f->buckets[i]; s; s = s->next) {
			find_process(f, s);
			if (s->pid > 0)
				pids[n++] = s->pid;
		}
	qsort(pids, n, sizeof(*pids), by_pid);
	for (size_t i = 0; i < n && ret >= 0; i++)
		if (!i || pids[i] != pids[i - 1])
			ret = visit(context, pids[i]);
	free(pids);
	return ret;
}

void ip_event_filter_allow(struct ip_event_filter *f, pid_t pid, uint64_t asked, uint64_t tsc)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct shown *s = f->buckets[i]; s; s = s->next)
			if (s->pid == pid && !holds(&s->check, s) && !holds(&s->later, s) &&
			    s->exec < asked) {
				s->check = (struct check){asked, tsc};
				s->later = (struct check){0};
				tell_anew(s);
			}
}

void ip_event_filter_refuse(struct ip_event_filter *f, pid_t pid)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct shown **at = &f->buckets[i]; *at;) {
			struct shown *s = *at;

			if (s->pid != pid) {
				at = &s->next;
				continue;
			}
			*at = s->next;
			free(s);
			f->n--;
		}
}
