/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records a service. service.h describes the steps; the comments here name them.
 */
#include "service/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/notice.h"
#include "common/now.h"
#include "common/proc.h"
#include "common/process_set.h"
#include "service/kernel_events.h"
#include "service/members.h"
#include "trace_writer/member_dirs.h"

#define POLL_MS	    20
#define LOOK_NS	    20000000ull /* between looks for processes, at least */
#define LOOK_SHARE  20		/* looks take one part in so many of a CPU */
#define IDLE_NS	    1000000000ull
#define GROWN_NS    20000000ull /* how long a process has lived when its session begins */
#define TRIES	    3
#define TRIES_OFTEN 32 /* of a child that a session has to let go */
#define CHECKS	    16 /* programs that are looked at before any process is touched */
#define ABSENT_NS   2000000000ull
#define LATE_NS	    2000000000ull /* beyond its time a session is told to end */
#define PROGRESS_NS 250000000ull

#define MEMORY_WHOLE 4		  /* so many processes have the default ring memory each; */
#define MEMORY_LEAST (8ull << 20) /* more of them share as much, down to this */

struct service {
	const struct ip_service_options *options;
	struct ip_member_dirs *dirs;
	struct ip_service_kernel *kernel; /* NULL: no kernel events are recorded */
	uint64_t *written;		  /* by all, in memory that workers share */
	struct ip_service_members members;
	uint64_t start_ns, look_ns, idle_ns, shown_ns, absent_ns;
	bool blind; /* the last look failed, and that was told */
	long last_pid;
	bool ending, stopped; /* stopped: the workers have been told */
	bool failed;	      /* a process that was named by its pid could not be recorded */
	struct ip_service_sum sum;
};

/* What nothing matches may be misspelt, or come later. Without anything else it is an error. */
static void tell_unmatched(const struct ip_service_choice *choice)
{
	_cleanup_free_ char *text = ip_service_choice_unmatched(choice);

	if (text && *text)
		ip_notice("no process matches %s: those that come join", text);
}

/* Step 2. first: the processes are recorded at once, and those that are missing are told. */
static int look(struct service *s, uint64_t now, bool first)
{
	const struct ip_service_choice *choice = &s->options->choice;
	struct ip_service_processes found;
	size_t at = 0, known;
	pid_t missing;
	int ret;

	s->last_pid = ip_proc_last_pid();
	if (ip_service_processes_find(choice, &found) < 0) {
		if (first)
			return -1;
		/* nobody is known to be gone, and those that have come are met later */
		if (!s->blind)
			ip_notice("processes that join are not seen for now: %s",
				  ip_error_message());
		s->blind = true;
		return 0;
	}
	s->blind = false;
	if (first && !found.n)
		return ip_service_none_found(choice);
	while (first && (missing = ip_service_next_missing(choice, &found, &at))) {
		ip_notice("pid %d does not exist (any more)", missing);
		s->failed = true;
	}
	if (first)
		tell_unmatched(choice);
	known = s->members.n;
	ret = ip_service_members_meet(&s->members, &found, first ? now : now + GROWN_NS,
				      now + GROWN_NS);
	for (size_t i = known; !first && i < s->members.n; i++)
		s->members.items[i]->late = true;
	ip_service_processes_clear(&found);
	return ret;
}

static uint64_t left_ns(const struct service *s, uint64_t now)
{
	uint64_t gone = now - s->start_ns;

	if (!s->options->duration_ns)
		return 0;
	/* 0 would mean no limit */
	return gone < s->options->duration_ns ? s->options->duration_ns - gone : 1;
}

struct errand {
	const struct service *service;
	const struct ip_service_options *options;
	struct ip_service_task task;
};

/* In a worker: what this process held for the others. */
static void release_others(const struct service *s, pid_t target)
{
	ip_service_kernel_leave(s->kernel);
	for (size_t i = 0; i < s->members.n; i++)
		if (s->members.items[i]->process.pid != target) {
			ip_service_worker_release(&s->members.items[i]->worker);
			ip_service_worker_release(&s->members.items[i]->restorer);
		}
}

static int work(void *context, pid_t target, int socket, struct ip_service_worker_result *result)
{
	const struct errand *e = context;

	release_others(e->service, target);
	return e->options->work(e->options->context, &e->task, socket, result);
}

static int start(struct service *s, struct ip_service_member *m, uint64_t now)
{
	struct errand e = {
		.service = s,
		.options = s->options,
		.task = {.pid = m->process.pid,
			 .started = m->process.started,
			 .dir = -1,
			 .written = s->written,
			 .left_ns = left_ns(s, now),
			 .n = ip_service_members_count(&s->members, IP_SERVICE_RECORDING) +
			      ip_service_members_count(&s->members, IP_SERVICE_WAITING),
			 .named = m->process.named,
			 .late = m->late,
			 .last = m->process.named || m->tries + 1 >= TRIES,
			 .comm = m->process.comm}};

	if (s->options->dir) {
		if (ip_member_dirs_add(s->dirs, m->process.pid, m->process.comm, m->name) < 0)
			return -1;
		e.task.name = m->name;
		e.task.dir = ip_member_dirs_fd(s->dirs);
	}
	ip_service_worker_clear(&m->worker);
	if (ip_service_kernel_add(s->kernel, &m->process) < 0)
		return -1;
	if (ip_service_worker_start(&m->worker, m->process.pid, work, &e) < 0)
		return -1;
	m->state = IP_SERVICE_RECORDING;
	m->recorded = m->process.identity;
	m->tries++;
	return 0;
}

struct restoring {
	const struct service *service;
	const struct ip_service_member *failed;
};

/* The number of a process that has ended may be another's by now. */
static void restore_one(const struct service *s, const struct ip_service_member *m)
{
	if (ip_proc_started_at(m->process.pid) == m->process.started)
		s->options->restore(s->options->context, m->process.pid);
}

/* The target, and those that its session followed: where their parent has ended they are known to
 * nobody else. */
static void restore_all(const struct service *s, const struct ip_service_member *failed)
{
	restore_one(s, failed);
	for (size_t i = 0; i < s->members.n; i++)
		if (ip_service_member_is_followed_by(s->members.items[i], failed))
			restore_one(s, s->members.items[i]);
}

static int restore(void *context, pid_t target, int socket, struct ip_service_worker_result *result)
{
	const struct restoring *r = context;

	release_others(r->service, target);
	restore_all(r->service, r->failed);
	return 0;
}

/* Step 4. It may take as long as a thread sleeps: so it has a worker. Where none can be started
 * this process does it. */
static void start_restoring(struct service *s, struct ip_service_member *m, uint64_t now)
{
	struct restoring r = {s, m};

	ip_service_worker_clear(&m->restorer);
	if (ip_service_worker_start(&m->restorer, m->process.pid, restore, &r) == 0) {
		m->state = IP_SERVICE_RESTORING;
		return;
	}
	restore_all(s, m);
	ip_service_members_free_followed(&s->members, m, now + GROWN_NS);
}

static void end_restoring(struct service *s, struct ip_service_member *m, uint64_t now)
{
	if (m->restorer.code < 0)
		ip_notice("pid %d: what puts back its sites was killed: iprobe detach %d does it",
			  m->process.pid, m->process.pid);
	ip_service_worker_release(&m->restorer);
	m->state = IP_SERVICE_RECORDED;
	ip_service_members_free_followed(&s->members, m, now + GROWN_NS);
}

static void note_missed(const struct service *s, const struct ip_service_member *m)
{
	if (s->options->missed && ip_service_member_is_missed(&s->members, m))
		ip_process_set_add(s->options->missed, m->process.pid);
}

/* A session lets a child go within milliseconds, mostly; or it does not get hold of the child. */
static uint64_t pause_of_followed(unsigned tries)
{
	if (tries < TRIES)
		return GROWN_NS << tries;
	return tries < TRIES_OFTEN ? GROWN_NS : IDLE_NS;
}

/* A session has ended, or has not begun. */
static int settle(struct service *s, struct ip_service_member *m, uint64_t now)
{
	const struct ip_service_worker *w = &m->worker;
	struct ip_service_worker_result *r = w->result;
	bool served;

	const bool killed = w->code < 0;

	if (killed && !s->options->restore)
		ip_notice("pid %d: its worker was killed: iprobe detach %d puts back what is live",
			  w->target, w->target);
	else if (killed)
		ip_notice("pid %d: its worker was killed: what is live is put back", w->target);
	s->ending |= r->over;
	/* why the session failed is of no interest then */
	if (w->code && r->untold && !m->process.named && s->options->missed &&
	    ip_proc_started_at(m->process.pid) != m->process.started) {
		r->untold = false;
		note_missed(s, m);
	}
	if (s->options->on_end)
		s->options->on_end(s->options->context, w, s->options->dir ? m->name : NULL);
	m->state = r->recorded || killed ? IP_SERVICE_RECORDED : IP_SERVICE_LEFT;
	/* what it executes is not recorded in others */
	if (r->none)
		m->let_go = false;
	if (r->followed && !killed)
		ip_service_member_set_followed(&s->members, m);
	/* a freed one may have been taken for a child of one that was freed with it */
	if (m->state == IP_SERVICE_FOLLOWED &&
	    (ip_service_member_is_let_go(&s->members, m) || (m->freed && m->tries < TRIES))) {
		m->state = IP_SERVICE_WAITING;
		m->again_ns = now + pause_of_followed(m->tries);
	}
	s->failed |= m->state == IP_SERVICE_LEFT && m->process.named && w->code && !r->changed;
	m->execed = r->execed;
	served = r->none || r->changed; /* there is nothing more to do in it */
	ip_service_worker_release(&m->worker);
	if (killed && s->options->restore)
		start_restoring(s, m, now);
	else if ((m->worker.code && m->worker.live) || m->execed)
		ip_service_members_free_followed(&s->members, m, now + GROWN_NS);
	if (m->state == IP_SERVICE_RECORDED || m->state == IP_SERVICE_RESTORING || !s->options->dir)
		return 0;
	/* what is only just being started, or executes another program, may come to be one that
	 * can be recorded */
	if (m->state == IP_SERVICE_LEFT && !m->process.named && !served && m->tries < TRIES) {
		m->state = IP_SERVICE_WAITING;
		m->again_ns = now + (GROWN_NS << m->tries);
	}
	return ip_member_dirs_remove(s->dirs, m->name);
}

/* The clock by which the kernel tells when processes were started. */
static uint64_t since_boot_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int poll_workers(struct service *s)
{
	_cleanup_free_ struct ip_service_worker **workers =
		calloc(s->members.n + 1, sizeof(*workers));
	struct ip_service_worker_progress sum = {0};
	size_t n = 0;

	if (!workers)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->members.n; i++)
		if (s->members.items[i]->state == IP_SERVICE_RECORDING)
			workers[n++] = &s->members.items[i]->worker;
		else if (s->members.items[i]->state == IP_SERVICE_RESTORING)
			workers[n++] = &s->members.items[i]->restorer;
	if (ip_service_workers_poll(workers, n, POLL_MS) < 0)
		return -1;
	s->sum.live = 0;
	s->sum.processes = 0;
	for (size_t i = 0; i < s->members.n; i++) {
		struct ip_service_member *m = s->members.items[i];

		if (m->worker.live && !m->live_ns)
			m->live_ns = since_boot_ns();
		if (m->state == IP_SERVICE_RECORDING && !m->worker.pid &&
		    settle(s, m, ip_now_ns()) < 0)
			return -1;
		if (m->state == IP_SERVICE_RESTORING && !m->restorer.pid)
			end_restoring(s, m, ip_now_ns());
		s->sum.live += m->state == IP_SERVICE_RECORDING && m->worker.live;
		s->sum.processes += m->state == IP_SERVICE_RECORDED ||
				    m->state == IP_SERVICE_RESTORING ||
				    (m->state == IP_SERVICE_RECORDING && m->worker.live);
		sum.events += m->worker.progress.events;
		sum.lost += m->worker.progress.lost;
		sum.written += m->worker.progress.written;
		if (m->state == IP_SERVICE_RECORDING)
			sum.per_second += m->worker.progress.per_second;
	}
	s->sum.progress = sum;
	return 0;
}

static void tell(struct service *s, uint64_t now)
{
	if (!s->options->on_progress || now - s->shown_ns < PROGRESS_NS)
		return;
	s->sum.has_duration = s->options->duration_ns;
	s->sum.left_ns = left_ns(s, now);
	s->options->on_progress(s->options->context, &s->sum);
	s->shown_ns = now;
}

static void stop_all(struct service *s)
{
	for (size_t i = 0; i < s->members.n; i++) {
		struct ip_service_member *m = s->members.items[i];

		if (m->state == IP_SERVICE_RECORDING)
			ip_service_worker_stop(&m->worker);
	}
	s->stopped = true;
}

/* No worker can be started: the others go on. */
static void leave(struct service *s, struct ip_service_member *m)
{
	ip_notice("pid %d is not recorded: %s", m->process.pid, ip_error_message());
	m->state = IP_SERVICE_LEFT;
	s->failed |= m->process.named;
	if (s->options->dir && *m->name)
		ip_member_dirs_remove(s->dirs, m->name);
}

/* Starts those whose time has come. */
static void start_due(struct service *s, uint64_t now)
{
	for (size_t i = 0; i < s->members.n; i++) {
		struct ip_service_member *m = s->members.items[i];

		if (m->state != IP_SERVICE_WAITING || now < m->again_ns)
			continue;
		/* it may have executed a program since it was found */
		if (m->gone || !ip_service_member_refresh(m)) {
			m->state = IP_SERVICE_LEFT;
			note_missed(s, m);
			continue;
		}
		if (!m->freed && ip_service_member_is_followed(&s->members, m)) {
			ip_service_member_set_followed(&s->members, m);
			continue;
		}
		if (start(s, m, now) < 0)
			leave(s, m);
	}
}

/* What was let go a moment ago, and no look finds: it has ended, or is none of the choice's any
 * more, as a grandchild whose parent has ended. */
static void note_not_found(const struct service *s, pid_t pid)
{
	if (ip_proc_has_memory(pid))
		ip_notice("pid %d is not recorded any more: it is no process of the service now",
			  pid);
	else if (s->options->missed)
		ip_process_set_add(s->options->missed, pid);
}

/* Step 3: what a session has let go. */
static int meet_let_go_of(struct service *s, struct ip_service_worker *w, uint64_t now)
{
	for (size_t i = 0; i < w->nlet_go; i++) {
		const pid_t pid = w->let_go[i];

		if (ip_service_members_let_go(&s->members, pid, now + GROWN_NS))
			continue;
		if (look(s, now, false) < 0)
			return -1;
		if (!ip_service_members_let_go(&s->members, pid, now + GROWN_NS) && !s->blind)
			note_not_found(s, pid);
	}
	w->nlet_go = 0;
	return 0;
}

static int meet_let_go(struct service *s, uint64_t now)
{
	/* a look adds members, whose workers have said nothing yet */
	for (size_t i = 0; i < s->members.n; i++)
		if (meet_let_go_of(s, &s->members.items[i]->worker, now) < 0)
			return -1;
	return 0;
}

/* Whether the recording's time was over that long ago. */
static bool is_late(const struct service *s, uint64_t now, uint64_t ago_ns)
{
	return s->options->duration_ns && now - s->start_ns >= s->options->duration_ns + ago_ns;
}

/* Step 5: whether the end has come, workers that are left apart. */
static bool is_over(struct service *s, uint64_t now)
{
	bool any = ip_service_members_count(&s->members, IP_SERVICE_RESTORING);

	if (s->ending || ip_interrupted || is_late(s, now, 0))
		return true;
	for (size_t i = 0; i < s->members.n; i++)
		any |= s->members.items[i]->state == IP_SERVICE_RECORDING ||
		       s->members.items[i]->state == IP_SERVICE_WAITING;
	if (any)
		s->absent_ns = 0;
	else if (!s->absent_ns)
		s->absent_ns = now;
	return !any && (!ip_service_choice_is_open(&s->options->choice) || !s->sum.processes ||
			now - s->absent_ns > ABSENT_NS);
}

static int step(struct service *s)
{
	uint64_t now;

	if (poll_workers(s) < 0)
		return -1;
	if (ip_service_kernel_step(s->kernel) < 0) {
		/* the summary tells that the disk is full */
		if (!ip_service_kernel_no_space(s->kernel))
			ip_notice("%s", ip_error_message());
		s->ending = s->sum.kernel_failed = true;
	}
	now = ip_now_ns();
	tell(s, now);
	/* at the end, too: what is let go then is told */
	if (meet_let_go(s, now) < 0)
		return -1;
	if (is_over(s, now)) {
		/* sessions know by themselves when their time is over: what they took to begin
		 * comes on top */
		if (!s->stopped && (s->ending || ip_interrupted || !s->options->duration_ns ||
				    is_late(s, now, LATE_NS)))
			stop_all(s);
		return ip_service_members_count(&s->members, IP_SERVICE_RECORDING) +
				       ip_service_members_count(&s->members, IP_SERVICE_RESTORING)
			       ? 1
			       : 0;
	}
	if (ip_service_choice_is_open(&s->options->choice) && now >= s->look_ns &&
	    (ip_proc_last_pid() != s->last_pid || now >= s->idle_ns)) {
		const uint64_t began = ip_thread_cpu_ns();

		if (look(s, now, false) < 0)
			return -1;
		s->idle_ns = now + IDLE_NS;
		s->look_ns = now + LOOK_NS + LOOK_SHARE * (ip_thread_cpu_ns() - began);
	}
	start_due(s, now);
	return 1;
}

/* Whether another member before this one is of the same program. */
static bool is_checked(const struct service *s, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (s->members.items[i]->process.identity == s->members.items[at]->process.identity)
			return true;
	return false;
}

/* Step 1: of several programs one may have what another lacks; then the workers of those that lack
 * it tell that. */
static int check(const struct service *s)
{
	const struct ip_service_options *o = s->options;
	_cleanup_free_ char *why = NULL;
	unsigned checked = 0;

	for (size_t i = 0; o->check && i < s->members.n; i++) {
		int ret;

		if (is_checked(s, i))
			continue;
		if (checked++ == CHECKS)
			return 0; /* the next program might have it */
		ret = o->check(o->context, &s->members.items[i]->process);
		if (ret == 0)
			return 0;
		if (ret < 0 && !why)
			why = strdup(ip_error_message());
	}
	return why ? ip_error("%s", why) : 0;
}

/* Whose events are read by another process. It is asked for one process after the other: some may
 * be other users'. */
static int open_reader(const struct service *s, int *ret)
{
	const struct ip_service_options *o = s->options;
	_cleanup_free_ char *why = NULL;

	for (size_t i = 0; o->open_reader && i < s->members.n && i < CHECKS; i++) {
		if (o->open_reader(o->context, s->members.items[i]->process.pid, ret) == 0)
			return 0;
		if (!why)
			why = strdup(ip_error_message());
	}
	return why ? ip_error("%s", why) : 0;
}

static int begin_kernel(struct service *s)
{
	const struct ip_service_options *o = s->options;
	struct ip_kernel_options kernel;

	if (!o->kernel || !o->kernel->groups)
		return 0;
	kernel = *o->kernel;
	if (open_reader(s, &kernel.reader) < 0)
		return kernel.optional ? ip_kernel_go_without(&s->sum.kernel) : -1;
	return ip_service_kernel_begin(&kernel, &o->kernel_quota, s->dirs, s->written,
				       &s->sum.kernel, &s->kernel);
}

static int record(struct service *s)
{
	const struct ip_service_options *o = s->options;
	_cleanup_free_ char *text = ip_service_choice_text(&o->choice);
	int ret;

	s->start_ns = ip_now_ns();
	if (!text)
		return ip_error("out of memory");
	if (look(s, s->start_ns, true) < 0 || check(s) < 0)
		return -1;
	if (o->dir && ip_member_dirs_create(o->dir, text, &s->dirs) < 0)
		return -1;
	if (begin_kernel(s) < 0)
		return -1;
	start_due(s, s->start_ns);
	while ((ret = step(s)) > 0)
		;
	return ret;
}

/* Those that their parent's session has let go, and that never had one of their own. Why one could
 * not be begun is told already. */
static void tell_let_go(struct service *s)
{
	for (size_t i = 0; i < s->members.n; i++) {
		struct ip_service_member *m = s->members.items[i];

		if (!m->let_go || m->live_ns)
			continue;
		if (!ip_service_member_refresh(m))
			note_missed(s, m);
		else if (m->let_go &&
			 (m->state == IP_SERVICE_WAITING || m->state == IP_SERVICE_FOLLOWED))
			ip_notice("pid %d: its own session had not begun when the recording ended: "
				  "what it did last is not recorded",
				  m->process.pid);
	}
}

/* Why the recording has failed is told already, where it has. */
static void end_kernel(struct service *s, bool failed)
{
	_cleanup_free_ char *why = failed ? strdup(ip_error_message()) : NULL;

	if (ip_service_kernel_end(s->kernel, &s->sum.kernel) < 0) {
		if (!s->sum.kernel.no_space)
			ip_notice("%s", ip_error_message());
		s->sum.kernel_failed = true;
	}
	s->kernel = NULL;
	if (failed)
		ip_error("%s", why ? why : "out of memory");
}

int ip_service_record(const struct ip_service_options *options, struct ip_service_sum *ret)
{
	struct service s = {.options = options};
	int done;

	*ret = (struct ip_service_sum){0};
	s.written = mmap(NULL, sizeof(*s.written), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s.written == MAP_FAILED)
		return ip_error("out of memory");
	done = record(&s);

	/* after an error sessions still have to end properly */
	if (done < 0) {
		_cleanup_free_ char *why = strdup(ip_error_message());

		stop_all(&s);
		while (ip_service_members_count(&s.members, IP_SERVICE_RECORDING) +
		       ip_service_members_count(&s.members, IP_SERVICE_RESTORING))
			if (poll_workers(&s) < 0)
				break;
		meet_let_go(&s, ip_now_ns());
		ip_error("%s", why ? why : "out of memory");
	}
	tell_let_go(&s);
	end_kernel(&s, done < 0);
	if (done == 0 && (s.failed || (s.sum.kernel_failed && !s.sum.kernel.no_space)))
		done = 1;
	*ret = s.sum;
	ip_service_members_clear(&s.members);
	ip_member_dirs_close(s.dirs);
	munmap(s.written, sizeof(*s.written));
	return done;
}

uint64_t ip_service_memory(uint64_t memory, size_t n)
{
	uint64_t least = memory < MEMORY_LEAST ? memory : MEMORY_LEAST;

	if (n <= MEMORY_WHOLE)
		return memory;
	memory = memory * MEMORY_WHOLE / n;
	return memory > least ? memory : least;
}
