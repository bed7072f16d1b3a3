/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: has PAPI come up where there is no PMU, by telling it that libpfm4's PMU "perf" (the
 * kernel's own events) is the processor's. What it counts then is real.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <perfmon/pfmlib.h>
#include <string.h>

pfm_err_t pfm_get_pmu_info(pfm_pmu_t pmu, pfm_pmu_info_t *info)
{
	static pfm_err_t (*next)(pfm_pmu_t, pfm_pmu_info_t *);
	pfm_err_t error;

	if (!next)
		next = (pfm_err_t(*)(pfm_pmu_t, pfm_pmu_info_t *))dlsym(RTLD_NEXT,
									"pfm_get_pmu_info");
	error = next(pmu, info);
	if (error == PFM_SUCCESS && info->name && !strcmp(info->name, "perf")) {
		info->type = PFM_PMU_TYPE_CORE;
		info->num_cntrs = 8;
	} else if (error == PFM_SUCCESS && info->type == PFM_PMU_TYPE_CORE) {
		/* libpfm4 knows the processor, and the kernel has no PMU: PAPI takes one core PMU
		 * alone */
		info->is_present = 0;
	}
	return error;
}
