/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions become operations: on the debug information of two small units that this test has the
 * compiler make.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/values/expression.h"
#include "hotpatcher/plan/values/expression.h"
#include "test/unit/test.h"

static const char first[] =
	"struct hidden; enum kind { ONE = 1, TWO };\n"
	"struct inner { int a; unsigned b : 3; int c : 6; long big; };\n"
	"struct outer { char name[8]; struct inner in[4]; struct inner *to; struct hidden "
	"*hidden;\n"
	"  union { float f; unsigned char bytes[4]; }; void *any; enum kind kind; double d;\n"
	"  int grid[2][3]; unsigned char *raw; const char *text; };\n"
	"typedef const struct outer *outer_t; typedef char *chars; typedef unsigned number;\n"
	"chars any_chars; number any_number;\n"
	"long f(outer_t o, int n, unsigned long u, double d) { return o->in[n & 3].a + (long)u + "
	"(long)d; }\n";
static const char second[] = "struct hidden { short pad[5]; signed char secret; };\n"
			     "int g(struct hidden *h) { return h->secret; }\n";

static char folder[] = "/tmp/iprobe-unit-XXXXXX";
static int fd;
static Dwarf *dwarf;
static struct ip_debug_function function;

static void write_file(const char *name, const char *text)
{
	char path[64];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static int set_up(void **state)
{
	char command[256], path[64];
	Dwarf_CU *unit = NULL;
	Dwarf_Die die, child;
	Dwarf_Addr entry;

	(void)state;
	assert_non_null(mkdtemp(folder));
	write_file("a.c", first);
	write_file("b.c", second);
	snprintf(command, sizeof(command), "cd %s && cc -g -O2 -shared -fPIC -o a.so a.c b.c",
		 folder);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/a.so", folder);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	dwarf = dwarf_begin(fd, DWARF_C_READ);
	assert_non_null(dwarf);
	while (dwarf_get_units(dwarf, unit, &unit, NULL, NULL, &die, NULL) == 0) {
		assert_int_equal(dwarf_child(&die, &child), 0);
		do
			if (dwarf_tag(&child) == DW_TAG_subprogram && dwarf_diename(&child) &&
			    !strcmp(dwarf_diename(&child), "f")) {
				assert_int_equal(dwarf_lowpc(&child, &entry), 0);
				function = (struct ip_debug_function){
					.die = child, .entry = entry, .symbol = "f"};
			}
		while (dwarf_siblingof(&child, &child) == 0);
	}
	assert_int_not_equal(function.entry, 0);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	dwarf_end(dwarf);
	close(fd);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static struct ip_value_scope scope;

static int compile(const char *text, struct ip_value_result *ret)
{
	struct ip_expression *e;
	int done;

	if (ip_expression_parse(text, strlen(text), &e) < 0)
		fail_msg("%s", ip_error_message());
	ip_value_scope_init(&scope, &function, false);
	done = ip_value_expression(&scope, e, ret);
	ip_expression_destroy(e);
	return done;
}

/* The steps as text: a load is [BASE+OFFSET]SIZE, signed ones with a minus. */
static void show(char *out, size_t size)
{
	size_t at = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < scope.steps.n; i++) {
		const struct ip_value_op *op = &scope.steps.items[i].op;
		const char *sign = op->flags & IP_VALUE_SIGNED ? "-" : "";

		switch (op->source) {
		case IP_VALUE_REGISTER:
			at += snprintf(out + at, size - at, " r%u:%s%u", op->base, sign, op->size);
			break;
		case IP_VALUE_LOAD:
			at += snprintf(out + at, size - at, " [%u+%lld]%s%u", op->base,
				       (long long)op->value, sign, op->size);
			break;
		case IP_VALUE_BITS:
			at += snprintf(out + at, size - at, " %u{%u:%s%u}", op->base, op->index,
				       sign, op->scale);
			break;
		case IP_VALUE_TEMPORARY:
			at += snprintf(out + at, size - at, " %u+%lld", op->base,
				       (long long)op->value);
			if (op->index != IP_VALUE_NOTHING)
				at += snprintf(out + at, size - at, "+%u*%u", op->index, op->scale);
			break;
		case IP_VALUE_IMMEDIATE:
			at += snprintf(out + at, size - at, " =%lld", (long long)op->value);
			break;
		default:
			at += snprintf(out + at, size - at, " op%u(%u,%u,%u)", op->source, op->base,
				       op->index == IP_VALUE_NOTHING ? 0 : op->index, op->scale);
		}
	}
}

static void test_operations(void **state)
{
	static const struct {
		const char *text, *steps, *item;
	} cases[] = {
		{"n", " r6:-4", "i4"},
		{"o", " r7:8", "p"},
		{"o->to->a", " r7:8 [0+72]8 [1+0]-4", "i4"},
		{"(*o).to[0].big", " r7:8 [0+72]8 [1+8]-8", "i8"},
		{"o->in[2].big", " r7:8 [0+48]-8", "i8"},
		{"o->in[n].a", " r7:8 r6:-4 =16 op9(1,2,7) 0+8+3*1 [4+0]-4", "i4"},
		{"o->in[1].b", " r7:8 [0+28]1 1{0:3}", "u4"},
		{"o->in[1].c", " r7:8 [0+28]2 1{3:-6}", "i4"},
		{"o->f", " r7:8 [0+88]4", "f4"},
		{"o->bytes[3]", " r7:8 [0+91]1", "u1"},
		{"o->kind", " r7:8 [0+104]4", "e4"},
		{"o->d", " r7:8 [0+112]8", "f8"},
		{"&o->to", " r7:8 0+72", "p"},
		{"o->any", " r7:8 [0+96]8", "p"},
		{"o->raw", " r7:8 [0+144]8", "p"},
		{"(chars)o->raw", " r7:8 [0+144]8", "s"},
		{"(chars)o->any:string(n)", " r7:8 [0+96]8 r6:-4", "s"},
		{"((outer_t)o->any)->to", " r7:8 [0+96]8 [1+72]8", "p"},
		{"((const outer_t)o->any)->text[1]", " r7:8 [0+96]8 [1+152]8 [2+1]-1", "c"},
		{"o->raw:string", " r7:8 [0+144]8", "s"},
		{"o->text", " r7:8 [0+152]8", "s"},
		{"o->text:hex", " r7:8 [0+152]8", "p"},
		{"o->to:hex", " r7:8 [0+72]8", "p"},
		{"o->in[2].big:hex", " r7:8 [0+48]-8", "h8"},
		{"n:hex", " r6:-4", "h4"},
		{"o->name", " r7:8 0+0", "s"},
		{"o->raw:string(n)", " r7:8 r6:-4 [0+144]8", "s"},
		/* another unit has the complete type */
		{"o->hidden->secret", " r7:8 [0+80]8 [1+10]-1", "i1"},
		{"n + 1 < 3", " r6:-4 =1 op9(0,1,5) =3 op9(2,3,4)", "b"},
		{"o->kind == TWO", " r7:8 [0+104]4 =2 op9(1,2,3)", "b"},
		{"u - 1", " r2:8 =1 op9(0,1,6)", "u8"},
		/* what is the same is made once */
		{"o->to->a + o->to->a", " r7:8 [0+72]8 [1+0]-4 op9(2,2,5)", "i8"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct ip_value_result result;
		char steps[512];

		if (compile(cases[i].text, &result) < 0)
			fail_msg("%s: %s", cases[i].text, ip_error_message());
		show(steps, sizeof(steps));
		if (strcmp(steps, cases[i].steps) || strcmp(result.type.item, cases[i].item))
			fail_msg("%s:%s %s, expected%s %s", cases[i].text, steps, result.type.item,
				 cases[i].steps, cases[i].item);
	}
}

static void test_what_does_not_fit(void **state)
{
	static const char *const cases[][2] = {
		{"(number)n", "type 'number' is no pointer: a cast is (TYPE *)"},
		{"(struct outer)(o)", "type 'struct outer' is no pointer"},
		{"(nothing)o", "there is no type 'nothing'"},
		{"x", "there is no parameter 'x'; the function has o, n, u, d"},
		{"o->too", "struct outer has no member 'too'; the nearest: to"},
		{"o->to->a->b", "int is no pointer"},
		{"n.a", "int is no pointer"},
		{"*n", "int is no pointer"},
		{"o->in", "an array: name an element"},
		{"o->in[0]", "struct inner is no single value: name a member: a, b, c, big"},
		{"o->grid[1]", "several dimensions"},
		{"*o->any", "has no value"},
		{"&n", "only what lies in memory"},
		{"&o->in[0].b", "no bit field"},
		{"d + 1", "no floating"},
		{"o + 1", "POINTER[NUMBER]"},
		{"n == \"x\"", "no string"},
		{"o->in[0]:string", ":string takes a pointer"},
		{"o->to:string", "bytes"},
		{"o->text:2000", "from 1 to 1024"},
		{"d:hex", ":hex takes whole numbers"},
		{"retval", "there is no parameter 'retval'"},
		{"o->in[9223372036854775807].a", "too far away"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct ip_value_result result;

		if (compile(cases[i][0], &result) == 0)
			fail_msg("'%s' fits", cases[i][0]);
		assert_error(cases[i][1]);
	}
}

/* Loads that do not need each other come together, and behind what they need. */
static void test_order(void **state)
{
	static const char *const texts[] = {"o->to->a", "o->hidden->secret", "o->d",
					    "o->in[n].big"};
	struct ip_value_result result;
	struct ip_arguments a;
	struct ip_value_builder b;
	unsigned level[IP_PROGRAM_TEMPS] = {0}, last = 0;

	(void)state;
	ip_value_scope_init(&scope, &function, false);
	for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
		struct ip_expression *e;

		assert_int_equal(ip_expression_parse(texts[i], strlen(texts[i]), &e), 0);
		assert_int_equal(ip_value_expression(&scope, e, &result), 0);
		ip_expression_destroy(e);
	}
	assert_int_equal(ip_value_builder_begin(&b, 64, &a), 0);
	assert_int_equal(ip_value_steps_write(&scope.steps, &b), 0);
	assert_true(ip_value_builder_add(&b, &result.type, "last", &result.op));
	assert_int_equal(ip_value_builder_finish(&b), 0);
	assert_string_equal(a.text, "i8:last");
	assert_int_equal(a.program.nops, scope.steps.n + 1);
	for (unsigned i = 0; i < scope.steps.n; i++) {
		const struct ip_value_op *op = &a.program.ops[i];

		if (op->source != IP_VALUE_LOAD)
			continue;
		level[op->limit] = level[op->base] + 1;
		assert_true(level[op->limit] >= last);
		last = level[op->limit];
	}
	assert_int_equal(last, 2);
	ip_arguments_clear(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_what_does_not_fit),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
