/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --args and --retval on a command line: the request FUNC(EXPRESSION, ...) may follow as a word of
 * its own.
 */
#ifndef IP_CLI_VALUE_WORDS_H
#define IP_CLI_VALUE_WORDS_H

#include <getopt.h>
#include <string.h>

#include "common/values/value_request.h"

/* Returns the value of the option that getopt_long() has just returned. Takes the next word of argv
 * if it is a request: that is no pid, and no program either. NULL: the option stands alone. */
static inline char *cli_value_word(int argc, char **argv)
{
	if (optarg || optind >= argc || !ip_value_request_is(argv[optind]))
		return optarg;
	return argv[optind++];
}

#endif
