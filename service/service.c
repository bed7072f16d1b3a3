/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records a service. service.h describes the steps; the comments here name them.
 */
#include "service/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/notice.h"
#include "common/now.h"
#include "common/proc.h"
#include "trace_writer/member_dirs.h"

#define POLL_MS	    20
#define LOOK_NS	    20000000ull /* between looks for processes, at least */
#define LOOK_SHARE  20		/* one part in so many of our time goes to looks */
#define IDLE_NS	    1000000000ull
#define GROWN_NS    20000000ull /* how long a process has lived when its session begins */
#define TRIES	    3
#define ABSENT_NS   2000000000ull
#define LATE_NS	    2000000000ull /* beyond its time a session is told to end */
#define PROGRESS_NS 250000000ull
#define TICK_NS	    10000000ull /* of the times at which processes were started */

#define MEMORY_WHOLE 4		  /* so many processes have the default ring memory each; */
#define MEMORY_LEAST (8ull << 20) /* more of them share as much, down to this */

enum state {
	WAITING, /* for its time */
	RECORDING,
	RESTORING, /* its worker was killed: another one puts back what is live */
	RECORDED,
	LEFT, /* there is nothing to record, or it cannot be recorded */
	FOLLOWED,
};

struct member {
	struct ip_service_process process;
	enum state state;
	uint64_t found_ns, again_ns;
	unsigned tries;
	bool gone;
	char name[IP_TRACE_MEMBER_NAME];
	struct ip_service_worker worker, restorer;
	const struct member *follower; /* FOLLOWED: whose session records it; NULL: not known */
	bool freed; /* the session that followed it has failed: it gets its own */
	uint64_t
		recorded; /* its identity when its session was begun, or was found to be followed */
	bool execed;	  /* its session has ended, since it executes another program */
	uint64_t live_ns; /* when its session went live, since boot; 0: it has not */
};

struct service {
	const struct ip_service_options *options;
	struct ip_member_dirs *dirs;
	struct member **members;
	size_t n;
	uint64_t start_ns, look_ns, idle_ns, shown_ns, absent_ns;
	long last_pid;
	bool ending, stopped; /* stopped: the workers have been told */
	bool failed;	      /* a process that was named by its pid could not be recorded */
	struct ip_service_sum sum;
};

static struct member *find(const struct service *s, const struct ip_service_process *p)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->members[i]->process.pid == p->pid &&
		    s->members[i]->process.started == p->started)
			return s->members[i];
	return NULL;
}

static int meet(struct service *s, const struct ip_service_process *p, uint64_t now, bool first)
{
	struct member *m;

	if (ip_array_grow(&s->members, s->n, sizeof(*s->members)) < 0)
		return -1;
	m = calloc(1, sizeof(*m));
	if (!m)
		return ip_error("out of memory");
	m->process = *p;
	m->found_ns = now;
	m->again_ns = first ? now : now + GROWN_NS;
	m->worker = m->restorer = (struct ip_service_worker){.socket = -1, .out = -1};
	s->members[s->n++] = m;
	return 0;
}

/* Step 2: another program, or other users: what was found out before does not hold any more. */
static void meet_anew(struct member *m, const struct ip_service_process *p, uint64_t now)
{
	const bool changed = p->identity != m->process.identity;

	m->process = *p;
	m->gone = false;
	if (!changed ||
	    !(m->state == LEFT || m->state == FOLLOWED || (m->state == RECORDED && m->execed)))
		return;
	m->state = WAITING;
	m->tries = 0;
	m->again_ns = now + GROWN_NS;
}

/* Looks for processes. first: they are recorded at once. */
static int look(struct service *s, uint64_t now, bool first)
{
	struct ip_service_processes found;
	int ret = 0;

	s->last_pid = ip_proc_last_pid();
	if (ip_service_processes_find(&s->options->choice, &found) < 0)
		return -1;
	for (size_t i = 0; i < s->n; i++)
		s->members[i]->gone = true;
	for (size_t i = 0; i < found.n && ret == 0; i++) {
		struct member *m = find(s, &found.items[i]);

		if (m)
			meet_anew(m, &found.items[i], now);
		else
			ret = meet(s, &found.items[i], now, first);
	}
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

static size_t count(const struct service *s, enum state state)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += s->members[i]->state == state;
	return n;
}

struct errand {
	const struct service *service;
	const struct ip_service_options *options;
	struct ip_service_task task;
};

/* In a worker: what this process held for the others. */
static void release_others(const struct service *s, pid_t target)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->members[i]->process.pid != target) {
			ip_service_worker_release(&s->members[i]->worker);
			ip_service_worker_release(&s->members[i]->restorer);
		}
}

static int work(void *context, pid_t target, int socket, struct ip_service_worker_result *result)
{
	const struct errand *e = context;

	release_others(e->service, target);
	return e->options->work(e->options->context, &e->task, socket, result);
}

/* Whose session records what the member forks; NULL: nobody's. */
static const struct member *recorder(const struct member *m)
{
	if (m->state == FOLLOWED)
		return m->follower;
	return m->state == RECORDING ? m : NULL;
}

static const struct member *find_parent(const struct service *s, const struct member *m)
{
	for (size_t i = 0; i < s->n; i++)
		if (!s->members[i]->gone && s->members[i]->process.pid == m->process.parent)
			return s->members[i];
	return NULL;
}

static void set_followed(const struct service *s, struct member *m)
{
	const struct member *parent = find_parent(s, m);

	m->state = FOLLOWED;
	m->recorded = m->process.identity;
	m->follower = parent ? recorder(parent) : NULL;
}

/* Step 3: whether a session has recorded the child since its fork: it is what its parent is, and
 * was forked after its parent's session had gone live. Of others a worker finds it out. */
static bool is_followed(const struct service *s, const struct member *m)
{
	for (size_t i = 0; s->options->follows && i < s->n; i++) {
		const struct member *p = s->members[i];

		/* the parent may have executed another program since its session began */
		if (p->gone || p->process.pid != m->process.parent ||
		    p->recorded != m->process.identity)
			continue;
		return p->state == FOLLOWED ||
		       (p->state == RECORDING && p->live_ns && p->worker.follows &&
			m->process.started * TICK_NS > p->live_ns + TICK_NS);
	}
	return false;
}

static int start(struct service *s, struct member *m, uint64_t now)
{
	struct errand e = {.service = s,
			   .options = s->options,
			   .task = {.pid = m->process.pid,
				    .started = m->process.started,
				    .dir = -1,
				    .left_ns = left_ns(s, now),
				    .n = count(s, RECORDING) + count(s, WAITING),
				    .named = m->process.named,
				    .last = m->process.named || m->tries + 1 >= TRIES,
				    .comm = m->process.comm}};

	if (s->options->dir) {
		if (ip_member_dirs_add(s->dirs, m->process.pid, m->process.comm, m->name) < 0)
			return -1;
		e.task.name = m->name;
		e.task.dir = ip_member_dirs_fd(s->dirs);
	}
	ip_service_worker_clear(&m->worker);
	if (ip_service_worker_start(&m->worker, m->process.pid, work, &e) < 0)
		return -1;
	m->state = RECORDING;
	m->recorded = m->process.identity;
	m->tries++;
	return 0;
}

/* Where it is not known who follows the process, it may be this one. */
static bool is_followed_by(const struct member *m, const struct member *by)
{
	return m->state == FOLLOWED && (!m->follower || m->follower == by);
}

/* Whether the session that follows the child will let it go: the child has become another user, and
 * that session has not seen it yet. */
static bool is_let_go(const struct service *s, const struct member *m)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct member *p = s->members[i];

		if (!p->gone && p->process.pid == m->process.parent)
			return p->process.identity != m->process.identity;
	}
	return false;
}

/* The session that has followed forks has failed: who lives of those that it followed is recorded
 * by a session of its own. */
static void free_followed(struct service *s, const struct member *failed, uint64_t now)
{
	for (size_t i = 0; i < s->n; i++) {
		struct member *m = s->members[i];

		if (!is_followed_by(m, failed))
			continue;
		m->state = WAITING;
		m->follower = NULL;
		m->freed = true;
		m->tries = 0;
		m->again_ns = now + GROWN_NS;
	}
}

struct restoring {
	const struct service *service;
	const struct member *failed;
};

/* The number of a process that has ended may be another's by now. */
static void restore_one(const struct service *s, const struct member *m)
{
	if (ip_proc_started_at(m->process.pid) == m->process.started)
		s->options->restore(s->options->context, m->process.pid);
}

static int restore(void *context, pid_t target, int socket, struct ip_service_worker_result *result)
{
	const struct restoring *r = context;
	const struct service *s = r->service;

	release_others(s, target);
	restore_one(s, r->failed);
	/* those whose parent has ended are known to nobody else */
	for (size_t i = 0; i < s->n; i++)
		if (is_followed_by(s->members[i], r->failed))
			restore_one(s, s->members[i]);
	return 0;
}

/* Step 4. It may take as long as a thread sleeps: so it has a worker. Where none can be started
 * this process does it. */
static void start_restoring(struct service *s, struct member *m, uint64_t now)
{
	struct restoring r = {s, m};

	ip_service_worker_clear(&m->restorer);
	if (ip_service_worker_start(&m->restorer, m->process.pid, restore, &r) == 0) {
		m->state = RESTORING;
		return;
	}
	restore_one(s, m);
	for (size_t i = 0; i < s->n; i++)
		if (is_followed_by(s->members[i], m))
			restore_one(s, s->members[i]);
	free_followed(s, m, now);
}

static void end_restoring(struct service *s, struct member *m, uint64_t now)
{
	if (m->restorer.code < 0)
		ip_notice("pid %d: what puts back its sites was killed: iprobe detach %d does it",
			  m->process.pid, m->process.pid);
	ip_service_worker_release(&m->restorer);
	m->state = RECORDED;
	free_followed(s, m, now);
}

/* A session has ended, or has not begun. */
static int settle(struct service *s, struct member *m, uint64_t now)
{
	const struct ip_service_worker *w = &m->worker;
	const struct ip_service_worker_result *r = w->result;
	bool none;

	const bool killed = w->code < 0;

	if (killed && !s->options->restore)
		ip_notice("pid %d: its worker was killed: iprobe detach %d puts back what is live",
			  w->target, w->target);
	else if (killed)
		ip_notice("pid %d: its worker was killed: what is live is put back", w->target);
	s->ending |= r->over;
	if (s->options->on_end)
		s->options->on_end(s->options->context, w, s->options->dir ? m->name : NULL);
	m->state = r->recorded || killed ? RECORDED : LEFT;
	if (r->followed && !killed)
		set_followed(s, m);
	/* a freed one may have been taken for a child of one that was freed with it */
	if (m->state == FOLLOWED && (is_let_go(s, m) || (m->freed && m->tries < TRIES))) {
		m->state = WAITING;
		m->again_ns = now + (GROWN_NS << (m->tries < TRIES ? m->tries : 0));
	}
	s->failed |= m->state == LEFT && m->process.named && w->code && !r->changed;
	m->execed = r->execed;
	none = r->none;
	ip_service_worker_release(&m->worker);
	if (killed && s->options->restore)
		start_restoring(s, m, now);
	else if ((m->worker.code && m->worker.live) || m->execed)
		free_followed(s, m, now);
	if (m->state == RECORDED || m->state == RESTORING || !s->options->dir)
		return 0;
	/* what is only just being started, or executes another program, may come to be one that
	 * can be recorded */
	if (m->state == LEFT && !m->process.named && !none && m->tries < TRIES) {
		m->state = WAITING;
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
	_cleanup_free_ struct ip_service_worker **workers = calloc(s->n + 1, sizeof(*workers));
	struct ip_service_worker_progress sum = {0};
	size_t n = 0;

	if (!workers)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->n; i++)
		if (s->members[i]->state == RECORDING)
			workers[n++] = &s->members[i]->worker;
		else if (s->members[i]->state == RESTORING)
			workers[n++] = &s->members[i]->restorer;
	if (ip_service_workers_poll(workers, n, POLL_MS) < 0)
		return -1;
	s->sum.live = 0;
	s->sum.processes = 0;
	for (size_t i = 0; i < s->n; i++) {
		struct member *m = s->members[i];

		if (m->worker.live && !m->live_ns)
			m->live_ns = since_boot_ns();
		if (m->state == RECORDING && !m->worker.pid && settle(s, m, ip_now_ns()) < 0)
			return -1;
		if (m->state == RESTORING && !m->restorer.pid)
			end_restoring(s, m, ip_now_ns());
		s->sum.live += m->state == RECORDING && m->worker.live;
		s->sum.processes += m->state == RECORDED || m->state == RESTORING ||
				    (m->state == RECORDING && m->worker.live);
		sum.events += m->worker.progress.events;
		sum.lost += m->worker.progress.lost;
		sum.written += m->worker.progress.written;
		if (m->state == RECORDING)
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
	for (size_t i = 0; i < s->n; i++) {
		struct member *m = s->members[i];

		if (m->state == RECORDING)
			ip_service_worker_stop(&m->worker);
		if (m->state == WAITING)
			m->state = LEFT;
	}
	s->stopped = true;
}

/* No worker can be started: the others go on. */
static void leave(struct service *s, struct member *m)
{
	ip_notice("pid %d is not recorded: %s", m->process.pid, ip_error_message());
	m->state = LEFT;
	s->failed |= m->process.named;
	if (s->options->dir && *m->name)
		ip_member_dirs_remove(s->dirs, m->name);
}

/* Starts those whose time has come. */
static void start_due(struct service *s, uint64_t now)
{
	for (size_t i = 0; i < s->n; i++) {
		struct member *m = s->members[i];

		if (m->state != WAITING || now < m->again_ns)
			continue;
		if (m->gone) {
			m->state = LEFT;
			continue;
		}
		if (!m->freed && is_followed(s, m)) {
			set_followed(s, m);
			continue;
		}
		if (start(s, m, now) < 0)
			leave(s, m);
	}
}

/* Whether the recording's time was over that long ago. */
static bool is_late(const struct service *s, uint64_t now, uint64_t ago_ns)
{
	return s->options->duration_ns && now - s->start_ns >= s->options->duration_ns + ago_ns;
}

/* Step 5: whether the end has come, workers that are left apart. */
static bool is_over(struct service *s, uint64_t now)
{
	bool any = count(s, RESTORING);

	if (s->ending || ip_interrupted || is_late(s, now, 0))
		return true;
	for (size_t i = 0; i < s->n; i++)
		any |= s->members[i]->state == RECORDING || s->members[i]->state == WAITING;
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
	now = ip_now_ns();
	tell(s, now);
	if (is_over(s, now)) {
		/* sessions know by themselves when their time is over: what they took to begin
		 * comes on top */
		if (!s->stopped && (s->ending || ip_interrupted || !s->options->duration_ns ||
				    is_late(s, now, LATE_NS)))
			stop_all(s);
		return count(s, RECORDING) + count(s, RESTORING) ? 1 : 0;
	}
	if (ip_service_choice_is_open(&s->options->choice) && now >= s->look_ns &&
	    (ip_proc_last_pid() != s->last_pid || now >= s->idle_ns)) {
		if (look(s, now, false) < 0)
			return -1;
		s->idle_ns = now + IDLE_NS;
		s->look_ns = now + LOOK_NS + LOOK_SHARE * (ip_now_ns() - now);
	}
	start_due(s, now);
	return 1;
}

static int none_found(const struct ip_service_options *o)
{
	_cleanup_free_ char *text = ip_service_choice_text(&o->choice);

	if (o->choice.npids && !o->choice.nnames && !o->choice.nunits && !o->choice.ncgroups)
		return ip_error(o->choice.npids == 1 ? "pid %d does not exist (any more)"
						     : "none of these processes exists (any more): "
						       "the first was pid %d",
				o->choice.pids[0]);
	return ip_error("no process matches %s: iprobe status lists those with iprobe's runtime, "
			"ps -A all",
			text ? text : "this");
}

/* Processes that are named by pid and do not exist. */
static void tell_missing(struct service *s)
{
	const struct ip_service_choice *c = &s->options->choice;

	for (size_t i = 0; i < c->npids; i++) {
		bool there = false;

		for (size_t k = 0; k < s->n; k++)
			there |= s->members[k]->process.pid == c->pids[i];
		if (there)
			continue;
		ip_notice("pid %d does not exist (any more)", c->pids[i]);
		s->failed = true;
	}
}

static int record(struct service *s)
{
	const struct ip_service_options *o = s->options;
	_cleanup_free_ char *text = ip_service_choice_text(&o->choice);
	int ret;

	s->start_ns = ip_now_ns();
	if (!text)
		return ip_error("out of memory");
	if (look(s, s->start_ns, true) < 0)
		return -1;
	if (!s->n)
		return none_found(o);
	tell_missing(s);
	if (o->dir && ip_member_dirs_create(o->dir, text, &s->dirs) < 0)
		return -1;
	start_due(s, s->start_ns);
	while ((ret = step(s)) > 0)
		;
	return ret;
}

int ip_service_record(const struct ip_service_options *options, struct ip_service_sum *ret)
{
	struct service s = {.options = options};
	int done = record(&s);

	/* after an error sessions still have to end properly */
	if (done < 0) {
		_cleanup_free_ char *why = strdup(ip_error_message());

		stop_all(&s);
		while (count(&s, RECORDING) + count(&s, RESTORING))
			if (poll_workers(&s) < 0)
				break;
		ip_error("%s", why ? why : "out of memory");
	}
	if (done == 0 && s.failed)
		done = 1;
	*ret = s.sum;
	for (size_t i = 0; i < s.n; i++) {
		ip_service_worker_clear(&s.members[i]->worker);
		ip_service_worker_clear(&s.members[i]->restorer);
		free(s.members[i]);
	}
	free(s.members);
	ip_member_dirs_close(s.dirs);
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
