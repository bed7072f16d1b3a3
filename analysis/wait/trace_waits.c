/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the kernel's events tell.
 */
#include "analysis/wait/trace_waits.h"

#include <stdio.h>
#include <stdlib.h>

#include "analysis/wait/descriptors/descriptor_births.h"
#include "analysis/wait/descriptors/inherited.h"
#include "common/error.h"

static uint32_t pid_of(const void *ids, int32_t tid, uint64_t tsc)
{
	return ip_machine_ids_pid(ids, tid, tsc);
}

int ip_trace_descriptors_read(const char *dir, const struct ip_states *states,
			      const struct ip_machine_ids *ids, struct ip_descriptors *ret)
{
	if (ip_descriptors_read(dir, ret) < 0)
		return -1;
	ip_descriptors_end(ret, states->closings, states->nclosings, pid_of, ids);
	ret->inherited = ip_inherited_create(ids, states);
	ret->births = ret->inherited ? ip_descriptor_births_create(states, pid_of, ids) : NULL;
	return ret->births ? 0 : -1;
}

static struct ip_states *read_events(struct ip_kernel_reader *reader, struct ip_interrupts *ret)
{
	struct ip_interrupt_observer observer;
	const struct ip_kernel_observer also = {ip_interrupt_observer_take, &observer};
	struct ip_states *states;

	ip_interrupt_observer_begin(&observer, ret);
	states = ip_states_read_with(reader, &also);
	ip_interrupt_observer_end(&observer);
	return states;
}

int ip_trace_waits_read(struct ip_trace_reader *trace, bool interrupts, struct ip_trace_waits **ret)
{
	struct ip_kernel_reader *reader = NULL;
	int got = ip_kernel_reader_open(trace->dir, &reader);
	struct ip_trace_waits *w;

	*ret = NULL;
	if (got <= 0)
		return got;
	w = calloc(1, sizeof(*w));
	if (!w) {
		ip_kernel_reader_close(reader);
		return ip_error("out of memory");
	}
	w->reader = reader;
	if (ip_kernel_reader_use_jobs(reader, trace->jobs) == 0)
		w->states =
			interrupts ? read_events(reader, &w->interrupts) : ip_states_read(reader);
	w->damage = ip_kernel_reader_damage(reader);
	w->ids = w->states ? ip_machine_ids_create(trace, w->states) : NULL;
	if (w->ids &&
	    ip_trace_descriptors_read(trace->dir, w->states, w->ids, &w->descriptors) == 0)
		w->names = ip_object_names_create(trace->session);
	if (!w->names) {
		ip_trace_waits_destroy(w);
		return -1;
	}
	*ret = w;
	return 1;
}

void ip_trace_waits_destroy(struct ip_trace_waits *w)
{
	if (!w)
		return;
	ip_interrupts_clear(&w->interrupts);
	ip_object_names_destroy(w->names);
	ip_descriptors_clear(&w->descriptors);
	ip_machine_ids_destroy(w->ids);
	ip_states_destroy(w->states);
	ip_kernel_reader_close(w->reader);
	free(w);
}

char *ip_trace_waits_object(struct ip_trace_waits *w, const struct ip_wait_object *object)
{
	char *text;

	if (asprintf(&text, "%s:%s", ip_wait_kind_name(object->kind),
		     ip_object_name(w->names, object)) < 0) {
		ip_error("out of memory");
		return NULL;
	}
	return text;
}
