/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs of stops. See stop_log.h.
 */
#include "hotpatcher/ptrace/stop_log.h"

#include <string.h>

#include "common/error.h"
#include "common/units.h"

static uint64_t longer(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool is_child(const char *kind)
{
	return kind && !strcmp(kind, "child");
}

void ip_stop_log_add(struct ip_stop_log *log, const struct ip_stop_record *record)
{
	log->ns += record->ns;
	if (log->n < IP_STOP_LOG_MAX) {
		log->items[log->n++] = *record;
		return;
	}
	log->more++;
	log->more_own |= !record->held && !is_child(record->kind);
	log->more_ns = longer(log->more_ns, record->ns);
}

void ip_stop_looks_add(struct ip_stop_looks *looks, const struct ip_stop_looks *other)
{
	looks->n += other->n;
	looks->ns += other->ns;
	looks->longest_ns = longer(looks->longest_ns, other->longest_ns);
}

void ip_stop_log_add_look(struct ip_stop_log *log, uint64_t ns)
{
	ip_stop_looks_add(&log->looks, &(struct ip_stop_looks){1, ns, ns});
}

void ip_stop_log_append(struct ip_stop_log *log, const struct ip_stop_log *other, const char *kind)
{
	uint64_t listed = 0;

	for (size_t i = 0; i < other->n; i++) {
		struct ip_stop_record record = other->items[i];

		listed += record.ns;
		if (!record.kind)
			record.kind = kind;
		ip_stop_log_add(log, &record);
	}
	log->more += other->more;
	log->more_own |= other->more_own && !is_child(kind);
	log->more_ns = longer(log->more_ns, other->more_ns);
	log->ns += other->ns - listed;
	ip_stop_looks_add(&log->looks, &other->looks);
}

void ip_stop_log_move(struct ip_stop_log *log, struct ip_stop_log *other, const char *kind)
{
	ip_stop_log_append(log, other, kind);
	ip_stop_log_clear(other);
}

uint64_t ip_stop_log_longest(const struct ip_stop_log *log)
{
	uint64_t longest = log->more_ns;

	for (size_t i = 0; i < log->n; i++)
		longest = longer(longest, log->items[i].ns);
	return longest;
}

void ip_stop_log_split(const struct ip_stop_log *log, struct ip_stop_log *ret_own,
		       struct ip_stop_log *ret_children)
{
	/* Of those that are not listed it is not known which are whose. Without a stop of the
	 * process itself they are children's: holds are few. */
	struct ip_stop_log *rest = log->more_own ? ret_own : ret_children;

	ip_stop_log_clear(ret_own);
	ip_stop_log_clear(ret_children);
	for (size_t i = 0; i < log->n; i++)
		ip_stop_log_add(is_child(log->items[i].kind) ? ret_children : ret_own,
				&log->items[i]);
	rest->more = log->more;
	rest->more_ns = log->more_ns;
	rest->more_own = log->more_own;
}

bool ip_stop_log_only_held(const struct ip_stop_log *log)
{
	bool any = false;

	for (size_t i = 0; i < log->n; i++) {
		if (!log->items[i].held && !is_child(log->items[i].kind))
			return false;
		any |= log->items[i].held;
	}
	return any && !log->more_own;
}

size_t ip_stop_log_failed(const struct ip_stop_log *log)
{
	size_t failed = 0;

	for (size_t i = 0; i < log->n; i++)
		failed += log->items[i].failed;
	return failed;
}

int ip_stop_tell_in_vain(const struct ip_stop_log *log, const char *why)
{
	const size_t failed = ip_stop_log_failed(log);
	uint64_t ns = 0, longest = 0;
	char all[16], most[16];

	if (!failed)
		return ip_error("%s", why);
	for (size_t i = 0; i < log->n; i++) {
		if (!log->items[i].failed)
			continue;
		ns += log->items[i].ns;
		longest = longer(longest, log->items[i].ns);
	}
	return ip_error("%s (its threads stood in vain %zu time%s: %s in all, at most %s)", why,
			failed, failed == 1 ? "" : "s", ip_format_ns(ns, all),
			ip_format_ns(longest, most));
}

void ip_stop_log_clear(struct ip_stop_log *log)
{
	log->n = log->more = 0;
	log->more_ns = log->ns = 0;
	log->more_own = false;
	log->looks = (struct ip_stop_looks){0};
}
