/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naming the file of a probe list. The layout in a directory is that of separate debug information, so that one tree can hold
 * both.
 */
#include "coldpatch/list_place.h"

#include "common/cleanup.h"
#include "common/elf_file.h"
#include "common/error.h"
#include "common/probe_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool cold_list_place_is_directory(const char *wish)
{
	size_t length = strlen(wish);
	struct stat st;

	return (length && wish[length - 1] == '/') || (stat(wish, &st) == 0 && S_ISDIR(st.st_mode));
}

/* mkdir -p of the folder that holds path. */
static int make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0777) && errno != EEXIST) {
			ip_error_errno("%s: cannot be made", path);
			*slash = '/';
			return -1;
		}
		*slash = '/';
	}
	return 0;
}

char *cold_list_place(const char *wish, const uint8_t *build_id, size_t size, bool make)
{
	_cleanup_free_ char *name = NULL;
	char *path;

	if (!cold_list_place_is_directory(wish)) {
		path = strdup(wish);
		if (!path)
			ip_error("out of memory");
		return path;
	}
	name = ip_probe_list_file_name(build_id, size);
	if (!name || asprintf(&path, "%s/%s", wish, name) < 0) {
		ip_error("out of memory");
		return NULL;
	}
	if (make && make_folders(path) < 0) {
		free(path);
		return NULL;
	}
	return path;
}
