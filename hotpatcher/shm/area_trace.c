/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the trace of a session lies.
 */
#include "hotpatcher/shm/area_trace.h"

#include <stdlib.h>
#include <string.h>

#include "access/delegation.h"
#include "common/cleanup.h"

void ip_area_set_trace(struct ip_area *area, const char *dir)
{
	/* the target reads what is noted: a worker of iprobed finds no more than the caller could
	 */
	const bool down = ip_delegation_put_down();
	_cleanup_free_ char *path = realpath(dir, NULL);
	volatile struct ip_area_trace *trace = area->trace;
	const size_t n = path ? strlen(path) : 0;

	ip_delegation_take_up(down);
	trace->session = 0;
	if (!n || n >= IP_AREA_TRACE_MAX)
		return;
	for (size_t i = 0; i <= n; i++)
		trace->path[i] = path[i];
	__atomic_store_n(&trace->session, area->header->session, __ATOMIC_RELEASE);
}

bool ip_area_get_trace(const struct ip_area *area, uint32_t session, char ret[IP_AREA_TRACE_MAX])
{
	const volatile struct ip_area_trace *trace = area->trace;

	/* each byte is read once: the target may change it meanwhile */
	if (__atomic_load_n(&trace->session, __ATOMIC_ACQUIRE) != session)
		return false;
	for (size_t i = 0; i < IP_AREA_TRACE_MAX; i++)
		ret[i] = trace->path[i];
	return *ret == '/' && memchr(ret, 0, IP_AREA_TRACE_MAX);
}
