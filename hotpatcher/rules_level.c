/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels and rates. See rules_level.h.
 */
#include "hotpatcher/rules_level.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/grow.h"
#include "common/units.h"

#define BLANKS " \t"

/* "90%", up to the end of what is given. */
static int parse_percent(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return *text >= '0' && *text <= '9' && !strcmp(end, "%") && isfinite(*ret) && *ret > 0
		       ? 0
		       : ip_error("'%.32s' is no share, such as 90%%", text);
}

int ip_rules_level_parse(const char *text, enum ip_rules_unit unit, double most, struct ip_rules_level *ret)
{
	const char *p = text + strspn(text, BLANKS), *rest;
	_cleanup_free_ char *value = NULL;
	uint64_t bytes;

	*ret = (struct ip_rules_level){.set = true};
	if (*p != '>')
		return ip_error("a level is written as '> %s' or '> %s for 5s'",
				unit == IP_RULES_BYTES ? "2G" : "90%", unit == IP_RULES_BYTES ? "2G" : "90%");
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

bool ip_rules_hold(const struct ip_rules_level *level, struct ip_rules_hold *hold, double value,
		   uint64_t from_ns, uint64_t now_ns)
{
	if (!(value > level->limit)) {
		hold->above = false;
		return false;
	}
	if (!hold->above)
		*hold = (struct ip_rules_hold){.above = true, .since_ns = from_ns};
	return now_ns - hold->since_ns >= level->for_ns;
}

int ip_rules_history_add(struct ip_rules_history *h, uint64_t when_ns)
{
	if (h->n < IP_RULES_AT_MOST) {
		if (ip_grow(&h->times, h->n, sizeof(*h->times)) < 0)
			return -1;
		h->times[h->n++] = when_ns;
		return 0;
	}
	h->times[h->next] = when_ns;
	h->next = (h->next + 1) % h->n;
	return 0;
}

void ip_rules_history_clear(struct ip_rules_history *h)
{
	free(h->times);
	*h = (struct ip_rules_history){0};
}

int ip_rules_rate_parse(const char *text, unsigned *ret_times, uint64_t *ret_per_ns)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || errno || !n || n > IP_RULES_AT_MOST || strspn(end, BLANKS) == 0 ||
	    strncmp(end + strspn(end, BLANKS), "per", 3))
		return ip_error("how often is written as '3 per 1h', from 1 to %u", IP_RULES_AT_MOST);
	end += strspn(end, BLANKS) + 3;
	if (!strspn(end, BLANKS) || ip_parse_duration(end + strspn(end, BLANKS), ret_per_ns) < 0 ||
	    !*ret_per_ns)
		return ip_error("how often is written as '3 per 1h'");
	*ret_times = n;
	return 0;
}

uint64_t ip_rules_wait(const struct ip_rules_history *h, unsigned times, uint64_t per_ns, uint64_t now_ns)
{
	uint64_t oldest = UINT64_MAX;
	unsigned in = 0;

	for (size_t i = 0; times && i < h->n; i++)
		if (now_ns - h->times[i] < per_ns) {
			in++;
			oldest = h->times[i] < oldest ? h->times[i] : oldest;
		}
	return times && in >= times ? oldest + per_ns - now_ns : 0;
}

uint64_t ip_rules_pay_back(double cost_ns, double percent)
{
	double ns = percent > 0 ? cost_ns * 100 / percent : 0;

	return ns < 1e18 ? (uint64_t)ns : (uint64_t)1e18;
}
