/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said on iprobed's socket (SOCK_SEQPACKET), in packets of text; docs/man/iprobed.8.rst
 * tells it to others.
 *
 *   to iprobed, once:   iprobe 1
 *                       COMMAND PID                  attach, detach, status, snapshot, top or fperf
 *                       leave                        (attach) the session goes on when the
 *                                                    connection ends
 *                       directory NAME               (attach, snapshot) one component, below the
 *                                                    directory that comes along
 *                       option --NAME[=VALUE]        as the command knows them; any number of such
 *                                                    lines
 *   with descriptors:   a directory (attach, snapshot); standard output, standard error
 *   to iprobed, later:  stop                         as Ctrl-C
 *   to the client:      started ID | refused REASON | ended CODE | killed SIGNAL; the first of
 *                       refused, ended and killed is the last word
 *
 * No option that names a file is taken: files are opened by who asks, with his own rights. The
 * directory of a snapshot is opened by who asks, too, and goes on to the session that writes it
 * (control_socket.h).
 */
#ifndef IP_REQUEST_H
#define IP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_REQUEST_SIZE_MAX    (64u << 10)
#define IP_REQUEST_OPTIONS_MAX 64u
#define IP_REQUEST_FDS	       3u
#define IP_REQUEST_MEMORY_MAX  (1ull << 30)

enum ip_request_what {
	IP_REQUEST_ATTACH,
	IP_REQUEST_DETACH,
	IP_REQUEST_STATUS,
	IP_REQUEST_SNAPSHOT,
	IP_REQUEST_TOP,
	IP_REQUEST_FPERF,
};

struct ip_request {
	enum ip_request_what what;
	pid_t pid;
	bool leave;
	char directory[256]; /* "": iprobe.data */
	char *options[IP_REQUEST_OPTIONS_MAX];
	size_t noptions;
};

/* 0, or -1 with an error. The text need not end in a zero. */
int ip_request_parse(const char *text, size_t size, struct ip_request *ret);
void ip_request_clear(struct ip_request *request);

/* As text that ip_request_parse() reads; malloc'ed. NULL with an error. */
char *ip_request_format(const struct ip_request *request);

/* Whether an option "--NAME[=VALUE]" is one that iprobed takes. NULL: yes; else why not. */
const char *ip_request_refusal(enum ip_request_what what, const char *option);

/* How many descriptors come with it: with 3 the first is a directory; the last two are standard
 * output and standard error. */
unsigned ip_request_fds(enum ip_request_what what);

/* How much memory it asks for: the last --memory counts, as for the command itself. 0: it records
 * nothing. */
#define IP_REQUEST_MEMORY_USUAL (64ull << 20)
uint64_t ip_request_memory(const struct ip_request *request);

/* Its word. */
const char *ip_request_name(enum ip_request_what what);
/* Whether sites go live by it, or back: one that is killed is cleaned up after. */
bool ip_request_changes(enum ip_request_what what);

#endif
