/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing comma-separated values.
 */
#include "cli/csv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/names.h"
#include "common/cleanup.h"

static void next(struct cli_csv *csv)
{
	if (csv->begun)
		putc(',', csv->out);
	csv->begun = true;
}

void cli_csv_string(struct cli_csv *csv, const char *value)
{
	_cleanup_free_ char *text = value ? strdup(value) : NULL;

	next(csv);
	if (!text)
		return;
	ip_clean(text);
	if (!text[strcspn(text, ",\"")]) {
		fputs(text, csv->out);
		return;
	}
	putc('"', csv->out);
	for (const char *p = text; *p; p++) {
		if (*p == '"')
			putc('"', csv->out);
		putc(*p, csv->out);
	}
	putc('"', csv->out);
}

void cli_csv_uint(struct cli_csv *csv, bool known, uint64_t value)
{
	next(csv);
	if (known)
		fprintf(csv->out, "%" PRIu64, value);
}

void cli_csv_double(struct cli_csv *csv, bool known, double value)
{
	next(csv);
	if (known && isfinite(value))
		fprintf(csv->out, "%.6g", value);
}

void cli_csv_end(struct cli_csv *csv)
{
	putc('\n', csv->out);
	csv->begun = false;
}
