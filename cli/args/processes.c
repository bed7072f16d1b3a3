/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing processes. See processes.h.
 */
#include "cli/args/processes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args/operands.h"
#include "cli/cli.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

struct list {
	const char **items;
	size_t n;
};

static struct list names, units, cgroups;
static bool children;

static int add(const char *command, const char *option, const char *text, struct list *list)
{
	if (!*text)
		return cli_usage(command, "%s is empty", option);
	if (list->n == IP_SERVICE_CHOICES ||
	    ip_array_grow(&list->items, list->n, sizeof(*list->items)) < 0)
		return cli_usage(command, "%s: too many", option);
	list->items[list->n++] = text;
	return -1;
}

int cli_process_option(const char *command, int option, const char *text)
{
	switch (option) {
	case 'p':
		return cli_pid_option(command, text) ? 2 : -1;
	case CLI_OPTION_CHILDREN:
		children = true;
		return -1;
	case CLI_OPTION_NAME:
		return add(command, "--name", text, &names);
	case CLI_OPTION_UNIT:
		return add(command, "--unit", text, &units);
	case CLI_OPTION_CGROUP:
		return add(command, "--cgroup", text, &cgroups);
	default:
		return -2;
	}
}

bool cli_is_process_option(const char *name)
{
	static const struct option ours[] = {CLI_PROCESS_OPTIONS};

	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		if (!strcmp(ours[i].name, name))
			return true;
	return false;
}

bool cli_any_process(int argc, int next)
{
	return cli_any_pid(argc, next) || names.n || units.n || cgroups.n || children;
}

int cli_process_choice(int argc, char **argv, int next, struct ip_service_choice *ret)
{
	/* of fperf it is the path of the program */
	const char *slash = strrchr(argv[0], '/'), *command = slash ? slash + 1 : argv[0];
	size_t n;
	_cleanup_free_ char **words = cli_operands(argc, argv, next, &n);
	pid_t *pids = words ? calloc(n + 1, sizeof(*pids)) : NULL;
	size_t kept = 0;

	if (!pids)
		return cli_usage(command, "out of memory");
	if (n > IP_SERVICE_CHOICES)
		return cli_usage(command, "more than %u PIDs", IP_SERVICE_CHOICES);
	for (size_t i = 0; i < n; i++) {
		int pid, code = cli_pid_operand(command, words[i], i == 0, &pid);
		bool twice = false;

		if (code >= 0)
			return code;
		for (size_t k = 0; k < kept; k++)
			twice |= pids[k] == pid;
		if (!twice)
			pids[kept++] = pid;
	}
	*ret = (struct ip_service_choice){.pids = pids,
					  .npids = kept,
					  .names = names.items,
					  .nnames = names.n,
					  .units = units.items,
					  .nunits = units.n,
					  .cgroups = cgroups.items,
					  .ncgroups = cgroups.n,
					  .children = children};
	if (!kept && !names.n && !units.n && !cgroups.n)
		return cli_usage(command, children ? "--children: of which process? PID is missing"
						   : "which process? PID is missing (or --name, "
						     "--unit, --cgroup)");
	return -1;
}

int cli_process_choice_or_trace(int argc, char **argv, int next, struct ip_service_choice *ret)
{
	const char *first = next < argc ? argv[next] : NULL;
	const bool is_number = first && !first[strspn(first, "0123456789")];

	if (!cli_any_process(argc, argc) && !(is_number && ip_access(first, F_OK) < 0))
		return -2;
	return cli_process_choice(argc, argv, next, ret);
}

bool cli_is_one_process(const struct ip_service_choice *choice)
{
	return choice->npids == 1 && !ip_service_choice_is_open(choice);
}
