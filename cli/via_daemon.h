/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Having iprobed do what we may not do ourselves.
 */
#ifndef IP_CLI_VIA_DAEMON_H
#define IP_CLI_VIA_DAEMON_H

#include <getopt.h>
#include <sys/types.h>

#include "access/request.h"

/* Whether iprobed is to be asked: the process may not be traced by us, and there is an iprobed;
 * or $IPROBE_DAEMON says so. 1 yes, 0 no, -1 with an error. *ret_socket: connected to it. */
int cli_via_daemon_wanted(pid_t pid, int *ret_socket);

/* Adds the options of argv as words to the request; options and its short form as getopt_long
 * knows them, for a command line that has been found good. *ret_dir: that of -o, or NULL. 0, or
 * -1 with an error where iprobed takes one of them not. */
int cli_via_daemon_options(int argc, char **argv, const char *letters, const struct option *options,
			   struct ip_request *request, const char **ret_dir);

/* Adds one option as a word. 0 or -1. */
int cli_via_daemon_add(struct ip_request *request, const char *name, const char *value);

struct cli_via_daemon_word {
	const char *name, *value; /* of a long option */
};

/* All of it, for a command line of such a command that has been found good. first: what stands
 * in front of its options, up to one without a name; or NULL. -1: iprobed is not needed, or not
 * there; else the exit code. */
int cli_via_daemon_try(enum ip_request_what what, pid_t pid, int argc, char **argv,
		       const char *letters, const struct option *options,
		       const struct cli_via_daemon_word *first);

/* Sends the request and waits for its end; signals that ask us to end are handed on. dir: where
 * its directory is to be made, or NULL. Closes the socket. The exit code. */
int cli_via_daemon(int socket, struct ip_request *request, const char *dir);

#endif
