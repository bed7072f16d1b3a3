/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which modules stay for the life of the process: the executable, what it needs and what that needs
 * in turn (DT_NEEDED), and the runtime. All others may be unloaded by dlclose at any time: between
 * a look and the stop something else may come to their place.
 */
#ifndef IP_MODULES_NEEDED_H
#define IP_MODULES_NEEDED_H

#include "hotpatcher/process/modules.h"

/* Sets may_go of each module. What cannot be told may go. */
void ip_modules_mark_lasting(const struct ip_target *target, struct ip_modules *modules);

#endif
