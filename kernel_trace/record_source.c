/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of sources.
 */
#include "kernel_trace/record_source.h"

#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/trace/kernel_format.h"

unsigned ip_record_cpus(void)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);

	return cpus < 1 ? 1 : cpus > (long)IP_KERNEL_CPUS_MAX ? IP_KERNEL_CPUS_MAX : cpus;
}

int ip_kernel_source_parse(const char *text, enum ip_kernel_source *ret)
{
	static const char *const names[] = {[IP_KERNEL_SOURCE_AUTO] = "auto",
					    [IP_KERNEL_SOURCE_TRACEFS] = "tracefs",
					    [IP_KERNEL_SOURCE_PERF] = "perf"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(text, names[i])) {
			*ret = i;
			return 0;
		}
	return ip_error("--kernel-source is auto, tracefs or perf, not '%s'", text);
}
