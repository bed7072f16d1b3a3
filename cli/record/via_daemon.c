/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of the socket of iprobed (access/protocol.h).
 */
#include "cli/record/via_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "access/fd_passing.h"
#include "cli/args/processes.h"
#include "cli/cli.h"
#include "cli/record/value_words.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/print.h"
#include "common/selection/selection.h"
#include "kernel_trace/kernel_check.h"

#define WAIT_MS	 200
#define WATCH_MS 50

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		return ip_error("%s: too long for the name of a socket", path);
	strcpy(address.sun_path, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return ip_error_errno("cannot ask iprobed at %s", path);
	return ip_steal_fd(&fd);
}

bool cli_may_trace(pid_t pid)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/mem", pid);
	fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || (errno != EACCES && errno != EPERM);
}

bool cli_daemon_listens(void)
{
	const char *word = getenv("IPROBE_DAEMON"), *path = getenv("IPROBE_SOCKET");
	_cleanup_close_ int fd =
		word && !strcmp(word, "never") ? -1 : connect_to(path && *path ? path : IP_SOCKET);

	return fd >= 0;
}

int cli_via_daemon_wanted(pid_t pid, int *ret_socket)
{
	return cli_via_daemon_wanted_with(pid, &(struct ip_kernel_options){0}, ret_socket);
}

bool cli_lacks_kernel_events(const struct ip_kernel_options *options)
{
	return options->groups && geteuid() && ip_kernel_check_source(options->source) < 0;
}

int cli_via_daemon_wanted_with(pid_t pid, const struct ip_kernel_options *options, int *ret_socket)
{
	const char *word = getenv("IPROBE_DAEMON"), *path = getenv("IPROBE_SOCKET");
	bool always = word && !strcmp(word, "always");

	if (word && *word && !always && strcmp(word, "never") && strcmp(word, "auto"))
		return ip_error("IPROBE_DAEMON is auto, always or never, not '%s'", word);
	if ((word && !strcmp(word, "never")) ||
	    (!always && (!pid || cli_may_trace(pid)) && !cli_lacks_kernel_events(options)))
		return 0;
	*ret_socket = connect_to(path && *path ? path : IP_SOCKET);
	if (*ret_socket >= 0)
		return 1;
	return always ? -1 : 0;
}

int cli_via_daemon_add(struct ip_request *request, const char *name, const char *value)
{
	const char *why;
	char *word;

	if (asprintf(&word, "--%s%s%s", name, value ? "=" : "", value ? value : "") < 0)
		return ip_error("out of memory");
	why = ip_request_refusal(request->what, word);
	if (!why && strchr(word, '\n'))
		why = "has several lines";
	if (!why && request->noptions == IP_REQUEST_OPTIONS_MAX)
		why = "is one too many";
	if (why) {
		ip_error("--%s %s: leave it out, or attach with privileges of your own", name, why);
		free(word);
		return -1;
	}
	request->options[request->noptions++] = word;
	return 0;
}

int cli_via_daemon_add_functions(struct ip_request *request, const char *text)
{
	struct ip_selection *selection;
	_cleanup_free_ char *flat = NULL;

	if (ip_selection_parse(text, &selection) < 0)
		return -1;
	flat = ip_selection_text(selection);
	ip_selection_destroy(selection);
	return flat ? cli_via_daemon_add(request, "functions", flat) : -1;
}

/* Returns the long name of an option, in whichever form it was written. */
static const char *long_name(const struct option *options, int option, int index)
{
	if (index >= 0)
		return options[index].name;
	while (options->name && options->val != option)
		options++;
	return options->name;
}

int cli_via_daemon_options(int argc, char **argv, const char *letters, const struct option *options,
			   struct ip_request *request, const char **ret_dir)
{
	int option, index = -1, ret = 0;

	*ret_dir = NULL;
	optind = 0;
	while (ret == 0 && (option = getopt_long(argc, argv, letters, options, &index)) >= 0) {
		/* by name: a letter can be different options in different commands */
		const char *name = long_name(options, option, index);

		if (!name)
			ret = ip_error("-%c is not taken by iprobed: leave it out", option);
		else if (!strcmp(name, "functions"))
			ret = cli_via_daemon_add_functions(request, optarg);
		else if (!strcmp(name, "output"))
			*ret_dir = optarg;
		else if (cli_is_process_option(name))
			; /* the request names the process itself */
		else if (!strcmp(name, "profile"))
			/* a profile of iprobed can have another content: what this user's
			 * profile says has been added */
			;
		else if (!strcmp(name, "leave"))
			request->leave = true;
		else if (!strcmp(name, "args") || !strcmp(name, "retval"))
			ret = cli_via_daemon_add(request, name, cli_value_word(argc, argv));
		else
			ret = cli_via_daemon_add(request, name, optarg);
		index = -1;
	}
	return ret;
}

/* Opens the parent directory of dir and takes the last component of dir. */
static int open_parent(const char *dir, struct ip_request *request)
{
	_cleanup_free_ char *copy = strdup(dir);
	char *slash;
	size_t n = copy ? strlen(copy) : 0;
	int fd;

	if (!copy)
		return ip_error("out of memory");
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	slash = strrchr(copy, '/');
	if (slash)
		*slash = '\0';
	fd = open(!slash ? "." : slash == copy ? "/" : copy, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return ip_error_errno("cannot open the directory of %s", dir);
	/* the worker finds the same, and knows no path */
	if (faccessat(fd, ".", X_OK, AT_EACCESS) < 0 ||
	    (faccessat(fd, slash ? slash + 1 : copy, F_OK, AT_EACCESS) < 0 && errno == ENOENT &&
	     faccessat(fd, ".", W_OK, AT_EACCESS) < 0)) {
		ip_error_errno("cannot make %s", dir);
		close(fd);
		return -1;
	}
	dir = slash ? slash + 1 : copy;
	if (!*dir || !strcmp(dir, ".") || !strcmp(dir, "..") ||
	    strlen(dir) >= sizeof(request->directory) || strchr(dir, '\n')) {
		close(fd);
		return ip_error("%s: name a directory that can be made", dir);
	}
	strcpy(request->directory, dir);
	return fd;
}

static int send_request(int socket, struct ip_request *request, const char *dir)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int parent = -1;
	int fds[3], n = 0;

	if (ip_request_fds(request->what) == 3) {
		/* without -o there is no name: an attach that changes a session takes no
		 * directory */
		parent = dir ? open_parent(dir, request)
			     : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (parent >= 0 && dir && request->what == IP_REQUEST_ATTACH && !request->shown &&
		    !(request->shown = strdup(dir))) {
			return ip_error("out of memory");
		}
		if (parent < 0)
			return dir ? -1 : ip_error_errno("cannot open the current directory");
		fds[n++] = parent;
	}
	fds[n++] = STDOUT_FILENO;
	fds[n++] = STDERR_FILENO;
	text = ip_request_format(request);
	if (!text)
		return -1;
	fflush(stdout);
	/* an iprobed that has closed the socket may have sent the reason before */
	if (ip_send_with_fds(socket, text, strlen(text), NULL, 0, fds, n, 0) < 0 &&
	    errno != EPIPE && errno != ECONNRESET)
		return errno == EMSGSIZE ? ip_error("the request is too long for iprobed: a "
						    "shorter selection, please")
					 : ip_error_errno("cannot ask iprobed");
	return 0;
}

/* What is called while iprobed is waited for. */
struct waiting {
	void (*call)(void *context); /* NULL: nothing */
	void *context;
};

/* Receives one packet from iprobed as text. Returns 0, or -1 where iprobed has closed the
 * socket. */
static int receive(int socket, const struct waiting *waiting, char *text, size_t size)
{
	static int asked; /* the signal that has been passed on */

	for (;;) {
		struct pollfd p = {.fd = socket, .events = POLLIN};
		ssize_t n;

		/* a signal that comes between this check and poll() is seen by the next check */
		if (ip_interrupted && ip_interrupted != asked) {
			asked = ip_interrupted;
			send(socket, "stop\n", 5, MSG_NOSIGNAL);
		}
		if (poll(&p, 1, waiting->call ? WATCH_MS : WAIT_MS) <= 0) {
			if (waiting->call)
				waiting->call(waiting->context);
			continue;
		}
		n = recv(socket, text, size - 1, MSG_DONTWAIT);
		/* ECONNRESET is reported once, before the packets that the other side sent
		 * before it closed */
		if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET))
			continue;
		if (n <= 0)
			return -1;
		text[n] = '\0';
		text[strcspn(text, "\n")] = '\0';
		return 0;
	}
}

/* Reads replies until the request has ended. overwrites: stdout is a file that is to be emptied
 * once the session begins. */
static int converse(int socket, const struct ip_request *request, bool overwrites,
		    const struct waiting *waiting)
{
	char text[4096];
	int number;

	while (receive(socket, waiting, text, sizeof(text)) == 0) {
		if (sscanf(text, "ended %d", &number) == 1)
			return number; /* the worker has printed everything */
		if (!strncmp(text, "refused ", 8)) {
			ip_error("iprobed refuses: %s", text + 8);
			return cli_fail();
		}
		if (!strncmp(text, "failed ", 7)) {
			ip_error("iprobed %s", text + 7);
			return cli_fail();
		}
		if (sscanf(text, "killed %d", &number) == 1) {
			ip_error("the session's worker was killed by signal %d: iprobed puts back "
				 "what is live",
				 number);
			return cli_fail();
		}
		if (sscanf(text, "started %d", &number) == 1 && overwrites &&
		    ftruncate(STDOUT_FILENO, 0) < 0 && errno != EINVAL)
			ip_error_errno("cannot empty the file of results");
		if (sscanf(text, "live %d", &number) == 1 && request->leave) {
			ip_print(stderr,
				 "iprobe: pid %d: session %d of iprobed goes on by itself; iprobe "
				 "detach %d ends it\n",
				 request->pid, number, request->pid);
			return 0;
		}
	}
	ip_error("iprobed has ended, or hung up: what is live is being put back");
	return cli_fail();
}

static int ask(int socket, struct ip_request *request, const char *dir, bool overwrites,
	       const struct waiting *waiting)
{
	int code = send_request(socket, request, dir) < 0
			   ? cli_fail()
			   : converse(socket, request, overwrites, waiting);

	close(socket);
	ip_request_clear(request);
	return code;
}

int cli_via_daemon(int socket, struct ip_request *request, const char *dir)
{
	return ask(socket, request, dir, false, &(struct waiting){0});
}

int cli_via_daemon_watched(int socket, struct ip_request *request, const char *dir,
			   void (*wait)(void *context), void *context)
{
	return ask(socket, request, dir, false, &(struct waiting){wait, context});
}

/* Redirects stdout to a file that this user may write. The file keeps its content until iprobed
 * has accepted. *ret_made: the file is new. */
static int redirect(const char *path, bool *ret_made)
{
	_cleanup_close_ int fd = ip_file_open_output(path, ret_made);

	if (fd < 0)
		return -1;
	return dup2(fd, STDOUT_FILENO) >= 0 ? 0 : ip_error_errno("cannot write %s", path);
}

/* Removes a new file that is empty. */
static void remove_empty(const char *path)
{
	struct ip_dir_place place;
	struct stat st;

	if (fstat(STDOUT_FILENO, &st) < 0 || st.st_size || ip_dir_locate(path, &place) < 0)
		return;
	if (ip_dir_is_at(place.parent, place.name, STDOUT_FILENO))
		unlinkat(place.parent, place.name, 0);
	ip_dir_place_close(&place);
}

static int add_first(struct ip_request *request, const struct cli_via_daemon_word *words)
{
	int ret = 0;

	for (; ret == 0 && words && words->name; words++)
		ret = !strcmp(words->name, "functions")
			      ? cli_via_daemon_add_functions(request, words->value)
			      : cli_via_daemon_add(request, words->name, words->value);
	return ret;
}

/* at: where the directory is to be made; NULL: nowhere. to_file: results go where -o says. */
static int try(enum ip_request_what what, pid_t pid, int argc, char **argv, const char *letters,
	       const struct option *options, const struct cli_via_daemon_word *first,
	       const char *at, bool to_file)
{
	struct ip_request request = {.what = what, .pid = pid};
	const char *dir;
	int socket = -1, wanted = cli_via_daemon_wanted(pid, &socket), code;
	bool made = false;

	if (wanted <= 0)
		return wanted < 0 ? cli_fail() : -1;
	if (add_first(&request, first) < 0 ||
	    cli_via_daemon_options(argc, argv, letters, options, &request, &dir) < 0 ||
	    (to_file && dir && redirect(dir, &made) < 0)) {
		close(socket);
		ip_request_clear(&request);
		return cli_fail();
	}
	cli_catch_signals();
	code = ask(socket, &request, at, to_file && dir, &(struct waiting){0});
	if (made && code)
		remove_empty(dir);
	return code;
}

int cli_via_daemon_try(enum ip_request_what what, pid_t pid, int argc, char **argv,
		       const char *letters, const struct option *options,
		       const struct cli_via_daemon_word *first)
{
	return try(what, pid, argc, argv, letters, options, first, NULL, what == IP_REQUEST_FPERF);
}

int cli_via_daemon_print(enum ip_request_what what, pid_t pid, int argc, char **argv,
			 const char *letters, const struct option *options,
			 const struct cli_via_daemon_word *first)
{
	return try(what, pid, argc, argv, letters, options, first, NULL, false);
}

int cli_via_daemon_snapshot(pid_t pid, int argc, char **argv, const char *letters,
			    const struct option *options, const char *dir)
{
	return try(IP_REQUEST_SNAPSHOT, pid, argc, argv, letters, options, NULL, dir, false);
}
