/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of several traces. See member_dirs.h.
 */
#include "trace_writer/member_dirs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/trace/kernel_format.h"
#include "common/trace/trace_dir.h"
#include "trace_writer/place.h"

struct ip_member_dirs {
	char *dir;
	struct ip_dir_place place;
	int fd, old; /* old: what was moved to DIR.old; -1: none */
	struct ip_trace_members members;
};

static int make(struct ip_member_dirs *d)
{
	if (ip_dir_locate(d->dir, &d->place) < 0 ||
	    ip_trace_place_take(d->dir, &d->place, &d->old) < 0)
		return -1;
	d->fd = ip_dir_make(d->place.parent, d->place.name);
	if (d->fd < 0)
		return ip_error_errno("cannot make the trace directory %s", d->dir);
	return ip_trace_members_write(d->fd, d->dir, &d->members);
}

int ip_member_dirs_create(const char *dir, const char *service, struct ip_member_dirs **ret)
{
	struct ip_member_dirs *d = calloc(1, sizeof(*d));

	if (!d)
		return ip_error("out of memory");
	d->place.parent = d->fd = d->old = -1;
	d->dir = strdup(dir);
	d->members.service = strdup(service);
	if (!d->dir || !d->members.service) {
		ip_member_dirs_close(d);
		return ip_error("out of memory");
	}
	if (make(d) < 0) {
		ip_member_dirs_close(d);
		return -1;
	}
	*ret = d;
	return 0;
}

static bool is_there(const struct ip_trace_members *members, const char *name)
{
	for (size_t i = 0; i < members->n; i++)
		if (!strcmp(members->items[i].name, name))
			return true;
	return false;
}

int ip_member_dirs_add(struct ip_member_dirs *dirs, pid_t pid, const char *comm,
		       char ret[IP_TRACE_MEMBER_NAME])
{
	size_t n;

	if (ip_trace_member_name(pid, comm, ret, IP_TRACE_MEMBER_NAME) < 0)
		return -1;
	/* the process is recorded once more: it has executed another program, or the kernel has
	 * given its number to another process */
	n = strlen(ret);
	for (unsigned i = 2; is_there(&dirs->members, ret); i++)
		snprintf(ret + n, IP_TRACE_MEMBER_NAME - n, "-%u", i);
	if (ip_trace_members_add(&dirs->members, ret, pid) < 0)
		return -1;
	return ip_trace_members_write(dirs->fd, dirs->dir, &dirs->members);
}

int ip_member_dirs_remove(struct ip_member_dirs *dirs, const char *name)
{
	struct ip_trace_members *m = &dirs->members;

	for (size_t i = 0; i < m->n; i++) {
		if (strcmp(m->items[i].name, name))
			continue;
		free(m->items[i].name);
		m->n--;
		memmove(&m->items[i], &m->items[i + 1], (m->n - i) * sizeof(*m->items));
		return ip_trace_members_write(dirs->fd, dirs->dir, m);
	}
	return 0;
}

int ip_member_dirs_set_kernel(struct ip_member_dirs *dirs, unsigned groups, uint64_t events,
			      uint64_t lost, const char *source)
{
	char *names = ip_kernel_groups_text(groups), *copy = source ? strdup(source) : NULL;

	if (!names || (source && !copy)) {
		free(names);
		free(copy);
		return ip_error("out of memory");
	}
	free(dirs->members.kernel_groups);
	free(dirs->members.kernel_source);
	dirs->members.kernel_groups = names;
	dirs->members.kernel_source = copy;
	dirs->members.kernel_events = events;
	dirs->members.kernel_lost = lost;
	return ip_trace_members_write(dirs->fd, dirs->dir, &dirs->members);
}

void ip_member_dirs_keep_made(struct ip_member_dirs *dirs)
{
	for (size_t i = 0; dirs && i < dirs->members.n;) {
		const char *name = dirs->members.items[i].name;
		_cleanup_close_ int fd = ip_trace_member_open(dirs->fd, name);

		if (fd >= 0 || errno != ENOENT || ip_member_dirs_remove(dirs, name) < 0)
			i++;
	}
}

int ip_member_dirs_fd(const struct ip_member_dirs *dirs)
{
	return dirs->fd;
}

size_t ip_member_dirs_n(const struct ip_member_dirs *dirs)
{
	return dirs->members.n;
}

void ip_member_dirs_close(struct ip_member_dirs *d)
{
	_cleanup_free_ char *why = NULL;

	if (!d)
		return;
	why = strdup(ip_error_message());
	if (!d->members.n) {
		if (d->fd >= 0)
			ip_trace_dir_remove(d->place.parent, d->place.name, d->fd, d->dir);
		ip_trace_place_give_back(&d->place, d->old);
	}
	if (d->fd >= 0)
		close(d->fd);
	if (d->old >= 0)
		close(d->old);
	ip_dir_place_close(&d->place);
	ip_trace_members_clear(&d->members);
	free(d->dir);
	free(d);
	if (why)
		ip_error("%s", why); /* the error that has led here */
}
