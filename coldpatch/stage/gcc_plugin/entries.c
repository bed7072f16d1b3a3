/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin of gcc: asks for the marks of entries and returns (what -p does) when the compiler has
 * settled its options.
 *
 * gcc that is given -p turns -fipa-ra off, by which callers keep values in registers that a
 * function does not use. For calls of mcount that is right. iprobe's sites are no calls, and its
 * hooks preserve every register; so the program shall be the one that gcc makes without -p.
 *
 * It needs no headers of gcc's, which differ from version to version: it finds the option's
 * variable by the option's name, through two functions that cc1 has for that, and the event by its
 * name. iprobe-cc has looked whether they are there (coldpatch/cc/compiler_parts.c); without them
 * it passes -p. What is missing all the same ends the compilation: a program without marks must not
 * come out.
 *
 * GCC Internals, "Plugins".
 */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MOST_EVENTS 64

/* gcc loads only plugins that say so. The Apache License 2.0 is compatible with GPL 3. */
extern int plugin_is_GPL_compatible;
int plugin_is_GPL_compatible;

/* struct plugin_name_args begins with this */
struct plugin_name {
	char *base_name;
};

/* of cc1 */
extern char global_options[];		/* struct gcc_options */
extern const unsigned cl_options_count; /* options that there are */
extern const char **plugin_event_name;
extern void register_callback(const char *plugin, int event, void (*callback)(void *, void *),
			      void *data);
extern size_t find_opt(const char *text, unsigned languages) __asm__("_Z8find_optPKcj");
extern void *option_flag_var(int option,
			     void *options) __asm__("_Z15option_flag_variP11gcc_options");

/* of cc1, if it has them */
extern void *targetm[] __attribute__((weak)); /* struct gcc_target */
extern bool default_keep_leaf(void) __asm__("_Z31default_keep_leaf_when_profiledv")
	__attribute__((weak));

extern int plugin_init(struct plugin_name *name, void *version);

/* The variable of -p in the options; NULL: there is none. */
static char *profile_flag(void)
{
	size_t option = find_opt("p", UINT32_MAX);

	return option < cl_options_count ? option_flag_var((int)option, global_options) : NULL;
}

static bool keep_leaf(void)
{
	return true;
}

/*
 * A function that calls nothing keeps its locals below the stack pointer, where the ABI leaves it
 * 128 bytes. With -p gcc takes it for one that makes a call, unless the target says otherwise
 * (TARGET_KEEP_LEAF_WHEN_PROFILED). Here it may: nothing lies there yet at the first instruction,
 * and nothing any more at the last one.
 *
 * The target's table has one entry that is gcc's default for this question. Where it has none, or
 * several, such functions keep their locals above the stack pointer, as with -p.
 */
static void keep_leaves(void)
{
	const ElfW(Sym) *symbol = NULL;
	size_t at = 0, found = 0;
	Dl_info info;

	if (!targetm || !default_keep_leaf ||
	    !dladdr1(targetm, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    info.dli_saddr != targetm)
		return;
	for (size_t i = 0; i < symbol->st_size / sizeof(*targetm); i++)
		if (targetm[i] == (void *)(uintptr_t)default_keep_leaf) {
			at = i;
			found++;
		}
	if (found == 1)
		targetm[at] = (void *)(uintptr_t)keep_leaf;
}

static void at_start_of_unit(void *event, void *data)
{
	(void)event;
	(void)data;
	/* an int or a signed char: the lowest byte is enough for both */
	*profile_flag() = 1;
	keep_leaves();
}

int plugin_init(struct plugin_name *name, void *version)
{
	(void)version;
	if (!profile_flag())
		return 1;
	for (int i = 0; i < MOST_EVENTS && plugin_event_name[i]; i++)
		if (!strcmp(plugin_event_name[i], "PLUGIN_START_UNIT")) {
			register_callback(name->base_name, i, at_start_of_unit, NULL);
			return 0;
		}
	return 1;
}
