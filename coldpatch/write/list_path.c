/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the file of a probe list. The layout in a directory is that of separate debug information,
 * so one tree can hold both.
 */
#include "coldpatch/write/list_path.h"

#include "common/cleanup.h"
#include "common/elf/elf_file.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cold_list_path_is_directory(const char *wish)
{
	size_t length = strlen(wish);
	struct stat st;

	return (length && wish[length - 1] == '/') || (stat(wish, &st) == 0 && S_ISDIR(st.st_mode));
}

char *cold_list_path(const char *wish, const uint8_t *build_id, size_t size)
{
	_cleanup_free_ char *name = NULL;
	char *path;

	if (!cold_list_path_is_directory(wish)) {
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
	return path;
}

/* Goes one folder down. The folder is made if it does not exist. links: if it exists, it may be a
 * symbolic link. Returns 0, or -1 with errno. */
static int enter(int *fd, const char *name, bool links)
{
	int flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
	    next = openat(*fd, name, flags | (links ? 0 : O_NOFOLLOW));

	if (next < 0 && errno == ENOENT) {
		if (mkdirat(*fd, name, 0777) < 0 && errno != EEXIST)
			return -1;
		next = openat(*fd, name, flags | O_NOFOLLOW);
	}
	if (next < 0)
		return -1;
	close(*fd);
	*fd = next;
	return 0;
}

int cold_list_path_open(const char *wish, const char *path, struct ip_dir_place *ret)
{
	_cleanup_free_ char *copy = strdup(path);
	_cleanup_close_ int fd = -1;
	char *name, *save = NULL, *next;

	if (!cold_list_path_is_directory(wish))
		return ip_dir_locate(path, ret);
	if (!copy)
		return ip_error("out of memory");
	fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return ip_error_errno("%s", path);
	name = strtok_r(copy, "/", &save);
	while ((next = strtok_r(NULL, "/", &save))) {
		if (enter(&fd, name, (size_t)(name - copy) < strlen(wish)) < 0)
			return errno == ELOOP || errno == ENOTDIR
				       ? ip_error("%s: %s on the way is no directory", path, name)
				       : ip_error_errno("%s: %s on the way cannot be made", path,
							name);
		name = next;
	}
	if (strlen(name) > NAME_MAX)
		return ip_error("%s: the name is too long", path);
	strcpy(ret->name, name);
	ret->parent = ip_steal_fd(&fd);
	return 0;
}
