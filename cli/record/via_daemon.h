/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks iprobed to do what this user may not do.
 */
#ifndef IP_CLI_VIA_DAEMON_H
#define IP_CLI_VIA_DAEMON_H

#include <getopt.h>
#include <stdbool.h>
#include <sys/types.h>

#include "access/protocol.h"
#include "kernel_trace/recorder.h"

/* Asks the kernel whether this user may trace the process. What a stop needs besides is not
 * checked. */
bool cli_may_trace(pid_t pid);

/* Returns whether to ask iprobed: this user may not trace the process, and iprobed is running;
 * or $IPROBE_DAEMON says so. Returns 1 (yes), 0 (no), or -1 with an error. *ret_socket is
 * connected to iprobed where it returns 1. */
int cli_via_daemon_wanted(pid_t pid, int *ret_socket);

/* The same for a recording with events of the kernel, where options ask for them: iprobed is asked,
 * too, where this user may trace the process but may not have them. pid 0: no process is traced. */
int cli_via_daemon_wanted_with(pid_t pid, const struct ip_kernel_options *options, int *ret_socket);

/* Whether the options ask for events of the kernel, and this user may not have them. */
bool cli_lacks_kernel_events(const struct ip_kernel_options *options);

/* Whether iprobed is running, and may be asked. */
bool cli_daemon_listens(void);

/* Adds the options of argv to the request as words. letters and options are those of
 * getopt_long(), and the command line has been checked. *ret_dir is the argument of -o, or NULL.
 * Returns 0, or -1 with an error where iprobed does not take one of the options. */
int cli_via_daemon_options(int argc, char **argv, const char *letters, const struct option *options,
			   struct ip_request *request, const char **ret_dir);

/* Adds one option as a word. Returns 0, or -1 with an error. */
int cli_via_daemon_add(struct ip_request *request, const char *name, const char *value);
/* The same for a selection: what files and names in it say is read here. */
int cli_via_daemon_add_functions(struct ip_request *request, const char *text);

struct cli_via_daemon_word {
	const char *name, *value; /* name and value of a long option */
};

/* Does the whole request for a command line that has been checked. first: words that come before
 * its options, up to one without a name; or NULL. Returns -1 where iprobed is not needed or not
 * running; else the exit code. */
int cli_via_daemon_try(enum ip_request_what what, pid_t pid, int argc, char **argv,
		       const char *letters, const struct option *options,
		       const struct cli_via_daemon_word *first);

/* The same where several processes are counted (fperf): the results go to stdout, whatever the
 * command line says. */
int cli_via_daemon_print(enum ip_request_what what, pid_t pid, int argc, char **argv,
			 const char *letters, const struct option *options,
			 const struct cli_via_daemon_word *first);

/* The same for a snapshot, which is to be made at dir, whatever the command line says. */
int cli_via_daemon_snapshot(pid_t pid, int argc, char **argv, const char *letters,
			    const struct option *options, const char *dir);

/* Sends the request and waits for its end. A signal that asks this process to end is passed on
 * to iprobed. dir: where the directory is to be made, or NULL. Closes the socket. Returns the
 * exit code. */
int cli_via_daemon(int socket, struct ip_request *request, const char *dir);

/* The same; meanwhile wait is called some times a second. */
int cli_via_daemon_watched(int socket, struct ip_request *request, const char *dir,
			   void (*wait)(void *context), void *context);

#endif
