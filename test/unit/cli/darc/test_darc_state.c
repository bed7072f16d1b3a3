/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the state of a search (iprobe darc --resume) may say: a good document is read as it is, and
 * whatever is out of bounds, or does not agree with the rest of it, is refused with its place.
 */
#include <stdlib.h>

#include "cli/darc/darc_state.h"
#include "test/unit/test.h"

static const char good[] =
	"{\"format\":\"iprobe darc search\",\"version\":1,\"function\":\"serve()\","
	"\"events\":400,\"left_out\":1,\"min_ns\":211000,\"max_ns\":12400000,\"total_ns\":"
	"1300000000,"
	"\"state\":\"in progress\",\"reason\":null,"
	"\"searched\":{\"from_ns\":8388608,\"to_ns\":33554432,\"count\":21},"
	"\"usual\":{\"from_ns\":0,\"to_ns\":1048576,\"count\":21},"
	"\"profile_ns\":1000,\"bins\":[[70,90],[94,70]],"
	"\"latencies\":[[210944,60],[227328,30],[12320768,70]],"
	"\"linker_name\":\"_Z5servev\",\"level\":2,"
	"\"options\":{\"search\":\"rightmost\",\"peak\":0,\"slower_than_ns\":0,\"percentile\":0,"
	"\"tid\":7,\"start_ops\":100,\"decision_ops\":20,\"maxcount_percentage\":20.5,\"depth\":64,"
	"\"max_functions\":200},"
	"\"modules\":[{\"path\":\"/bin/p\",\"build_id\":\"0123456789abcdef\"}],"
	"\"live\":[\"b\",\"_Z5servev\"],\"path\":[\"_Z5servev\"],\"below\":[\"b\"],\"looked\":[],"
	"\"again\":[],\"pointers\":[\"b\"],\"known\":[],\"seen\":[\"b c\"],\"callees\":[\"c\","
	"\"c\"],"
	"\"ftree\":[{\"node\":0,\"parent\":null,\"depth\":0,\"function\":\"serve\",\"call_site\":"
	"null,"
	"\"root_cause\":true,\"looked_at\":20,\"maxcount\":20,\"longest_ns\":12000000,"
	"\"usual_longest_ns\":200000},{\"node\":4,\"parent\":0,\"depth\":1,\"function\":\"b\","
	"\"call_site\":\"serve+0x1\",\"root_cause\":true,\"looked_at\":20,\"maxcount\":17,"
	"\"longest_ns\":12000000,\"usual_longest_ns\":10}],"
	"\"paths\":[{\"node\":4,\"share\":0.85,\"cause\":{\"kind\":\"self\"}}]}";

static int read_text(const char *text, struct cli_darc_state *ret)
{
	return cli_darc_state_read(text, strlen(text), "f.json", ret);
}

/* The good document with one part of it replaced; the caller frees it. */
static char *with(const char *part, const char *other)
{
	const char *at = strstr(good, part);
	char *text = malloc(sizeof(good) + strlen(other));

	assert_true(at && text);
	memcpy(text, good, (size_t)(at - good));
	strcpy(text + (at - good), other);
	strcat(text, at + strlen(part));
	return text;
}

static void test_good(void **state)
{
	struct cli_darc_state s;

	(void)state;
	if (read_text(good, &s) < 0)
		fail_msg("%s", ip_error_message());
	assert_string_equal(s.function, "serve()");
	assert_string_equal(s.linker_name, "_Z5servev");
	assert_int_equal(s.level, 2);
	assert_int_equal(s.max_functions, 200);
	assert_int_equal(s.profile.state, IP_DARC_IN_PROGRESS);
	assert_int_equal(s.profile.options.choice, IP_DARC_RIGHTMOST);
	assert_int_equal(s.profile.options.tid, 7);
	assert_int_equal(s.profile.options.depth, 64);
	assert_true(s.profile.options.maxcount_percent == 20.5);
	/* latencies, and what follows from them */
	assert_int_equal(s.profile.latencies.bins.count, 160);
	assert_int_equal(s.profile.latencies.bins.calls[94], 70);
	assert_int_equal(s.profile.latencies.durations.count, 160);
	assert_int_equal(s.profile.peaks.n, 2);
	assert_int_equal(s.profile.peak, 2);
	assert_int_equal(s.profile.ranges[0].count, 70);
	assert_int_equal(s.profile.ranges[0].most, 20);
	assert_int_equal(s.profile.ranges[1].count, 90);
	/* names */
	assert_int_equal(s.nmodules, 1);
	assert_string_equal(s.modules[0].build_id, "0123456789abcdef");
	assert_int_equal(s.live.n, 2);
	assert_int_equal(s.sets.callees.n, 1);
	assert_string_equal(s.sets.below.items[0], "b");
	assert_string_equal(s.sets.seen.items[0], "b c");
	/* the ftree */
	assert_int_equal(s.nnodes, 2);
	assert_int_equal(s.nodes[1].parent, 0);
	assert_int_equal(s.nodes[1].maxcount, 17);
	assert_null(s.nodes[0].call_site);
	assert_int_equal(s.ncauses, 1);
	assert_int_equal(s.causes[0].node, 1);
	assert_true(s.causes[0].share == 0.85);
	cli_darc_state_clear(&s);
}

/* Before the first look. */
static void test_begun(void **state)
{
	static const char begun[] =
		"{\"format\":\"iprobe darc search\",\"version\":1,\"function\":\"x\",\"state\":"
		"\"in progress\",\"reason\":null,\"paths\":[],\"ftree\":[],\"linker_name\":null,"
		"\"level\":0,\"options\":{\"search\":\"percentile\",\"peak\":0,\"slower_than_ns\":"
		"0,"
		"\"percentile\":0.99,\"tid\":0,\"start_ops\":100,\"decision_ops\":20,"
		"\"maxcount_percentage\":20,\"depth\":64,\"max_functions\":200},\"modules\":[],"
		"\"live\":[],\"path\":[],\"below\":[],\"looked\":[],\"again\":[],\"pointers\":[],"
		"\"known\":[],\"seen\":[],\"callees\":[]}";
	struct cli_darc_state s;

	(void)state;
	assert_int_equal(read_text(begun, &s), 0);
	assert_false(s.looked);
	assert_null(s.linker_name);
	assert_int_equal(s.profile.options.choice, IP_DARC_PERCENTILE);
	cli_darc_state_clear(&s);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *part, *other, *error;
	} cases[] = {
		{"iprobe darc search", "iprobe", "no state of a search"},
		{"\"version\":1", "\"version\":2", "version 2"},
		{"\"version\":1", "\"version\":-1", "version"},
		{"\"version\":1", "\"version\":[1]", "version"},
		{"\"function\":\"serve()\"", "\"function\":{}", "function"},
		{"\"level\":2", "\"level\":1001", "level"},
		{"\"level\":2", "\"level\":0x2", "level"},
		{"\"level\":2", "\"level\":99999999999999999999999", "level"},
		{"\"linker_name\":\"_Z5servev\"", "\"linker_name\":\"\"", "linker_name"},
		{"rightmost", "leftmost", "search"},
		{"\"decision_ops\":20", "\"decision_ops\":0", "options"},
		{"\"maxcount_percentage\":20.5", "\"maxcount_percentage\":nan",
		 "maxcount_percentage"},
		{"\"maxcount_percentage\":20.5", "\"maxcount_percentage\":101",
		 "maxcount_percentage"},
		{"\"depth\":64,\"max", "\"depth\":1001,\"max", "depth"},
		{"\"depth\":64,\"max", "\"max", "depth"},
		{"[[70,90],", "[[70],", "bins"},
		{"[[70,90],", "[[70,0],", "bins"},
		{"[[70,90],", "[[256,90],", "bins"},
		{"[[70,90],", "[[95,90],", "bins"},
		{"[[70,90],", "[[70,18446744073709551615],", "bins"},
		{"[[70,90],", "[[70,91],", "latencies"},
		{"[[210944,60],", "[[210945,60],", "latencies"},
		{"[[210944,60],", "[[227328,60],", "latencies"},
		{"[[210944,60],", "[[210944,4294967296],", "latencies"},
		/* what follows from the latencies is not chosen by the file */
		{"\"from_ns\":8388608", "\"from_ns\":8388609", "searched"},
		{"\"to_ns\":33554432", "\"to_ns\":null", "searched"},
		{"\"usual\":{\"from_ns\":0", "\"usual\":{\"from_ns\":1", "usual"},
		{"\"usual\":{\"from_ns\":0,\"to_ns\":1048576,\"count\":21},", "", "usual"},
		{"[94,70]", "[71,70]", "no such peak"},
		{"\"search\":\"rightmost\",\"peak\":0", "\"search\":\"peak\",\"peak\":3",
		 "no such peak"},
		{"in progress", "in trouble", "state"},
		{"0123456789abcdef", "0123456789abcdeg", "build_id"},
		{"[{\"path\":\"/bin/p\",", "[{", "path"},
		{"[{\"path\":\"/bin/p\",\"build_id\":\"0123456789abcdef\"}]", "[1]", "modules"},
		{"\"below\":[\"b\"]", "\"below\":[\"\"]", "below"},
		{"\"below\":[\"b\"]", "\"below\":[[]]", "below"},
		{"\"below\":[\"b\"]", "\"below\":\"b\"", "below"},
		{"\"below\":[\"b\"],", "", "below"},
		{"\"node\":4,\"parent\":0", "\"node\":4,\"parent\":4", "parent"},
		{"\"node\":4,\"parent\":0", "\"node\":4,\"parent\":null", "parent"},
		{"\"node\":0,\"parent\":null", "\"node\":0,\"parent\":4", "parent"},
		{"\"depth\":1", "\"depth\":2", "depth"},
		{"\"root_cause\":true", "\"root_cause\":1", "root_cause"},
		{"\"paths\":[{\"node\":4", "\"paths\":[{\"node\":5", "node"},
		{"\"share\":0.85", "\"share\":1.5", "share"},
		{"{\"kind\":\"self\"}", "null", "cause"},
	};
	struct cli_darc_state s;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		char *text = with(cases[i].part, cases[i].other);

		if (read_text(text, &s) == 0)
			fail_msg("%s in the place of %s is taken", cases[i].other, cases[i].part);
		assert_error(cases[i].error);
		assert_error("f.json:");
		cli_darc_state_clear(&s);
		free(text);
	}
}

/* Each beginning of the document, and what is too large. */
static void test_cut_off(void **state)
{
	struct cli_darc_state s;
	char *long_name = malloc(6000), *text;

	(void)state;
	for (size_t size = 0; size < sizeof(good) - 1; size++) {
		assert_int_equal(cli_darc_state_read(good, size, "f.json", &s), -1);
		cli_darc_state_clear(&s);
	}
	assert_non_null(long_name);
	memset(long_name, 'a', 6000);
	strcpy(long_name + 5990, "\"]");
	memcpy(long_name, "\"below\":[\"", 10);
	text = with("\"below\":[\"b\"]", long_name);
	assert_int_equal(read_text(text, &s), -1);
	assert_error("below");
	cli_darc_state_clear(&s);
	free(text);
	free(long_name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_begun),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
