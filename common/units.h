/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as people write and read them.
 */
#ifndef IP_UNITS_H
#define IP_UNITS_H

#include <stdint.h>

/* "200ms", "10s", "2m", "1h", "5us", "7ns", "1.5s"; a bare number is seconds. Result in
 * nanoseconds; 0 or -1 with an error (empty, negative, unknown unit, overflow, trailing text). */
int ip_parse_duration(const char *text, uint64_t *ret_ns);

/* "64M", "1GiB", "512k", "100" (bytes); powers of 1024. */
int ip_parse_size(const char *text, uint64_t *ret_bytes);

/* A whole decimal process id >= 1. */
int ip_parse_pid(const char *text, int *ret);

/* "123 ns", "4.56 us", "78.9 ms", "1.23 s" (four significant characters, for tables); buffer >=
 * 16. */
char *ip_format_ns(double ns, char *buffer);
/* "64.0 MiB"; buffer >= 16. */
char *ip_format_size(uint64_t bytes, char *buffer);
/* 1234567 -> "1,234,567"; buffer >= 32. */
char *ip_format_count(uint64_t n, char *buffer);

#endif
