/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's payload (include/iprobe/payload.h): finding it in the target, and what it says of
 * itself. Its code runs in the target; here it is only read, and all that it says is checked.
 *
 * A hook may be about to call it at any time while its functions are live, so the object must stay:
 * iprobe run has preloaded it, or it cannot be unloaded (modules_needed.h, or linked with -z
 * nodelete).
 */
#ifndef IP_USER_PAYLOAD_H
#define IP_USER_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/modules.h"
#include "include/iprobe/payload.h"

#define IP_USER_NAME_MAX 32u

struct ip_user_payload {
	char *path;	/* of the object, absolute */
	bool preloaded; /* by iprobe run */
	uint64_t call;	/* in the present image */
	uint32_t cell_size, scratch_size, mask;
	uint32_t nfields;
	struct {
		char name[IP_USER_NAME_MAX];
		uint32_t offset, how;
	} fields[IPROBE_FIELDS_MAX];
};

/* Whether the file is an object with a payload, for this machine. -1 with an error. */
int ip_user_check_file(const char *path);

/* Finds it in the target and reads what it says. -1 with an error: it is not there, or cannot
 * serve. */
int ip_user_find(const struct ip_target *target, const struct ip_modules *modules, const char *path,
		 bool preloaded, struct ip_user_payload *ret);

/* One more thread's cell into sums. */
void ip_user_merge(const struct ip_user_payload *user, const void *cell, uint64_t *sums);

#endif
