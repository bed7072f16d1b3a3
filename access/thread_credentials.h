/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process may, as far as its children may come to differ from it: users, groups,
 * capabilities, user namespace.
 */
#ifndef IP_THREAD_CREDENTIALS_H
#define IP_THREAD_CREDENTIALS_H

#include <stdbool.h>
#include <sys/types.h>

/* As text, to be compared. */
struct ip_credentials {
	char text[16384];
};

/* Of one thread; a process's id stands for its first. 0; -1 where the process is not there, or not
 * all can be seen or kept (thousands of groups): ret stays as it was. */
int ip_credentials_read(pid_t pid, struct ip_credentials *ret);

/* Whether all threads of the process that are looked at have these, as far as can be known: at
 * most `most` of them, from number *at on, in the order of /proc; then *at says where to go on,
 * 0 after the last. The kernel keeps credentials by thread: a system call of one changes its own
 * alone. */
bool ip_credentials_of_threads_are(pid_t pid, const struct ip_credentials *same, unsigned most,
				   unsigned *at);

bool ip_credentials_are_same(const struct ip_credentials *a, const struct ip_credentials *b);

#endif
