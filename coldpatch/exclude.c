/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what is to be excluded. See exclude.h.
 */
#include "coldpatch/exclude.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/error.h"

int cold_exclude_parse(const char *text, struct ip_selection **ret)
{
	_cleanup_free_ char *file = NULL;
	struct stat st;

	*ret = NULL;
	if (!text || !*text)
		return 0;
	if (!stat(text, &st) && S_ISREG(st.st_mode)) {
		if (asprintf(&file, "@%s", text) < 0)
			return ip_error("out of memory");
		text = file;
	}
	return ip_selection_parse(text, ret);
}
