/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses expressions by recursive descent. See expression.h for the grammar. Depth and number of
 * nodes are bounded, so that no text can exhaust the stack or memory.
 */
#include "common/values/expression.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

#define DEPTH_MAX 64u

struct parser {
	const char *text;
	size_t at, length;
	unsigned nodes, depth;
};

typedef struct ip_expression *level(struct parser *p);

static level parse_or;

static struct ip_expression *fail(struct parser *p, const char *what)
{
	size_t left = p->length - p->at;

	/* what the source has, as the text of a point's value may */
	if (left && p->text[p->at] == '(')
		ip_error("'%.*s': functions and macros cannot be called here, as by '%.*s': name "
			 "what they take, or, of a point, the value's number (arg1 to arg6)",
			 (int)p->length, p->text, (int)(left < 24 ? left : 24), p->text + p->at);
	else if (!left)
		ip_error("'%.*s': %s is missing at its end", (int)p->length, p->text, what);
	else
		ip_error("'%.*s': %s is expected at '%.*s'", (int)p->length, p->text, what,
			 (int)(left < 24 ? left : 24), p->text + p->at);
	return NULL;
}

void ip_expression_destroy(struct ip_expression *e)
{
	if (!e)
		return;
	ip_expression_destroy(e->left);
	ip_expression_destroy(e->right);
	free(e->text);
	free(e);
}

static void skip_space(struct parser *p)
{
	while (p->at < p->length && isspace((unsigned char)p->text[p->at]))
		p->at++;
}

static char next(struct parser *p)
{
	skip_space(p);
	return p->at < p->length ? p->text[p->at] : '\0';
}

static bool take(struct parser *p, const char *word)
{
	size_t n = strlen(word);

	skip_space(p);
	if (p->length - p->at < n || memcmp(p->text + p->at, word, n))
		return false;
	p->at += n;
	return true;
}

/* Makes a node; it owns left and right, also where it fails. */
static struct ip_expression *node(struct parser *p, enum ip_expression_kind kind, size_t begin,
				  struct ip_expression *left, struct ip_expression *right)
{
	struct ip_expression *e = NULL;

	if (p->nodes++ >= IP_EXPRESSION_NODES)
		ip_error("'%.40s...': the expression is too long", p->text);
	else if (!(e = calloc(1, sizeof(*e))))
		ip_error("out of memory");
	if (!e) {
		ip_expression_destroy(left);
		ip_expression_destroy(right);
		return NULL;
	}
	*e = (struct ip_expression){
		.kind = kind, .left = left, .right = right, .begin = begin, .end = p->at};
	return e;
}

static bool is_name_start(char c)
{
	return isalpha((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* Takes a name into *ret (malloc'ed). */
static bool take_name(struct parser *p, char **ret)
{
	size_t begin;

	skip_space(p);
	begin = p->at;
	if (p->at == p->length || !is_name_start(p->text[p->at])) {
		fail(p, "a name");
		return false;
	}
	while (p->at < p->length &&
	       (is_name_start(p->text[p->at]) || isdigit((unsigned char)p->text[p->at])))
		p->at++;
	if (p->at - begin > IP_EXPRESSION_NAME_MAX) {
		p->at = begin;
		fail(p, "a shorter name");
		return false;
	}
	*ret = strndup(p->text + begin, p->at - begin);
	if (!*ret)
		ip_error("out of memory");
	return *ret;
}

static int digit_of(char c)
{
	if (isdigit((unsigned char)c))
		return c - '0';
	return isxdigit((unsigned char)c) ? (tolower((unsigned char)c) - 'a') + 10 : 99;
}

/* Decimal, or hexadecimal with 0x; at most 64 bits. */
static bool take_number(struct parser *p, int64_t *ret)
{
	size_t begin = p->at;
	uint64_t value = 0;
	int base = 10;
	bool any = false, fits = true;

	if (p->length - p->at > 2 && p->text[p->at] == '0' && tolower(p->text[p->at + 1]) == 'x') {
		base = 16;
		p->at += 2;
	}
	for (; p->at < p->length && digit_of(p->text[p->at]) < base; p->at++, any = true)
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit_of(p->text[p->at]), &value))
			fits = false;
	if (!any || !fits || (p->at < p->length && is_name_start(p->text[p->at]))) {
		p->at = begin;
		fail(p, "a number of at most 64 bits");
		return false;
	}
	*ret = (int64_t)value;
	return true;
}

/* Takes one character of a text, which may be escaped as in C. */
static bool take_character(struct parser *p, char *ret)
{
	static const char escapes[][2] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'0', '\0'}};
	char c = p->text[p->at++];

	*ret = c;
	if (c != '\\')
		return true;
	if (p->at == p->length)
		return false;
	*ret = c = p->text[p->at++];
	for (size_t i = 0; i < sizeof(escapes) / sizeof(*escapes); i++)
		if (escapes[i][0] == c)
			*ret = escapes[i][1];
	if (c != 'x')
		return true;
	if (p->length - p->at < 2 || digit_of(p->text[p->at]) > 15 ||
	    digit_of(p->text[p->at + 1]) > 15)
		return false;
	*ret = (char)(digit_of(p->text[p->at]) * 16 + digit_of(p->text[p->at + 1]));
	p->at += 2;
	return true;
}

static struct ip_expression *parse_quoted(struct parser *p, char quote)
{
	size_t begin = p->at++, n = 0;
	char bytes[IP_EXPRESSION_TEXT_MAX];
	struct ip_expression *e;

	while (p->at < p->length && p->text[p->at] != quote) {
		if (n == sizeof(bytes) || !take_character(p, &bytes[n])) {
			p->at = begin;
			return fail(p, "a text of at most 64 bytes");
		}
		n++;
	}
	if (p->at == p->length || (quote == '\'' && n != 1)) {
		p->at = begin;
		return fail(p, quote == '"' ? "a text that ends with \"" : "one character");
	}
	p->at++;
	e = node(p, quote == '"' ? IP_EXPRESSION_TEXT : IP_EXPRESSION_NUMBER, begin, NULL, NULL);
	if (!e)
		return NULL;
	e->number = quote == '"' ? (int64_t)n : bytes[0];
	if (quote == '\'')
		return e;
	e->text = malloc(n + 1);
	if (!e->text) {
		ip_expression_destroy(e);
		ip_error("out of memory");
		return NULL;
	}
	memcpy(e->text, bytes, n);
	e->text[n] = '\0';
	return e;
}

static struct ip_expression *parse_primary(struct parser *p)
{
	struct ip_expression *e;
	char c = next(p), *name;
	size_t begin = p->at;
	int64_t number;

	if (c == '(') {
		p->at++;
		e = parse_or(p);
		if (e && !take(p, ")")) {
			ip_expression_destroy(e);
			return fail(p, "')'");
		}
		if (e) { /* its text has the brackets, too */
			e->begin = begin;
			e->end = p->at;
		}
		return e;
	}
	if (c == '"' || c == '\'')
		return parse_quoted(p, c);
	if (isdigit((unsigned char)c)) {
		if (!take_number(p, &number))
			return NULL;
		e = node(p, IP_EXPRESSION_NUMBER, begin, NULL, NULL);
		if (e)
			e->number = number;
		return e;
	}
	if (!take_name(p, &name))
		return NULL;
	e = node(p, IP_EXPRESSION_NAME, begin, NULL, NULL);
	if (e)
		e->text = name;
	else
		free(name);
	return e;
}

/* left->name or left.name */
static struct ip_expression *parse_member(struct parser *p, struct ip_expression *left, bool arrow)
{
	char *name;

	if (!take_name(p, &name)) {
		ip_expression_destroy(left);
		return NULL;
	}
	left = node(p, arrow ? IP_EXPRESSION_ARROW : IP_EXPRESSION_MEMBER, left->begin, left, NULL);
	if (left)
		left->text = name;
	else
		free(name);
	return left;
}

/* An expression between an opening bracket, which has been taken, and `close`. */
static struct ip_expression *parse_inside(struct parser *p, const char *close)
{
	struct ip_expression *e = parse_or(p);

	if (e && !take(p, close)) {
		ip_expression_destroy(e);
		return fail(p, *close == ']' ? "']'" : "')'");
	}
	return e;
}

static struct ip_expression *parse_format(struct parser *p, struct ip_expression *left)
{
	struct ip_expression *length = NULL;
	enum ip_expression_format format;
	int64_t number = 0;

	if (isdigit((unsigned char)next(p))) {
		format = IP_FORMAT_LIMIT;
		if (!take_number(p, &number)) {
			ip_expression_destroy(left);
			return NULL;
		}
	} else if (take(p, "string")) {
		format = IP_FORMAT_STRING;
		if (take(p, "(") && !(length = parse_inside(p, ")"))) {
			ip_expression_destroy(left);
			return NULL;
		}
	} else if (take(p, "hex")) {
		format = IP_FORMAT_HEX;
	} else {
		ip_expression_destroy(left);
		return fail(p, "string, hex or a number of bytes");
	}
	left = node(p, IP_EXPRESSION_FORMAT, left->begin, left, length);
	if (left) {
		left->format = format;
		left->number = number;
	}
	return left;
}

static struct ip_expression *parse_postfix(struct parser *p)
{
	struct ip_expression *e = parse_primary(p), *inside;

	while (e) {
		if (take(p, "->")) {
			e = parse_member(p, e, true);
		} else if (take(p, ".")) {
			e = parse_member(p, e, false);
		} else if (take(p, "[")) {
			inside = parse_inside(p, "]");
			if (!inside) {
				ip_expression_destroy(e);
				return NULL;
			}
			e = node(p, IP_EXPRESSION_INDEX, e->begin, e, inside);
		} else if (take(p, ":")) {
			e = parse_format(p, e);
		} else {
			return e;
		}
	}
	return NULL;
}

static level parse_unary;

/* Whether what follows a bracket is the operand of a cast: a name, or another bracket. Nothing else
 * can stand there without an operator. */
static bool is_operand(const struct parser *p, size_t at)
{
	while (at < p->length && isspace((unsigned char)p->text[at]))
		at++;
	return at < p->length && (is_name_start(p->text[at]) || p->text[at] == '(');
}

/* Whether a cast begins here: a type, and an asterisk before the bracket closes, or an operand
 * behind it. There is no product, so nothing else looks like that. *ret_type is where the type
 * ends. */
static bool is_cast(const struct parser *p, size_t *ret_type, size_t *ret_end)
{
	size_t at = p->at + 1, end;

	if (p->at == p->length || p->text[p->at] != '(')
		return false;
	while (at < p->length && isspace((unsigned char)p->text[at]))
		at++;
	if (at == p->length || !is_name_start(p->text[at]) || p->text[at] == '$')
		return false;
	for (; at < p->length && p->text[at] != ')'; at++)
		if (!is_name_start(p->text[at]) && !isalnum((unsigned char)p->text[at]) &&
		    !isspace((unsigned char)p->text[at]) &&
		    !memchr(":<>,*", p->text[at], sizeof(":<>,*") - 1))
			return false;
	*ret_end = end = at;
	while (isspace((unsigned char)p->text[at - 1]) || p->text[at - 1] == '*')
		at--;
	*ret_type = at;
	return end < p->length && (memchr(p->text + at, '*', end - at) || is_operand(p, end + 1));
}

static struct ip_expression *parse_cast(struct parser *p, size_t type, size_t end)
{
	size_t begin = p->at++, n = 0, stars = 0;
	struct ip_expression *e, **slot, *inner;
	uint32_t inner_end;
	char *name;

	skip_space(p);
	if (type - p->at > IP_EXPRESSION_NAME_MAX)
		return fail(p, "a type with a shorter name");
	name = strndup(p->text + p->at, type - p->at);
	if (!name) {
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; name[i]; i++) /* one blank where there are some */
		if (!isspace((unsigned char)name[i]) || !isspace((unsigned char)name[i - 1]))
			name[n++] = isspace((unsigned char)name[i]) ? ' ' : name[i];
	name[n] = '\0';
	for (size_t i = type; i < end; i++)
		stars += p->text[i] == '*';
	p->at = end + 1;
	e = parse_unary(p);
	/* a format is one of what the cast makes: (char *)p:string(8) */
	for (slot = &e; *slot && (*slot)->kind == IP_EXPRESSION_FORMAT; slot = &(*slot)->left)
		(*slot)->begin = begin;
	inner = *slot;
	inner_end = inner ? inner->end : 0;
	*slot = inner ? node(p, IP_EXPRESSION_CAST, begin, inner, NULL) : NULL;
	if (!*slot) {
		ip_expression_destroy(e);
		free(name);
		return NULL;
	}
	(*slot)->text = name;
	(*slot)->number = (int64_t)stars;
	(*slot)->end = inner_end;
	return e;
}

static struct ip_expression *parse_unary(struct parser *p)
{
	static const char signs[] = "*&!-~";
	static const enum ip_expression_operator ops[] = {IP_OPERATOR_FOLLOW, IP_OPERATOR_ADDRESS,
							  IP_OPERATOR_NOT, IP_OPERATOR_MINUS,
							  IP_OPERATOR_INVERT};
	char c = next(p);
	const char *sign = c ? strchr(signs, c) : NULL;
	size_t begin = p->at, type, end;
	struct ip_expression *e = NULL;

	/* all recursion comes through here */
	if (p->depth++ == DEPTH_MAX) {
		ip_error("'%.40s...': the expression is nested too deeply", p->text);
	} else if (is_cast(p, &type, &end)) {
		e = parse_cast(p, type, end);
	} else if (!sign) {
		e = parse_postfix(p);
	} else {
		p->at++;
		e = parse_unary(p);
		e = e ? node(p, IP_EXPRESSION_UNARY, begin, e, NULL) : NULL;
		if (e)
			e->op = ops[sign - signs];
	}
	p->depth--;
	return e;
}

struct sign {
	const char *text;
	enum ip_expression_operator op;
};

/* Takes one of the signs; none: IP_OPERATOR_NONE. */
static enum ip_expression_operator take_sign(struct parser *p, const struct sign *signs)
{
	for (; signs->text; signs++) {
		size_t before = p->at;

		if (!take(p, signs->text))
			continue;
		/* "&" is not the begin of "&&" */
		if (signs->op == IP_OPERATOR_BITS && p->at < p->length && p->text[p->at] == '&') {
			p->at = before;
			continue;
		}
		return signs->op;
	}
	return IP_OPERATOR_NONE;
}

/* Operands of `below` with any of the signs between them. */
static struct ip_expression *parse_binary(struct parser *p, level *below, const struct sign *signs,
					  bool once)
{
	struct ip_expression *left = below(p), *right;
	enum ip_expression_operator op;

	while (left && (op = take_sign(p, signs)) != IP_OPERATOR_NONE) {
		right = below(p);
		if (!right) {
			ip_expression_destroy(left);
			return NULL;
		}
		left = node(p, IP_EXPRESSION_BINARY, left->begin, left, right);
		if (left)
			left->op = op;
		if (once)
			break;
	}
	return left;
}

static struct ip_expression *parse_bits(struct parser *p)
{
	static const struct sign signs[] = {{"&", IP_OPERATOR_BITS}, {0}};

	return parse_binary(p, parse_unary, signs, false);
}

static struct ip_expression *parse_sum(struct parser *p)
{
	static const struct sign signs[] = {
		{"+", IP_OPERATOR_ADD}, {"-", IP_OPERATOR_SUBTRACT}, {0}};

	return parse_binary(p, parse_bits, signs, false);
}

static struct ip_expression *parse_comparison(struct parser *p)
{
	static const struct sign signs[] = {
		{"==", IP_OPERATOR_EQUAL},  {"!=", IP_OPERATOR_UNEQUAL},
		{"=^", IP_OPERATOR_BEGINS}, {"<=", IP_OPERATOR_LESS_EQUAL},
		{"<", IP_OPERATOR_LESS},    {">=", IP_OPERATOR_MORE_EQUAL},
		{">", IP_OPERATOR_MORE},    {0}};

	return parse_binary(p, parse_sum, signs, true);
}

static struct ip_expression *parse_and(struct parser *p)
{
	static const struct sign signs[] = {{"&&", IP_OPERATOR_AND}, {0}};

	return parse_binary(p, parse_comparison, signs, false);
}

static struct ip_expression *parse_or(struct parser *p)
{
	static const struct sign signs[] = {{"||", IP_OPERATOR_OR}, {0}};

	return parse_binary(p, parse_and, signs, false);
}

int ip_expression_parse(const char *text, size_t length, struct ip_expression **ret)
{
	struct parser p = {.text = text, .length = length};

	*ret = NULL;
	if (length > IP_EXPRESSION_MAX)
		return ip_error("'%.40s...': an expression has at most %u bytes", text,
				IP_EXPRESSION_MAX);
	*ret = parse_or(&p);
	if (!*ret)
		return -1;
	skip_space(&p);
	if (p.at < length) {
		if (text[p.at] == '=' && (p.at + 1 == length || text[p.at + 1] != '='))
			ip_error("'%.*s': == compares, in the place of '='", (int)length, text);
		else if (text[p.at] == ')')
			ip_error("'%.*s': ')' without '(' (one function for each option: give it "
				 "again for the next)",
				 (int)length, text);
		else
			fail(&p, "an operator or the end");
		ip_expression_destroy(*ret);
		*ret = NULL;
		return -1;
	}
	return 0;
}

const struct ip_expression *ip_expression_literal_pattern(const struct ip_expression *e)
{
	const struct ip_expression *const sides[] = {e ? e->left : NULL, e ? e->right : NULL};
	const struct ip_expression *found = NULL;

	for (size_t i = 0; i < 2 && !found; i++) {
		if (!sides[i])
			continue;
		found = e->op == IP_OPERATOR_EQUAL && sides[i]->kind == IP_EXPRESSION_TEXT &&
					strpbrk(sides[i]->text, "*?[")
				? sides[i]
				: ip_expression_literal_pattern(sides[i]);
	}
	return found;
}
