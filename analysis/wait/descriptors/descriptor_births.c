/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows what system calls make and close. descriptor_births.h has the rules.
 */
#include "analysis/wait/descriptors/descriptor_births.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "common/arch/syscalls.h"
#include "common/error.h"

enum what { MADE, CLOSED };

/* Of one descriptor. */
struct change {
	uint64_t tsc;
	uint32_t pid;
	int32_t fd;
	uint8_t what, kind;
};

/* Of a process: it has made something, nobody knows which number; or all before it is forgotten. */
struct moment {
	uint64_t tsc;
	uint32_t pid;
	uint8_t kind;
	size_t run; /* index of the first one of those in a row that are of the same kind */
};

struct ip_descriptor_births {
	struct change *changes; /* by process, descriptor, time */
	size_t n;
	struct moment *moments, *forgets; /* by process, time */
	size_t nmoments, nforgets;
	uint64_t *losses; /* of all processes, in order of time */
	size_t nlosses;
};

enum ip_birth_kind ip_descriptor_makes(const struct ip_thread_call *call)
{
	if (ip_syscall_returns_descriptor(call->number))
		return IP_BIRTH_ONE;
	switch (call->number) {
	case SYS_clone: /* clone3(2) has its flags in the caller's memory */
		return call->arguments[0] & CLONE_PIDFD ? IP_BIRTH_UNTOLD : IP_BIRTH_NONE;
	case SYS_fcntl:
		return call->arguments[1] == F_DUPFD || call->arguments[1] == F_DUPFD_CLOEXEC
			       ? IP_BIRTH_ONE
			       : IP_BIRTH_NONE;
	case SYS_pipe:
	case SYS_pipe2:
	case SYS_socketpair:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_ioctl:
	case SYS_bpf:
	case SYS_io_uring_enter:
		return IP_BIRTH_UNTOLD;
	default:
		return IP_BIRTH_NONE;
	}
}

/* What waits for a descriptor that a system call has made. */
static enum ip_wait_kind kind_of(uint16_t number)
{
	switch (number) {
	case SYS_open:
	case SYS_openat:
	case SYS_openat2:
	case SYS_creat:
	case SYS_open_by_handle_at:
	case SYS_memfd_create:
		return IP_WAIT_FILE;
	case SYS_socket:
	case SYS_accept:
	case SYS_accept4:
	case SYS_socketpair:
		return IP_WAIT_SOCKET;
	case SYS_pipe:
	case SYS_pipe2:
		return IP_WAIT_PIPE;
	case SYS_timerfd_create:
		return IP_WAIT_TIMER;
	case SYS_signalfd:
	case SYS_signalfd4:
		return IP_WAIT_SIGNAL;
	case SYS_epoll_create:
	case SYS_epoll_create1:
		return IP_WAIT_POLL;
	case SYS_pidfd_open:
		return IP_WAIT_CHILD;
	case SYS_io_uring_setup:
		return IP_WAIT_IO_URING;
	default:
		return IP_WAIT_OTHER;
	}
}

static int compare_changes(const void *left, const void *right)
{
	const struct change *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->fd != b->fd)
		return a->fd < b->fd ? -1 : 1;
	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

static int compare_moments(const void *left, const void *right)
{
	const struct moment *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

static void take_making(struct ip_descriptor_births *m, const struct ip_descriptor_birth *making,
			uint32_t pid)
{
	const enum ip_wait_kind kind = kind_of(making->number);

	/* of a process that is not known: it may be any */
	if (!making->tid || !pid)
		m->losses[m->nlosses++] = making->tsc;
	else if (making->fd >= 0)
		m->changes[m->n++] = (struct change){making->tsc, pid, making->fd, MADE, kind};
	else
		m->moments[m->nmoments++] =
			(struct moment){.tsc = making->tsc, .pid = pid, .kind = kind};
}

static void take_closing(struct ip_descriptor_births *m, const struct ip_closing *c, uint32_t pid)
{
	if (!pid)
		m->losses[m->nlosses++] = c->tsc;
	else if (c->from == c->to && c->from <= INT32_MAX)
		m->changes[m->n++] = (struct change){c->tsc, pid, c->from, CLOSED, IP_WAIT_OTHER};
	else
		m->forgets[m->nforgets++] = (struct moment){.tsc = c->tsc, .pid = pid};
}

static int compare_times(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

struct ip_descriptor_births *
ip_descriptor_births_create(const struct ip_states *states,
			    uint32_t (*pid_of)(const void *context, int32_t tid, uint64_t tsc),
			    const void *context)
{
	const size_t most = states->ndescriptor_births + states->nclosings + states->nbirths;
	struct ip_descriptor_births *m = calloc(1, sizeof(*m));

	if (m) {
		m->changes = calloc(most + 1, sizeof(*m->changes));
		m->moments = calloc(most + 1, sizeof(*m->moments));
		m->forgets = calloc(most + 1, sizeof(*m->forgets));
		m->losses = calloc(most + 1, sizeof(*m->losses));
	}
	if (!m || !m->changes || !m->moments || !m->forgets || !m->losses) {
		ip_descriptor_births_destroy(m);
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < states->ndescriptor_births; i++) {
		const struct ip_descriptor_birth *making = &states->descriptor_births[i];

		take_making(m, making, making->tid ? pid_of(context, making->tid, making->tsc) : 0);
	}
	for (size_t i = 0; i < states->nclosings; i++) {
		const struct ip_closing *c = &states->closings[i];

		take_closing(m, c, pid_of(context, c->tid, c->tsc));
	}
	/* a new process may have the pid of an old one */
	for (size_t i = 0; i < states->nbirths; i++)
		if (states->births[i].parent && states->births[i].is_process)
			m->forgets[m->nforgets++] = (struct moment){.tsc = states->births[i].tsc,
								    .pid = states->births[i].tid};
	qsort(m->changes, m->n, sizeof(*m->changes), compare_changes);
	qsort(m->moments, m->nmoments, sizeof(*m->moments), compare_moments);
	qsort(m->forgets, m->nforgets, sizeof(*m->forgets), compare_moments);
	qsort(m->losses, m->nlosses, sizeof(*m->losses), compare_times);
	for (size_t i = 0; i < m->nmoments; i++) {
		const struct moment *before = i ? &m->moments[i - 1] : NULL;

		m->moments[i].run = before && before->pid == m->moments[i].pid &&
						    before->kind == m->moments[i].kind
					    ? before->run
					    : i;
	}
	return m;
}

void ip_descriptor_births_destroy(struct ip_descriptor_births *births)
{
	if (!births)
		return;
	free(births->changes);
	free(births->moments);
	free(births->forgets);
	free(births->losses);
	free(births);
}

/* The number of items of a sorted array that are not behind a key. */
static size_t up_to(const void *items, size_t n, size_t size, const void *key,
		    int (*compare)(const void *, const void *))
{
	size_t low = 0;

	while (low < n) {
		const size_t middle = low + (n - low) / 2;

		if (compare((const char *)items + middle * size, key) <= 0)
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

enum ip_wait_kind ip_descriptor_births_kind(const struct ip_descriptor_births *m, uint32_t pid,
					    int32_t fd, uint64_t tsc)
{
	const struct change change = {.tsc = tsc, .pid = pid, .fd = fd};
	const struct moment moment = {.tsc = tsc, .pid = pid};
	size_t i = up_to(m->changes, m->n, sizeof(change), &change, compare_changes);
	const struct change *last = i ? &m->changes[i - 1] : NULL;
	const struct moment *run;

	if (!last || last->pid != pid || last->fd != fd)
		return IP_WAIT_OTHER;
	i = up_to(m->losses, m->nlosses, sizeof(tsc), &tsc, compare_times);
	if (i && m->losses[i - 1] >= last->tsc)
		return IP_WAIT_OTHER;
	i = up_to(m->forgets, m->nforgets, sizeof(moment), &moment, compare_moments);
	if (i && m->forgets[i - 1].pid == pid && m->forgets[i - 1].tsc >= last->tsc)
		return IP_WAIT_OTHER;
	if (last->what == MADE)
		return (enum ip_wait_kind)last->kind;
	/* all that was made since it was closed has to be of one kind */
	i = up_to(m->moments, m->nmoments, sizeof(moment), &moment, compare_moments);
	if (!i || m->moments[i - 1].pid != pid || m->moments[i - 1].tsc < last->tsc)
		return IP_WAIT_OTHER;
	run = &m->moments[m->moments[i - 1].run];
	if (run > m->moments && run[-1].pid == pid && run[-1].tsc >= last->tsc)
		return IP_WAIT_OTHER;
	return (enum ip_wait_kind)run->kind;
}
