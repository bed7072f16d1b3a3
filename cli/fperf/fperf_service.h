/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fperf for several processes: each is counted by a worker of its own, within a budget of its own.
 * What the workers print comes one below the other, or as one JSON document.
 */
#ifndef IP_CLI_FPERF_SERVICE_H
#define IP_CLI_FPERF_SERVICE_H

#include <stdbool.h>
#include <stdio.h>

#include "service/service.h"

struct fperf_service {
	struct ip_service_choice choice;
	uint64_t duration_ns; /* 0: until the end */
	bool json, quiet;
	FILE *out;
	/* counts one process in a worker and prints the results on stdout; as in
	 * ip_service_options */
	int (*work)(void *context, const struct ip_service_task *task, int socket,
		    struct ip_service_worker_result *result);
	void *context;
};

/* Counts until the end. *ret_written: results have been printed. Returns the exit code. */
int fperf_service_run(const struct fperf_service *service, bool *ret_written);

#endif
