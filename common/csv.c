/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes comma-separated values.
 */
#include "common/csv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/print.h"

static void next(struct ip_csv *csv)
{
	if (csv->begun)
		ip_print(csv->out, ",");
	csv->begun = true;
}

void ip_csv_string(struct ip_csv *csv, const char *value)
{
	_cleanup_free_ char *text = value ? strdup(value) : NULL;

	next(csv);
	if (!text)
		return;
	ip_clean(text);
	if (!text[strcspn(text, ",\"")]) {
		ip_print(csv->out, "%s", text);
		return;
	}
	ip_print(csv->out, "\"");
	for (const char *p = text; *p;) {
		int n = strcspn(p, "\"");

		ip_print(csv->out, "%.*s%s", n, p, p[n] ? "\"\"" : "");
		p += p[n] ? n + 1 : n;
	}
	ip_print(csv->out, "\"");
}

void ip_csv_uint(struct ip_csv *csv, bool known, uint64_t value)
{
	next(csv);
	if (known)
		ip_print(csv->out, "%" PRIu64, value);
}

void ip_csv_double(struct ip_csv *csv, bool known, double value)
{
	next(csv);
	if (known && isfinite(value))
		ip_print(csv->out, "%.6g", value);
}

void ip_csv_end(struct ip_csv *csv)
{
	ip_print(csv->out, "\n");
	csv->begun = false;
}
