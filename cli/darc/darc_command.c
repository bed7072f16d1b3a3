/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for commands.
 */
#include "cli/darc/darc_command.h"

#include <time.h>

#include "common/error.h"
#include "common/interrupted.h"
#include "common/proc.h"
#include "common/selection/selection.h"
#include "hotpatcher/process/callees.h"

#define START_MS 5000
#define NAP_MS	 10

void cli_darc_command_wait(pid_t pid, const char *functions)
{
	struct ip_selection *selection;
	bool found = false;

	if (ip_selection_parse(functions, &selection) < 0)
		return;
	for (unsigned i = 0; i < START_MS / NAP_MS && !found && !ip_interrupted; i++) {
		struct ip_callees all;

		if (!ip_proc_has_memory(pid))
			break;
		if (ip_callees_all(pid, &all, NULL) == 0)
			for (size_t k = 0; k < all.n && !found; k++)
				found = ip_selection_match(selection, all.names[k], NULL, NULL);
		ip_callees_clear(&all);
		if (!found)
			nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000}, NULL);
	}
	ip_selection_destroy(selection);
}
