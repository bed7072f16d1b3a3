/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose probes they are, by lines of kprobe_events; and records of them, by made-up formats.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tracefs.h>
#include <unistd.h>

#include "common/dir.h"
#include "common/error.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/kernel_probes.h"
#include "test/unit/test.h"

static void test_lines(void **state)
{
	char group[64], event[64];
	uint64_t started;
	int pid;

	assert_true(ip_kernel_probes_parse("r512:iprobe_12_345/exit_12 vfs_read number=\\0:u16",
					   group, event, sizeof(group), &pid, &started));
	assert_string_equal(group, "iprobe_12_345");
	assert_string_equal(event, "exit_12");
	assert_int_equal(pid, 12);
	assert_int_equal(started, 345);
	assert_true(ip_kernel_probes_parse("p:iprobe_2147483647_18446744073709551615/e vfs_read",
					   group, event, sizeof(group), &pid, &started));
}

static void test_lines_of_others(void **state)
{
	static const char *const lines[] = {
		"",
		"p",
		"p:kprobes/p_vfs_read_0 vfs_read",
		"p:iprobe/entry vfs_read",
		"p:iprobe_/entry vfs_read",
		"p:iprobe_12/entry vfs_read",
		"p:iprobe_12_/entry vfs_read",
		"p:iprobe_0_345/entry vfs_read",
		"p:iprobe_99999999999_345/entry vfs_read",
		"p:iprobe_12_345x/entry vfs_read",
		"p:iprobe_12_345 vfs_read",
		"p:iprobe_12_345/ vfs_read",
		"-:iprobe_12_345/entry",
		"p:iprobe_12_000000000000000000000000000000000000000000000000000000000345/e x",
		"p:iprobe_1_2/eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee x",
	};
	char group[64], event[64];
	uint64_t started;
	int pid;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (ip_kernel_probes_parse(lines[i], group, event, sizeof(group), &pid, &started))
			fail_msg("%s", lines[i]);
}

#define COMMON                                                                                     \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"             \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

static const char format_of_switch[] =
	"name: sched_switch\nID: 300\nformat:\n" COMMON
	"\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
	"\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
	"\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"
	"\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
	"\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"
	"\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"
	"\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\nprint fmt: \"%d\", "
	"REC->prev_pid\n";
static const char format_of_entry[] =
	"name: entry_12\nID: 1500\nformat:\n" COMMON
	"\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n"
	"\tfield:u16 number;\toffset:16;\tsize:2;\tsigned:0;\n"
	"\tfield:u64 parent;\toffset:18;\tsize:8;\tsigned:0;\n\nprint fmt: \"(%lx)\", "
	"REC->__probe_ip\n";
static const char format_of_exit[] =
	"name: exit_12\nID: 1501\nformat:\n" COMMON
	"\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n"
	"\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n"
	"\tfield:u16 number;\toffset:24;\tsize:2;\tsigned:0;\n\nprint fmt: \"(%lx)\", "
	"REC->__probe_func\n";

static const struct ip_kernel_probes probes = {
	.group = "iprobe_12_345", .entry = "entry_12", .exit = "exit_12"};

struct fake {
	struct ip_dir_place place;
	char path[PATH_MAX];
};

static void put_text(const char *path, const char *text)
{
	FILE *out = fopen(path, "w");

	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void put(const struct fake *f, const char *group, const char *event, const char *format)
{
	char path[PATH_MAX + 128];

	snprintf(path, sizeof(path), "%s/events/%s", f->path, group);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/events/%s/%s", f->path, group, event);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/events/%s/%s/format", f->path, group, event);
	put_text(path, format);
}

static int setup(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));
	char path[PATH_MAX + 32];
	int made;

	assert_non_null(f);
	made = ip_dir_make_temporary("/tmp", "test-probes", &f->place);
	assert_true(made >= 0);
	close(made);
	snprintf(f->path, sizeof(f->path), "/tmp/%s", f->place.name);
	snprintf(path, sizeof(path), "%s/events", f->path);
	assert_int_equal(mkdir(path, 0700), 0);
	put(f, "sched", "sched_switch", format_of_switch);
	assert_int_equal(tracefs_set_tracing_dir(f->path), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fake *f = *state;

	tracefs_set_tracing_dir(NULL);
	ip_dir_remove(f->place.parent, f->place.name);
	ip_dir_place_close(&f->place);
	free(f);
	return 0;
}

struct header {
	uint16_t type;
	uint8_t flags, preempt;
	int32_t pid;
} __attribute__((packed));

static void check(const struct ip_event_layout *layout, const void *record, size_t size,
		  unsigned id, uint8_t context)
{
	uint8_t out[IP_EVENT_SIZE_MAX];
	struct ip_kernel_event_header h;
	struct ip_kernel_function_fields fields;

	assert_int_equal(ip_event_convert(layout, record, size, 77, out),
			 sizeof(h) + sizeof(fields));
	memcpy(&h, out, sizeof(h));
	memcpy(&fields, out + sizeof(h), sizeof(fields));
	assert_int_equal(h.id, id);
	assert_int_equal(h.tsc, 77);
	assert_int_equal(h.tid, 4711);
	assert_int_equal(h.context, context);
	assert_true(fields.ip == 0xffffffff81234560ull);
	assert_true(fields.parent_ip == 0xffffffff81999990ull);
	/* one that is cut off is none */
	for (size_t n = 0; n < size; n++)
		assert_int_equal(ip_event_convert(layout, record, n, 77, out), 0);
}

static void test_records(void **state)
{
	struct {
		struct header h;
		uint64_t ip;
		uint16_t number;
		uint64_t parent;
	} __attribute__((packed))
	entry = {{1500, 0, 0, 4711}, 0xffffffff81234560ull, 5, 0xffffffff81999990ull};
	struct {
		struct header h;
		uint64_t function, ret;
		uint16_t number;
	} __attribute__((packed))
	exit = {{1501, 0x08, 0, 4711}, 0xffffffff81234560ull, 0xffffffff81999990ull, 199};
	struct fake *f = *state;
	struct ip_event_layout *layout;
	uint8_t out[IP_EVENT_SIZE_MAX];

	put(f, probes.group, probes.entry, format_of_entry);
	put(f, probes.group, probes.exit, format_of_exit);
	layout = ip_event_layout_read();
	if (!layout)
		fail_msg("%s", ip_error_message());
	/* before they are known they are none of ours */
	assert_int_equal(ip_event_convert(layout, &entry, sizeof(entry), 77, out), 0);
	assert_int_equal(ip_event_layout_add_functions(layout, &probes), 0);
	check(layout, &entry, sizeof(entry), IP_KERNEL_FUNCTION_ENTRY + 5, 0);
	check(layout, &exit, sizeof(exit), IP_KERNEL_FUNCTION_EXIT + 199, IP_KERNEL_IN_HARDIRQ);
	exit.number = IP_KERNEL_FUNCTIONS_MAX;
	assert_int_equal(ip_event_convert(layout, &exit, sizeof(exit), 77, out), 0);
	ip_event_layout_free(layout);
}

static void test_unknown_formats(void **state)
{
	struct fake *f = *state;
	struct ip_event_layout *layout;

	put(f, probes.group, probes.entry, format_of_entry);
	put(f, probes.group, probes.exit, format_of_entry); /* it has no __probe_func */
	layout = ip_event_layout_read();
	if (!layout)
		fail_msg("%s", ip_error_message());
	assert_int_equal(ip_event_layout_add_functions(layout, &probes), -1);
	ip_event_layout_free(layout);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_lines_of_others),
		cmocka_unit_test_setup_teardown(test_records, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_formats, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
