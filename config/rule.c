/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a rule, key by key. See rule.h.
 */
#include "config/rule.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/condition.h"
#include "common/error.h"
#include "common/trace/kernel_format.h"
#include "common/units.h"
#include "common/values/value_request.h"
#include "config/probes_d.h"
#include "config/probes_d_values.h"
#include "config/rule_search.h"

#define AT_MOST	    10u /* per hour: the default for a condition that may hold for a long time */
#define AT_MOST_PER 3600000000000ull
#define MOST_BYTES  1e15
#define MOST_CPU    1e6 /* per cent of one CPU */

static const char *const rule_keys[] = {"description", "enabled", "match",   "when",	 "do",
					"for",	       "every",	  "at_most", "overhead", "disk",
					"processes",   "record",  "kernel",  NULL};
static const char *const match_keys[] = {"exe", "cmdline", "user", "cgroup", "unit", NULL};
static const char *const when_keys[] = {"start",   "every",  "cpu",	"memory", "pressure",
					"latency", "signal", "request", NULL};
static const char *const latency_keys[] = {"functions", "p50", "p90",	"p95",	"p99", "p999",
					   "mean",	"max", "calls", "over", NULL};
static const char *const measures[] = {"p50",  "p90", "p95",   "p99", "p999",
				       "mean", "max", "calls", NULL};
static const char *const do_keys[] = {"trace", "hist", "fperf", "snapshot", "darc", NULL};
#define REQUESTS_MAX 8u /* of args, of retval, of when: each is a word of a command line */

static const char *const trace_keys[] = {"functions", "args", "retval", "when", "memory", NULL};
static const char *const hist_keys[] = {"functions", NULL};
static const char *const fperf_keys[] = {"profile", NULL};
static const char *const snapshot_keys[] = {"functions", "args", "retval", "memory", NULL};
static const char *const pressure_names[] = {
	[IP_RULES_PRESSURE_CPU] = "cpu",	 [IP_RULES_PRESSURE_MEMORY] = "memory",
	[IP_RULES_PRESSURE_IO] = "io",		 [IP_RULES_PRESSURE_MEMORY_FULL] = "memory_full",
	[IP_RULES_PRESSURE_IO_FULL] = "io_full", [IP_RULES_PRESSURES] = NULL,
};
static const struct {
	const char *name;
	int number;
} signals[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}};

const char *ip_rules_action_name(enum ip_rules_action action)
{
	return do_keys[action];
}

const char *ip_rules_pressure_name(enum ip_rules_pressure pressure)
{
	return pressure_names[pressure];
}

bool ip_rules_has_level(const struct ip_rules_rule *rule)
{
	bool has = rule->cpu.set || rule->memory.set;

	for (unsigned i = 0; i < IP_RULES_PRESSURES; i++)
		has |= rule->pressure[i].set;
	return has;
}

bool ip_rules_watches(const struct ip_rules_rule *rule)
{
	return rule->until || rule->action == IP_RULES_SNAPSHOT;
}

static int add_text(struct ip_rules_texts *texts, const char *text)
{
	if (ip_array_grow(&texts->items, texts->n, sizeof(*texts->items)) < 0)
		return -1;
	texts->items[texts->n] = strdup(text);
	if (!texts->items[texts->n])
		return ip_error("out of memory");
	texts->n++;
	return 0;
}

/* Reads one text, or a list of texts. */
static int read_texts(const struct ip_yaml_document *document, const struct ip_yaml *map,
		      const char *key, struct ip_rules_texts *ret)
{
	const struct ip_yaml *node = ip_yaml_get(map, key);
	size_t n = node && node->kind == IP_YAML_LIST ? node->n : 1;

	if (node && !n)
		return ip_yaml_error(document, node, "%s is empty", key);
	for (size_t i = 0; node && i < n; i++) {
		const char *text = ip_yaml_text(
			document, node->kind == IP_YAML_LIST ? node->items[i] : node, key);

		if (!text || add_text(ret, text) < 0)
			return -1;
	}
	return 0;
}

static int read_match(const struct ip_yaml_document *document, const struct ip_yaml *map,
		      struct ip_rules_rule *ret)
{
	if (ip_yaml_check_map(document, map, "match", match_keys) < 0 ||
	    read_texts(document, map, "exe", &ret->exe) < 0 ||
	    read_texts(document, map, "cmdline", &ret->cmdline) < 0 ||
	    read_texts(document, map, "user", &ret->user) < 0 ||
	    read_texts(document, map, "cgroup", &ret->cgroup) < 0 ||
	    read_texts(document, map, "unit", &ret->unit) < 0)
		return -1;
	return map->n ? 0
		      : ip_yaml_error(document, map,
				      "match names no process: exe, cmdline, user, cgroup or unit");
}

static int read_bool(const struct ip_yaml_document *document, const struct ip_yaml *map,
		     const char *key, bool *ret)
{
	const struct ip_yaml *node = ip_yaml_get(map, key);

	return node ? ip_yaml_bool(document, node, key, ret) : 0;
}

/* Notes what of '> 50 for 5' has no unit. */
static void note_level(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       const char *key, enum ip_rules_unit unit, const struct ip_rules_level *level)
{
	const char *text = node->text + strspn(node->text, "> \t"), *last = strrchr(text, ' ');
	const size_t length = strcspn(text, " \t");
	_cleanup_free_ char *value = strndup(text, length), *what = NULL;

	if (value && unit == IP_RULES_BYTES && asprintf(&what, "the level of %s", key) >= 0)
		ip_probes_note_size(document, node, what, value, level->limit);
	if (last && level->for_ns)
		ip_probes_note_duration(document, node, "how long", last + 1, level->for_ns);
}

static int read_level(const struct ip_yaml_document *document, const struct ip_yaml *map,
		      const char *key, enum ip_rules_unit unit, double most,
		      struct ip_rules_level *ret)
{
	const struct ip_yaml *node = ip_yaml_get(map, key);
	const char *text = node ? ip_yaml_text(document, node, key) : NULL;

	if (!text)
		return node ? -1 : 0;
	if (ip_rules_level_parse(text, unit, most, ret) < 0)
		return ip_probes_error_at(document, node, key);
	note_level(document, node, key, unit, ret);
	return 0;
}

/* Turns { functions: F, p99: '> 10ms', over: 1s } into a text that --until takes. */
static int read_latency(const struct ip_yaml_document *document, const struct ip_yaml *map,
			struct ip_rules_rule *ret)
{
	const struct ip_yaml *functions, *node = NULL, *over;
	const char *measure = NULL, *limit, *while_ = "1s";
	struct ip_condition condition;
	_cleanup_free_ char *check = NULL;
	uint64_t over_ns = IP_CONDITION_OVER_MIN;
	char is[24];

	if (ip_yaml_check_map(document, map, "latency", latency_keys) < 0)
		return -1;
	functions = ip_yaml_get(map, "functions");
	if (!functions)
		return ip_yaml_error(document, map,
				     "latency of which functions? functions is missing");
	if (ip_probes_join(document, functions, "functions", ip_probes_check_selection,
			   &ret->latency) < 0)
		return -1;
	for (size_t i = 0; measures[i]; i++)
		if (ip_yaml_get(map, measures[i])) {
			if (node)
				return ip_yaml_error(document, ip_yaml_get(map, measures[i]),
						     "%s and %s: one of them", measure,
						     measures[i]);
			node = ip_yaml_get(map, measure = measures[i]);
		}
	if (!node)
		return ip_yaml_error(document, map, "latency has no limit, such as p99: '> 10ms'");
	limit = ip_yaml_text(document, node, measure);
	if (!limit)
		return -1;
	if (*limit != '>')
		return ip_yaml_error(document, node, "%s is written as '> %s'", measure,
				     strcmp(measure, "calls") ? "10ms" : "1000");
	limit += 1 + strspn(limit + 1, " \t");
	over = ip_yaml_get(map, "over");
	if (over && !(while_ = ip_yaml_text(document, over, "over")))
		return -1;
	if (limit[strcspn(limit, "/: \t\n")] || while_[strcspn(while_, "/: \t\n")])
		return ip_yaml_error(document, limit[strcspn(limit, "/: \t\n")] ? node : over,
				     "a number and its unit, such as %s",
				     strcmp(measure, "calls") ? "10ms" : "1000");
	if (over && ip_parse_duration(while_, &over_ns) < 0)
		return ip_probes_error_at(document, over, "over");
	if (over_ns < IP_CONDITION_OVER_MIN || over_ns > IP_CONDITION_OVER_MAX)
		return ip_yaml_error(document, over, "over: latency is judged over 100ms to 60s");
	/* names of selections are looked up after all files have been read; until then the check
	 * uses x */
	if (asprintf(&check, "%s>%s/%s:x", measure, limit, while_) < 0) {
		check = NULL;
		return ip_error("out of memory");
	}
	if (ip_condition_parse(check, &condition) < 0)
		return ip_probes_error_at(document, node, measure);
	if (condition.bare)
		ip_yaml_note(document, node,
			     "%s: the limit is %s, since it has no unit (10ms, 20us)", measure,
			     ip_format_duration(condition.limit, is));
	if (over)
		ip_probes_note_duration(document, over, "over", while_, over_ns);
	ret->limit_ns = condition.measure == IP_CONDITION_RATE ? 0 : condition.limit;
	ip_condition_clear(&condition);
	if (asprintf(&ret->until, "%s>%s/%s:%s", measure, limit, while_, ret->latency) < 0) {
		ret->until = NULL;
		return ip_error("out of memory");
	}
	return 0;
}

static int read_pressure(const struct ip_yaml_document *document, const struct ip_yaml *map,
			 struct ip_rules_rule *ret)
{
	if (ip_yaml_check_map(document, map, "pressure", pressure_names) < 0)
		return -1;
	for (unsigned i = 0; i < IP_RULES_PRESSURES; i++)
		if (read_level(document, map, pressure_names[i], IP_RULES_PERCENT, 100,
			       &ret->pressure[i]) < 0)
			return -1;
	return map->n ? 0 : ip_yaml_error(document, map, "pressure of what? cpu, memory or io");
}

static int read_signal(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       int *ret)
{
	const char *text = ip_yaml_text(document, node, "signal");

	for (size_t i = 0; text && i < sizeof(signals) / sizeof(*signals); i++)
		if (!strcmp(text + (strncmp(text, "SIG", 3) ? 0 : 3), signals[i].name)) {
			*ret = signals[i].number;
			return 0;
		}
	return text ? ip_yaml_error(
			      document, node,
			      "signal is USR1 or USR2 (HUP has the files read again), not '%.32s'",
			      text)
		    : -1;
}

static int read_when(const struct ip_yaml_document *document, const struct ip_yaml *map,
		     struct ip_rules_rule *ret)
{
	const struct ip_yaml *node;

	if (map->kind == IP_YAML_SCALAR && !strcmp(map->text, "start"))
		return ret->start = true, 0;
	if (map->kind == IP_YAML_SCALAR && !strcmp(map->text, "request"))
		return ret->request = true, 0;
	if (ip_yaml_check_map(document, map, "when", when_keys) < 0 ||
	    read_bool(document, map, "start", &ret->start) < 0 ||
	    read_bool(document, map, "request", &ret->request) < 0 ||
	    ip_probes_duration(document, map, "every", &ret->every_ns) < 0 ||
	    read_level(document, map, "cpu", IP_RULES_PERCENT, MOST_CPU, &ret->cpu) < 0 ||
	    read_level(document, map, "memory", IP_RULES_BYTES, MOST_BYTES, &ret->memory) < 0)
		return -1;
	node = ip_yaml_get(map, "every");
	if (node && ret->every_ns < IP_RULES_EVERY_MIN)
		return ip_yaml_error(document, node, "every second at the most");
	if ((node = ip_yaml_get(map, "pressure")) && read_pressure(document, node, ret) < 0)
		return -1;
	if ((node = ip_yaml_get(map, "latency")) && read_latency(document, node, ret) < 0)
		return -1;
	if ((node = ip_yaml_get(map, "signal")) && read_signal(document, node, &ret->signal) < 0)
		return -1;
	/* "start: false" is not a condition */
	return map->n > 2 * ((ip_yaml_get(map, "start") && !ret->start) +
			     (ip_yaml_get(map, "request") && !ret->request))
		       ? 0
		       : ip_yaml_error(document, map,
				       "when is never: start, every, cpu, memory, pressure, "
				       "latency, signal or request");
}

static int read_size(const struct ip_yaml_document *document, const struct ip_yaml *map,
		     const char *key, uint64_t least, uint64_t *ret)
{
	const struct ip_yaml *node = ip_yaml_get(map, key);
	const char *text = node ? ip_yaml_text(document, node, key) : NULL;
	char size[16];

	if (!text)
		return node ? -1 : 0;
	if (ip_parse_size(text, ret) < 0)
		return ip_probes_error_at(document, node, key);
	if (*ret >= least)
		ip_probes_note_size(document, node, key, text, *ret);
	return *ret >= least ? 0
			     : ip_yaml_error(document, node, "%s: %s at least", key,
					     ip_format_size(least, size));
}

/* Reads the requests of args, retval or when: one, or a list of them. A map has `true` in the place
 * of a request where all values of all functions are meant: *ret_all; NULL: that is not possible.
 */
static int read_requests(const struct ip_yaml_document *document, const struct ip_yaml *map,
			 const char *key, enum ip_value_request_kind kind, bool *ret_all,
			 struct ip_rules_texts *ret)
{
	const struct ip_yaml *node = ip_yaml_get(map, key), *const only[] = {node};
	const struct ip_yaml *const *items = node && node->kind == IP_YAML_LIST
						     ? (const struct ip_yaml *const *)node->items
						     : only;
	size_t n = !node ? 0 : node->kind == IP_YAML_LIST ? node->n : 1;
	struct ip_value_requests requests = {0};
	int done = 0;

	if (node && ret_all && node->kind == IP_YAML_SCALAR && !ip_value_request_is(node->text))
		return ip_yaml_bool(document, node, key, ret_all);
	if (n > REQUESTS_MAX)
		return ip_yaml_error(document, node, "%s has more than %u items", key,
				     REQUESTS_MAX);
	for (size_t i = 0; i < n && done == 0; i++) {
		const char *text = ip_yaml_text(document, items[i], key);

		if (!text)
			done = -1;
		else if (ip_value_requests_add(&requests, kind, text) < 0)
			done = ip_probes_error_at(document, items[i], key);
		else
			done = add_text(ret, text);
	}
	ip_value_requests_clear(&requests);
	return done;
}

/* Reads the value of trace, hist, fperf, snapshot or darc. It is a map, or only its most important
 * part: the functions, or the profile of fperf. */
static int read_action(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       struct ip_rules_rule *ret)
{
	static const char *const *const keys[] = {[IP_RULES_TRACE] = trace_keys,
						  [IP_RULES_HIST] = hist_keys,
						  [IP_RULES_FPERF] = fperf_keys,
						  [IP_RULES_SNAPSHOT] = snapshot_keys};
	const char *what = do_keys[ret->action];
	const struct ip_yaml *functions;

	if (node->kind != IP_YAML_MAP && ret->action == IP_RULES_FPERF) {
		const char *profile = ip_yaml_text(document, node, "fperf");

		ret->profile = profile ? strdup(profile) : NULL;
		return ret->profile ? 0 : profile ? ip_error("out of memory") : -1;
	}
	if (node->kind != IP_YAML_MAP)
		return ip_probes_join(document, node, what, ip_probes_check_selection,
				      &ret->functions);
	if (ret->action == IP_RULES_DARC)
		return ip_rules_search_read(document, node, ret) < 0
			       ? -1
			       : read_size(document, node, "memory", 1u << 20, &ret->ring);
	if (ret->action == IP_RULES_SNAPSHOT && ip_yaml_get(node, "when"))
		return ip_yaml_error(document, ip_yaml_get(node, "when"),
				     "a flight recorder (iprobe attach --overwrite) takes no "
				     "filters: leave when out, or record with do: trace");
	if (ip_yaml_check_map(document, node, what, keys[ret->action]) < 0 ||
	    ip_probes_text(document, node, "profile", &ret->profile) < 0 ||
	    read_requests(document, node, "args", IP_REQUEST_ARGS, &ret->args, &ret->args_of) < 0 ||
	    read_requests(document, node, "retval", IP_REQUEST_RETVAL, &ret->retval,
			  &ret->retval_of) < 0 ||
	    read_requests(document, node, "when", IP_REQUEST_WHEN, NULL, &ret->when) < 0 ||
	    read_size(document, node, "memory", 1u << 20, &ret->ring) < 0)
		return -1;
	functions = ip_yaml_get(node, "functions");
	return functions ? ip_probes_join(document, functions, "functions",
					  ip_probes_check_selection, &ret->functions)
			 : 0;
}

static int read_do(const struct ip_yaml_document *document, const struct ip_yaml *node,
		   struct ip_rules_rule *ret)
{
	const char *name = node->kind == IP_YAML_SCALAR		       ? node->text
			   : node->kind == IP_YAML_MAP && node->n == 2 ? node->items[0]->text
								       : NULL;

	if (node->kind == IP_YAML_MAP && ip_yaml_check_map(document, node, "do", do_keys) < 0)
		return -1;
	for (unsigned i = 0; name && do_keys[i]; i++)
		if (!strcmp(do_keys[i], name)) {
			ret->action = i;
			return node->kind == IP_YAML_MAP
				       ? read_action(document, node->items[1], ret)
				       : 0;
		}
	return ip_yaml_error(document, node, "do is one of trace, hist, fperf, snapshot and darc");
}

static int read_record(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       bool *ret)
{
	const char *text = ip_yaml_text(document, node, "record");

	if (!text)
		return -1;
	*ret = !strcmp(text, "service");
	return *ret || !strcmp(text, "process")
		       ? 0
		       : ip_yaml_error(document, node, "record is process or service, not '%.32s'",
				       text);
}

/* Turns [sched, syscalls], or true, into a text that --kernel takes. Unless the rule needs the
 * events ("required"), it records without them where they cannot be had. */
static int read_kernel(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       char **ret)
{
	const size_t n = node->kind == IP_YAML_LIST ? node->n : 1;
	char text[128] = "";
	bool optional = true, all = true;
	unsigned groups;

	if (!n)
		return ip_yaml_error(document, node, "kernel is empty");
	if (node->kind == IP_YAML_SCALAR &&
	    (!strcmp(node->text, "true") || !strcmp(node->text, "false"))) {
		if (!strcmp(node->text, "false"))
			return 0;
		*ret = strdup("optional");
		return *ret ? 0 : ip_error("out of memory");
	}
	for (size_t i = 0; i < n; i++) {
		const struct ip_yaml *item = node->kind == IP_YAML_LIST ? node->items[i] : node;
		const char *name = ip_yaml_text(document, item, "kernel");
		size_t used = strlen(text);

		if (!name)
			return -1;
		if (!strcmp(name, "required")) {
			optional = false;
			continue;
		}
		if (strchr(name, ',') || ip_kernel_groups_parse(name, &groups) < 0 ||
		    used + strlen(name) + 2 > sizeof(text) - sizeof(",optional"))
			return ip_yaml_error(document, item,
					     "kernel is true, or a list of sched, syscalls, irq, "
					     "faults, block, all and required, not '%.32s'",
					     name);
		snprintf(text + used, sizeof(text) - used, "%s%s", used ? "," : "", name);
		all = false;
	}
	if (asprintf(ret, "%s%s", all ? IP_KERNEL_USUAL : text, optional ? ",optional" : "") >= 0)
		return 0;
	*ret = NULL;
	return ip_error("out of memory");
}

static int read_overhead(const struct ip_yaml_document *document, const struct ip_yaml *node,
			 double *ret)
{
	const char *text = ip_yaml_text(document, node, "overhead");
	char *end;

	if (!text)
		return -1;
	*ret = strtod(text, &end);
	return *text >= '0' && *text <= '9' && !strcmp(end, "%") && isfinite(*ret) && *ret > 0 &&
			       *ret <= 100
		       ? 0
		       : ip_yaml_error(document, node,
				       "overhead is a share of run time such as 1%%, not '%.64s'",
				       text);
}

static int read_limits(const struct ip_yaml_document *document, const struct ip_yaml *map,
		       struct ip_rules_rule *ret)
{
	const struct ip_yaml *node;
	const char *text;
	uint64_t n;

	if (ip_probes_duration(document, map, "for", &ret->for_ns) < 0)
		return -1;
	if (ret->for_ns > IP_RULES_FOR_MOST)
		return ip_yaml_error(document, ip_yaml_get(map, "for"), "for is an hour at most");
	if (ip_probes_duration(document, map, "every", &ret->cooldown_ns) < 0)
		return -1;
	if ((node = ip_yaml_get(map, "at_most"))) {
		text = ip_yaml_text(document, node, "at_most");
		if (!text)
			return -1;
		if (ip_rules_rate_parse(text, &ret->at_most, &ret->per_ns) < 0)
			return ip_probes_error_at(document, node, "at_most");
		ip_probes_note_duration(document, node, "the time of at_most",
					strstr(text, "per") + 3, ret->per_ns);
	}
	if ((node = ip_yaml_get(map, "overhead")) &&
	    read_overhead(document, node, &ret->overhead_percent) < 0)
		return -1;
	if (read_size(document, map, "disk", IP_RULES_DISK_MIN, &ret->disk) < 0)
		return -1;
	if ((node = ip_yaml_get(map, "record")) && read_record(document, node, &ret->service) < 0)
		return -1;
	if ((node = ip_yaml_get(map, "kernel")) && read_kernel(document, node, &ret->kernel) < 0)
		return -1;
	if (!(node = ip_yaml_get(map, "processes")))
		return 0;
	text = ip_yaml_text(document, node, "processes");
	if (!text)
		return -1;
	if (text[strspn(text, "0123456789")] || ip_parse_size(text, &n) < 0 || !n || n > 1000)
		return ip_yaml_error(document, node, "processes is a number from 1 to 1000");
	ret->processes = n;
	return 0;
}

/* Refuses settings that exclude each other. The error is reported at the key that must be
 * changed. */
static int check(const struct ip_yaml_document *document, const struct ip_yaml *map,
		 const struct ip_rules_rule *r)
{
	if (r->action == IP_RULES_SNAPSHOT && r->overhead_percent > 0)
		return ip_yaml_error(document, ip_yaml_get(map, "overhead"),
				     "a flight recorder records all the time: choose functions "
				     "that are not called too often instead");
	if (r->service && r->action == IP_RULES_SNAPSHOT && r->until)
		return ip_yaml_error(
			document, ip_yaml_get(map, "record"),
			"a flight recorder that watches a latency writes its own "
			"process's trace: record: service goes with do: trace, or with "
			"another condition");
	if (r->kernel && r->action != IP_RULES_TRACE && r->action != IP_RULES_DARC)
		return ip_yaml_error(document, ip_yaml_get(map, "kernel"),
				     "events of the kernel are recorded beside those of functions: "
				     "kernel goes with do: trace, or do: darc");
	if (r->action == IP_RULES_DARC && ip_rules_search_check(document, map, r) < 0)
		return -1;
	if (r->action == IP_RULES_FPERF && r->overhead_percent > 0 &&
	    r->overhead_percent < IP_PROFILE_BUDGET_LEAST)
		return ip_yaml_error(document, ip_yaml_get(map, "overhead"),
				     "fperf's budget is %g%% at least", IP_PROFILE_BUDGET_LEAST);
	if (r->action == IP_RULES_FPERF && !r->profile)
		return ip_yaml_error(document, ip_yaml_get(map, "do"),
				     "fperf by which profile? 'fperf: NAME'");
	if (r->ring > r->disk / 2)
		return ip_yaml_error(
			document, ip_yaml_get(map, "do"),
			"memory is more than half of disk: what it holds could not be kept");
	return 0;
}

int ip_rules_read(const struct ip_yaml_document *document, const struct ip_yaml *key,
		  const struct ip_yaml *map, struct ip_rules_rule *ret)
{
	static const char *const needed[] = {"match", "when", "do"};
	bool lasts;

	*ret = (struct ip_rules_rule){.name = strdup(key->text),
				      .file = strdup(document->name),
				      .line = key->line,
				      .column = key->column,
				      .enabled = true,
				      .for_ns = IP_RULES_FOR,
				      .disk = IP_RULES_DISK,
				      .processes = IP_RULES_PROCESSES};
	if (!ret->name || !ret->file)
		return ip_error("out of memory");
	if (ip_yaml_check_map(document, map, "a rule", rule_keys) < 0 ||
	    ip_probes_text(document, map, "description", &ret->description) < 0 ||
	    read_bool(document, map, "enabled", &ret->enabled) < 0)
		return -1;
	for (unsigned i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (!ip_yaml_get(map, needed[i]))
			return ip_yaml_error(document, key, "the rule '%s' has no %s", key->text,
					     needed[i]);
	if (read_match(document, ip_yaml_get(map, "match"), ret) < 0 ||
	    read_when(document, ip_yaml_get(map, "when"), ret) < 0 ||
	    read_do(document, ip_yaml_get(map, "do"), ret) < 0 ||
	    read_limits(document, map, ret) < 0 || check(document, map, ret) < 0)
		return -1;
	if (ret->action == IP_RULES_DARC && !ip_yaml_get(map, "for"))
		ret->for_ns = IP_RULES_SEARCH_FOR;
	lasts = ret->until || ret->start || ip_rules_has_level(ret);
	if (lasts && !ret->at_most) {
		ret->at_most = AT_MOST;
		ret->per_ns = AT_MOST_PER;
	}
	return 0;
}

static void clear_texts(struct ip_rules_texts *texts)
{
	for (size_t i = 0; i < texts->n; i++)
		free(texts->items[i]);
	free(texts->items);
}

void ip_rules_rule_clear(struct ip_rules_rule *r)
{
	struct ip_rules_texts *texts[] = {&r->exe,  &r->cmdline, &r->cgroup,	&r->unit,
					  &r->user, &r->args_of, &r->retval_of, &r->when};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		clear_texts(texts[i]);
	free(r->name);
	free(r->description);
	free(r->until);
	free(r->latency);
	free(r->functions);
	free(r->profile);
	free(r->kernel);
	free(r->search.percentile);
	free(r->search.maxcount_percentage);
	free(r->file);
	*r = (struct ip_rules_rule){0};
}
