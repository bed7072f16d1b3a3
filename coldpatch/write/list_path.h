/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the place for a probe list that gets a file of its own.
 */
#ifndef COLD_LIST_PATH_H
#define COLD_LIST_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dir.h"

/* Whether wish is a directory: one that exists, or a name that ends in a slash. In it lists lie by
 * build-id. */
bool cold_list_path_is_directory(const char *wish);

/* Returns the file that wish means for a module: wish itself, or in a directory
 * .build-id/ab/cdef.probes. malloc'ed; NULL with an error. */
char *cold_list_path(const char *wish, const uint8_t *build_id, size_t size);

/* Opens the place of that path, so that a file can be made there. Missing folders on the way are
 * made. Below wish no symbolic link is followed. Returns 0, or -1 with an error. */
int cold_list_path_open(const char *wish, const char *path, struct ip_dir_place *ret);

#endif
