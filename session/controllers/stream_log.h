/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --stream: a controller by which a session has a live log (stream_log/stream_log.h). It looks at
 * the rings each millisecond, and hands on what the session file says as soon as it is known.
 */
#ifndef IP_SESSION_STREAM_LOG_H
#define IP_SESSION_STREAM_LOG_H

struct ip_session;

/* Opens the place that the options name, before anything of a target is touched, and adds the
 * controller. Returns 0, or -1 with an error. */
int ip_session_add_stream_log(struct ip_session *s);

#endif
