/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The selection language of -f: which probes the user means.
 *
 *   GLOB,...      functions whose demangled name (with or without its argument list),
 *                 base name or linker name matches the shell glob
 *   !GLOB         takes these functions away from what the items before and after it select;
 *                 a selection that consists only of ! items starts from all functions
 *   file:GLOB     by source file: the whole path or its last component
 *   lib:GLOB      by module: the whole path or its last component
 *   @NAME         the items of a named selection; '!@NAME' takes them away. A program that knows
 *                 names registers them by ip_selection_set_finder()
 *   @FILE         as a whole argument: reads the items from FILE, one a line or comma-separated.
 *                 '#' at the start of a line or after white space starts a comment. FILE may also
 *                 be a possible NAME (without '/' and the like). Then it means the named selection
 *                 if there is one, and the file only if there is none. If both exist it is an
 *                 error, and @./FILE means the file
 *
 * A name may be written in its short form, too (common/names/short_name.h), as commands show it:
 * std::vector<int>::push_back, std::string::append, main::{lambda#1}::operator(). "<...>" and "<>"
 * mean "<*>": std::map<...>::find are all functions that are shown by that name. A glob without any
 * template arguments means all instances, too: std::map::find. std::map<int, K>::find is that one,
 * and f\<\> the instance that has no argument.
 *
 * A glob without '(' is matched against names without arguments. '*' also matches "::" and '/'.
 * `foo` does not match ns::foo, `*::foo` does. A backslash takes a character's special meaning
 * away: operator\[\]. Commas inside (), <> and [] do not separate: f(int, char) and map<int,int>::*
 * are one item. '!' works with every form (!file:..., !lib:...). Suffixes that compilers add
 * (.isra.0, .part.1, .constprop.2, .cold, .lto_priv.3, .llvm.123) and ABI tags ([abi:cxx11]) are
 * ignored, and so is the @plt of a function of another module that this one calls (--plt): foo@plt
 * means such functions alone. NULL or "" selects all functions.
 */
#ifndef IP_SELECTION_H
#define IP_SELECTION_H

#include <stdbool.h>
#include <stddef.h>

struct ip_selection;

/* Finds a named selection. Returns 1: *ret_text (malloc'ed) is a text as for -f; 0: no selection
 * has this name; -1 with an error. */
typedef int ip_selection_finder(void *context, const char *name, char **ret_text);

/* Sets the finder for the whole process; NULL: no names are known. Returns the finder before it,
 * and its context in *ret_context if that is not NULL. */
ip_selection_finder *ip_selection_set_finder(ip_selection_finder *finder, void *context,
					     void **ret_context);

/* Whether text[n] can be the name of a selection: letters, digits, '_', '-', '.', at most 64; it
 * begins with a letter or a digit. */
bool ip_selection_is_name(const char *text, size_t n);

/* Returns 0, or -1 with an error that names the item (empty item, unreadable file, unknown
 * prefix...). */
int ip_selection_parse(const char *text, struct ip_selection **ret);
/* The same, but may open no file: @FILE is an error. For texts that come from another user. */
int ip_selection_parse_names(const char *text, struct ip_selection **ret);
/* Makes *ret a text that takes away all that the items of text mean: "a,b" is "!a,!b" (malloc'ed).
 * text: without ! items, and no @FILE. Returns 0, or -1 with an error. */
int ip_selection_away(const char *text, char **ret);
void ip_selection_destroy(struct ip_selection *selection);

/* linker_name is never NULL. file and module may be NULL; then file: and lib: items do not match.
 * Demangles only if an item needs it. */
bool ip_selection_match(const struct ip_selection *selection, const char *linker_name,
			const char *file, const char *module);

/* Whether the selection consists only of ! items. */
bool ip_selection_only_takes_away(const struct ip_selection *selection);

/* The items as one text (malloc'ed; "" for all functions). ip_selection_parse() reads it with the
 * same effect, without opening a file. NULL with an error if memory ran out. */
char *ip_selection_text(const struct ip_selection *selection);

/* The item that means a function by its linker name, or by so many bytes of it: what would mean
 * something in a selection has a backslash in front. For names that a program or a trace has
 * chosen: one of them may be "@/etc/shadow", or "*". malloc'ed; NULL with an error. */
char *ip_selection_quote(const char *name, size_t length);

bool ip_selection_is_all(const struct ip_selection *selection);

/* Tells that only some modules can be compared: a lib: item that matches nothing is no mistake
 * then. */
void ip_selection_modules_unknown(struct ip_selection *selection);

/* The items that have matched nothing in all calls of ip_selection_match() so far. They are most
 * likely misspelt. What named selections take away is left out, since these are written for many
 * programs. "a, lib:b, !c", malloc'ed; NULL: none (or no memory). */
char *ip_selection_unused(const struct ip_selection *selection);
/* The same for a person who is to mend it: "aa, lib:b (nearest: a)". */
char *ip_selection_unused_nearest(const struct ip_selection *selection,
				  const char *const *linker_names, size_t n);

/* Returns up to three of the names that are nearest to the wanted one, by edit distance with case
 * folded. As "a, b, c" (malloc'ed, "" if none is near; NULL: no memory). */
char *ip_nearest_names(const char *wanted, const char *const *names, size_t n);

/* For the message "nothing matched": up to three of the names (demangled base names) that are
 * nearest to the first item that has matched nothing, by edit distance with case folded. Items
 * that select go before those that take away. Files and modules are those that were compared
 * before, as "file:a.c"; a regular expression comes as the glob that means the same. As "a, b, c"
 * (malloc'ed, "" if none is near). */
char *ip_selection_nearest(const struct ip_selection *selection, const char *const *linker_names,
			   size_t n);

/* Demangles a name with libiberty (C++, Rust, D). Returns a malloc'ed text; a plain copy if the
 * name is not mangled. Compiler suffixes are dropped first, but a part is shown: "name [part]".
 * with_args: keeps the argument list. */
char *ip_demangle(const char *linker_name, bool with_args);
/* Returns whether ip_demangle() returns a copy of the name, as of most names of C. */
bool ip_name_is_plain(const char *linker_name);

/* What the name of a function of a module's PLT ends with (hotpatcher/process/plt.h), as objdump
 * and gdb name it. */
#define IP_PLT_SUFFIX "@plt"

/* Length of name without IP_PLT_SUFFIX; all of it if it does not end so. */
size_t ip_plt_name_length(const char *name);

/* Length of name without the compiler's suffixes. */
size_t ip_base_name_length(const char *linker_name);

/*
 * What a function is in relation to the function that its name comes from. NULL: it is that
 * function. "part": a piece that the compiler has split off; the function calls it to continue
 * (.part of gcc; .cold.1 of clang, which is a function there). Otherwise the first of the suffixes
 * ("isra", "constprop"...): a copy of that function.
 */
const char *ip_clone_kind(const char *linker_name);
bool ip_name_is_part(const char *linker_name);

#endif
