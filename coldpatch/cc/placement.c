/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flags of each placement and compiler. See placement.h.
 */
#include "coldpatch/cc/placement.h"

#include "coldpatch/cc/compiler_parts.h"
#include "coldpatch/cc/install_paths.h"
#include "coldpatch/cc/real_compiler.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FENTRY_SPECS  "fentry.specs"   /* by a plugin */
#define P_SPECS	      "fentry_p.specs" /* by -p */
#define INLINE_SPECS  "inline.specs"
#define INLINE_HEADER "iprobe_inline.h"
#define LARGE_HEADER  "iprobe_large.h"

static void add(struct placement_flags *f, const char *flag)
{
	if (f->n < PLACEMENT_MOST_FLAGS)
		f->flags[f->n++] = (char *)flag;
}

int placement_choose(const struct command_line *line, bool clang, enum ip_placement *ret)
{
	static const enum ip_placement all[] = {IP_PLACEMENT_FENTRY, IP_PLACEMENT_INLINE,
						IP_PLACEMENT_INSTRUMENT};
	const char *asked = getenv("IPROBE_PLACEMENT");

	*ret = IP_PLACEMENT_FENTRY;
	if (asked && *asked) {
		size_t i = 0;

		while (i < sizeof(all) / sizeof(all[0]) && strcmp(asked, ip_placement_name(all[i])))
			i++;
		if (i == sizeof(all) / sizeof(all[0]))
			return ip_error(
				"IPROBE_PLACEMENT=%s: there are fentry, inline and instrument",
				asked);
		*ret = all[i];
	}
	if (line->m32 && asked && *asked && *ret != IP_PLACEMENT_INSTRUMENT && !line->hands_off &&
	    (line->compiles || line->links))
		return ip_error("IPROBE_PLACEMENT=%s: -m32 has instrument only", asked);
	if (line->m32)
		*ret = IP_PLACEMENT_INSTRUMENT;
	if (clang && *ret == IP_PLACEMENT_INLINE)
		return ip_error("IPROBE_PLACEMENT=%s: clang has fentry and instrument only", asked);
	/* If the command line itself asks for calls of the hooks, the placement is instrument. */
	if ((line->instrument > 0 || line->split_stack) && *ret == IP_PLACEMENT_FENTRY)
		*ret = IP_PLACEMENT_INSTRUMENT;
	return 0;
}

int placement_sibling_calls(bool *ret)
{
	const char *asked = getenv(ENV_SIBLING_CALLS);

	*ret = !asked || !*asked || !strcmp(asked, "yes");
	if (!*ret && strcmp(asked, "no"))
		return ip_error(ENV_SIBLING_CALLS "=%s: there are yes and no", asked);
	return 0;
}

/* --- the assembler stage */

/* Returns the folder of the assembler stage; NULL with an error. */
static const char *stage_folder(void)
{
	char *as = install_path("stage", IP_STAGE_FROM_BIN, "as", X_OK);

	if (as) {
		*strrchr(as, '/') = '\0';
		return as;
	}
	ip_error("its assembler stage is not in %s: install iprobe whole, or set "
		 "IPROBE_PLACEMENT=instrument",
		 IP_STAGE_FROM_BIN);
	return NULL;
}

/*
 * Tells the stage which assembler gcc would have run, unless it is simply the one in PATH. A
 * compiler with a prefix of its own may have its own assembler, and a -B of the user's may name
 * one.
 */
static void name_assembler(const struct command_line *line, char *const *real)
{
	_cleanup_free_ char *path = realpath(real[0], NULL), *text = NULL;
	bool own_prefix = path && strncmp(path, "/usr/bin/", 9), has_prefix = false;

	for (size_t i = 1; line->expanded[i]; i++)
		has_prefix |= !strncmp(line->expanded[i], "-B", 2) ||
			      !strncmp(line->expanded[i], "--prefix", 8);
	if (!own_prefix && !has_prefix)
		return;
	text = compiler_part(line, real, "-print-prog-name=as");
	if (!text || !strchr(text, '/') || ip_access(text, X_OK))
		return;
	setenv("IPROBE_AS", text, 1);
}

/* Adds the flags for the assembler stage. specs_name: the specs for the compilers proper; NULL:
 * none. header: the header in front of each source; NULL: none. */
static int gcc_stage(const struct command_line *line, char *const *real, const char *specs_name,
		     const char *header, struct placement_flags *f)
{
	static char prefix[PATH_MAX + 16], specs[PATH_MAX + 32], include[PATH_MAX + 16];
	const char *folder = stage_folder();

	if (!folder)
		return -1;
	snprintf(prefix, sizeof(prefix), "-B%s/", folder);
	name_assembler(line, real);
	setenv("IPROBE_STAGE", folder, 1); /* for the specs */
	add(f, prefix);
	if (specs_name) {
		snprintf(specs, sizeof(specs), "-specs=%s/%s", folder, specs_name);
		add(f, specs);
	}
	if (header) {
		snprintf(include, sizeof(include), "%s/include", folder);
		add(f, "-isystem");
		add(f, include);
		f->header = line->compiles ? header : NULL;
	}
	return 0;
}

/* --- flags by compiler */

/* Makes the linker keep relocations: in the linked file they name the calls of the hooks exactly.
 * coldpatch removes them again. */
static void keep_relocs(const struct command_line *line, struct placement_flags *f)
{
	if (line->links && !line->keep_relocs && !line->no_relocs)
		add(f, "-Wl,-q");
}

/*
 * Optimisers join the ends of blocks that differ only in the values in registers. If two hook calls
 * were joined, one site would be the exit of several functions. So the flags below turn this off.
 */
/*
 * -m32: if arguments are pushed one by one, the stack pointer at a hook's call depends on what was
 * pushed before. Readers of traces tell frames apart by it: it must be the same at all calls of a
 * function, as it is on x86-64.
 */
static int gcc_instrument(const struct command_line *line, char *const *real,
			  struct placement_flags *f)
{
	keep_relocs(line, f);
	if (!line->compiles)
		return 0;
	if (line->large_model && !line->m32 && line->instrument >= 0) {
		/* see iprobe_large.h */
		if (gcc_stage(line, real, NULL, LARGE_HEADER, f))
			return -1;
		add(f, "-mno-red-zone");
		/* With this flag the address of a function is computed where it is passed, and does
		 * not go through the stack before. */
		add(f, "-fno-gcse");
	} else if (!line->m32) {
		/* Here the stage changes nothing, but it warns about naked functions. It is not an
		 * error if the stage is missing. */
		(void)gcc_stage(line, real, NULL, NULL, f);
	}
	add(f, "-finstrument-functions");
	add(f, "-fno-crossjumping");
	if (line->m32)
		add(f, "-maccumulate-outgoing-args");
	return 0;
}

static void clang_instrument(const struct command_line *line, struct placement_flags *f)
{
	keep_relocs(line, f);
	if (line->compiles) {
		add(f, "-finstrument-functions");
		add(f, "-mllvm");
		add(f, "-enable-tail-merge=0");
		add(f, "-mllvm");
		add(f, "-simplifycfg-sink-common=false");
		if (line->m32) {
			add(f, "-mllvm");
			add(f, "-no-x86-call-frame-opt");
		}
	}
	if (line->links && line->lto) {
		add(f, "-Wl,-plugin-opt=-enable-tail-merge=0");
		add(f, "-Wl,-plugin-opt=-simplifycfg-sink-common=false");
		if (line->m32)
			add(f, "-Wl,-plugin-opt=-no-x86-call-frame-opt");
	}
}

/*
 * Asks for a call of __fentry__ at each entry, and for XRay sleds at returns and tail jumps, in
 * each function whatever its size. (The call of __fentry__ obeys no_instrument_function.) The
 * driver must not see these flags: it would link XRay's runtime and gcrt1.o, and forbid
 * -fomit-frame-pointer.
 */
static void clang_fentry(const struct command_line *line, struct placement_flags *f)
{
	static const char *const flags[] = {"-pg", "-mfentry", "-fxray-instrument",
					    "-fxray-instruction-threshold=1",
					    "-fxray-instrumentation-bundle=function-exit"};

	for (size_t i = 0;
	     line->compiles && line->instrument >= 0 && i < sizeof(flags) / sizeof(*flags); i++) {
		add(f, "-Xclang");
		add(f, flags[i]);
	}
}

/* A link may generate code as well, even without -flto: the object files may ask for it. */
static int gcc_marked(enum ip_placement placement, const struct command_line *line,
		      char *const *real, struct placement_flags *f)
{
	const char *specs = INLINE_SPECS;

	if (!line->compiles && !line->assembles && !line->links)
		return 0;
	if (placement == IP_PLACEMENT_INLINE && line->red_zone)
		setenv("IPROBE_RED_ZONE", "1", 1);
	if (line->instrument < 0 || (!line->compiles && !line->links))
		return gcc_stage(line, real, NULL, NULL, f);
	if (placement != IP_PLACEMENT_INLINE)
		specs = compiler_takes_plugins(line, real) ? FENTRY_SPECS : P_SPECS;
	return gcc_stage(line, real, specs, placement == IP_PLACEMENT_INLINE ? INLINE_HEADER : NULL,
			 f);
}

int placement_flags(enum ip_placement placement, const struct command_line *line, char *const *real,
		    bool clang, bool sibling_calls, struct placement_flags *ret)
{
	ret->n = 0;
	/* Not if the user leaves a source without probes. Code that the link generates keeps the
	 * options that its sources were compiled with. */
	if (!sibling_calls && line->compiles && line->instrument >= 0)
		add(ret, "-fno-optimize-sibling-calls");
	if (clang && placement == IP_PLACEMENT_INSTRUMENT)
		clang_instrument(line, ret);
	else if (clang)
		clang_fentry(line, ret);
	else if (placement == IP_PLACEMENT_INSTRUMENT)
		return gcc_instrument(line, real, ret);
	else
		return gcc_marked(placement, line, real, ret);
	return 0;
}
