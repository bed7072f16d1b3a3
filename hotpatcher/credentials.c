/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading credentials from /proc. See credentials.h.
 */
#include "hotpatcher/credentials.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

static bool tells(const char *line)
{
	static const char *const names[] = {"Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:", "CapAmb:"};

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
		/* thousands of groups: what is not compared is not known to be the same */
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
