/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of what rules have recorded. See store.h.
 */
#include "iprobed/rules/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"

#define TIME_FORMAT "%Y%m%dT%H%M%S"
#define RECORDER    ".recorder-"
#define WHY_COLUMN  9  /* of the values in why.txt */
#define WHY_LINES   16 /* the first lines of it tell what was recorded */

void ip_rules_store_remove(const char *path)
{
	struct ip_dir_place place;

	if (ip_dir_locate(path, &place) < 0)
		return;
	ip_dir_remove(place.parent, place.name);
	ip_dir_place_close(&place);
}

/* Sum of the sizes that nftw() visits. There is only one walk at a time, in a process without
 * threads. */
static uint64_t visited;

static int add_size(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)path, (void)type, (void)where;
	visited += (uint64_t)st->st_blocks * 512;
	return 0;
}

static uint64_t size_of(const char *path)
{
	visited = 0;
	nftw(path, add_size, 16, FTW_PHYS);
	return visited;
}

int ip_rules_store_open(const char *dir)
{
	return ip_dir_check_way(dir, 0700);
}

/* Parses "20261122T153110.123Z-1234". Returns nanoseconds since 1970; 0: it is not such a name. */
static uint64_t time_of(const char *name)
{
	struct tm tm = {0};
	const char *p = strptime(name, TIME_FORMAT, &tm);
	unsigned ms;
	int n = 0, pid;
	time_t seconds;

	if (!p || sscanf(p, ".%3uZ-%d%n", &ms, &pid, &n) != 2 || (p[n] && p[n] != '.'))
		return 0;
	seconds = timegm(&tm);
	return seconds > 0 ? (uint64_t)seconds * 1000000000 + ms * 1000000ull : 0;
}

static int is_ours(const struct dirent *entry)
{
	return time_of(entry->d_name) != 0;
}

/* Lists a directory in the order of names, which is the order of time. Returns the number of
 * entries, or -1: there are none. To be freed by free_list(). */
static int list(const char *dir, const char *rule, int (*is_wanted)(const struct dirent *),
		struct dirent ***ret)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/%s", dir, rule) < 0) {
		path = NULL;
		return -1;
	}
	return scandir(path, ret, is_wanted, alphasort);
}

static void free_list(struct dirent **entries, int n)
{
	for (int i = 0; i < n; i++)
		free(entries[i]);
	if (n >= 0)
		free(entries);
}

static uint64_t realtime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the service that the recording was of. An older iprobed has noted the program alone. */
static uint64_t service_of(const char *dir, const char *rule, const char *name)
{
	_cleanup_free_ char *path = NULL, *line = NULL;
	_cleanup_fclose_ FILE *file = NULL;
	size_t size = 0;
	uint64_t id = 0;
	ssize_t length;

	if (asprintf(&path, "%s/%s/%s/why.txt", dir, rule, name) < 0) {
		path = NULL;
		return 0;
	}
	file = fopen(path, "re");
	for (int i = 0; file && i < WHY_LINES && (length = getline(&line, &size, file)) > 0; i++) {
		line[length - 1] = '\0'; /* what has no newline is cut off */
		if (!strncmp(line, "service  ", WHY_COLUMN))
			return ip_rules_service_id(line + WHY_COLUMN);
		if (!strncmp(line, "program  ", WHY_COLUMN))
			id = ip_rules_service_id(line + WHY_COLUMN);
	}
	return id;
}

void ip_rules_store_history(const char *dir, const struct ip_rules_rule *rule, uint64_t now_ns,
			    struct ip_rules_services *ret)
{
	struct dirent **entries;
	uint64_t today = realtime_ns();
	int n = list(dir, rule->name, is_ours, &entries);

	for (int i = 0; i < n; i++) {
		uint64_t when = time_of(entries[i]->d_name);

		/* Times before the machine was started are left out: the history's clock begins
		 * there. */
		if (when <= today && today - when < now_ns)
			ip_rules_service_fired(ret, rule,
					       service_of(dir, rule->name, entries[i]->d_name),
					       now_ns - (today - when));
	}
	free_list(entries, n);
}

int ip_rules_store_make_room(const char *dir, const struct ip_rules_rule *rule,
			     unsigned *ret_removed)
{
	struct dirent **entries;
	uint64_t all = 0, *sizes;
	int n = list(dir, rule->name, is_ours, &entries);

	*ret_removed = 0;
	if (n <= 0) {
		free_list(entries, n);
		return 0;
	}
	sizes = calloc(n, sizeof(*sizes));
	for (int i = 0; i < n && sizes; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/%s/%s", dir, rule->name, entries[i]->d_name) < 0)
			path = NULL;
		sizes[i] = path ? size_of(path) : 0;
		all += sizes[i];
	}
	for (int i = 0; i < n && sizes && all > rule->disk / 2; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/%s/%s", dir, rule->name, entries[i]->d_name) < 0)
			path = NULL;
		if (path)
			ip_rules_store_remove(path);
		all -= sizes[i];
		++*ret_removed;
	}
	free_list(entries, n);
	if (!sizes)
		return ip_error("out of memory");
	free(sizes);
	return 0;
}

void ip_rules_store_note(const char *path, const char *line)
{
	_cleanup_free_ char *name = NULL;

	if (asprintf(&name, "%s/why.txt", path) < 0) {
		name = NULL;
		return;
	}
	_cleanup_close_ int fd =
		open(name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd >= 0)
		dprintf(fd, "%s\n", line);
}

/* Writes a line to why.txt. The process has chosen some of it, so control characters are
 * replaced. */
static void note(const char *path, const char *what, const char *text)
{
	char line[4352];
	int n = snprintf(line, sizeof(line), "%-*s%s", WHY_COLUMN, what, text);

	for (int i = 0; i < n && i < (int)sizeof(line) - 1; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	ip_rules_store_note(path, line);
}

int ip_rules_store_begin(const char *dir, const struct ip_rules_rule *rule, pid_t pid,
			 const char *exe, const char *cmdline, const char *service, const char *why,
			 char **ret_path)
{
	uint64_t now = realtime_ns();
	time_t seconds = now / 1000000000;
	char when[64], number[16];
	_cleanup_free_ char *above = NULL, *path = NULL;
	struct tm tm;
	int done = -1;

	gmtime_r(&seconds, &tm);
	strftime(when, sizeof(when), TIME_FORMAT, &tm);
	if (asprintf(&above, "%s/%s", dir, rule->name) < 0) {
		above = NULL;
		return ip_error("out of memory");
	}
	if (ip_dir_check_way(above, 0700) < 0)
		return -1;
	/* the same process may come twice in a millisecond */
	for (int i = 0; i < 10 && done < 0; i++) {
		free(ip_steal_ptr(path));
		if (asprintf(&path, "%s/%s.%03uZ-%d", above, when,
			     (unsigned)(now / 1000000 % 1000 + i) % 1000, pid) < 0) {
			path = NULL;
			return ip_error("out of memory");
		}
		done = mkdir(path, 0700);
		if (done < 0 && errno != EEXIST)
			break;
	}
	if (done < 0)
		return ip_error_errno("cannot make %s", path);
	snprintf(number, sizeof(number), "%d", pid);
	note(path, "rule", rule->name);
	note(path, "pid", number);
	note(path, "program", exe);
	if (service)
		note(path, "service", service);
	note(path, "command", cmdline);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	note(path, "when", when);
	note(path, "why", why);
	*ret_path = ip_steal_ptr(path);
	return 0;
}

int ip_rules_store_begin_recorder(const char *dir, const struct ip_rules_rule *rule, pid_t pid,
				  char **ret_path)
{
	_cleanup_free_ char *above = NULL;

	if (asprintf(&above, "%s/%s", dir, rule->name) < 0) {
		above = NULL;
		return ip_error("out of memory");
	}
	if (ip_dir_check_way(above, 0700) < 0)
		return -1;
	if (asprintf(ret_path, "%s/" RECORDER "%d", above, pid) < 0) {
		*ret_path = NULL;
		return ip_error("out of memory");
	}
	ip_rules_store_remove(*ret_path);
	return 0;
}

int ip_rules_store_keep_recorder(const char *recorder, const char *path)
{
	_cleanup_free_ char *name = NULL;

	if (asprintf(&name, "%s/trace", path) < 0) {
		name = NULL;
		return ip_error("out of memory");
	}
	return rename(recorder, name) == 0 ? 0
					   : ip_error_errno("cannot keep %s as %s", recorder, name);
}

static int is_recorder(const struct dirent *entry)
{
	return !strncmp(entry->d_name, RECORDER, strlen(RECORDER));
}

void ip_rules_store_remove_recorders(const char *dir, const struct ip_rules_rule *rule)
{
	struct dirent **entries;
	int n = list(dir, rule->name, is_recorder, &entries);

	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/%s/%s", dir, rule->name, entries[i]->d_name) < 0)
			path = NULL;
		else
			ip_rules_store_remove(path);
	}
	free_list(entries, n);
}
