/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often a rule may record a service, and how long it rests in between.
 *
 * A service is what a rule's limits are counted for: the processes that run the same executable in
 * the same unit of systemd, or just the same executable where they are in no unit. So the workers
 * of a server share the limits, and other servers do not.
 *
 * An episode begins when the rule fires for a service that it has not recorded for the rule's
 * cool-down (every). All that fires until then belongs to it. at_most counts episodes. Without a
 * cool-down each firing is one.
 *
 * Whoever may start processes can make any number of services. So a rule remembers a bounded number
 * of them; what comes beyond that while none can be forgotten counts as one service together.
 */
#ifndef IP_RULES_SERVICE_H
#define IP_RULES_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/rule.h"
#include "iprobed/rules/match.h"
#include "iprobed/rules/rate_limit.h"

#define IP_RULES_SERVICES 64u

struct ip_rules_service {
	uint64_t id;			 /* 0: all services that have found no room */
	struct ip_rules_history history; /* when its episodes began */
	uint64_t fired_ns;		 /* the last time; 0: never, or nothing was recorded then */
	bool told_most, told_every;
};

/* What one rule knows of services; all zero at first. */
struct ip_rules_services {
	struct ip_rules_service *items;
	size_t n;
};

/* Returns the name of the process's service: "/usr/sbin/nginx in nginx.service". The caller frees
 * it. NULL: out of memory. */
char *ip_rules_service_name(const struct ip_rules_process *process);
/* Returns the path of the process's unit: "/system.slice/nginx.service"; if it is in none, all that
 * is known of its control groups. The caller frees it. NULL: out of memory. */
char *ip_rules_service_unit(const struct ip_rules_process *process);
/* Returns what stands for a name in the functions below; never 0. */
uint64_t ip_rules_service_id(const char *name);

/* Returns the nanoseconds from now until the rule may fire for the service again; 0: it may fire
 * now. *ret_every: what keeps it is the cool-down, not at_most. */
uint64_t ip_rules_service_wait(const struct ip_rules_services *services,
			       const struct ip_rules_rule *rule, uint64_t id, uint64_t now_ns,
			       bool *ret_every);

/* Returns what is known of the service; NULL: nothing. Valid until the next call of the function
 * below. */
struct ip_rules_service *ip_rules_service_find(const struct ip_rules_services *services,
					       uint64_t id);

/* The rule has fired for the service. Without memory it is forgotten. */
void ip_rules_service_fired(struct ip_rules_services *services, const struct ip_rules_rule *rule,
			    uint64_t id, uint64_t now_ns);
/* What it fired for has not been recorded: there is no cool-down after it. */
void ip_rules_service_failed(struct ip_rules_services *services, uint64_t id);

void ip_rules_services_clear(struct ip_rules_services *services);

#endif
