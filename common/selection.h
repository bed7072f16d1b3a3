/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The selection language of -f: which probes a person means.
 *
 *   GLOB,...      functions whose demangled name (with or without its argument list),
 *                 base name or linker name matches the shell glob
 *   !GLOB         taken away from what the items before and after it select;
 *                 a selection of nothing but ! items starts from everything
 *   file:GLOB     by source file: the whole path or its last component
 *   lib:GLOB      by module: the whole path or its last component
 *   @NAME         the items of a named selection; '!@NAME' takes them away. Who knows names says so
 *                 by ip_selection_set_finder()
 *   @FILE         as a whole argument: read the items from FILE, one a line or comma-separated,
 *                 '#' at the start of a line or behind white space starts a comment. Where FILE
 *                 could be a NAME (no '/' and the like in it) it is the named selection, if there
 *                 is one, and the file only if there is none; where there are both it is an error,
 *                 and @./FILE means the file
 *
 * A glob without '(' is matched against names without arguments. '*' matches "::" and '/', too;
 * `foo` is not ns::foo, `*::foo` is. A backslash takes a character's meaning away: operator\[\].
 * Commas inside (), <> and [] do not separate: f(int, char) and map<int,int>::* are one item. '!'
 * works on every form (!file:..., !lib:...). Suffixes that compilers add (.isra.0, .part.1,
 * .constprop.2, .cold, .lto_priv.3, .llvm.123) and ABI tags ([abi:cxx11]) do not count. NULL or ""
 * selects everything.
 */
#ifndef IP_SELECTION_H
#define IP_SELECTION_H

#include <stdbool.h>
#include <stddef.h>

struct ip_selection;

/* Finds a named selection: 1, *ret_text (malloc'ed) is what -f would take for it; 0: there is none
 * of that name; -1 with an error. */
typedef int ip_selection_finder(void *context, const char *name, char **ret_text);

/* For the whole process; NULL: no names are known. Returns the finder before it, and its context in
 * *ret_context where that is not NULL. */
ip_selection_finder *ip_selection_set_finder(ip_selection_finder *finder, void *context,
					     void **ret_context);

/* Whether text[n] can be the name of a selection: letters, digits, '_', '-', '.', at most 64, a
 * letter or digit first. */
bool ip_selection_is_name(const char *text, size_t n);

/* 0, or -1 with an error naming the item (empty item, unreadable file, unknown prefix...). */
int ip_selection_parse(const char *text, struct ip_selection **ret);
/* The same, where no file may be opened: @FILE is an error. For texts that somebody else sent or
 * wrote. */
int ip_selection_parse_names(const char *text, struct ip_selection **ret);
void ip_selection_destroy(struct ip_selection *selection);

/* linker_name is never NULL; file and module may be NULL (then file:/lib: items do not match).
 * Demangles only where an item needs it. */
bool ip_selection_match(const struct ip_selection *selection, const char *linker_name,
			const char *file, const char *module);

/* Whether it consists of nothing but ! items. */
bool ip_selection_only_takes_away(const struct ip_selection *selection);

/* The items as one text that ip_selection_parse() reads to the same effect without opening a
 * file (malloc'ed; "" for all). NULL, with an error, where memory ran out. */
char *ip_selection_text(const struct ip_selection *selection);

bool ip_selection_is_all(const struct ip_selection *selection);

/* The items that select and have matched nothing in all calls of ip_selection_match() so far:
 * misspelt, most likely. "a, lib:b", malloc'ed; NULL: none (or no memory). */
char *ip_selection_unused(const struct ip_selection *selection);

/* For "nothing matched": the up to three names among names[n] (demangled base names) that are
 * nearest (edit distance, case folded) to the selection's first positive item, as "a, b, c"
 * (malloc'ed, "" where none is near). */
char *ip_selection_nearest(const struct ip_selection *selection, const char *const *linker_names,
			   size_t n);

/* Demangled name by libiberty (C++, Rust, D), malloc'ed; a plain copy where it is not mangled.
 * Compiler suffixes are dropped first, but that of a part is told: "name [part]". with_args:
 * keep the argument list. */
char *ip_demangle(const char *linker_name, bool with_args);

/* Length of name without the compiler's suffixes. */
size_t ip_base_name_length(const char *linker_name);

/*
 * What a function is to the one that it has its name from: NULL: that one itself; "part": a piece
 * that the compiler has split off, which that one calls to go on (.part of gcc, .cold.1 of clang,
 * which is a function there); else the first of the suffixes ("isra", "constprop"...), a copy of
 * it.
 */
const char *ip_clone_kind(const char *linker_name);
bool ip_name_is_part(const char *linker_name);

#endif
