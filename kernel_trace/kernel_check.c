/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks sources of kernel events, and cleans up after iprobes that are gone.
 */
#include "kernel_trace/kernel_check.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/kernel_probes.h"
#include "kernel_trace/perf/perf_source.h"
#include "kernel_trace/source_choice.h"
#include "kernel_trace/tracefs_place.h"
#include "kernel_trace/tracefs_source.h"

/* Whether a check has failed: then why. */
static int keep_why(int checked, char **ret)
{
	*ret = checked < 0 ? strdup(ip_error_message()) : NULL;
	return checked < 0 && !*ret ? ip_error("out of memory") : 0;
}

int ip_kernel_check(unsigned groups, struct ip_kernel_check *ret)
{
	struct ip_tracefs tracefs;
	struct ip_event_layout *layout;

	*ret = (struct ip_kernel_check){0};
	if (ip_tracefs_open(&tracefs) < 0)
		return -1;
	layout = ip_event_layout_read();
	if (layout)
		ret->missing = ip_event_layout_missing(layout, groups);
	if (ret->missing && (keep_why(ip_tracefs_check(&tracefs), &ret->no_tracefs) < 0 ||
			     keep_why(ip_perf_source_check(layout), &ret->no_perf) < 0))
		ip_kernel_check_clear(ret);
	ip_event_layout_free(layout);
	ip_tracefs_close(&tracefs);
	return ret->missing ? 0 : -1;
}

void ip_kernel_check_clear(struct ip_kernel_check *check)
{
	free(check->missing);
	free(check->no_tracefs);
	free(check->no_perf);
	*check = (struct ip_kernel_check){0};
}

static int refuse(enum ip_kernel_source wanted, const struct ip_kernel_check *can)
{
	switch (wanted) {
	case IP_KERNEL_SOURCE_TRACEFS:
		return can->no_tracefs ? ip_error("%s", can->no_tracefs) : 0;
	case IP_KERNEL_SOURCE_PERF:
		return can->no_perf ? ip_error("%s", can->no_perf) : 0;
	default:
		return can->no_tracefs && can->no_perf
			       ? ip_error("%s; by perf events: %s", can->no_tracefs, can->no_perf)
			       : 0;
	}
}

int ip_kernel_missing(unsigned groups, enum ip_kernel_source source, char **ret)
{
	struct ip_kernel_check can;
	int refused;

	*ret = NULL;
	if (ip_source_wanted(source, &source) < 0 || ip_kernel_check(groups, &can) < 0)
		return -1;
	refused = refuse(source, &can);
	if (!refused)
		*ret = ip_steal_ptr(can.missing);
	ip_kernel_check_clear(&can);
	return refused;
}

int ip_kernel_check_source(enum ip_kernel_source source)
{
	_cleanup_free_ char *missing = NULL;

	return ip_kernel_missing(0, source, &missing);
}

int ip_kernel_functions_check(void)
{
	struct ip_tracefs tracefs;
	int ret;

	if (ip_tracefs_open(&tracefs) < 0)
		return -1;
	ret = ip_tracefs_check(&tracefs) < 0 ? -1 : ip_kernel_probes_check();
	ip_tracefs_close(&tracefs);
	return ret;
}

void ip_kernel_remove_left(void)
{
	struct ip_tracefs tracefs;

	if (ip_tracefs_open(&tracefs) < 0)
		return;
	if (ip_tracefs_check(&tracefs) == 0)
		ip_tracefs_source_remove_left();
	ip_tracefs_close(&tracefs);
}
