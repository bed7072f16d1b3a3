/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which modules stay mapped for the life of the process: the executable, the libraries that
 * it needs and those that these need in turn (DT_NEEDED), and the runtime. dlclose may unload all
 * others at any time: between a look and the stop another module may be mapped in their place.
 */
#ifndef IP_MODULES_NEEDED_H
#define IP_MODULES_NEEDED_H

#include "hotpatcher/process/modules.h"

/* Sets may_go of each module. If it cannot be told whether a module stays, may_go is true. */
void ip_modules_mark_lasting(const struct ip_target *target, struct ip_modules *modules);

#endif
