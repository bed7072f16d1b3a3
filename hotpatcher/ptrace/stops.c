/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iprobe remembers of a target's stops. See stops.h.
 */
#include "hotpatcher/ptrace/stops.h"

#include <assert.h>
#include <stdlib.h>

#include "common/error.h"

static void destroy(struct ip_target_state *base)
{
	struct ip_stops *stops = (struct ip_stops *)base;

	free(stops->held);
	free(stops);
}

int ip_stops_open(pid_t pid, struct ip_target **ret)
{
	struct ip_stops *stops;

	if (ip_target_open(pid, true, ret) < 0)
		return -1;
	stops = calloc(1, sizeof(*stops));
	if (!stops) {
		ip_target_close(*ret);
		*ret = NULL;
		return ip_error("out of memory");
	}
	stops->base.destroy = destroy;
	(*ret)->state = &stops->base;
	return 0;
}

struct ip_stops *ip_stops_of(const struct ip_target *target)
{
	assert(target->state);
	return (struct ip_stops *)target->state;
}
