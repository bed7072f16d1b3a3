/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts system calls together. syscall_reader.h has the rules.
 */
#include "analysis/syscalls/syscall_reader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "analysis/wait/thread_states.h"
#include "common/array.h"
#include "common/error.h"

#define ERROR_MOST	 4095 /* a result above -4096 and below 0 is an error */
#define INDEX_LEAST	 256u
#define LOSSES_WORK_MOST 4000000000u /* threads that losses may have looked at */
#define STATE_PREEMPTED	 0x100
#define STATE_DEAD	 0x30 /* of prev_state: X, Z */

/* Places of fields in events (common/trace/kernel_events.c). */
enum {
	SWITCH_PREV_TID = 16,
	SWITCH_PREV_STATE = 24,
	SWITCH_NEXT_COMM = 32,
	SWITCH_NEXT_TID = 48,
	WOKEN_COMM = 0,
	WOKEN_TID = 16,
	FORK_PARENT_TID = 16,
	FORK_CHILD_COMM = 20,
	FORK_CHILD_TID = 36,
	EXIT_COMM = 0,
	EXIT_TID = 16,
	STATE_TID = 0,
	STATE_PID = 4,
	STATE_NAME = 12,
	CALL_TID = 0,
	CALL_NUMBER = 4,
	CALL_ARGUMENTS = 8,
};

#define NAME_SIZE 16

enum state { UNKNOWN, RUNNING, RUNNABLE, BLOCKED };

struct thread {
	struct ip_syscall_call call; /* valid where in_call */
	uint64_t since;		     /* of the state */
	uint64_t joined;	     /* when it began to be recorded; 0: at the beginning */
	int32_t tid;		     /* 0: the place is free */
	int32_t pid;		     /* its process; 0: not known */
	uint32_t cpu;
	uint8_t state;
	bool asked;			    /* for its process */
	bool in_call, seen, gone, doubtful; /* doubtful: events were lost while it was open */
	uint32_t program; /* of a main thread: the last that its process has executed; 0: none */
	char name[NAME_SIZE];
	/* before its process first executed a program; what the kernel calls it while it does */
	char name_before[NAME_SIZE], name_executing[NAME_SIZE];
};

struct ip_syscall_reader {
	int (*take)(void *context, const struct ip_syscall_call *call);
	void *context;
	int32_t (*process_of)(void *context, int32_t tid); /* NULL: nobody knows */
	int32_t first_pid;	/* the process whose threads were noted first; 0: none was */
	struct thread *threads; /* open addressing, a power of two */
	size_t size, n;
	char (*programs)[NAME_SIZE]; /* by number - 1: what the process was called last in it */
	uint32_t nprograms;
	uint64_t work; /* that losses have made */
	struct ip_syscall_reader_sums sums;
};

bool ip_syscall_is_error(int64_t result, unsigned *ret_number)
{
	if (result >= 0 || result < -ERROR_MOST)
		return false;
	*ret_number = -result;
	return true;
}

struct ip_syscall_reader *ip_syscall_reader_create(int (*take)(void *context,
							       const struct ip_syscall_call *call),
						   void *context)
{
	struct ip_syscall_reader *r = calloc(1, sizeof(*r));

	if (r) {
		r->take = take;
		r->context = context;
		r->size = INDEX_LEAST;
		r->threads = calloc(r->size, sizeof(*r->threads));
	}
	if (r && r->threads)
		return r;
	ip_error("out of memory");
	free(r);
	return NULL;
}

void ip_syscall_reader_destroy(struct ip_syscall_reader *r)
{
	if (!r)
		return;
	free(r->threads);
	free(r->programs);
	free(r);
}

void ip_syscall_reader_ask_process(struct ip_syscall_reader *r,
				   int32_t (*process_of)(void *context, int32_t tid))
{
	r->process_of = process_of;
}

void ip_syscall_reader_expect_scheduler(struct ip_syscall_reader *r)
{
	r->sums.scheduled = true;
}

static struct thread *slot_of(const struct thread *threads, size_t size, int32_t tid)
{
	size_t at = (uint32_t)tid * 2654435761u & (size - 1);

	while (threads[at].tid && threads[at].tid != tid)
		at = (at + 1) & (size - 1);
	return (struct thread *)&threads[at];
}

/* Makes room for another thread. Those that are gone are left out. */
static int make_room(struct ip_syscall_reader *r)
{
	size_t left = 0, size = INDEX_LEAST;
	struct thread *threads;

	for (size_t i = 0; i < r->size; i++)
		left += r->threads[i].tid && !r->threads[i].gone;
	while (size < 4 * (left + 1))
		size *= 2;
	threads = calloc(size, sizeof(*threads));
	if (!threads)
		return ip_error("out of memory");
	for (size_t i = 0; i < r->size; i++)
		if (r->threads[i].tid && !r->threads[i].gone)
			*slot_of(threads, size, r->threads[i].tid) = r->threads[i];
	free(r->threads);
	r->threads = threads;
	r->size = size;
	r->n = left;
	return 0;
}

static struct thread *find(const struct ip_syscall_reader *r, int32_t tid)
{
	struct thread *t = tid ? slot_of(r->threads, r->size, tid) : NULL;

	return t && t->tid && !t->gone ? t : NULL;
}

/* The thread with a tid; it is made where it is new. Earlier pointers to threads are invalid then.
 * Returns NULL with an error. */
static struct thread *get(struct ip_syscall_reader *r, int32_t tid)
{
	struct thread *t = slot_of(r->threads, r->size, tid);

	if (t->tid && !t->gone)
		return t;
	if (!t->tid && 2 * (r->n + 1) > r->size) {
		if (make_room(r) < 0)
			return NULL;
		t = slot_of(r->threads, r->size, tid);
	}
	r->n += !t->tid;
	*t = (struct thread){.tid = tid};
	return t;
}

static void add_parts(struct ip_syscall_parts *parts, uint8_t state, uint64_t ticks)
{
	switch (state) {
	case RUNNING:
		parts->cpu += ticks;
		break;
	case RUNNABLE:
		parts->runqueue += ticks;
		break;
	case BLOCKED:
		parts->blocked += ticks;
		break;
	default:
		parts->unknown += ticks;
	}
}

/* The thread has another state from a time on. Events of several CPUs may be a little out of
 * order. */
static void change(struct thread *t, uint8_t state, uint64_t tsc)
{
	if (t->in_call && tsc > t->since)
		add_parts(&t->call.parts, t->state, tsc - t->since);
	t->since = tsc > t->since ? tsc : t->since;
	t->state = state;
}

/* The program that a thread's process is. */
static uint32_t program_of(const struct ip_syscall_reader *r, const struct thread *t)
{
	const struct thread *main_thread =
		t->pid && t->pid != t->tid ? slot_of(r->threads, r->size, t->pid) : t;

	return main_thread->program;
}

static int finish(struct ip_syscall_reader *r, struct thread *t, enum ip_syscall_outcome outcome,
		  uint64_t tsc)
{
	struct ip_syscall_call call;

	change(t, t->state, tsc);
	t->in_call = false;
	call = t->call;
	call.pid = t->pid;
	call.program = program_of(r, t);
	call.end = tsc > call.begin ? tsc : call.begin;
	call.outcome = outcome;
	if (!r->sums.scheduled) /* nothing tells what the thread did */
		call.parts = (struct ip_syscall_parts){.unknown = call.end - call.begin};
	return r->take(r->context, &call);
}

/* A call of which no more is known than that it has returned. */
static int tell_untimed(struct ip_syscall_reader *r, const struct thread *t, uint16_t number,
			uint64_t tsc, enum ip_syscall_outcome outcome, int64_t result)
{
	const struct ip_syscall_call call = {.begin = tsc,
					     .end = tsc,
					     .tid = t->tid,
					     .pid = t->pid,
					     .program = program_of(r, t),
					     .number = number,
					     .outcome = outcome,
					     .result = result};

	return r->take(r->context, &call);
}

/* A thread in which an event is. Of one that was made before its process was noted nobody has told
 * to which it belongs. Returns NULL with an error. */
static struct thread *current(struct ip_syscall_reader *r, int32_t tid)
{
	struct thread *t = get(r, tid);
	int32_t told;

	if (t && !t->pid && !t->asked && r->process_of) {
		told = r->process_of(r->context, tid);
		t->pid = told > 0 ? told : 0;
		t->asked = true;
	}
	return t;
}

static int enter(struct ip_syscall_reader *r, const struct ip_kernel_record *record)
{
	struct thread *t = current(r, record->tid);
	int ret = 0;

	if (!t)
		return -1;
	if (t->in_call) {
		t->in_call = false;
		ret = tell_untimed(r, t, t->call.number, record->tsc, IP_SYSCALL_LOST, 0);
	}
	t->seen = true;
	t->call = (struct ip_syscall_call){.begin = record->tsc,
					   .tid = record->tid,
					   .number = record->id - IP_KERNEL_SYSCALL_ENTRY,
					   .timed = true,
					   .own = record->context & IP_KERNEL_OWN_CALL};
	memcpy(t->call.arguments, record->fields,
	       record->size < sizeof(t->call.arguments) ? record->size : sizeof(t->call.arguments));
	t->in_call = true;
	t->doubtful = false;
	t->state = RUNNING;
	t->cpu = record->cpu;
	t->since = record->tsc;
	return ret;
}

static bool makes_child(uint16_t number)
{
	return number == SYS_clone || number == SYS_clone3 || number == SYS_fork ||
	       number == SYS_vfork;
}

static bool is_execution(uint16_t number)
{
	return number == SYS_execve || number == SYS_execveat;
}

/* Who executes a program is the one thread of its process, and its main thread. Until the kernel
 * tells a name, the program has none. */
static int note_program(struct ip_syscall_reader *r, struct thread *t)
{
	if (ip_array_grow(&r->programs, r->nprograms, sizeof(*r->programs)) < 0)
		return -1;
	if (!t->program)
		memcpy(t->name_before, t->name, sizeof(t->name));
	memcpy(t->name, t->name_executing, sizeof(t->name));
	memcpy(r->programs[r->nprograms], t->name, sizeof(t->name));
	t->program = ++r->nprograms;
	t->pid = t->tid;
	return 0;
}

static int leave(struct ip_syscall_reader *r, const struct ip_kernel_record *record)
{
	struct thread *t = current(r, record->tid);
	const uint16_t number = record->id - IP_KERNEL_SYSCALL_EXIT;
	const int64_t result = ip_kernel_u64(record, 0);
	bool first;
	int ret = 0;

	if (!t)
		return -1;
	first = !t->seen;
	t->seen = true;
	if (t->in_call && t->call.number == number && !t->doubtful) {
		t->call.result = result;
		ret = finish(r, t, IP_SYSCALL_RETURNED, record->tsc);
	} else if (t->in_call || !first || !makes_child(number) || result) {
		if (t->in_call && t->call.number != number)
			ret = tell_untimed(r, t, t->call.number, record->tsc, IP_SYSCALL_LOST, 0);
		t->in_call = false;
		if (ret >= 0)
			ret = tell_untimed(r, t, number, record->tsc, IP_SYSCALL_RETURNED, result);
	}
	if (is_execution(number) && !result && note_program(r, t) < 0)
		ret = -1;
	*t->name_executing = '\0';
	t->state = RUNNING;
	t->cpu = record->cpu;
	t->since = record->tsc;
	return ret;
}

/* A process gets its new name before it returns from execve(2). */
static void note_name(struct ip_syscall_reader *r, struct thread *t,
		      const struct ip_kernel_record *record, size_t at)
{
	const bool executing = t->in_call && is_execution(t->call.number);

	memcpy(executing ? t->name_executing : t->name, record->fields + at, NAME_SIZE - 1);
	if (t->program && !executing)
		memcpy(r->programs[t->program - 1], t->name, NAME_SIZE);
}

/* A thread that gives its CPU to another one. */
static int note_switch(struct ip_syscall_reader *r, const struct ip_kernel_record *record)
{
	const int64_t state = ip_kernel_u64(record, SWITCH_PREV_STATE);
	struct thread *t = find(r, ip_kernel_s32(record, SWITCH_PREV_TID));

	r->sums.scheduled = true;
	if (t) {
		change(t, state & (STATE_PREEMPTED - 1) ? BLOCKED : RUNNABLE, record->tsc);
		t->gone = state & STATE_DEAD && !t->in_call;
	}
	t = find(r, ip_kernel_s32(record, SWITCH_NEXT_TID));
	if (!t)
		return 0;
	change(t, RUNNING, record->tsc);
	t->cpu = record->cpu;
	note_name(r, t, record, SWITCH_NEXT_COMM);
	return 0;
}

static int note_wakeup(struct ip_syscall_reader *r, const struct ip_kernel_record *record)
{
	struct thread *t = find(r, ip_kernel_s32(record, WOKEN_TID));

	if (!t)
		return 0;
	note_name(r, t, record, WOKEN_COMM);
	if (t->state == BLOCKED)
		change(t, RUNNABLE, record->tsc);
	return 0;
}

/* The process of a child. */
static int32_t process_of(const struct ip_syscall_reader *r, const struct thread *parent,
			  int32_t child)
{
	const int8_t makes =
		parent && parent->in_call
			? ip_call_makes_process(parent->call.number, parent->call.arguments[0])
			: -1;
	const int32_t told = makes < 0 && r->process_of ? r->process_of(r->context, child) : 0;

	return makes == 1 ? child : told > 0 ? told : parent ? parent->pid : 0;
}

/* The child is new: an older thread may have had its tid. */
static int note_fork(struct ip_syscall_reader *r, const struct ip_kernel_record *record)
{
	const int32_t tid = ip_kernel_s32(record, FORK_CHILD_TID);
	const bool ours = find(r, ip_kernel_s32(record, FORK_PARENT_TID));
	struct thread *t = tid > 0 ? find(r, tid) : NULL;
	int ret = 0;

	if (t && t->in_call)
		ret = finish(r, t, IP_SYSCALL_OPEN, t->since);
	if (!t && ours && tid > 0)
		t = get(r, tid);
	if (!t)
		return ours && tid > 0 ? -1 : 0;
	*t = (struct thread){
		.tid = tid,
		.pid = process_of(r, find(r, ip_kernel_s32(record, FORK_PARENT_TID)), tid)};
	note_name(r, t, record, FORK_CHILD_COMM);
	return ret;
}

/* What a thread is in when it ends has no return: exit(2), or it was killed. */
static int note_exit(struct ip_syscall_reader *r, const struct ip_kernel_record *record)
{
	struct thread *t = find(r, ip_kernel_s32(record, EXIT_TID));
	int ret = 0;

	if (!t)
		return 0;
	note_name(r, t, record, EXIT_COMM);
	if (t->in_call)
		ret = finish(r, t, IP_SYSCALL_OPEN, record->tsc);
	t->gone = true;
	return ret;
}

/* Events were lost: of the CPU in any process, or of the target's threads on it. A thread that runs
 * on another CPU has missed nothing of the former. */
static int note_loss(struct ip_syscall_reader *r, const struct ip_kernel_record *record)
{
	r->sums.lost += record->lost;
	r->work += r->size;
	if (r->work > LOSSES_WORK_MOST)
		return ip_error("the kernel's events have too many losses");
	for (size_t i = 0; i < r->size; i++) {
		struct thread *t = &r->threads[i];

		if (!t->tid)
			continue;
		t->doubtful |= !record->all;
		if (t->state != RUNNING || t->cpu == record->cpu)
			change(t, UNKNOWN,
			       record->lost_since > t->since ? record->lost_since : t->since);
	}
	return 0;
}

/* A call that a thread was in when the recording began. */
static int note_call_state(struct ip_syscall_reader *r, const struct ip_kernel_record *record)
{
	const int32_t tid = ip_kernel_s32(record, CALL_TID),
		      number = ip_kernel_s32(record, CALL_NUMBER);
	struct thread *t = tid > 0 ? get(r, tid) : NULL;

	if (!t)
		return tid > 0 ? -1 : 0;
	if (t->seen || t->in_call || number < 0 || number >= (int32_t)IP_KERNEL_SYSCALLS_MAX)
		return 0;
	t->seen = t->in_call = true;
	t->call = (struct ip_syscall_call){.begin = t->joined ? t->joined : r->sums.begin,
					   .tid = tid,
					   .number = number,
					   .timed = true,
					   .own = record->context & IP_KERNEL_OWN_CALL,
					   .earlier = true};
	memcpy(t->call.arguments, record->fields + CALL_ARGUMENTS, sizeof(t->call.arguments));
	t->state = BLOCKED; /* else the kernel tells no call of it */
	t->since = t->call.begin;
	return 0;
}

static int note_state(struct ip_syscall_reader *r, const struct ip_kernel_record *record)
{
	const int32_t tid = ip_kernel_s32(record, STATE_TID);
	const int32_t pid = ip_kernel_s32(record, STATE_PID);
	struct thread *t = tid > 0 ? get(r, tid) : NULL;

	if (!t)
		return tid > 0 ? -1 : 0;
	if (!*t->name)
		memcpy(t->name, record->fields + STATE_NAME, sizeof(t->name) - 1);
	if (pid > 0)
		t->pid = pid;
	if (!r->first_pid)
		r->first_pid = pid;
	if (!t->seen && pid != r->first_pid)
		t->joined = record->tsc;
	return 0;
}

int ip_syscall_reader_feed(struct ip_syscall_reader *r, const struct ip_kernel_record *record)
{
	r->sums.begin = r->sums.begin ? r->sums.begin : record->tsc;
	r->sums.end = record->tsc > r->sums.end ? record->tsc : r->sums.end;
	r->sums.events += record->id != IP_KERNEL_LOST;
	switch (record->id) {
	case IP_KERNEL_LOST:
		return note_loss(r, record);
	case IP_KERNEL_SCHED_SWITCH:
		return note_switch(r, record);
	case IP_KERNEL_SCHED_WAKEUP:
		return note_wakeup(r, record);
	case IP_KERNEL_SCHED_FORK:
		return note_fork(r, record);
	case IP_KERNEL_SCHED_EXIT:
		return note_exit(r, record);
	case IP_KERNEL_PROCESS_STATE:
		return note_state(r, record);
	case IP_KERNEL_SYSCALL_STATE:
		return note_call_state(r, record);
	default:
		if (record->id < IP_KERNEL_SYSCALL_ENTRY || record->tid <= 0)
			return 0;
		return record->id < IP_KERNEL_SYSCALL_EXIT ? enter(r, record) : leave(r, record);
	}
}

int ip_syscall_reader_end(struct ip_syscall_reader *r, uint64_t tsc)
{
	for (size_t i = 0; i < r->size; i++) {
		struct thread *t = &r->threads[i];
		int ret = t->tid && t->in_call
				  ? finish(r, t, IP_SYSCALL_OPEN, tsc > t->since ? tsc : t->since)
				  : 0;

		if (ret < 0)
			return ret;
	}
	return 0;
}

void ip_syscall_reader_each_open(const struct ip_syscall_reader *r, uint64_t tsc,
				 void (*visit)(void *context, const struct ip_syscall_call *call),
				 void *context)
{
	for (size_t i = 0; i < r->size; i++) {
		struct thread t = r->threads[i];

		if (!t.tid || !t.in_call)
			continue;
		change(&t, t.state, tsc);
		t.call.pid = t.pid;
		t.call.program = program_of(r, &t);
		t.call.end = tsc > t.call.begin ? tsc : t.call.begin;
		t.call.outcome = IP_SYSCALL_OPEN;
		visit(context, &t.call);
	}
}

struct ip_syscall_reader_sums ip_syscall_reader_read(const struct ip_syscall_reader *r)
{
	return r->sums;
}

const char *ip_syscall_reader_thread(const struct ip_syscall_reader *r, int32_t tid)
{
	const struct thread *t = slot_of(r->threads, r->size, tid);

	return tid && t->tid ? t->name : "";
}

const char *ip_syscall_reader_process(const struct ip_syscall_reader *r, int32_t pid,
				      uint32_t program)
{
	const struct thread *t = slot_of(r->threads, r->size, pid);

	if (program)
		return program <= r->nprograms ? r->programs[program - 1] : "";
	return !pid || !t->tid ? "" : t->program ? t->name_before : t->name;
}

const char *ip_syscall_reader_caller(const struct ip_syscall_reader *r,
				     const struct ip_syscall_call *call)
{
	const bool is_main = call->pid == call->tid || !call->pid;
	const char *name = is_main ? ip_syscall_reader_process(r, call->tid, call->program) : "";

	return *name ? name : ip_syscall_reader_thread(r, call->tid);
}
