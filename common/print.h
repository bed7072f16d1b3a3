/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing for people: the only way by which text reaches a terminal or a log.
 *
 * Names come from ELF files, processes, paths, YAML and traces, so they may contain anything:
 * sequences that control the terminal, newlines that forge a line of iprobe, marks that change the
 * direction of the text. What is printed here is harmless. In arguments, each control character
 * (C0, DEL, C1), each byte that is no UTF-8, and each mark of direction is printed as \xNN or
 * \u{NNNN}. The format itself comes from iprobe's code, and is printed as it is.
 * test/repo/test_printing.py checks that no other code writes to stdout and stderr.
 */
#ifndef IP_PRINT_H
#define IP_PRINT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Like fprintf(), but arguments of %s and %c are cleaned. A precision counts bytes before that. */
void ip_print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ip_vprint(FILE *out, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* Prints text of several lines, such as a help text or a worker's output. Newlines and tabs stay;
 * everything else is cleaned. */
void ip_print_lines(FILE *out, const char *text);

/* Writes as much of text as fits into size bytes, cleaned and ended with a zero. Returns the bytes
 * that all of it takes, without the zero. */
size_t ip_escape(char *out, size_t size, const char *text);

/* Cleans text in place: each byte that must not be printed becomes '?'. For columns and formats
 * that have no escapes. */
void ip_clean(char *text);

/* Closes a stream of open_memstream(), which may be NULL. Returns its text, which the caller frees;
 * NULL with an error where memory ran out. text: where the stream has put it. */
char *ip_print_end_text(FILE *out, char **text);

#endif
