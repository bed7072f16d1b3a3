/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps paths until their calls are listed.
 */
#include "cli/syscalls/live_paths.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/syscalls/syscall_text.h"
#include "common/error.h"

#define LATER_TICKS 1000000u /* a path may have the time of a moment before its call's return */

int cli_live_paths_add(struct cli_live_paths *live, const struct ip_call_path *path)
{
	struct ip_call_path copy = *path;

	copy.text = path->text ? strdup(path->text) : NULL;
	if (path->text && !copy.text)
		return ip_error("out of memory");
	if (ip_call_paths_add(&live->paths, &copy) == 0)
		return 0;
	free((char *)copy.text);
	return -1;
}

void cli_live_paths_sort(struct cli_live_paths *live)
{
	ip_call_paths_sort(&live->paths);
}

void cli_live_paths_forget(struct cli_live_paths *live, uint64_t tsc)
{
	size_t n = 0;

	for (size_t i = 0; i < live->paths.n; i++) {
		struct ip_call_path *p = &live->paths.items[i];

		if ((p->tid ? p->tsc : p->address) + LATER_TICKS < tsc)
			free((char *)p->text);
		else
			live->paths.items[n++] = *p;
	}
	live->paths.n = n;
}

void cli_live_paths_clear(struct cli_live_paths *live)
{
	cli_live_paths_forget(live, UINT64_MAX);
	free(live->paths.items);
	live->paths = (struct ip_call_paths){0};
}

const char *cli_live_paths_find(void *context, const struct ip_syscall_call *call,
				unsigned argument)
{
	const struct cli_live_paths *live = context;

	return ip_syscall_path(&live->paths, call, argument);
}
