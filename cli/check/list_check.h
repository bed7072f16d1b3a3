/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe list --check: what of a selection and of requests for values matches nothing.
 */
#ifndef IP_CLI_LIST_CHECK_H
#define IP_CLI_LIST_CHECK_H

#include <sys/types.h>

#include "common/json.h"
#include "common/selection/selection.h"
#include "common/values/value_request.h"
#include "hotpatcher/process/modules.h"

struct cli_list_check {
	bool wanted; /* --check */
	struct ip_value_requests requests;
	const char *last; /* the option that goes only with --check; NULL: none was given */
};

/* Adds a request of --args, --retval or --when. Returns 0, or -1 with an error. */
int cli_list_check_add(struct cli_list_check *check, enum ip_value_request_kind kind,
		       const char *text);

/* Prints on stdout, a line each, what matches nothing in the modules; with json writes it as
 * members of the object that is open there. pid: whose modules they are; 0: it is one file, and
 * modules of other names, which lib: chooses, are not known. Returns 0: everything matches; 1: not
 * so; -1 with an error. */
int cli_list_check(const struct cli_list_check *check, const char *what,
		   const struct ip_modules *modules, pid_t pid, struct ip_selection *selection,
		   struct ip_json *json);

#endif
