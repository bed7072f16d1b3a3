/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a descriptor is from /proc. Nothing is borrowed from the process: a copy of its
 * descriptor would keep a connection open that it closes meanwhile.
 */
#include "kernel_trace/descriptor_name.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/now.h"
#include "common/proc.h"

#define SEARCH_NS 1000000000ull /* between two searches for the other end of a pipe, at least */

/* Names that the kernel gives to files without a path, and what waiting for them is. */
static const struct {
	const char *name, *kind;
} anonymous[] = {{"anon_inode:[eventpoll]", "poll"},   {"anon_inode:[timerfd]", "timer"},
		 {"anon_inode:[signalfd]", "signal"},  {"anon_inode:[io_uring]", "io_uring"},
		 {"anon_inode:[eventfd]", "other"},    {"anon_inode:[pidfd]", "child"},
		 {"anon_inode:[userfaultfd]", "fault"}};

/* "0100007F:1F90", as /proc/net/tcp has it: words of the machine's byte order. */
static bool put_address(const char *hex, char ret[INET6_ADDRSTRLEN + 10])
{
	const char *colon = strchr(hex, ':');
	uint32_t words[4];
	unsigned port;
	size_t n = colon ? (size_t)(colon - hex) / 8 : 0;
	char text[INET6_ADDRSTRLEN];

	if ((n != 1 && n != 4) || (size_t)(colon - hex) != n * 8 ||
	    sscanf(colon + 1, "%x", &port) != 1)
		return false;
	for (size_t i = 0; i < n; i++)
		if (sscanf(hex + 8 * i, "%8x", &words[i]) != 1)
			return false;
	if (!inet_ntop(n == 1 ? AF_INET : AF_INET6, words, text, sizeof(text)))
		return false;
	snprintf(ret, INET6_ADDRSTRLEN + 10, n == 1 ? "%s:%u" : "[%s]:%u", text, port & 0xffff);
	return true;
}

/* A line of /proc/net/tcp or udp: slot, local address, remote address, ..., inode. */
static bool take_inet(char *line, const char *protocol, unsigned long inode, char *ret, size_t size)
{
	char local[64], remote[64], from[INET6_ADDRSTRLEN + 10], to[INET6_ADDRSTRLEN + 10];
	unsigned long found;

	if (sscanf(line, "%*s %63s %63s %*s %*s %*s %*s %*s %*s %lu", local, remote, &found) != 3 ||
	    found != inode || !put_address(local, from) || !put_address(remote, to))
		return false;
	if (strspn(remote, "0:") == strlen(remote))
		snprintf(ret, size, "%s %s", protocol, from);
	else
		snprintf(ret, size, "%s %s - %s", protocol, from, to);
	return true;
}

/* A line of /proc/net/unix: ..., inode, path. */
static bool take_unix(char *line, const char *protocol, unsigned long inode, char *ret, size_t size)
{
	unsigned long found;
	int n = 0;

	if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu%n", &found, &n) != 1 || found != inode)
		return false;
	line[strcspn(line, "\n")] = '\0';
	line += n + strspn(line + n, " ");
	if (*line)
		snprintf(ret, size, "%s %s", protocol, line);
	else
		snprintf(ret, size, "%s socket %lu", protocol, inode);
	return true;
}

static void put_socket(pid_t tid, unsigned long inode, char *ret, size_t size)
{
	static const struct {
		const char *file, *protocol;
		bool (*take)(char *, const char *, unsigned long, char *, size_t);
	} tables[] = {{"tcp", "tcp", take_inet},
		      {"tcp6", "tcp", take_inet},
		      {"unix", "unix", take_unix},
		      {"udp", "udp", take_inet},
		      {"udp6", "udp", take_inet}};
	char path[64], line[512];

	snprintf(ret, size, "socket %lu", inode);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		_cleanup_fclose_ FILE *file = NULL;

		snprintf(path, sizeof(path), "/proc/%d/net/%s", tid, tables[i].file);
		file = fopen(path, "re");
		while (file && fgets(line, sizeof(line), file))
			if (tables[i].take(line, tables[i].protocol, inode, ret, size))
				return;
	}
}

/* Whether a process has a descriptor with that name. */
static bool has(int proc, const char *pid, const char *name)
{
	char path[64], link[64];
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	int fd;

	snprintf(path, sizeof(path), "%.10s/fd", pid);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while ((entry = readdir(dir))) {
		ssize_t n = readlinkat(fd, entry->d_name, link, sizeof(link) - 1);

		if (n > 0 && (size_t)n == strlen(name) && !memcmp(link, name, n))
			return true;
	}
	return false;
}

/* The process at the other end of a pipe, where one is found: the search reads the descriptors of
 * all processes, so it is not made often. */
static void put_pipe(pid_t own, const char *name, char *ret, size_t size)
{
	static uint64_t searched_ns;
	const uint64_t now = ip_now_ns();
	_cleanup_closedir_ DIR *proc = NULL;
	const struct dirent *entry;

	snprintf(ret, size, "%s", name);
	if (searched_ns && now - searched_ns < SEARCH_NS)
		return;
	proc = opendir("/proc");
	while (proc && (entry = readdir(proc))) {
		const pid_t pid = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;

		if (!pid || pid == own || !has(dirfd(proc), entry->d_name, name))
			continue;
		snprintf(ret, size, "%s with pid %s", name, IP_THREAD_TEXT(pid));
		break;
	}
	searched_ns = ip_now_ns();
}

int ip_descriptor_name(pid_t tid, int fd, const char **ret_kind, char *ret, size_t size)
{
	char path[64], link[512];
	unsigned long inode;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, fd);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return -1;
	link[n] = '\0';
	*ret_kind = "file";
	snprintf(ret, size, "%s", link);
	if (sscanf(link, "socket:[%lu]", &inode) == 1) {
		*ret_kind = "socket";
		put_socket(tid, inode, ret, size);
	} else if (!strncmp(link, "pipe:[", 6)) {
		*ret_kind = "pipe";
		put_pipe(ip_proc_status(tid, "Tgid"), link, ret, size);
	} else if (!strncmp(link, "anon_inode:", 11)) {
		*ret_kind = "other";
		for (size_t i = 0; i < sizeof(anonymous) / sizeof(anonymous[0]); i++)
			if (!strcmp(link, anonymous[i].name))
				*ret_kind = anonymous[i].kind;
	}
	return 0;
}
