/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers in the form in which people write and read them.
 */
#ifndef IP_UNITS_H
#define IP_UNITS_H

#include <stdint.h>

/* Parses "200ms", "10s", "2m", "1h", "5us", "7ns", "1.5s"; a number without a unit is in seconds.
 * The result is in nanoseconds. Returns 0, or -1 with an error (empty, negative, unknown unit,
 * overflow, text after it). */
int ip_parse_duration(const char *text, uint64_t *ret_ns);

/* Parses "64M", "1GiB", "512k", "100" (bytes); powers of 1024. */
int ip_parse_size(const char *text, uint64_t *ret_bytes);

/* Parses a whole decimal process id >= 1. */
int ip_parse_pid(const char *text, int *ret);

/* Writes "123 ns", "4.56 us", "78.9 ms", "1.23 s" (four significant characters, for tables); buffer
 * >= 16. */
char *ip_format_ns(double ns, char *buffer);
/* Writes a whole number of the largest unit that fits, as ip_parse_duration() reads it: "1h",
 * "90s", "1500ms"; buffer >= 24. */
char *ip_format_duration(uint64_t ns, char *buffer);
/* Writes "64.0 MiB"; buffer >= 16. */
char *ip_format_size(uint64_t bytes, char *buffer);
/* Writes 1234567 as "1,234,567"; buffer >= 32. */
char *ip_format_count(uint64_t n, char *buffer);
/* Returns what is put behind a word that counts things: "" for one of them, else "s". */
const char *ip_plural(uint64_t n);

#endif
