/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking away what iprobe has mapped in a process (iprobe detach --remove), when all sites are
 * idle.
 *
 *   1. Take the session of the process. An iprobe that has it is waited for, since its session may
 *      be about to end.
 *   2. See that no site is live: another iprobe may have come in between, and may be dead by now.
 *   3. Have the process unmap it (hotpatcher/plan/window/area_window.h, steps 6 to 8).
 *
 * What stays is code and data of the runtime, one page for the gate, and a page for each of the
 * first covers. A process that was forked from one with the runtime has nothing else of it, unless
 * iprobe has attached to it, too.
 */
#ifndef IP_REMOVE_H
#define IP_REMOVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hotpatcher/patch/patch.h"

struct ip_remove_result {
	uint64_t bytes; /* of address space that the process has given back */
	bool loaded;	/* the program has loaded the runtime itself, or it was started with it */
	bool runtime;	/* the process has the runtime */
};

/* may_stop: running threads may be stopped, one by one. The holds of threads are added to result.
 * 0: nothing but the runtime is there any more; -1 with the reason: all is as it was. */
int ip_session_remove(pid_t pid, bool may_stop, struct ip_patch_result *result,
		      struct ip_remove_result *ret);

#endif
