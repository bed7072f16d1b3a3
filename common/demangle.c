// SPDX-License-Identifier: Apache-2.0
/*
 * Function names in the form in which the programmer wrote them.
 *
 * Names come from files that are not trusted. A mangled name of a few hundred bytes can stand for
 * terabytes, since substitutions double it at each step. libiberty's callback interface keeps the
 * tree on the stack and passes the text on in pieces. So longjmp stops it at DEMANGLED_MAX, and the
 * mangled name is shown instead. libiberty's D demangler has no such interface. There the number of
 * back references is limited, since they cause the doubling. libiberty's limit on recursion stays
 * on: C++ names of more than 1024 bytes are shown as they are.
 */
#include "common/selection/selection.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/selection/selection_item.h"

#define MANGLED_MAX    16384
#define DEMANGLED_MAX  32768
#define D_MAX	       4096
#define D_BACKREFS_MAX 12

/* Suffixes that compilers append to a name, each with or without a number of its own. */
static const char *const suffixes[] = {"isra", "part",	     "constprop", "cold",      "lto_priv",
				       "llvm", "localalias", "clone",	  "warm_split"};

/* Length of name[0..n) without its last suffix; n if it has none. *ret_kind: which suffix it is. */
static size_t without_suffix(const char *name, size_t n, const char **ret_kind)
{
	size_t end = n, start;

	while (end > 0 && isdigit((unsigned char)name[end - 1]))
		end--;
	if (end == n)
		end = n; /* no number: the word ends the name */
	else if (end > 0 && name[end - 1] == '.')
		end--;
	else
		return n;
	start = end;
	while (start > 0 && (isalpha((unsigned char)name[start - 1]) || name[start - 1] == '_'))
		start--;
	if (start < 2 || name[start - 1] != '.')
		return n;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (strlen(suffixes[i]) == end - start &&
		    !memcmp(suffixes[i], name + start, end - start)) {
			*ret_kind = suffixes[i];
			return start - 1;
		}
	return n;
}

size_t ip_base_name_length(const char *linker_name)
{
	size_t n = strlen(linker_name), shorter;
	const char *kind;

	while ((shorter = without_suffix(linker_name, n, &kind)) < n)
		n = shorter;
	return n;
}

const char *ip_clone_kind(const char *linker_name)
{
	size_t n = strlen(linker_name), shorter;
	const char *kind = NULL;

	while ((shorter = without_suffix(linker_name, n, &kind)) < n) {
		bool numbered = isdigit((unsigned char)linker_name[n - 1]);

		n = shorter;
		if (!strcmp(kind, "part") || (!strcmp(kind, "cold") && numbered))
			return "part";
	}
	return kind;
}

bool ip_name_is_part(const char *linker_name)
{
	const char *kind = ip_clone_kind(linker_name);

	return kind && !strcmp(kind, "part");
}

struct sink {
	jmp_buf too_long;
	size_t size;
	char text[DEMANGLED_MAX + 1];
};

static void take(const char *text, size_t size, void *opaque)
{
	struct sink *sink = opaque;

	if (size > DEMANGLED_MAX - sink->size)
		longjmp(sink->too_long, 1);
	memcpy(sink->text + sink->size, text, size);
	sink->size += size;
}

static char *demangle_by_callback(int (*demangle)(const char *, int, demangle_callbackref, void *),
				  const char *name, int options)
{
	struct sink *sink = malloc(sizeof(*sink));
	char *result = NULL;

	if (!sink)
		return NULL;
	sink->size = 0;
	if (!setjmp(sink->too_long) && demangle(name, options, take, sink) && sink->size) {
		sink->text[sink->size] = '\0';
		result = strdup(sink->text);
	}
	free(sink);
	return result;
}

/* D's demangler cannot leave out arguments. This function removes the last parenthesis, unless it
 * contains template arguments, "f!(int)". */
static void cut_d_arguments(char *name)
{
	char *p = strrchr(name, ')');
	int depth = 0;

	if (!p)
		return;
	for (; p >= name; p--) {
		depth += *p == ')';
		depth -= *p == '(';
		if (!depth)
			break;
	}
	if (p > name && p[-1] != '!')
		*p = '\0';
}

static char *demangle_d(const char *name, bool with_args)
{
	size_t backrefs = 0, n = strlen(name);
	char *demangled;

	for (const char *p = name; *p; p++)
		backrefs += *p == 'Q';
	if (n > D_MAX || backrefs > D_BACKREFS_MAX)
		return NULL;
	demangled = dlang_demangle(name, DMGL_NO_OPTS);
	if (demangled && !with_args)
		cut_d_arguments(demangled);
	return demangled;
}

size_t ip_plt_name_length(const char *name)
{
	const size_t n = strlen(name), suffix = strlen(IP_PLT_SUFFIX);

	return n > suffix && !strcmp(name + n - suffix, IP_PLT_SUFFIX) ? n - suffix : n;
}

bool ip_name_is_plain(const char *linker_name)
{
	return linker_name[0] != '_' && !linker_name[ip_base_name_length(linker_name)];
}

static char *demangle_own(const char *linker_name, bool with_args)
{
	size_t n = ip_base_name_length(linker_name);
	_cleanup_free_ char *base = strndup(linker_name, n);
	int options = with_args ? DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP : DMGL_NO_OPTS;
	char *result = NULL;

	if (!base)
		return NULL;
	if (n <= MANGLED_MAX && base[0] == '_') {
		if (base[1] == 'R' || base[1] == 'Z')
			result = demangle_by_callback(rust_demangle_callback, base, options);
		if (!result && base[1] == 'Z')
			result = demangle_by_callback(cplus_demangle_v3_callback, base, options);
		if (!result && base[1] == 'D')
			result = demangle_d(base, with_args);
	}
	if (!result)
		result = ip_steal_ptr(base);
	if (linker_name[n] && ip_name_is_part(linker_name)) {
		_cleanup_free_ char *whole = result;

		if (asprintf(&result, "%s [part]", whole) < 0)
			return NULL;
	}
	return result;
}

/* The suffix of a PLT is put behind the demangled name again. */
char *ip_demangle(const char *linker_name, bool with_args)
{
	const size_t n = ip_plt_name_length(linker_name);
	_cleanup_free_ char *own = NULL, *name = NULL;
	char *ret;

	if (!linker_name[n])
		return demangle_own(linker_name, with_args);
	own = strndup(linker_name, n);
	name = own ? demangle_own(own, with_args) : NULL;
	return name && asprintf(&ret, "%s%s", name, IP_PLT_SUFFIX) >= 0 ? ret : NULL;
}

char *ip_without_abi_tags(const char *name)
{
	char *copy, *out;

	if (!strstr(name, "[abi:"))
		return NULL;
	copy = out = malloc(strlen(name) + 1);
	if (!copy)
		return NULL;
	while (*name) {
		const char *end = strncmp(name, "[abi:", 5) ? NULL : strchr(name, ']');

		if (end)
			name = end + 1;
		else
			*out++ = *name++;
	}
	*out = '\0';
	return copy;
}
