/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes comma-separated values as in RFC 4180, but a line ends in a newline only.
 */
#ifndef IP_CLI_CSV_H
#define IP_CLI_CSV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cli_csv {
	FILE *out;
	bool begun; /* the line has a value already */
};

void cli_csv_string(struct cli_csv *csv, const char *value); /* NULL: empty */
void cli_csv_uint(struct cli_csv *csv, bool known, uint64_t value);
void cli_csv_double(struct cli_csv *csv, bool known, double value);
void cli_csv_end(struct cli_csv *csv);

#endif
