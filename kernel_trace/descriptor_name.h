/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a descriptor of another process is, in words: a path; a socket with its addresses; a pipe
 * with the process at its other end.
 */
#ifndef IP_DESCRIPTOR_NAME_H
#define IP_DESCRIPTOR_NAME_H

#include <stddef.h>
#include <sys/types.h>

/* tid: a thread of the process. *ret_kind: what waiting for it is called (file, socket, pipe,
 * timer, signal, io_uring, poll, other). ret: the words, shortened to size; they may hold anything
 * that a path may. Returns 0, or -1: there is no such descriptor any more. */
int ip_descriptor_name(pid_t tid, int fd, const char **ret_kind, char *ret, size_t size);

#endif
