/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controllers. A controller watches a session while it lasts, and decides which functions are live
 * in it or when it ends. FPerf is a controller; so are --drop-hot and --until. The session knows
 * none of them by name: it calls the operations below for each of its controllers, one after the
 * other.
 */
#ifndef IP_CONTROLLER_H
#define IP_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/meters.h"
#include "common/trace/end_reason.h"
#include "hotpatcher/plan/selections.h"

#define IP_CONTROLLERS_MAX 4

struct ip_area;
struct ip_plan;
struct ip_session;
struct ip_target;

/* Each operation may be NULL. The session's thread calls the operations, with data. */
struct ip_session_controller {
	void *data;
	/* The name of the program that the session works for, if the session does not record. Then
	 * nothing is written to rings, and no other iprobe may change the session. NULL: the
	 * session records. */
	const char *program;
	/* At most one of a session's controllers has a chooser, and at most one has meters. */
	const struct ip_chooser *chooser;
	const struct ip_meter_kind *meters;
	/* The controller needs meters, whatever --payload asks for. */
	bool counts;
	/* Checks whether the controller works in this process. Adds to *room the bytes that it
	 * needs in each block. -1 with an error. */
	int (*check)(void *data, const struct ip_target *target, const struct ip_plan *plan,
		     uint64_t *room);
	/* Whether hooks of this controller make system calls. */
	bool (*makes_calls)(const void *data);
	/* Called when the session's area, trace, collector and meters are ready. -1 with an
	 * error. */
	int (*begin)(void *data, struct ip_session *s);
	/* Called when the functions of a plan have their numbers and are about to go live. -1 with
	 * an error. */
	int (*planned)(void *data, struct ip_session *s, const struct ip_plan *plan);
	/* Called at each step of the session's loop. IP_END_NONE: the session goes on. */
	enum ip_end_reason (*step)(void *data, struct ip_session *s);
	/* How long the session's loop may sleep, in ns. */
	uint64_t (*nap)(const void *data, uint64_t now_ns);
	/* How long the controller can do without a step, in ns, in a session that does nothing else
	 * (nap.h). NULL: it needs whole steps. */
	uint64_t (*rest)(const void *data, uint64_t now_ns);
	/* Called when the session ends. Reads everything for the last time, and fills in the
	 * summary. */
	void (*end)(void *data, struct ip_session *s);
	/* Frees data, if the session owns the controller. */
	void (*destroy)(void *data);
};

/* Adds a controller to the session. c is borrowed. Its data is destroyed with the session if c has
 * the operation destroy. */
void ip_controllers_add(struct ip_session *s, const struct ip_session_controller *c);

/* The program that the session works for; NULL: the session records. */
const char *ip_controllers_program(const struct ip_session *s);
bool ip_controllers_count(const struct ip_session *s);
const struct ip_meter_kind *ip_controllers_meters(const struct ip_session *s);

/* These call the operation of the same name for all controllers. */
int ip_controllers_check(const struct ip_session *s, const struct ip_plan *plan, uint64_t *room);
bool ip_controllers_make_calls(const struct ip_session *s);
int ip_controllers_begin(struct ip_session *s);
int ip_controllers_planned(struct ip_session *s, const struct ip_plan *plan);
/* All controllers are called. Returns the reason of the first controller that gives one. */
enum ip_end_reason ip_controllers_step(struct ip_session *s);
/* The shortest time that a controller allows; UINT64_MAX: no controller sets a limit. */
uint64_t ip_controllers_nap(const struct ip_session *s, uint64_t now_ns);
/* The same for `rest`; UINT64_MAX: some controller has none, or there is no controller. */
uint64_t ip_controllers_rest(const struct ip_session *s, uint64_t now_ns);
void ip_controllers_end(struct ip_session *s);
void ip_controllers_destroy(struct ip_session *s);

#endif
