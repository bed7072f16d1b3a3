/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that threads waited for, in words: "&db.lock", "/var/log/x", "tcp 127.0.0.1:80".
 */
#ifndef IP_OBJECT_NAME_H
#define IP_OBJECT_NAME_H

#include "analysis/read/session.h"
#include "analysis/wait/wait_object.h"

struct ip_object_names;

/* session: borrowed. Returns NULL with an error where memory ran out. */
struct ip_object_names *ip_object_names_create(const struct ip_recording *session);
void ip_object_names_destroy(struct ip_object_names *names);

/* The words for an object, without its kind; valid until the next call. An address is that of a
 * variable where the module's file is still there with the build-id that was recorded; else it is
 * a number. */
const char *ip_object_name(struct ip_object_names *names, const struct ip_wait_object *object);

#endif
