/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the stubs of a plan's sites into the target. Numbers and places of the stubs are known
 * before (stubs.c), and no site leads there yet. So where there are many stubs, a thread of iprobe
 * writes them, while the trace is told of the functions.
 */
#ifndef IP_STUB_WRITER_H
#define IP_STUB_WRITER_H

#include "common/abi/values.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/plan/stub_layout.h"

/* The sites of one module. */
struct ip_stub_batch {
	size_t first, last;   /* changes [first, last) of the plan */
	uint64_t stubs, pool; /* addresses */
	struct ip_stub_layout layout;
	uint32_t first_payload, first_program; /* numbers; for values only */
};

struct ip_stub_writer;

/* payloads: of the area. All is borrowed until ip_stub_writer_destroy(). NULL with an error: out of
 * memory. */
struct ip_stub_writer *ip_stub_writer_create(struct ip_plan *plan, const struct ip_target *target,
					     struct ip_payload *payloads);
/* Not between start and finish. */
void ip_stub_writer_destroy(struct ip_stub_writer *writer);

/* Adds a module's sites. Takes the batch's layout, unless it fails. 0, or -1 with an error. */
int ip_stub_writer_add(struct ip_stub_writer *writer, struct ip_stub_batch *batch);

/* Begins to write, if that is worth a thread. From now on until it is finished, changes and
 * payloads belong to the writer, and nobody may change functions of the plan. */
void ip_stub_writer_start(struct ip_stub_writer *writer);

/* Waits until all stubs are written, and the live forms of all sites filled in; writes them if no
 * thread does. 0, or -1 with the reason. */
int ip_stub_writer_finish(struct ip_stub_writer *writer);

#endif
