/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libiprobe-papi.so: what PAPI and libpfm4 know.
 *
 * PAPI knows of which native events of this processor a preset is made. libpfm4 knows the
 * numbers of a native event for perf_event_open(2), even where PAPI does not support the
 * processor (PAPI needs a PMU).
 */
#include "cli/fperf/papi_names.h"

#include <papi.h>
#include <perfmon/pfmlib_perf_event.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_ready(char *why, size_t size)
{
	static int papi = -1, pfm = -1;

	if (papi < 0) {
		papi = PAPI_library_init(PAPI_VER_CURRENT);
		pfm = pfm_initialize();
	}
	if (papi == PAPI_VER_CURRENT && pfm == PFM_SUCCESS)
		return true;
	snprintf(why, size, "PAPI does not come up: %s",
		 papi == PAPI_VER_CURRENT ? pfm_strerror(pfm)
					  : "PAPI_library_init fails, or is of another version");
	return false;
}

/* Returns whether the event happens in the kernel, whichever process causes it. */
static bool is_of_the_kernel(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE &&
	       (attr->config == PERF_COUNT_SW_CONTEXT_SWITCHES ||
		attr->config == PERF_COUNT_SW_CPU_MIGRATIONS ||
		attr->config == 11 /* PERF_COUNT_SW_CGROUP_SWITCHES */);
}

/* Encodes a native event. Returns the error of libpfm4. */
static int encode(const char *name, struct ip_pmu_counter *ret, int *ret_index)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	pfm_perf_encode_arg_t arg = {.attr = &attr, .size = sizeof(arg)};
	int error = pfm_get_os_event_encoding(name, PFM_PLM3, PFM_OS_PERF_EVENT_EXT, &arg);

	if (error != PFM_SUCCESS)
		return error;
	*ret = (struct ip_pmu_counter){.type = attr.type,
				       .config = attr.config,
				       .config1 = attr.config1,
				       .config2 = attr.config2,
				       .exclude = (attr.exclude_user ? IP_PMU_NO_USER : 0) |
						  (attr.exclude_kernel ? IP_PMU_NO_KERNEL : 0) |
						  (attr.exclude_hv ? IP_PMU_NO_HV : 0)};
	if (is_of_the_kernel(&attr))
		ret->exclude = 0;
	*ret_index = arg.idx;
	return PFM_SUCCESS;
}

static int find_native(const char *name, struct papi_event *ret, char *why, size_t size)
{
	pfm_event_info_t info = {.size = sizeof(info)};
	int index, error = encode(name, &ret->counters[0], &index);

	if (error == PFM_ERR_NOTFOUND)
		return 0;
	if (error != PFM_SUCCESS) {
		snprintf(why, size, "libpfm4: %s", pfm_strerror(error));
		return -1;
	}
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	ret->ncounters = 1;
	if (pfm_get_event_info(index, PFM_OS_NONE, &info) == PFM_SUCCESS)
		snprintf(ret->what, sizeof(ret->what), "%s", info.desc ? info.desc : "");
	return 1;
}

static int say(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
	return -1;
}

/* Returns why PAPI counts nothing of the processor. */
static const char *hindrance(void)
{
	for (int i = 0; i < PAPI_num_components(); i++) {
		const PAPI_component_info_t *c = PAPI_get_component_info(i);

		if (c && !strcmp(c->name, "perf_event") && c->disabled)
			return c->disabled_reason;
	}
	return "this processor has no events that make it";
}

/* Writes the formula by which PAPI computes the event from its counters. */
static int write_formula(const PAPI_event_info_t *info, char *ret, size_t size)
{
	const char *way = info->derived;
	bool subtracts = !strcmp(way, "DERIVED_SUB"),
	     divides = !strcmp(way, "DERIVED_PS") || !strcmp(way, "DERIVED_ADD_PS");
	unsigned first = divides ? 1 : 0;
	size_t n;

	if (!strcmp(way, "DERIVED_POSTFIX") ||
	    !strcmp(way, "DERIVED_INFIX")) /* PAPI has rewritten DERIVED_INFIX as postfix */
		return snprintf(ret, size, "%s", info->postfix) < (int)size && *ret ? 0 : -1;
	if (info->count == 1 && !divides) {
		*ret = '\0';
		return 0;
	}
	/* the other codes belong to the same counter */
	if (!strcmp(way, "DERIVED_CMPD"))
		return snprintf(ret, size, "N0|") < 0 ? -1 : 0;
	if (!subtracts && !divides && strcmp(way, "DERIVED_ADD") != 0)
		return -1;
	if (info->count <= first)
		return -1;
	n = snprintf(ret, size, "N%u|", first);
	for (unsigned i = first + 1; i < info->count && n < size; i++)
		n += snprintf(ret + n, size - n, "N%u|%c|", i, subtracts ? '-' : '+');
	/* the cycles of a second, divided by the cycles */
	if (divides && n < size)
		n += snprintf(ret + n, size - n, "#|*|N0|/|");
	return n < size ? 0 : -1;
}

/* Translates PAPI's description of an event. Returns 1, or -1 and the reason in why. */
static int translate(const PAPI_event_info_t *info, struct papi_event *ret, char *why, size_t size)
{
	int index;

	snprintf(ret->name, sizeof(ret->name), "%.127s", info->symbol);
	snprintf(ret->what, sizeof(ret->what), "%.511s", info->long_descr);
	ret->ncounters = 0;
	if (!info->count) {
		snprintf(why, size, "PAPI: %s", hindrance());
		return -1;
	}
	if (info->count > IP_PMU_COUNTERS)
		return say(why, size, "PAPI makes it of more counters than a sample can read");
	if (write_formula(info, ret->formula, sizeof(ret->formula)) < 0) {
		snprintf(why, size, "PAPI makes it in a way that is not known here (%.60s)",
			 info->derived);
		return -1;
	}
	ret->hz = PAPI_get_hardware_info() ? PAPI_get_hardware_info()->cpu_max_mhz * 1e6 : 0;
	for (unsigned i = 0; i < info->count; i++) {
		int error = encode(info->name[i], &ret->counters[i], &index);

		if (error != PFM_SUCCESS) {
			snprintf(why, size, "libpfm4 does not know %.80s, of which PAPI makes it",
				 info->name[i]);
			return -1;
		}
		snprintf(ret->parts[i], sizeof(ret->parts[i]), "%.127s", info->name[i]);
	}
	ret->ncounters = info->count;
	return 1;
}

static int find(const char *name, struct papi_event *ret, char *why, size_t size)
{
	PAPI_event_info_t info;
	char upper[128];
	int code;

	if (!is_ready(why, size))
		return -1;
	*ret = (struct papi_event){0};
	if (strncasecmp(name, "PAPI_", 5) != 0)
		return find_native(name, ret, why, size);
	snprintf(upper, sizeof(upper), "%s", name);
	for (char *c = upper; *c; c++)
		*c = *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c;
	if (PAPI_event_name_to_code(upper, &code) != PAPI_OK ||
	    PAPI_get_event_info(code, &info) != PAPI_OK)
		return 0;
	return translate(&info, ret, why, size);
}

static void each_preset(void (*visit)(void *context, const struct papi_event *event,
				      const char *why_not),
			void *context)
{
	int code = (int)PAPI_PRESET_MASK;

	if (PAPI_enum_event(&code, PAPI_ENUM_FIRST) != PAPI_OK)
		return;
	do {
		PAPI_event_info_t info;
		struct papi_event event = {0};
		char why[400] = "";

		if (PAPI_get_event_info(code, &info) == PAPI_OK)
			visit(context, &event,
			      translate(&info, &event, why, sizeof(why)) > 0 ? NULL : why);
	} while (PAPI_enum_event(&code, PAPI_ENUM_EVENTS) == PAPI_OK);
}

static void each_native(void (*visit)(void *context, const struct papi_event *event,
				      const char *why_not),
			void *context)
{
	for (int i = PFM_PMU_NONE; i < PFM_PMU_MAX; i++) {
		pfm_pmu_info_t pmu = {.size = sizeof(pmu)};

		if (pfm_get_pmu_info(i, &pmu) != PFM_SUCCESS || !pmu.is_present)
			continue;
		for (int k = pmu.first_event; k >= 0; k = pfm_get_event_next(k)) {
			pfm_event_info_t info = {.size = sizeof(info)};
			struct papi_event event = {0};
			char name[128], why[256] = "";

			if (pfm_get_event_info(k, PFM_OS_NONE, &info) != PFM_SUCCESS)
				continue;
			snprintf(name, sizeof(name), "%s::%s", pmu.name, info.name);
			if (find_native(name, &event, why, sizeof(why)) <= 0) {
				snprintf(event.name, sizeof(event.name), "%s", name);
				snprintf(event.what, sizeof(event.what), "%s",
					 info.desc ? info.desc : "");
			}
			visit(context, &event,
			      event.ncounters ? NULL
			      : *why	      ? why
					      : "it takes a unit mask (perf list tells which)");
		}
	}
}

static void each(bool natives,
		 void (*visit)(void *context, const struct papi_event *event, const char *why_not),
		 void *context)
{
	char why[400];

	if (!is_ready(why, sizeof(why)))
		return;
	if (natives)
		each_native(visit, context);
	else
		each_preset(visit, context);
}

static int fail(const char *what, int error, char *why, size_t size)
{
	snprintf(why, size, "%s: %s", what,
		 error == PAPI_ENOCMP || error == PAPI_ENOEVNT ? hindrance()
							       : PAPI_strerror(error));
	return -1;
}

static int count(const char *const *names, unsigned n, void (*work)(void *), void *context,
		 long long *values, char *why, size_t size)
{
	int set = PAPI_NULL, error;

	if (!is_ready(why, size))
		return -1;
	error = PAPI_create_eventset(&set);
	for (unsigned i = 0; i < n && error == PAPI_OK; i++) {
		error = PAPI_add_named_event(set, names[i]);
		if (error != PAPI_OK)
			fail(names[i], error, why, size);
	}
	if (error == PAPI_OK && (error = PAPI_start(set)) != PAPI_OK)
		fail("PAPI_start", error, why, size);
	if (error == PAPI_OK) {
		long long after[IP_FPERF_EVENTS] = {0};

		work(context);
		error = n <= IP_FPERF_EVENTS ? PAPI_read(set, values) : PAPI_EINVAL;
		PAPI_stop(set, after);
		if (error != PAPI_OK)
			fail("PAPI_read", error, why, size);
	}
	if (set != PAPI_NULL) {
		PAPI_cleanup_eventset(set);
		PAPI_destroy_eventset(&set);
	}
	return error == PAPI_OK ? 0 : -1;
}

__attribute__((visibility("default"))) extern const struct papi_names iprobe_papi_names;
const struct papi_names iprobe_papi_names = {
	.abi = PAPI_NAMES_ABI,
	.version = IP_PAPI_VERSION,
	.find = find,
	.each = each,
	.count = count,
};
