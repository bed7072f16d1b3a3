/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session may be for besides recording: somebody who looks at it while it lasts, and decides
 * what is live, as FPerf does. The session knows none of them by name.
 */
#ifndef IP_CONTROLLER_H
#define IP_CONTROLLER_H

#include "collector/meters.h"
#include "hotpatcher/plan/selections.h"

struct ip_area;
struct ip_plan;
struct ip_session;
struct ip_target;

/* It replaces the recording: nothing is written to rings. Each function is called by the session's
 * thread, with data. */
struct ip_session_controller {
	void *data;
	const struct ip_chooser *chooser;
	const struct ip_meter_kind *meters;
	/* Whether it works in this process; adds to *room what it needs in each block. -1 with an
	 * error. */
	int (*check)(void *data, const struct ip_target *target, const struct ip_plan *plan,
		     uint64_t *room);
	/* Whether its hooks make system calls. */
	bool (*makes_calls)(const void *data);
	/* The session's memory is ready. -1 with an error. */
	int (*begin)(void *data, struct ip_area *area);
	/* Now and then. */
	void (*turn)(void *data, struct ip_session *s);
	/* How long the session's loop may sleep, ns. */
	uint64_t (*nap)(const void *data, uint64_t now_ns);
	/* The session ends: reads everything for the last time. */
	void (*end)(void *data);
};

#endif
