/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops that are to be told of.
 */
#include "hotpatcher/process/stop_log.h"

#include "common/error.h"
#include "common/units.h"

void ip_stop_log_add(struct ip_stop_log *log, const char *kind, const struct ip_stop_record *record)
{
	const size_t last = IP_STOP_LOG_MAX - 1;

	if (log->n <= last) {
		log->items[log->n].kind = kind;
		log->items[log->n++].record = *record;
		return;
	}
	log->more++;
	if (record->ns > log->items[last].record.ns) {
		log->items[last].kind = kind;
		log->items[last].record = *record;
	}
}

void ip_stop_log_look(struct ip_stop_log *log, uint64_t ns)
{
	log->looks.n++;
	log->looks.ns += ns;
	if (ns > log->looks.longest_ns)
		log->looks.longest_ns = ns;
}

int ip_stop_tell_in_vain(const struct ip_stop_record *stops, size_t n, const char *why)
{
	uint64_t ns = 0, longest = 0;
	char all[16], most[16];
	size_t failed = 0;

	for (size_t i = 0; i < n; i++) {
		if (!stops[i].failed)
			continue;
		failed++;
		ns += stops[i].ns;
		longest = stops[i].ns > longest ? stops[i].ns : longest;
	}
	if (!failed)
		return ip_error("%s", why);
	return ip_error("%s (its threads stood in vain %zu time%s: %s in all, at most %s)", why,
			failed, failed == 1 ? "" : "s", ip_format_ns(ns, all),
			ip_format_ns(longest, most));
}

void ip_stop_log_clear(struct ip_stop_log *log)
{
	log->n = log->more = 0;
	log->looks = (struct ip_stop_looks){0};
}
