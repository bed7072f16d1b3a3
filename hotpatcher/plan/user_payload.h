/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's payload (include/iprobe/payload.h): finds it in the target, and reads its description.
 * The payload's code runs in the target. Here it is only read, and everything in its description is
 * checked.
 *
 * While functions with the payload are live, a hook may be about to call it at any time. So the
 * object must not be unloaded: either iprobe run has preloaded it, or it cannot be unloaded
 * (modules_needed.h, or it was linked with -z nodelete).
 */
#ifndef IP_USER_PAYLOAD_H
#define IP_USER_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/modules.h"
#include "include/iprobe/payload.h"

#define IP_USER_NAME_MAX 32u

struct ip_user_payload {
	char *path;	/* absolute path of the object */
	bool preloaded; /* iprobe run has preloaded it */
	uint64_t call;	/* address in the present image */
	uint32_t cell_size, scratch_size, mask;
	uint32_t nfields;
	struct {
		char name[IP_USER_NAME_MAX];
		uint32_t offset, how;
	} fields[IPROBE_FIELDS_MAX];
};

/* Checks that the file is a shared object with a payload, for this machine. Returns 0, or -1 with
 * an error. */
int ip_user_check_file(const char *path);

/* Finds the payload in the target and reads its description. Returns 0, or -1 with an error: the
 * payload is not loaded, or cannot be used. */
int ip_user_find(const struct ip_target *target, const struct ip_modules *modules, const char *path,
		 bool preloaded, struct ip_user_payload *ret);

/* Merges the cell of one more thread into sums. */
void ip_user_merge(const struct ip_user_payload *user, const void *cell, uint64_t *sums);

#endif
