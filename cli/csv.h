/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comma-separated values as RFC 4180 has them, but for lines, which end in a newline alone.
 */
#ifndef IP_CLI_CSV_H
#define IP_CLI_CSV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cli_csv {
	FILE *out;
	bool begun; /* the line has a value */
};

void cli_csv_string(struct cli_csv *csv, const char *value); /* NULL: empty */
void cli_csv_uint(struct cli_csv *csv, bool known, uint64_t value);
void cli_csv_double(struct cli_csv *csv, bool known, double value);
void cli_csv_end(struct cli_csv *csv);

#endif
