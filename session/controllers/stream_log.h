/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --stream: a controller by which a session has a live log (stream_log/stream_log.h). It looks at
 * the rings each millisecond, and hands on what the session file says as soon as it is known.
 */
#ifndef IP_SESSION_STREAM_LOG_H
#define IP_SESSION_STREAM_LOG_H

struct ip_session;

/* If the options name a place: opens it, before anything of a target is touched, and adds the
 * controller. To be called once, by what makes a session: whoever takes a connection may take one.
 * Returns 0, or -1 with an error. */
int ip_session_add_stream_log(struct ip_session *s);

#endif
