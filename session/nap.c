/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a session is calm. nap.h tells the steps.
 */
#include "session/nap.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/now.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stop.h"
#include "hotpatcher/shm/area_lean.h"
#include "session/session_private.h"

#define CALM_AFTER_NS 300000000ull
#define WHOLE_NS      30000000000ull
#define LONGEST_NS    5000000000ull
#define SLACK_NS      20000000ul /* many sessions wake up together */
#define CHILDREN_SIZE 512
#define ASK_NS	      2500000000ull /* between the system calls of step 3 */
#define LARGE	      (32 << 10)

static int open_of(pid_t pid, const char *what, int flags)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task%s", pid, what);
	return open(name, flags | O_CLOEXEC);
}

static void open_files(struct ip_session *s)
{
	char what[32];

	if (s->nap.threads)
		return;
	snprintf(what, sizeof(what), "/%d/children", s->target->pid);
	s->nap.threads = open_of(s->target->pid, "", O_PATH | O_DIRECTORY);
	s->nap.children = open_of(s->target->pid, what, O_RDONLY);
}

/* The kernel counts each thread as a link of the directory. 0: it cannot be seen. */
static uint64_t count_threads(const struct ip_nap *nap)
{
	struct stat st;

	return nap->threads > 0 && fstat(nap->threads, &st) == 0 ? st.st_nlink : 0;
}

/* A hash of the children that the first thread has. */
static uint64_t hash_children(const struct ip_nap *nap)
{
	char text[CHILDREN_SIZE];
	ssize_t n = nap->children > 0 ? pread(nap->children, text, sizeof(text), 0) : 0;
	uint64_t hash = 14695981039346656037ull;

	for (ssize_t i = 0; i < n; i++)
		hash = (hash ^ (uint8_t)text[i]) * 1099511628211ull;
	return hash;
}

/* Returns whether a thread has recorded for the first time since the last call. */
static bool has_claimed(struct ip_session *s)
{
	const struct ip_area_header *h = s->area->header;
	const uint32_t slots = __atomic_load_n(&h->slots_used, __ATOMIC_RELAXED),
		       blocks = __atomic_load_n(&h->meters_hint, __ATOMIC_RELAXED);
	const bool changed = slots != s->nap.slots_used || blocks != s->nap.blocks_hint;

	s->nap.slots_used = slots;
	s->nap.blocks_hint = blocks;
	return changed;
}

/* Returns whether threads or children have come or gone since the last call. */
static bool has_changed(struct ip_session *s)
{
	const uint64_t threads = count_threads(&s->nap), children = hash_children(&s->nap);
	const bool changed = threads != s->nap.nthreads || children != s->nap.seen_children;

	s->nap.nthreads = threads;
	s->nap.seen_children = children;
	return changed;
}

bool ip_nap_only_watches(const struct ip_session *s, const struct ip_plan *plan)
{
	const struct ip_session_options *o = s->options;

	return o->yields && plan && !ip_plan_records(plan) && !s->records && !s->launched &&
	       ip_payload_rules_never_log(s->selections.rules, o->functions) && !s->user.path &&
	       !o->overwrite && !o->coarse && !o->duration_ns && !o->on_progress &&
	       !o->kernel.groups && !o->save_counts_ns && !o->follow_fork && !o->follow_exec &&
	       !ip_filters_any(&o->filters) && ip_controllers_rest(s, 0) != UINT64_MAX;
}

/* Whether nothing is under way that needs whole steps. */
static bool is_at_rest(const struct ip_session *s, uint64_t now_ns)
{
	return s->nap.watches && s->counters && !s->records && !s->stacks && !s->area->may_read &&
	       !s->execed && !s->follow_exec && !ip_stops_of(s->target)->nheld &&
	       now_ns >= s->attend_ns && !ip_follow_dlopen_retries(s->follow) &&
	       !ip_follow_fork_has_children(s->followed) && !ip_site_monitor_is_disturbed(s->watch);
}

void ip_nap_prepare(void)
{
	/* otherwise the C library takes large blocks from memory that was used before, and has to
	 * write zeros there */
	mallopt(M_MMAP_THRESHOLD, LARGE);
}

/* Step 3. */
static bool has_happened(struct ip_session *s, uint64_t now_ns)
{
	const struct ip_area_header *h = s->area->header;

	if (h->ended == h->session || has_claimed(s))
		return true;
	if (now_ns < s->nap.ask_ns)
		return false;
	s->nap.ask_ns = now_ns + ASK_NS;
	return has_changed(s) || ip_follow_dlopen_is_due(s);
}

bool ip_nap_is_calm(struct ip_session *s)
{
	const uint64_t now = ip_now_ns();

	if (!s->nap.calm || now >= s->nap.whole_ns)
		return false;
	if (!has_happened(s, now))
		return true;
	ip_nap_end(s);
	return false;
}

void ip_nap_note(struct ip_session *s)
{
	const uint64_t now = ip_now_ns();
	struct ip_nap *nap = &s->nap;
	bool changed;

	if (nap->few_slots && ip_area_lean_take_back(s->area))
		nap->few_slots = false;
	if (!is_at_rest(s, now)) {
		ip_nap_end(s);
		return;
	}
	open_files(s);
	/* where threads cannot be counted, only whole steps see them */
	changed = has_changed(s);
	if (has_claimed(s) || changed || !nap->nthreads || !nap->since_ns) {
		ip_nap_end(s);
		nap->since_ns = now;
	}
	if (now - nap->since_ns < CALM_AFTER_NS)
		return;
	nap->whole_ns = now + WHOLE_NS;
	if (nap->calm)
		return;
	nap->calm = true;
	ip_priority_guard_rest();
	ip_collector_priority(false);
	prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
	malloc_trim(0);
}

uint64_t ip_nap_length(const struct ip_session *s, uint64_t now_ns)
{
	const uint64_t rest = ip_controllers_rest(s, now_ns);

	return rest < LONGEST_NS ? rest : LONGEST_NS;
}

void ip_nap_end(struct ip_session *s)
{
	s->nap.since_ns = 0;
	if (!s->nap.calm)
		return;
	s->nap.calm = false;
	prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0); /* as it was */
	ip_collector_priority(true);
}

void ip_nap_clear(struct ip_session *s)
{
	if (s->nap.threads > 0)
		close(s->nap.threads);
	if (s->nap.children > 0)
		close(s->nap.children);
	s->nap = (struct ip_nap){0};
}
