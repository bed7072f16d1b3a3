/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the parts of iprobe. See install_paths.h.
 */
#include "coldpatch/cc/install_paths.h"
#include "common/file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *install_path(const char *in_build, const char *installed, const char *name, int access_mode)
{
	const char *const places[] = {in_build, installed};
	char exe[PATH_MAX], candidate[2 * PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0)
		return NULL;
	exe[n] = '\0';
	*strrchr(exe, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		int length =
			snprintf(candidate, sizeof(candidate), "%s/%s/%s", exe, places[i], name);

		if (length < (int)sizeof(candidate) && !ip_access(candidate, access_mode))
			return realpath(candidate, NULL);
	}
	return NULL;
}
