/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making room for a new trace. See place.h.
 */
#include "trace_writer/place.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/trace_dir.h"
#include "common/trace/trace_members.h"
#include "trace_writer/journal.h"

/* Checks that no living iprobe writes the trace, or that of one of its members. Returns -1 with an
 * error. */
static int check_unlocked(int fd, const char *path)
{
	struct ip_trace_members members;
	bool locked = ip_journal_is_locked(fd);
	int ret = ip_trace_members_read(fd, path, &members);

	for (size_t i = 0; !locked && ret == 0 && i < members.n; i++) {
		_cleanup_close_ int member = ip_trace_member_open(fd, members.items[i].name);

		locked = member >= 0 && ip_journal_is_locked(member);
		if (member < 0 && errno != ENOENT)
			ret = ip_error_errno("cannot open %s/%s", path, members.items[i].name);
	}
	ip_trace_members_clear(&members);
	if (locked)
		return ip_error(
			"%s is being written by another iprobe: name another directory with -o",
			path);
	return ret < 0 ? -1 : 0;
}

/* Opens the directory of that name. It must be a trace of iprobe that no living iprobe writes, or
 * empty. Returns -1 if there is nothing, -2 with an error. */
static int open_trace(int parent, const char *name, const char *path)
{
	_cleanup_close_ int fd = ip_dir_open(parent, name);

	if (fd < 0 && errno == ENOENT)
		return -1;
	if (fd < 0 && errno == EPERM)
		ip_error("%s is another user's: name another directory with -o", path);
	else if (fd < 0 && errno == EACCES)
		ip_error("%s: permission denied: name another directory with -o", path);
	else if (fd < 0 || !ip_trace_dir_is_one(fd))
		ip_error("%s exists and is not a trace of iprobe: name another directory with -o",
			 path);
	else if (check_unlocked(fd, path) == 0)
		return ip_steal_fd(&fd);
	return -2;
}

int ip_trace_place_take(const char *dir, const struct ip_dir_place *place, int *ret_moved)
{
	_cleanup_free_ char *old = NULL;
	_cleanup_close_ int there = open_trace(place->parent, place->name, dir), before = -1;
	char name[NAME_MAX + 1];

	*ret_moved = -1;
	if (there < 0)
		return there + 1;
	if (asprintf(&old, "%s.old", dir) < 0) {
		old = NULL;
		return ip_error("out of memory");
	}
	if (snprintf(name, sizeof(name), "%s.old", place->name) >= (int)sizeof(name))
		return ip_error("%s: the name is too long", old);
	before = open_trace(place->parent, name, old);
	if (before < -1 ||
	    (before >= 0 && (ip_trace_dir_check(before, old) < 0 ||
			     ip_trace_dir_remove(place->parent, name, before, old) < 0)))
		return -1;
	if (ip_dir_rename(place->parent, place->name, name) < 0)
		return ip_error_errno("cannot keep %s as %s", dir, old);
	if (!ip_dir_is_at(place->parent, name, there)) {
		/* it is not the directory that was checked: it gets its name back */
		ip_dir_rename(place->parent, name, place->name);
		return ip_error("%s: another has been put in its place meanwhile", dir);
	}
	*ret_moved = ip_steal_fd(&there);
	return 0;
}

void ip_trace_place_give_back(const struct ip_dir_place *place, int moved)
{
	char old[NAME_MAX + 1];

	/* if the new directory could not be removed, both directories stay */
	if (moved >= 0 && snprintf(old, sizeof(old), "%s.old", place->name) < (int)sizeof(old) &&
	    ip_dir_is_at(place->parent, old, moved))
		ip_dir_rename(place->parent, old, place->name);
}
