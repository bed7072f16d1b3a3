/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for values: what they mean, and what is no request.
 */
#include "common/values/value_request.h"
#include "test/unit/test.h"

#include <stdio.h>
#include <stdlib.h>

/* Writes a tree with all its brackets. */
static void show(FILE *out, const struct ip_expression *e)
{
	static const char *const signs[] = {
		[IP_OPERATOR_FOLLOW] = "*",	 [IP_OPERATOR_ADDRESS] = "&",
		[IP_OPERATOR_NOT] = "!",	 [IP_OPERATOR_MINUS] = "-",
		[IP_OPERATOR_INVERT] = "~",	 [IP_OPERATOR_OR] = "||",
		[IP_OPERATOR_AND] = "&&",	 [IP_OPERATOR_EQUAL] = "==",
		[IP_OPERATOR_UNEQUAL] = "!=",	 [IP_OPERATOR_LESS] = "<",
		[IP_OPERATOR_LESS_EQUAL] = "<=", [IP_OPERATOR_MORE] = ">",
		[IP_OPERATOR_MORE_EQUAL] = ">=", [IP_OPERATOR_BEGINS] = "=^",
		[IP_OPERATOR_ADD] = "+",	 [IP_OPERATOR_SUBTRACT] = "-",
		[IP_OPERATOR_BITS] = "&"};

	switch (e->kind) {
	case IP_EXPRESSION_NUMBER:
		fprintf(out, "%lld", (long long)e->number);
		return;
	case IP_EXPRESSION_TEXT:
		fprintf(out, "\"%.*s\"", (int)e->number, e->text);
		return;
	case IP_EXPRESSION_NAME:
		fprintf(out, "%s", e->text);
		return;
	case IP_EXPRESSION_CAST:
		fprintf(out, "((%s%.*s)", e->text, (int)e->number, "****");
		show(out, e->left);
		fprintf(out, ")");
		return;
	case IP_EXPRESSION_UNARY:
		fprintf(out, "(%s", signs[e->op]);
		show(out, e->left);
		fprintf(out, ")");
		return;
	default:
		break;
	}
	fprintf(out, "(");
	show(out, e->left);
	if (e->kind == IP_EXPRESSION_ARROW || e->kind == IP_EXPRESSION_MEMBER) {
		fprintf(out, "%s%s", e->kind == IP_EXPRESSION_ARROW ? "->" : ".", e->text);
	} else if (e->kind == IP_EXPRESSION_FORMAT) {
		fprintf(out, ":%s",
			e->format == IP_FORMAT_STRING ? "string"
			: e->format == IP_FORMAT_HEX  ? "hex"
						      : "limit");
		if (e->right)
			show(out, e->right);
	} else if (e->kind == IP_EXPRESSION_INDEX) {
		fprintf(out, "[");
		show(out, e->right);
		fprintf(out, "]");
	} else {
		fprintf(out, "%s", signs[e->op]);
		show(out, e->right);
	}
	fprintf(out, ")");
}

static void test_expressions(void **state)
{
	static const char *const cases[][2] = {
		{"a", "a"},
		{"r->uri.data", "((r->uri).data)"},
		{" r -> uri . len ", "((r->uri).len)"},
		{"*p->q", "(*(p->q))"},
		{"((struct  s *)p)->q", "(((struct s*)p)->q)"},
		{"(sds)p->q:string", "(((sds)(p->q)):string)"},
		{"(struct a)(b)", "((struct a)b)"},
		{"((sds) (text)p)[1]", "(((sds)((text)p))[1])"},
		{"(a) - b", "(a-b)"},
		{"(a)[1]", "(a[1])"},
		{"(ns::list<a,b> * *) p[1]:hex", "(((ns::list<a,b>**)(p[1])):hex)"},
		{"(char*)p->q:string(n):4 =^ \"x\"", "(((((char*)(p->q)):stringn):limit)=^\"x\")"},
		{"(*p).q", "((*p).q)"},
		{"&a[2].b", "(&((a[2]).b))"},
		{"a[i + 1]", "(a[(i+1)])"},
		{"d:string(n - 1)", "(d:string(n-1))"},
		{"d:string:16", "((d:string):limit)"},
		{"x:hex", "(x:hex)"},
		{"a & 4 == 4", "((a&4)==4)"},
		{"a && b || c && !d", "((a&&b)||(c&&(!d)))"},
		{"a - b - c", "((a-b)-c)"},
		{"a + b & 0x10", "(a+(b&16))"},
		{"s =^ \"a\\\"b\\x41\"", "(s=^\"a\"bA\")"},
		{"c == 'x' && d == '\\n'", "((c==120)&&(d==10))"},
		{"-1 < ~a", "((-1)<(~a))"},
		{"0xffffffffffffffff", "-1"},
		{"$retval->x", "($retval->x)"},
		{"a>=b", "(a>=b)"},
		{"a&&b", "(a&&b)"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct ip_expression *e;
		char *text;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		if (ip_expression_parse(cases[i][0], strlen(cases[i][0]), &e) < 0)
			fail_msg("%s: %s", cases[i][0], ip_error_message());
		show(out, e);
		fclose(out);
		assert_string_equal(text, cases[i][1]);
		ip_expression_destroy(e);
		free(text);
	}
}

static void test_no_expressions(void **state)
{
	static const char *const cases[][2] = {
		{"", "a name is missing"},
		{"a->", "a name is missing"},
		{"a->4", "a name is expected at '4'"},
		{"a b", "an operator or the end is expected at 'b'"},
		{"(a", "')' is missing"},
		{"a[1", "']' is missing"},
		{"a[]", "a name is expected"},
		{"a:strong", "string, hex or a number of bytes is expected at 'strong'"},
		{"a ==", "a name is missing"},
		{"a == b == c", "an operator or the end"},
		{"\"abc", "a text that ends"},
		{"'ab'", "one character"},
		{"18446744073709551616", "64 bits"},
		{"12x", "64 bits"},
		{"(a*b)", "')' is expected at '*b)'"},
		{"(a*)", "a name is missing"},
		{"\"\\x4\"", "a text of at most 64 bytes"},
		{"a;b", "an operator or the end"},
		{"ntohs(a) == 5", "cannot be called here, as by '(a) == 5': name what they take"},
		{"a->b = 404", "== compares, in the place of '='"},
		{"a:string)", "')' without '(' (one function for each option"},
	};
	char deep[2000];
	struct ip_expression *e;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		if (ip_expression_parse(cases[i][0], strlen(cases[i][0]), &e) == 0)
			fail_msg("'%s' is an expression", cases[i][0]);
		assert_error(cases[i][1]);
		assert_null(e);
	}
	memset(deep, '(', sizeof(deep));
	assert_int_equal(ip_expression_parse(deep, sizeof(deep), &e), -1);
	assert_error("nested too deeply");
	memset(deep, '!', sizeof(deep));
	assert_int_equal(ip_expression_parse(deep, sizeof(deep), &e), -1);
	assert_error("nested too deeply");
	for (size_t i = 0; i + 1 < sizeof(deep); i += 2)
		memcpy(deep + i, "a+", 2);
	assert_int_equal(ip_expression_parse(deep, sizeof(deep), &e), -1);
	assert_error("too long");
}

static void test_literal_patterns(void **state)
{
	static const char *const cases[][2] = {
		{"a == \"x*\"", "x*"},
		{"n > 1 && !(\"[a\" == a)", "[a"},
		{"a:string(n) == \"?\"", "?"},
		{"a =^ \"x*\"", NULL},
		{"a != \"x*\"", NULL},
		{"a == \"x\" || *b == '*'", NULL},
		{"*a", NULL},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const struct ip_expression *found;
		struct ip_expression *e;

		assert_int_equal(ip_expression_parse(cases[i][0], strlen(cases[i][0]), &e), 0);
		found = ip_expression_literal_pattern(e);
		assert_int_equal(!!found, !!cases[i][1]);
		if (found)
			assert_string_equal(found->text, cases[i][1]);
		ip_expression_destroy(e);
	}
}

static void test_requests(void **state)
{
	struct ip_value_requests all = {0};
	const struct ip_value_request *r;

	(void)state;
	assert_true(ip_value_request_is("f(a)") && ip_value_request_is("ns::f(a, b)"));
	assert_false(ip_value_request_is("-f(x)") || ip_value_request_is("1234") ||
		     ip_value_request_is("./prog") || ip_value_request_is("()"));
	assert_int_equal(
		ip_value_requests_add(&all, IP_REQUEST_ARGS,
				      "ns::f*(r->uri.data:string(r->n), who=a[g(1)], \",\" == b )"),
		-1);
	assert_error("--args ns::f*(");
	assert_int_equal(ip_value_requests_add(&all, IP_REQUEST_ARGS,
					       "ns::f*( r->uri.data:string(r->n) , who = a[1],a)"),
			 -1);
	assert_int_equal(ip_value_requests_add(&all, IP_REQUEST_ARGS,
					       "ns::f*( r->uri . data:string(r->n) , who=a[1],a)"),
			 0);
	r = &all.items[0];
	assert_int_equal(r->n, 3);
	assert_string_equal(r->function, "ns::f*");
	assert_false(r->exact);
	assert_string_equal(r->items[0].name, "r->uri.data");
	assert_string_equal(r->items[1].name, "who");
	assert_string_equal(r->items[2].name, "a");
	assert_true(ip_selection_match(r->selection, "_ZN2ns3fooEv", NULL, NULL));
	assert_false(ip_selection_match(r->selection, "foo", NULL, NULL));
	assert_int_equal(ip_value_requests_add(&all, IP_REQUEST_WHEN, "ns::f: n > 1"), 0);
	assert_string_equal(all.items[1].function, "ns::f");
	assert_true(all.items[1].exact);
	assert_int_equal(ip_value_requests_add(&all, IP_REQUEST_WHEN, "d:string(4) == \"a: b\""),
			 0);
	assert_null(all.items[2].function);
	assert_true(ip_value_requests_any(&all, IP_REQUEST_WHEN));
	assert_false(ip_value_requests_any(&all, IP_REQUEST_RETVAL));
	assert_int_equal(ip_value_requests_add(&all, IP_REQUEST_ARGS, "(a)"), -1);
	assert_error("the name of a function is missing");
	assert_int_equal(ip_value_requests_add(&all, IP_REQUEST_ARGS, "f()"), -1);
	assert_int_equal(ip_value_requests_add(&all, IP_REQUEST_ARGS, "f"), -1);
	assert_error("it is FUNC(EXPRESSION, ...)");
	assert_int_equal(ip_value_requests_add(&all, IP_REQUEST_ARGS,
					       "f(a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a)"),
			 -1);
	assert_error("at most 16 values");
	assert_int_equal(all.n, 3);
	ip_value_requests_clear(&all);
	assert_int_equal(all.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_no_expressions),
		cmocka_unit_test(test_literal_patterns),
		cmocka_unit_test(test_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
