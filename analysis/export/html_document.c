/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes pages around their data.
 */
#include "analysis/export/html_document.h"

#include <time.h>

void ip_html_put_json(FILE *out, const char *json)
{
	for (const char *c = json; *c && *c != '\n'; c++)
		if (*c == '<')
			fputs("\\u003c", out);
		else
			putc(*c, out);
}

void ip_html_start(const struct ip_recording *s, char ret[64])
{
	const time_t start = s->start_realtime / 1000000000;
	struct tm tm;

	*ret = '\0';
	if (s->start_realtime && gmtime_r(&start, &tm))
		strftime(ret, 64, "%Y-%m-%d %H:%M:%S UTC", &tm);
}

void ip_html_document_write(FILE *out, const struct ip_html_parts *page, const char *json)
{
	fputs(page->head, out);
	ip_html_put_json(out, json);
	putc('\n', out);
	fputs(page->tail, out);
}
