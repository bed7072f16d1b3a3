/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the other members of a recording. See service_members.h.
 */
#include "cli/record/service_members.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/print.h"
#include "common/proc.h"
#include "hotpatcher/process/anchor.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"
#include "service/processes.h"

static bool run_same_program(pid_t a, pid_t b)
{
	struct stat x, y;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/exe", a);
	if (stat(name, &x) < 0)
		return false;
	snprintf(name, sizeof(name), "/proc/%d/exe", b);
	return stat(name, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Returns the iprobe whose worker has the session of the process; 0: there is none. Other iprobes
 * are children of a shell, say, and not of one that runs the same program. */
static pid_t service_of(pid_t pid)
{
	struct ip_target *target;
	struct ip_area *area;
	pid_t owner = 0;
	long parent;

	if (!ip_proc_has_runtime(pid) || ip_target_open(pid, false, &target) < 0)
		return 0;
	if (target->has_runtime && ip_area_open(target, &area) == 0) {
		/* a forked child shares the area of its parent's session */
		if (ip_area_has_session(area) && area->header->session_pid == (uint32_t)pid)
			owner = ip_area_owner(area);
		ip_area_close(area);
	}
	ip_target_close(target);
	parent = owner ? ip_proc_status(owner, "PPid") : 0;
	return parent > 1 && run_same_program(owner, parent) ? parent : 0;
}

void cli_service_members_look(pid_t pid, struct cli_service_members *ret)
{
	const struct ip_service_choice below = {.pids = &pid, .npids = 1, .children = true};
	struct ip_service_processes found;
	size_t at = 0, more = 0;

	*ret = (struct cli_service_members){.iprobe = service_of(pid)};
	if (!ret->iprobe || ip_service_processes_find(&below, &found) < 0)
		return;
	for (size_t i = 0; i < found.n; i++) {
		char text[24];
		int length = snprintf(text, sizeof(text), "%s%d", ret->n ? ", " : "",
				      found.items[i].pid);

		if (found.items[i].pid == pid || service_of(found.items[i].pid) != ret->iprobe)
			continue;
		ret->n++;
		/* there is room left for the number of the others */
		if (more || at + length + 32 > sizeof(ret->pids)) {
			more++;
			continue;
		}
		memcpy(ret->pids + at, text, length + 1);
		at += length;
	}
	if (more)
		snprintf(ret->pids + at, sizeof(ret->pids) - at, " and %zu more", more);
	ip_service_processes_clear(&found);
}

void cli_service_members_tell(const struct cli_service_members *m, pid_t pid, const char *what)
{
	if (m->n)
		ip_print(stderr,
			 "iprobe: pid %d: its session is one of %zu of iprobe %d: %s %s %s; "
			 "--children takes all\n",
			 pid, m->n + 1, m->iprobe, m->n == 1 ? "pid" : "pids", m->pids, what);
}
