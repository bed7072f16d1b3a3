// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers in the form in which people write and read them. Parsing uses integers. So the result
 * does not depend on the locale, and only what is less than one unit is rounded.
 */
#include "common/units.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/error.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit duration_units[] = {
	{"ns", 1},
	{"us", 1000},
	{"\302\265s", 1000}, /* the micro sign */
	{"ms", 1000000},
	{"s", 1000000000},
	{"m", 60000000000},
	{"min", 60000000000},
	{"h", 3600000000000},
	{"", 1000000000},
	{0},
};

static const struct unit size_units[] = {
	{"", 1},
	{"b", 1},
	{"k", 1ull << 10},
	{"kb", 1ull << 10},
	{"kib", 1ull << 10},
	{"m", 1ull << 20},
	{"mb", 1ull << 20},
	{"mib", 1ull << 20},
	{"g", 1ull << 30},
	{"gb", 1ull << 30},
	{"gib", 1ull << 30},
	{"t", 1ull << 40},
	{"tb", 1ull << 40},
	{"tib", 1ull << 40},
	{0},
};

#define FRACTION_MAX 1000000000000ull /* digits behind the twelfth are ignored */

/* DIGITS[.DIGITS][UNIT]; what and example are for the message. */
static int parse_quantity(const char *text, const struct unit *units, bool fold_case,
			  const char *what, const char *example, uint64_t *ret)
{
	const char *p = text;
	uint64_t whole = 0, fraction = 0, scale = 1, result;
	const struct unit *unit = units;

	if (!isdigit((unsigned char)*p))
		return ip_error("'%s' is no %s; write it as in %s", text, what, example);
	for (; isdigit((unsigned char)*p); p++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
			return ip_error("'%s' is too large for a %s", text, what);
	if (*p == '.') {
		p++;
		if (!isdigit((unsigned char)*p))
			return ip_error("'%s' is no %s; write it as in %s", text, what, example);
		for (; isdigit((unsigned char)*p); p++) {
			if (scale == FRACTION_MAX)
				continue;
			fraction = fraction * 10 + (uint64_t)(*p - '0');
			scale *= 10;
		}
	}
	while (unit->name && (fold_case ? strcasecmp(unit->name, p) : strcmp(unit->name, p)))
		unit++;
	if (!unit->name)
		return ip_error("'%s': unknown unit '%s' of a %s; write it as in %s", text, p, what,
				example);
	if (__builtin_mul_overflow(whole, unit->factor, &result) ||
	    __builtin_add_overflow(result,
				   (uint64_t)((unsigned __int128)fraction * unit->factor / scale),
				   &result))
		return ip_error("'%s' is too large for a %s", text, what);
	*ret = result;
	return 0;
}

int ip_parse_duration(const char *text, uint64_t *ret_ns)
{
	return parse_quantity(text, duration_units, false, "duration", "200ms, 10s, 2m", ret_ns);
}

int ip_parse_size(const char *text, uint64_t *ret_bytes)
{
	return parse_quantity(text, size_units, true, "size", "512k, 64M, 1GiB", ret_bytes);
}

int ip_parse_pid(const char *text, int *ret)
{
	long value = 0;
	const char *p = text;

	for (; isdigit((unsigned char)*p) && value <= INT_MAX; p++)
		value = value * 10 + (*p - '0');
	if (p == text || *p || value < 1 || value > INT_MAX)
		return ip_error("'%s' is no process id; give the number that ps shows", text);
	*ret = (int)value;
	return 0;
}

char *ip_format_ns(double ns, char *buffer)
{
	static const char *const names[] = {"ns", "us", "ms", "s"};
	double value = fabs(ns);
	const char *sign = ns < 0 ? "-" : "";
	size_t i = 0;

	if (!isfinite(ns))
		return strcpy(buffer, "-");
	if (value == 0)
		return strcpy(buffer, "0 ns");
	/* 999.5 would be printed as 1000: it belongs to the next unit. */
	for (; i < 3 && value >= 999.5; i++)
		value /= 1000;
	if (value >= 999999.5)
		snprintf(buffer, 16, "%s%.2e s", sign, value);
	else
		snprintf(buffer, 16, "%s%.*f %s", sign,
			 value < 9.995	 ? 2
			 : value < 99.95 ? 1
					 : 0,
			 value, names[i]);
	return buffer;
}

char *ip_format_duration(uint64_t ns, char *buffer)
{
	static const struct unit units[] = {{"h", 3600000000000}, {"m", 60000000000},
					    {"s", 1000000000},	  {"ms", 1000000},
					    {"us", 1000},	  {"ns", 1}};
	size_t i = ns ? 0 : 2;

	while (ns % units[i].factor)
		i++;
	snprintf(buffer, 24, "%lu%s", ns / units[i].factor, units[i].name);
	return buffer;
}

char *ip_format_size(uint64_t bytes, char *buffer)
{
	static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes / 1024;
	size_t i = 0;

	if (bytes < 1024) {
		snprintf(buffer, 16, "%u B", (unsigned)bytes);
		return buffer;
	}
	for (; i < 5 && value >= 1023.95; i++)
		value /= 1024;
	snprintf(buffer, 16, "%.1f %s", value, names[i]);
	return buffer;
}

char *ip_format_count(uint64_t n, char *buffer)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	char *out = buffer;

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
	return buffer;
}

const char *ip_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}
