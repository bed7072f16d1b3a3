/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filtering threads by name (--thread): which threads a session wants. See filters.h.
 */
#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "hotpatcher/plan/filters_private.h"
#include "hotpatcher/ptrace/stop.h"
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#define LOOK_NS 100000000ull /* how often the names of known threads are read again */

static bool same_pid_namespace(pid_t pid)
{
	char name[64], ours[64] = "", theirs[64] = "?";

	snprintf(name, sizeof(name), "/proc/%d/ns/pid", pid);
	return readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1) > 0 &&
	       readlink(name, theirs, sizeof(theirs) - 1) > 0 && !strcmp(ours, theirs);
}

/* Returns the thread's id in the target's own namespace; 0: there is no such thread. */
static uint32_t inner_tid(pid_t pid, uint32_t tid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[96], line[512];
	const char *last;

	snprintf(name, sizeof(name), "/proc/%d/task/%u/status", pid, tid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6)) {
			last = strrchr(line, '\t');
			return last ? strtoul(last, NULL, 10) : 0;
		}
	return 0;
}

int ip_filters_begin_threads(const struct ip_filter_options *o, struct ip_filters *f,
			     const struct ip_target *target)
{
	for (const char *p = o->tids; p;) {
		uint32_t tid;

		p = ip_filters_next_tid(p, &tid);
		f->thread[f->nthreads] = inner_tid(target->pid, tid);
		if (!f->thread[f->nthreads++])
			return ip_error(
				"pid %d has no thread %u (--tid): ls /proc/%d/task shows them",
				target->pid, tid, target->pid);
	}
	f->threads = (o->tids ? 1 : 0) | (o->names ? 2 : 0);
	return 0;
}

void ip_filters_tell_names(const struct ip_filter_options *o, const struct ip_filter_names *names,
			   pid_t pid)
{
	const char *p = o->names;

	for (unsigned i = 0; p && i < 64; i++) {
		int length = strcspn(p, ",");

		if (length && !(names->seen & 1ull << i))
			ip_notice("pid %d: no thread that called what is recorded had a name that "
				  "matches %.*s (--thread)",
				  pid, length, p);
		p = p[length] ? p + length + 1 : NULL;
	}
}

/* Returns whether the name matches one of the globs. *seen: adds the globs that it matches. */
static bool match_name(const char *globs, const char *name, uint64_t *seen)
{
	bool matched = false;
	unsigned i = 0;

	for (const char *p = globs;; p++, i++) {
		char glob[256];
		size_t length = strcspn(p, ",");

		if (length < sizeof(glob)) {
			memcpy(glob, p, length);
			glob[length] = '\0';
			if (fnmatch(glob, name, 0) == 0) {
				*seen |= i < 64 ? 1ull << i : 0;
				matched = true;
			}
		}
		p += length;
		if (!*p)
			return matched;
	}
}

/* Reads the name of a thread. pid and tid are ids in the target's namespace. */
static bool thread_name(const struct ip_target *target, pid_t pid, pid_t tid, char *name,
			size_t size)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[96];

	if (same_pid_namespace(target->pid)) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	} else {
		_cleanup_closedir_ DIR *dir = NULL;
		struct dirent *entry;

		snprintf(path, sizeof(path), "/proc/%d/task", target->pid);
		dir = pid == target->inner_pid ? opendir(path) : NULL;
		while (dir && (entry = readdir(dir)))
			if (isdigit((unsigned char)*entry->d_name) &&
			    inner_tid(target->pid, strtoul(entry->d_name, NULL, 10)) ==
				    (uint32_t)tid)
				break;
		if (!dir || !entry)
			return false;
		snprintf(path, sizeof(path), "/proc/%d/task/%lu/comm", target->pid,
			 strtoul(entry->d_name, NULL, 10));
	}
	file = fopen(path, "re");
	if (!file || !fgets(name, size, file))
		return false;
	name[strcspn(name, "\n")] = '\0';
	return true;
}

/* Returns whether --tid names the thread. Then it is recorded, whatever its name is. */
static bool named_by_id(const struct ip_filters *f, uint32_t tid)
{
	for (uint32_t i = 0; f->threads & 1 && i < f->nthreads && i < IP_FILTER_THREADS; i++)
		if (f->thread[i] == tid)
			return true;
	return false;
}

void ip_filters_step(const struct ip_filter_options *o, struct ip_area *area,
		     const struct ip_target *target, struct ip_filter_names *names)
{
	uint32_t used = __atomic_load_n(&area->header->slots_used, __ATOMIC_ACQUIRE);
	uint64_t now;
	bool all;

	if (!o->names)
		return;
	now = ip_now_ns();
	all = now >= names->next_ns;
	for (uint32_t i = 0; i < used && i < IP_AREA_SLOTS; i++) {
		struct ip_slot *slot = &area->slots[i];
		uint32_t wanted;
		char name[64];

		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != IP_SLOT_CLAIMED ||
		    (!all && slot->wanted != IP_SLOT_UNDECIDED) ||
		    named_by_id(area->filters, slot->tid))
			continue;
		wanted = thread_name(target, slot->pid, slot->tid, name, sizeof(name)) &&
					 match_name(o->names, name, &names->seen)
				 ? IP_SLOT_WANTED
				 : IP_SLOT_UNWANTED;
		if (wanted != slot->wanted)
			__atomic_store_n(&slot->wanted, wanted, __ATOMIC_RELEASE);
	}
	if (all)
		names->next_ns = ip_now_ns() + LOOK_NS;
}
