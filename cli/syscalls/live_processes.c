/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the processes whose system calls are counted live. See live_processes.h.
 */
#include "cli/syscalls/live_processes.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "cli/args/processes.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/notice.h"
#include "common/now.h"
#include "common/proc.h"

#define LOOK_SHARE 20u		 /* one part in so many of our time goes to looks for processes */
#define IDLE_NS	   1000000000ull /* without a process, until a choice of several is over */
#define EVENTS	   64
#define GONE	   (-2) /* there is no such process any more, or none that makes calls */
#define UNSEEN	   1	/* its program may not be looked at */

/* System calls of 32-bit programs have numbers of their own, which the kernel's events do not tell
 * from those of others. Returns 0, or UNSEEN; -1 with an error; GONE with an error. */
static int check_program(pid_t pid)
{
	unsigned char head[EI_NIDENT] = {0};
	char path[32];
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		ip_error("pid %d: it makes no system calls: it is a thread of the kernel, or has "
			 "ended",
			 pid);
		return GONE;
	}
	if (fd < 0 && errno == EACCES)
		return UNSEEN;
	if (fd < 0)
		return ip_error_errno("pid %d: cannot look at its program", pid);
	if (read(fd, head, sizeof(head)) != sizeof(head) || head[EI_CLASS] != ELFCLASS64)
		return ip_error("pid %d: system calls of 32-bit programs cannot be told apart from "
				"those of others",
				pid);
	return 0;
}

static bool has_ended(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* Steps 1 and 2. Returns the descriptor; -1 with an error; GONE with an error. */
static int open_process(pid_t pid, uint64_t started, bool *ret_unseen)
{
	int fd = pidfd_open(pid, 0), checked = GONE;

	if (fd < 0 && errno != ESRCH)
		return ip_error_errno("cannot open process %d", pid);
	if (fd < 0 || ip_proc_started_at(pid) != started)
		ip_error("pid %d: it has ended", pid);
	else
		checked = check_program(pid);
	*ret_unseen = checked == UNSEEN;
	if (checked >= 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return checked;
}

/* Of several processes the others are counted all the same. Those that nobody has named come and
 * go. Returns 0, or -1 with the error that is there. */
static int pass_over(struct cli_live_processes *p, bool named, bool gone)
{
	if (cli_is_one_process(p->choice))
		return -1;
	p->failed |= named;
	if (named || !gone)
		ip_notice("%s", ip_error_message());
	return 0;
}

static bool has(const struct cli_live_processes *p, const struct ip_service_process *process)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->items[i].pid == process->pid && p->items[i].started == process->started)
			return true;
	return false;
}

static int tell_unseen(pid_t pid)
{
	return ip_error("pid %d: it is another user's, or runs with other rights: root counts its "
			"calls, and an iprobed whose policy lists it for the group iprobe",
			pid);
}

/* Adds those that are new. Returns 0, or -1 with an error. */
static int meet(struct cli_live_processes *p, const struct ip_service_processes *found)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct ip_service_process *process = &found->items[i];
		struct cli_live_process new = {
			.pid = process->pid, .started = process->started, .named = process->named};

		if (has(p, process))
			continue;
		if (ip_array_grow(&p->items, p->n, sizeof(new)) < 0)
			return -1;
		new.fd = open_process(new.pid, new.started, &new.unseen);
		if (new.unseen && p->asked && !p->by_iprobed) {
			close(new.fd);
			new.fd = tell_unseen(new.pid);
		}
		p->items[p->n++] = new;
		if (new.fd < 0 && pass_over(p, process->named, new.fd == GONE) < 0)
			return -1;
	}
	return 0;
}

/* Those that have ended, or are not counted, and are gone. */
static void forget(struct cli_live_processes *p, const struct ip_service_processes *found)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct ip_service_process *still =
			ip_service_processes_get(found, p->items[i].pid);

		if (p->items[i].fd >= 0 || (still && still->started == p->items[i].started))
			p->items[n++] = p->items[i];
	}
	p->n = p->joined = n;
}

static int look(struct cli_live_processes *p, bool first)
{
	const uint64_t begin = ip_now_ns();
	struct ip_service_processes found;
	size_t at = 0;
	pid_t missing;
	int ret = 0;

	p->last_pid = ip_proc_last_pid();
	if (ip_service_processes_find(p->choice, &found) < 0)
		return -1;
	if (first && !found.n && cli_is_one_process(p->choice))
		ret = ip_error("pid %d: no such process (ps and pgrep show what there is)",
			       p->choice->pids[0]);
	else if (first && !found.n)
		ret = ip_service_none_found(p->choice);
	while (first && ret == 0 && (missing = ip_service_next_missing(p->choice, &found, &at))) {
		ip_notice("pid %d: no such process", missing);
		p->failed = true;
	}
	if (!first)
		forget(p, &found);
	if (ret == 0)
		ret = meet(p, &found);
	ip_service_processes_clear(&found);
	p->look_ns = ip_now_ns() + LOOK_SHARE * (ip_now_ns() - begin);
	return ret;
}

static size_t count_open(const struct cli_live_processes *p)
{
	size_t open = 0;

	for (size_t i = 0; i < p->n; i++)
		open += p->items[i].fd >= 0;
	return open;
}

static int none_is_counted(void)
{
	return ip_error("the system calls of none of these processes can be counted");
}

int cli_live_processes_open(const struct ip_service_choice *choice, struct cli_live_processes *ret)
{
	*ret = (struct cli_live_processes){.choice = choice, .ends = -1};
	for (size_t i = 0; i < choice->npids; i++) {
		const pid_t pid = choice->pids[i];
		const long process = ip_proc_status(pid, "Tgid");

		if (process > 0 && process != pid)
			return ip_error("%d is a thread of process %ld: --tid %d %ld shows it "
					"alone",
					pid, process, pid, process);
	}
	ret->ends = epoll_create1(EPOLL_CLOEXEC);
	if (ret->ends < 0)
		return ip_error_errno("cannot wait for processes");
	ip_descriptor_limit_raise();
	if (look(ret, true) < 0)
		return -1;
	return count_open(ret) ? 0 : none_is_counted();
}

int cli_live_processes_look_by(struct cli_live_processes *p, bool by_iprobed)
{
	p->asked = true;
	p->by_iprobed = by_iprobed;
	for (size_t i = 0; i < p->n && !by_iprobed; i++) {
		struct cli_live_process *process = &p->items[i];

		if (!process->unseen || process->fd < 0)
			continue;
		close(process->fd);
		process->fd = tell_unseen(process->pid);
		if (pass_over(p, process->named, false) < 0)
			return -1;
	}
	return count_open(p) ? 0 : none_is_counted();
}

/* Steps 3 and 4. Returns 1: it is counted; 0: it has ended; -1 with an error. */
static int join(struct cli_live_processes *p, struct cli_live_process *process,
		struct ip_kernel_recorder *recorder)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = process->fd};
	const bool had_ended = has_ended(process->fd);
	const int added = ip_kernel_recorder_add(recorder, process->pid);
	uint64_t now;

	if (has_ended(process->fd)) {
		now = ip_proc_started_at(process->pid);
		/* the kernel's list cannot be undone: what the other one does is on it */
		if (added == 0 && now && now != process->started)
			return ip_error("pid %d: it has ended, and the number is another process' "
					"now, whose calls were not asked for",
					process->pid);
		/* one that lived for a moment after it was added made its last calls then */
		if (had_ended || added < 0) {
			ip_error("pid %d: it has ended", process->pid);
			return 0;
		}
	}
	if (added < 0)
		return -1;
	return epoll_ctl(p->ends, EPOLL_CTL_ADD, process->fd, &event) < 0
		       ? ip_error_errno("cannot wait for pid %d", process->pid)
		       : 1;
}

int cli_live_processes_join(struct cli_live_processes *p, struct ip_kernel_recorder *recorder)
{
	/* those in front have joined before, or never will */
	for (size_t i = p->joined; i < p->n; i++) {
		struct cli_live_process *process = &p->items[i];
		int joined;

		p->joined = i + 1;
		if (process->fd < 0)
			continue;
		joined = join(p, process, recorder);
		if (joined > 0) {
			p->counted++;
			p->live++;
			continue;
		}
		close(process->fd);
		process->fd = -1;
		/* that one may not be counted says nothing about the others */
		if ((joined < 0 && !process->unseen) ||
		    pass_over(p, process->named, joined == 0) < 0)
			return -1;
	}
	/* on a machine that starts programs all the time there is always somebody to look at: the
	 * time runs from when the last one ended */
	if (p->live)
		p->idle_ns = UINT64_MAX;
	else if (!p->idle_ns || p->idle_ns == UINT64_MAX)
		p->idle_ns = ip_now_ns() + IDLE_NS;
	return p->counted  ? 0
	       : p->failed ? none_is_counted()
			   : ip_error("these processes have ended");
}

static void take_ends(struct cli_live_processes *p)
{
	struct epoll_event events[EVENTS];
	int n;

	while ((n = epoll_wait(p->ends, events, EVENTS, 0)) > 0)
		for (int i = 0; i < n; i++) {
			epoll_ctl(p->ends, EPOLL_CTL_DEL, events[i].data.fd, NULL);
			for (size_t k = 0; k < p->n; k++)
				if (p->items[k].fd == events[i].data.fd)
					p->items[k].fd = -1;
			close(events[i].data.fd);
			p->live--;
		}
	if (!p->live && p->idle_ns == UINT64_MAX)
		p->idle_ns = ip_now_ns() + IDLE_NS;
}

int cli_live_processes_step(struct cli_live_processes *p, struct ip_kernel_recorder *recorder)
{
	take_ends(p);
	if (!ip_service_choice_is_open(p->choice) || ip_now_ns() < p->look_ns ||
	    ip_proc_last_pid() == p->last_pid)
		return 0;
	return look(p, false) < 0 ? -1 : cli_live_processes_join(p, recorder);
}

bool cli_live_processes_are_over(const struct cli_live_processes *p)
{
	return !p->live && (!ip_service_choice_is_open(p->choice) || ip_now_ns() >= p->idle_ns);
}

void cli_live_processes_clear(struct cli_live_processes *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->items[i].fd >= 0)
			close(p->items[i].fd);
	if (p->ends >= 0)
		close(p->ends);
	free(p->items);
	*p = (struct cli_live_processes){.ends = -1};
}
