/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to and from systemd, without its library. If systemd has not started iprobed, these
 * functions do nothing.
 */
#ifndef IP_SYSTEMD_H
#define IP_SYSTEMD_H

/* Sends "READY=1" or a similar text to $NOTIFY_SOCKET. */
void ip_notify(const char *text);

/* Returns the socket on which systemd listens for iprobed (LISTEN_FDS); -1: there is none; -2 with
 * an error: it is not suitable. */
int ip_notify_listening(void);

#endif
