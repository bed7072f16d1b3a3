/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses signatures, and walks over the words of a payload by a signature.
 */
#include "analysis/read/values.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/print.h"
#include "common/trace/trace_format.h"
#include "common/utf8.h"

static int parse_type(const char *text, struct ip_value_type *ret)
{
	size_t length = strlen(text);

	ret->code = text[0];
	ret->size = 8;
	if (length == 1)
		return strchr("cbpxs-", text[0]) ? 0 : -1;
	if (length != 2 || !strchr("iuefh", text[0]) ||
	    !strchr(text[0] == 'f' ? "48" : "1248", text[1]))
		return -1;
	ret->size = text[1] - '0';
	return 0;
}

static int parse_item(char *item, struct ip_value_type *ret)
{
	char *name = strchr(item, ':');

	*ret = (struct ip_value_type){0};
	if (name) {
		char *brace = strchr(name, '{');

		*name++ = '\0';
		if (brace) {
			size_t length = strlen(brace);

			if (brace[length - 1] != '}')
				return -1;
			brace[length - 1] = '\0';
			*brace = '\0';
			ret->enumerators = brace + 1;
		}
		ret->name = *name ? name : NULL;
	}
	if (*item == '\0')
		return -1;
	return parse_type(item, ret);
}

int ip_signature_parse(char *text, struct ip_signature *ret)
{
	*ret = (struct ip_signature){0};
	while (text && *text) {
		char *next = strchr(text, ' ');

		if (next)
			*next++ = '\0';
		if (ret->n == IP_VALUES_MAX || parse_item(text, &ret->values[ret->n]) < 0)
			return -1;
		ret->n++;
		text = next;
	}
	return ret->n ? 0 : -1;
}

struct walk {
	const struct ip_signature *signature;
	unsigned next;	  /* index in the signature of the next item */
	unsigned missing; /* one bit for each recorded value, from the next one on */
	const uint64_t *at, *end;
};

static struct walk begin(const struct ip_signature *signature, const uint64_t *payload)
{
	return (struct walk){signature, 0, IP_PAYLOAD_MISSING(payload[0]), payload + 1,
			     payload + 1 + IP_PAYLOAD_N(payload[0])};
}

/* Goes to the next value. Returns false where there is none, or where its words are not all
 * there. */
static bool step(struct walk *w, struct ip_value *ret)
{
	size_t left = w->end - w->at, n = 1;

	if (w->next == w->signature->n)
		return false;
	*ret = (struct ip_value){
		.type = &w->signature->values[w->next], .place = w->next, .words = w->at};
	ret->missing = ret->type->code != '-' && w->missing & 1;
	if (ret->type->code == '-')
		n = 0;
	else if (ret->type->code == 'x')
		n = 2;
	if (left < n)
		return false;
	if (ret->type->code == 's' && !(w->at[0] & IP_STRING_NULL)) {
		ret->length = w->at[0] & IP_STRING_UNREADABLE ? 8 : IP_STRING_LENGTH(w->at[0]);
		n += ((uint64_t)ret->length + 7) / 8;
		if (left < n)
			return false;
	}
	w->at += n;
	w->next++;
	if (ret->type->code != '-')
		w->missing >>= 1;
	return true;
}

int64_t ip_value_extend(uint64_t word, unsigned size, bool is_signed)
{
	unsigned unused = 64 - 8 * size;

	return is_signed ? (int64_t)(word << unused) >> unused
			 : (int64_t)(word << unused >> unused);
}

size_t ip_value_enumerator(const struct ip_value_type *type, uint64_t word, const char **ret)
{
	const char *p = type->enumerators;

	while (p && *p) {
		size_t name = strcspn(p, "=,");

		if (p[name] == '=' && (isdigit((unsigned char)p[name + 1]) || p[name + 1] == '-') &&
		    ip_value_extend(strtoull(p + name + 1, NULL, 10), type->size, false) ==
			    ip_value_extend(word, type->size, false)) {
			*ret = p;
			return name;
		}
		p += strcspn(p, ",");
		p += *p == ',';
	}
	return 0;
}

static long double extended(const uint64_t *words)
{
	struct {
		uint64_t mantissa;
		uint16_t sign_exponent;
	} bits = {words[0], (uint16_t)words[1]};
	long double value = 0;

	memcpy(&value, &bits, 10);
	return value;
}

double ip_value_floating(const struct ip_value *v)
{
	double d;
	float f;

	if (v->type->code == 'x')
		return (double)extended(v->words);
	if (v->type->size == 4) {
		memcpy(&f, v->words, sizeof(f));
		return f;
	}
	memcpy(&d, v->words, sizeof(d));
	return d;
}

/* Writes the shortest text that reads back as the same value, with the decimal point of C. */
static void format_floating(const struct ip_value *v, char *buffer, size_t size)
{
	long double x = v->type->code == 'x' ? extended(v->words) : ip_value_floating(v);
	bool is_float = v->type->code == 'f' && v->type->size == 4;
	int last = v->type->code == 'x' ? 21 : is_float ? 9 : 17;

	if (isnan(x)) { /* the sign of a nan means nothing */
		snprintf(buffer, size, "nan");
		return;
	}
	for (int digits = is_float ? 6 : 15; digits <= last; digits++) {
		snprintf(buffer, size, "%.*Lg", digits, x);
		if (is_float		   ? strtof(buffer, NULL) == (float)x
		    : v->type->code == 'f' ? strtod(buffer, NULL) == (double)x
					   : strtold(buffer, NULL) == x)
			break;
	}
	for (char *p = buffer; *p; p++)
		if (*p == ',')
			*p = '.';
}

/* Prints a text quoted as in C source. Bytes that could disturb a terminal become \xHH, and so does
 * a NUL before a digit, which would read on as an octal number. */
static void print_quoted(FILE *out, const char *bytes, size_t length, char quote)
{
	static const char escapes[][2] = {{'\n', 'n'}, {'\t', 't'}, {'\r', 'r'}, {'\0', '0'}};

	ip_print(out, "%c", quote);
	for (size_t i = 0; i < length;) {
		char character[5] = "";
		size_t left = length - i, n;
		char escape = 0;

		memcpy(character, bytes + i, left < 4 ? left : 4);
		for (size_t k = 0; k < sizeof(escapes) / sizeof(escapes[0]); k++)
			if (bytes[i] == escapes[k][0])
				escape = escapes[k][1];
		n = bytes[i] ? ip_utf8_length(character) : 1;
		if (!bytes[i] && left > 1 && isdigit((unsigned char)bytes[i + 1]))
			ip_print(out, "\\x00");
		else if (escape)
			ip_print(out, "\\%c", escape);
		else if (bytes[i] == quote || bytes[i] == '\\')
			ip_print(out, "\\%c", bytes[i]);
		else if (!n || ip_utf8_steers(character))
			ip_print(out, "\\x%02x", (unsigned char)bytes[i]);
		else
			ip_print(out, "%.*s", (int)n, bytes + i);
		if (!n || (n > 1 && ip_utf8_steers(character)))
			n = 1;
		i += n;
	}
	ip_print(out, "%c", quote);
}

void ip_value_print(FILE *out, const struct ip_value *v)
{
	uint64_t word = v->type->code == '-' ? 0 : v->words[0];
	unsigned size = v->type->size;
	const char *enumerator;
	char text[64], c = (char)word;
	size_t length;

	if (v->missing) {
		ip_print(out, "?");
		return;
	}
	switch (v->type->code) {
	case 'i':
		ip_print(out, "%" PRId64, ip_value_extend(word, size, true));
		break;
	case 'u':
		ip_print(out, "%" PRIu64, (uint64_t)ip_value_extend(word, size, false));
		break;
	case 'c':
		print_quoted(out, &c, 1, '\'');
		ip_print(out, " (%d)", c);
		break;
	case 'b':
		ip_print(out, "%s", word & 0xff ? "true" : "false");
		break;
	case 'e':
		length = ip_value_enumerator(v->type, word, &enumerator);
		if (length)
			ip_print(out, "%.*s", (int)length, enumerator);
		else
			ip_print(out, "%" PRId64, (int64_t)word);
		break;
	case 'p':
		ip_print(out, word ? "0x%" PRIx64 : "NULL", word);
		break;
	case 'h':
		ip_print(out, "0x%" PRIx64, (uint64_t)ip_value_extend(word, size, false));
		break;
	case 'f':
	case 'x':
		format_floating(v, text, sizeof(text));
		ip_print(out, "%s", text);
		break;
	case 's':
		if (word & IP_STRING_NULL) {
			ip_print(out, "NULL");
		} else if (word & IP_STRING_UNREADABLE) {
			ip_print(out, "0x%" PRIx64 " (unreadable)", v->words[1]);
		} else {
			print_quoted(out, (const char *)(v->words + 1), v->length, '"');
			if (word & IP_STRING_CUT)
				ip_print(out, "...");
		}
		break;
	default:
		ip_print(out, "{...}");
	}
}

void ip_values_print(FILE *out, const struct ip_signature *signature, const uint64_t *payload)
{
	struct walk w = begin(signature, payload);
	struct ip_value v;

	while (step(&w, &v)) {
		if (v.place)
			ip_print(out, ", ");
		/* --retval 'f(retval)': "f = 3" says it */
		if (v.type->name && (signature->n > 1 || strcmp(v.type->name, "retval") != 0))
			ip_print(out, "%s=", v.type->name);
		ip_value_print(out, &v);
	}
	if (w.next < signature->n)
		ip_print(out, "%s", w.next ? ", ..." : "...");
}

void ip_value_write(struct ip_json *json, const char *key, const struct ip_value *v)
{
	uint64_t word = v->type->code == '-' ? 0 : v->words[0];
	unsigned size = v->type->size;
	char text[IP_PAYLOAD_MAX * 8 + 1];
	const char *enumerator;
	size_t length;

	if (v->missing) {
		ip_json_string(json, key, NULL);
		return;
	}
	switch (v->type->code) {
	case 'i':
		ip_json_int(json, key, ip_value_extend(word, size, true));
		break;
	case 'u':
		ip_json_uint(json, key, ip_value_extend(word, size, false));
		break;
	case 'c':
		ip_json_int(json, key, (char)word);
		break;
	case 'b':
		ip_json_bool(json, key, word & 0xff);
		break;
	case 'e':
		length = ip_value_enumerator(v->type, word, &enumerator);
		if (length) {
			snprintf(text, sizeof(text), "%.*s", (int)length, enumerator);
			ip_json_string(json, key, text);
		} else {
			ip_json_int(json, key, (int64_t)word);
		}
		break;
	case 'p':
	case 'h':
		snprintf(text, sizeof(text), "0x%" PRIx64,
			 (uint64_t)ip_value_extend(word, size, false));
		ip_json_string(json, key, text);
		break;
	case 'f':
	case 'x':
		if (isfinite(ip_value_floating(v))) {
			ip_json_double(json, key, ip_value_floating(v));
		} else {
			format_floating(v, text, sizeof(text));
			ip_json_string(json, key, text);
		}
		break;
	case 's':
		if (word & IP_STRING_NULL) {
			ip_json_string(json, key, NULL);
		} else if (word & IP_STRING_UNREADABLE) {
			snprintf(text, sizeof(text), "0x%" PRIx64, v->words[1]);
			ip_json_object(json, key);
			ip_json_string(json, "unreadable", text);
			ip_json_end_object(json);
		} else {
			length = v->length < sizeof(text) ? v->length : sizeof(text) - 1;
			memcpy(text, v->words + 1, length);
			text[length] = '\0';
			ip_json_string(json, key, text);
		}
		break;
	default:
		ip_json_string(json, key, "{...}");
	}
}

void ip_values_json(struct ip_json *json, const struct ip_signature *signature,
		    const uint64_t *payload)
{
	struct walk w = begin(signature, payload);
	struct ip_value v;
	char name[16];

	while (step(&w, &v)) {
		snprintf(name, sizeof(name), "arg%u", v.place + 1);
		ip_value_write(json, v.type->name ? v.type->name : name, &v);
	}
}

void ip_value_json(struct ip_json *json, const char *key, const struct ip_signature *signature,
		   const uint64_t *payload)
{
	struct walk w = begin(signature, payload);
	struct ip_value v;

	if (signature->values[0].name) {
		ip_json_object(json, key);
		ip_values_json(json, signature, payload);
		ip_json_end_object(json);
	} else if (step(&w, &v)) {
		ip_value_write(json, key, &v);
	}
}

bool ip_values_cut(const struct ip_signature *signature, const uint64_t *payload)
{
	struct walk w = begin(signature, payload);
	struct ip_value v;
	bool cut = false;

	while (step(&w, &v))
		cut |= v.type->code == 's' && !v.missing &&
		       (v.words[0] & (IP_STRING_CUT | IP_STRING_UNREADABLE | IP_STRING_NULL)) ==
			       IP_STRING_CUT;
	return cut;
}

bool ip_value_at(const struct ip_signature *signature, const uint64_t *payload, unsigned place,
		 struct ip_value *ret)
{
	struct walk w = begin(signature, payload);

	while (step(&w, ret))
		if (ret->place == place)
			return true;
	return false;
}
