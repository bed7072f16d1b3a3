/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and removes the socket at which iprobed listens.
 */
#include "iprobed/socket_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"

/* Returns whether a process listens there. */
static bool is_taken(const struct sockaddr_un *address)
{
	_cleanup_close_ int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	return probe >= 0 &&
	       connect(probe, (const struct sockaddr *)address, sizeof(*address)) == 0;
}

/* An existing socket there is removed, and clients trust the process that listens there. So no
 * other user may be able to change the path. */
static int check_above(const char *path)
{
	const char *slash = strrchr(path, '/');
	char above[sizeof(((struct sockaddr_un *)0)->sun_path)];

	snprintf(above, sizeof(above), "%.*s", slash ? (int)(slash - path) + (slash == path) : 1,
		 slash ? path : ".");
	return ip_dir_check_way(above, 0);
}

int ip_iprobed_listen(const char *path, struct ip_iprobed_socket_file *ret)
{
	const struct timespec nap = {.tv_nsec = 100000000};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	struct stat st;
	mode_t before;
	int done;

	if (strlen(path) >= sizeof(address.sun_path))
		return ip_error("%s: too long for the name of a socket (at most %zu bytes)", path,
				sizeof(address.sun_path) - 1);
	strcpy(address.sun_path, path);
	if (check_above(path) < 0)
		return -1;
	/* an iprobed that was just killed takes a moment to go */
	for (int i = 0; i < 30 && is_taken(&address); i++)
		nanosleep(&nap, NULL);
	if (is_taken(&address))
		return ip_error("%s: another iprobed listens there already", path);
	/* It was left by an iprobed that was killed. (connect() fails with ECONNREFUSED also for a
	 * file that is not a socket.) */
	unlink(path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	before = umask(0111);
	done = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof(address));
	umask(before);
	/* nobody listens there yet: an iprobed that starts now finds it free, and takes it */
	if (done < 0 || lstat(path, &st) < 0 || listen(fd, 64) < 0)
		return ip_error_errno("cannot listen at %s", path);
	*ret = (struct ip_iprobed_socket_file){.dev = st.st_dev, .ino = st.st_ino};
	return ip_steal_fd(&fd);
}

void ip_iprobed_socket_remove(const char *path, const struct ip_iprobed_socket_file *file)
{
	struct stat st;

	if (file->ino && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == file->dev &&
	    st.st_ino == file->ino)
		unlink(path);
}
