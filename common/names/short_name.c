// SPDX-License-Identifier: Apache-2.0
/*
 * Short forms of names. Two passes: the first leaves out what is the same in all names, and the
 * second elides template arguments until the rest is short enough.
 *
 * Names come from files that are not trusted, and may have any length that ip_demangle() lets
 * through. Both passes are linear in it, but for the comparison of arguments, and nest NEST_MAX
 * deep at most. What a pass writes is never longer than what it reads, so one buffer of that size
 * is enough.
 */
#include "common/names/short_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

#define NEST_MAX 64
#define ARGS_MAX 16 /* lists with more arguments keep them all */
#define NONE	 UINT32_MAX

#define PATH_MAX_SEEN 256
#define TAG_MAX	      64 /* of "[abi:...]" */

struct pass {
	const char *name;
	uint32_t *partner; /* of each bracket: the index of the other one; NONE: it is none */
	char *out;
	size_t size; /* of what is written */
	unsigned depth_max;
	bool drops_lists; /* of template arguments, with their brackets */
	/* behind an alias such as std::string: where it ends in out, and what it stands for */
	size_t alias_end;
	const char *alias, *aliased;
};

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* The length of the symbol behind a word "operator" that ends at p: "<", "<<=", "()"...; 0: a
 * word follows, as in "operator new" or "operator int". */
static size_t symbol_length(const char *p)
{
	static const char *const symbols[] = {"<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=",
					      "->",  "()",  "[]",  "<",	  ">",	"-",  0};

	for (size_t i = 0; symbols[i]; i++)
		if (!strncmp(p, symbols[i], strlen(symbols[i])))
			return strlen(symbols[i]);
	return 0;
}

/* The length of the word at p, up to end; with its symbol, where it is "operator". *ret_symbol is
 * the symbol's part of it. */
static size_t word_length(const char *p, const char *end, size_t *ret_symbol)
{
	size_t n = 0;

	*ret_symbol = 0;
	while (p + n < end && in_word(p[n]))
		n++;
	if (n != 8 || strncmp(p, "operator", 8))
		return n;
	*ret_symbol = symbol_length(p + n);
	if (*ret_symbol > (size_t)(end - p) - n)
		*ret_symbol = 0;
	return n + *ret_symbol;
}

/* Finds the partner of each bracket. A '<' that a ')' closes was a comparison; a '>' without a '<'
 * is one, or an arrow. Returns false where memory ran out. */
static bool find_partners(const char *name, size_t n, uint32_t **ret)
{
	uint32_t *partner = malloc((n + 1) * sizeof(*partner));
	_cleanup_free_ uint32_t *open = malloc((n + 1) * sizeof(*open));
	size_t nopen = 0, symbol;

	*ret = partner;
	if (!partner || !open)
		return false;
	for (size_t i = 0; i < n; i++) {
		const size_t word = word_length(name + i, name + n, &symbol);
		const char *const pairs = "()[]{}<>", *at = strchr(pairs, name[i]);

		partner[i] = NONE;
		if (word) {
			for (size_t j = 0; j < word; j++)
				partner[i + j] = NONE;
			i += word - 1;
			continue;
		}
		if (!at || (name[i] == '>' && i && name[i - 1] == '-'))
			continue;
		if ((at - pairs) % 2 == 0) {
			open[nopen++] = (uint32_t)i;
			continue;
		}
		if (name[i] == '>' && (!nopen || name[open[nopen - 1]] != '<'))
			continue;
		while (nopen && name[open[nopen - 1]] == '<' && name[i] != '>')
			nopen--;
		if (!nopen || name[open[nopen - 1]] != at[-1])
			continue;
		partner[i] = open[--nopen];
		partner[partner[i]] = (uint32_t)i;
	}
	return true;
}

static void put(struct pass *p, const char *text, size_t n)
{
	memmove(p->out + p->size, text, n);
	p->size += n;
}

static bool ends_with(const struct pass *p, const char *text)
{
	const size_t n = strlen(text);

	return p->size >= n && !memcmp(p->out + p->size - n, text, n);
}

/* Where the path of words and "::" begins that what is written ends with. One that is longer than
 * PATH_MAX_SEEN is none of a library's. */
static size_t path_start(const struct pass *p)
{
	size_t start = p->size;

	while (start && p->size - start < PATH_MAX_SEEN &&
	       (in_word(p->out[start - 1]) || p->out[start - 1] == ':'))
		start--;
	return start;
}

static bool path_is(const struct pass *p, size_t start, const char *prefix)
{
	const size_t n = strlen(prefix);

	return p->size - start >= n && !memcmp(p->out + start, prefix, n);
}

/* Whether word[0..n), which "::" follows, is a namespace that the library's ABI has put between. */
static bool is_abi_namespace(const struct pass *p, const char *word, size_t n)
{
	static const char *const names[] = {"__cxx11", "__1", "_V2", "__ndk1"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == n && !memcmp(names[i], word, n))
			return ends_with(p, "::") && path_is(p, path_start(p), "std::");
	return false;
}

/* Length of what may stand between the ')' of a function and the "::" of what lies in it: " const",
 * "&", "[abi:x]". */
static size_t qualifiers_length(const char *p)
{
	static const char *const words[] = {" const", " volatile", " &", "&", " noexcept"};
	size_t n = 0, before;

	do {
		before = n;
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
			if (!strncmp(p + n, words[i], strlen(words[i])))
				n += strlen(words[i]);
		if (!strncmp(p + n, "[abi:", 5)) {
			const char *end = memchr(p + n, ']', strnlen(p + n, TAG_MAX));

			n = end ? (size_t)(end + 1 - p) : n;
		}
	} while (n > before);
	return n;
}

/* An argument, as it has been written. */
struct arg {
	size_t start, end;
};

static bool same(const struct pass *p, struct arg a, struct arg b)
{
	return a.end - a.start == b.end - b.start &&
	       !memcmp(p->out + a.start, p->out + b.start, a.end - a.start);
}

/* Whether `whole` is FIRST MIDDLE SECOND LAST. */
static bool is_pair(const struct pass *p, struct arg whole, struct arg first, struct arg second)
{
	static const char head[] = "std::pair<", middle[] = " const, ";
	const size_t nhead = sizeof(head) - 1, nmiddle = sizeof(middle) - 1;
	struct arg part = {whole.start + nhead, whole.start + nhead + first.end - first.start};

	if (whole.end - whole.start !=
		    nhead + (first.end - first.start) + nmiddle + (second.end - second.start) + 1 ||
	    memcmp(p->out + whole.start, head, nhead) || !same(p, part, first) ||
	    memcmp(p->out + part.end, middle, nmiddle))
		return false;
	part.start = part.end + nmiddle;
	part.end = part.start + second.end - second.start;
	return same(p, part, second) && p->out[part.end] == '>';
}

/* Whether the argument is what stands there where the programmer has left it out. */
static bool is_default(const struct pass *p, struct arg arg, const struct arg *args, size_t n)
{
	static const char *const of_first[] = {
		"std::allocator<", "std::less<",	"std::hash<",		"std::equal_to<",
		"std::vector<",	   "std::char_traits<", "std::default_delete<", "std::deque<"};

	for (size_t i = 0; i < sizeof(of_first) / sizeof(*of_first); i++) {
		const size_t length = strlen(of_first[i]);
		struct arg inner = {arg.start + length, arg.end - 1};

		if (arg.end - arg.start <= length || p->out[arg.end - 1] != '>' ||
		    memcmp(p->out + arg.start, of_first[i], length))
			continue;
		if (same(p, inner, args[0]))
			return true;
		return !i && n > 2 &&
		       (same(p, inner, args[1]) || is_pair(p, inner, args[0], args[1]));
	}
	return false;
}

/* Whether the template has arguments that one leaves out. */
static bool drops_defaults(const struct pass *p, size_t path)
{
	static const char *const libraries[] = {"std::", "__gnu_cxx::", "boost::", "absl::"};
	static const char *const others[] = {"std::pair<", "std::tuple<", "std::variant<"};
	bool known = false;

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
		known |= path_is(p, path, libraries[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		known &= !path_is(p, path, others[i]);
	return known;
}

/* Container adaptors have a container as their default, and nothing else has. */
static bool takes_container(const struct pass *p, size_t path)
{
	return path_is(p, path, "std::priority_queue") || path_is(p, path, "std::queue") ||
	       path_is(p, path, "std::stack");
}

static const struct {
	const char *name, *alias;
} aliases[] = {
	{"basic_string", "string"},
	{"basic_string_view", "string_view"},
	{"basic_ostream", "ostream"},
	{"basic_istream", "istream"},
	{"basic_iostream", "iostream"},
	{"basic_ios", "ios"},
	{"basic_streambuf", "streambuf"},
	{"basic_filebuf", "filebuf"},
	{"basic_stringbuf", "stringbuf"},
	{"basic_ifstream", "ifstream"},
	{"basic_ofstream", "ofstream"},
	{"basic_fstream", "fstream"},
	{"basic_istringstream", "istringstream"},
	{"basic_ostringstream", "ostringstream"},
	{"basic_stringstream", "stringstream"},
	{"basic_regex", "regex"},
};

/* Replaces std::basic_string<char> at the end of what is written by std::string. path: where its
 * path begins; list: where its '<' stands. */
static void put_alias(struct pass *p, size_t path, size_t list)
{
	static const struct {
		const char *argument, *letter;
	} kinds[] = {{"<char>", ""}, {"<wchar_t>", "w"}};
	const size_t std = 5, name = path + std;

	if (!path_is(p, path, "std::"))
		return;
	for (size_t k = 0; k < 2; k++) {
		if (p->size - list != strlen(kinds[k].argument) ||
		    memcmp(p->out + list, kinds[k].argument, p->size - list))
			continue;
		for (size_t i = 0; i < sizeof(aliases) / sizeof(*aliases); i++) {
			if (strlen(aliases[i].name) != list - name ||
			    memcmp(p->out + name, aliases[i].name, list - name))
				continue;
			p->size = name;
			put(p, kinds[k].letter, strlen(kinds[k].letter));
			put(p, aliases[i].alias, strlen(aliases[i].alias));
			p->alias_end = p->size;
			p->alias = aliases[i].alias;
			p->aliased = aliases[i].name;
			return;
		}
	}
}

static void shorten(struct pass *p, size_t from, size_t to, unsigned nest);

/* Writes the template arguments in name[from..to) and their brackets. */
static void shorten_args(struct pass *p, size_t from, size_t to, unsigned nest)
{
	const size_t path = path_start(p), list = p->size;
	struct arg args[ARGS_MAX];
	size_t n = 0;

	put(p, "<", 1);
	for (size_t i = from, start = from; i <= to; i++) {
		size_t end;

		if (i < to && p->partner[i] != NONE && p->partner[i] > i && p->partner[i] < to) {
			i = p->partner[i];
			continue;
		}
		if (i < to && p->name[i] != ',')
			continue;
		for (end = i; end > start && p->name[end - 1] == ' ';)
			end--;
		while (start < end && p->name[start] == ' ')
			start++;
		if (n)
			put(p, ", ", start > from && p->name[start - 1] == ' ' ? 2 : 1);
		if (n < ARGS_MAX)
			args[n].start = p->size;
		shorten(p, start, end, nest + 1);
		if (n < ARGS_MAX)
			args[n].end = p->size;
		n++;
		start = i + 1;
	}
	if (drops_defaults(p, path))
		while (n > 1 && n <= ARGS_MAX && is_default(p, args[n - 1], args, n) &&
		       (takes_container(p, path) ||
			(memcmp(p->out + args[n - 1].start, "std::vector", 11) &&
			 memcmp(p->out + args[n - 1].start, "std::deque", 10)))) {
			n--;
			p->size = args[n - 1].end;
		}
	put(p, ">", 1);
	put_alias(p, path, list);
}

/* Writes a word, or what it stands for. Returns how many bytes of the name it has used. */
static size_t shorten_word(struct pass *p, size_t from, size_t to)
{
	const char *word = p->name + from;
	size_t symbol, n = word_length(word, p->name + to, &symbol);

	if (to - from > n + 2 && word[n] == ':' && word[n + 1] == ':' &&
	    is_abi_namespace(p, word, n))
		return n + 2;
	/* std::string's constructor is called string, its destructor ~string */
	if (p->alias && strlen(p->aliased) == n && !memcmp(word, p->aliased, n) &&
	    (p->size == p->alias_end + 2 ||
	     (p->size == p->alias_end + 3 && p->out[p->size - 1] == '~')) &&
	    !memcmp(p->out + p->alias_end, "::", 2)) {
		put(p, p->alias, strlen(p->alias));
		return n;
	}
	put(p, word, n);
	/* "operator<< <int>" needs its blank */
	if (symbol && from + n + 1 < to && word[n] == ' ' && word[n + 1] == '<') {
		put(p, " ", 1);
		n++;
	}
	return n;
}

/* Whether what is written ends with an operator's name, and a blank perhaps. */
static bool follows_operator(const struct pass *p)
{
	size_t end = p->size;

	for (size_t i = 0; i < 4 && end && strchr(" <>=-*+/%^&|~!,()[]", p->out[end - 1]); i++)
		end--;
	return end < p->size && end >= 8 && !memcmp(p->out + end - 8, "operator", 8);
}

/* Whether what is written ends with something that can have template arguments or parameters. */
static bool follows_name(const struct pass *p)
{
	const char last = p->size ? p->out[p->size - 1] : ' ';

	return in_word(last) || strchr(">)]}", last) || follows_operator(p);
}

static void shorten(struct pass *p, size_t from, size_t to, unsigned nest)
{
	static const char anonymous[] = "(anonymous namespace)";

	if (nest > NEST_MAX) {
		put(p, "...", to - from < 3 ? to - from : 3);
		return;
	}
	for (size_t i = from; i < to; i++) {
		const char c = p->name[i];
		const size_t partner =
			p->partner[i] != NONE && p->partner[i] > i && p->partner[i] < to
				? p->partner[i]
				: 0;
		const size_t behind =
			partner ? partner + 1 + qualifiers_length(p->name + partner + 1) : 0;

		if (in_word(c)) {
			i += shorten_word(p, i, to) - 1;
		} else if (!partner) {
			put(p, &c, 1);
		} else if (c == '<' && follows_name(p)) {
			shorten_args(p, i + 1, partner, nest);
			i = partner;
		} else if (c == '[' && !strncmp(p->name + i, "[abi:", 5)) {
			i = partner;
		} else if (c == '(' && follows_name(p) && behind + 1 < to &&
			   !strncmp(p->name + behind, "::", 2) &&
			   strncmp(p->name + i, anonymous, sizeof(anonymous) - 1)) {
			i = behind - 1; /* the parameters of a function that the name lies in */
		} else if (c == '{' && !strncmp(p->name + i, "{lambda", 7) &&
			   memrchr(p->name + i, '#', partner - i)) {
			const char *number = memrchr(p->name + i, '#', partner - i);

			put(p, "{lambda", 7);
			put(p, number, (size_t)(p->name + partner + 1 - number));
			i = partner;
		} else {
			put(p, &c, 1);
			shorten(p, i + 1, partner, nest + 1);
			put(p, p->name + partner, 1);
			i = partner;
		}
	}
}

/* Writes name[from..to), and "..." for template arguments that lie depth_max deep. Returns how
 * deep the deepest are that it has written. */
static unsigned elide(struct pass *p, size_t from, size_t to, unsigned depth, unsigned nest)
{
	unsigned deepest = depth;

	if (nest > NEST_MAX) {
		put(p, "...", to - from < 3 ? to - from : 3);
		return deepest;
	}
	for (size_t i = from; i < to; i++) {
		const char c = p->name[i];
		const size_t partner =
			p->partner[i] != NONE && p->partner[i] > i && p->partner[i] < to
				? p->partner[i]
				: 0;
		size_t symbol, word;
		bool is_list;
		unsigned d;

		if (in_word(c)) {
			word = word_length(p->name + i, p->name + to, &symbol);
			put(p, p->name + i, word);
			i += word - 1;
			if (!p->drops_lists && symbol && i + 2 < to && p->name[i + 1] == ' ' &&
			    p->name[i + 2] == '<')
				put(p, p->name + ++i, 1);
			continue;
		}
		if (!partner) {
			put(p, &c, 1);
			continue;
		}
		is_list = c == '<' && follows_name(p);
		if (is_list && p->drops_lists) {
			while (p->size && p->out[p->size - 1] == ' ')
				p->size--; /* of "operator< <int>" */
			i = partner;
			continue;
		}
		put(p, &c, 1);
		if (is_list && depth >= p->depth_max && partner - i - 1 > 3) {
			put(p, "...", 3);
		} else {
			d = elide(p, i + 1, partner, depth + is_list, nest + 1);
			deepest = d > deepest ? d : deepest;
		}
		put(p, p->name + partner, 1);
		i = partner;
	}
	return deepest;
}

enum pass_kind {
	PASS_SHORTEN,
	PASS_ELIDE,
	PASS_DROP_LISTS,
};

/* Runs one pass over the name. Returns the result (malloc'ed), or NULL: out of memory. */
static char *run(const char *name, enum pass_kind kind, unsigned depth_max, unsigned *ret_deepest)
{
	const size_t n = strlen(name);
	_cleanup_free_ uint32_t *partner = NULL;
	struct pass p = {
		.name = name, .depth_max = depth_max, .drops_lists = kind == PASS_DROP_LISTS};

	p.out = malloc(n + 1);
	if (!p.out || n >= NONE || !find_partners(name, n, &partner)) {
		free(p.out);
		return NULL;
	}
	p.partner = partner;
	if (kind == PASS_SHORTEN)
		shorten(&p, 0, n, 0);
	else
		*ret_deepest = elide(&p, 0, n, 0, 0);
	p.out[p.size] = '\0';
	return p.out;
}

char *ip_short_name(const char *demangled, size_t limit)
{
	char *name, *elided;
	unsigned deepest = 0;

	/* names of C are short as they are */
	if (!strpbrk(demangled, "<([{:"))
		return strdup(demangled);
	name = run(demangled, PASS_SHORTEN, 0, NULL);
	if (!name || strlen(name) <= limit)
		return name;
	elided = run(name, PASS_ELIDE, NEST_MAX, &deepest);
	for (unsigned depth = deepest; elided && strlen(elided) > limit && depth-- > 0;) {
		free(elided);
		elided = run(name, PASS_ELIDE, depth, &deepest);
	}
	free(name);
	return elided;
}

char *ip_name_without_templates(const char *name)
{
	unsigned deepest;

	return strchr(name, '<') ? run(name, PASS_DROP_LISTS, 0, &deepest) : strdup(name);
}

size_t ip_name_scope_length(const char *name)
{
	const size_t n = strlen(name);
	_cleanup_free_ uint32_t *partner = NULL;
	size_t symbol, found = 0;

	if (!strstr(name, "::") || n >= NONE || !find_partners(name, n, &partner))
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (in_word(name[i]))
			i += word_length(name + i, name + n, &symbol) - 1;
		else if (partner[i] != NONE && partner[i] > i)
			i = partner[i];
		else if (name[i] == ':' && name[i + 1] == ':')
			found = ++i + 1;
	}
	return found;
}
