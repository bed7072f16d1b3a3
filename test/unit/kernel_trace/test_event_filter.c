/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left out of events of the kernel that a user gets, on events that the tests make.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/trace/kernel_format.h"
#include "kernel_trace/users/event_filter.h"
#include "test/unit/test.h"

#define CPUS	4
#define OWN	1000
#define OWN_TOO 1001
#define FOREIGN 0x5ec2e7
#define SECOND	0x5ec2e8
#define SECRET	"secret-name"
#define ADDRESS 0xffffffff81234567ull

struct out {
	struct {
		uint8_t bytes[128];
		size_t size;
		bool all;
		uint32_t cpu;
	} items[64];
	size_t n;
	uint64_t lost;
};

static struct out out;
static struct ip_event_filter *filter;

static int on_event(void *context, bool all, uint32_t cpu, const uint8_t *event, size_t size)
{
	struct out *o = context;

	assert_true(o->n < 64 && size <= sizeof(o->items[0].bytes));
	memcpy(o->items[o->n].bytes, event, size);
	o->items[o->n].size = size;
	o->items[o->n].all = all;
	o->items[o->n++].cpu = cpu;
	return 0;
}

static int on_lost(void *context, bool all, uint32_t cpu)
{
	((struct out *)context)->lost++;
	return 0;
}

static void clear(void)
{
	memset(&out, 0, sizeof(out));
}

static pid_t process_of(pid_t tid)
{
	return tid == OWN_TOO ? 5000 : tid;
}

static int set_up(void **state)
{
	const struct ip_event_filter_output output = {
		.event = on_event, .lost = on_lost, .process_of = process_of, .context = &out};

	clear();
	filter = ip_event_filter_create(CPUS, &output);
	assert_non_null(filter);
	assert_int_equal(ip_event_filter_show(filter, OWN, OWN, "own", 100, 100), 0);
	return 0;
}

static int tear_down(void **state)
{
	ip_event_filter_destroy(filter);
	return 0;
}

/* An event whose fields are put in one behind the other. */
struct made {
	uint8_t bytes[128];
	size_t size;
};

static struct made make(uint16_t id, uint64_t tsc, int32_t tid)
{
	const struct ip_kernel_event_header h = {.id = id, .tsc = tsc, .tid = tid};
	struct made m = {.size = sizeof(h)};

	memcpy(m.bytes, &h, sizeof(h));
	return m;
}

static void put_text(struct made *m, const char *text)
{
	memset(m->bytes + m->size, 0, 16);
	memcpy(m->bytes + m->size, text, strlen(text));
	m->size += 16;
}

static void put_number(struct made *m, uint64_t value, size_t size)
{
	memcpy(m->bytes + m->size, &value, size);
	m->size += size;
}

static void give_on(uint32_t cpu, const struct made *m)
{
	struct ip_kernel_event_header h;
	const struct ip_kernel_kind *kind;

	memcpy(&h, m->bytes, sizeof(h));
	kind = ip_kernel_kind_of(h.id);
	assert_int_equal(m->size - sizeof(h), ip_kernel_fields_size(h.id));
	assert_int_equal(
		ip_event_filter_event(filter, kind && kind->everywhere, cpu, m->bytes, m->size), 0);
}

static void give_switch(uint32_t cpu, uint64_t tsc, int32_t prev, int64_t state, int32_t next)
{
	struct made m = make(IP_KERNEL_SCHED_SWITCH, tsc, prev);

	put_text(&m, prev == OWN || prev == OWN_TOO ? "own" : prev ? SECRET : "swapper/1");
	put_number(&m, prev, 4);
	put_number(&m, 77, 4);
	put_number(&m, state, 8);
	put_text(&m, next == OWN || next == OWN_TOO ? "own" : next ? SECRET : "swapper/1");
	put_number(&m, next, 4);
	put_number(&m, 78, 4);
	give_on(cpu, &m);
}

static void give_woken(uint32_t cpu, uint64_t tsc, int32_t waker, int32_t woken)
{
	struct made m = make(IP_KERNEL_SCHED_WAKING, tsc, waker);

	put_text(&m, woken == OWN ? "own" : SECRET);
	put_number(&m, woken, 4);
	put_number(&m, 120, 4);
	put_number(&m, cpu, 4);
	give_on(cpu, &m);
}

static void give_fork(uint64_t tsc, int32_t parent, int32_t child)
{
	struct made m = make(IP_KERNEL_SCHED_FORK, tsc, parent);

	put_text(&m, parent == OWN ? "own" : SECRET);
	put_number(&m, parent, 4);
	put_text(&m, parent == OWN ? "own" : SECRET);
	put_number(&m, child, 4);
	give_on(1, &m);
}

static void give_exec(uint64_t tsc, int32_t tid, int32_t old)
{
	struct made m = make(IP_KERNEL_SCHED_EXEC, tsc, tid);

	put_number(&m, tid, 4);
	put_number(&m, old, 4);
	give_on(1, &m);
}

static void give_call(uint64_t tsc, int32_t tid)
{
	struct made m = make(IP_KERNEL_SYSCALL_ENTRY + 3, tsc, tid); /* close */

	put_number(&m, 7, 8);
	give_on(1, &m);
}

static struct ip_kernel_event_header header_of(size_t i)
{
	struct ip_kernel_event_header h;

	assert_true(i < out.n);
	memcpy(&h, out.items[i].bytes, sizeof(h));
	return h;
}

static int32_t number_at(size_t i, size_t offset)
{
	int32_t value;

	memcpy(&value, out.items[i].bytes + sizeof(struct ip_kernel_event_header) + offset, 4);
	return value;
}

/* No byte of what has come out tells of another's process, or where the kernel lies. */
static void assert_nothing_foreign(void)
{
	static const int32_t ids[] = {FOREIGN, SECOND};
	const uint64_t address = ADDRESS;

	for (size_t i = 0; i < out.n; i++) {
		const uint8_t *bytes = out.items[i].bytes;
		const size_t size = out.items[i].size;

		assert_null(memmem(bytes, size, SECRET, strlen(SECRET)));
		assert_null(memmem(bytes, size, &address, sizeof(address)));
		for (size_t k = 0; k < 2; k++)
			assert_null(memmem(bytes, size, &ids[k], sizeof(ids[k])));
	}
}

/* Whether a field could name a process: by the table's own names. */
static bool names_process(const char *field)
{
	return strstr(field, "comm") || strstr(field, "tid") || strstr(field, "pid");
}

/* Other numbers of their type are flags, and an address that the program itself has chosen. */
static bool is_address(const char *field)
{
	return strcmp(field, "sa_handler") && strcmp(field, "sa_flags") &&
	       strcmp(field, "error_code");
}

/* An event with another's thread wherever a thread is named, and an address of the kernel wherever
 * there is one. all: other numbers are another's, too. */
static struct made make_foreign(unsigned id, int32_t tid, bool all)
{
	const struct ip_kernel_kind *kind = ip_kernel_kind_of(id);
	struct made m = make(id, 200, tid);

	for (size_t i = 0; i < IP_KERNEL_FIELDS_MAX && kind->fields[i].name; i++) {
		const struct ip_kernel_field *field = &kind->fields[i];
		const bool names = names_process(field->name);

		if (field->type == IP_KERNEL_TEXT16)
			put_text(&m, names ? SECRET : "irq");
		else if (field->type == IP_KERNEL_X64 && is_address(field->name))
			put_number(&m, ADDRESS, 8);
		else
			put_number(&m, names || all ? FOREIGN : 7,
				   ip_kernel_type_size(field->type));
	}
	return m;
}

/* Each kind, in which another's thread runs: all that may come out is who has the CPU. */
static void test_events_of_others(void **state)
{
	for (unsigned id = 0; id < IP_KERNEL_EVENTS; id++) {
		struct made m;

		if (!ip_kernel_kind_of(id))
			continue;
		m = make_foreign(id, FOREIGN, true);
		give_on(2, &m);
		assert_nothing_foreign();
		assert_int_equal(out.n, 0); /* all their threads are others' */
	}
	for (unsigned number = 0; number < IP_KERNEL_SYSCALLS_MAX; number++)
		for (unsigned exit = 0; ip_kernel_has_syscall(number) && exit < 2; exit++) {
			struct made m = make(
				number + (exit ? IP_KERNEL_SYSCALL_EXIT : IP_KERNEL_SYSCALL_ENTRY),
				200, FOREIGN);

			while (m.size < sizeof(struct ip_kernel_event_header) +
						ip_kernel_fields_size(
							number + (exit ? IP_KERNEL_SYSCALL_EXIT
								       : IP_KERNEL_SYSCALL_ENTRY)))
				put_number(&m, FOREIGN, 8);
			give_on(2, &m);
			assert_int_equal(out.n, 0);
		}
	assert_int_equal(out.lost, 0);
}

/* Each kind, while a thread runs that is shown, about another's. */
static void test_others_in_own_events(void **state)
{
	for (unsigned id = 0; id < IP_KERNEL_EVENTS; id++) {
		struct made m;

		if (!ip_kernel_kind_of(id))
			continue;
		clear();
		m = make_foreign(id, OWN, false);
		give_on(2, &m);
		assert_nothing_foreign();
	}
}

static void test_interrupt_names_stay(void **state)
{
	struct made m = make(IP_KERNEL_IRQ_ENTRY, 200, OWN);

	put_number(&m, 9, 4);
	put_text(&m, "acpi");
	give_on(0, &m);
	assert_int_equal(out.n, 1);
	assert_non_null(memmem(out.items[0].bytes, out.items[0].size, "acpi", 4));
}

static void test_switches(void **state)
{
	give_switch(1, 200, OWN, 1, FOREIGN);
	assert_int_equal(out.n, 1);
	assert_int_equal(header_of(0).tid, OWN);
	assert_int_equal(number_at(0, 16), OWN);
	assert_int_equal(number_at(0, 20), 77);
	assert_int_equal(number_at(0, 48), IP_KERNEL_OTHER + 1);
	assert_int_equal(number_at(0, 52), 120); /* no priority */
	give_switch(1, 210, FOREIGN, 2, SECOND); /* between two of theirs */
	assert_int_equal(out.n, 1);
	give_switch(1, 220, SECOND, 2, 0);
	assert_int_equal(out.n, 2);
	assert_int_equal(header_of(1).tid, IP_KERNEL_OTHER + 1);
	assert_int_equal(number_at(1, 16), IP_KERNEL_OTHER + 1);
	assert_int_equal(number_at(1, 24), 0); /* what it waits for is not told */
	assert_int_equal(number_at(1, 48), 0);
	give_switch(1, 230, 0, 0, OWN);
	assert_int_equal(out.n, 3);
	give_switch(3, 240, 0, 0, FOREIGN);
	assert_int_equal(number_at(3, 48), IP_KERNEL_OTHER + 3);
	assert_nothing_foreign();
	assert_int_equal(out.lost, 0);
}

static void test_wakers(void **state)
{
	give_woken(1, 200, FOREIGN, OWN);
	assert_int_equal(out.n, 1);
	assert_int_equal(header_of(0).tid, IP_KERNEL_OTHER + 1);
	give_woken(1, 210, OWN, FOREIGN);
	give_woken(1, 220, FOREIGN, SECOND);
	assert_int_equal(out.n, 1);
	give_woken(2, 230, 0, OWN);
	assert_int_equal(header_of(1).tid, 0);
	assert_nothing_foreign();
}

/* What was left out between is made up for: readers find a thread where it runs. */
static void test_running_is_told(void **state)
{
	give_switch(1, 200, OWN, 1, FOREIGN);
	give_call(210, OWN); /* a switch was lost */
	assert_int_equal(out.n, 3);
	assert_int_equal(header_of(1).id, IP_KERNEL_SCHED_SWITCH);
	assert_int_equal(header_of(1).tsc, 210);
	assert_true(out.items[1].all && !out.items[2].all);
	assert_int_equal(number_at(1, 16), IP_KERNEL_OTHER + 1);
	assert_int_equal(number_at(1, 48), OWN);
	assert_non_null(memmem(out.items[1].bytes, out.items[1].size, "own", 4));
	assert_nothing_foreign();
}

static void test_children(void **state)
{
	give_fork(200, OWN, OWN_TOO);
	assert_int_equal(out.n, 1);
	clear();
	give_call(210, OWN_TOO);
	assert_int_equal(header_of(out.n - 1).tid, OWN_TOO);
	give_fork(220, FOREIGN, SECOND);
	clear();
	give_call(230, SECOND);
	assert_int_equal(out.n, 0);
	/* the child ends, and its id is given to another user's thread */
	give_switch(1, 240, OWN_TOO, 0x10, 0);
	clear();
	give_call(250, OWN_TOO);
	assert_int_equal(out.n, 0);
	give_fork(260, OWN, OWN_TOO);
	give_fork(270, FOREIGN, OWN_TOO); /* that it has ended was lost */
	clear();
	give_call(280, OWN_TOO);
	assert_int_equal(out.n, 0);
	assert_int_equal(out.lost, 0);
}

static void test_before_it_was_checked(void **state)
{
	give_call(99, OWN);
	assert_int_equal(out.n, 0);
	give_call(100, OWN);
	assert_int_equal(out.n, 1);
}

/* A thread is shown from when its check has ended, if it has executed nothing meanwhile. */
static void test_exec_while_it_is_checked(void **state)
{
	give_exec(210, OWN, OWN); /* of another's program */
	ip_event_filter_allow(filter, OWN, 220, 240);
	clear();
	give_call(230, OWN);	  /* while it was checked */
	give_exec(235, OWN, OWN); /* of a plain program, which was what was found */
	give_call(250, OWN);
	assert_int_equal(out.n, 0);
	assert_int_equal(out.lost, 2);
	ip_event_filter_allow(filter, OWN, 260, 270);
	give_call(265, OWN);
	assert_int_equal(out.n, 0);
	give_call(270, OWN);
	assert_int_equal(header_of(out.n - 1).tid, OWN);
	/* likewise where it becomes a target once more */
	assert_int_equal(ip_event_filter_show(filter, OWN, OWN, "own", 300, 320), 0);
	clear();
	give_exec(310, OWN, OWN);
	give_call(330, OWN);
	assert_int_equal(out.n, 0);
	/* and what was executed before that is not known to be plain by it */
	ip_event_filter_allow(filter, OWN, 340, 350);
	give_exec(400, OWN, OWN);
	assert_int_equal(ip_event_filter_show(filter, OWN, OWN, "own", 390, 410), 0);
	give_call(420, OWN);
	assert_int_equal(out.n, 0);
}

/* A loss that may have an exec in it does not make a later exec an earlier one. */
static void test_exec_after_a_loss(void **state)
{
	assert_int_equal(ip_event_filter_lost(filter, true, 2, 300), 0);
	give_exec(250, OWN, OWN);
	ip_event_filter_allow(filter, OWN, 280, 290);
	clear();
	give_call(310, OWN);
	assert_int_equal(out.n, 0);
}

/* Whether there is a page of the kernel at an address tells where the kernel lies. */
static void test_faults(void **state)
{
	static const uint64_t codes[] = {4, 5, 6, 7, 0x14, 0x15};
	uint64_t code[2];

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		for (unsigned user = 0; user < 2; user++) {
			struct made m = make(IP_KERNEL_FAULT_USER, 200 + i, OWN);

			clear();
			put_number(&m, user ? 0x1000 : ADDRESS, 8);
			put_number(&m, 0x401000, 8);
			put_number(&m, codes[i], 8);
			give_on(1, &m);
			memcpy(&code[user],
			       out.items[out.n - 1].bytes + sizeof(struct ip_kernel_event_header) +
				       16,
			       8);
			assert_int_equal(code[user], user ? codes[i] : codes[i] | 1);
		}
	assert_nothing_foreign();
}

static int count_process(void *context, pid_t pid)
{
	*(unsigned *)context += pid == 5000 ? 10 : 1;
	return 0;
}

static void test_exec(void **state)
{
	unsigned seen = 0;

	give_call(200, OWN);
	give_exec(210, OWN, OWN);
	clear();
	give_call(220, OWN);
	assert_int_equal(out.n, 0);
	assert_int_equal(out.lost, 1);
	ip_event_filter_allow(filter, OWN, 205, 205); /* before the exec */
	give_call(230, OWN);
	assert_int_equal(out.n, 0);
	ip_event_filter_allow(filter, OWN, 240, 240);
	give_call(235, OWN); /* it came between */
	assert_int_equal(out.n, 0);
	give_call(250, OWN);
	assert_int_equal(header_of(out.n - 1).tid, OWN);
	/* once more: what was allowed holds for what was executed before */
	give_exec(260, OWN, OWN);
	clear();
	give_call(270, OWN);
	assert_int_equal(out.n, 0);
	/* a thread that is not the first takes the first one's id */
	give_fork(280, OWN, OWN_TOO);
	assert_int_equal(ip_event_filter_each(filter, count_process, &seen), 0);
	assert_int_equal(seen, 1);
}

static void test_exec_of_another_thread(void **state)
{
	give_fork(200, OWN, OWN_TOO);
	give_exec(210, OWN, OWN_TOO);
	clear();
	give_call(220, OWN);
	give_call(221, OWN_TOO);
	assert_int_equal(out.n, 0);
	ip_event_filter_allow(filter, OWN, 230, 230);
	give_call(240, OWN);
	assert_int_equal(header_of(out.n - 1).tid, OWN);
}

static void give_rename(uint64_t tsc, int32_t tid)
{
	struct made m = make(IP_KERNEL_TASK_RENAME, tsc, tid);

	put_number(&m, tid, 4);
	give_on(1, &m);
}

/* An exec begins with the name. A thread that is not the first does not execute by that. */
static void test_names(void **state)
{
	struct made m;
	unsigned seen = 0;

	/* a thread of process 5000, which is not known: its id might have been a process' */
	give_fork(200, OWN, OWN_TOO);
	give_rename(205, OWN_TOO);
	clear();
	give_call(206, OWN_TOO);
	assert_int_equal(out.n, 0);
	assert_int_equal(out.lost, 1);
	assert_int_equal(ip_event_filter_each(filter, count_process, &seen), 0);
	ip_event_filter_allow(filter, 5000, 207, 208);
	give_rename(210, OWN_TOO);
	clear();
	give_call(220, OWN_TOO);
	assert_int_equal(header_of(out.n - 1).tid, OWN_TOO);
	give_rename(230, OWN);
	clear();
	give_call(240, OWN);
	assert_int_equal(out.n, 0);
	assert_int_equal(out.lost, 1);
	ip_event_filter_allow(filter, OWN, 250, 250);
	give_call(260, OWN);
	assert_int_equal(header_of(out.n - 1).tid, OWN);
	give_rename(270, FOREIGN);
	/* what it is called then is not told, also where it is taken from its CPU */
	give_switch(1, 280, 0, 0, OWN);
	give_rename(290, OWN);
	m = make(IP_KERNEL_SCHED_SWITCH, 300, OWN);
	put_text(&m, SECRET);
	put_number(&m, OWN, 4);
	put_number(&m, 120, 4);
	put_number(&m, 1, 8);
	put_text(&m, "swapper/1");
	put_number(&m, 0, 4);
	put_number(&m, 120, 4);
	give_on(1, &m);
	assert_nothing_foreign();
}

static void test_refused(void **state)
{
	unsigned seen = 0;

	give_fork(200, OWN, OWN_TOO);
	assert_int_equal(ip_event_filter_each(filter, count_process, &seen), 0);
	assert_int_equal(seen, 11);
	ip_event_filter_refuse(filter, 5000);
	clear();
	give_call(210, OWN_TOO);
	assert_int_equal(out.n, 0);
	give_call(220, OWN);
	assert_int_equal(header_of(out.n - 1).tid, OWN);
	ip_event_filter_refuse(filter, OWN);
	clear();
	give_call(230, OWN);
	give_switch(1, 240, OWN, 1, FOREIGN);
	give_fork(250, OWN, OWN_TOO);
	give_call(260, OWN_TOO);
	assert_int_equal(out.lost, 0);
	/* what is seen of it last is that it does not run any more */
	assert_int_equal(out.n, 1);
	assert_int_equal(header_of(0).id, IP_KERNEL_SCHED_SWITCH);
	assert_int_equal(number_at(0, 16), OWN);
	assert_int_equal(number_at(0, 48), IP_KERNEL_OTHER + 1);
}

/* An exec, or the end of a thread, may be among them. */
static void test_losses(void **state)
{
	unsigned seen = 0;

	give_fork(200, OWN, OWN_TOO);
	assert_int_equal(ip_event_filter_lost(filter, true, 2, 300), 0);
	assert_int_equal(out.lost, 1);
	clear();
	give_call(290, OWN);
	give_call(310, OWN_TOO);
	assert_int_equal(out.n, 0);
	assert_int_equal(out.lost, 2);
	/* whose the ids are now is asked anew */
	assert_int_equal(ip_event_filter_each(filter, count_process, &seen), 0);
	assert_int_equal(seen, 11);
	ip_event_filter_refuse(filter, 5000);
	ip_event_filter_allow(filter, OWN, 320, 320);
	clear();
	give_call(330, OWN);
	assert_int_equal(header_of(out.n - 1).tid, OWN);
	clear();
	give_call(340, OWN_TOO);
	assert_int_equal(out.n, 0);
}

/* Makes a run of what a child does that has executed another user's program. */
static void act_as_another(unsigned n, uint64_t tsc)
{
	for (unsigned i = 0; i < n; i++) {
		give_switch(1, tsc + 10 * i, 0, 0, OWN_TOO);
		give_call(tsc + 10 * i + 1, OWN_TOO);
		give_woken(1, tsc + 10 * i + 2, OWN_TOO, OWN); /* whose events stand between */
		give_exec(tsc + 10 * i + 3, OWN_TOO, OWN_TOO);
		give_switch(1, tsc + 10 * i + 4, OWN_TOO, 1, 0);
	}
}

/* What a program of another user does is missing once in each stream, however much it is. Where it
 * is the user's own again, and executes once more, that is told again. */
static void test_losses_do_not_count(void **state)
{
	give_fork(200, OWN, OWN_TOO);
	give_exec(210, OWN_TOO, OWN_TOO);
	clear();
	act_as_another(1, 1000);
	assert_int_equal(out.lost, 2);
	clear();
	act_as_another(10, 2000);
	assert_int_equal(out.lost, 0);
	ip_event_filter_allow(filter, 5000, 100, 110); /* was asked too early */
	give_call(3000, OWN_TOO);
	assert_int_equal(out.lost, 0);
	assert_int_equal(ip_event_filter_each(filter, count_process, &(unsigned){0}), 0);
	ip_event_filter_allow(filter, 5000, 4000, 4010);
	clear();
	give_call(4005, OWN_TOO);
	assert_int_equal(out.lost, 1);
	give_call(4020, OWN_TOO);
	assert_int_equal(header_of(out.n - 1).tid, OWN_TOO);
	give_exec(4030, OWN_TOO, OWN_TOO);
	clear();
	act_as_another(5, 5000);
	assert_int_equal(out.lost, 2);
}

/* A process becomes a target when events of its id wait that are older: of another process. */
static void test_a_target_that_joins(void **state)
{
	assert_int_equal(ip_event_filter_show(filter, SECOND, SECOND, "own", 400, 410), 0);
	give_call(190, SECOND); /* of who had the id before */
	give_switch(1, 200, SECOND, 0x10, 0);
	give_fork(300, FOREIGN, SECOND);
	clear();
	give_call(310, SECOND);
	assert_int_equal(out.n, 0);
	give_call(420, SECOND);
	assert_int_equal(header_of(out.n - 1).tid, SECOND);
	/* it executed its program before it was checked */
	assert_int_equal(ip_event_filter_show(filter, 77, 77, "own", 500, 510), 0);
	give_fork(430, FOREIGN, 77);
	give_exec(450, 77, 77);
	clear();
	give_call(460, 77);
	assert_int_equal(out.n, 0);
	give_call(520, 77);
	assert_int_equal(header_of(out.n - 1).tid, 77);
	/* and after it was */
	give_exec(530, 77, 77);
	clear();
	give_call(540, 77);
	assert_int_equal(out.n, 0);
}

/* A thread executes another user's program, and its id is a target's soon: what is allowed of that
 * one is not of the program. */
static void test_an_id_that_joins(void **state)
{
	give_fork(200, OWN, OWN_TOO);
	assert_int_equal(ip_event_filter_show(filter, OWN_TOO, 7000, "own", 400, 410), 0);
	/* its process has the id 900 then */
	give_rename(290, OWN_TOO);
	give_exec(300, 900, OWN_TOO);
	ip_event_filter_allow(filter, 7000, 500, 510);
	clear();
	give_call(520, 900);
	assert_int_equal(out.n, 0);
	give_call(530, OWN_TOO);
	assert_int_equal(header_of(out.n - 1).tid, OWN_TOO);
	/* an id of a target that joins later says nothing of who had it before */
	assert_int_equal(ip_event_filter_show(filter, 77, 77, "own", 700, 710), 0);
	give_exec(600, 901, 77);
	clear();
	give_call(720, 901);
	assert_int_equal(out.n, 0);
	give_call(730, 77);
	assert_int_equal(header_of(out.n - 1).tid, 77);
}

/* Or they are its own: a child of a target, which was shown until then. */
static void test_a_child_that_joins(void **state)
{
	give_fork(200, OWN, OWN_TOO);
	assert_int_equal(ip_event_filter_show(filter, OWN_TOO, OWN_TOO, "own", 400, 410), 0);
	clear();
	give_call(300, OWN_TOO);
	assert_int_equal(header_of(out.n - 1).tid, OWN_TOO);
	assert_int_equal(out.lost, 0);
	give_exec(350, OWN_TOO, OWN_TOO);
	clear();
	give_call(360, OWN_TOO);
	assert_int_equal(out.n, 0);
	give_call(420, OWN_TOO);
	assert_int_equal(header_of(out.n - 1).tid, OWN_TOO);
	/* its fork waits still, and then its end, when the id is a target's again */
	assert_int_equal(ip_event_filter_show(filter, 88, 88, "own", 700, 710), 0);
	give_fork(500, OWN, 88);
	clear();
	give_call(510, 88);
	assert_int_equal(header_of(out.n - 1).tid, 88);
	give_switch(1, 520, 88, 0x10, 0);
	clear();
	give_call(530, 88);
	assert_int_equal(out.n, 0);
	give_call(720, 88);
	assert_int_equal(header_of(out.n - 1).tid, 88);
	give_switch(1, 730, 88, 0x10, 0);
	clear();
	give_call(740, 88);
	assert_int_equal(out.n, 0);
}

static void give_issue(uint64_t tsc, int32_t tid, uint64_t sector)
{
	struct made m = make(IP_KERNEL_BLOCK_ISSUE, tsc, tid);

	put_number(&m, 8, 4);
	put_number(&m, sector, 8);
	put_number(&m, 1, 4);
	put_number(&m, 512, 4);
	put_text(&m, tid == OWN ? "own" : SECRET);
	give_on(1, &m);
}

static void give_complete(uint64_t tsc, uint64_t sector)
{
	struct made m = make(IP_KERNEL_BLOCK_COMPLETE, tsc, FOREIGN);

	put_number(&m, 8, 4);
	put_number(&m, sector, 8);
	put_number(&m, 1, 4);
	put_number(&m, 0, 4);
	give_on(1, &m);
}

/* Who issues a request may do so for another. */
static void test_requests_to_disks(void **state)
{
	give_issue(200, FOREIGN, 10);
	give_complete(210, 10);
	give_issue(220, OWN, 20);
	give_complete(230, 20);
	assert_int_equal(out.n, 0);
	assert_int_equal(out.lost, 0);
}

/* Of a CPU that there is not, too short, too long, of no kind. */
static void test_what_is_no_event(void **state)
{
	struct made m = make(IP_KERNEL_SCHED_EXIT, 200, OWN);

	assert_int_equal(ip_event_filter_event(filter, true, 0, m.bytes, 3), 0);
	assert_int_equal(ip_event_filter_event(filter, true, 0, m.bytes, m.size), 0);
	assert_int_equal(ip_event_filter_event(filter, true, 0, m.bytes, sizeof(m.bytes)), 0);
	m = make(900, 200, OWN);
	assert_int_equal(ip_event_filter_event(filter, true, 0, m.bytes, m.size), 0);
	m = make(IP_KERNEL_SYSCALL_ENTRY + 3, 200, OWN);
	put_number(&m, 7, 8);
	assert_int_equal(ip_event_filter_event(filter, false, CPUS, m.bytes, m.size), 0);
	assert_int_equal(out.n, 0);
}

static void test_many_threads(void **state)
{
	for (int32_t tid = 1; tid < (int32_t)IP_EVENT_FILTER_THREADS + 100; tid++)
		assert_int_equal(ip_event_filter_show(filter, tid, tid, "", 100, 100), 0);
	give_call(200, IP_EVENT_FILTER_THREADS + 90);
	assert_int_equal(out.n, 0);
	give_call(210, 5);
	assert_int_equal(out.n, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_events_of_others),
		TEST(test_others_in_own_events),
		TEST(test_interrupt_names_stay),
		TEST(test_switches),
		TEST(test_wakers),
		TEST(test_running_is_told),
		TEST(test_children),
		TEST(test_before_it_was_checked),
		TEST(test_exec),
		TEST(test_exec_while_it_is_checked),
		TEST(test_exec_after_a_loss),
		TEST(test_faults),
		TEST(test_exec_of_another_thread),
		TEST(test_names),
		TEST(test_refused),
		TEST(test_losses),
		TEST(test_losses_do_not_count),
		TEST(test_a_target_that_joins),
		TEST(test_an_id_that_joins),
		TEST(test_a_child_that_joins),
		TEST(test_requests_to_disks),
		TEST(test_what_is_no_event),
		TEST(test_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
