/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads values of options.
 */
#include "cli/darc/darc_options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/filter_options.h"
#include "common/error.h"
#include "common/file.h"
#include "common/units.h"
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

int cli_darc_number(const char *command, const char *option, uint64_t *ret)
{
	char *end;

	*ret = strtoull(optarg, &end, 10);
	if (*optarg >= '0' && *optarg <= '9' && !*end && *ret)
		return -1;
	return cli_usage(command, "%s takes a number above 0, not '%s'", option, optarg);
}

int cli_darc_peak(const char *command, struct ip_darc_options *ret)
{
	uint64_t number;
	const int code = cli_darc_number(command, "--peak", &number);

	ret->choice = IP_DARC_PEAK;
	ret->number = number;
	return code;
}

int cli_darc_slower_than(const char *command, struct ip_darc_options *ret)
{
	ret->choice = IP_DARC_SLOWER;
	if (cli_parse_time(command, optarg, &ret->slower_ns) < 0)
		return 2;
	return ret->slower_ns ? -1 : cli_usage(command, "--slower-than: a time above 0");
}

int cli_darc_percentile(const char *command, struct ip_darc_options *ret)
{
	ret->choice = IP_DARC_PERCENTILE;
	if (!cli_darc_percent(optarg + (*optarg == 'p'), &ret->share) || ret->share >= 100 ||
	    ret->share <= 0)
		return cli_usage(command,
				 "--percentile takes p50, p99, p99.9 and the like, not '%s'",
				 optarg);
	ret->share /= 100;
	return -1;
}

int cli_darc_memory(const char *command, uint64_t *ret)
{
	return ip_parse_size(optarg, ret) < 0
		       ? cli_usage(command, "--memory: %s", ip_error_message())
		       : -1;
}

bool cli_darc_is_process(const char *operand, int *ret)
{
	return operand[strspn(operand, "0123456789")] == '\0' && ip_access(operand, F_OK) < 0 &&
	       ip_parse_pid(operand, ret) == 0;
}
