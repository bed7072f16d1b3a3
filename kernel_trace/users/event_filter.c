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
#include "kernel_trace/users/event_threads.h"

#define REQUESTS	 1024u /* to block devices, that are under way */
#define NOBODY		 (-1)  /* no thread is known to run on the CPU */
#define USUAL_PRIO	 120
#define DEAD		 0x30 /* of prev_state: EXIT_DEAD, EXIT_ZOMBIE */
#define FAULT_PROTECTION 1u   /* of error_code: the page is there */

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

/* As who it is told that a thread runs on a CPU. */
struct running {
	int32_t tid; /* NOBODY: not known */
	char comm[16];
};

struct ip_event_filter {
	struct ip_event_filter_output output;
	unsigned cpus;
	struct running *running; /* of each CPU */
	struct ip_event_threads threads;
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
	if (!f)
		return;
	ip_event_threads_clear(&f->threads);
	free(f->running);
	free(f);
}

static int32_t other(uint32_t cpu)
{
	return IP_KERNEL_OTHER + (int32_t)cpu;
}

/* As who a thread is told that runs on the CPU. The idle thread is nobody's. */
static int32_t name_of(struct ip_event_filter *f, uint32_t cpu, pid_t tid, uint64_t tsc)
{
	return !tid || ip_event_thread_is_shown(ip_event_threads_find(&f->threads, tid), tsc)
		       ? tid
		       : other(cpu);
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
	struct ip_event_thread *s = ip_event_threads_find(&f->threads, tid);

	if (ip_event_thread_is_shown(s, tsc))
		memcpy(s->comm, comm, sizeof(s->comm));
}

static void set_running(struct ip_event_filter *f, uint32_t cpu, int32_t name)
{
	struct running *r = &f->running[cpu];
	const struct ip_event_thread *s = ip_event_threads_find(&f->threads, name);

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
static int withhold(struct ip_event_filter *f, bool all, uint32_t cpu, struct ip_event_thread *s,
		    uint64_t tsc)
{
	if (!s || ip_event_thread_is_shown(s, tsc) || s->told[all])
		return 0;
	s->told[all] = true;
	return f->output.lost(f->output.context, all, cpu);
}

static int on_switch(struct ip_event_filter *f, uint32_t cpu, struct event *e, size_t size)
{
	struct switch_fields *s = &e->switch_;
	const int32_t prev = name_of(f, cpu, s->prev.tid, e->header.tsc),
		      next = name_of(f, cpu, s->next.tid, e->header.tsc);
	struct ip_event_thread *from = ip_event_threads_find(&f->threads, s->prev.tid),
			       *to = ip_event_threads_find(&f->threads, s->next.tid);
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
		ip_event_threads_end(&f->threads, tid, e->header.tsc);
	return ret;
}

static int on_fork(struct ip_event_filter *f, uint32_t cpu, struct event *e, size_t size)
{
	const pid_t child = e->fork.child_tid;

	note_name(f, e->fork.parent_tid, e->fork.parent_comm, e->header.tsc);
	/* of another thread that had the id before */
	ip_event_threads_end(&f->threads, child, e->header.tsc);
	if (!ip_event_thread_is_shown(ip_event_threads_find(&f->threads, e->fork.parent_tid),
				      e->header.tsc))
		return 0;
	if (ip_event_threads_born(&f->threads, child, e->header.tsc) < 0)
		return -1;
	note_name(f, child, e->fork.child_comm, e->header.tsc);
	/* the thread that runs is the parent */
	e->header.tid = e->fork.parent_tid;
	if (tell_running(f, cpu, e->header.tsc, e->header.tid) < 0)
		return -1;
	return put(f, true, cpu, e, size);
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
	struct ip_event_thread *s = ip_event_threads_find(&f->threads, e->header.tid);

	if (!ip_event_thread_is_shown(s, e->header.tsc))
		return withhold(f, all, cpu, s, e->header.tsc);
	if (tell_running(f, cpu, e->header.tsc, e->header.tid) < 0)
		return -1;
	hide_addresses(e);
	return put(f, all, cpu, e, size);
}

static int on_woken(struct ip_event_filter *f, uint32_t cpu, struct event *e, size_t size)
{
	const int32_t name = name_of(f, cpu, e->header.tid, e->header.tsc);
	struct ip_event_thread *s = ip_event_threads_find(&f->threads, e->woken.thread.tid);

	note_name(f, e->woken.thread.tid, e->woken.thread.comm, e->header.tsc);
	if (!ip_event_thread_is_shown(s, e->header.tsc))
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
		ip_event_threads_exec(&f->threads, e.exec.tid, e.exec.old_tid, header.tsc);
		return 0;
	case IP_KERNEL_TASK_RENAME:
		ip_event_threads_rename(&f->threads, e.rename.tid, header.tsc);
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
	ip_event_threads_lose(&f->threads, tsc);
	return cpu < f->cpus ? f->output.lost(f->output.context, all, cpu) : 0;
}

int ip_event_filter_show(struct ip_event_filter *f, pid_t tid, pid_t pid, const char *comm,
			 uint64_t asked, uint64_t tsc)
{
	return ip_event_threads_show(&f->threads, tid, pid, comm, asked, tsc);
}

int ip_event_filter_each(struct ip_event_filter *f, int (*visit)(void *context, pid_t pid),
			 void *context)
{
	return ip_event_threads_each(&f->threads, f->output.process_of, visit, context);
}

void ip_event_filter_allow(struct ip_event_filter *f, pid_t pid, uint64_t asked, uint64_t tsc)
{
	ip_event_threads_allow(&f->threads, pid, asked, tsc);
}

void ip_event_filter_refuse(struct ip_event_filter *f, pid_t pid)
{
	ip_event_threads_refuse(&f->threads, pid);
}
