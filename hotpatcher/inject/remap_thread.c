/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrows a thread that waits in a system call, to change mappings.
 */
#include "hotpatcher/inject/remap_thread.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <time.h>

#include "common/error.h"
#include "hotpatcher/arch/x86_64/borrow.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/own_code.h"
#include "hotpatcher/ptrace/stops.h"

#define RUN_NS	    10000000000ull
#define NAP_NS	    2000000l
#define STACK_BYTES 65536ull /* arch/ARCH/remap.S */

#define BLOCK(target, member) ((target)->anchor.remap_block + offsetof(struct ip_remap, member))

static struct ip_borrow_place place_of(const struct ip_target *target)
{
	const struct ip_rt_anchor *a = &target->anchor;

	return (struct ip_borrow_place){.code = a->remap,
					.end = a->remap_end,
					.block = a->remap_block,
					.size = sizeof(struct ip_remap),
					.stack = STACK_BYTES,
					.tid_at = BLOCK(target, back.tid)};
}

int ip_remap_thread_check(const struct ip_target *target)
{
	const struct ip_borrow_place place = place_of(target);

	if (!target->has_runtime || !target->anchor.gate || !target->anchor.remap)
		return ip_error("pid %d: its runtime cannot change mappings, which takes a 64-bit "
				"program and a runtime that is awake",
				target->pid);
	if (!ip_borrow_is_sound(target, &place))
		return ip_error("pid %d: its runtime is damaged", target->pid);
	if (ip_own_code_check(target, place.code) < 0 ||
	    ip_own_code_check_place(target, &place) < 0)
		return -1;
	if (ip_proc_status(target->pid, "Seccomp") > 0)
		return ip_error("pid %d is under seccomp, whose filter might kill the thread that "
				"iprobe would borrow",
				target->pid);
	return ip_borrow_check(target->pid);
}

/* Finds a thread to borrow and stops it. 0, or -1 with the reason. */
static int find_thread(struct ip_target *target, enum ip_borrow_which (*which)(uint64_t ns),
		       uint64_t find_ns, struct ip_borrowed *b)
{
	const struct ip_borrow_search search = {
		.place = place_of(target), .which = which, .limit_ns = find_ns};
	int got = ip_borrow_search(target, &search, b);

	if (got == 0)
		return ip_error(
			"pid %d: none of its threads waits in a system call that can be broken "
			"off, so none can be borrowed: try again when one waits",
			target->pid);
	return got < 0 ? -1 : 0;
}

/*
 * A thread that holds the locks of the mappings must not wait for a CPU, since threads that fault
 * wait for it. So the borrowed thread gets real-time priority while it runs our code, where we may
 * give it, and so do we. The thread goes back to its own policy by itself (runtime/remap.c),
 * whatever becomes of us. So it is raised last, when it is on its way already.
 */
struct raised {
	int policy, own_policy; /* -1: not raised */
	struct sched_param own;
};

/* Raises our own priority. Returns what the block is told of the thread's policy: the policy + 1;
 * 0: it is not to be raised. */
static uint32_t raise_self(pid_t tid, struct raised *ret)
{
	const struct sched_param high = {.sched_priority = 10};

	ret->policy = sched_getscheduler(tid);
	ret->own_policy = sched_getscheduler(0);
	if (sched_getparam(0, &ret->own) < 0 ||
	    sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &high) < 0)
		ret->own_policy = -1;
	if (ret->own_policy < 0 ||
	    (ret->policy != SCHED_OTHER && ret->policy != SCHED_BATCH && ret->policy != SCHED_IDLE))
		ret->policy = -1;
	return ret->policy + 1;
}

static void raise_thread(pid_t tid)
{
	const struct sched_param high = {.sched_priority = 1};

	sched_setscheduler(tid, SCHED_FIFO, &high);
}

static void lower(pid_t tid, const struct raised *raised)
{
	const struct sched_param none = {0};

	if (raised->policy >= 0 && sched_getscheduler(tid) == SCHED_FIFO)
		sched_setscheduler(tid, raised->policy, &none);
	if (raised->own_policy >= 0)
		sched_setscheduler(0, raised->own_policy, &raised->own);
}

/* Has a thread do what the pieces say, which take the place of those that were there. */
static int run(struct ip_target *target, enum ip_borrow_which (*which)(uint64_t ns),
	       uint64_t find_ns, struct ip_remap_piece *pieces, size_t n, struct ip_remap_hold *ret)
{
	const struct ip_rt_anchor *a = &target->anchor;
	const struct ip_borrow_place place = place_of(target);
	const uint32_t count = n;
	const uint64_t nobody = 0;
	struct user_regs_struct regs;
	struct raised raised = {-1, -1, {0}};
	struct ip_borrowed b;
	struct ip_wake back;
	uint32_t policy, took[2];
	int done;

	*ret = (struct ip_remap_hold){0};
	if (find_thread(target, which, find_ns, &b) < 0)
		return -1;
	policy = raise_self(b.tid, &raised);
	ret->tsc = b.stop.began_tsc;
	back = (struct ip_wake){.mask = b.mask, .tid = b.tid};
	ip_arch_way_back(&b.regs, &back);
	/* the thread is stopped, so the image is the one that was opened */
	done = ip_own_code_check_place(target, &place);
	if (done == 0)
		done = ip_target_write(target, BLOCK(target, pieces), pieces, n * sizeof(*pieces));
	if (done == 0)
		done = ip_target_write(target, BLOCK(target, npieces), &count, sizeof(count));
	if (done == 0)
		done = ip_target_write(target, BLOCK(target, policy), &policy, sizeof(policy));
	if (done == 0)
		done = ip_target_write(target, BLOCK(target, back), &back, sizeof(back));
	regs = b.regs;
	ip_arch_send(&regs, a->remap, a->remap_block);
	if (done == 0 && policy && ptrace(PTRACE_SETREGS, b.tid, 0, &regs) == 0)
		raise_thread(b.tid);
	if (done == 0)
		done = ip_borrow_run(&b, a->remap, a->remap_end, a->remap_block, RUN_NS);
	/* first: the policies that it puts back were read while the borrowing had raised us */
	lower(b.tid, &raised);
	ret->ns = ip_borrow_end(&b);
	ret->tid = b.tid;
	if (ip_target_read(target, BLOCK(target, pieces), pieces, n * sizeof(*pieces)) < 0 ||
	    ip_target_read(target, BLOCK(target, changing_ns), took, sizeof(took)) < 0)
		return -1;
	ret->changing_ns = took[0];
	ret->bare_ns = took[1];
	if (done == 0)
		done = ip_target_write(target, BLOCK(target, back.tid), &nobody, sizeof(nobody));
	return done;
}

/* Whether the piece names a second mapping of the text's own file, as our pieces do. *ret_empty:
 * nothing is mapped at the place of the text, in the middle of its module. */
static bool is_ours(const struct ip_target *target, const struct ip_remap_piece *piece,
		    bool *ret_empty)
{
	const struct ip_mapping *staged = ip_maps_find(&target->maps, piece->staged),
				*text = ip_maps_find(&target->maps, piece->at),
				*below = ip_maps_find(&target->maps, piece->at - 1),
				*above = ip_maps_find(&target->maps, piece->at + piece->size);

	*ret_empty = !text && staged &&
		     ((below && below->inode == staged->inode) ||
		      (above && above->inode == staged->inode));
	if (!piece->size || piece->size % 4096 || piece->at % 4096 || piece->staged % 4096 ||
	    !staged || memcmp(staged->perms, "r-xp", 4) || !staged->inode ||
	    piece->size > staged->end - piece->staged)
		return false;
	return !text || (text->inode == staged->inode &&
			 text->offset + (piece->at - text->start) ==
				 staged->offset + (piece->staged - staged->start));
}

static int clean(struct ip_target *target, enum ip_borrow_which (*which)(uint64_t ns),
		 uint64_t find_ns, struct ip_remap_hold *ret)
{
	static struct ip_remap_piece pieces[IP_REMAP_PIECES];
	const struct ip_borrow_place place = place_of(target);
	const struct timespec nap = {.tv_nsec = NAP_NS};
	uint32_t n;
	size_t left = 0;
	int occupied;

	*ret = (struct ip_remap_hold){0};
	if (ip_target_read(target, BLOCK(target, npieces), &n, sizeof(n)) < 0)
		return -1;
	n = n < IP_REMAP_PIECES ? n : IP_REMAP_PIECES;
	if (!n)
		return 0;
	/* A thread that was left in the code may still be at work on the pieces: what they say is
	 * read when it has left. Nobody comes into the code then, since we have the lock. */
	for (uint64_t limit = ip_now_ns() + find_ns;
	     (occupied = ip_borrow_is_occupied(target, &place)) == 1 && ip_now_ns() < limit;)
		nanosleep(&nap, NULL);
	if (occupied > 0)
		return ip_error("pid %d: the thread that an iprobe which has died had borrowed has "
				"not come back yet: try again",
				target->pid);
	if (occupied < 0 ||
	    ip_target_read(target, BLOCK(target, pieces), pieces, n * sizeof(*pieces)) < 0 ||
	    ip_target_refresh(target) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		bool empty;

		if (!pieces[i].staged || !is_ours(target, &pieces[i], &empty))
			continue;
		pieces[left] = pieces[i];
		pieces[left].error = 0;
		pieces[left++].what = empty ? IP_REMAP_SWITCH : IP_REMAP_DROP;
	}
	if (left && run(target, which, find_ns, pieces, left, ret) < 0)
		return -1;
	n = 0;
	return ip_target_write(target, BLOCK(target, npieces), &n, sizeof(n));
}

int ip_remap_thread_clean(struct ip_target *target, uint64_t find_ns, struct ip_remap_hold *ret)
{
	return clean(target, ip_borrow_waiting, find_ns, ret);
}

/* Whether any of these pieces is text: then they may be those that the block tells of. The page of
 * a counter is dropped like a copy of text, but no text is its place (session/pmu_leftovers.c). */
static bool any_text(const struct ip_remap_piece *pieces, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (pieces[i].at &&
		    (pieces[i].what <= IP_REMAP_REVERT || pieces[i].what == IP_REMAP_COPY))
			return true;
	return false;
}

int ip_remap_thread_run(struct ip_target *target, enum ip_borrow_which (*which)(uint64_t ns),
			uint64_t find_ns, struct ip_remap_piece *pieces, size_t n,
			struct ip_remap_hold *ret)
{
	const uint32_t none = 0;
	struct ip_remap_hold cleaned = {0};
	int done;

	if (any_text(pieces, n))
		return run(target, which, find_ns, pieces, n, ret);
	/* what an iprobe that died has left would be forgotten; where no thread can be borrowed for
	 * it, none can for this */
	if (clean(target, which, find_ns, &cleaned) < 0) {
		*ret = (struct ip_remap_hold){0};
		return -1;
	}
	if (cleaned.ns)
		ip_stop_log_add_look(&ip_stops_of(target)->log, cleaned.ns);
	done = run(target, which, find_ns, pieces, n, ret);
	/* these leave nothing, and the next search for what is left takes no time */
	if (done == 0 && ip_target_write(target, BLOCK(target, npieces), &none, sizeof(none)) < 0)
		return -1;
	return done;
}
