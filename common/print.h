/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing for people: the one way by which text reaches a terminal or a log.
 *
 * Names come from ELF files, processes, paths, YAML and traces, so they may hold anything:
 * sequences that steer the terminal, newlines that forge a line of ours, marks that turn the
 * direction of the text. What is printed here is harmless: in arguments each control character (C0,
 * DEL, C1), each byte that is no UTF-8 and each mark of direction stands as \xNN or \u{NNNN}. The
 * format itself is ours, and is written as it is. test/repo/test_printing.py holds that nothing
 * else writes to stdout and stderr.
 */
#ifndef IP_PRINT_H
#define IP_PRINT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* As fprintf(); but arguments of %s and %c are cleaned. A precision counts bytes before that. */
void ip_print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ip_vprint(FILE *out, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* Text of several lines, a help or what a worker said: newlines and tabs stay, all else is
 * cleaned. */
void ip_print_lines(FILE *out, const char *text);

/* As much of text as fits into size bytes, cleaned and ended with a zero. Returns the bytes that
 * all of it takes, without the zero. */
size_t ip_escape(char *out, size_t size, const char *text);

/* Makes text harmless in place: each byte that must not be printed becomes '?'. For columns and
 * formats that have no escapes. */
void ip_clean(char *text);

#endif
