// SPDX-License-Identifier: Apache-2.0
/*
 * The selection language, and names as the programmer wrote them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/selection/selection.h"
#include "test/unit/make_elf.h"
#include "test/unit/test.h"

#define FOO_INT	 "_ZN2ns3fooEi"	 /* ns::foo(int) */
#define BAR_T	 "_Z3barIiEvT_"	 /* void bar<int>(int) */
#define BAR_LONG "_Z3barIlEvT_"	 /* void bar<long>(long) */
#define BAR_NONE "_Z3barIJEEvv"	 /* void bar<>() */
#define LESS_T	 "_ZltIiEbT_S0_" /* bool operator< <int>(int, int) */
/* std::map<int, long, std::less<int>, std::allocator<std::pair<int const, long> > >::find(int
 * const&)
 */
#define MAP_FIND  "_ZNSt3mapIilSt4lessIiESaISt4pairIKilEEE4findERS3_"
#define CALL	  "_ZNK1XclEii"		    /* X::operator()(int, int) const */
#define LESS	  "_ZN1XltERKS_"	    /* X::operator<(X const&) */
#define SHIFT	  "_ZN1XlsEi"		    /* X::operator<<(int) */
#define INDEX	  "_ZN1XixEi"		    /* X::operator[](int) */
#define ANONYMOUS "_ZN12_GLOBAL__N_13bazEv" /* (anonymous namespace)::baz() */
#define MAP	  "_ZN3mapIiiE3getEv"	    /* map<int, int>::get() */
#define TAGGED	  "_ZN2ns4textB5cxx11Ei"    /* ns::text[abi:cxx11](int) */
#define RUST	  "_ZN4core3fmt5write17h0123456789abcdefE"
#define RUST_V0	  "_RNvC6_123foo3bar"
#define DLANG	  "_D3std5stdio7writelnFZv"

static bool matches(const char *selection, const char *name)
{
	struct ip_selection *s;
	bool r;

	if (ip_selection_parse(selection, &s) < 0)
		fail_msg("'%s': %s", selection, ip_error_message());
	r = ip_selection_match(s, name, "/src/lib/parse.c", "/usr/lib/libfoo.so.1");
	ip_selection_destroy(s);
	return r;
}

struct match {
	const char *selection, *name;
	bool expected;
};

static void check(const struct match *cases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (matches(cases[i].selection, cases[i].name) != cases[i].expected)
			fail_msg("'%s' %s '%s'", cases[i].selection,
				 cases[i].expected ? "should match" : "should not match",
				 cases[i].name);
}

static void test_globs(void **state)
{
	static const struct match cases[] = {
		{"main", "main", true},
		{"main", "main2", false},
		{"mai?", "main", true},
		{"m[ab]in", "main", true},
		{"*", "anything", true},
		{"MAIN", "main", false},
		{" main , other ", "other", true},
		{"a,b,c", "c", true},
		{"a,b,c", "d", false},
		{"_start", "_start", true},
		{"*/x*", "a/xy", true},
		{"ma\\in", "main", true},
		{"a\\,b", "a,b", true},
		{"a\\,b", "a", false},
	};

	(void)state;
	check(cases, N_ELEMENTS(cases));
}

static void test_cxx(void **state)
{
	static const struct match cases[] = {
		{FOO_INT, FOO_INT, true}, /* linker name */
		{"_ZN2ns*", FOO_INT, true},
		{"ns::foo", FOO_INT, true},
		{"foo", FOO_INT, false},
		{"*::foo", FOO_INT, true},
		{"ns::*", FOO_INT, true},
		{"ns::foo(int)", FOO_INT, true},
		{"ns::foo(*)", FOO_INT, true},
		{"ns::foo(long)", FOO_INT, false},
		{"ns*int*", FOO_INT, false}, /* arguments only where the glob has a '(' */
		{"bar<int>", BAR_T, true},
		{"bar<int>(int)", BAR_T, true}, /* without the return type */
		/* any instance, in each way to write that, and one of them */
		{"bar", BAR_T, true},
		{"bar<>", BAR_T, true},
		{"bar<...>", BAR_T, true},
		{"bar(int)", BAR_T, true},
		{"bar<>(int)", BAR_T, true},
		{"bar(long)", BAR_T, false},
		{"bar<long>", BAR_T, false},
		{"bar<int>", BAR_LONG, false},
		{"bar<>", BAR_LONG, true},
		{"ba", BAR_T, false},
		{"bar<>", "bar", false},
		{"bar\\<\\>", BAR_T, false},
		{"bar\\<\\>", BAR_NONE, true},
		{"bar<>", BAR_NONE, true},
		{"std::map::find", MAP_FIND, true},
		{"std::map<>::find", MAP_FIND, true},
		{"std::map<int, long>::find", MAP_FIND, true},
		{"std::map<int, int>::find", MAP_FIND, false},
		{"map::find", MAP_FIND, false},
		{"!std::map::find", MAP_FIND, false},
		{"operator<", LESS_T, true},
		{"operator<<", LESS_T, false},
		{"operator< <>", LESS_T, true},
		{"operator< <int>", LESS_T, true},
		{"operator< <long>", LESS_T, false},
		{"bar*", BAR_T, true},
		{"X::operator()", CALL, true},
		{"X::operator()(int, int) const", CALL, true},
		{"main,X::operator()(int, int) const,x", CALL, true},
		{"X::operator<", LESS, true},
		{"main,X::operator<,x", LESS, true},
		{"X::operator<,main", "main", true},
		{"X::operator<<,main", "main", true},
		{"X::operator<<,main", SHIFT, true},
		{"X::operator->,X::operator>=,main", "main", true},
		{"X::operator[],main", INDEX, true},
		{"X::operator\\[\\]", INDEX, true},
		{"X::operator\\[\\],main", "main", true},
		{"*baz", ANONYMOUS, true},
		{"(anonymous namespace)::baz", ANONYMOUS, true},
		{"(anonymous namespace)::baz()", ANONYMOUS, true},
		{"map<int, int>::*,main", MAP, true},
		{"map<int, int>::*,main", "main", true},
		{"core::fmt::write", RUST, true},
		{"std.stdio.writeln", DLANG, true},
	};

	(void)state;
	check(cases, N_ELEMENTS(cases));
}

static void test_not(void **state)
{
	static const struct match cases[] = {
		{"!main", "other", true},
		{"!main", "main", false},
		{"a*,!ab", "ab", false},
		{"!ab,a*", "ab", false}, /* the order does not matter */
		{"a*,!ab", "ac", true},
		{"a*,!ab", "b", false},
		{"! main", "main", false},
		{"!lib:libfoo*", "x", false},
		{"!lib:libbar*", "x", true},
		{"!file:parse.c", "x", false},
		{"lib:*,!file:*.h", "x", true},
		{"!*", "x", false},
	};

	(void)state;
	check(cases, N_ELEMENTS(cases));
}

static void test_file_and_lib(void **state)
{
	static const struct match cases[] = {
		{"file:parse.c", "x", true},	  {"file:/src/*", "x", true},
		{"file:lib/parse.c", "x", false}, {"file:*.cc", "x", false},
		{"lib:libfoo.so.1", "x", true},	  {"lib:libfoo*", "x", true},
		{"lib:/usr/*", "x", true},	  {"lib:lib", "x", false},
		{"file:*.cc,x", "x", true},	  {"file: parse.c", "x", false},
	};
	struct ip_selection *s;

	(void)state;
	check(cases, N_ELEMENTS(cases));
	assert_int_equal(ip_selection_parse("file:*,lib:*", &s), 0);
	assert_false(ip_selection_match(s, "x", NULL, NULL));
	assert_true(ip_selection_match(s, "x", "f", NULL));
	assert_true(ip_selection_match(s, "x", NULL, "m"));
	ip_selection_destroy(s);
}

static void test_suffixes(void **state)
{
	static const struct {
		const char *name, *base;
	} cases[] = {
		{"f.isra.0", "f"},
		{"f.part.12", "f"},
		{"f.constprop.0.isra.3", "f"},
		{"f.cold", "f"},
		{"f.part.0.cold", "f"},
		{"f.cold.1", "f"},
		{"f.lto_priv.3", "f"},
		{"f.llvm.1234567890", "f"},
		{"f.other.1", "f.other.1"},
		{"f.0", "f.0"}, /* gcc's nested functions: a name of its own */
		{"f.", "f."},
		{"f.isra.", "f.isra."},
		{".cold", ".cold"},
		{"cold", "cold"},
		{"", ""},
		{"123", "123"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		assert_int_equal(ip_base_name_length(cases[i].name), strlen(cases[i].base));
	assert_true(matches("f", "f.isra.0"));
	assert_true(matches("f.isra.*", "f.isra.0"));
	assert_true(matches("ns::foo", FOO_INT ".constprop.0"));
	assert_false(matches("f", "f.other.1"));
}

/* A function of a PLT is meant by its own name, too; foo@plt means that one alone. */
static void test_plt(void **state)
{
	static const struct {
		const char *glob, *name;
		bool matches;
	} cases[] = {
		{"malloc", "malloc@plt", true},	       {"mal*", "malloc@plt", true},
		{"malloc@plt", "malloc@plt", true},    {"*@plt", "malloc@plt", true},
		{"malloc@plt", "malloc", false},       {"*@plt", "malloc", false},
		{"mall", "malloc@plt", false},	       {"alloc@plt", "malloc@plt", false},
		{"!malloc", "malloc@plt", false},      {"ns::foo", FOO_INT "@plt", true},
		{"ns::foo@plt", FOO_INT "@plt", true}, {"ns::foo(int)@plt", FOO_INT "@plt", true},
		{"ns::foo@plt", FOO_INT, false},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		if (matches(cases[i].glob, cases[i].name) != cases[i].matches)
			fail_msg("%s, %s", cases[i].glob, cases[i].name);
	for (int with_args = 0; with_args <= 1; with_args++) {
		char *name = ip_demangle(FOO_INT "@plt", with_args),
		     *plain = ip_demangle("malloc@plt", with_args),
		     *twice = ip_demangle("a@plt@plt", with_args);

		assert_string_equal(name, with_args ? "ns::foo(int)@plt" : "ns::foo@plt");
		assert_string_equal(plain, "malloc@plt");
		assert_string_equal(twice, "a@plt@plt");
		free(name);
		free(plain);
		free(twice);
	}
	assert_int_equal(ip_plt_name_length("malloc@plt"), 6);
	assert_int_equal(ip_plt_name_length("malloc"), 6);
	assert_int_equal(ip_plt_name_length("@plt"), 4);
}

static void test_all(void **state)
{
	static const struct {
		const char *text;
		bool all;
	} cases[] = {
		{NULL, true}, {"", true},    {"*", true},     {"a,*", true},
		{"a", false}, {"!a", false}, {"*,!a", false}, {"lib:*", false},
	};
	struct ip_selection *s;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		assert_int_equal(ip_selection_parse(cases[i].text, &s), 0);
		assert_int_equal(ip_selection_is_all(s), cases[i].all);
		ip_selection_destroy(s);
	}
	assert_true(ip_selection_is_all(NULL));
	assert_true(ip_selection_match(NULL, "x", NULL, NULL));
	assert_int_equal(ip_selection_parse(NULL, &s), 0);
	assert_true(ip_selection_match(s, "x", NULL, NULL));
	ip_selection_destroy(s);
	ip_selection_destroy(NULL);
}

static void test_bad(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{",", "empty item"},
		{"a,,b", "empty item"},
		{"a,", "empty item"},
		{" ", "empty item"},
		{"!", "empty item '!'"},
		{"file:", "empty item 'file:'"},
		{"a,!lib:", "empty item '!lib:'"},
		{"fil:x", "unknown prefix in 'fil:x'"},
		{"f(int,b", "'(' that is not closed"},
		{"map<int,b", "'<' that is not closed"},
		{"a,[x,y", "'[' that is not closed"},
		{"a,@b", "'@b': @FILE must be the whole"},
		{"!@b", "@FILE must be the whole"},
		{"@", "'@' needs the name"},
		{"@/nowhere/at", "/nowhere/at: cannot open"},
		{"@/", "/: cannot read: Is a directory"},
	};
	struct ip_selection *s;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		ip_error("none");
		if (ip_selection_parse(cases[i].text, &s) != -1)
			fail_msg("'%s' was taken for a selection", cases[i].text);
		assert_error(cases[i].error);
		assert_error("selection");
	}
	/* Without a comma an open bracket is a part of the glob. */
	assert_true(matches("ns::foo(*", FOO_INT));
}

static int parse_file(const char *contents, size_t size, struct ip_selection **ret)
{
	int fd = made_fd(contents, size);
	char text[64];
	int r;

	snprintf(text, sizeof(text), "@/proc/self/fd/%d", fd);
	r = ip_selection_parse(text, ret);
	close(fd);
	return r;
}

static void test_from_file(void **state)
{
	static const char contents[] = "# what we care about\n"
				       "main, other # and why\r\n"
				       "\n"
				       "  !other2,\n"
				       "lib:libx*\n"
				       "closure#0,f(int, char)";
	static const struct {
		const char *text, *error;
	} bad[] = {
		{"", "no item in it"},
		{"# nothing\n\n", "no item in it"},
		{"a\n\nb,,c\n", ":3: selection: empty item"},
		{"@other\n", ":1: selection: '@other'"},
		{"x:y", ":1: selection: unknown prefix"},
	};
	struct ip_selection *s;

	(void)state;
	assert_int_equal(parse_file(contents, strlen(contents), &s), 0);
	assert_true(ip_selection_match(s, "main", NULL, NULL));
	assert_true(ip_selection_match(s, "other", NULL, NULL));
	assert_true(ip_selection_match(s, "x", NULL, "libx.so"));
	assert_false(ip_selection_match(s, "other2", NULL, "libx.so"));
	assert_true(ip_selection_match(s, "closure#0", NULL, NULL));
	assert_false(ip_selection_match(s, "and", NULL, NULL));
	ip_selection_destroy(s);

	for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
		assert_int_equal(parse_file(bad[i].text, strlen(bad[i].text), &s), -1);
		assert_error(bad[i].error);
	}
	assert_int_equal(parse_file("a\0b", 3, &s), -1);
	assert_error("not a text file");
}

static void test_demangle(void **state)
{
	static const struct {
		const char *name, *plain, *with_args;
	} cases[] = {
		{FOO_INT, "ns::foo", "ns::foo(int)"},
		{BAR_T ".isra.0", "bar<int>", "bar<int>(int)"},
		{CALL, "X::operator()", "X::operator()(int, int) const"},
		{RUST, "core::fmt::write", "core::fmt::write"},
		{RUST_V0, "123foo::bar", "123foo[0]::bar"},
		{DLANG, "std.stdio.writeln", "std.stdio.writeln()"},
		{"main", "main", "main"},
		{"f.cold", "f", "f"},
		{"f.part.3", "f [part]", "f [part]"},
		{"f.constprop.0.part.1.isra.2.cold", "f [part]", "f [part]"},
		{"f.cold.1", "f [part]", "f [part]"},
		{BAR_T ".part.0", "bar<int> [part]", "bar<int>(int) [part]"},
		{"_Zgarbage", "_Zgarbage", "_Zgarbage"},
		{"_Z", "_Z", "_Z"},
		{"_R", "_R", "_R"},
		{"_D", "_D", "_D"},
		{"_", "_", "_"},
		{"", "", ""},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		char *plain = ip_demangle(cases[i].name, false),
		     *with_args = ip_demangle(cases[i].name, true);

		assert_string_equal(plain, cases[i].plain);
		if (ip_name_is_plain(cases[i].name)) {
			assert_string_equal(plain, cases[i].name);
			assert_string_equal(with_args, cases[i].name);
		}
		/* libiberty's versions differ in how they show a Rust crate's number. */
		if (strcmp(cases[i].name, RUST_V0) != 0)
			assert_string_equal(with_args, cases[i].with_args);
		free(plain);
		free(with_args);
	}
}

/* f<P<P<...<A, A>, P<A, A>>...>>, doubled steps times by substitutions; steps < 36. */
static void cxx_bomb(char *name, unsigned steps)
{
	strcpy(name, "_Z1fI1PI");
	for (unsigned i = 1; i < steps; i++)
		strcat(name, "S0_I");
	strcat(name, "1A");
	for (unsigned i = 1; i <= steps; i++)
		sprintf(name + strlen(name), "S%c_E", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i]);
	strcat(name, "Evv");
}

/* Tuples of two references to the tuple before. */
static void d_bomb(char *name, unsigned steps)
{
	strcpy(name, "_D1fFB2mmB2QgQi");
	for (unsigned i = 1; i < steps; i++)
		strcat(name, "B2QiQk");
	strcat(name, "Zv");
}

/* Names that double at each step: a few hundred bytes that stand for terabytes. */
static void test_bombs(void **state)
{
	static void (*const make[])(char *, unsigned) = {cxx_bomb, d_bomb};
	char name[2048];
	char *demangled;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(make); i++) {
		make[i](name, 4);
		demangled = ip_demangle(name, true);
		assert_true(strlen(demangled) > 100); /* it is a bomb, a small one */
		free(demangled);
		make[i](name, 35);
		demangled = ip_demangle(name, true);
		assert_string_equal(demangled, name);
		free(demangled);
	}

	/* Nested as deep as it gets. */
	memset(name, 'P', sizeof(name));
	memcpy(name, "_Z1f", 4);
	strcpy(name + sizeof(name) - 2, "i");
	demangled = ip_demangle(name, true);
	assert_string_equal(demangled, name);
	free(demangled);
}

static void nearest(const char *selection, const char *const *names, size_t n, const char *expected)
{
	struct ip_selection *s;
	char *line;

	assert_int_equal(ip_selection_parse(selection, &s), 0);
	line = ip_selection_nearest(s, names, n);
	assert_string_equal(line, expected);
	free(line);
	ip_selection_destroy(s);
}

static void test_nearest(void **state)
{
	static const char *const names[] = {
		"main",	 "parse_line", "parse_lines", "parse_file.isra.0", "parse_file",
		FOO_INT, "tokenize",   BAR_T,	      "json_parse_value"};
	static const char *const tagged[] = {"main", TAGGED};
	static const char *const templates[] = {"main", MAP_FIND};
	char long_name[300];

	(void)state;
	nearest("maim", names, N_ELEMENTS(names), "main");
	nearest("Main", names, N_ELEMENTS(names), "main");
	nearest("parse_lin", names, N_ELEMENTS(names), "parse_line, parse_lines, parse_file");
	nearest("!x,foo", names, N_ELEMENTS(names), "ns::foo");
	nearest("ns::fo0(int)", names, N_ELEMENTS(names), "ns::foo(int)");
	nearest("std::map<>::fnid", templates, N_ELEMENTS(templates), "std::map<int, long>::find");
	nearest("std::map::fnid", templates, N_ELEMENTS(templates), "std::map<int, long>::find");
	nearest("ns::tex", tagged, N_ELEMENTS(tagged), "ns::text");
	nearest("tokenise*", names, N_ELEMENTS(names), "tokenize");
	nearest("_parse_", names, N_ELEMENTS(names), "json_parse_value");
	nearest("quite_different", names, N_ELEMENTS(names), "");
	nearest("lib:libx", names, N_ELEMENTS(names), "");
	nearest("!maim", names, N_ELEMENTS(names), "main");
	nearest("!maim,tokenzie", names, N_ELEMENTS(names), "tokenize"); /* letters swapped */
	nearest("**", names, N_ELEMENTS(names), "");
	nearest("main", NULL, 0, "");
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	nearest(long_name, names, N_ELEMENTS(names), "");
}

/* The nearest files and modules, of those that the selection was compared with. */
static void nearest_path(const char *selection, const char *expected)
{
	static const char *const files[] = {"/src/h1.c", "/src/stream.c", "/src/stream.c",
					    "/src/street.h", NULL};
	static const char *const names[] = {"h1_send", "h1_recv", "main"};
	struct ip_selection *s;
	char *line;

	assert_int_equal(ip_selection_parse(selection, &s), 0);
	for (size_t i = 0; i < N_ELEMENTS(files); i++)
		ip_selection_match(s, "h1_send", files[i], "/lib/libcrypto.so.3");
	line = ip_selection_nearest(s, names, N_ELEMENTS(names));
	assert_string_equal(line, expected);
	free(line);
	ip_selection_destroy(s);
}

static void test_nearest_path(void **state)
{
	(void)state;
	nearest_path("src/stream.c", "file:stream.c");
	nearest_path("stream.c", "file:stream.c");
	nearest_path("file:src/strem.c", "file:stream.c");
	nearest_path("file:src/h1.c", "file:h1.c");
	nearest_path("file:quite_different.c", "");
	nearest_path("lib:libcrypt.so.3", "lib:libcrypto.so.3");
	nearest_path("lib:libz.so.1", "");
	/* regular expressions */
	nearest_path("/^h1_/", "h1_*");
	nearest_path("/h1_/", "*h1_*");
	nearest_path("^h1_.*$", "h1_*");
	nearest_path("h1_s.+", "h1_s*");
	nearest_path("h1_sen.$", "h1_sen?");
	nearest_path("/^quite_different/", "");
	nearest_path("/^(h1|h2)_/", "");
	nearest_path("//", "");
	nearest_path("^", "");
	nearest_path("$", "");
	nearest_path("/^$/", "");
	/* what stands between names is a comma */
	nearest_path("h1_send;main", "h1_send,main");
	nearest_path("h1_*|main", "h1_*,main");
	nearest_path("operator|", "");
	nearest_path("|", "");
}

/* Compares the selection with all names, and then checks what has matched nothing. */
static void unused(const char *selection, const char *expected, const char *with_nearest)
{
	static const char *const names[] = {"main", "parse_line", "parse_file", "tokenize"};
	_cleanup_free_ char *line = NULL;
	_cleanup_free_ char *nearest = NULL;
	struct ip_selection *s;

	assert_int_equal(ip_selection_parse(selection, &s), 0);
	for (size_t i = 0; i < N_ELEMENTS(names); i++)
		ip_selection_match(s, names[i], "a.c", "/lib/libx.so");
	line = ip_selection_unused(s);
	nearest = ip_selection_unused_nearest(s, names, N_ELEMENTS(names));
	if (expected) {
		assert_string_equal(line, expected);
		assert_string_equal(nearest, with_nearest);
	} else {
		assert_null(line);
		assert_null(nearest);
	}
	ip_selection_destroy(s);
}

static int find_noise(void *context, const char *name, char **ret_text)
{
	(void)context;
	if (strcmp(name, "noise"))
		return 0;
	*ret_text = strdup("!none_here");
	return 1;
}

static void test_unused(void **state)
{
	(void)state;
	unused("main,parse_*,!tokenize", NULL, NULL);
	unused("main,mian", "mian", "mian (nearest: main)");
	unused("!tokenzie", "!tokenzie", "!tokenzie (nearest: tokenize)");
	unused("parse_*,!parse_fiel", "!parse_fiel",
	       "!parse_fiel (nearest: parse_file, parse_line)");
	unused("lib:none,!file:a.c", "lib:none", "lib:none");
	/* each of several items that take the same function away has matched it */
	unused("!parse_*,!parse_line,!parse_file", NULL, NULL);
	unused("!parse_*,parse_line", NULL, NULL);
	ip_selection_set_finder(find_noise, NULL, NULL);
	unused("@noise,main", NULL, NULL);
	ip_selection_set_finder(NULL, NULL, NULL);
}

/* Whether the item that was made of a name means that function, and the other one not. */
static void quoted(const char *name, const char *other)
{
	_cleanup_free_ char *item = ip_selection_quote(name, strlen(name)), *list = NULL;
	struct ip_selection *s;

	assert_non_null(item);
	assert_true(matches(item, name));
	assert_false(matches(item, other));
	/* also where more follows, and where it is to be taken away */
	assert_true(asprintf(&list, "main,%s,!%s", item, item) > 0);
	assert_false(matches(list, name));
	assert_true(matches(list, "main"));
	assert_int_equal(ip_selection_parse_names(item, &s), 0);
	assert_false(ip_selection_is_all(s));
	ip_selection_destroy(s);
}

static void test_quote(void **state)
{
	_cleanup_free_ char *plain = ip_selection_quote("_ZN2ns3fooEi.cold", 12),
			    *suffix = ip_selection_quote("f$1.part.0", 10);

	assert_string_equal(plain, "_ZN2ns3fooEi");
	assert_string_equal(suffix, "f$1.part.0");
	/* a file that would be read, all functions, and what else has a meaning */
	quoted("@/dev/null", "f");
	quoted("@name", "name");
	quoted("*", "f");
	quoted("[ab]?", "ax");
	quoted("!f", "f");
	quoted("a,b", "a");
	quoted("lib:x", "f");
	quoted("file:x", "x");
	quoted("other:x", "x");
	quoted("(<[", "f");
	quoted("operator,", "operator");
	quoted("a\\b", "ab");
	quoted(" x", "x");
	quoted("line\nbreak", "line");
	quoted("\xc3\xa9t\xc3\xa9", "f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_globs),	     cmocka_unit_test(test_cxx),
		cmocka_unit_test(test_not),	     cmocka_unit_test(test_file_and_lib),
		cmocka_unit_test(test_suffixes),     cmocka_unit_test(test_plt),
		cmocka_unit_test(test_all),	     cmocka_unit_test(test_bad),
		cmocka_unit_test(test_from_file),    cmocka_unit_test(test_demangle),
		cmocka_unit_test(test_bombs),	     cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_nearest_path), cmocka_unit_test(test_unused),
		cmocka_unit_test(test_quote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
