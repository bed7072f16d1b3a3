/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf as the controller of a session. It takes all selected functions, has its own kind of
 * meters, and takes functions out and in.
 */
#include "fperf/fperf_private.h"
#include "session/session_private.h"

static enum ip_verdict judge(const void *data, const struct ip_module *module, uint32_t function)
{
	return ip_fperf_is_out(data, module, function) ? IP_VERDICT_RESTS : IP_VERDICT_TAKEN;
}

static int place(void *data, const struct ip_plan_function *function)
{
	return ip_fperf_place(data, function);
}

static int follow(void *data, const struct ip_plan *plan)
{
	return ip_fperf_follow(data, plan);
}

static bool release(void *data, uint32_t block)
{
	return ip_fperf_release(data, block);
}

static void keep(void *data, uint32_t block)
{
	ip_fperf_keep(data, block);
}

static int check(void *data, const struct ip_target *target, const struct ip_plan *plan,
		 uint64_t *room)
{
	return ip_fperf_check(data, target, plan, room);
}

static bool makes_calls(const void *data)
{
	return ip_fperf_makes_calls(data);
}

static int begin(void *data, struct ip_session *s)
{
	return ip_fperf_begin(data, s->area);
}

static enum ip_end_reason step(void *data, struct ip_session *s)
{
	ip_fperf_turn(data, s);
	return IP_END_NONE;
}

static uint64_t nap(const void *data, uint64_t now_ns)
{
	return ip_fperf_nap(data, now_ns);
}

static void end(void *data, struct ip_session *s)
{
	ip_fperf_end(data);
}

void ip_fperf_set_controller(struct ip_fperf *f)
{
	f->chooser = (struct ip_chooser){.data = f,
					 .judge = judge,
					 .duty = IP_DUTY_FPERF,
					 .calls_only = true,
					 .exclusive = f->options.exclusive};
	f->meters = (struct ip_meter_kind){
		.data = f, .place = place, .follow = follow, .release = release, .keep = keep};
	f->controller = (struct ip_session_controller){.data = f,
						       .program = "fperf",
						       .counts = true,
						       .chooser = &f->chooser,
						       .meters = &f->meters,
						       .check = check,
						       .makes_calls = makes_calls,
						       .begin = begin,
						       .step = step,
						       .nap = nap,
						       .end = end};
}

const struct ip_session_controller *ip_fperf_controller(const struct ip_fperf *f)
{
	return &f->controller;
}
