/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the command line of a compiler. See command_line.h.
 *
 * If an option is not known to take its value as the next argument, that value looks like an input
 * file. That does no harm. Inputs decide only two things: whether flags are added, which the
 * compiler ignores where they do not apply; and whether a file is looked at that was not changed.
 */
#include "coldpatch/cc/command_line.h"

#include "common/error.h"

#include <libiberty/libiberty.h>
#include <stdlib.h>
#include <string.h>

/* Options whose value is the next argument. (Many also take it joined; then it is one argument.) */
static const char *const with_value[] = {
	"--config",
	"--define-macro",
	"--dyld-prefix",
	"--for-linker",
	"--imacros",
	"--include",
	"--include-directory",
	"--include-directory-after",
	"--include-prefix",
	"--include-with-prefix",
	"--include-with-prefix-after",
	"--library-directory",
	"--param",
	"--prefix",
	"--serialize-diagnostics",
	"--sysroot",
	"--undefine-macro",
	"-A",
	"-B",
	"-D",
	"-F",
	"-G",
	"-I",
	"-L",
	"-MF",
	"-MJ",
	"-MQ",
	"-MT",
	"-R",
	"-T",
	"-Tbss",
	"-Tdata",
	"-Ttext",
	"-U",
	"-V",
	"-Xanalyzer",
	"-Xassembler",
	"-Xclang",
	"-Xpreprocessor",
	"-arch",
	"-aux-info",
	"-b",
	"-cxx-isystem",
	"-dumpbase",
	"-dumpbase-ext",
	"-dumpdir",
	"-e",
	"-framework",
	"-gcc-toolchain",
	"-h",
	"-idirafter",
	"-iframework",
	"-imacros",
	"-imultiarch",
	"-imultilib",
	"-include",
	"-include-pch",
	"-iprefix",
	"-iquote",
	"-isysroot",
	"-isystem",
	"-ivfsoverlay",
	"-iwithprefix",
	"-iwithprefixbefore",
	"-isystem-after",
	"-mllvm",
	"-mthread-model",
	"-resource-dir",
	"-rpath",
	"-u",
	"-working-directory",
	"-wrapper",
	"-z",
};

/* Options that end the run before the linker. */
static const char *const stops[] = {
	"-E",
	"-M",
	"-MM",
	"-S",
	"-c",
	"-emit-ast",
	"-emit-interface-stubs",
	"-fsyntax-only",
	"--analyze",
	"--assemble",
	"--compile",
	"--dependencies",
	"--precompile",
	"--preprocess",
	"--user-dependencies",
};

/* Those of them that also end it before machine code. */
static const char *const stops_early[] = {
	"-E",
	"-M",
	"-MM",
	"-emit-ast",
	"-fsyntax-only",
	"--analyze",
	"--dependencies",
	"--preprocess",
	"--user-dependencies",
};

/* Suffixes of sources for which the instrumentation flag has a meaning. */
static const char *const sources[] = {
	"C",	"CPP", "F",   "F90", "F95", "FOR",  "M",   "adb",  "ads", "c",	 "c++",
	"c++m", "cc",  "ccm", "cp",  "cpp", "cppm", "cxx", "cxxm", "d",	  "f",	 "f03",
	"f08",	"f90", "f95", "for", "go",  "i",    "ii",  "m",	   "mi",  "mii", "mm",
};

/* Those of them that are not preprocessed again. */
static const char *const preprocessed[] = {"i", "ii", "mi", "mii"};

static const char *const headers[] = {
	"H", "HPP", "h", "h++", "hh", "hp", "hpp", "hxx", "tcc",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_one_of(const char *text, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(text, list[i]))
			return true;
	return false;
}

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* Which linker it is, and what it must do besides -q. Not all linkers can do these things with
 * -q. */
struct linking {
	const char *linker; /* from -fuse-ld; NULL: the default */
	bool strip_all, strip_some, gc, other_format;
};

struct reading {
	struct command_line *line;
	const char *language; /* from -x; NULL: the suffix decides */
	bool stops, stops_early, asks, freestanding, no_libc, shared;
	bool strips_elsewhere; /* by -Xlinker, or in an @file */
	struct linking linking;
	bool link_input; /* an input that only the linker reads, or a source that is then linked */
	bool header;
};

static void read_language(struct reading *r, const char *language)
{
	r->language = strcmp(language, "none") ? language : NULL;
}

static void read_input(struct reading *r, const char *path)
{
	const char *base = strrchr(path, '/'), *suffix;

	base = base ? base + 1 : path;
	suffix = strrchr(base, '.');
	if (r->language) {
		bool header = strstr(r->language, "header");

		r->line->preprocesses |= !starts_with(r->language, "ir") &&
					 !strstr(r->language, "cpp-output") &&
					 strcmp(r->language, "assembler");
		if (starts_with(r->language, "assembler"))
			r->line->assembles = true;
		else if (!starts_with(r->language, "ir"))
			r->line->compiles = true;
		r->header |= header;
		r->link_input |= !header;
		return;
	}
	if (suffix && is_one_of(suffix + 1, headers, COUNT(headers))) {
		r->line->compiles = true;
		r->line->preprocesses = true;
		r->header = true;
		return;
	}
	if (suffix && is_one_of(suffix + 1, sources, COUNT(sources)))
		r->line->compiles = true;
	if (suffix && (is_one_of(suffix + 1, sources, COUNT(sources)) || !strcmp(suffix, ".S") ||
		       !strcmp(suffix, ".sx")))
		r->line->preprocesses |= !is_one_of(suffix + 1, preprocessed, COUNT(preprocessed));
	if (suffix && (!strcmp(suffix, ".s") || !strcmp(suffix, ".S") || !strcmp(suffix, ".sx")))
		r->line->assembles = true;
	r->link_input = true;
}

static void read_target(struct reading *r, const char *target)
{
	if (!starts_with(target, "x86_64") && !starts_with(target, "amd64"))
		r->line->hands_off = true;
}

/* Whether options of the linker, separated by commas, include one after which sections may be
 * refused or go elsewhere. */
static bool is_own_layout(const char *options)
{
	static const char *const names[] = {
		"-r",	    "-i", "-T", "--relocatable", "--script", "-script", "--orphan-handling",
		"--omagic", "-N", "-n"};

	for (const char *o = options; *o; o += strcspn(o, ","), o += *o == ',')
		for (size_t i = 0; i < COUNT(names); i++) {
			size_t length = strlen(names[i]);

			if (!strncmp(o, names[i], length) &&
			    (!o[length] || o[length] == ',' || o[length] == '='))
				return true;
		}
	return false;
}

static bool is_linker_option(const char *option, size_t length, const char *name)
{
	while (*option == '-' && length) {
		option++;
		length--;
	}
	return length >= strlen(name) && !strncmp(option, name, strlen(name)) &&
	       (length == strlen(name) || option[strlen(name)] == '=');
}

static bool asks_to_strip(const char *option, size_t length)
{
	return is_linker_option(option, length, "s") ||
	       is_linker_option(option, length, "strip-all");
}

/* Reads the options that -Wl or -Xlinker pass on, separated by commas. */
static void read_linker_options(struct reading *r, const char *options)
{
	struct linking *k = &r->linking;
	size_t length;

	for (const char *o = options; *o; o += length, o += *o == ',') {
		length = strcspn(o, ",");
		r->line->keep_relocs |= is_linker_option(o, length, "q") ||
					is_linker_option(o, length, "emit-relocs");
		k->strip_all |= asks_to_strip(o, length);
		k->strip_some |= is_linker_option(o, length, "S") ||
				 is_linker_option(o, length, "strip-debug") ||
				 is_linker_option(o, length, "retain-symbols-file");
		k->gc |= is_linker_option(o, length, "gc-sections") ||
			 is_linker_option(o, length, "icf");
		k->other_format |= is_linker_option(o, length, "oformat");
	}
}

char *command_line_without_strip(char *argument)
{
	const char *options = argument + strlen("-Wl,");
	bool found = false;
	size_t length;
	char *left, *end;

	if (!strcmp(argument, "-s"))
		return NULL;
	if (!starts_with(argument, "-Wl,"))
		return argument;
	left = malloc(strlen(argument) + 1);
	if (!left)
		return argument;
	end = stpcpy(left, "-Wl");
	for (const char *o = options; *o; o += length, o += *o == ',') {
		length = strcspn(o, ",");
		if (asks_to_strip(o, length)) {
			found = true;
			continue;
		}
		*end++ = ',';
		end = mempcpy(end, o, length);
	}
	*end = '\0';
	if (found && end > left + strlen("-Wl"))
		return left;
	free(left);
	return found ? NULL : argument;
}

/* Whether the linker can do -q with the other options. Measured with ld and gold 2.40, lld 14, mold
 * 1.10: gold gives up with an internal error, mold crashes. */
static bool survives_relocs(const struct linking *k)
{
	const char *linker = k->linker ? k->linker : "";

	if (k->strip_all || k->other_format)
		return false;
	if (strstr(linker, "gold"))
		return !k->gc;
	if (strstr(linker, "mold"))
		return !k->strip_some;
	return true;
}

/* Reads an option that has no value, or a joined one. */
static void read_option(struct reading *r, const char *a)
{
	struct command_line *l = r->line;

	if (is_one_of(a, stops, COUNT(stops))) {
		r->stops = true;
		r->stops_early |= is_one_of(a, stops_early, COUNT(stops_early));
	} else if (starts_with(a, "-o") && !starts_with(a, "-objcmt")) {
		l->output = a + 2;
	} else if (starts_with(a, "--output=")) {
		l->output = a + strlen("--output=");
	} else if (starts_with(a, "-x")) {
		read_language(r, a + 2);
	} else if (starts_with(a, "--language=")) {
		read_language(r, a + strlen("--language="));
	} else if (!strcmp(a, "-m32") || !strcmp(a, "-mx32") || !strcmp(a, "-m16") ||
		   !strcmp(a, "-m64")) {
		/* the last one counts */
		l->m32 = !strcmp(a, "-m32");
		l->x32 = !strcmp(a, "-mx32");
		l->hands_off = !strcmp(a, "-m16");
	} else if (starts_with(a, "--target=")) {
		read_target(r, a + strlen("--target="));
	} else if (starts_with(a, "-Wl,")) {
		r->link_input = true;
		l->build_id |= strstr(a, "-build-id") != NULL;
		l->own_layout |= is_own_layout(a + strlen("-Wl,"));
		read_linker_options(r, a + strlen("-Wl,"));
	} else if (starts_with(a, "-fuse-ld=")) {
		r->linking.linker = a + strlen("-fuse-ld=");
	} else if (starts_with(a, "--ld-path=")) {
		r->linking.linker = a + strlen("--ld-path=");
	} else if (!strcmp(a, "-s")) {
		r->linking.strip_all = true;
	} else if (starts_with(a, "-l")) {
		r->link_input = true;
	} else if (!strcmp(a, "-static") || !strcmp(a, "--static") || !strcmp(a, "-static-pie")) {
		l->is_static = true;
	} else if (!strcmp(a, "-dynamic")) {
		l->is_static = false;
	} else if (!strcmp(a, "-shared") || !strcmp(a, "--shared")) {
		r->shared = true;
	} else if (!strcmp(a, "-r") || starts_with(a, "-T")) {
		l->own_layout = true;
	} else if (!strcmp(a, "-nostartfiles")) {
		l->own_start = true;
	} else if (!strcmp(a, "-flto") || starts_with(a, "-flto=")) {
		l->lto = true;
	} else if (!strcmp(a, "-fno-lto")) {
		l->lto = false;
	} else if (!strcmp(a, "-p") || !strcmp(a, "-pg") || !strcmp(a, "--profile")) {
		l->profiles = true;
	} else if (!strcmp(a, "-mred-zone") || !strcmp(a, "-mno-red-zone")) {
		l->red_zone = !strcmp(a, "-mred-zone");
	} else if (starts_with(a, "-mcmodel=")) {
		/* the last one counts */
		l->large_model = !strcmp(a, "-mcmodel=large");
		r->freestanding |= !strcmp(a, "-mcmodel=kernel");
	} else if (!strcmp(a, "-fsplit-stack") || !strcmp(a, "-fno-split-stack")) {
		l->split_stack = !strcmp(a, "-fsplit-stack");
	} else if (!strcmp(a, "-finstrument-functions")) {
		l->instrument = 1;
	} else if (!strcmp(a, "-fno-instrument-functions")) {
		l->instrument = -1;
	} else if (!strcmp(a, "-###")) {
		l->prints_only = true;
	} else if (!strcmp(a, "-ffreestanding")) {
		r->freestanding = true;
	} else if (!strcmp(a, "-fhosted")) {
		r->freestanding = false;
	} else if (!strcmp(a, "-nostdlib") || !strcmp(a, "-nodefaultlibs") ||
		   !strcmp(a, "-nolibc")) {
		r->no_libc = true;
	} else if (starts_with(a, "-print-") || starts_with(a, "--print-") ||
		   starts_with(a, "-dumpversion") || starts_with(a, "-dumpfullversion") ||
		   starts_with(a, "-dumpmachine") || starts_with(a, "-dumpspecs") ||
		   starts_with(a, "--help") || !strcmp(a, "--version") ||
		   !strcmp(a, "--target-help") || starts_with(a, "-cc1")) {
		r->asks = true;
	}
}

static void read_arguments(struct reading *r, char **argv)
{
	for (size_t i = 1; argv[i]; i++) {
		const char *a = argv[i], *value = argv[i + 1];

		if (a[0] != '-' || !a[1]) {
			read_input(r, a);
			continue;
		}
		if (!strcmp(a, "--")) {
			while (argv[++i])
				read_input(r, argv[i]);
			return;
		}
		if (!strcmp(a, "-o") || !strcmp(a, "--output") || !strcmp(a, "-x") ||
		    !strcmp(a, "--language") || !strcmp(a, "-target") || !strcmp(a, "-Xlinker") ||
		    !strcmp(a, "-l")) {
			if (!value)
				return; /* the compiler reports this mistake */
			i++;
			if (!strcmp(a, "-o") || !strcmp(a, "--output"))
				r->line->output = value;
			else if (!strcmp(a, "-x") || !strcmp(a, "--language"))
				read_language(r, value);
			else if (!strcmp(a, "-target"))
				read_target(r, value);
			else
				r->link_input = true;
			if (!strcmp(a, "-Xlinker")) {
				r->line->build_id |= strstr(value, "-build-id") != NULL;
				r->line->own_layout |= is_own_layout(value);
				r->strips_elsewhere |= asks_to_strip(value, strlen(value));
				read_linker_options(r, value);
			}
			continue;
		}
		if (is_one_of(a, with_value, COUNT(with_value))) {
			if (!value)
				return;
			r->line->own_layout |= !strcmp(a, "-T");
			i++;
			continue;
		}
		read_option(r, a);
	}
}

int command_line_parse(int argc, char **argv, struct command_line *ret)
{
	struct reading r = {.line = ret};

	memset(ret, 0, sizeof(*ret));
	ret->output = "a.out";
	ret->expanded = dupargv(argv);
	if (!ret->expanded)
		return ip_error("out of memory");
	/* The compilers themselves use this function. If there is an @file, it replaces the
	 * vector. */
	argv = ret->expanded;
	expandargv(&argc, &argv);
	if (argv != ret->expanded) {
		r.strips_elsewhere = true;
		/* expandargv does not free a vector that it did not make */
		freeargv(ret->expanded);
		ret->expanded = argv;
	}
	read_arguments(&r, ret->expanded);
	/* an option in an @file, or one for -Xlinker, cannot be removed */
	ret->strips = r.linking.strip_all && !r.strips_elsewhere && !ret->own_layout;
	r.linking.strip_all &= !ret->strips;
	ret->links = r.link_input && !r.stops && !r.asks;
	ret->is_static &= !r.shared;
	ret->no_relocs = ret->own_layout || !survives_relocs(&r.linking);
	ret->own_start |= r.no_libc;
	ret->gold_drops = r.linking.gc && r.linking.linker && strstr(r.linking.linker, "gold");
	ret->preprocesses &= !r.asks;
	ret->compiles &= !r.stops_early && !r.asks;
	ret->assembles &= !r.stops_early && !r.asks;
	ret->hands_off |= r.freestanding || (r.no_libc && ret->compiles && ret->links);
	return 0;
}

void command_line_release(struct command_line *line)
{
	freeargv(line->expanded);
	memset(line, 0, sizeof(*line));
}
