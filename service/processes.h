/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a service: those that a user names by their pids, by the name of their program,
 * by a unit of systemd, by a control group, and all that these fork.
 *
 * Names, units and control groups are what /proc says at the time of a look. A process chooses its
 * own name: that it is found here gives it nothing, and nobody a right. Whether it may be traced is
 * decided when a session is begun, as for any other process.
 */
#ifndef IP_SERVICE_PROCESSES_H
#define IP_SERVICE_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_SERVICE_CHOICES   1024u /* of each kind, at most */
#define IP_SERVICE_PROCESSES 4096u

struct ip_service_choice {
	const pid_t *pids;
	size_t npids;
	/* globs, compared with the name of the main thread (comm) and with the last component of
	 * the executable's path */
	const char *const *names;
	size_t nnames;
	/* names of units; without a dot ".service" is meant */
	const char *const *units;
	size_t nunits;
	/* paths of control groups, with or without /sys/fs/cgroup in front: processes in them and
	 * below them */
	const char *const *cgroups;
	size_t ncgroups;
	bool children; /* and all descendants of these */
};

/* Whether the choice is open: processes that come later belong to it, too. */
bool ip_service_choice_is_open(const struct ip_service_choice *choice);

/* How the processes are chosen, for people: "--name nginx", "PIDs 12 13". malloc'ed; NULL with an
 * error where memory ran out. */
char *ip_service_choice_text(const struct ip_service_choice *choice);

/* Whether a line of /proc/PID/cgroup is about one of the choice's units or control groups. The line
 * is changed. */
bool ip_service_choice_has_group(const struct ip_service_choice *choice, char *line);

struct ip_service_process {
	pid_t pid, parent;
	/* the time at which it was started (common/proc.h): a pid can be another process later */
	uint64_t started;
	/* where the stack of its image begins: another place after an exec, the same in a forked
	 * child; 0: this process may not see it */
	uint64_t image;
	/* of its image, the program that it executes, and its users and groups: changes when one
	 * of them does, and is the same for a child that has forked and has the same */
	uint64_t identity;
	uint64_t exe; /* of the file that it executes; 0: not known */
	bool named;   /* by its pid */
	bool chosen;  /* by itself, not as a descendant of another */
	char comm[16];
};

struct ip_service_processes {
	struct ip_service_process *items; /* sorted by pid */
	size_t n;
};

/* Whether the choice includes a process that one of its processes has forked. */
bool ip_service_choice_includes_child(const struct ip_service_choice *choice, pid_t pid);

/* Looks at all processes. Zombies, and this process with its own children, are left out. Processes
 * that are named by pid and do not exist are left out, too. Returns 0, or -1 with an error. */
int ip_service_processes_find(const struct ip_service_choice *choice,
			      struct ip_service_processes *ret);
void ip_service_processes_clear(struct ip_service_processes *processes);

/* Looks again at one that was found, which may have executed a program since. Returns false where
 * it has ended; *process is as it was then. */
bool ip_service_process_refresh(struct ip_service_process *process);

/* Sets the error for a choice of which no process was found. Returns -1. */
int ip_service_none_found(const struct ip_service_choice *choice);

/* Names, units and control groups of the choice that no process has, as ip_service_choice_text()
 * tells them; empty: each has one. malloc'ed; NULL with an error. */
char *ip_service_choice_unmatched(const struct ip_service_choice *choice);

/* Returns the next process that is named by its pid and was not found; 0: there is none. *at: 0 at
 * first. */
pid_t ip_service_next_missing(const struct ip_service_choice *choice,
			      const struct ip_service_processes *found, size_t *at);

/* Returns the process, or NULL. */
const struct ip_service_process *
ip_service_processes_get(const struct ip_service_processes *processes, pid_t pid);

#endif
