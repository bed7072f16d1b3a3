/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the site monitor knows of sites and functions, and their repair. site_monitor.h describes
 * the steps.
 */
#ifndef IP_SITE_MONITOR_PRIVATE_H
#define IP_SITE_MONITOR_PRIVATE_H

#include "hotpatcher/patch/patch.h"
#include "session/monitor/site_monitor.h"

struct ip_monitor_site {
	uint64_t address;
	uint8_t live[IP_SITE_MAX];
	uint32_t function;
	int32_t jump; /* ip_probe_jump() */
	/* 1 + pages from where its module starts to its own page, if dlclose may unload the module;
	 * 0: it may not */
	uint32_t pages;
	uint8_t length, form, transit_regs;
};

_Static_assert(sizeof(struct ip_monitor_site) == 32, "a session has millions of them");

/* Where the site's module starts, if dlclose may unload that; 0: it may not. */
static inline uint64_t ip_monitor_library(const struct ip_monitor_site *s)
{
	return s->pages ? ((s->address >> 12) - (s->pages - 1)) << 12 : 0;
}

struct ip_monitor_function {
	uint32_t name; /* the linker's name: where it begins in the text of all names */
	uint32_t number;
	bool off;	   /* its sites are idle, since another tool has changed one */
	bool suspect;	   /* all its sites are to be looked at */
	bool pending;	   /* it was suspect, and has not been settled since */
	bool disturbed;	   /* counted in the summary */
	bool late;	   /* has idle sites in a library, which an update must make live */
	bool removed;	   /* not selected any more: what is ours becomes idle and stays so */
	uint64_t seen_tsc; /* when its sites were last seen as they must be */
	uint64_t wait_ns, back_ns;
	uint64_t ask_ns; /* late: when to ask for an update again */
};

struct ip_monitor_piece {
	size_t first, end; /* indexes of sites */
	uint64_t seen_tsc;
};

struct ip_site_monitor {
	struct ip_target *target;
	struct ip_area *area;
	uint64_t max_stop_ns;
	struct ip_monitor_site *sites; /* sorted by address */
	size_t nsites;
	struct ip_monitor_function *functions;
	size_t nfunctions, noff;
	char *names; /* in the order of the functions, each with a zero */
	size_t names_size;
	struct ip_monitor_piece *pieces;
	size_t npieces, at;
	uint8_t *text;
	uint64_t next_ns, told_ns;
	bool late;  /* any function is late */
	bool wants; /* the next answer of ip_site_monitor_wants_update() */
	struct ip_site_monitor_summary summary;
};

/* Step 2, for all suspect functions: none is suspect afterwards. What a stop took is in the result;
 * trace may be NULL. */
struct ip_patch_result ip_site_repair(struct ip_site_monitor *monitor, struct ip_trace *trace);

/* Step 4: calls of the function are missing until then. trace may be NULL. */
void ip_monitor_missing(struct ip_site_monitor *monitor, struct ip_monitor_function *function,
			uint64_t until, struct ip_trace *trace);

#endif
