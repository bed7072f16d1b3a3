/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the stubs of a plan's sites. See stub_writer.h.
 */
#include "hotpatcher/plan/stub_writer.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

#define FEW 4096u /* sites whose stubs are written sooner than a thread is made */

/* Stubs that follow each other, to be written together. */
struct run {
	const struct ip_target *target;
	uint8_t buffer[65536];
	uint64_t address; /* the address of buffer[0] */
	size_t used;
};

static int run_flush(struct run *w)
{
	int ret = w->used ? ip_target_write(w->target, w->address, w->buffer, w->used) : 0;

	w->used = 0;
	return ret;
}

static int run_add(struct run *w, uint64_t address, const uint8_t *bytes, size_t size)
{
	if (w->used && (w->address + w->used != address || w->used + size > sizeof(w->buffer)) &&
	    run_flush(w) < 0)
		return -1;
	if (!w->used)
		w->address = address;
	memcpy(w->buffer + w->used, bytes, size);
	w->used += size;
	return 0;
}

#define UNSORTED_SHARE 64 /* one part in so many of the stubs may be out of order */

/* A change, counted from the module's first one, and where its stub lies among the module's. */
struct wanted {
	uint32_t offset, change;
};

static int by_stub(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Stubs of their own come first in the layout, in the order of the probes. The others follow almost
 * in that order (stub_layout.c). So the changes are in order, or nearly so, if those with a stub of
 * their own come first. A stub out of order costs one more write; with many of them it is better
 * to sort. */
static void sort_wanted(struct wanted *wanted, size_t n)
{
	size_t descents = 0;

	for (size_t i = 1; i < n; i++)
		descents += wanted[i].offset < wanted[i - 1].offset;
	if (descents > n / UNSORTED_SHARE)
		qsort(wanted, n, sizeof(*wanted), by_stub);
}

static int write_stub(struct run *w, const struct ip_arch *arch, uint64_t pool,
		      const struct ip_change *c, uint32_t number, uint64_t stub)
{
	const struct ip_rt_anchor *anchor = &w->target->anchor;
	const bool returns = ip_probe_returns(c->kind, c->form);
	uint8_t bytes[64];

	if (c->form == IP_FORM_JUMP) {
		if (arch->jump_stub(stub, anchor->jump_hooks[c->kind - 1],
				    pool + IP_POOL_JUMP_SLOT(c->kind), number,
				    c->address + c->length, bytes) < 0)
			return -1;
		return run_add(w, stub, bytes, arch->jump_stub_size);
	}
	if (c->form == IP_FORM_TAIL) {
		if (arch->tail_stub(stub, anchor->tail_hook, pool + IP_POOL_TAIL_SLOT, number,
				    c->address + c->length + (uint64_t)(int64_t)c->jump, bytes) < 0)
			return -1;
		return run_add(w, stub, bytes, arch->jump_stub_size);
	}
	if (c->form == IP_FORM_PLT) {
		if (arch->plt_stub(stub, anchor->plt_hook, pool + IP_POOL_PLT_SLOT, number,
				   c->address + c->length + (uint64_t)(int64_t)c->jump, bytes) < 0)
			return -1;
		return run_add(w, stub, bytes, arch->jump_stub_size);
	}
	if (arch->stub(c->regs, stub,
		       returns ? anchor->return_hooks[0] : anchor->hooks[c->kind - 1][c->regs],
		       pool + (returns ? IP_POOL_RETURN_SLOT(0) : IP_POOL_SLOT(c->kind, c->regs)),
		       number, bytes) < 0)
		return -1;
	return run_add(w, stub, bytes, arch->stub_size);
}

/* Writes the stub of a site whose values are recorded. It passes a payload number instead of the
 * function's number. */
static int write_payload_stub(struct run *w, const struct ip_arch *arch, uint64_t pool,
			      const struct ip_change *c, uint32_t payload, uint64_t stub)
{
	const struct ip_rt_anchor *anchor = &w->target->anchor;
	bool jump = c->form == IP_FORM_JUMP, returns = ip_probe_returns(c->kind, c->form);
	uint64_t hook = returns ? anchor->return_hooks[1]
				: anchor->payload_hooks[c->kind - 1][jump],
		 slot = pool +
			(returns ? IP_POOL_RETURN_SLOT(1) : IP_POOL_PAYLOAD_SLOT(c->kind, jump));
	uint8_t bytes[64];
	int ret = jump ? arch->jump_stub(stub, hook, slot, payload, c->address + c->length, bytes)
		       : arch->stub(IP_REGS_ALL, stub, hook, slot, payload, bytes);

	return ret < 0 ? -1
		       : run_add(w, stub, bytes, jump ? arch->jump_stub_size : arch->stub_size);
}

struct ip_stub_writer {
	struct ip_plan *plan;
	struct ip_payload *payloads;
	struct ip_stub_batch *batches;
	size_t nbatches;
	struct wanted *wanted; /* room for all changes of a module */
	struct run run;
	bool threaded;
	pthread_t thread;
	int ret;   /* of the thread */
	char *why; /* its error; NULL: there was no memory for it */
};

struct ip_stub_writer *ip_stub_writer_create(struct ip_plan *plan, const struct ip_target *target,
					     struct ip_payload *payloads)
{
	struct ip_stub_writer *writer = calloc(1, sizeof(*writer));

	if (writer)
		writer->wanted =
			calloc(plan->nchanges ? plan->nchanges : 1, sizeof(*writer->wanted));
	if (!writer || !writer->wanted) {
		free(writer);
		ip_error("out of memory");
		return NULL;
	}
	writer->plan = plan;
	writer->payloads = payloads;
	writer->run.target = target;
	return writer;
}

void ip_stub_writer_destroy(struct ip_stub_writer *writer)
{
	if (!writer)
		return;
	for (size_t i = 0; i < writer->nbatches; i++)
		ip_stub_layout_clear(&writer->batches[i].layout);
	free(writer->batches);
	free(writer->wanted);
	free(writer->why);
	free(writer);
}

int ip_stub_writer_add(struct ip_stub_writer *writer, struct ip_stub_batch *batch)
{
	if (ip_array_grow(&writer->batches, writer->nbatches, sizeof(*batch)) < 0)
		return -1;
	writer->batches[writer->nbatches++] = *batch;
	batch->layout = (struct ip_stub_layout){0};
	return 0;
}

/* Fills in the live form of each site, and what stub it wants. */
static int make_live_forms(struct ip_stub_writer *writer, const struct ip_stub_batch *b)
{
	struct ip_plan *plan = writer->plan;
	const struct ip_arch *arch = writer->run.target->arch;
	const struct ip_stub_layout *map = &b->layout;
	size_t next[2] = {0}; /* in wanted: of stubs of their own, and of the others */

	for (size_t i = b->first; i < b->last; i++)
		next[1] += ip_form_has_own_stub(plan->changes[i].form);
	for (size_t i = b->first; i < b->last; i++) {
		struct ip_change *c = &plan->changes[i];
		struct wanted *want = &writer->wanted[next[!ip_form_has_own_stub(c->form)]++];
		uint32_t probe = plan->probe_of[i];
		bool values =
			plan->program_of && plan->program_of[i] && map->payload_offsets[probe];
		uint32_t offset = values ? map->payload_offsets[probe] : map->offsets[probe];

		if (plan->functions[plan->function_of[i]].jumps)
			offset = map->jump_offsets[probe];
		*want = (struct wanted){offset, i - b->first};
		if (arch->live(c->form, c->length, c->address, b->stubs + offset, c->new_bytes) < 0)
			return -1;
	}
	return 0;
}

static int write_batch(struct ip_stub_writer *writer, const struct ip_stub_batch *b)
{
	const struct ip_plan *plan = writer->plan;
	const struct ip_arch *arch = writer->run.target->arch;
	const struct ip_stub_layout *map = &b->layout;
	const struct wanted *wanted = writer->wanted;
	struct run *w = &writer->run;

	if (make_live_forms(writer, b) < 0)
		return -1;
	sort_wanted(writer->wanted, b->last - b->first);
	for (size_t i = 0; i < b->last - b->first; i++) {
		const size_t change = b->first + wanted[i].change;
		const uint64_t stub = b->stubs + wanted[i].offset;
		const struct ip_change *c = &plan->changes[change];
		const uint32_t number = plan->functions[plan->function_of[change]].number;

		if (i && wanted[i].offset == wanted[i - 1].offset)
			continue;
		if (plan->program_of && plan->program_of[change] &&
		    map->payload_offsets[plan->probe_of[change]]) {
			uint32_t payload = b->first_payload + map->payloads[plan->probe_of[change]];

			writer->payloads[payload] = (struct ip_payload){
				number, b->first_program + plan->program_of[change]};
			if (write_payload_stub(w, arch, b->pool, c, payload, stub) < 0)
				return -1;
			continue;
		}
		if (write_stub(w, arch, b->pool, c, number, stub) < 0)
			return -1;
	}
	return run_flush(w);
}

static int write_batches(struct ip_stub_writer *writer)
{
	for (size_t i = 0; i < writer->nbatches; i++)
		if (write_batch(writer, &writer->batches[i]) < 0)
			return -1;
	return 0;
}

static void *write_beside(void *context)
{
	struct ip_stub_writer *writer = context;

	writer->ret = write_batches(writer);
	if (writer->ret < 0)
		writer->why = strdup(ip_error_message());
	return NULL;
}

void ip_stub_writer_start(struct ip_stub_writer *writer)
{
	sigset_t all, before;

	if (writer->plan->nchanges <= FEW)
		return;
	sigfillset(&all); /* signals are for the main thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	writer->threaded = pthread_create(&writer->thread, NULL, write_beside, writer) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int ip_stub_writer_finish(struct ip_stub_writer *writer)
{
	if (!writer->threaded)
		return write_batches(writer);
	pthread_join(writer->thread, NULL);
	writer->threaded = false;
	if (writer->ret < 0)
		ip_error("%s", writer->why ? writer->why : "out of memory");
	return writer->ret;
}
