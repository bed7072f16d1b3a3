/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the states of a site apart. See site_state.h.
 */
#include "hotpatcher/patch/site_state.h"

#include <string.h>

#include "common/elf/probe_list.h"

#define PAGE_SIZE 4096u

/* Whether the address is in the mapping into which the kernel's calls for uprobes lead. */
static bool is_uprobe_trampoline(const struct ip_target *target, uint64_t address)
{
	const struct ip_mapping *m = ip_maps_find(&target->maps, address);

	return m && !strcmp(m->path, "[uprobes-trampoline]");
}

enum ip_site_state ip_site_state_of_form(const struct ip_target *target, unsigned form,
					 unsigned length, unsigned transit_regs, int32_t jump,
					 uint64_t address, const uint8_t *bytes)
{
	const struct ip_arch *arch = target->arch;
	unsigned boundary = PAGE_SIZE - address % PAGE_SIZE;
	uint8_t idle[IP_SITE_MAX], live[IP_SITE_MAX], whole[IP_SITE_MAX], transit[IP_SITE_MAX];
	uint64_t called;
	unsigned n;

	if (arch->idle(form, length, jump, idle) < 0)
		return IP_SITE_FOREIGN;
	if (!memcmp(bytes, idle, length)) /* mostly: a program has up to millions of them */
		return IP_SITE_IDLE;
	if (arch->live(form, length, address, address, live) < 0)
		return IP_SITE_FOREIGN;
	if (arch->live_target(form, length, address, bytes, &called)) {
		if (ip_target_is_stub(target, called))
			return IP_SITE_LIVE;
		if (is_uprobe_trampoline(target, called))
			return IP_SITE_KERNEL;
	} else if (arch->live_target(IP_FORM_CALL, 5, address, bytes, &called) &&
		   is_uprobe_trampoline(target, called)) {
		return IP_SITE_KERNEL; /* a call in a site whose own form is a jump */
	}
	/* there is nothing between the two jumps of form TAIL: another jump is another program's */
	if (boundary < length && form != IP_FORM_TAIL) {
		n = arch->transit(form, transit_regs, length, boundary, transit);
		if (n && !memcmp(bytes, transit, n))
			return IP_SITE_TRANSIT;
	}
	if (bytes[0] == arch->trap && !memcmp(bytes + 1, idle + 1, length - 1))
		return IP_SITE_TRAPPED_IDLE;
	/* what the site would be without the foreign first byte */
	memcpy(whole, bytes, length);
	whole[0] = live[0];
	if ((bytes[0] == arch->trap || bytes[0] == idle[0]) &&
	    arch->live_target(form, length, address, whole, &called) &&
	    ip_target_is_stub(target, called))
		return bytes[0] == arch->trap ? IP_SITE_TRAPPED_LIVE : IP_SITE_ORPHAN;
	return IP_SITE_FOREIGN;
}

enum ip_site_state ip_site_state(const struct ip_target *target, const struct ip_arch *arch,
				 const struct ip_pl_probe *probe, uint64_t address,
				 const uint8_t *bytes)
{
	return ip_site_state_of_form(target, probe->form, probe->length,
				     ip_probe_transit_regs(probe), ip_probe_jump(probe), address,
				     bytes);
}

const char *ip_site_state_name(enum ip_site_state state)
{
	switch (state) {
	case IP_SITE_IDLE:
		return "idle";
	case IP_SITE_LIVE:
	case IP_SITE_TRANSIT:
		return "live";
	case IP_SITE_ORPHAN:
		return "what a uprobe left behind that came and went";
	case IP_SITE_TRAPPED_LIVE:
	case IP_SITE_TRAPPED_IDLE:
		return "a uprobe's or debugger's breakpoint";
	case IP_SITE_KERNEL:
		return "a uprobe's call";
	default:
		return "something else";
	}
}
