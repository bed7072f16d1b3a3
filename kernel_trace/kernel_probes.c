/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and removes probes of the kernel's functions. kernel_probes.h has the steps.
 */
#include "kernel_trace/kernel_probes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tracefs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/proc.h"
#include "kernel_trace/function_choice.h"

#define EVENTS "kprobe_events"
#define PREFIX "iprobe_"
#define NAME   64u
#define TOLD   5u /* names in a line */

/* iprobe_PID_STARTED */
static bool is_group(const char *name, int *ret_pid, uint64_t *ret_started)
{
	unsigned long pid;
	char *end;

	if (strncmp(name, PREFIX, strlen(PREFIX)))
		return false;
	name += strlen(PREFIX);
	pid = strtoul(name, &end, 10);
	if (end == name || *end != '_' || !pid || pid > INT32_MAX)
		return false;
	name = end + 1;
	*ret_pid = pid;
	*ret_started = strtoull(name, &end, 10);
	return end > name && !*end;
}

bool ip_kernel_probes_parse(const char *line, char *group, char *event, size_t size, int *ret_pid,
			    uint64_t *ret_started)
{
	const char *colon = strchr(line, ':'), *slash = colon ? strchr(colon, '/') : NULL;
	size_t ngroup, nevent;

	if (!slash || (*line != 'p' && *line != 'r'))
		return false;
	ngroup = slash - colon - 1;
	nevent = strcspn(slash + 1, " \n");
	if (ngroup >= size || nevent >= size || !nevent)
		return false;
	memcpy(group, colon + 1, ngroup);
	group[ngroup] = '\0';
	memcpy(event, slash + 1, nevent);
	event[nevent] = '\0';
	return is_group(group, ret_pid, ret_started);
}

/* Opened without O_TRUNC, which would remove the probes of everybody. */
static int open_events(void)
{
	int fd = tracefs_instance_file_open(NULL, EVENTS, O_WRONLY | O_APPEND | O_CLOEXEC);

	return fd < 0 ? ip_error_errno("cannot open %s of the kernel's tracefs", EVENTS) : fd;
}

/* Each call is one probe. Returns 0, or -1 with errno. */
__attribute__((format(printf, 2, 3))) static int put(int fd, const char *format, ...)
{
	char text[2 * IP_KERNEL_NAME_MAX + 256];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n < 0 || n >= (int)sizeof(text)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return write(fd, text, n) == n ? 0 : -1;
}

size_t ip_kernel_probes_remove_left(void)
{
	_cleanup_free_ char *text = tracefs_instance_file_read(NULL, EVENTS, NULL);
	_cleanup_close_ int fd = -1;
	char group[NAME], event[NAME], last[NAME] = "";
	size_t removed = 0;
	uint64_t started;
	int pid;

	for (const char *line = text; line && *line;
	     line += strcspn(line, "\n"), line += *line == '\n') {
		if (!ip_kernel_probes_parse(line, group, event, NAME, &pid, &started) ||
		    ip_proc_started_at(pid) == started)
			continue;
		if (fd < 0)
			fd = open_events();
		if (fd < 0)
			return removed;
		/* all probes of the event go; the lines of the others find nothing */
		if (put(fd, "-:%s/%s\n", group, event) == 0 && strcmp(group, last)) {
			removed++;
			memcpy(last, group, sizeof(last));
		}
	}
	return removed;
}

/* Those that the kernel has refused, and why it has. */
struct refused {
	char text[512];
	size_t n;
};

static const char *why(int error)
{
	switch (error) {
	case ENOENT:
		return "it is not there";
	case EADDRNOTAVAIL:
		return "several have this name";
	case EINVAL:
		return "the kernel allows no probe there";
	default:
		return strerror(error);
	}
}

static void refuse(struct refused *r, const char *name, int error)
{
	const size_t used = strlen(r->text);

	if (r->n++ < TOLD)
		snprintf(r->text + used, sizeof(r->text) - used, "%s%s (%s)", used ? ", " : "",
			 name, why(error));
}

/* Makes the return probes of the functions, which are numbered by those that the kernel allows. */
static int make_exits(struct ip_kernel_probes *p, int fd, const struct ip_kernel_functions *chosen,
		      struct refused *refused)
{
	for (size_t i = 0; i < chosen->n; i++) {
		const struct ip_kernel_function *f = &chosen->items[i];

		if (put(fd, "r%u:%s/%s %s%s%s number=\\%zu:u16\n", IP_KERNEL_RETURNS_MAX, p->group,
			p->exit, f->module, *f->module ? ":" : "", f->name, p->functions.n) < 0) {
			refuse(refused, f->name, errno);
			continue;
		}
		if (ip_kernel_functions_add(&p->functions, f->name, f->module) < 0)
			return -1;
	}
	if (!p->functions.n)
		return ip_error("the kernel refuses all probes: %s", refused->text);
	return 0;
}

static int make_entries(const struct ip_kernel_probes *p, int fd)
{
	for (size_t i = 0; i < p->functions.n; i++) {
		const struct ip_kernel_function *f = &p->functions.items[i];

		if (put(fd, "p:%s/%s %s%s%s number=\\%zu:u16 parent=$stack0:x64\n", p->group,
			p->entry, f->module, *f->module ? ":" : "", f->name, i) < 0)
			return ip_error_errno("the kernel refuses a probe of %s", f->name);
	}
	return 0;
}

static int choose(const char *patterns, struct ip_kernel_functions *ret)
{
	_cleanup_free_ char *available = tracefs_instance_file_read(
				    NULL, "available_filter_functions", NULL),
			    *note = NULL;
	int done;

	if (!available)
		return ip_error_errno("cannot read available_filter_functions of the kernel's "
				      "tracefs");
	done = ip_function_choice_make(patterns, available, "/proc/kallsyms", ret, &note);
	if (done == 0 && note)
		ip_notice("--kernel-functions: %s", note);
	return done;
}

static int make(struct ip_kernel_probes *p, const char *patterns)
{
	struct ip_kernel_functions chosen = {0};
	struct refused refused = {0};
	_cleanup_close_ int fd = -1;
	int ret = choose(patterns, &chosen);

	if (ret == 0)
		fd = open_events();
	if (fd < 0)
		ret = -1;
	if (ret == 0)
		ret = make_exits(p, fd, &chosen, &refused);
	if (ret == 0)
		ret = make_entries(p, fd);
	if (ret == 0 && refused.n)
		ip_notice("--kernel-functions: of %zu functions the kernel refuses probes: %s%s",
			  refused.n, refused.text, refused.n > TOLD ? "..." : "");
	ip_kernel_functions_clear(&chosen);
	return ret;
}

int ip_kernel_probes_make(const char *patterns, struct ip_kernel_probes **ret)
{
	struct ip_kernel_probes *p;

	if (ip_kernel_probes_check() < 0)
		return -1;
	p = calloc(1, sizeof(*p));
	if (!p)
		return ip_error("out of memory");
	snprintf(p->group, sizeof(p->group), PREFIX "%d_%" PRIu64, getpid(),
		 ip_proc_started_at(getpid()));
	/* kprobe_profile has the names of events alone */
	snprintf(p->entry, sizeof(p->entry), "entry_%d", getpid());
	snprintf(p->exit, sizeof(p->exit), "exit_%d", getpid());
	if (make(p, patterns) < 0) {
		ip_kernel_probes_remove(p);
		return -1;
	}
	*ret = p;
	return 0;
}

int ip_kernel_probes_enable(const struct ip_kernel_probes *p, struct tracefs_instance *instance)
{
	if (tracefs_event_enable(instance, p->group, p->exit) < 0 ||
	    tracefs_event_enable(instance, p->group, p->entry) < 0)
		return ip_error_errno("cannot switch the probes of the kernel's functions on");
	return 0;
}

/* Lines "  NAME HITS MISSES". */
uint64_t ip_kernel_probes_missed(const struct ip_kernel_probes *p)
{
	_cleanup_free_ char *text = tracefs_instance_file_read(NULL, "kprobe_profile", NULL);
	unsigned long hits, misses;
	uint64_t sum = 0;
	char name[NAME];

	for (const char *line = text; line && *line;
	     line += strcspn(line, "\n"), line += *line == '\n')
		if (sscanf(line, " %63s %lu %lu", name, &hits, &misses) == 3 &&
		    (!strcmp(name, p->exit) || !strcmp(name, p->entry)))
			sum += misses;
	return sum;
}

/* The kernel forgets an event with its last probe. */
void ip_kernel_probes_remove(struct ip_kernel_probes *p)
{
	_cleanup_close_ int fd = -1;

	if (!p)
		return;
	fd = open_events();
	if (fd >= 0 && ((put(fd, "-:%s/%s\n", p->group, p->entry) < 0 && errno != ENOENT) ||
			(put(fd, "-:%s/%s\n", p->group, p->exit) < 0 && errno != ENOENT)))
		ip_notice("the kernel's probes %s stay, since another program uses them: the next "
			  "iprobe --kernel removes them",
			  p->group);
	ip_kernel_functions_clear(&p->functions);
	free(p);
}

int ip_kernel_probes_check(void)
{
	if (!tracefs_file_exists(NULL, EVENTS))
		return ip_error("this kernel has no %s in its tracefs (CONFIG_KPROBE_EVENTS, or it "
				"is locked down): functions of the kernel cannot be recorded",
				EVENTS);
	if (!tracefs_file_exists(NULL, "available_filter_functions"))
		return ip_error("this kernel has no available_filter_functions in its tracefs "
				"(CONFIG_DYNAMIC_FTRACE): it is not known which functions it has");
	return 0;
}
