/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what is to be excluded. See exclude.h.
 */
#include "coldpatch/sites/exclude.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	if (stat(text, &st)) {
		/* neither a function nor a list of globs begins in this way */
		if ((*text == '/' || !strncmp(text, "./", 2) || !strncmp(text, "../", 3)) &&
		    !strchr(text, ','))
			return ip_error_errno("%s", text);
	} else if (S_ISREG(st.st_mode)) {
		if (asprintf(&file, "@%s", text) < 0)
			return ip_error("out of memory");
		text = file;
	}
	return ip_selection_parse(text, ret);
}
