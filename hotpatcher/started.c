/* SPDX-License-Identifier: Apache-2.0 */
#include "hotpatcher/started.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

uint64_t ip_started_at(pid_t pid)
{
	char name[64], line[1024];
	_cleanup_close_ int fd = -1;
	const char *at;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	if (n <= 0)
		return 0;
	line[n] = '\0';
	at = strrchr(line, ')');	   /* the name may hold anything */
	for (int i = 0; at && i < 20; i++) /* from the second field to the 22nd */
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}
