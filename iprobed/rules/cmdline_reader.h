/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines of processes.
 *
 * A command line lies in the process's own memory, and that may be a file of a file system that
 * never answers (FUSE): who reads it waits for ever, whatever his privilege, and there is no way to
 * read that does not wait. So a child reads. It is one for all of them, since a fork for each
 * process that begins would cost more than all the rest of looking at it:
 *
 *   1. The first that is to be read, and the first after a reader that was given up or has gone,
 *      forks one. It closes all but its socket, and ends when the other end is closed.
 *   2. A request is one packet, the number of a process. The answer is one packet: a byte, and
 *      behind it what was read.
 *   3. A reader that has not answered in two seconds is killed, and nobody waits for its end: it is
 *      reaped when another one is begun, or when we end.
 */
#ifndef IP_RULES_CMDLINE_READER_H
#define IP_RULES_CMDLINE_READER_H

#include "iprobed/rules/match.h"

struct ip_rules_reader {
	pid_t pid; /* 0: there is none */
	int fd;
	pid_t *lost; /* killed, and not reaped yet */
	size_t nlost;
};

/* Of a process that is gone it is empty; one that has been read already is left as it is. 0, or -1
 * with an error. */
int ip_rules_cmdline_read(struct ip_rules_reader *reader, struct ip_rules_process *process);

/* Ends the child, if there is one. */
void ip_rules_reader_close(struct ip_rules_reader *reader);

#endif
