/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the user wants it to end.
 */
#ifndef IP_INTERRUPTED_H
#define IP_INTERRUPTED_H

/* The last signal that asked for the end (SIGINT, SIGTERM, SIGHUP), set by the handler of whoever
 * installs one; 0: none. */
extern volatile int ip_interrupted;

#endif
