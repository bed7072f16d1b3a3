/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a descriptor is from /proc. Nothing is borrowed from the process: a copy of its
 * descriptor would keep a connection open that it closes meanwhile.
 *
 * The kernel's tables of sockets are read once for many descriptors. Those of tcp and udp have
 * numbers alone. That of unix sockets is asked for by netlink (unix_sockets.h), which answers for
 * our own network namespace: elsewhere such a socket is named by its own number only. It is read
 * whole. Where that takes long, since there are many of them, a twentieth of the time goes to it at
 * most, and a socket that was made since is named by its own number.
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
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/now.h"
#include "common/proc.h"
#include "kernel_trace/fifo.h"
#include "kernel_trace/unix_sockets.h"

#define SEARCH_NS      1000000000ull /* at least, between searches for the other end of a pipe */
#define SEARCH_MOST    4000u	     /* descriptors that a search looks at */
#define UNIX_SHARE     20	     /* one part in so many of the time goes to their table, */
#define UNIX_SOUGHT_NS 50000000ull   /* between two readings for one that was not found */
#define UNIX_QUICK_NS  500000u	     /* unless it takes no longer than this */
#define FIFO_SHARE     50	     /* one part in so many of the time goes to looks for them */
#define LINES_MOST     100000u	     /* of a table of sockets */
#define WORDS	       (2 * (INET6_ADDRSTRLEN + 10) + 8)

struct socket_words {
	unsigned long inode;
	char words[WORDS];
};

struct ip_descriptor_names {
	struct socket_words *sockets; /* by inode */
	size_t n;
	struct ip_unix_sockets unix_sockets;
	uint64_t unix_again_ns;	 /* when they may be read again */
	uint64_t unix_sought_ns; /* and when for the sake of one that was not found */
	bool own_space;		 /* the network namespace is ours */
	bool read_again;	 /* for one that was not found, since they were renewed */
	ino_t space;		 /* the network namespace that they are of; 0: they were not read */
	uint64_t searched_ns;
	uint64_t fifo_again_ns; /* when it may be looked for one again */
};

/* Names that the kernel gives to files without a path, and what waiting for them is. */
static const struct {
	const char *name, *kind;
} anonymous[] = {{"anon_inode:[eventpoll]", "poll"},  {"anon_inode:[timerfd]", "timer"},
		 {"anon_inode:[signalfd]", "signal"}, {"anon_inode:[io_uring]", "io_uring"},
		 {"anon_inode:[pidfd]", "child"},     {"anon_inode:[userfaultfd]", "fault"}};

struct ip_descriptor_names *ip_descriptor_names_create(void)
{
	return calloc(1, sizeof(struct ip_descriptor_names));
}

static void forget_sockets(struct ip_descriptor_names *names)
{
	free(names->sockets);
	names->sockets = NULL;
	names->n = names->space = 0;
}

void ip_descriptor_names_renew(struct ip_descriptor_names *names)
{
	forget_sockets(names);
	names->read_again = false;
}

void ip_descriptor_names_destroy(struct ip_descriptor_names *names)
{
	if (!names)
		return;
	ip_descriptor_names_renew(names);
	free(names->unix_sockets.items);
	free(names);
}

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

/* A line of a table: slot, local address, remote address, ..., inode. */
static bool take_line(const char *line, const char *protocol, struct socket_words *ret)
{
	char local[64], remote[64], from[INET6_ADDRSTRLEN + 10], to[INET6_ADDRSTRLEN + 10];

	if (sscanf(line, "%*s %63s %63s %*s %*s %*s %*s %*s %*s %lu", local, remote, &ret->inode) !=
		    3 ||
	    !ret->inode || !put_address(local, from) || !put_address(remote, to))
		return false;
	if (strspn(remote, "0:") == strlen(remote))
		snprintf(ret->words, sizeof(ret->words), "%s %s", protocol, from);
	else
		snprintf(ret->words, sizeof(ret->words), "%s %s - %s", protocol, from, to);
	return true;
}

static int by_inode(const void *left, const void *right)
{
	const struct socket_words *a = left, *b = right;

	return a->inode < b->inode ? -1 : a->inode > b->inode;
}

static void read_unix_sockets(struct ip_descriptor_names *names, bool sought)
{
	uint64_t begin, took;

	/* for one that was not found the table is read before its time, but not all the time */
	if (ip_now_ns() < names->unix_again_ns) {
		if (!sought || ip_now_ns() < names->unix_sought_ns)
			return;
		names->unix_sought_ns = ip_now_ns() + UNIX_SOUGHT_NS;
	}
	begin = ip_thread_cpu_ns();
	free(names->unix_sockets.items);
	ip_unix_sockets_read(LINES_MOST, &names->unix_sockets);
	took = ip_thread_cpu_ns() - begin;
	names->unix_again_ns = took > UNIX_QUICK_NS ? ip_now_ns() + UNIX_SHARE * took : 0;
}

/* Reads the sockets of a thread's network namespace, unless they were read. */
static void read_sockets(struct ip_descriptor_names *names, pid_t tid, bool sought)
{
	static const char *const tables[] = {"tcp", "tcp6", "udp", "udp6"};
	char path[64], line[512];
	struct stat space, own;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", tid);
	if (stat(path, &space) < 0 || space.st_ino == names->space)
		return;
	forget_sockets(names);
	names->space = space.st_ino;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		_cleanup_fclose_ FILE *file = NULL;

		snprintf(path, sizeof(path), "/proc/%d/net/%s", tid, tables[i]);
		file = fopen(path, "re");
		while (file && names->n < LINES_MOST && fgets(line, sizeof(line), file)) {
			struct socket_words words;

			if (!take_line(line, i < 2 ? "tcp" : "udp", &words))
				continue;
			if (ip_array_grow(&names->sockets, names->n, sizeof(words)) < 0)
				break;
			names->sockets[names->n++] = words;
		}
	}
	names->own_space = stat("/proc/self/ns/net", &own) == 0 && own.st_ino == space.st_ino &&
			   own.st_dev == space.st_dev;
	if (names->own_space)
		read_unix_sockets(names, sought);
	if (names->n)
		qsort(names->sockets, names->n, sizeof(*names->sockets), by_inode);
}

static bool find_socket(struct ip_descriptor_names *names, pid_t tid, unsigned long inode,
			bool sought, char *ret, size_t size)
{
	const struct socket_words key = {.inode = inode}, *found = NULL;

	read_sockets(names, tid, sought);
	if (names->n)
		found = bsearch(&key, names->sockets, names->n, sizeof(key), by_inode);
	if (found)
		snprintf(ret, size, "%s", found->words);
	return found ||
	       (names->own_space && ip_unix_socket_name(&names->unix_sockets, inode, ret, size));
}

static void put_socket(struct ip_descriptor_names *names, pid_t tid, unsigned long inode, char *ret,
		       size_t size)
{
	bool found = find_socket(names, tid, inode, false, ret, size);

	/* it may be younger than the tables: they are read once more in a look */
	if (!found && !names->read_again) {
		names->space = 0;
		found = find_socket(names, tid, inode, true, ret, size);
		names->read_again = true;
	}
	if (!found)
		snprintf(ret, size, "socket:[%lu]", inode);
}

/* Whether a process has a descriptor with that name. *left: descriptors that may be looked at. */
static bool has(int proc, const char *pid, const char *name, unsigned *left)
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
	while (*left && (entry = readdir(dir))) {
		ssize_t n = readlinkat(fd, entry->d_name, link, sizeof(link) - 1);

		--*left;
		if (n > 0 && (size_t)n == strlen(name) && !memcmp(link, name, n))
			return true;
	}
	return false;
}

/* The process at the other end of a pipe, where one is found: the search reads the descriptors of
 * many processes, so it is not made often, and has an end. */
static void put_pipe(struct ip_descriptor_names *names, pid_t own, const char *name, char *ret,
		     size_t size)
{
	const uint64_t now = ip_now_ns();
	_cleanup_closedir_ DIR *proc = NULL;
	const struct dirent *entry;
	unsigned left = SEARCH_MOST;

	snprintf(ret, size, "%s", name);
	if (names->searched_ns && now - names->searched_ns < SEARCH_NS)
		return;
	proc = opendir("/proc");
	while (proc && left && (entry = readdir(proc))) {
		const pid_t pid = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;

		if (!pid || pid == own || !has(dirfd(proc), entry->d_name, name, &left))
			continue;
		snprintf(ret, size, "%s with pid %s", name, IP_THREAD_TEXT(pid));
		break;
	}
	names->searched_ns = ip_now_ns();
}

static bool is_fifo(struct ip_descriptor_names *names, pid_t tid, int fd, bool waited)
{
	uint64_t begin;
	bool ret;

	if (!waited && ip_now_ns() < names->fifo_again_ns)
		return false;
	begin = ip_thread_cpu_ns();
	ret = ip_is_fifo(tid, fd);
	names->fifo_again_ns = ip_now_ns() + FIFO_SHARE * (ip_thread_cpu_ns() - begin);
	return ret;
}

int ip_descriptor_name(struct ip_descriptor_names *names, pid_t tid, int fd, bool waited,
		       const char **ret_kind, char *ret, size_t size)
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
		put_socket(names, tid, inode, ret, size);
	} else if (!strncmp(link, "pipe:[", 6)) {
		*ret_kind = "pipe";
		put_pipe(names, ip_proc_status(tid, "Tgid"), link, ret, size);
	} else if (!strncmp(link, "anon_inode:", 11)) {
		*ret_kind = "other";
		for (size_t i = 0; i < sizeof(anonymous) / sizeof(anonymous[0]); i++)
			if (!strcmp(link, anonymous[i].name))
				*ret_kind = anonymous[i].kind;
	} else if (*link == '/' && is_fifo(names, tid, fd, waited)) {
		*ret_kind = "pipe";
	}
	return 0;
}
