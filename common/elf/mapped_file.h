/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that libraries have mapped and that become shorter: libdwfl maps each file of a target that
 * it opens, which the target may cut off at any moment. Reading behind the new end is a SIGBUS,
 * which would end a tracer while sites are live. Here such a page becomes zeros: what parses it
 * finds it damaged, as any file that nobody trusts.
 */
#ifndef IP_MAPPED_FILE_H
#define IP_MAPPED_FILE_H

#include <signal.h>
#include <stdbool.h>

/* From now on this process goes on after such a read. To be called once, at its start. */
void ip_mapped_file_may_shrink(void);

/* For a handler of SIGBUS in the place of that one. Returns whether the read can be made again. */
bool ip_mapped_file_has_shrunk(const siginfo_t *info);

#endif
