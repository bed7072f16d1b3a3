/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a search in a file, and checks whether it can go on from there.
 */
#include "cli/darc/darc_resume.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/darc/darc_state_values.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/print.h"
#include "common/units.h"
#include "hotpatcher/process/callees.h"
#include "hotpatcher/process/modules.h"

#define POWERS (IP_PEAK_BINS / IP_PEAK_STEPS)
#define SAME   1e-9 /* of a share or percentage that was written and read */

/* The option that two searches differ in, as in the file; NULL: none. */
static const char *difference(const struct ip_darc_options *kept,
			      const struct ip_darc_options *given, char *text, size_t size)
{
	if (kept->choice != given->choice || kept->number != given->number ||
	    kept->slower_ns != given->slower_ns || fabs(kept->share - given->share) > SAME) {
		char time[16];

		switch (kept->choice) {
		case IP_DARC_PEAK:
			snprintf(text, size, "--peak %zu", kept->number);
			break;
		case IP_DARC_SLOWER:
			snprintf(text, size, "--slower-than %s",
				 ip_format_ns(kept->slower_ns, time));
			break;
		case IP_DARC_PERCENTILE:
			snprintf(text, size, "--percentile p%g", 100 * kept->share);
			break;
		default:
			return "none of --peak, --slower-than and --percentile";
		}
	} else if (kept->tid != given->tid) {
		if (!kept->tid)
			return "no --tid";
		snprintf(text, size, "--tid %u", kept->tid);
	} else if (kept->start_operations != given->start_operations) {
		snprintf(text, size, "--start-ops %lu", (unsigned long)kept->start_operations);
	} else if (kept->decision_operations != given->decision_operations) {
		snprintf(text, size, "--decision-ops %zu", kept->decision_operations);
	} else if (fabs(kept->maxcount_percent - given->maxcount_percent) > SAME) {
		snprintf(text, size, "--maxcount-percentage %g", kept->maxcount_percent);
	} else if (kept->depth != given->depth) {
		snprintf(text, size, "--depth %u", kept->depth);
	} else {
		return NULL;
	}
	return text;
}

static int read_file(struct cli_darc_resume *r, const struct ip_darc_options *options)
{
	_cleanup_free_ char *text = NULL;
	char of[64];
	const char *differs;
	uint64_t size;
	_cleanup_close_ int fd = ip_open_regular_at(r->place.parent, r->place.name, r->path, &size);

	if (fd < 0)
		return -1;
	if (size > CLI_DARC_STATE_SIZE_MAX)
		return ip_error("%s: that is no state of a search: it is too large", r->path);
	text = calloc(1, size + 1);
	if (!text)
		return ip_error("out of memory");
	if (ip_read_at(fd, r->path, 0, text, size) < 0 ||
	    cli_darc_state_read(text, size, r->path, &r->state) < 0)
		return -1;
	if (!r->state.level)
		return ip_error("%s: that is a search that has no profile yet", r->path);
	differs = difference(&r->state.profile.options, options, of, sizeof(of));
	if (differs)
		return ip_error("%s: that is a search with %s: give the same options, or another "
				"file",
				r->path, differs);
	return 0;
}

int cli_darc_resume_begin(const char *path, const struct ip_darc_options *options,
			  struct cli_darc_resume *ret)
{
	struct stat st;

	*ret = (struct cli_darc_resume){.place.parent = -1};
	if (!path)
		return 0;
	if (ip_dir_locate(path, &ret->place) < 0)
		return -1;
	ret->path = path;
	if (faccessat(ret->place.parent, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return ip_error_errno("%s: its directory cannot be written to", path);
	if (fstatat(ret->place.parent, ret->place.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : ip_error_errno("cannot look at %s", path);
	ret->there = true;
	return read_file(ret, options);
}

void cli_darc_resume_end(struct cli_darc_resume *r)
{
	cli_darc_state_clear(&r->state);
	ip_dir_place_close(&r->place);
}

/* Whether the process has a module of the search. */
static int check_module(const struct cli_darc_resume *r, const struct cli_darc_state_module *wanted,
			const struct ip_modules *modules, pid_t pid)
{
	const char *slash = strrchr(wanted->path, '/'), *name = slash ? slash + 1 : wanted->path;
	char id[2 * IP_BUILD_ID_MAX + 1], other[sizeof(id)] = "";

	if (!*wanted->build_id)
		return ip_error("%s: %s has no build-id: whether pid %d is the same program cannot "
				"be told",
				r->path, name, pid);
	for (size_t i = 0; i < modules->n; i++) {
		const struct ip_module *m = &modules->items[i];
		const char *base = strrchr(m->path, '/');

		if (!m->elf || !m->list)
			continue;
		ip_build_id_format(m->elf->build_id, m->elf->build_id_size, id);
		if (!strcmp(id, wanted->build_id))
			return 0;
		if (!strcmp(base ? base + 1 : m->path, name))
			strcpy(other, id);
	}
	if (*other)
		return ip_error("%s: that is a search of another build of %s: build-id %s, that of "
				"pid %d is %s",
				r->path, name, wanted->build_id, pid, other);
	return ip_error("%s: that is a search of a program with %s (build-id %s), which pid %d "
			"does not have",
			r->path, name, wanted->build_id, pid);
}

static int check_modules(const struct cli_darc_resume *r, pid_t pid)
{
	struct ip_target *target;
	struct ip_modules modules;
	int ret;

	if (ip_target_open(pid, false, &target) < 0)
		return -1;
	ret = ip_modules_load(target, &modules);
	for (size_t i = 0; ret == 0 && i < r->state.nmodules; i++)
		ret = check_module(r, &r->state.modules[i], &modules, pid);
	ip_modules_clear(&modules);
	ip_target_close(target);
	return ret;
}

static int by_name(const void *key, const void *item)
{
	return strcmp(key, *(char *const *)item);
}

/* Whether the functions of the search have probes in the process. */
static int check_names(const struct cli_darc_resume *r, pid_t pid)
{
	struct cli_darc_sets sets = r->state.sets;
	struct ip_callees all;
	int ret = ip_callees_all(pid, &all, NULL);

	for (unsigned i = 0; ret == 0 && i < CLI_DARC_SETS; i++) {
		const char *key;
		const struct cli_darc_names *set = cli_darc_sets_get(&sets, i, &key);

		/* those that were seen to call each other are among the others */
		for (size_t k = 0; ret == 0 && set != &sets.seen && k < set->n; k++)
			if (!all.n ||
			    !bsearch(set->items[k], all.names, all.n, sizeof(*all.names), by_name))
				ret = ip_error("%s: %s is no function with probes of pid %d",
					       r->path, set->items[k], pid);
	}
	ip_callees_clear(&all);
	return ret;
}

int cli_darc_resume_check_process(const struct cli_darc_resume *r, pid_t pid)
{
	if (!r->there)
		return 0;
	return check_modules(r, pid) < 0 ? -1 : check_names(r, pid);
}

/* Bins of powers of two. */
static void in_powers(const struct ip_peak_bins *bins, uint64_t ret[POWERS])
{
	memset(ret, 0, POWERS * sizeof(*ret));
	for (unsigned i = 0; i < IP_PEAK_BINS; i++)
		ret[i / IP_PEAK_STEPS] += bins->calls[i];
}

enum ip_profile_verdict cli_darc_resume_compare(const struct cli_darc_resume *r,
						const struct ip_darc_search *search,
						struct ip_profile_distance *ret)
{
	const struct ip_darc_latencies *kept = &r->state.profile.latencies,
				       *now = &search->latencies;
	uint64_t first[POWERS], second[POWERS];

	in_powers(&kept->bins, first);
	in_powers(&now->bins, second);
	ip_profile_compare(&(struct ip_profile){.calls = first},
			   &(struct ip_profile){.calls = second}, POWERS, ret);
	return ip_profile_judge(ret, ip_profile_fine_distance(&kept->durations, &now->durations));
}

void cli_darc_resume_keep(struct cli_darc_resume *r, const char *text, size_t size)
{
	struct cli_darc_state again;

	if (!r->path || r->failed)
		return;
	/* what we could not read must not take the place of what we can */
	if (cli_darc_state_read(text, size, r->path, &again) < 0 ||
	    cli_darc_state_put(&r->place, text, size, true) < 0) {
		r->failed = true;
		ip_print(stderr, "iprobe: the state of the search cannot be kept: %s\n",
			 ip_error_message());
	}
	cli_darc_state_clear(&again);
}
