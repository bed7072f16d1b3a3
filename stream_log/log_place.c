/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the place that a live log goes to.
 */
#include "stream_log/log_place.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

#define DEVICE	   "device:"
#define CONNECT_MS 5000
#define MODE	   0600
#define OTHERS	   0077 /* their permissions */

/* The colon in front of a port; NULL: the text is no HOST:PORT. */
static const char *port_of(const char *text)
{
	const char *colon = strrchr(text, ':');

	return colon && colon != text && !strchr(text, '/') && colon[1] &&
			       strspn(colon + 1, "0123456789") == strlen(colon + 1)
		       ? colon
		       : NULL;
}

int ip_log_place_kind(const char *text)
{
	const char *colon = port_of(text);

	if (!strncmp(text, DEVICE, strlen(DEVICE)))
		return text[strlen(DEVICE)] == '/'
			       ? IP_LOG_DEVICE
			       : ip_error("--stream %s: a device is named by its path, such as "
					  "device:/dev/sdb",
					  text);
	if (!*text || !strcmp(text, "-"))
		return ip_error("--stream needs a FILE, device:PATH or HOST:PORT");
	if (colon && (strlen(colon + 1) > 5 || atoi(colon + 1) < 1 || atoi(colon + 1) > 65535))
		return ip_error("--stream %s: a port is a number from 1 to 65535 (./%s is a file)",
				text, text);
	return colon ? IP_LOG_CONNECTION : IP_LOG_FILE;
}

/* Connects to one address. Returns the socket, or -1 with errno. */
static int connect_to(const struct addrinfo *a)
{
	const int on = 1;
	_cleanup_close_ int fd =
		socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int error = 0;
	socklen_t size = sizeof(error);

	if (fd < 0)
		return -1;
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
		if (errno != EINPROGRESS)
			return -1;
		if (poll(&p, 1, CONNECT_MS) <= 0)
			error = ETIMEDOUT;
		else
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	}
	if (error) {
		errno = error;
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return ip_steal_fd(&fd);
}

static int open_connection(const char *text)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	_cleanup_free_ char *host = strdup(text);
	struct addrinfo *found = NULL;
	char *name = host, *colon = host ? strrchr(host, ':') : NULL;
	int error, fd = -1;

	if (!colon)
		return ip_error("out of memory");
	*colon = '\0';
	if (*name == '[' && colon > name + 1 && colon[-1] == ']') {
		name++;
		colon[-1] = '\0';
	}
	error = getaddrinfo(name, colon + 1, &hints, &found);
	if (error)
		return ip_error("--stream %s: %s", text, gai_strerror(error));
	for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
		fd = connect_to(a);
	error = errno;
	freeaddrinfo(found);
	errno = error;
	return fd < 0 ? ip_error_errno("--stream %s: nobody takes the log there (nc -l -p %s > "
				       "FILE does)",
				       text, strrchr(text, ':') + 1)
		      : fd;
}

/* Opens what a descriptor with O_PATH stands for, which was looked at. Returns the descriptor, or
 * -1 with errno. */
static int open_looked_at(int found, int how)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | how);
}

static int open_device(const char *text, bool *ret_blocks)
{
	const char *path = text + strlen(DEVICE);
	_cleanup_close_ int found = open(path, O_PATH | O_CLOEXEC), fd = -1;
	struct termios terminal;
	struct stat st;

	if (found < 0 || fstat(found, &st) < 0)
		return ip_error_errno("--stream %s: cannot open it", text);
	if (!S_ISBLK(st.st_mode) && !S_ISCHR(st.st_mode))
		return ip_error("--stream %s: it is no device: --stream %s writes to a file", text,
				path);
	fd = open_looked_at(found, O_EXCL);
	if (fd < 0 && errno == EBUSY)
		return ip_error("--stream %s: it is mounted, or another program has it", text);
	if (fd < 0)
		return ip_error_errno("--stream %s: cannot open it", text);
	*ret_blocks = S_ISBLK(st.st_mode);
	/* a serial line passes bytes on as they are */
	if (S_ISCHR(st.st_mode) && tcgetattr(fd, &terminal) == 0) {
		cfmakeraw(&terminal);
		tcsetattr(fd, TCSANOW, &terminal);
	}
	return ip_steal_fd(&fd);
}

/* Opens what is there already, if it may be a place. Returns the descriptor, or -1 with an
 * error. */
static int open_existing(const char *text)
{
	_cleanup_close_ int found = open(text, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int fd;

	if (found < 0 || fstat(found, &st) < 0)
		return ip_error_errno("--stream %s: cannot open it", text);
	if (S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode))
		return ip_error("--stream %s: it is a device, which is named as device:%s", text,
				text);
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		return ip_error("--stream %s: it is neither a regular file nor a pipe", text);
	if (st.st_uid != geteuid())
		return ip_error("--stream %s: it is another user's", text);
	fd = open_looked_at(found, 0);
	if (fd < 0 && errno == ENXIO)
		return ip_error("--stream %s: nobody reads this pipe", text);
	return fd < 0 ? ip_error_errno("--stream %s: cannot open it", text) : fd;
}

static int open_file(const char *text, bool *ret_blocks)
{
	const int how = O_WRONLY | O_NOCTTY | O_CLOEXEC | O_CREAT | O_EXCL;
	_cleanup_close_ int fd = open(text, how, MODE);
	const bool is_new = fd >= 0;
	struct stat st;

	if (!is_new && errno != EEXIST)
		return ip_error_errno("--stream %s: cannot open it", text);
	if (!is_new)
		fd = open_existing(text);
	if (fd < 0)
		return -1;
	/* a file system may know no locks */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return ip_error("--stream %s: another program writes to it", text);
	/* only now: whoever had the lock may have written */
	if (fstat(fd, &st) < 0)
		return ip_error_errno("--stream %s: cannot open it", text);
	*ret_blocks = S_ISREG(st.st_mode);
	if (!*ret_blocks)
		return ip_steal_fd(&fd);
	if (st.st_size)
		return ip_error("--stream %s: the file is there already: remove it, or name "
				"another",
				text);
	/* of a new file the file system may show other permissions than were asked for (vfat) */
	if (!is_new && st.st_nlink != 1)
		return ip_error("--stream %s: the file has another name as well: remove it, or "
				"name another",
				text);
	if (!is_new && (st.st_mode & OTHERS))
		return ip_error("--stream %s: other users may use the file: chmod 600 it, or name "
				"another",
				text);
	return ip_steal_fd(&fd);
}

int ip_log_place_open(const char *text, bool *ret_blocks)
{
	const int kind = ip_log_place_kind(text);

	*ret_blocks = false;
	return kind < 0			   ? -1
	       : kind == IP_LOG_CONNECTION ? open_connection(text)
	       : kind == IP_LOG_DEVICE	   ? open_device(text, ret_blocks)
					   : open_file(text, ret_blocks);
}
