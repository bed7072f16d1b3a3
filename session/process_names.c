/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the names of processes into the trace. The steps are told in process_names.h; the comments
 * here name them.
 */
#include "session/process_names.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/notice.h"
#include "common/now.h"
#include "common/proc.h"

#define COMM_SIZE   16	       /* TASK_COMM_LEN, with the NUL */
#define SHORTEST_NS 2000000ull /* between two readings of one process */
#define LONGEST_NS  500000000ull
#define READINGS    16u /* in one step; more of new processes come in the next step */
#define SHARE	    50u /* readings take at most this part of the time */
#define LINES_EACH  16u /* of one process: the changes of its name, and its last command line */
#define LINES_MAX   10000u

struct named {
	pid_t pid, inner, parent; /* parent: as the target sees it; 0: not known */
	bool forked;		  /* by a process of the session */
	bool seen;		  /* it is there still */
	uint64_t since_ns, next_ns;
	char *name, *command;	   /* as read last; NULL: not read yet */
	char *told, *told_command; /* as written last; NULL: nothing was */
	unsigned lines;
};

struct ip_process_names {
	struct named *items; /* the target is the first, unless it was launched */
	size_t n;
	bool launched;
	uint64_t rest_until_ns; /* nothing is read before that time */
	unsigned lines, readings;
	bool last;
	char *title; /* of the target: how its command line begins; NULL: not known */
};

struct ip_process_names *ip_process_names_create(bool launched)
{
	struct ip_process_names *n = calloc(1, sizeof(*n));

	if (n)
		n->launched = launched;
	return n;
}

static void clear(struct named *p)
{
	free(p->name);
	free(p->command);
	free(p->told);
	free(p->told_command);
}

void ip_process_names_destroy(struct ip_process_names *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n; i++)
		clear(&n->items[i]);
	free(n->items);
	free(n->title);
	free(n);
}

/* The name of the program in a command line: of "nginx: worker process", "/bin/sh -c x" ...
 * malloc'ed; NULL: there is none. */
static char *title_of(const char *command)
{
	const char *end = command + strcspn(command, " \t"), *begin = end;

	while (begin > command && begin[-1] != '/')
		begin--;
	if (end - begin > 1 && end[-1] == ':')
		end--;
	return end > begin ? strndup(begin, end - begin) : NULL;
}

static bool read_comm(pid_t pid, char ret[COMM_SIZE])
{
	char path[64], text[64];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	n -= text[n - 1] == '\n';
	n = n < COMM_SIZE ? n : COMM_SIZE - 1;
	memcpy(ret, text, n);
	ret[n] = '\0';
	return n > 0;
}

/* Whether the comm is the one that the kernel gives to who executes the program. What is not known
 * counts as yes. */
static bool is_of_program(pid_t pid, const char *comm)
{
	char path[64], exe[PATH_MAX];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n <= 0)
		return true;
	exe[n] = '\0';
	name = strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe;
	return !strncmp(name, comm, strlen(comm)) &&
	       (strlen(comm) == COMM_SIZE - 1 || !name[strlen(comm)] || name[strlen(comm)] == ' ');
}

/* What people call the process. A title that it has written over its command line (setproctitle)
 * comes first; then a name of its own (prctl, or that of a script); then its program's. */
static char *name_of(const struct ip_process_names *n, const struct named *p, const char *title)
{
	char comm[COMM_SIZE];

	if (title && p->forked && n->title && strcmp(title, n->title))
		return strdup(title);
	if (read_comm(p->pid, comm) && (!title || !is_of_program(p->pid, comm)))
		return strdup(comm);
	return title ? strdup(title) : NULL;
}

static void write_line(struct ip_process_names *n, struct named *p, struct ip_trace *trace)
{
	if (!p->name || (p->told && !strcmp(p->told, p->name) && p->told_command &&
			 !strcmp(p->told_command, p->command)))
		return;
	if (n->lines >= LINES_MAX) {
		if (n->lines++ == LINES_MAX)
			ip_notice("more than %u names of processes: those of later ones, and later "
				  "changes, are not in the trace",
				  LINES_MAX);
		return;
	}
	n->lines++;
	p->lines++;
	ip_trace_add_process(trace, p->inner, p->parent, p->forked, p->name, p->command);
	free(p->told);
	free(p->told_command);
	p->told = strdup(p->name);
	p->told_command = strdup(p->command);
}

struct step {
	struct ip_process_names *names;
	const struct ip_target *target;
	const struct ip_follow_fork *followed;
	struct ip_trace *trace;
};

/* Whether the process has not executed another program. */
static bool has_image(const struct step *s, const struct named *p)
{
	return p->forked ? ip_follow_fork_has(s->followed, p->pid)
			 : !ip_target_image_is_gone(s->target);
}

static bool is_known(const struct named *p, const char *name, const char *command)
{
	return p->name && !strcmp(name, p->name) && !strcmp(command, p->command);
}

/* Step 2 for one process. */
static void look(const struct step *s, struct named *p)
{
	struct ip_process_names *n = s->names;
	const uint64_t now = ip_now_ns(), age = now - p->since_ns;
	_cleanup_free_ char *command = ip_proc_command(p->pid);
	_cleanup_free_ char *title = title_of(command);
	_cleanup_free_ char *name = name_of(n, p, title);
	/* what has ended a moment ago has a name still, and no command line and no image */
	const bool ended = !*command;

	n->readings++;
	p->next_ns = now + (age < SHORTEST_NS ? SHORTEST_NS : age < LONGEST_NS ? age : LONGEST_NS);
	if (!name || (ended && p->name) || is_known(p, name, command))
		return;
	/* after the reading: it may be of another program, which is nothing of the session's */
	if (!ended && !has_image(s, p))
		return;
	free(p->name);
	free(p->command);
	p->name = ip_steal_ptr(name);
	p->command = ip_steal_ptr(command);
	if (!p->told || (strcmp(p->told, p->name) && p->lines < LINES_EACH - 1))
		write_line(n, p, s->trace);
}

static struct named *find(struct ip_process_names *n, pid_t pid)
{
	for (size_t i = 0; i < n->n; i++)
		if (n->items[i].pid == pid)
			return &n->items[i];
	return NULL;
}

/* Step 1. NULL: there is no memory for it. */
static struct named *meet(struct ip_process_names *n, pid_t pid, pid_t inner, pid_t parent,
			  bool forked)
{
	if (ip_array_grow(&n->items, n->n, sizeof(*n->items)) < 0)
		return NULL;
	n->items[n->n] = (struct named){.pid = pid,
					.inner = inner,
					.parent = parent,
					.forked = forked,
					.since_ns = ip_now_ns()};
	return &n->items[n->n++];
}

static void visit(struct step *s, struct named *p)
{
	struct ip_process_names *n = s->names;

	p->seen = true;
	if (n->last || (n->readings < READINGS && ip_now_ns() >= p->next_ns))
		look(s, p);
}

static void visit_child(void *context, pid_t pid, pid_t inner, pid_t parent)
{
	struct step *s = context;
	struct named *p = find(s->names, pid);

	/* a number that is given again is a new process */
	if (p && p->inner != inner)
		return;
	if (!p)
		p = meet(s->names, pid, inner, parent, true);
	if (p)
		visit(s, p);
}

/* Step 3, of those that have gone. */
static void forget_gone(struct ip_process_names *n, struct ip_trace *trace)
{
	size_t kept = 0;

	for (size_t i = 0; i < n->n; i++) {
		struct named *p = &n->items[i];

		if (p->seen && !n->last) {
			n->items[kept++] = *p;
			continue;
		}
		write_line(n, p, trace);
		clear(p);
	}
	n->n = kept;
}

void ip_process_names_step(struct ip_process_names *n, const struct ip_target *target, bool execed,
			   struct ip_follow_fork *followed, struct ip_trace *trace, bool last)
{
	struct step s = {.names = n, .target = target, .followed = followed, .trace = trace};
	const uint64_t began = ip_now_ns();
	struct named *p;

	if (!last && began < n->rest_until_ns)
		return;
	n->last = last;
	n->readings = 0;
	for (size_t i = 0; i < n->n; i++)
		n->items[i].seen = false;
	if (!n->title && !execed) {
		_cleanup_free_ char *command = ip_proc_command(target->pid);

		n->title = title_of(command);
	}
	if (!n->launched) {
		p = find(n, target->pid);
		if (!p) {
			const long parent = ip_proc_status(target->pid, "PPid");

			p = meet(n, target->pid, target->inner_pid, parent > 0 ? parent : 0, false);
		}
		if (p && execed)
			p->seen = true;
		else if (p)
			visit(&s, p);
	}
	ip_follow_fork_each_child(followed, visit_child, &s);
	forget_gone(n, trace);
	n->rest_until_ns = began + SHARE * (ip_now_ns() - began);
}
