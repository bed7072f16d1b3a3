/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines of processes.
 *
 * A command line lies in the process's own memory, and this may be a mapping of a file of a file
 * system that never answers (FUSE). A reader then waits for ever, whatever its privilege, and there
 * is no way to read without waiting. So a child process reads. There is one child for all reads,
 * since a fork for each new process would cost more than everything else that is done for it:
 *
 *   1. The first read forks a child, and so does the first one after a child was given up or has
 *      gone. The child closes all descriptors except its socket, and ends when the other end is
 *      closed.
 *   2. A request is one packet, the id of a process. The answer is one packet: a byte, followed by
 *      what was read.
 *   3. A child that has not answered in two seconds is killed. Its end is not waited for: it is
 *      reaped when another child is started, or when this process ends.
 */
#ifndef IP_RULES_CMDLINE_READER_H
#define IP_RULES_CMDLINE_READER_H

#include "iprobed/rules/match.h"

struct ip_rules_reader {
	pid_t pid; /* 0: there is none */
	int fd;
	pid_t *lost; /* children that were killed, and are not reaped yet */
	size_t nlost;
};

/* Reads the command line into process->cmdline. It is empty if the process is gone. A command line
 * that has been read already stays as it is. Returns 0, or -1 with an error. */
int ip_rules_cmdline_read(struct ip_rules_reader *reader, struct ip_rules_process *process);

/* Ends the child, if there is one. */
void ip_rules_reader_close(struct ip_rules_reader *reader);

#endif
