/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long naps. A session that does nothing but watch durations for a rule of iprobed (--yield, with
 * --until and without events) has no rings to drain. Hundreds of such sessions wait on a machine,
 * so one that waits must take next to no CPU time and memory.
 *
 *   1. A session is calm when, for some time, nothing has happened in its target that is work for
 *      it: no thread has come or gone, none has recorded for the first time, no library was loaded,
 *      no child was forked, no other iprobe has asked, no site was disturbed.
 *   2. When it becomes calm, it gives back memory that it has used to begin and the priority that
 *      it has for draining, and ends its guard (priority_guard.h), which starts again before the
 *      next stop.
 *   3. It sleeps until its controllers want to look (controller.h, rest). Requests and the end of
 *      the target wake it at once. After each sleep it looks whether anything of step 1 has
 *      happened: in the shared memory, and after some seconds by four small system calls.
 *   4. If so, it is not calm any more: whole steps of its loop begin again, some milliseconds
 *      apart. If not, its controllers look. A whole step comes every half a minute, too, for what
 *      step 3 cannot see: a thread that came in the moment in which another one went, a child of
 *      another thread than the first, what another tool has done to a site.
 *
 * What is counted and measured is written into the trace with whole steps. Who asks for it more
 * often (save_counts_ns), or for events of the kernel, has a session that is never calm.
 *
 * The target may write what the shared memory says: a lie delays work that is the target's own.
 */
#ifndef IP_NAP_H
#define IP_NAP_H

#include <stdbool.h>
#include <stdint.h>

struct ip_plan;
struct ip_session;

struct ip_nap {
	int threads, children; /* of /proc: descriptors; 0: not opened, -1: cannot be */
	/* what was seen at the last look; since_ns: since when it has been so */
	uint64_t nthreads, seen_children, since_ns;
	uint32_t slots_used, blocks_hint;
	bool calm;
	bool watches;	/* the session does nothing else */
	bool few_slots; /* the area has memory for a part of its slots (area_lean.h) */
	/* when a calm session asks the kernel next; when it does its next whole step */
	uint64_t ask_ns, whole_ns;
};

/* To be called before anything else of a session that may be calm later: then large tables that
 * stay empty take no memory. */
void ip_nap_prepare(void);

/* Whether a session with this plan (NULL: none is made) does nothing but watch durations. */
bool ip_nap_only_watches(const struct ip_session *s, const struct ip_plan *plan);

/* To be called first in each step of the session's loop. Returns whether the session is calm, and
 * nothing has happened: then the step is for the controllers alone. */
bool ip_nap_is_calm(struct ip_session *s);

/* To be called at the end of a whole step: decides whether the session is calm from now on. */
void ip_nap_note(struct ip_session *s);

/* How long a calm session may sleep, in ns. */
uint64_t ip_nap_length(const struct ip_session *s, uint64_t now_ns);

/* Something has woken the session: it is not calm any more. */
void ip_nap_end(struct ip_session *s);

void ip_nap_clear(struct ip_session *s);

#endif
