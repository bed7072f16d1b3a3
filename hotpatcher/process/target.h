/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target: the process being probed, seen from outside, without stopping it.
 */
#ifndef IP_TARGET_H
#define IP_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/abi/anchor.h"
#include "common/arch/arch.h"
#include "common/elf/elf_file.h"
#include "common/proc.h"
#include "hotpatcher/process/maps.h"

struct ip_stub_room {
	uint64_t address, size;
};

/* What a room above remembers of a target; it begins a structure of that room. */
struct ip_target_state {
	void (*destroy)(struct ip_target_state *state);
};

struct ip_target {
	pid_t pid;
	pid_t inner_pid;	    /* as it sees itself */
	const struct ip_arch *arch; /* of its programs */
	int pidfd;		    /* -1 where the kernel has none */
	int mem;		    /* /proc/PID/mem, read-write unless opened read-only */
	struct ip_maps maps;
	/* where the image has the random bytes of its exec (image.h); 0: unknown */
	uint64_t random_at;
	bool has_runtime;
	bool linked_in; /* the runtime is part of a static program; it may be asleep (ip_wake) */
	bool injected;	/* iprobe put it there (inject.h); it may be asleep too */
	uint64_t anchor_address;
	struct ip_rt_anchor anchor; /* valid where has_runtime */
	/* that modules bring along for stubs, as far as they are executable (ip_modules_load) */
	struct ip_stub_room *rooms;
	size_t nrooms;
	struct ip_target_state *state; /* NULL: it is not to be stopped (ptrace/stops.h) */
	bool plt;	 /* its modules' lists are to have the functions of their PLTs (plt.h) */
	unsigned images; /* how often refreshing has found another program in it */
	/* never to be that of another program: once the present one is gone every use fails */
	bool one_image;
	bool exited; /* a stop saw it end */
	/* it executes a program that we may not touch (setuid, unreadable): for us it has ended */
	bool closed;
	int exit_status; /* as from waitpid, where it is our child and a stop reaped it; else -1 */
};

/* Opens the process and checks that it can be worked on: it exists, is a process (not a thread,
 * kernel thread or zombie), for a machine that we know, is not us, may be traced by us, is
 * traced by nobody. Nothing is stopped or changed. 0, or -1 with the reason. */
int ip_target_open(pid_t pid, bool write, struct ip_target **ret);
void ip_target_close(struct ip_target *target);

/* Reads /proc/PID/maps again (after exec, dlopen) and looks for the runtime's anchor. */
int ip_target_refresh(struct ip_target *target);

/* Whether the memory that we have open is that of an image that is gone: it has executed another
 * program, or ends. */
bool ip_target_image_is_gone(const struct ip_target *target);

bool ip_target_alive(const struct ip_target *target);

/* Whole reads and writes of the target's memory; a write goes through page protection. 0, or -1
 * with an error that names pid and address. */
int ip_target_read(const struct ip_target *target, uint64_t address, void *buffer, size_t size);
int ip_target_write(const struct ip_target *target, uint64_t address, const void *buffer,
		    size_t size);

/* Whether /proc/PID/mem may write to pages that are not writable, tried on ourselves: kernels from
 * 6.12 on can forbid it. */
bool ip_target_may_write_text(void);

/* Whether the address lies in one of the target's pools or rooms for stubs. */
bool ip_target_is_stub(const struct ip_target *target, uint64_t address);

/* Whether the process's first thread has ended: others may go on, or nobody has waited for it
 * yet. */
bool ip_proc_is_zombie(pid_t pid);

/* The id of a process or thread in its own namespace. */
pid_t ip_proc_inner_pid(pid_t pid);

/* Opens the memory of a process: a descriptor, which the caller closes, or -1 with errno. */
int ip_proc_open_mem(pid_t pid, int flags);

#endif
