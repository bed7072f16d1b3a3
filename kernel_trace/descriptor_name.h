/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a descriptor of another process is, in words: a path; a socket with its addresses; a pipe
 * with the process at its other end, or with its path (fifo.h).
 */
#ifndef IP_DESCRIPTOR_NAME_H
#define IP_DESCRIPTOR_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Tables of sockets that were read, and when. */
struct ip_descriptor_names;

/* Returns NULL where memory ran out. */
struct ip_descriptor_names *ip_descriptor_names_create(void);
void ip_descriptor_names_destroy(struct ip_descriptor_names *names);
/* What was read is old: the tables are read again when they are needed. */
void ip_descriptor_names_renew(struct ip_descriptor_names *names);

/* tid: a thread of the process. *ret_kind: what waiting for it is called (file, socket, pipe,
 * timer, signal, io_uring, poll, other). ret: the words, shortened to size; they may hold anything
 * that a path may. waited: to open it took long, as a FIFO's first end does: then it is looked
 * whether it is one; else only as long as a small share of the time goes to that. Returns 0, or -1:
 * there is no such descriptor any more. */
int ip_descriptor_name(struct ip_descriptor_names *names, pid_t tid, int fd, bool waited,
		       const char **ret_kind, char *ret, size_t size);

#endif
