/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controllers of a session. See controller.h.
 */
#include "session/controller.h"

#include <assert.h>

#include "session/session_private.h"

void ip_controllers_add(struct ip_session *s, const struct ip_session_controller *c)
{
	assert(s->ncontrollers < IP_CONTROLLERS_MAX);
	s->controllers[s->ncontrollers++] = c;
	if (c->chooser) {
		assert(!s->selections.chooser);
		s->selections.chooser = c->chooser;
	}
}

const char *ip_controllers_program(const struct ip_session *s)
{
	for (size_t i = 0; i < s->ncontrollers; i++)
		if (s->controllers[i]->program)
			return s->controllers[i]->program;
	return NULL;
}

bool ip_controllers_count(const struct ip_session *s)
{
	for (size_t i = 0; i < s->ncontrollers; i++)
		if (s->controllers[i]->counts)
			return true;
	return false;
}

const struct ip_meter_kind *ip_controllers_meters(const struct ip_session *s)
{
	for (size_t i = 0; i < s->ncontrollers; i++)
		if (s->controllers[i]->meters)
			return s->controllers[i]->meters;
	return NULL;
}

int ip_controllers_check(const struct ip_session *s, const struct ip_plan *plan, uint64_t *room)
{
	for (size_t i = 0; i < s->ncontrollers; i++) {
		const struct ip_session_controller *c = s->controllers[i];

		if (c->check && c->check(c->data, s->target, plan, room) < 0)
			return -1;
	}
	return 0;
}

bool ip_controllers_make_calls(const struct ip_session *s)
{
	for (size_t i = 0; i < s->ncontrollers; i++)
		if (s->controllers[i]->makes_calls &&
		    s->controllers[i]->makes_calls(s->controllers[i]->data))
			return true;
	return false;
}

int ip_controllers_begin(struct ip_session *s)
{
	for (size_t i = 0; i < s->ncontrollers; i++)
		if (s->controllers[i]->begin &&
		    s->controllers[i]->begin(s->controllers[i]->data, s) < 0)
			return -1;
	return 0;
}

int ip_controllers_planned(struct ip_session *s, const struct ip_plan *plan)
{
	for (size_t i = 0; i < s->ncontrollers; i++)
		if (s->controllers[i]->planned &&
		    s->controllers[i]->planned(s->controllers[i]->data, s, plan) < 0)
			return -1;
	return 0;
}

enum ip_end_reason ip_controllers_step(struct ip_session *s)
{
	enum ip_end_reason first = IP_END_NONE;

	for (size_t i = 0; i < s->ncontrollers; i++) {
		const struct ip_session_controller *c = s->controllers[i];
		enum ip_end_reason reason = c->step ? c->step(c->data, s) : IP_END_NONE;

		if (!first)
			first = reason;
	}
	return first;
}

uint64_t ip_controllers_nap(const struct ip_session *s, uint64_t now_ns)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < s->ncontrollers; i++) {
		const struct ip_session_controller *c = s->controllers[i];
		uint64_t nap = c->nap ? c->nap(c->data, now_ns) : UINT64_MAX;

		least = nap < least ? nap : least;
	}
	return least;
}

uint64_t ip_controllers_rest(const struct ip_session *s, uint64_t now_ns)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < s->ncontrollers; i++) {
		const struct ip_session_controller *c = s->controllers[i];
		uint64_t rest = c->rest ? c->rest(c->data, now_ns) : UINT64_MAX;

		if (rest == UINT64_MAX)
			return UINT64_MAX;
		least = rest < least ? rest : least;
	}
	return least;
}

void ip_controllers_end(struct ip_session *s)
{
	for (size_t i = 0; i < s->ncontrollers; i++)
		if (s->controllers[i]->end)
			s->controllers[i]->end(s->controllers[i]->data, s);
}

void ip_controllers_destroy(struct ip_session *s)
{
	while (s->ncontrollers) {
		const struct ip_session_controller *c = s->controllers[--s->ncontrollers];

		if (c->destroy)
			c->destroy(c->data);
	}
}
