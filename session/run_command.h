/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that `iprobe run` is to launch: checks whether it can be recorded, and finds out what
 * has to be preloaded for it.
 */
#ifndef IP_RUN_COMMAND_H
#define IP_RUN_COMMAND_H

/* Refuses, before anything runs, a command that cannot be recorded: an ELF file that is broken, for
 * another machine (execvp would hand it to a shell), or statically linked without the runtime. A
 * script is accepted: its interpreter is followed.
 *
 * runtime: path of the runtime for 64-bit programs; the runtime for 32-bit programs lies in a
 * folder beside it. *ret_preload: what to preload, which the caller frees. It is the runtime for
 * the command's machine; a library that must be the first of all (AddressSanitizer's) comes before
 * it. 0, or -1 with an error. */
int ip_command_prepare(const char *name, const char *runtime, char **ret_preload);

#endif
