/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages on iprobed's socket (SOCK_SEQPACKET): packets of text. docs/man/iprobed.8.rst
 * describes them for users.
 *
 *   to iprobed, once:   iprobe 1
 *                       COMMAND PID                  attach, detach, status, snapshot, top,
 *                                                    fperf or kernel
 *                       leave                        (attach) the session goes on when the
 *                                                    connection ends
 *                       member                       (attach) the process is one of several that
 *                                                    the client records
 *                       shown PATH                   (attach) what the client calls the directory
 *                                                    of the trace, for messages
 *                       directory NAME               (attach, snapshot) one component, below the
 *                                                    directory that comes along
 *                       option --NAME[=VALUE]        as the command knows them; any number of such
 *                                                    lines
 *   with descriptors:   a directory (attach, snapshot); standard output, standard error
 *   to iprobed, later:  stop                         as Ctrl-C
 *   to the client of kernel, with a descriptor: events
 *   to the client:      started ID | live ID | refused REASON | failed REASON | ended CODE |
 *                       killed SIGNAL
 *                       live: the session that is to be left is live. failed: the worker could not
 *                       be started. refused, failed, ended or killed is the last message
 *
 * kernel: the client records events of the kernel itself, of that process and of others. The
 * descriptor is a socket to the process that reads them for it, which judges each process that is
 * asked for by that socket (kernel_trace/users/event_protocol.h). The session ends with it.
 *
 * iprobed takes no option that names a file: the client opens files itself, with its own rights.
 * The client also opens the directory of a snapshot. Its descriptor goes on to the session that
 * writes the snapshot (control_socket.h).
 */
#ifndef IP_PROTOCOL_H
#define IP_PROTOCOL_H

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
	IP_REQUEST_KERNEL,
};

struct ip_request {
	enum ip_request_what what;
	pid_t pid;
	bool leave, member;
	char *shown;	     /* NULL: as directory */
	char directory[256]; /* "": iprobe.data */
	char *options[IP_REQUEST_OPTIONS_MAX];
	size_t noptions;
};

/* Returns 0, or -1 with an error. The text need not end in a zero byte. */
int ip_request_parse(const char *text, size_t size, struct ip_request *ret);
void ip_request_clear(struct ip_request *request);

/* Returns the request as text that ip_request_parse() reads, malloc'ed, without a path to be shown
 * that cannot stand in a line. NULL with an error. */
char *ip_request_format(const struct ip_request *request);

/* Checks whether iprobed takes an option "--NAME[=VALUE]". Returns NULL if it does, else the reason
 * why not. */
const char *ip_request_refusal(enum ip_request_what what, const char *option);

/* Returns how many descriptors come with the request. If there are 3, the first is a directory. The
 * last two are standard output and standard error. */
unsigned ip_request_fds(enum ip_request_what what);

/* Returns how much memory the request asks for, in bytes. The last --memory counts, as in the
 * command itself. 0: the request records nothing. */
#define IP_REQUEST_MEMORY_USUAL (64ull << 20)
uint64_t ip_request_memory(const struct ip_request *request);

/* Whether the newest events alone are kept, in memory. */
bool ip_request_keeps_newest(const struct ip_request *request);

/* Whether the request asks for events of the kernel. *ret_buffer: for each CPU and kind of them;
 * *ret_optional: it is to go on where they are not given. */
#define IP_REQUEST_KERNEL_BUFFER_USUAL (4ull << 20)
#define IP_REQUEST_KERNEL_BUFFER_MAX   (16ull << 20)
bool ip_request_kernel(const struct ip_request *request, uint64_t *ret_buffer, bool *ret_optional);

/* Returns the command's name in a request. */
const char *ip_request_name(enum ip_request_what what);
/* Whether the command makes sites live or restores them. If such a command is killed, iprobed
 * cleans up after it. */
bool ip_request_changes(enum ip_request_what what);

#endif
