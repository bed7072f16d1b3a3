/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics that follow from several events.
 */
#include <math.h>
#include <string.h>

#include "cli/fperf/fperf.h"
#include "common/print.h"

struct metric {
	const char *name;
	const char *upper[3], *lower[3]; /* of each list, the first event that is counted */
	double factor;
	double most; /* limit of the value; 0: none */
};

static const struct metric metrics[] = {
	{"IPC", {"PAPI_TOT_INS", "perf::INSTRUCTIONS"}, {"PAPI_TOT_CYC", "perf::CYCLES"}, 1},
	{"L1-MPKI", {"PAPI_L1_DCM"}, {"PAPI_TOT_INS", "perf::INSTRUCTIONS"}, 1000},
	{"L2-MPKI", {"PAPI_L2_DCM", "PAPI_L2_TCM"}, {"PAPI_TOT_INS", "perf::INSTRUCTIONS"}, 1000},
	{"LLC-MPKI",
	 {"PAPI_L3_TCM", "perf::CACHE-MISSES"},
	 {"PAPI_TOT_INS", "perf::INSTRUCTIONS"},
	 1000},
	{"TLB-MPKI", {"PAPI_TLB_DM"}, {"PAPI_TOT_INS", "perf::INSTRUCTIONS"}, 1000},
	{"BR-MPKI",
	 {"PAPI_BR_MSP", "perf::BRANCH-MISSES"},
	 {"PAPI_TOT_INS", "perf::INSTRUCTIONS"},
	 1000},
	/* the share of a call's time in which the thread had a CPU */
	{"CPU", {"perf::TASK-CLOCK"}, {"tsc::CYCLES"}, 1, 1},
};

#define NMETRICS (sizeof(metrics) / sizeof(*metrics))

/* Returns the index of the first of the events that is counted; -1: none is counted. */
static int find(const struct ip_fperf_options *o, const char *const *names)
{
	for (unsigned i = 0; i < 3 && names[i]; i++)
		for (unsigned e = 0; e < o->nevents; e++)
			if (!strcmp(o->events[e]->name, names[i]))
				return e;
	return -1;
}

static bool applies(struct ip_fperf *f, const struct metric *m)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);

	return find(o, m->upper) >= 0 && find(o, m->lower) >= 0;
}

/* Converts a value so that both parts of a quotient have the same unit. */
static double in_units(struct ip_fperf *f, const struct ip_fperf_event *e, double value)
{
	struct ip_fperf_summary sum;

	if (e->source != IP_FPERF_TSC)
		return value;
	ip_fperf_summary(f, &sum);
	return value * sum.ns_per_tick;
}

/* Returns NAN where the value is not known. */
static double value_of(struct ip_fperf *f, const struct metric *m, const struct ip_fperf_row *row)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);
	int upper = find(o, m->upper), lower = find(o, m->lower);
	double by;

	if (row->samples <= row->missing[upper] || row->samples <= row->missing[lower])
		return NAN;
	by = in_units(f, o->events[lower], row->mean[lower]);
	if (!(by > 0))
		return NAN;
	by = m->factor * in_units(f, o->events[upper], row->mean[upper]) / by;
	/* more than the limit means that reading the upper event took longer than reading the
	 * lower one */
	return m->most && by > m->most ? m->most : by;
}

void fperf_derived_header(FILE *out, struct ip_fperf *f)
{
	for (size_t i = 0; i < NMETRICS; i++)
		if (applies(f, &metrics[i]))
			ip_print(out, " %9s", metrics[i].name);
}

void fperf_derived_cells(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *row)
{
	for (size_t i = 0; i < NMETRICS; i++) {
		double value = applies(f, &metrics[i]) ? value_of(f, &metrics[i], row) : 0;

		if (!applies(f, &metrics[i]))
			continue;
		if (isnan(value))
			ip_print(out, " %9s", "-");
		else
			ip_print(out, " %9.3g", value);
	}
}

void fperf_derived_csv_header(struct ip_csv *csv, struct ip_fperf *f)
{
	for (size_t i = 0; i < NMETRICS; i++)
		if (applies(f, &metrics[i]))
			ip_csv_string(csv, metrics[i].name);
}

void fperf_derived_csv(struct ip_csv *csv, struct ip_fperf *f, const struct ip_fperf_row *row)
{
	for (size_t i = 0; i < NMETRICS; i++)
		if (applies(f, &metrics[i]))
			ip_csv_double(csv, !isnan(value_of(f, &metrics[i], row)),
				      value_of(f, &metrics[i], row));
}

void fperf_derived_json(struct ip_json *j, struct ip_fperf *f, const struct ip_fperf_row *row)
{
	ip_json_object(j, "derived");
	for (size_t i = 0; i < NMETRICS; i++)
		if (applies(f, &metrics[i]))
			ip_json_double(j, metrics[i].name, value_of(f, &metrics[i], row));
	ip_json_end_object(j);
}
