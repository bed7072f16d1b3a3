/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records events of the kernel: begin and end, and what is asked meanwhile.
 */
#include "kernel_trace/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tracefs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/file.h"
#include "common/notice.h"
#include "common/now.h"
#include "common/trace/kernel_format.h"
#include "common/trace/kernel_metadata.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/kernel_probes.h"
#include "kernel_trace/recorder_private.h"
#include "kernel_trace/users/worker_recorder.h"

#define JOIN_NS 5000000000ull

/* Each stream tells where the gap ends: all of them at one time, before anything is recorded. */
static int end_gap(struct ip_kernel_recorder *r)
{
	const uint64_t now = ip_clock_now();

	for (size_t i = 0; i < r->nbuffers; i++)
		if (ip_kernel_stream_begin(&r->buffers[i].stream, now) < 0)
			return -1;
	return 0;
}

int ip_kernel_go_without(struct ip_kernel_stats *stats)
{
	snprintf(stats->missing, sizeof(stats->missing), "%s", ip_error_message());
	ip_notice("recording goes on without events of the kernel: %s", stats->missing);
	return 0;
}

int ip_kernel_recorder_start(struct ip_kernel_recorder *r)
{
	sigset_t all, before;
	int error;

	if (r->worker)
		return ip_worker_recorder_start(r->worker);
	if (r->resumes && !r->segments.kept && end_gap(r) < 0)
		return -1;
	if (r->needed[IP_RECORD_ALL] && r->source->ops->switch_on(r->source, IP_RECORD_ALL) < 0)
		return -1;
	/* Signals are for the session's thread: they interrupt its system calls. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&r->thread, NULL, ip_kernel_recorder_run, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		errno = error;
		return ip_error_errno("cannot make the thread that reads kernel events");
	}
	r->runs = true;
	return 0;
}

/* Waits until the thread has answered. Called with the lock. Returns 0, or -1 with an error: it has
 * not for too long. */
static int wait_answered(struct ip_kernel_recorder *r)
{
	const uint64_t until = ip_now_ns() + JOIN_NS;
	const struct timespec limit = {until / 1000000000, until % 1000000000};
	const pid_t pid = r->request.pid;
	int ret = 0;

	while (!r->request.done && !r->why && !ret)
		ret = r->request.what == JOIN
			      ? pthread_cond_timedwait(&r->answered, &r->lock, &limit)
			      : pthread_cond_wait(&r->answered, &r->lock);
	if (r->request.done || r->why)
		return 0;
	if (r->request.taken)
		r->request.left = true;
	else
		r->request = (struct request){0};
	return ip_error("pid %d: events of the kernel cannot be had of it: what /proc tells of it "
			"has not come within %llu s",
			pid, JOIN_NS / 1000000000);
}

int ip_kernel_recorder_ask(struct ip_kernel_recorder *r, enum asked what, pid_t pid)
{
	const uint64_t one = 1;
	int result = -1;

	pthread_mutex_lock(&r->lock);
	if (r->request.what != NOTHING) { /* one that was let go */
		result = ip_error("pid %d: events of the kernel cannot be had of it, since pid %d "
				  "does not let itself be looked at",
				  what == JOIN ? pid : r->request.pid, r->request.pid);
		pthread_mutex_unlock(&r->lock);
		return result;
	}
	r->request = (struct request){.what = what, .pid = pid};
	(void)!write(r->wake, &one, sizeof(one));
	if (wait_answered(r) == 0) {
		result = r->request.done ? r->request.result : -1;
		if (result < 0)
			ip_error("%s", r->request.why ? r->request.why
				       : r->why	      ? r->why
						      : "out of memory");
		free(r->request.why);
		r->request = (struct request){0};
	}
	pthread_mutex_unlock(&r->lock);
	return result;
}

int ip_kernel_recorder_add(struct ip_kernel_recorder *r, pid_t pid)
{
	return r->worker ? ip_worker_recorder_add(r->worker, pid)
			 : ip_kernel_recorder_ask(r, JOIN, pid);
}

int ip_kernel_recorder_tell_now(struct ip_kernel_recorder *r)
{
	return ip_kernel_recorder_ask(r, WRITE_OUT, 0);
}

int ip_kernel_recorder_stats(struct ip_kernel_recorder *r, struct ip_kernel_stats *ret)
{
	int failed;

	if (r->worker)
		return ip_worker_recorder_stats(r->worker, ret);
	pthread_mutex_lock(&r->lock);
	*ret = r->stats;
	failed = r->why ? ip_error("kernel events: %s", r->why) : 0;
	ret->no_space = r->why &&
			(r->why_errno == ENOSPC || r->why_errno == EDQUOT || r->why_errno == EFBIG);
	pthread_mutex_unlock(&r->lock);
	return failed;
}

static void join(struct ip_kernel_recorder *r)
{
	const uint64_t one = 1;

	if (!r->runs)
		return;
	__atomic_store_n(&r->stop, true, __ATOMIC_RELEASE);
	(void)!write(r->wake, &one, sizeof(one));
	pthread_join(r->thread, NULL);
	r->runs = false;
}

/* The rest of the events. The source is off: there is an end of them. */
static int finish(struct ip_kernel_recorder *r)
{
	const uint64_t now = ip_clock_now();
	int more;

	if (ip_kernel_recorder_drain_paths(r) < 0)
		return -1;
	do
		more = ip_kernel_recorder_drain(r);
	while (more > 0);
	if (more < 0)
		return -1;
	for (size_t i = 0; i < r->nbuffers; i++) {
		struct buffer *b = &r->buffers[i];

		if (ip_kernel_stream_lost(&b->stream,
					  r->source->ops->lost(r->source, b->part, b->cpu)) < 0 ||
		    ip_kernel_stream_finish(&b->stream, now) < 0)
			return -1;
	}
	if (ip_recorded_segments_write(&r->segments, r->trace) < 0)
		return -1;
	ip_kernel_recorder_count(r);
	return ip_kernel_recorder_tell(r, now);
}

/* The source, and what we have in tracefs. A probe can be removed when no instance has it any more.
 */
static void remove_own(struct ip_kernel_recorder *r)
{
	ip_path_ring_destroy(ip_steal_ptr(r->paths));
	if (r->source)
		r->source->ops->destroy(r->source);
	r->source = NULL;
	if (!r->probes)
		return;
	/* readers need the names until the last metadata is written */
	r->functions = r->probes->functions;
	r->probes->functions = (struct ip_kernel_functions){0};
	ip_kernel_probes_remove(ip_steal_ptr(r->probes));
}

int ip_kernel_recorder_stop(struct ip_kernel_recorder *r)
{
	struct ip_kernel_stats stats;
	int ret;

	if (r->worker)
		return ip_worker_recorder_stop(r->worker);
	/* From here on nothing is said of descriptors: what closes them is not recorded any more.
	 */
	join(r);
	ret = r->source->ops->switch_off(r->source);
	if (ret == 0)
		ret = ip_kernel_recorder_stats(r, &stats);
	if (ret == 0)
		ret = finish(r);
	if (ret < 0) /* what was gathered until then is kept */
		ip_kernel_recorder_flush(r);
	if (r->probes)
		r->stats.missed = ip_kernel_probes_missed(r->probes);
	remove_own(r);
	ip_tracefs_close(&r->tracefs);
	return ret;
}

int ip_kernel_recorder_describe_in(const struct ip_kernel_recorder *r, int dir,
				   struct ip_ctf_metadata *m)
{
	_cleanup_fclose_ FILE *out = NULL;
	int fd;

	memcpy(m->uuid, r->uuid, sizeof(m->uuid));
	unlinkat(dir, "metadata.new", 0);
	fd = ip_file_make(dir, "metadata.new", O_WRONLY);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out && fd >= 0)
		close(fd);
	if (!out)
		return ip_error_errno("cannot make %s/metadata", IP_KERNEL_SUBDIR);
	if (ip_kernel_metadata_write(out, m, r->probes ? &r->probes->functions : &r->functions) < 0)
		return -1;
	if (fflush(out) || renameat(dir, "metadata.new", dir, "metadata") < 0)
		return ip_error_errno("cannot write %s/metadata", IP_KERNEL_SUBDIR);
	return 0;
}

int ip_kernel_recorder_describe(const struct ip_kernel_recorder *r, struct ip_ctf_metadata *m)
{
	return ip_kernel_recorder_describe_in(r, r->dir, m);
}

void ip_kernel_recorder_destroy(struct ip_kernel_recorder *r)
{
	if (!r)
		return;
	ip_worker_recorder_destroy(r->worker);
	join(r);
	for (size_t i = 0; i < r->nbuffers; i++)
		ip_kernel_stream_clear(&r->buffers[i].stream);
	ip_kernel_stream_clear(&r->state);
	ip_descriptor_log_close(r->descriptors);
	ip_recorded_segments_clear(&r->segments);
	free(r->targets);
	remove_own(r);
	ip_kernel_functions_clear(&r->functions);
	ip_event_layout_free(r->layout);
	ip_tracefs_close(&r->tracefs);
	if (r->dir >= 0)
		close(r->dir);
	if (r->wake >= 0)
		close(r->wake);
	pthread_cond_destroy(&r->answered);
	pthread_mutex_destroy(&r->lock);
	free(r->buffers);
	free(r->polls);
	free(r->why);
	free(r);
}

void ip_kernel_recorder_leave(const struct ip_kernel_recorder *r)
{
	if (r && r->worker)
		ip_worker_recorder_leave(r->worker);
	if (r && r->source)
		r->source->ops->leave(r->source);
	if (r)
		ip_path_ring_leave(r->paths);
	if (r && r->tracefs.fd >= 0)
		close(r->tracefs.fd);
	tracefs_set_tracing_dir(NULL);
}
