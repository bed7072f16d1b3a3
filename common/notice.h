/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices: lines that the engine reports while it works, besides its result: what it could not do,
 * what it keeps trying, what the target has done.
 *
 * Nothing below cli/ prints. The command that runs the engine sets where notices go; until then
 * they are dropped. Arguments are cleaned as by ip_print() (print.h). A notice may come from any
 * thread.
 */
#ifndef IP_NOTICE_H
#define IP_NOTICE_H

#include <stdbool.h>
#include <sys/types.h>

/* Reports a line (printf format, no trailing newline) in the name of iprobe. */
void ip_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same about one process, behind "pid N: ". Where others may say the same of theirs, it is
 * reported once: ip_notice_ask(). */
void ip_notice_of(pid_t pid, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets who tells whether a text of ip_notice_of(), without the pid, has been reported before; NULL:
 * none has. */
void ip_notice_ask(bool (*told_before)(const char *text));

/* The same as ip_notice() in the name of another program; who is a static text such as "iprobed".
 */
void ip_notice_from(const char *who, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the function that receives the notices; NULL: notices are dropped. text is harmless on a
 * terminal, and has no newline. */
void ip_notice_to(void (*tell)(const char *who, const char *text));

#endif
