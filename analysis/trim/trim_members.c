/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a trace of several processes (common/trace/trace_members.h): such traces again.
 *
 * Each member is a trace of its own, so a part of it is written as any other part is, in a
 * directory that gets its name when all members are there. Times are those of one clock. Functions
 * and processes are those of the whole, and are translated for each member.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/read/members.h"
#include "analysis/trim/trim_private.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/trace/trace_members.h"

/* The directory of a part while it is written. */
struct unfinished {
	struct ip_dir_place place;    /* of the part */
	char temporary[NAME_MAX + 1]; /* name beside it */
	int fd;
};

static int begin(struct unfinished *u, const char *dir)
{
	struct stat st;

	u->fd = u->place.parent = -1;
	if (ip_dir_locate(dir, &u->place) < 0)
		return -1;
	if (fstatat(u->place.parent, u->place.name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return ip_error("%s exists: name another directory with -o", dir);
	u->fd = ip_dir_make_beside(&u->place, u->temporary);
	return u->fd < 0 ? ip_error_errno("cannot make %s", dir) : 0;
}

static void give_up(struct unfinished *u)
{
	_cleanup_free_ char *why = strdup(ip_error_message());

	if (u->fd >= 0) {
		close(u->fd);
		ip_dir_remove(u->place.parent, u->temporary);
	}
	ip_dir_place_close(&u->place);
	if (why)
		ip_error("%s", why); /* the error that has led here */
}

static int finish(struct unfinished *u, const struct ip_trace_members *list,
		  struct ip_trim_part *part)
{
	if (ip_trace_members_write(u->fd, part->dir, list) < 0)
		return -1;
	if (ip_dir_rename(u->place.parent, u->temporary, u->place.name) < 0)
		return ip_error_errno("cannot make %s", part->dir);
	part->result.fd = ip_steal_fd(&u->fd);
	ip_dir_place_close(&u->place);
	return 0;
}

/* Translates options for a member. *ret_selected: the caller frees it. Returns 1; 0 where the
 * member has nothing of what they choose; -1 with an error. */
static int translate(const struct ip_trace_reader *trace, uint32_t member,
		     const struct ip_trim_options *options, struct ip_trim_options *ret,
		     bool **ret_selected)
{
	const struct ip_recording_member *m = &trace->session->members->items[member];
	const struct ip_trace_reader *own = trace->members[member];
	bool wanted = !options->tid && !options->pid && !own->nruns;

	*ret = *options;
	*ret_selected = NULL;
	for (size_t i = 0; options->pid; i++) {
		if (i == own->nprocesses)
			return 0;
		if (trace->process_list[own->process_list[i].joined].pid != options->pid)
			continue;
		ret->pid = own->process_list[i].own;
		wanted |= !own->nruns;
		break;
	}
	for (size_t i = 0; !wanted && i < own->nruns; i++)
		wanted = ip_trim_is_wanted(ret, &own->runs[i]);
	if (!wanted || !options->selected)
		return wanted;
	*ret_selected = calloc(m->own->nfunctions, sizeof(**ret_selected));
	if (!*ret_selected)
		return ip_error("out of memory");
	for (size_t i = 0; i < m->own->nfunctions; i++)
		(*ret_selected)[i] = options->selected[m->functions[i]];
	ret->selected = *ret_selected;
	return 1;
}

/* Writes the member's part of each of the n parts, in one reading. */
static int write_member(struct ip_trace_reader *trace, uint32_t member,
			const struct ip_trim_options *options, const struct unfinished *dirs,
			struct ip_trim_part *parts, size_t n)
{
	const char *name = trace->session->members->items[member].name;
	_cleanup_free_ struct ip_trim_part *own = calloc(n, sizeof(*own));
	size_t done = 0;
	int ret = own ? 0 : ip_error("out of memory");

	/* by the descriptor: whatever happens to the names above it, this is the directory */
	for (size_t i = 0; ret == 0 && i < n; i++) {
		own[i] = (struct ip_trim_part){.from = parts[i].from, .to = parts[i].to};
		if (asprintf(&own[i].dir, "/proc/self/fd/%d/%s", dirs[i].fd, name) < 0) {
			own[i].dir = NULL;
			ret = ip_error("out of memory");
		}
	}
	if (ret == 0 && ip_trim_write(trace->members[member], options, own, n, &done) < 0)
		ret = ip_error_prefix("%s: member %s", parts[0].dir, name);
	for (size_t i = 0; own && i < n; i++) {
		if (i < done) {
			close(own[i].result.fd);
			parts[i].result.events += own[i].result.events;
			parts[i].result.lost += own[i].result.lost;
			parts[i].result.bytes += own[i].result.bytes;
		}
		free(own[i].dir);
	}
	return ret;
}

/* Writes all members into the directories, and lists them. */
static int write_members(struct ip_trace_reader *trace, const struct ip_trim_options *options,
			 const struct unfinished *dirs, struct ip_trim_part *parts, size_t n,
			 struct ip_trace_members *list)
{
	const struct ip_recording_members *members = trace->session->members;
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < trace->nmembers; i++) {
		_cleanup_free_ bool *selected = NULL;
		struct ip_trim_options own;
		int wanted = translate(trace, i, options, &own, &selected);

		if (wanted <= 0) {
			ret = wanted;
			continue;
		}
		ret = ip_trace_members_add(list, members->items[i].name,
					   (pid_t)members->items[i].pid);
		if (ret == 0)
			ret = write_member(trace, i, &own, dirs, parts, n);
	}
	/* damages that came to light */
	for (size_t i = 0; ret == 0 && i < trace->nmembers; i++)
		for (size_t k = 0; ret == 0 && k < trace->members[i]->ndamages; k++)
			ret = ip_trace_reader_damaged(trace, trace->members[i]->damages[k]);
	return ret;
}

int ip_trim_write_members(struct ip_trace_reader *trace, const struct ip_trim_options *options,
			  struct ip_trim_part *parts, size_t n, size_t *ret_done)
{
	_cleanup_free_ struct unfinished *dirs = calloc(n + 1, sizeof(*dirs));
	const char *service = trace->session->members->service;
	struct ip_trace_members list = {.service = service ? strdup(service) : NULL};
	size_t begun = 0, done = 0;
	int ret = dirs && (list.service || !service) ? 0 : ip_error("out of memory");

	for (; ret == 0 && begun < n; begun++)
		ret = begin(&dirs[begun], parts[begun].dir);
	if (ret == 0)
		ret = write_members(trace, options, dirs, parts, n, &list);
	for (; ret == 0 && done < n; done += ret == 0)
		ret = finish(&dirs[done], &list, &parts[done]);
	for (size_t i = done; i < begun; i++)
		give_up(&dirs[i]);
	ip_trace_members_clear(&list);
	*ret_done += done;
	return ret;
}
