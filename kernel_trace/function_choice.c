/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares names of the kernel's functions with patterns.
 */
#include "kernel_trace/function_choice.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/selection/selection.h"
#include "common/trace/kernel_format.h"

#define TOLD	     5u /* names in a line */
#define SYMBOLS_MOST (256u << 20)

/* What the kernel calls places in its list that are no functions any more. */
#define INVALID "__ftrace_invalid_address__"

struct found {
	const char *name, *module; /* module "": the kernel itself */
};

struct list {
	struct found *items;
	size_t n;
};

/* Names in a text: "a, b and 3 more". */
struct told {
	char text[256];
	size_t n;
};

static void tell(struct told *t, const char *name)
{
	const size_t used = strlen(t->text);

	if (t->n++ < TOLD)
		snprintf(t->text + used, sizeof(t->text) - used, "%s%s", used ? ", " : "", name);
}

static void tell_rest(struct told *t)
{
	const size_t used = strlen(t->text);

	if (t->n > TOLD)
		snprintf(t->text + used, sizeof(t->text) - used, " and %zu more", t->n - TOLD);
}

/* Takes a line "name" or "name [module]" that is selected. Returns 0, or -1 with an error. */
static int take(struct list *list, const struct ip_selection *selection, char *line)
{
	struct found f = {.name = line, .module = ""};
	char *space = strchr(line, ' ');

	if (space) {
		*space = '\0';
		if (space[1] == '[') {
			f.module = space + 2;
			space[2 + strcspn(space + 2, "]")] = '\0';
		}
	}
	if (!*f.name || strlen(f.name) >= IP_KERNEL_NAME_MAX ||
	    strlen(f.module) >= IP_KERNEL_NAME_MAX || !strncmp(f.name, INVALID, strlen(INVALID)) ||
	    !ip_selection_match(selection, f.name, NULL, *f.module ? f.module : NULL))
		return 0;
	if (ip_array_grow(&list->items, list->n, sizeof(f)) < 0)
		return -1;
	list->items[list->n++] = f;
	return 0;
}

static int by_name(const void *left, const void *right)
{
	const struct found *a = left, *b = right;
	const int order = strcmp(a->name, b->name);

	return order ? order : strcmp(a->module, b->module);
}

static int read_list(const struct ip_selection *selection, char *text, struct list *ret)
{
	for (char *line = text, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (take(ret, selection, line) < 0)
			return -1;
	}
	if (ret->n)
		qsort(ret->items, ret->n, sizeof(*ret->items), by_name);
	return 0;
}

/* Whether another function has the name, in the same module or in the kernel itself. */
static bool is_ambiguous(const struct list *list, size_t i)
{
	return (i && !by_name(&list->items[i - 1], &list->items[i])) ||
	       (i + 1 < list->n && !by_name(&list->items[i], &list->items[i + 1]));
}

static int choose(const struct list *list, struct ip_kernel_functions *ret, struct told *ambiguous,
		  size_t *ret_all)
{
	*ret_all = 0;
	for (size_t i = 0; i < list->n; i++) {
		const struct found *f = &list->items[i];

		if (is_ambiguous(list, i)) {
			if (!i || by_name(&list->items[i - 1], f))
				tell(ambiguous, f->name);
			continue;
		}
		if (++*ret_all <= IP_KERNEL_FUNCTIONS_MAX &&
		    ip_kernel_functions_add(ret, f->name, f->module) < 0)
			return -1;
	}
	tell_rest(ambiguous);
	return 0;
}

/* Of the kernel's symbols those of code that the items select: "ADDRESS T name", then tab and
 * [module]. */
static void find_symbols(const struct ip_selection *selection, const char *symbols,
			 struct told *ret)
{
	char name[IP_KERNEL_NAME_MAX];

	for (const char *line = symbols; *line;
	     line += strcspn(line, "\n"), line += *line == '\n') {
		const char *type = line + strcspn(line, " \n");
		size_t n;

		if (*type != ' ' || !strchr("tTwW", type[1]) || !type[1] || type[2] != ' ')
			continue;
		n = strcspn(type + 3, " \t\n");
		if (n >= sizeof(name))
			continue;
		memcpy(name, type + 3, n);
		name[n] = '\0';
		if (ip_selection_match(selection, name, NULL, NULL))
			tell(ret, name);
	}
	tell_rest(ret);
}

/* The names of the list, whose lines have been cut. all: bytes of it. */
static const char **all_names(const char *text, size_t all, size_t *ret_n)
{
	const char **names = NULL;

	*ret_n = 0;
	for (const char *at = text; at < text + all; at += strlen(at) + 1) {
		if (ip_array_grow(&names, *ret_n, sizeof(*names)) < 0)
			break;
		names[(*ret_n)++] = at;
	}
	return names;
}

/* Why items have selected nothing. Returns the text, malloc'ed; NULL: all have selected something,
 * or memory ran out. */
static char *why_unused(const struct ip_selection *selection, const char *text, size_t size,
			const char *path)
{
	_cleanup_free_ char *unused = ip_selection_unused(selection), *missing = NULL,
			    *symbols = NULL;
	_cleanup_free_ const char **names = NULL;
	struct ip_selection *again = NULL;
	struct told closed = {0};
	char *said = NULL;
	size_t n, bytes;

	if (!unused)
		return NULL;
	names = all_names(text, size, &n);
	if (ip_selection_parse(unused, &again) < 0)
		again = NULL;
	/* of items that take away alone it would mean all functions */
	if (again && !ip_selection_only_takes_away(again) &&
	    ip_read_text(path, SYMBOLS_MOST, &symbols, &bytes) == 0)
		find_symbols(again, symbols, &closed);
	missing = ip_selection_unused_nearest(again ? again : selection, names, names ? n : 0);
	if (asprintf(&said, "%s%s%s%s%s", closed.n ? closed.text : "",
		     closed.n ? " cannot be traced (notrace, or written in assembler)" : "",
		     closed.n && missing ? "; " : "", missing ? "no function is called " : "",
		     missing ? missing : "") < 0)
		said = NULL;
	ip_selection_destroy(again);
	return said;
}

static int check(const struct ip_kernel_functions *chosen, size_t all, const char *patterns,
		 const char *note)
{
	if (all > IP_KERNEL_FUNCTIONS_MAX)
		return ip_error("--kernel-functions %s: these are %zu functions of the kernel, and "
				"at most %u can be recorded at once: choose fewer",
				patterns, all, IP_KERNEL_FUNCTIONS_MAX);
	if (!chosen->n)
		return ip_error("--kernel-functions %s: no function of the kernel can be recorded: "
				"%s",
				patterns, note ? note : "none is left");
	return 0;
}

int ip_function_choice_make(const char *patterns, char *available, const char *symbols,
			    struct ip_kernel_functions *ret, char **ret_note)
{
	struct ip_selection *selection;
	const size_t size = strlen(available);
	struct list list = {0};
	struct told ambiguous = {0};
	_cleanup_free_ char *why = NULL;
	size_t all = 0;
	int done;

	*ret = (struct ip_kernel_functions){0};
	*ret_note = NULL;
	if (ip_selection_parse(patterns, &selection) < 0)
		return -1;
	done = read_list(selection, available, &list);
	if (done == 0)
		done = choose(&list, ret, &ambiguous, &all);
	if (done == 0) {
		why = why_unused(selection, available, size, symbols);
		if ((ambiguous.n || why) &&
		    asprintf(ret_note, "%s%s%s%s",
			     ambiguous.n ? "several functions are called " : "", ambiguous.text,
			     ambiguous.n && why ? "; " : "", why ? why : "") < 0) {
			*ret_note = NULL;
			done = ip_error("out of memory");
		}
	}
	if (done == 0)
		done = check(ret, all, patterns, *ret_note);
	ip_selection_destroy(selection);
	free(list.items);
	return done;
}
