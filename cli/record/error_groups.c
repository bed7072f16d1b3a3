/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures that are the same in several processes. See error_groups.h.
 */
#include "cli/record/error_groups.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/record/live_line.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/now.h"
#include "common/print.h"

#define WAIT_NS	  500000000ull
#define PIDS_TOLD 4
#define OWNER	  "by iprobe pid "
#define DETACH	  "iprobe detach "
#define TAKEN	  "has a session already, " OWNER

struct group {
	char *text;   /* of the first process */
	pid_t of;     /* which is that one */
	char *likely; /* the same without the pid anywhere: by this texts are compared */
	pid_t pids[PIDS_TOLD];
	size_t n; /* that have not been told */
	uint64_t since_ns;
	bool told;
};

struct cli_error_groups {
	struct group *items;
	size_t n;
};

struct cli_error_groups *cli_error_groups_create(void)
{
	struct cli_error_groups *groups = calloc(1, sizeof(*groups));

	if (!groups)
		ip_error("out of memory");
	return groups;
}

/* Returns the text without the pid, wherever it stands as a number of its own, and without that of
 * the iprobe that has its session, which is another one for each process of a service; NULL: out of
 * memory. */
static char *without_pid(const char *text, pid_t pid)
{
	char *copy = calloc(1, strlen(text) + 1), *to = copy, number[16];
	const size_t digits = snprintf(number, sizeof(number), "%d", pid);

	for (const char *from = text; copy && *from;) {
		const bool begins = from == text || !isalnum((unsigned char)from[-1]);

		if (!strncmp(from, OWNER, strlen(OWNER))) {
			from += strlen(OWNER);
			from += strspn(from, "0123456789");
		} else if (begins && !strncmp(from, number, digits) &&
			   !isalnum((unsigned char)from[digits]))
			from += digits;
		else
			*to++ = *from++;
	}
	return copy;
}

/* Returns the text behind "pid N: ". */
static const char *behind_pid(const char *text, pid_t pid)
{
	char prefix[32];
	const size_t n = snprintf(prefix, sizeof(prefix), "pid %d: ", pid);

	return strncmp(text, prefix, n) ? text : text + n;
}

static struct group *find(struct cli_error_groups *groups, const char *likely)
{
	for (size_t i = 0; i < groups->n; i++)
		if (!strcmp(groups->items[i].likely, likely))
			return &groups->items[i];
	return NULL;
}

void cli_error_groups_add(struct cli_error_groups *groups, pid_t pid, const char *text)
{
	_cleanup_free_ char *likely = without_pid(text, pid), *own = NULL;
	struct group *group = likely ? find(groups, likely) : NULL;

	if (!group) {
		own = strdup(text);
		if (!likely || !own ||
		    ip_array_grow(&groups->items, groups->n, sizeof(*groups->items)) < 0) {
			cli_live_line_clear();
			ip_print(stderr, "iprobe: %s\n", text);
			return;
		}
		group = &groups->items[groups->n++];
		*group = (struct group){
			.text = ip_steal_ptr(own), .of = pid, .likely = ip_steal_ptr(likely)};
	}
	if (!group->n)
		group->since_ns = ip_now_ns();
	if (group->n < PIDS_TOLD)
		group->pids[group->n] = pid;
	group->n++;
}

/* Tells what of each process's session is the same. The iprobe that is named there is that of the
 * first process, and so is the process in the advice. */
static void tell_taken(const struct group *group, const char *taken)
{
	const char *rest = taken + strlen(TAKEN), *advice = strstr(rest, DETACH);

	rest += strspn(rest, "0123456789");
	ip_print(stderr, "each %.*s", (int)(strlen(TAKEN) - strlen(OWNER) - 2), taken);
	if (!advice) {
		ip_print(stderr, "%s\n", rest);
		return;
	}
	advice += strlen(DETACH);
	ip_print(stderr, "%.*s", (int)(advice - rest), rest);
	for (size_t i = 0; i < group->n && i < PIDS_TOLD; i++)
		ip_print(stderr, "%s%d", i ? " " : "", group->pids[i]);
	ip_print(stderr, "%s%s\n", group->n > PIDS_TOLD ? " ..." : "",
		 advice + strspn(advice, "0123456789"));
}

static void tell(const struct group *group)
{
	const char *more = group->told ? "more " : "";

	const char *text = behind_pid(group->text, group->of);
	const char *taken = strstr(text, TAKEN);

	cli_live_line_clear();
	if (group->n == 1 && group->pids[0] == group->of) {
		ip_print(stderr, "iprobe: %s\n", group->text);
		return;
	}
	if (group->n == 1) {
		ip_print(stderr, "iprobe: pid %d: %s\n", group->pids[0], text);
		return;
	}
	ip_print(stderr, "iprobe: %zu %sprocess%s (", group->n, more, group->n == 1 ? "" : "es");
	for (size_t i = 0; i < group->n && i < PIDS_TOLD; i++)
		ip_print(stderr, "%s%d", i ? ", " : "", group->pids[i]);
	ip_print(stderr, "%s): ", group->n > PIDS_TOLD ? ", ..." : "");
	if (taken)
		tell_taken(group, taken);
	else
		ip_print(stderr, "%s\n", text);
}

void cli_error_groups_tell(struct cli_error_groups *groups, bool end)
{
	for (size_t i = 0; i < groups->n; i++) {
		struct group *group = &groups->items[i];

		if (!group->n || (!end && (group->told || ip_now_ns() - group->since_ns < WAIT_NS)))
			continue;
		tell(group);
		group->told = true;
		group->n = 0;
	}
}

void cli_error_groups_destroy(struct cli_error_groups *groups)
{
	for (size_t i = 0; groups && i < groups->n; i++) {
		free(groups->items[i].text);
		free(groups->items[i].likely);
	}
	if (groups)
		free(groups->items);
	free(groups);
}
