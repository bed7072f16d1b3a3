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

/* Reports a line (printf format, no trailing newline) in the name of iprobe. */
void ip_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same in the name of another program; who is a static text such as "iprobed". */
void ip_notice_from(const char *who, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the function that receives the notices; NULL: notices are dropped. text is harmless on a
 * terminal, and has no newline. */
void ip_notice_to(void (*tell)(const char *who, const char *text));

#endif
