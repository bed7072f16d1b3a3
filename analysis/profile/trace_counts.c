/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the counts of a trace, which may have a file for each of its processes.
 */
#include "analysis/profile/trace_counts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analysis/read/members.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/trace_format.h"

#define COUNTS_MAX (1ull << 30)

/* Adds the counts of a directory, where it has some. */
static int add_file(const char *dir, const struct ip_recording *session,
		    const struct ip_recording_member *member, struct ip_counts *counts)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	size_t size;

	if (asprintf(&path, "%s/%s", dir, IP_TRACE_COUNTS) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	if (ip_access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	return ip_read_regular_text(path, COUNTS_MAX, &text, &size) < 0
		       ? -1
		       : ip_counts_add(path, text, size, session, member, counts);
}

/* Loads the counts of one process; they are empty where it has no such file. 0, or -1 with an
 * error. */
static int load(const char *dir, const struct ip_recording *session, struct ip_counts **ret)
{
	*ret = ip_counts_create(session);
	if (*ret && add_file(dir, session, NULL, *ret) == 0)
		return 0;
	ip_counts_destroy(ip_steal_ptr(*ret));
	return -1;
}

static bool is_chosen(const struct ip_trace_reader *t, uint32_t member)
{
	const struct ip_trace_reader *own = t->members[member];

	for (size_t i = 0; i < own->nprocesses; i++)
		if (!t->process_list[own->process_list[i].joined].off)
			return true;
	return false;
}

int ip_counts_of_trace(const struct ip_trace_reader *t, struct ip_counts **ret)
{
	if (!t->members)
		return load(t->dir, t->session, ret);
	*ret = ip_counts_create(t->session);
	for (uint32_t i = 0; *ret && i < t->nmembers; i++)
		if (is_chosen(t, i) && add_file(t->members[i]->dir, t->session,
						&t->session->members->items[i], *ret) < 0) {
			ip_counts_destroy(ip_steal_ptr(*ret));
			return -1;
		}
	return *ret ? 0 : -1;
}
