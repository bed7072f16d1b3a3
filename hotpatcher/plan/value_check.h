/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds requests for values (--args, --retval, --when) against the functions of modules, as an
 * attach would, without one: the modules may be files that no process has mapped.
 */
#ifndef IP_VALUE_CHECK_H
#define IP_VALUE_CHECK_H

#include "common/selection/selection.h"
#include "common/values/value_request.h"
#include "hotpatcher/process/modules.h"

/* Calls tell() for each request that fits no function that the selection chooses, with the words of
 * the error that an attach would give. What debug information that is missing would have to say is
 * not told. pid: of the process that sees the modules' paths; for files, the caller's own. Returns
 * 0, or -1 with an error: out of memory, or debug information that cannot be read. */
int ip_values_check_modules(const struct ip_modules *modules, pid_t pid,
			    const struct ip_selection *selection,
			    const struct ip_value_requests *requests,
			    void (*tell)(void *context, const char *text), void *context);

#endif
