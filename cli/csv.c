/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing comma-separated values.
 */
#include "cli/csv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void next(struct cli_csv *csv)
{
	if (csv->begun)
		putc(',', csv->out);
	csv->begun = true;
}

void cli_csv_string(struct cli_csv *csv, const char *value)
{
	next(csv);
	if (!value)
		return;
	if (!value[strcspn(value, ",\"\r\n")]) {
		fputs(value, csv->out);
		return;
	}
	putc('"', csv->out);
	for (; *value; value++) {
		if (*value == '"')
			putc('"', csv->out);
		putc(*value, csv->out);
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
