/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controllers: who looks at a session while it lasts, and decides what is live in it or when it
 * ends. FPerf is one, and so are --drop-hot and --until. The session knows none of them by name: it
 * calls the operations below, of each of its controllers in turn.
 */
#ifndef IP_CONTROLLER_H
#define IP_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/meters.h"
#include "common/trace/end_reason.h"
#include "hotpatcher/plan/selections.h"

#define IP_CONTROLLERS_MAX 3

struct ip_area;
struct ip_plan;
struct ip_session;
struct ip_target;

/* Each operation may be NULL. The session's thread calls them, with data. */
struct ip_session_controller {
	void *data;
	/* The program that the session is for, where it is not for recording: nothing is written to
	 * rings then, and nobody else may change it. NULL: the session records. */
	const char *program;
	/* Of one of the controllers only. */
	const struct ip_chooser *chooser;
	const struct ip_meter_kind *meters;
	/* It needs meters, whatever was asked for with --payload. */
	bool counts;
	/* Whether it works in this process; adds to *room what it needs in each block. -1 with an
	 * error. */
	int (*check)(void *data, const struct ip_target *target, const struct ip_plan *plan,
		     uint64_t *room);
	/* Whether its hooks make system calls. */
	bool (*makes_calls)(const void *data);
	/* The session's area, trace, collector and meters are ready. -1 with an error. */
	int (*begin)(void *data, struct ip_session *s);
	/* The functions of a plan have their numbers, and are about to go live. -1 with an error.
	 */
	int (*planned)(void *data, struct ip_session *s, const struct ip_plan *plan);
	/* At each step of the session's loop. IP_END_NONE: the session goes on. */
	enum ip_end_reason (*step)(void *data, struct ip_session *s);
	/* How long the session's loop may sleep, ns. */
	uint64_t (*nap)(const void *data, uint64_t now_ns);
	/* The session ends: reads everything for the last time, and fills in the summary. */
	void (*end)(void *data, struct ip_session *s);
	/* Of a controller that belongs to the session. */
	void (*destroy)(void *data);
};

/* One more. c is borrowed; its data is destroyed with the session, where it has an operation for
 * that. */
void ip_controllers_add(struct ip_session *s, const struct ip_session_controller *c);

/* The program that the session is for; NULL: it records. */
const char *ip_controllers_program(const struct ip_session *s);
bool ip_controllers_count(const struct ip_session *s);
const struct ip_meter_kind *ip_controllers_meters(const struct ip_session *s);

/* The operations, of all. */
int ip_controllers_check(const struct ip_session *s, const struct ip_plan *plan, uint64_t *room);
bool ip_controllers_make_calls(const struct ip_session *s);
int ip_controllers_begin(struct ip_session *s);
int ip_controllers_planned(struct ip_session *s, const struct ip_plan *plan);
/* The reason of the first that has one; all are called. */
enum ip_end_reason ip_controllers_step(struct ip_session *s);
/* The shortest of theirs; UINT64_MAX: none has a limit. */
uint64_t ip_controllers_nap(const struct ip_session *s, uint64_t now_ns);
void ip_controllers_end(struct ip_session *s);
void ip_controllers_destroy(struct ip_session *s);

#endif
