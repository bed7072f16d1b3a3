/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the trace of a session lies, as the area tells it: for iprobe attach --resume.
 *
 * The target can write the area. So what is read here may be any path, and the caller must not
 * trust the directory: it checks who could have made it (ip_dir_check_way()), and that its journal
 * is that of the session.
 */
#ifndef IP_AREA_TRACE_H
#define IP_AREA_TRACE_H

#include <stdbool.h>

#include "hotpatcher/shm/area.h"

/* Notes where the trace of the area's session lies. A path that has no place is left out. */
void ip_area_set_trace(struct ip_area *area, const char *dir);

/* Copies the path that was noted for the session. Returns whether there is an absolute one. */
bool ip_area_get_trace(const struct ip_area *area, uint32_t session, char ret[IP_AREA_TRACE_MAX]);

#endif
