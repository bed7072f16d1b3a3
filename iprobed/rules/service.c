/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often a rule may record a service. See service.h.
 */
#include "iprobed/rules/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"

static bool ends_with(const char *text, size_t length, const char *end)
{
	return length > strlen(end) && !strncmp(text + length - strlen(end), end, strlen(end));
}

/* Finds the last component of a cgroup's path that is a unit: of "/user.slice/user-0.slice/
 * user@0.service/app.slice/web.service" the last. Returns its length; 0: there is none. */
static size_t find_unit(const char *cgroup, const char **ret)
{
	size_t found = 0;

	for (const char *line = cgroup; *line;) {
		const char *part = line;

		while (*part && *part != '\n') {
			size_t length = strcspn(part, "/\n");

			if (ends_with(part, length, ".service") ||
			    ends_with(part, length, ".scope")) {
				*ret = part;
				found = length;
			}
			part += length + (part[length] == '/');
		}
		if (found)
			return found;
		line = part + (*part == '\n');
	}
	return 0;
}

char *ip_rules_service_name(const struct ip_rules_process *p)
{
	const char *unit = NULL;
	size_t length = find_unit(p->cgroup, &unit);
	char *name;

	if (asprintf(&name, "%s%s%.*s", p->exe, length ? " in " : "", (int)length,
		     length ? unit : "") < 0)
		return NULL;
	/* it becomes a line of a file, and is read from there */
	for (char *c = name; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return name;
}

char *ip_rules_service_unit(const struct ip_rules_process *p)
{
	const char *unit = NULL, *begin;
	size_t length = find_unit(p->cgroup, &unit);

	if (!length)
		return strdup(p->cgroup);
	for (begin = unit; begin > p->cgroup && begin[-1] != '\n' && begin[-1] != ':';)
		begin--;
	return strndup(begin, unit + length - begin);
}

uint64_t ip_rules_service_id(const char *name)
{
	const uint64_t hash = ip_rules_hash(name);

	return hash ? hash : 1;
}

struct ip_rules_service *ip_rules_service_find(const struct ip_rules_services *s, uint64_t id)
{
	struct ip_rules_service *others = NULL;

	for (size_t i = 0; i < s->n; i++) {
		if (s->items[i].id == id)
			return &s->items[i];
		if (!s->items[i].id)
			others = &s->items[i];
	}
	return others;
}

uint64_t ip_rules_service_wait(const struct ip_rules_services *services,
			       const struct ip_rules_rule *rule, uint64_t id, uint64_t now_ns,
			       bool *ret_every)
{
	const struct ip_rules_service *s = ip_rules_service_find(services, id);
	uint64_t wait, rest = 0;

	*ret_every = false;
	if (!s)
		return 0;
	wait = ip_rules_wait(&s->history, rule->at_most, rule->per_ns, now_ns);
	if (s->fired_ns && now_ns - s->fired_ns < rule->cooldown_ns)
		rest = s->fired_ns + rule->cooldown_ns - now_ns;
	*ret_every = rest > wait;
	return rest > wait ? rest : wait;
}

/* Whether nothing that is known of the service matters any more. */
static bool is_over(const struct ip_rules_service *s, const struct ip_rules_rule *rule,
		    uint64_t now_ns)
{
	for (size_t i = 0; i < s->history.n; i++)
		if (now_ns - s->history.times[i] < rule->per_ns)
			return false;
	return !s->fired_ns || now_ns - s->fired_ns >= rule->cooldown_ns;
}

/* Returns a place for a service that is not known yet. */
static struct ip_rules_service *take_place(struct ip_rules_services *services,
					   const struct ip_rules_rule *rule, uint64_t id,
					   uint64_t now_ns)
{
	struct ip_rules_service *s = NULL;

	for (size_t i = 0; services->n >= IP_RULES_SERVICES && i < services->n && !s; i++)
		if (services->items[i].id && is_over(&services->items[i], rule, now_ns))
			s = &services->items[i];
	if (s) {
		ip_rules_history_clear(&s->history);
	} else if (services->n > IP_RULES_SERVICES) {
		return ip_rules_service_find(services, 0);
	} else {
		if (ip_array_grow(&services->items, services->n, sizeof(*services->items)) < 0)
			return NULL;
		if (services->n == IP_RULES_SERVICES)
			id = 0;
		s = &services->items[services->n++];
	}
	*s = (struct ip_rules_service){.id = id};
	return s;
}

void ip_rules_service_fired(struct ip_rules_services *services, const struct ip_rules_rule *rule,
			    uint64_t id, uint64_t now_ns)
{
	struct ip_rules_service *s = ip_rules_service_find(services, id);

	if (!s || (!s->id && id))
		s = take_place(services, rule, id, now_ns);
	if (!s)
		return;
	if (!s->fired_ns || now_ns - s->fired_ns >= rule->cooldown_ns)
		ip_rules_history_add(&s->history, now_ns);
	s->fired_ns = now_ns;
	s->told_most = s->told_every = false;
}

void ip_rules_service_failed(struct ip_rules_services *services, uint64_t id)
{
	struct ip_rules_service *s = ip_rules_service_find(services, id);

	/* what others share is not its own: one of them may have recorded meanwhile */
	if (s && s->id == id)
		s->fired_ns = 0;
}

void ip_rules_services_clear(struct ip_rules_services *services)
{
	for (size_t i = 0; i < services->n; i++)
		ip_rules_history_clear(&services->items[i].history);
	free(services->items);
	*services = (struct ip_rules_services){0};
}
