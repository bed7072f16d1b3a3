/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs entries and returns of functions of the kernel.
 */
#include "analysis/read/kernel_calls.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/kernel_reader.h"
#include "analysis/read/session.h"
#include "analysis/read/session_parser.h"
#include "common/array.h"
#include "common/error.h"
#include "common/selection/selection.h"
#include "common/trace/kernel_functions.h"

#define SLOTS_LEAST 64u

/* Events of a CPU were lost: a thread that ran there may have called and returned meanwhile. */
struct loss {
	uint64_t since, until;
};

/* What a thread is called in its own pid namespace. */
struct inner {
	int32_t tid, inner_tid, inner_pid;
};

struct ip_kernel_calls {
	struct ip_kernel_functions names;
	uint32_t functions[IP_KERNEL_FUNCTIONS_MAX]; /* of the recording, by number */
	struct ip_kernel_thread *threads;
	size_t nthreads;
	uint32_t *slots; /* a hash table of tids: index + 1 of a thread; 0: free */
	size_t nslots;
	struct inner *inner;
	size_t ninner;
	struct ip_kernel_reader *reader; /* has the lines of damage; NULL: not opened */
	struct loss *losses;		 /* by since */
	size_t nlosses, passed;		 /* passed: those that have begun before the event */
	uint64_t lost_until;		 /* the latest end of these */
	uint64_t lost, unknown;
};

static size_t slot_of(const struct ip_kernel_calls *k, int32_t tid)
{
	size_t at = (uint32_t)tid * 2654435761u & (k->nslots - 1);

	while (k->slots[at] && k->threads[k->slots[at] - 1].tid != tid)
		at = (at + 1) & (k->nslots - 1);
	return at;
}

/* Keeps the table at most half full. */
static int grow_slots(struct ip_kernel_calls *k)
{
	size_t n = k->nslots ? 2 * k->nslots : SLOTS_LEAST;

	if (2 * (k->nthreads + 1) <= k->nslots)
		return 0;
	free(k->slots);
	k->slots = calloc(n, sizeof(*k->slots));
	k->nslots = k->slots ? n : 0;
	if (!k->slots)
		return ip_error("out of memory");
	for (size_t i = 0; i < k->nthreads; i++)
		k->slots[slot_of(k, k->threads[i].tid)] = i + 1;
	return 0;
}

static struct ip_kernel_thread *thread_of(struct ip_kernel_calls *k, int32_t tid)
{
	size_t at;

	if (grow_slots(k) < 0)
		return NULL;
	at = slot_of(k, tid);
	if (!k->slots[at]) {
		if (ip_array_grow(&k->threads, k->nthreads, sizeof(*k->threads)) < 0)
			return NULL;
		k->threads[k->nthreads++] =
			(struct ip_kernel_thread){.tid = tid, .losses = k->passed};
		k->slots[at] = k->nthreads;
	}
	return &k->threads[k->slots[at] - 1];
}

static void set_unknown(struct ip_kernel_calls *k, struct ip_kernel_thread *t, size_t open)
{
	t->calls[t->open[open]].end = IP_KERNEL_END_UNKNOWN;
	k->unknown++;
}

/* What was open when events were lost may have ended and begun again. */
static void pass_losses(struct ip_kernel_calls *k, struct ip_kernel_thread *t)
{
	if (t->losses == k->passed)
		return;
	t->losses = k->passed;
	while (t->nopen)
		set_unknown(k, t, --t->nopen);
}

static void find_losses(struct ip_kernel_calls *k, uint64_t tsc)
{
	for (; k->passed < k->nlosses && k->losses[k->passed].since < tsc; k->passed++)
		if (k->losses[k->passed].until > k->lost_until)
			k->lost_until = k->losses[k->passed].until;
}

static int enter(struct ip_kernel_calls *k, struct ip_kernel_thread *t, unsigned number,
		 uint64_t tsc)
{
	if (t->n == UINT32_MAX || ip_array_grow(&t->calls, t->n, sizeof(*t->calls)) < 0)
		return -1;
	t->calls[t->n] = (struct ip_kernel_call){tsc, IP_KERNEL_END_OPEN, k->functions[number]};
	if (t->nopen < IP_KERNEL_DEPTH && tsc >= k->lost_until) {
		t->open[t->nopen] = t->n;
		t->numbers[t->nopen++] = number;
	} else {
		t->calls[t->n].end = IP_KERNEL_END_UNKNOWN;
		k->unknown++;
	}
	t->n++;
	return 0;
}

static void leave(struct ip_kernel_calls *k, struct ip_kernel_thread *t, unsigned number,
		  uint64_t tsc)
{
	size_t at = t->nopen;

	while (at && t->numbers[at - 1] != number)
		at--;
	if (!at) /* its entry was before the recording, or was lost */
		return;
	while (t->nopen > at)
		set_unknown(k, t, --t->nopen);
	t->calls[t->open[--t->nopen]].end = tsc;
}

static int note_inner(struct ip_kernel_calls *k, const struct ip_kernel_record *r)
{
	if (ip_array_grow(&k->inner, k->ninner, sizeof(*k->inner)) < 0)
		return -1;
	k->inner[k->ninner++] =
		(struct inner){ip_kernel_s32(r, 0), ip_kernel_s32(r, 8), ip_kernel_s32(r, 12)};
	return 0;
}

static int take(struct ip_kernel_calls *k, const struct ip_kernel_record *r)
{
	struct ip_kernel_thread *t;
	unsigned number;
	bool exit;

	if (r->id == IP_KERNEL_IDS_STATE)
		return note_inner(k, r);
	if (!ip_kernel_is_function(r->id, &number, &exit) || number >= k->names.n || r->tid <= 0)
		return 0;
	find_losses(k, r->tsc);
	t = thread_of(k, r->tid);
	if (!t)
		return -1;
	pass_losses(k, t);
	if (!exit)
		return enter(k, t, number, r->tsc);
	leave(k, t, number, r->tsc);
	return 0;
}

static int by_since(const void *left, const void *right)
{
	const struct loss *a = left, *b = right;

	return a->since < b->since ? -1 : a->since > b->since;
}

static int note_loss(struct ip_kernel_calls *k, const struct ip_kernel_record *r)
{
	if (ip_array_grow(&k->losses, k->nlosses, sizeof(*k->losses)) < 0)
		return -1;
	k->losses[k->nlosses++] = (struct loss){r->lost_since, r->tsc};
	k->lost += r->lost;
	return 0;
}

/* Reads all events. A loss is found by the first event behind it, when events of other CPUs that
 * lie in it were read already: so where there are losses, it is done once more, and losses are
 * known then. */
static int read_once(struct ip_kernel_calls *k, const char *dir, bool again)
{
	struct ip_kernel_record record;
	int got = ip_kernel_reader_open(dir, &k->reader);

	while (got > 0 && (got = ip_kernel_reader_next(k->reader, &record)) > 0) {
		const bool loss = record.id == IP_KERNEL_LOST;

		if (loss && !record.all && !again && note_loss(k, &record) < 0)
			return -1;
		if (!loss && (again || !k->nlosses) && take(k, &record) < 0)
			return -1;
	}
	return got;
}

static void forget(struct ip_kernel_calls *k)
{
	for (size_t i = 0; i < k->nthreads; i++)
		free(k->threads[i].calls);
	free(k->threads);
	free(k->slots);
	free(k->inner);
	k->threads = NULL;
	k->slots = NULL;
	k->inner = NULL;
	k->nthreads = k->nslots = k->ninner = 0;
	k->unknown = 0;
}

static int read_calls(struct ip_kernel_calls *k, const char *dir)
{
	if (read_once(k, dir, false) < 0)
		return -1;
	if (!k->nlosses)
		return 0;
	qsort(k->losses, k->nlosses, sizeof(*k->losses), by_since);
	forget(k);
	ip_kernel_reader_close(k->reader);
	k->reader = NULL;
	if (read_once(k, dir, true) < 0)
		return -1;
	find_losses(k, UINT64_MAX);
	for (size_t i = 0; i < k->nthreads; i++)
		pass_losses(k, &k->threads[i]);
	return 0;
}

/* Functions of the kernel's modules stand in the same module of the recording. */
static int add_functions(struct ip_kernel_calls *k, struct ip_recording *s)
{
	const size_t module = s->nmodules;
	struct ip_recording_module *grown =
		reallocarray(s->modules, module + 1, sizeof(*s->modules));

	if (!grown)
		return ip_error("out of memory");
	s->modules = grown;
	s->nmodules++;
	s->modules[module] = (struct ip_recording_module){.path = IP_KERNEL_MODULE,
							  .build_id = "",
							  .placement = "kernel",
							  .first_number = UINT32_MAX,
							  .same_as = module,
							  .present = true};
	for (size_t i = 0; i < k->names.n; i++) {
		char *name = k->names.items[i].name;

		name[ip_base_name_length(name)] = '\0';
		k->functions[i] = ip_recording_add_function(s, module, name);
		if (!k->functions[i])
			return -1;
		s->functions[k->functions[i]].kernel = true;
	}
	return 0;
}

int ip_kernel_calls_load(const char *dir, struct ip_recording *s)
{
	struct ip_kernel_calls *k = calloc(1, sizeof(*k));

	if (!k)
		return ip_error("out of memory");
	if (ip_kernel_functions_read(dir, &k->names) < 0) {
		ip_kernel_calls_destroy(k);
		return -1;
	}
	if (!k->names.n) {
		ip_kernel_calls_destroy(k);
		return 0;
	}
	s->kernel_calls = k; /* it has the names of the functions */
	return add_functions(k, s) < 0 || read_calls(k, dir) < 0 ? -1 : 0;
}

void ip_kernel_calls_destroy(struct ip_kernel_calls *k)
{
	if (!k)
		return;
	forget(k);
	ip_kernel_reader_close(k->reader);
	ip_kernel_functions_clear(&k->names);
	free(k->losses);
	free(k);
}

/* The machine's id of a thread; 0: it is not known. */
static int32_t machine_id(const struct ip_kernel_calls *k, uint32_t pid, uint32_t tid)
{
	bool contained = false;

	for (size_t i = 0; i < k->ninner; i++) {
		const struct inner *inner = &k->inner[i];

		if ((uint32_t)inner->inner_pid != pid)
			continue;
		contained = true;
		if ((uint32_t)inner->inner_tid == tid)
			return inner->tid;
	}
	return contained ? 0 : (int32_t)tid;
}

const struct ip_kernel_thread *ip_kernel_calls_find(const struct ip_kernel_calls *k, uint32_t pid,
						    uint32_t tid)
{
	const int32_t id = k && k->nslots ? machine_id(k, pid, tid) : 0;
	size_t at;

	if (id <= 0)
		return NULL;
	at = slot_of(k, id);
	return k->slots[at] ? &k->threads[k->slots[at] - 1] : NULL;
}

const char *const *ip_kernel_calls_damage(const struct ip_kernel_calls *k)
{
	static const char *const none[] = {NULL};

	return k && k->reader ? ip_kernel_reader_damage(k->reader) : none;
}

uint64_t ip_kernel_calls_lost(const struct ip_kernel_calls *k)
{
	return k ? k->lost : 0;
}

uint64_t ip_kernel_calls_unknown(const struct ip_kernel_calls *k)
{
	return k ? k->unknown : 0;
}
