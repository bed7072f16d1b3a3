/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of pieces, and the names of streams.
 */
#include "common/trace/trace_segments.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/trace/packet_codec.h"

#define FIELDS 7

void ip_trace_segment_format(const struct ip_trace_segment *p, char line[IP_TRACE_SEGMENT_LINE])
{
	int n = snprintf(line, IP_TRACE_SEGMENT_LINE,
			 "piece\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
			 "\t%" PRIu64 "\t%" PRIu64,
			 p->number, p->first, p->tsc, p->packets, p->bytes, p->events, p->lost);

	memset(line + n, ' ', IP_TRACE_SEGMENT_LINE - 1 - n);
	line[IP_TRACE_SEGMENT_LINE - 1] = '\n';
}

/* Parses one tab and one number, and moves *text behind them. */
static bool parse_number(const char **text, uint64_t max, uint64_t *ret)
{
	char *end;

	if (**text != '\t' || !isdigit((unsigned char)(*text)[1]))
		return false;
	errno = 0;
	*ret = strtoull(*text + 1, &end, 10);
	*text = end;
	return !errno && *ret <= max;
}

static bool parse_line(const char *at, struct ip_trace_segment *ret)
{
	char line[IP_TRACE_SEGMENT_LINE];
	const char *rest = line + strlen("piece");
	uint64_t n[FIELDS];

	memcpy(line, at, sizeof(line));
	if (line[IP_TRACE_SEGMENT_LINE - 1] != '\n' || strncmp(line, "piece", strlen("piece")))
		return false;
	line[IP_TRACE_SEGMENT_LINE - 1] = '\0';
	for (size_t i = 0; i < FIELDS; i++)
		if (!parse_number(&rest, i < 2 ? UINT32_MAX - 1 : UINT64_MAX, &n[i]))
			return false;
	if (rest[strspn(rest, " ")])
		return false;
	*ret = (struct ip_trace_segment){n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
	return true;
}

/* Whether a may have come before b. */
static bool is_before(const struct ip_trace_segment *a, const struct ip_trace_segment *b)
{
	return a->first <= b->first && a->tsc <= b->tsc && a->packets <= b->packets &&
	       a->bytes <= b->bytes && a->events <= b->events && a->lost <= b->lost;
}

int ip_trace_segments_parse(const char *name, const char *text, size_t size,
			    struct ip_trace_segments *ret)
{
	bool there[IP_TRACE_SEGMENTS_ROOM] = {0}, any = false;
	const struct ip_trace_segment *newest;

	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0;
	     i < IP_TRACE_SEGMENTS_ROOM && (i + 1ull) * IP_TRACE_SEGMENT_LINE <= size; i++) {
		struct ip_trace_segment p;

		if (!parse_line(text + (size_t)i * IP_TRACE_SEGMENT_LINE, &p) ||
		    p.number % IP_TRACE_SEGMENTS_ROOM != i)
			continue;
		ret->items[i] = p;
		ret->newest = any && ret->newest > p.number ? ret->newest : p.number;
		there[i] = any = true;
	}
	if (!any)
		return ip_error("%s: no table of pieces", name);
	newest = ip_trace_segments_newest(ret);
	if (newest->first > newest->number ||
	    newest->number - newest->first >= IP_TRACE_SEGMENTS_MAX)
		return ip_error("%s: piece %" PRIu32 " says what cannot be: the table is damaged",
				name, newest->number);
	for (uint32_t n = newest->first; n <= newest->number; n++) {
		const struct ip_trace_segment *p = ip_trace_segment_at(ret, n);

		if (!there[n % IP_TRACE_SEGMENTS_ROOM] || p->number != n ||
		    (n > newest->first && !is_before(ip_trace_segment_at(ret, n - 1), p)))
			return ip_error("%s: the line of piece %" PRIu32
					" is missing or makes no sense: the table is damaged",
					name, n);
	}
	return 0;
}

void ip_stream_name_format(const struct ip_stream_name *name, char ret[IP_STREAM_NAME_MAX])
{
	int n = snprintf(ret, IP_STREAM_NAME_MAX, "stream-%" PRIu32, name->slot);

	if (name->in_pieces)
		n += snprintf(ret + n, IP_STREAM_NAME_MAX - n, "-%" PRIu32, name->piece);
	if (name->compressed)
		snprintf(ret + n, IP_STREAM_NAME_MAX - n, "%s", IP_ENCODED_PACKET_SUFFIX);
}

/* Parses a hyphen and a number, and moves *text behind them. */
static bool parse_part(const char **text, uint32_t *ret)
{
	unsigned long long n;
	char *end;

	if (**text != '-' || !isdigit((unsigned char)(*text)[1]))
		return false;
	errno = 0;
	n = strtoull(*text + 1, &end, 10);
	*text = end;
	*ret = n;
	return !errno && n <= UINT32_MAX;
}

bool ip_stream_name_parse(const char *text, struct ip_stream_name *ret)
{
	*ret = (struct ip_stream_name){0};
	if (strncmp(text, "stream", strlen("stream")))
		return false;
	text += strlen("stream");
	if (!parse_part(&text, &ret->slot))
		return false;
	ret->in_pieces = *text == '-';
	if (ret->in_pieces && !parse_part(&text, &ret->piece))
		return false;
	ret->compressed = *text;
	return !*text || !strcmp(text, IP_ENCODED_PACKET_SUFFIX);
}
