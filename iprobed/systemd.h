/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What systemd is told and tells, without its library; where it has not started us, nothing.
 */
#ifndef IP_SYSTEMD_H
#define IP_SYSTEMD_H

/* "READY=1" and the like, to $NOTIFY_SOCKET. */
void ip_notify(const char *text);

/* The socket that systemd listens on for us (LISTEN_FDS); -1: none; -2 with an error: not one that
 * serves. */
int ip_notify_listening(void);

#endif
