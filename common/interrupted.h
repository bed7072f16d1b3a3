/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the user wants the command to end.
 */
#ifndef IP_INTERRUPTED_H
#define IP_INTERRUPTED_H

/* The last signal that asked for the end (SIGINT, SIGTERM, SIGHUP); 0: none. The signal handler of
 * a command sets it. */
extern volatile int ip_interrupted;

#endif
