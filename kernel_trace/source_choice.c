/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries sources until one serves.
 */
#include "kernel_trace/source_choice.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/perf/perf_source.h"
#include "kernel_trace/tracefs_source.h"

#define VARIABLE "IPROBE_KERNEL_SOURCE"

static int enable(struct ip_record_source *source, const struct ip_source_request *request,
		  unsigned id, enum ip_record_part part)
{
	const struct ip_tracepoint *tracepoint = ip_event_layout_tracepoint(request->layout, id);

	return tracepoint && request->groups >> tracepoint->group & 1
		       ? source->ops->enable(source, part, tracepoint)
		       : 0;
}

static int prepare(struct ip_record_source *source, const struct ip_source_request *request)
{
	const bool needed[IP_RECORD_PARTS] = {
		[IP_RECORD_ALL] = request->all, [IP_RECORD_TARGET] = request->target};

	for (unsigned part = 0; part < IP_RECORD_PARTS; part++)
		if (needed[part] && source->ops->make(source, part, request->size) < 0)
			return -1;
	for (unsigned id = 0; id < IP_KERNEL_EVENTS; id++) {
		const struct ip_kernel_kind *kind = ip_kernel_kind_of(id);
		const bool all = request->all && kind && kind->everywhere;

		if (kind && kind->unwritten && !request->unwritten)
			continue;
		/* without them it would not be known what has to be left out */
		if (kind && kind->unwritten && !ip_event_layout_has(request->layout, id))
			return ip_error("this kernel does not tell of %s:%s, without which events "
					"cannot be given to users",
					kind->system, kind->tracepoint);
		if (enable(source, request, id, all ? IP_RECORD_ALL : IP_RECORD_TARGET) < 0)
			return -1;
	}
	if (request->probes && source->ops->enable_probes(source, request->probes) < 0)
		return -1;
	return enable(source, request, IP_KERNEL_SYSCALL_ENTRY, IP_RECORD_TARGET) < 0 ||
			       enable(source, request, IP_KERNEL_SYSCALL_EXIT, IP_RECORD_TARGET) < 0
		       ? -1
		       : 0;
}

/* source: owned; NULL with an error. */
static struct ip_record_source *keep_if_it_serves(struct ip_record_source *source,
						  const struct ip_source_request *request)
{
	if (!source || prepare(source, request) == 0)
		return source;
	source->ops->destroy(source);
	return NULL;
}

int ip_source_wanted(enum ip_kernel_source asked, enum ip_kernel_source *ret)
{
	const char *named = asked == IP_KERNEL_SOURCE_AUTO ? secure_getenv(VARIABLE) : NULL;

	*ret = asked;
	return named && ip_kernel_source_parse(named, ret) < 0 ? ip_error_prefix(VARIABLE) : 0;
}

int ip_source_check_probes(enum ip_kernel_source source, const struct ip_tracefs *tracefs)
{
	enum ip_kernel_source wanted;

	if (ip_source_wanted(source, &wanted) < 0)
		return -1;
	if (wanted == IP_KERNEL_SOURCE_PERF)
		return ip_error("functions of the kernel are recorded by probes of its tracefs, "
				"not by perf events: leave --kernel-functions out, or " VARIABLE
				"=perf");
	return ip_tracefs_check(tracefs) < 0 ? ip_error_prefix("--kernel-functions") : 0;
}

struct ip_record_source *ip_source_choose(const struct ip_source_request *request)
{
	struct ip_record_source *source = NULL;
	_cleanup_free_ char *why = NULL;
	enum ip_kernel_source wanted;

	if (ip_source_wanted(request->source, &wanted) < 0)
		return NULL;
	if (request->probes)
		wanted = IP_KERNEL_SOURCE_TRACEFS;
	if (wanted != IP_KERNEL_SOURCE_PERF)
		source = keep_if_it_serves(ip_tracefs_source_create(request->tracefs), request);
	if (source || wanted == IP_KERNEL_SOURCE_TRACEFS)
		return source;
	if (wanted == IP_KERNEL_SOURCE_AUTO)
		why = strdup(ip_error_message());
	source = keep_if_it_serves(ip_perf_source_create(request->layout), request);
	if (!source && why)
		ip_error_prefix("%s; by perf events", why);
	return source;
}
