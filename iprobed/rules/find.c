/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at all processes once. See find.h.
 */
#include "iprobed/rules/find.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "iprobed/rules/cmdline_reader.h"

static bool is_ours(const char *exe, const char *program)
{
	const char *slash = strrchr(program, '/');
	const size_t folder = slash ? (size_t)(slash + 1 - program) : 0;

	return !strncmp(exe, program, folder) &&
	       (!strcmp(exe + folder, "iprobe") || !strcmp(exe + folder, "iprobed") ||
		!strcmp(exe + folder, "fperf"));
}

void ip_rules_find(const struct ip_rules_rule *rule, const char *program,
		   void (*found)(void *context, const struct ip_rules_process *process),
		   void *context)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct ip_rules_reader reader = {.fd = -1};
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		const long pid = strtol(entry->d_name, NULL, 10);
		struct ip_rules_process process;

		if (pid <= 0 || ip_rules_process_read(pid, &process) < 0)
			continue;
		if (!is_ours(process.exe, program) && ip_rules_may_match(rule, &process) &&
		    (!rule->cmdline.n || ip_rules_cmdline_read(&reader, &process) == 0) &&
		    ip_rules_match(rule, &process))
			found(context, &process);
		ip_rules_process_clear(&process);
	}
	ip_rules_reader_close(&reader);
}
