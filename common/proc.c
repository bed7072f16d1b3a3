/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what the kernel tells of a process in /proc.
 */
#include "common/proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

long ip_proc_status(pid_t pid, const char *key)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[512];
	size_t length = strlen(key);

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, length) && line[length] == ':')
			return strtol(line + length + 1, NULL, 10);
	return -1;
}
