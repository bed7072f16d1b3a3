/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what the kernel says about a process in /proc.
 */
#ifndef IP_PROC_H
#define IP_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Value of a "Key:" line of /proc/PID/status as a number; -1 if there is none. */
long ip_proc_status(pid_t pid, const char *key);
/* Whether a process has memory: one that executes another program always has, one that ends has
 * none for a moment before it has ended. */
bool ip_proc_has_memory(pid_t pid);

/* Makes "1234 (worker)" of a thread for messages, "1234" where its name cannot be read. Names may
 * hold anything: it comes escaped (ip_escape()), so that it is part of one line everywhere. errno
 * stays as it is. Returns ret. IP_THREAD_TEXT() does that in memory that lives to the end of the
 * block. */
#define IP_PROC_THREAD_MAX  128u
#define IP_THREAD_TEXT(tid) ip_proc_thread_text(tid, (char[IP_PROC_THREAD_MAX]){0})
const char *ip_proc_thread_text(pid_t tid, char ret[IP_PROC_THREAD_MAX]);

/* The time at which a process was started, in clock ticks (sysconf(_SC_CLK_TCK)) since boot.
 * Together with its id it identifies this process and no other (proc(5), stat, the 22nd field). 0:
 * the process does not exist, or the time is not known. */
uint64_t ip_proc_started_at(pid_t pid);

/* Whether a process has the words of a 64-bit program: 1, or 0: those of a 32-bit one. -1: it is
 * not known: there is no such process, it has no program, or it may not be looked at. */
int ip_proc_is_64_bit(pid_t pid);

/* The id that was last given to a process or thread. If it has changed, some process has forked.
 * Reading it costs one small file. -1: not known. */
long ip_proc_last_pid(void);

/* Reads the CPU time of a process, of threads that have ended, too. Returns 0, or -1 where it is
 * not known, without an error. */
int ip_proc_cpu_used(pid_t pid, uint64_t *ret_ns);

/* What a process has of CPUs, in nanoseconds. */
struct ip_proc_cpu {
	uint64_t used_ns;   /* by all its threads, those that have ended included */
	uint64_t queued_ns; /* for so long its present threads were ready and waited for a CPU */
};

/* Reads what the process has had of CPUs since it was started. Returns 0, or -1 where that is not
 * known, without an error: there is no such process. A kernel that does not tell queued_ns leaves
 * it 0. */
int ip_proc_cpu(pid_t pid, struct ip_proc_cpu *ret);

/* How a thread has waited for a CPU since it was started. */
struct ip_proc_queue {
	pid_t tid;
	uint64_t queued_ns;	   /* for so long it was ready and had none */
	uint64_t slept, preempted; /* so often it gave its CPU up by itself; had it taken away */
};

/* Calls visit for each thread of a process that the kernel tells this of, until it returns a value
 * other than 0, which is returned. */
int ip_proc_each_queue(pid_t pid, int (*visit)(void *context, const struct ip_proc_queue *queue),
		       void *context);

/* Calls visit for each child of each thread of a process (proc_pid_children(5)), until it returns a
 * value other than 0, which is returned. */
int ip_proc_each_child(pid_t pid, int (*visit)(void *context, pid_t child), void *context);

#endif
