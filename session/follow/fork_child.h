/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that a target has forked, as session/follow/follow_fork.h's steps know them: how
 * they are found, and how one of them is put back.
 */
#ifndef IP_FORK_CHILD_H
#define IP_FORK_CHILD_H

#include "access/thread_credentials.h"
#include "session/follow/follow_fork.h"

enum ip_fork_child_kind {
	IP_FORK_CHILD, /* has the target's image, and perhaps live sites */
	/* a silent child that was put back; it may have forked its own children before that */
	IP_FORK_CLEAN,
	IP_FORK_STRANGER, /* executes another program, or we may not look at it */
};

struct ip_fork_child {
	pid_t pid, inner;
	/* the process that has forked it, of this session, as it sees itself; 0: not known, as
	 * where that has ended before the child was found */
	pid_t parent;
	pid_t outer_parent; /* our number of its parent when it was found; 0: not known */
	int fd;		    /* a pidfd: another process may get the number one day */
	enum ip_fork_child_kind kind;
	uint64_t found_ns;
	unsigned tries;
	unsigned credentials_at; /* index of the thread whose credentials are read next */
	bool differs; /* a followed child with other credentials: it loses its sites and the area */
	uint64_t again_ns;
	/* its memory is the target's, or that of another child that was found before */
	bool shares;
	void *kept; /* of the caller of ip_follow_fork_each() */
};

struct ip_follow_fork {
	struct ip_area *area;
	struct ip_target *target;
	bool follow;
	/* NULL: what is not followed has no session */
	bool (*let_go)(void *context, pid_t pid);
	void *context;
	uint64_t deadline_ns;
	uint64_t inode;	  /* of the area */
	struct statx exe; /* the file that the target's image is of */
	bool exe_known;
	uint64_t gate; /* of the target's image, at the beginning */
	long last_pid; /* at the last look */
	bool same_namespace;
	struct ip_credentials credentials; /* of the target, as they were last seen */
	struct ip_fork_child *items;
	size_t n;
	uint64_t look_ns; /* no look before that time */
	uint64_t idle_ns; /* a look at that time at the latest */
	size_t restored;
	void (*forget)(void *);
	unsigned visits; /* visits in progress: no child is forgotten meanwhile */
	/* targets that are closed once none of their threads is our tracee: a thread that did not
	 * stop in time still is */
	struct ip_target **late;
	size_t nlate;
};

/* Finds a process among those that are known; NULL: it is not. */
struct ip_fork_child *ip_fork_child_find(const struct ip_follow_fork *followed, pid_t pid);

/* Returns its parent as far as that is known by now: see struct ip_fork_child. */
pid_t ip_fork_child_parent(const struct ip_follow_fork *followed,
			   const struct ip_fork_child *child);

/* Step 2: takes in a process that was found just now, if it is not known. */
void ip_fork_child_meet(struct ip_follow_fork *followed, pid_t pid);
/* Step 1: those that the process has forked. */
void ip_fork_child_meet_children(struct ip_follow_fork *followed, pid_t pid);
/* Notes which file the target executes, for step 4: if it is not known, step 4 looks at every
 * process. */
void ip_fork_child_note_exe(struct ip_follow_fork *followed, pid_t pid);

/* Step 4: all processes that have the image. idle_too: as for ip_fork_child_is_copy(). */
void ip_fork_child_meet_all(struct ip_follow_fork *followed, bool idle_too);

/* Whether the process is a child with the image that the target had. Such a child has the target's
 * gate, which is a page of its own at the same address, and no other area than the target's. (It
 * has the target's area only if children are followed, or if it lives in the target's memory.)
 * idle_too: also one whose own area has no session: it may have copies of live sites all the same.
 */
bool ip_fork_child_is_copy(const struct ip_follow_fork *followed, pid_t pid, bool idle_too);
bool ip_fork_child_has_image(const struct ip_follow_fork *followed, pid_t pid);
/* Whether it has mapped the target's area. */
bool ip_fork_child_has_area(const struct ip_follow_fork *followed, pid_t pid);

bool ip_fork_child_has_ended(const struct ip_fork_child *child);
/* Frees what a child holds, which is taken off the list by the caller. */
void ip_fork_child_drop(struct ip_follow_fork *followed, struct ip_fork_child *child);
/* Takes those that have ended off the list, unless they are being visited. */
void ip_fork_child_forget_ended(struct ip_follow_fork *followed);

/* Puts a child's sites back, and has it unmap the area. tries: how often a stop is tried; 1: in a
 * step of the session, which must not take long. Returns the number of sites that were put back, or
 * -1 with an error. The process has nothing of the area any more afterwards. The caller holds the
 * lock of the area's text (ip_area_lock_patch()), or there is no session any more. */
long ip_fork_child_restore(struct ip_follow_fork *followed, const struct ip_fork_child *child,
			   unsigned tries);
/* Closes the targets that wait for a thread which did not stop in time, where it has. */
void ip_fork_child_let_late_go(struct ip_follow_fork *followed);

#endif
