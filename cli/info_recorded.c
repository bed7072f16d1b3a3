/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the selections, filters and payloads of a session.
 */
#include "cli/info_recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/members.h"
#include "analysis/read/names.h"
#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/print.h"
#include "common/units.h"
#include "session/session.h"

static const char *const kinds[] = {[IP_RECORDING_LOG] = "log",
				    [IP_RECORDING_COUNT] = "count",
				    [IP_RECORDING_HIST] = "hist",
				    [IP_RECORDING_USER] = "user"};

#define KINDS (sizeof(kinds) / sizeof(*kinds))

/* Counts functions by payload. A function whose instances had different payloads counts for
 * each. */
static void count(const struct ip_recording *s, uint64_t ret[KINDS])
{
	_cleanup_free_ uint8_t *done = calloc(s->nfunctions, sizeof(*done));

	for (size_t i = 0; i < KINDS; i++)
		ret[i] = 0;
	for (size_t i = 0; done && i < s->nnumbers; i++) {
		const struct ip_recording_number *n = &s->numbers[i];

		if (!n->function || n->payload >= KINDS || done[n->function] & 1 << n->payload)
			continue;
		done[n->function] |= 1 << n->payload;
		ret[n->payload]++;
	}
}

static void print_texts(const char *name, const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		ip_print(stdout, "%-10s ", name);
		ip_print(stdout, "%s", *texts[i] ? texts[i] : "all");
		ip_print(stdout, "\n");
	}
}

void cli_info_recorded(const struct ip_recording *s)
{
	uint64_t n[KINDS];
	char number[32];

	print_texts("selection", s->selections, s->nselections);
	print_texts("filter", s->filters, s->nfilters);
	if (!s->payloads)
		return;
	count(s, n);
	for (size_t i = 0; i < KINDS; i++)
		if (n[i])
			ip_print(stdout, "%-10s %s: %s function%s\n", "payload", kinds[i],
				 ip_format_count(n[i], number), n[i] == 1 ? "" : "s");
}

static void json_texts(struct ip_json *j, const char *key, const char *const *texts, size_t n)
{
	ip_json_array(j, key);
	for (size_t i = 0; i < n; i++)
		ip_json_string(j, NULL, texts[i]);
	ip_json_end_array(j);
}

void cli_info_recorded_json(struct ip_json *j, const struct ip_recording *s)
{
	uint64_t n[KINDS];

	json_texts(j, "selections", s->selections, s->nselections);
	json_texts(j, "filters", s->filters, s->nfilters);
	count(s, n);
	ip_json_object(j, "payloads");
	for (size_t i = 0; i < KINDS; i++)
		ip_json_uint(j, kinds[i], n[i]);
	ip_json_end_object(j);
}

bool cli_info_early(const struct ip_recording *s, char *text, size_t size)
{
	const enum ip_end_reason end = ip_end_reason_of(s->end);
	bool early = ip_end_reason_is_early(end);
	char bytes[16];

	if (early && s->limit && end == IP_END_SIZE_LIMIT)
		snprintf(text, size, "ended early: %s (%s, %s)", s->end,
			 ip_format_size(s->limit, bytes), s->limit_by);
	else if (early)
		snprintf(text, size, "ended early: %s", s->end);
	return early;
}

/* Returns " in pid 4711 (nginx)", "" for a trace of one process. */
static const char *in_process(const struct ip_recording *s, char buffer[64])
{
	const char *name;
	uint32_t pid;

	*buffer = '\0';
	if (!s->members)
		return buffer;
	pid = s->members->items[s->end_member].pid;
	name = ip_recording_thread_name(s, s->end_member, pid);
	if (name && *name)
		snprintf(buffer, 64, " in pid %u (%.32s)", pid, name);
	else
		snprintf(buffer, 64, " in pid %u", pid);
	return buffer;
}

bool cli_info_condition(const struct ip_recording *s, char *text, size_t size)
{
	char in[64];

	if (s->until && s->end)
		snprintf(text, size, "--until %.300s was met%s: %s", s->until, in_process(s, in),
			 s->end);
	else if (s->members && ip_end_reason_of(s->end) == IP_END_STOP_ON)
		snprintf(text, size, "%s%s", s->end, in_process(s, in));
	else
		return false;
	return true;
}

void cli_info_early_json(struct ip_json *j, const struct ip_recording *s)
{
	char text[256];

	ip_json_bool(j, "ended_early", cli_info_early(s, text, sizeof(text)));
	if (s->until && s->end)
		ip_json_string(j, "until_condition", s->until);
	if (s->members && s->end)
		ip_json_uint(j, "end_pid", s->members->items[s->end_member].pid);
	if (!s->limit)
		return;
	ip_json_uint(j, "limit_bytes", s->limit);
	ip_json_string(j, "limit_by", s->limit_by);
}
