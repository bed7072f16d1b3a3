/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that iprobe run is to launch: whether it can be recorded, and what has to be
 * preloaded for it.
 */
#ifndef IP_RUN_COMMAND_H
#define IP_RUN_COMMAND_H

/* Refuses before anything runs what cannot be recorded: an ELF file that is broken, for another
 * machine (execvp would hand it to a shell), or statically linked without the runtime. A script is
 * fine: its interpreter is followed.
 *
 * runtime: the one for 64-bit programs; that for 32 lies in a folder beside it. *ret_preload:
 * what to preload, the command's own runtime behind what insists on being first
 * (AddressSanitizer's library); malloc'ed. 0, or -1 with an error. */
int ip_command_prepare(const char *name, const char *runtime, char **ret_preload);

#endif
