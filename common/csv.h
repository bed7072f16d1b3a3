/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes comma-separated values as in RFC 4180, but a line ends in a newline only.
 */
#ifndef IP_CSV_H
#define IP_CSV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct ip_csv {
	FILE *out;
	bool begun; /* the line has a value already */
};

void ip_csv_string(struct ip_csv *csv, const char *value); /* NULL: empty */
void ip_csv_uint(struct ip_csv *csv, bool known, uint64_t value);
void ip_csv_double(struct ip_csv *csv, bool known, double value);
void ip_csv_end(struct ip_csv *csv);

#endif
