// SPDX-License-Identifier: Apache-2.0
/*
 * Splitting the text of a selection into its items.
 *
 * A comma separates items, but not inside (), <> and []. So a C++ name with arguments is one item.
 * The brackets of operator<, operator-> and the like do not open anything. A backslash takes the
 * special meaning of the next character away, here and in fnmatch().
 */
#include "common/selection/selection.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/selection/selection_item.h"

#define SELECTION_FILE_MAX (16u << 20)
#define NAMES_DEPTH_MAX	   8u /* nesting of named selections */
#define NAME_LENGTH_MAX	   64u
/* items that named selections may expand to: they may name each other many times */
#define NAMED_ITEMS_MAX 100000u

/* Finds named selections, in this process. */
static ip_selection_finder *finder;
static void *finder_context;

ip_selection_finder *ip_selection_set_finder(ip_selection_finder *find, void *context,
					     void **ret_context)
{
	ip_selection_finder *before = finder;

	if (ret_context)
		*ret_context = finder_context;
	finder = find;
	finder_context = context;
	return before;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Length of "operator" and the symbol behind it, if one begins at p; else 0. */
static size_t operator_length(const char *text, const char *p)
{
	static const char *const symbols[] = {"<=>", "<<=", ">>=", "->*", "<<", ">>", "<=",
					      ">=",  "->",  "()",  "[]",  "<",	">",  ","};

	if (strncmp(p, "operator", 8) != 0 || (p > text && is_word(p[-1])))
		return 0;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		if (!strncmp(p + 8, symbols[i], strlen(symbols[i])))
			return 8 + strlen(symbols[i]);
	return 0;
}

bool ip_selection_is_name(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_word(text[i]) && (!i || (text[i] != '-' && text[i] != '.')))
			return false;
	return n && n <= NAME_LENGTH_MAX && text[0] != '_';
}

/* The end of the item that begins at p: its comma, or the text's end. *ret_open: a bracket that was
 * open at a comma. */
static const char *item_end(const char *p, char *ret_open)
{
	const char *text = p;
	char stack[64];
	size_t depth = 0;
	char open_at_comma = 0;

	for (; *p; p++) {
		size_t skip = operator_length(text, p);

		if (skip) {
			p += skip - 1;
		} else if (*p == '\\' && p[1]) {
			p++;
		} else if (*p == '(' || *p == '<' || *p == '[') {
			if (depth < sizeof(stack))
				stack[depth] = *p;
			depth++;
		} else if (*p == ')' || *p == '>' || *p == ']') {
			if (depth)
				depth--;
			if (!depth)
				open_at_comma = 0;
		} else if (*p == ',') {
			if (!depth)
				break;
			if (!open_at_comma)
				open_at_comma = stack[0];
		}
	}
	*ret_open = depth ? open_at_comma : 0;
	return p;
}

int ip_selection_away(const char *text, char **ret)
{
	struct ip_selection *selection;
	char *out = malloc(2 * strlen(text) + 2), *to = out;
	char open;

	*ret = NULL;
	if (!out)
		return ip_error("out of memory");
	for (const char *p = text; *text;) {
		const char *end = item_end(p, &open);

		*to++ = '!';
		to = mempcpy(to, p, (size_t)(end - p));
		if (*p == '!') {
			free(out);
			return ip_error("%s: what is taken away has no !", text);
		}
		if (!*end)
			break;
		*to++ = ',';
		p = end + 1;
	}
	*to = 0;
	if (ip_selection_parse(*text ? out : ",", &selection) < 0) {
		free(out);
		return -1;
	}
	ip_selection_destroy(selection);
	*ret = out;
	return 0;
}

/* Length of "word:" at the start of an item, without the colon; "word::" does not count. 0: there
 * is none. */
static size_t prefix_length(const char *item)
{
	size_t n = 0;

	while (is_word(item[n]))
		n++;
	return n && item[n] == ':' && item[n + 1] != ':' ? n : 0;
}

static int append(struct ip_selection *selection, struct ip_selection_item item)
{
	size_t n = selection->nitems;

	/* The capacity is 1, 2, 4...: an array whose size is a power of two is full. */
	if ((n & (n - 1)) == 0) {
		struct ip_selection_item *items =
			reallocarray(selection->items, n ? 2 * n : 1, sizeof(*items));

		if (!items)
			return ip_error("out of memory");
		selection->items = items;
	}
	selection->items[selection->nitems++] = item;
	selection->npositive += !item.negative;
	return 0;
}

static int add_items(struct ip_selection *selection, const char *text, bool from_file,
		     unsigned depth);

/* Adds the items of a named selection, as if they stood there. Returns 1; 0: no selection has this
 * name; -1 with an error. */
static int add_named(struct ip_selection *selection, const char *name, bool negative,
		     unsigned depth)
{
	struct ip_selection named = {0};
	_cleanup_free_ char *text = NULL;
	int ret = finder ? finder(finder_context, name, &text) : 0;

	if (ret <= 0)
		return ret;
	if (depth >= NAMES_DEPTH_MAX)
		return ip_error(
			"selection: '@%s' leads back to itself, or through more than %u others",
			name, NAMES_DEPTH_MAX);
	ret = add_items(&named, text, false, depth + 1);
	for (size_t i = 0; i < named.nitems; i++) {
		struct ip_selection_item *item = &named.items[i];

		if (ret == 0 && negative && item->negative)
			ret = ip_error("selection: '!@%s': that selection takes something away "
				       "itself, so that it cannot be taken away",
				       name);
		item->negative |= negative;
		item->from_name = true;
		if (ret == 0 && selection->nitems >= NAMED_ITEMS_MAX)
			ret = ip_error("selection: '@%s' makes it more than %u items", name,
				       NAMED_ITEMS_MAX);
		if (ret == 0)
			ret = append(selection, *item);
		if (ret < 0)
			free(item->glob);
	}
	free(named.items);
	return ret < 0 ? -1 : 1;
}

/* Adds an item that begins with '@'. */
static int add_reference(struct ip_selection *selection, const char *text, const char *name,
			 bool negative, unsigned depth)
{
	int ret = ip_selection_is_name(name, strlen(name))
			  ? add_named(selection, name, negative, depth)
			  : 0;

	if (ret)
		return ret < 0 ? -1 : 0;
	if (finder && ip_selection_is_name(name, strlen(name)))
		return ip_error("selection: '%s': no selection of that name in probes.d, and @FILE "
				"must be the whole selection",
				text);
	return ip_error("selection: '%s': @FILE must be the whole selection", text);
}

/* How many bytes at p are one part of a name: a character behind a backslash, an operator, or one
 * byte. */
static size_t part_length(const char *glob, const char *p)
{
	const size_t op = operator_length(glob, p);

	return op ? op : *p == '\\' && p[1] ? 2 : 1;
}

/* Whether template arguments stand in the glob. */
static bool has_list(const char *glob)
{
	for (const char *p = glob; *p; p += part_length(glob, p))
		if (*p == '<' || *p == '>')
			return true;
	return false;
}

/* Returns the glob with "<*>" for "<...>", as short names have it, and for "<>"; malloc'ed, NULL
 * where memory ran out. */
static char *open_elided(const char *glob)
{
	char *text = malloc(strlen(glob) * 3 / 2 + 2), *out = text;

	for (const char *p = glob; text && *p;) {
		const size_t elided = !strncmp(p, "<...>", 5) ? 5
				      : !strncmp(p, "<>", 2)  ? 2
							      : 0,
			     n = elided ? elided : part_length(glob, p);

		memcpy(out, elided ? "<*>" : p, elided ? 3 : n);
		out += elided ? 3 : n;
		p += n;
	}
	if (text)
		*out = '\0';
	return text;
}

static int add_item(struct ip_selection *selection, const char *start, size_t n, unsigned depth)
{
	struct ip_selection_item item = {0};
	_cleanup_free_ char *text = NULL;
	const char *glob;
	size_t prefix;

	while (n && isspace((unsigned char)*start))
		start++, n--;
	while (n && isspace((unsigned char)start[n - 1]))
		n--;
	text = strndup(start, n);
	if (!text)
		return ip_error("out of memory");
	glob = text;
	if (*glob == '!') {
		item.negative = true;
		for (glob++; isspace((unsigned char)*glob);)
			glob++;
	}
	prefix = prefix_length(glob);
	if (prefix == 4 && !memcmp(glob, "file", 4))
		item.kind = IP_SELECT_FILE;
	else if (prefix == 3 && !memcmp(glob, "lib", 3))
		item.kind = IP_SELECT_LIB;
	else if (prefix)
		return ip_error("selection: unknown prefix in '%s'; there are file: and lib:",
				text);
	if (prefix)
		glob += prefix + 1;
	if (*glob == '@')
		return add_reference(selection, text, prefix ? "" : glob + 1, item.negative, depth);
	if (!*glob)
		return ip_error(
			"selection: empty item%s%s%s; write a name or a glob between commas",
			*text ? " '" : "", text, *text ? "'" : "");

	item.has_paren = strchr(glob, '(') != NULL;
	item.has_list = has_list(glob);
	item.glob = item.kind == IP_SELECT_FUNCTION ? open_elided(glob) : strdup(glob);
	if (item.glob && append(selection, item) == 0)
		return 0;
	free(item.glob);
	return ip_error("out of memory");
}

/* Adds the items of one line or argument. A file's line may be empty and may end in a comma. */
static int add_items(struct ip_selection *selection, const char *text, bool from_file,
		     unsigned depth)
{
	const char *p = text;

	for (;;) {
		char open;
		const char *end = item_end(p, &open);

		if (open)
			return ip_error("selection: '%s' has a comma behind a '%c' that is not "
					"closed; close it, or write '\\%c'",
					p, open, open);
		if (from_file && !*end && p[strspn(p, " \t\r\v\f")] == '\0')
			return 0;
		if (add_item(selection, p, (size_t)(end - p), depth) < 0)
			return -1;
		if (!*end)
			return 0;
		p = end + 1;
	}
}

/* '#' starts a comment at the start of a line and after white space. Inside a word it is a part of
 * the name: Rust has {closure#0}. */
static void cut_comment(char *line)
{
	for (char *p = line; *p; p++) {
		if (*p == '#' && (p == line || isspace((unsigned char)p[-1]))) {
			*p = '\0';
			return;
		}
	}
}

static int add_file(struct ip_selection *selection, const char *path)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	unsigned number = 0;

	if (!*path)
		return ip_error("selection: '@' needs the name of a file behind it");
	if (ip_read_text(path, SELECTION_FILE_MAX, &text, &size) < 0)
		return ip_error_prefix("selection");
	if (strlen(text) != size)
		return ip_error("selection: %s: not a text file", path);
	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		cut_comment(line);
		if (add_items(selection, line, true, 0) < 0)
			return ip_error_prefix("%s:%u", path, number);
	}
	if (!selection->nitems)
		return ip_error("selection: %s: no item in it; write one a line", path);
	return 0;
}

/* Adds '@' and the text behind it, as the whole argument: a named selection, or a file. */
static int add_name_or_file(struct ip_selection *selection, const char *name)
{
	int ret;

	if (!ip_selection_is_name(name, strlen(name)))
		return add_file(selection, name);
	ret = add_named(selection, name, false, 0);
	if (ret < 0)
		return -1;
	if (!ret && finder && ip_access(name, F_OK) < 0)
		return ip_error("selection: '@%s': no selection of that name in probes.d, and no "
				"file of that name here",
				name);
	if (!ret)
		return add_file(selection, name);
	if (ip_access(name, F_OK) == 0)
		return ip_error("selection: '@%s' is a named selection and a file here, too: write "
				"@./%s for the file, or give the file another name",
				name, name);
	return 0;
}

/* Whether the text begins with '@' and is not a list of items that begins with '@NAME'. */
static bool is_one_reference(const char *text)
{
	const char *comma = *text == '@' ? strchr(text, ',') : NULL;

	return *text == '@' && !(comma && ip_selection_is_name(text + 1, comma - text - 1));
}

static int parse(const char *text, bool files, struct ip_selection **ret)
{
	struct ip_selection *selection = calloc(1, sizeof(*selection));
	int r = 0;

	if (!selection)
		return ip_error("out of memory");
	if (text && *text)
		r = files && is_one_reference(text) ? add_name_or_file(selection, text + 1)
						    : add_items(selection, text, false, 0);
	if (r < 0) {
		ip_selection_destroy(selection);
		return -1;
	}
	*ret = selection;
	return 0;
}

int ip_selection_parse(const char *text, struct ip_selection **ret)
{
	return parse(text, true, ret);
}

int ip_selection_parse_names(const char *text, struct ip_selection **ret)
{
	return parse(text, false, ret);
}
