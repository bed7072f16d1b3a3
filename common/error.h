/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: one line that says what failed, where, and what to do about it.
 *
 * A function that can fail returns a negative value (or NULL) after it has
 * recorded its line with ip_error(). Nothing is printed below cli/: the command
 * prints the line, once, on stderr, prefixed with its own name, and exits with 1.
 * A caller that knows more of the "where" puts it in front with
 * ip_error_prefix(). The line lives in thread-local storage and is overwritten by
 * the next error of the same thread.
 */
#ifndef IP_ERROR_H
#define IP_ERROR_H

#include <stddef.h>

/* Records the line (printf format, no trailing newline). Always returns -1. */
int ip_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, followed by ": " and strerror() of errno as it was at the call. */
int ip_error_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Puts "prefix: " in front of the recorded line. Always returns -1. */
int ip_error_prefix(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The line that this thread recorded last; "" if there was none. Never NULL. Control characters and
 * the like are escaped (common/print.h): names come from files that are not trusted. */
const char *ip_error_message(void);

#endif
