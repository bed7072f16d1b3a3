/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads values of options.
 */
#include "cli/darc/darc_options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "config/probes_d.h"

bool cli_darc_percent(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return *text >= '0' && *text <= '9' && !*end && *ret >= 0 && *ret <= 100;
}

int cli_darc_budget(const char *command, double *ret)
{
	char *end;

	*ret = strtod(optarg, &end) / 100;
	end += strspn(end, " ");
	/* fperf takes no less */
	if (*optarg >= '0' && *optarg <= '9' && !strcmp(end, "%") &&
	    *ret >= IP_PROFILE_BUDGET_LEAST / 100 && *ret <= 1)
		return -1;
	return cli_usage(command, "--budget takes a share from 0.01%% to 100%%, as 2%%, not '%s'",
			 optarg);
}
