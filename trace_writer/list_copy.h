/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying a probe list into a trace. The list of a large program takes as long to write as its
 * sites take to patch. So a thread of its own writes it, while the lines of its functions are made.
 */
#ifndef IP_LIST_COPY_H
#define IP_LIST_COPY_H

#include <stddef.h>

struct ip_list_copy;

/* Begins to write the bytes to fd, which the copy owns, also if it fails. The bytes are borrowed
 * until ip_list_copy_finish(). A short list is written at once: then *ret is NULL. name: for
 * messages. 0, or -1 with an error. */
int ip_list_copy_start(int fd, const void *bytes, size_t size, const char *name,
		       struct ip_list_copy **ret);

/* Waits until all is written, and frees the copy. 0, or -1 with an error. */
int ip_list_copy_finish(struct ip_list_copy *copy);

#endif
