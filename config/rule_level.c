/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads levels and rates. See rule_level.h.
 */
#include "config/rule_level.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/units.h"

#define BLANKS " \t"

/* Reads "90%". Nothing may follow it. */
static int parse_percent(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return *text >= '0' && *text <= '9' && !strcmp(end, "%") && isfinite(*ret) && *ret > 0
		       ? 0
		       : ip_error("'%.32s' is no share, such as 90%%", text);
}

int ip_rules_level_parse(const char *text, enum ip_rules_unit unit, double most,
			 struct ip_rules_level *ret)
{
	const char *p = text + strspn(text, BLANKS), *rest;
	_cleanup_free_ char *value = NULL;
	uint64_t bytes;

	*ret = (struct ip_rules_level){.set = true};
	if (*p != '>')
		return ip_error("a level is written as '> %s' or '> %s for 5s'",
				unit == IP_RULES_BYTES ? "2G" : "90%",
				unit == IP_RULES_BYTES ? "2G" : "90%");
	p += 1 + strspn(p + 1, BLANKS);
	value = strndup(p, strcspn(p, BLANKS));
	if (!value)
		return ip_error("out of memory");
	rest = p + strlen(value);
	rest += strspn(rest, BLANKS);
	if (unit == IP_RULES_PERCENT ? parse_percent(value, &ret->limit) < 0
				     : ip_parse_size(value, &bytes) < 0)
		return -1;
	if (unit == IP_RULES_BYTES)
		ret->limit = bytes;
	if (!(ret->limit > 0) || ret->limit > most)
		return ip_error("'%.32s' will never be passed, or always is", value);
	if (!*rest)
		return 0;
	if (strncmp(rest, "for", 3) || !strspn(rest + 3, BLANKS))
		return ip_error("'%.32s' is not understood: how long is written as 'for 5s'", rest);
	return ip_parse_duration(rest + 3 + strspn(rest + 3, BLANKS), &ret->for_ns);
}

int ip_rules_rate_parse(const char *text, unsigned *ret_times, uint64_t *ret_per_ns)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || errno || !n || n > IP_RULES_AT_MOST ||
	    strspn(end, BLANKS) == 0 || strncmp(end + strspn(end, BLANKS), "per", 3))
		return ip_error("how often is written as '3 per 1h', from 1 to %u",
				IP_RULES_AT_MOST);
	end += strspn(end, BLANKS) + 3;
	if (!strspn(end, BLANKS) || ip_parse_duration(end + strspn(end, BLANKS), ret_per_ns) < 0 ||
	    !*ret_per_ns)
		return ip_error("how often is written as '3 per 1h'");
	*ret_times = n;
	return 0;
}
