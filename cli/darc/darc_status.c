/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a search for its state. The session that the search has answers (session/control/): only to
 * an iprobe of its own user or of root.
 */
#include "cli/darc/darc_status.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/darc/darc_state.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "session/session.h"

static int show(pid_t pid, bool json)
{
	_cleanup_free_ char *text = NULL;
	struct cli_darc_state state;
	size_t size;
	pid_t iprobe;
	int ret;

	if (ip_session_ask_description(pid, CLI_DARC_STATE_SIZE_MAX, &text, &size, &iprobe) < 0)
		return -1;
	/* it may be the word of another user's process: what is printed has been read */
	ret = cli_darc_state_read(text, size, "the answer of the search", &state);
	if (ret == 0 && json) {
		ip_print_lines(stdout, text);
	} else if (ret == 0) {
		ip_print(stdout, "pid %d is searched by iprobe pid %d.\n", pid, iprobe);
		cli_darc_state_text(&state);
	}
	cli_darc_state_clear(&state);
	return ret == 0 ? cli_reader_check_stdout() : -1;
}

int cli_darc_status(pid_t pid, bool json)
{
	return show(pid, json) < 0 ? cli_fail() : 0;
}
