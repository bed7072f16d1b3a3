/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts of threads, from events that the tests write: within each other, in system calls, with
 * ends that were lost.
 */
#include <string.h>
#include <sys/syscall.h>

#include "analysis/wait/interrupts.h"
#include "test/unit/analysis/wait/kernel_writer.h"
#include "test/unit/test.h"

#define THIS 70
#define THAT 71

#define NET_RX 3u
#define LINE   24

static void softirq(struct writer *w, uint64_t from, uint64_t to, int32_t tid, uint32_t kind)
{
	put(w, IP_KERNEL_SOFTIRQ_ENTRY, from, tid, 0, &kind, sizeof(kind));
	put(w, IP_KERNEL_SOFTIRQ_EXIT, to, tid, 0, &kind, sizeof(kind));
}

static void irq_begins(struct writer *w, uint64_t tsc, int32_t tid, int32_t line, const char *name)
{
	struct {
		int32_t irq;
		char name[16];
	} __attribute__((packed)) fields = {.irq = line};

	memcpy(fields.name, name, strnlen(name, sizeof(fields.name)));
	put(w, IP_KERNEL_IRQ_ENTRY, tsc, tid, 0, &fields, sizeof(fields));
}

static void irq_ends(struct writer *w, uint64_t tsc, int32_t tid, int32_t line)
{
	const int32_t fields[2] = {line, 1};

	put(w, IP_KERNEL_IRQ_EXIT, tsc, tid, 0, fields, sizeof(fields));
}

static void timer(struct writer *w, unsigned id, uint64_t tsc, int32_t tid)
{
	const int32_t vector = 236;

	put(w, id, tsc, tid, 0, &vector, sizeof(vector));
}

static void hrtimer(struct writer *w, unsigned id, uint64_t tsc, int32_t tid)
{
	const uint64_t fields[3] = {1, 2, 3};

	put(w, id, tsc, tid, 0, fields, ip_kernel_fields_size(id));
}

static void check(const struct ip_interrupt *i, uint64_t from, uint64_t to, uint64_t before,
		  unsigned event)
{
	assert_int_equal(i->from, from);
	assert_int_equal(i->to, to);
	assert_int_equal(i->before, before);
	assert_int_equal(i->event, event);
}

static void test_of_each_thread(void **state)
{
	struct writer *w = *state;
	struct ip_interrupts all;
	const struct ip_interrupt *i;
	char name[IP_INTERRUPT_NAME_MAX];
	size_t n;

	softirq(w, 100, 110, THAT, NET_RX);
	softirq(w, 120, 125, THIS, NET_RX);
	/* a timer's function within the timer interrupt, and a line within that */
	timer(w, IP_KERNEL_TIMER_IRQ_ENTRY, 200, THIS);
	hrtimer(w, IP_KERNEL_HRTIMER_ENTRY, 201, THIS);
	irq_begins(w, 202, THIS, LINE, "virtio0");
	irq_ends(w, 203, THIS, LINE);
	hrtimer(w, IP_KERNEL_HRTIMER_EXIT, 204, THIS);
	timer(w, IP_KERNEL_TIMER_IRQ_EXIT, 207, THIS);
	softirq(w, 210, 220, 0, NET_RX); /* nobody ran */
	flush(w, "target", 0);
	irq_begins(w, 150, THIS, LINE + 1, "a name of 16 byt");
	irq_ends(w, 152, THIS, LINE + 1);
	flush(w, "target", 1);
	assert_int_equal(ip_interrupts_read(w->path, &all), 0);
	i = ip_interrupts_of(&all, THIS, &n);
	assert_int_equal(n, 3);
	check(&i[0], 120, 125, 0, IP_KERNEL_SOFTIRQ_ENTRY);
	check(&i[1], 150, 152, 5, IP_KERNEL_IRQ_ENTRY);
	check(&i[2], 200, 207, 7, IP_KERNEL_TIMER_IRQ_ENTRY);
	for (uint64_t tsc = 0; tsc < 250; tsc++)
		assert_int_equal(ip_interrupts_behind(i, n, tsc),
				 (tsc >= 125) + (tsc >= 152) + (tsc >= 207));
	assert_string_equal(ip_interrupt_name(&all, i[0].event, i[0].line, name), "softirq NET_RX");
	assert_string_equal(ip_interrupt_name(&all, i[1].event, i[1].line, name),
			    "interrupt 25 (a name of 16 byt)");
	assert_string_equal(ip_interrupt_name(&all, i[2].event, i[2].line, name),
			    "timer interrupt");
	assert_string_equal(ip_interrupt_name(&all, IP_KERNEL_IRQ_ENTRY, LINE, name),
			    "interrupt 24 (virtio0)");
	assert_string_equal(ip_interrupt_name(&all, IP_KERNEL_IRQ_ENTRY, 7, name), "interrupt 7");
	assert_string_equal(ip_interrupt_name(&all, IP_KERNEL_SOFTIRQ_ENTRY, -3, name),
			    "softirq -3");
	i = ip_interrupts_of(&all, THAT, &n);
	assert_int_equal(n, 1);
	check(&i[0], 100, 110, 0, IP_KERNEL_SOFTIRQ_ENTRY);
	assert_null(ip_interrupts_of(&all, 0, &n));
	assert_int_equal(n, 0);
	assert_null(ip_interrupts_of(&all, THAT + 1, &n));
	ip_interrupts_clear(&all);
}

/* What send(2) to this machine raises is its own work. A device's interrupt is not. */
static void test_in_system_calls(void **state)
{
	struct writer *w = *state;
	struct ip_interrupts all;

	softirq(w, 100, 101, THIS, NET_RX);
	call(w, 110, THIS, SYS_sendto, 3);
	softirq(w, 111, 119, THIS, NET_RX);
	softirq(w, 120, 122, THAT, NET_RX);
	irq_begins(w, 125, THIS, LINE, "virtio0");
	irq_ends(w, 128, THIS, LINE);
	ret(w, 130, THIS, SYS_sendto, 1);
	softirq(w, 140, 145, THIS, NET_RX);
	flush(w, "target", 0);
	assert_int_equal(ip_interrupts_read(w->path, &all), 0);
	assert_int_equal(all.n, 4);
	check(&all.items[0], 100, 101, 0, IP_KERNEL_SOFTIRQ_ENTRY);
	check(&all.items[1], 125, 128, 1, IP_KERNEL_IRQ_ENTRY);
	check(&all.items[2], 140, 145, 4, IP_KERNEL_SOFTIRQ_ENTRY);
	check(&all.items[3], 120, 122, 0, IP_KERNEL_SOFTIRQ_ENTRY);
	ip_interrupts_clear(&all);
}

/* One without an end takes nothing with it; where events were lost, none goes on. */
static void test_ends_are_missing(void **state)
{
	struct writer *w = *state;
	const uint32_t kind = NET_RX;
	struct ip_interrupts all;

	irq_ends(w, 90, THIS, LINE); /* it began before */
	timer(w, IP_KERNEL_TIMER_IRQ_ENTRY, 100, THIS);
	irq_begins(w, 101, THIS, LINE, "virtio0");
	timer(w, IP_KERNEL_TIMER_IRQ_EXIT, 104, THIS);
	put(w, IP_KERNEL_SOFTIRQ_ENTRY, 110, THIS, 0, &kind, sizeof(kind));
	flush(w, "target", 0);
	w->lost = 4;
	put(w, IP_KERNEL_SOFTIRQ_EXIT, 200, THIS, 0, &kind, sizeof(kind));
	/* more within each other than can be */
	for (unsigned i = 0; i < 100; i++)
		put(w, IP_KERNEL_SOFTIRQ_ENTRY, 210 + i, THIS, 0, &kind, sizeof(kind));
	put(w, IP_KERNEL_SOFTIRQ_EXIT, 400, THIS, 0, &kind, sizeof(kind));
	flush(w, "target", 0);
	assert_int_equal(ip_interrupts_read(w->path, &all), 0);
	assert_int_equal(all.n, 1);
	check(&all.items[0], 100, 104, 0, IP_KERNEL_TIMER_IRQ_ENTRY);
	ip_interrupts_clear(&all);
}

static void test_no_events(void **state)
{
	struct ip_interrupts all;
	size_t n;

	(void)state;
	assert_int_equal(ip_interrupts_read("/nonexistent", &all), 0);
	assert_null(ip_interrupts_of(&all, THIS, &n));
	assert_int_equal(ip_interrupts_behind(NULL, 0, 1), 0);
	ip_interrupts_clear(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_of_each_thread, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_system_calls, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ends_are_missing, setup, teardown),
		cmocka_unit_test(test_no_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
