/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining the rings. The life of a sub-buffer is told in common/rt_abi.h; in its words:
 *
 *   1. Take a sub-buffer of slot s when it is FULL; or when it is OWNED, s has moved on to another one (or to none),
 *      and s.guard was seen 0 after that: then no hook can have words in it to fill.
 *   2. Only in order: its ordinal is the one that s has to deliver next.
 *   3. Copy, check, write; zero it; FREE (release: the zeroes are seen before the state).
 *   4. When a thread has ended, or at the end, take the one in use too, up to its position.
 *
 * A slot goes back to FREE when its thread has ended and all of it has been taken.
 */
#include "hotpatcher/collector.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/probe_list.h"
#include "hotpatcher/stop.h"

#define REAP_INTERVAL_NS 50000000ull
#define SUSPENSION_NS                                                                                        \
	1000000000ull /* longer than a hook that a signal handler interrupts takes to come back */
#define STALE_GUARD_NS 200000000ull

struct slot_state {
	uint64_t next_ordinal;
	uint64_t lost_before; /* by threads that had this slot earlier: events_discarded only grows */
	uint64_t holes;	      /* zero words taken since the claim */
	uint64_t claimed;     /* slot->claimed of the claim that all this is about */
	uint64_t last_discarded;
	pid_t tid, pid;
	bool in_use;
	uint8_t missing;	     /* listings in a row that did not have the thread */
	uint64_t guard, guard_since; /* the guard that keeps a sub-buffer from being taken, and since when */
};

struct ready {
	uint32_t slot, subbuf;
	uint64_t ordinal;
};

struct ip_collector {
	struct ip_area *area;
	struct ip_trace *trace;
	struct ip_target *target;
	struct slot_state *slots;
	struct ready *ready;
	uint64_t *copy;	   /* one sub-buffer */
	uint64_t *records; /* the records found in it */
	uint64_t events, invalid;
	uint64_t lost_done;	   /* by claims that have ended */
	uint64_t max_size, beyond; /* events that did not fit into max_size */
	bool full;
	uint64_t reaped_ns;
	uint64_t *suspended; /* per sub-buffer: since when it is out of circulation; 0: it is not */
	const uint8_t *gone; /* per slot, while reaping: its thread has ended; else NULL */
	bool (*family_gone)(void *data, pid_t pid, pid_t tid);
	void *family;
	uint8_t *pids; /* bitmap of processes that have recorded */
	uint64_t processes;
};

#define PID_LIMIT (1u << 22) /* of the kernel */

int ip_collector_create(struct ip_area *area, struct ip_trace *trace, struct ip_target *target,
			uint64_t max_size, struct ip_collector **ret)
{
	struct ip_collector *c = calloc(1, sizeof(*c));

	if (!c)
		return ip_error("out of memory");
	c->area = area;
	c->trace = trace;
	c->target = target;
	c->max_size = max_size;
	c->slots = calloc(IP_AREA_SLOTS, sizeof(*c->slots));
	c->ready = calloc(area->nsubbufs, sizeof(*c->ready));
	c->copy = malloc(IP_SUBBUF_SIZE);
	c->records = malloc(IP_SUBBUF_SIZE);
	c->suspended = calloc(area->nsubbufs, sizeof(*c->suspended));
	c->pids = calloc(1, PID_LIMIT / 8);
	if (!c->pids || !c->suspended || !c->slots || !c->ready || !c->copy || !c->records) {
		ip_collector_destroy(c);
		return ip_error("out of memory");
	}
	*ret = c;
	return 0;
}

void ip_collector_destroy(struct ip_collector *c)
{
	if (!c)
		return;
	free(c->slots);
	free(c->suspended);
	free(c->pids);
	free(c->ready);
	free(c->copy);
	free(c->records);
	free(c);
}

/* Words of the payload record at i, of which n are there; 0: it is none. */
static size_t payload_length(const uint64_t *words, size_t i, size_t n)
{
	uint64_t tells = i + IP_EXT_WORDS < n ? words[i + IP_EXT_WORDS] : 0;
	size_t length = IP_PAYLOAD_HEAD + IP_PAYLOAD_N(tells);

	if (tells & 7 || !IP_PAYLOAD_SIGNATURE(tells) || IP_PAYLOAD_N(tells) > IP_PAYLOAD_MAX || length > n - i)
		return 0;
	return length;
}

static bool valid_id(uint64_t id)
{
	return id >= IP_PROBE_ENTRY && id <= IP_PROBE_POINT;
}

/* What one sub-buffer holds. */
struct contents {
	size_t words; /* of records */
	uint64_t events, holes, invalid;
	uint64_t begin, end; /* times of the first and last event */
};

/* Checks copy[1..n) and puts the good records into records. The first one must be extended: it carries the time; what
 * follows must not go back in time. */
static void sift(struct ip_collector *c, size_t n, struct contents *ret)
{
	uint64_t time = 0;

	*ret = (struct contents){0};
	for (size_t i = 1; i < n;) {
		uint64_t word = c->copy[i], id = word & 7, stamp;
		size_t length = 1;

		if (!word) {
			/* a hook that never came back: one word, or the three of an extended record, which values may
			 * follow */
			length = i + 2 < n && !c->copy[i + 1] && !c->copy[i + 2] ? IP_EXT_WORDS : 1;
			if (length == IP_EXT_WORDS && payload_length(c->copy, i, n))
				length = payload_length(c->copy, i, n);
			ret->holes++;
			i += length;
			continue;
		}
		if (!id) { /* padding */
			i++;
			continue;
		}
		if (id == IP_ID_EXTENDED) {
			uint64_t real = ((word >> 3) & IP_TIME_MASK) - IP_ID_EXT_BASE;
			size_t with_values = payload_length(c->copy, i, n);

			length = IP_EXT_WORDS;
			if (real > IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE && with_values) {
				real -= IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE;
				length = with_values;
			}
			if (i + length <= n && valid_id(real) && (!c->copy[i + 1] || !c->copy[i + 2])) {
				/* its hook never came back either: left half way */
				ret->holes++;
				i += length;
				continue;
			}
			if (i + length > n || !valid_id(real) || !((c->copy[i + 1] >> 32) & IP_NUMBER_MAX)) {
				ret->invalid++;
				i++;
				continue;
			}
			stamp = word >> 32 | c->copy[i + 1] << 32;
		} else {
			stamp = (time & ~IP_TIME_MASK) | ((word >> 3) & IP_TIME_MASK);
			if (!valid_id(id) || !((word >> 32) & IP_NUMBER_MAX) || !ret->events) {
				ret->invalid++;
				i++;
				continue;
			}
		}
		if (ret->events && stamp < time) {
			ret->invalid++;
			i += length;
			continue;
		}
		time = stamp;
		if (!ret->events++)
			ret->begin = stamp;
		memcpy(c->records + ret->words, c->copy + i, length * sizeof(*c->copy));
		ret->words += length;
		i += length;
	}
	ret->end = time;
}

static int write_records(struct ip_collector *c, uint32_t slot, const struct contents *found,
			 uint64_t discarded)
{
	struct slot_state *s = &c->slots[slot];
	struct ip_packet_header header = {
		.timestamp_begin = found->begin, .timestamp_end = found->end, .pid = s->pid, .tid = s->tid};

	if (c->full ||
	    ip_trace_bytes(c->trace) + sizeof(header) + found->words * sizeof(*c->records) > c->max_size) {
		/* once full, always: a later, smaller packet would make it look as if nothing were missing */
		c->full = true;
		c->beyond += found->events;
		return 0;
	}
	if (discarded < s->last_discarded)
		discarded = s->last_discarded;
	header.events_discarded = s->last_discarded = discarded;
	if (ip_trace_write_packet(c->trace, slot, &header, c->records, found->words) < 0)
		return -1;
	c->events += found->events;
	return 0;
}

/* Step 3 without the freeing: n words of the sub-buffer, word 0 included. */
static int take(struct ip_collector *c, uint32_t slot, uint32_t subbuf, size_t n, uint64_t lost)
{
	struct slot_state *s = &c->slots[slot];
	struct contents found;

	memcpy(c->copy, c->area->data + (uint64_t)subbuf * IP_SUBBUF_SIZE, n * sizeof(*c->copy));
	sift(c, n, &found);
	s->holes += found.holes;
	c->invalid += found.invalid;
	if (!found.words)
		return 0;
	return write_records(c, slot, &found, s->lost_before + lost + s->holes);
}

static void give_back(struct ip_collector *c, uint32_t subbuf)
{
	struct ip_subbuf *b = &c->area->subbufs[subbuf];

	b->slot = IP_NO_SLOT;
	if (__atomic_load_n(&b->suspect, __ATOMIC_RELAXED) && !c->suspended[subbuf]) {
		/* out of circulation for a while: a hook may still fill words of it */
		c->suspended[subbuf] = ip_now_ns();
		return;
	}
	c->suspended[subbuf] = 0;
	memset(c->area->data + (uint64_t)subbuf * IP_SUBBUF_SIZE, 0, IP_SUBBUF_SIZE);
	__atomic_store_n(&b->state, IP_SUBBUF_FREE, __ATOMIC_RELEASE);
	__atomic_fetch_add(&c->area->header->nfree, 1, __ATOMIC_RELAXED);
	/* The lowest free one comes first: the target touches few pages that it has not touched before (each costs it a
	 * fault) and finds them in the cache. Only a hint: a thread that takes one now may set it back. */
	if (subbuf < c->area->header->hint)
		c->area->header->hint = subbuf;
}

/* Notes a claim that we have not seen yet. */
static void meet(struct ip_collector *c, uint32_t index)
{
	const struct ip_slot *slot = &c->area->slots[index];
	struct slot_state *s = &c->slots[index];

	if (s->in_use && s->claimed == slot->claimed)
		return;
	s->in_use = true;
	s->claimed = slot->claimed;
	s->next_ordinal = 0;
	s->holes = 0;
	s->tid = slot->tid;
	s->pid = slot->pid;
	if ((uint32_t)s->pid < PID_LIMIT && !(c->pids[s->pid / 8] & 1 << s->pid % 8)) {
		c->pids[s->pid / 8] |= 1 << s->pid % 8;
		c->processes++;
	}
}

static uint32_t slots_used(const struct ip_collector *c)
{
	uint32_t used = __atomic_load_n(&c->area->header->slots_used, __ATOMIC_ACQUIRE);

	return used < IP_AREA_SLOTS ? used : IP_AREA_SLOTS;
}

static bool is_claimed(const struct ip_collector *c, uint32_t slot)
{
	return __atomic_load_n(&c->area->slots[slot].state, __ATOMIC_ACQUIRE) == IP_SLOT_CLAIMED;
}

/* Step 1 for a sub-buffer that its thread has not handed over. quiet: no thread writes any more. */
static bool has_been_left(const struct ip_collector *c, const struct ready *r, bool quiet)
{
	const struct ip_slot *slot = &c->area->slots[r->slot];
	struct slot_state *s = &c->slots[r->slot];
	uint64_t cur = __atomic_load_n(&slot->cur, __ATOMIC_ACQUIRE), guard = 0;

	if (cur >> IP_POSITION_BITS == r->subbuf)
		return false;
	if ((cur & IP_POSITION_MASK) / IP_SUBBUF_WORDS <= r->ordinal)
		return false;
	quiet |= c->gone && c->gone[r->slot];
	for (int i = 0; !quiet && i < 64; i++) {
		guard = __atomic_load_n(&slot->guard, __ATOMIC_ACQUIRE);
		if (!guard)
			return true;
	}
	if (quiet)
		return true;
	/* A handler that left by longjmp may leave the guard set for long. Take it then, but do not reuse it
	 * soon. */
	if (s->guard != guard) {
		s->guard = guard;
		s->guard_since = ip_now_ns();
		return false;
	}
	if (ip_now_ns() - s->guard_since < STALE_GUARD_NS)
		return false;
	c->area->subbufs[r->subbuf].suspect = 1;
	return true;
}

static int by_order(const void *a, const void *b)
{
	const struct ready *x = a, *y = b;

	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	return x->ordinal < y->ordinal ? -1 : x->ordinal > y->ordinal;
}

/* Steps 1 to 3 for all. quiet: no thread writes any more. */
static int drain_full(struct ip_collector *c, bool quiet)
{
	uint32_t used = slots_used(c);
	size_t n = 0;
	int taken = 0;

	for (uint32_t i = 0; i < c->area->nsubbufs; i++) {
		const struct ip_subbuf *b = &c->area->subbufs[i];
		uint32_t state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
		/* read once: the target may change it after we have checked it */
		struct ready r = {__atomic_load_n(&b->slot, __ATOMIC_RELAXED), i,
				  __atomic_load_n(&b->ordinal, __ATOMIC_RELAXED)};

		if ((state != IP_SUBBUF_FULL && state != IP_SUBBUF_OWNED) || r.slot >= used ||
		    !is_claimed(c, r.slot))
			continue;
		if (state == IP_SUBBUF_OWNED && !has_been_left(c, &r, quiet))
			continue;
		c->ready[n++] = r;
	}
	qsort(c->ready, n, sizeof(*c->ready), by_order);
	for (size_t k = 0; k < n; k++) {
		const struct ready *r = &c->ready[k];
		struct slot_state *s = &c->slots[r->slot];

		meet(c, r->slot);
		if (r->ordinal != s->next_ordinal) /* step 2 */
			continue;
		if (take(c, r->slot, r->subbuf, IP_SUBBUF_WORDS, c->area->subbufs[r->subbuf].lost) < 0)
			return -1;
		s->next_ordinal++;
		give_back(c, r->subbuf);
		taken++;
	}
	return taken;
}

/* Step 4 for one slot, after drain_full(). If losses came behind its last packet, an empty packet tells them.
 */
static int finish_slot(struct ip_collector *c, uint32_t index)
{
	const struct ip_slot *slot = &c->area->slots[index];
	struct slot_state *s = &c->slots[index];
	uint64_t cur = __atomic_load_n(&slot->cur, __ATOMIC_ACQUIRE);
	uint64_t subbuf = cur >> IP_POSITION_BITS, n = cur & (IP_SUBBUF_WORDS - 1);
	uint64_t discarded;

	meet(c, index);
	if (subbuf < c->area->nsubbufs && c->area->subbufs[subbuf].slot == index) {
		if (!n) /* filled to the last word, not left yet */
			n = IP_SUBBUF_WORDS;
		if (take(c, index, subbuf, n, c->area->subbufs[subbuf].lost) < 0)
			return -1;
		give_back(c, subbuf);
	}
	discarded = s->lost_before + slot->lost + s->holes;
	if (discarded > s->last_discarded) {
		struct contents none = {.begin = slot->claimed, .end = slot->claimed};
		struct ip_clock_reading now;

		ip_clock_read(&now);
		none.begin = none.end = now.tsc;
		if (write_records(c, index, &none, discarded) < 0)
			return -1;
	}
	return 0;
}

/* Ends the claim: what it lost is kept, the slot can be claimed anew. */
static void release_slot(struct ip_collector *c, uint32_t index)
{
	struct ip_slot *slot = &c->area->slots[index];
	struct slot_state *s = &c->slots[index];

	c->lost_done += slot->lost + s->holes;
	s->lost_before += slot->lost + s->holes;
	s->in_use = false;
	s->missing = 0;
	s->holes = 0;
	slot->lost = 0;
	slot->cur = IP_NO_SUBBUF << IP_POSITION_BITS;
	__atomic_store_n(&slot->state, IP_SLOT_FREE, __ATOMIC_RELEASE);
}

static int by_tid(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return x < y ? -1 : x > y;
}

/* The thread's id as the target itself sees it (last field of NSpid). */
static pid_t inner_tid(pid_t pid, const char *tid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[300], line[512];
	const char *last;

	snprintf(name, sizeof(name), "/proc/%d/task/%s/status", pid, tid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6)) {
			last = strrchr(line, '\t');
			return last ? atoi(last + 1) : 0;
		}
	return 0;
}

static bool same_pid_namespace(pid_t pid)
{
	char name[64], ours[64] = "", theirs[64] = "?";

	snprintf(name, sizeof(name), "/proc/%d/ns/pid", pid);
	return readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1) > 0 &&
	       readlink(name, theirs, sizeof(theirs) - 1) > 0 && !strcmp(ours, theirs);
}

/* All living threads, sorted; the number, or -1 where that cannot be told. */
static ssize_t list_threads(pid_t pid, pid_t **ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	bool same = same_pid_namespace(pid);
	struct dirent *entry;
	size_t n = 0, capacity = 0;
	char name[64];

	*ret = NULL;
	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (n == capacity) {
			void *grown =
				realloc(*ret, (capacity = capacity ? 2 * capacity : 64) * sizeof(pid_t));

			if (!grown)
				return -1;
			*ret = grown;
		}
		(*ret)[n++] = same ? atoi(entry->d_name) : inner_tid(pid, entry->d_name);
	}
	if (n)
		qsort(*ret, n, sizeof(pid_t), by_tid);
	return dir ? (ssize_t)n : -1;
}

static bool is_alive(pid_t pid, pid_t tid)
{
	return syscall(SYS_tgkill, pid, tid, 0) == 0 || errno != ESRCH;
}

/* Brings back what was suspended long enough. */
static void end_suspensions(struct ip_collector *c, uint64_t now)
{
	for (uint32_t i = 0; i < c->area->nsubbufs; i++)
		if (c->suspended[i] && now - c->suspended[i] > SUSPENSION_NS)
			give_back(c, i);
}

/* Finds threads that have ended, takes what they left and frees their slots. */
static int reap(struct ip_collector *c)
{
	uint32_t used = slots_used(c);
	_cleanup_free_ uint8_t *gone = calloc(used + 1, 1);
	_cleanup_free_ uint64_t *claims = calloc(used + 1, sizeof(*claims));
	_cleanup_free_ pid_t *threads = NULL;
	ssize_t n;
	bool same = same_pid_namespace(c->target->pid);
	size_t ngone = 0;
	bool ended;
	int drained;

	if (!gone || !claims)
		return 0;
	/* The claims are read before the threads are listed: a claim whose thread is not in the list is of
	 * one that ended. */
	for (uint32_t i = 0; i < used; i++)
		claims[i] = is_claimed(c, i) ? c->area->slots[i].claimed : 0;
	ended = c->family_gone && !ip_target_alive(c->target); /* others of its family may go on */
	n = ended ? 0 : list_threads(c->target->pid, &threads);
	if (n < 0)
		return 0;
	for (uint32_t i = 0; i < used; i++) {
		pid_t tid = c->area->slots[i].tid, pid = c->area->slots[i].pid;

		if (claims[i] && pid != c->target->inner_pid && c->family_gone) {
			gone[i] = c->family_gone(c->family, pid, tid);
			ngone += gone[i];
			continue;
		}
		if (ended) {
			gone[i] = claims[i] != 0;
			ngone += gone[i];
			continue;
		}
		/* A listing can miss a living thread while others come and go: two in a row must agree. */
		if (!claims[i] || bsearch(&tid, threads, n, sizeof(pid_t), by_tid))
			c->slots[i].missing = 0;
		else if (c->slots[i].missing++)
			gone[i] = same ? !is_alive(c->target->pid, tid) : 1;
		ngone += gone[i];
	}
	if (!ngone)
		return 0;
	c->gone = gone;
	drained = drain_full(c, false);
	c->gone = NULL;
	if (drained < 0)
		return -1;
	for (uint32_t i = 0; i < used; i++) {
		if (!gone[i] || !is_claimed(c, i) || c->area->slots[i].claimed != claims[i])
			continue;
		if (finish_slot(c, i) < 0)
			return -1;
		release_slot(c, i);
	}
	return 0;
}

int ip_collector_poll(struct ip_collector *c)
{
	uint64_t now = ip_now_ns();
	int taken = drain_full(c, false);

	if (taken < 0)
		return -1;
	if (now - c->reaped_ns > REAP_INTERVAL_NS) {
		c->reaped_ns = now;
		end_suspensions(c, now);
		if (reap(c) < 0)
			return -1;
	}
	return taken;
}

int ip_collector_flush(struct ip_collector *c)
{
	int taken;

	do {
		taken = drain_full(c, true);
	} while (taken > 0);
	if (taken < 0)
		return -1;
	for (uint32_t i = 0; i < slots_used(c); i++) {
		if (!is_claimed(c, i))
			continue;
		if (finish_slot(c, i) < 0)
			return -1;
		release_slot(c, i);
	}
	return 0;
}

int ip_collector_flush_process(struct ip_collector *c, pid_t pid)
{
	uint32_t used = slots_used(c);
	_cleanup_free_ uint8_t *gone = calloc(used + 1, 1);
	int taken;

	if (!gone)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < used; i++)
		gone[i] = is_claimed(c, i) && (pid_t)c->area->slots[i].pid == pid;
	do {
		c->gone = gone;
		taken = drain_full(c, false);
		c->gone = NULL;
	} while (taken > 0);
	for (uint32_t i = 0; i < used && taken == 0; i++) {
		if (!gone[i] || !is_claimed(c, i))
			continue;
		taken = finish_slot(c, i);
		if (taken == 0)
			release_slot(c, i);
	}
	return taken;
}

void ip_collector_set_family(struct ip_collector *c, bool (*gone)(void *data, pid_t pid, pid_t tid), void *data)
{
	c->family_gone = gone;
	c->family = data;
}

void ip_collector_each_process(const struct ip_collector *c, void (*visit)(void *data, pid_t pid), void *data)
{
	for (uint32_t i = 0; i < slots_used(c); i++)
		if (is_claimed(c, i))
			visit(data, c->area->slots[i].pid);
}

bool ip_collector_full(const struct ip_collector *c)
{
	return c->full;
}

bool ip_collector_in_flight(const struct ip_collector *c)
{
	for (uint32_t i = 0; i < slots_used(c); i++)
		if (is_claimed(c, i) && __atomic_load_n(&c->area->slots[i].guard, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

void ip_collector_stats(const struct ip_collector *c, struct ip_collector_stats *ret)
{
	*ret = (struct ip_collector_stats){
		.events = c->events, .lost = c->lost_done + c->beyond, .invalid = c->invalid, .processes = c->processes};
	for (uint32_t i = 0; i < slots_used(c); i++) {
		const struct ip_slot *slot = &c->area->slots[i];
		uint64_t position = slot->cur & IP_POSITION_MASK;

		if (!is_claimed(c, i))
			continue;
		ret->lost += slot->lost + c->slots[i].holes;
		if (position > c->slots[i].next_ordinal * IP_SUBBUF_WORDS)
			ret->pending += position - c->slots[i].next_ordinal * IP_SUBBUF_WORDS;
	}
	ret->unserved = c->area->header->unserved;
	ret->lost += ret->unserved;
}
