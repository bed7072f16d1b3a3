/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at all processes once. See find.h.
 */
#include "iprobed/rules/find.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "iprobed/rules/cmdline_reader.h"

static bool is_ours(const char *exe, const char *program)
{
	const char *slash = strrchr(program, '/');
	const size_t folder = slash ? (size_t)(slash + 1 - program) : 0;

	return !strncmp(exe, program, folder) &&
	       (!strcmp(exe + folder, "iprobe") || !strcmp(exe + folder, "iprobed") ||
		!strcmp(exe + folder, "fperf"));
}

/* What is looked for, and by which name a process is taken. */
struct search {
	const struct ip_rules_rule *rule;
	const char *program;
	bool by_name; /* the kernel's name of the process stands for its executable */
	struct ip_rules_reader reader;
};

static bool is_for(struct search *s, struct ip_rules_process *p)
{
	return ip_rules_may_match(s->rule, p) &&
	       (!s->rule->cmdline.n || ip_rules_cmdline_read(&s->reader, p) == 0) &&
	       ip_rules_match(s->rule, p);
}

static bool is_called(struct search *s, struct ip_rules_process *p)
{
	_cleanup_free_ char *path = NULL, *name = NULL;
	char *exe = p->exe;
	size_t size;
	bool found;

	if (asprintf(&path, "/proc/%d/comm", p->pid) < 0) {
		path = NULL;
		return false;
	}
	if (ip_read_text(path, 64, &name, &size) < 0)
		return false;
	name[strcspn(name, "\n")] = '\0';
	p->exe = name;
	found = is_for(s, p);
	p->exe = exe;
	return found;
}

static void search(struct search *s,
		   void (*found)(void *context, const struct ip_rules_process *process),
		   void *context)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		const long pid = strtol(entry->d_name, NULL, 10);
		struct ip_rules_process process;

		if (pid <= 0 || ip_rules_process_read(pid, &process) < 0)
			continue;
		if (!is_ours(process.exe, s->program) &&
		    (s->by_name ? is_called(s, &process) : is_for(s, &process)))
			found(context, &process);
		ip_rules_process_clear(&process);
	}
	ip_rules_reader_close(&s->reader);
}

void ip_rules_find(const struct ip_rules_rule *rule, const char *program,
		   void (*found)(void *context, const struct ip_rules_process *process),
		   void *context)
{
	search(&(struct search){rule, program, false, {.fd = -1}}, found, context);
}

void ip_rules_find_called(const struct ip_rules_rule *rule, const char *program,
			  void (*found)(void *context, const struct ip_rules_process *process),
			  void *context)
{
	if (rule->exe.n)
		search(&(struct search){rule, program, true, {.fd = -1}}, found, context);
}
