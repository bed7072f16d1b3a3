/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights of a process, so far as its children may come to differ from it: users, groups,
 * capabilities, user namespace.
 */
#ifndef IP_THREAD_CREDENTIALS_H
#define IP_THREAD_CREDENTIALS_H

#include <stdbool.h>
#include <sys/types.h>

/* The credentials as text, for comparison. */
struct ip_credentials {
	char text[16384];
};

/* Reads the credentials of one thread. A process id stands for the process's first thread. Returns
 * 0, or -1 if the process does not exist, or if its credentials cannot all be read or kept
 * (thousands of groups). After -1, ret is unchanged. */
int ip_credentials_read(pid_t pid, struct ip_credentials *ret);

/* Whether all threads that this call looks at have the credentials `same`, as far as can be known.
 * It looks at no more than `most` threads, from number *at on, in the order of /proc. Then *at says
 * where to go on; it is 0 after the last thread. The kernel keeps credentials by thread: a system
 * call changes only those of the thread that makes it. */
bool ip_credentials_of_threads_are(pid_t pid, const struct ip_credentials *same, unsigned most,
				   unsigned *at);

bool ip_credentials_are_same(const struct ip_credentials *a, const struct ip_credentials *b);

#endif
