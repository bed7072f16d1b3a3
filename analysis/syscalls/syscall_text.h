/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A system call as a line of text, in the form of strace -y: `read(3</etc/passwd>, 0x7ffe10, 4096)
 * = 512`. Of what lies in the target's memory paths are known, as far as they were recorded
 * (common/trace/call_path.h); other pointers are shown as they are.
 */
#ifndef IP_SYSCALL_TEXT_H
#define IP_SYSCALL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/syscalls/syscall_reader.h"

/* What descriptors and paths were. Either may be NULL. find: the text of a descriptor of the
 * thread's process at a time, "/x", which is valid until the next call; NULL: not known. */
struct ip_syscall_descriptors {
	const char *(*find)(void *context, int32_t tid, int32_t fd, uint64_t tsc);
	/* The path that an argument of a call was, which is one of those that are paths
	 * (ip_syscall_path_arguments()); NULL: not known. Valid until the next call. */
	const char *(*path)(void *context, const struct ip_syscall_call *call, unsigned argument);
	void *context;
};

/* The path that an argument of a call was, among those that were recorded; NULL: not known. */
struct ip_call_paths;
const char *ip_syscall_path(const struct ip_call_paths *paths, const struct ip_syscall_call *call,
			    unsigned argument);

/* Writes the name and the arguments, "close(3)", cut off at size - 1 bytes. Returns ret. */
const char *ip_syscall_text(const struct ip_syscall_call *call,
			    const struct ip_syscall_descriptors *descriptors, char *ret,
			    size_t size);

/* Writes the result: "512", "3</etc/passwd>", "-1 ENOENT (No such file or directory)", "?". */
const char *ip_syscall_result_text(const struct ip_syscall_call *call,
				   const struct ip_syscall_descriptors *descriptors, char *ret,
				   size_t size);

/* The time at which the descriptors are that a call works on: a close(2) closes them when it
 * begins.
 */
uint64_t ip_syscall_before(const struct ip_syscall_call *call);

/* The descriptor that a call works on, or has made; -1: none. */
int32_t ip_syscall_descriptor(const struct ip_syscall_call *call, bool *ret_made);

#endif
