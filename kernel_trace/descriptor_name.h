/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a descriptor of another process is, in words: a path; a socket with its addresses; a pipe
 * with the process at its other end.
 */
#ifndef IP_DESCRIPTOR_NAME_H
#define IP_DESCRIPTOR_NAME_H

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
 * that a path may. Returns 0, or -1: there is no such descriptor any more. */
int ip_descriptor_name(struct ip_descriptor_names *names, pid_t tid, int fd, const char **ret_kind,
		       char *ret, size_t size);

#endif
