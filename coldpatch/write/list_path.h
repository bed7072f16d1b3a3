/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a probe list of its own goes.
 */
#ifndef COLD_LIST_PATH_H
#define COLD_LIST_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dir.h"

/* A directory (one that exists, or a name that ends in a slash), in which lists lie by build-id. */
bool cold_list_path_is_directory(const char *wish);

/* The file that wish means for a module: wish itself, or in a directory
 * .build-id/ab/cdef.probes. malloc'ed; NULL with an error. */
char *cold_list_path(const char *wish, const uint8_t *build_id, size_t size);

/* Where that is, for a file to be made there; the folders on the way are made. Below wish no
 * symbolic link is followed. 0, or -1 with an error. */
int cold_list_path_open(const char *wish, const char *path, struct ip_dir_place *ret);

#endif
