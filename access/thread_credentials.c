/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading credentials from /proc. See thread_credentials.h.
 */
#include "access/thread_credentials.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"

static bool tells(const char *line)
{
	static const char *const names[] = {
		"Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:", "CapAmb:"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(line, names[i], strlen(names[i])))
			return true;
	return false;
}

int ip_credentials_read(pid_t pid, struct ip_credentials *ret)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	struct ip_credentials found;
	size_t size = 0, n = 0;
	char name[64];
	bool users = false;
	ssize_t got;

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	file = fopen(name, "re");
	while (file && (got = getline(&line, &size, file)) > 0) {
		if (!tells(line))
			continue;
		/* Thousands of groups do not fit. Credentials that cannot be compared are not known
		 * to be the same. */
		if (n + got >= sizeof(found.text))
			return -1;
		memcpy(found.text + n, line, got);
		n += got;
		users |= !strncmp(line, "Uid:", 4);
	}
	if (!users)
		return -1;
	snprintf(name, sizeof(name), "/proc/%d/ns/user", pid);
	got = readlink(name, found.text + n, sizeof(found.text) - n);
	if (got <= 0 || n + got == sizeof(found.text))
		return -1;
	found.text[n + got] = '\0';
	*ret = found;
	return 0;
}

bool ip_credentials_are_same(const struct ip_credentials *a, const struct ip_credentials *b)
{
	return !strcmp(a->text, b->text);
}

static bool is_there(pid_t pid, pid_t tid)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%d", pid, tid);
	return ip_access(name, F_OK) == 0;
}

bool ip_credentials_of_threads_are(pid_t pid, const struct ip_credentials *same, unsigned most,
				   unsigned *at)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct ip_credentials theirs;
	struct dirent *entry;
	unsigned number = 0;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	if (!dir)
		return false;
	while ((entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (!tid || number++ < *at)
			continue;
		if (number - *at > most) {
			*at = number - 1;
			return true;
		}
		if (ip_credentials_read(tid, &theirs) == 0 ? !ip_credentials_are_same(&theirs, same)
							   : is_there(pid, tid))
			return false;
	}
	*at = 0;
	return true;
}
