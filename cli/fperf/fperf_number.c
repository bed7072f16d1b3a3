/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms the numbers of fperf's tables.
 */
#include "cli/fperf/fperf_number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *fperf_short_number(double n, char *buffer)
{
	static const char *const units[] = {"", "k", "M", "G", "T", "P"};
	unsigned unit = 0;

	if (isnan(n))
		return strcpy(buffer, "-");
	while (fabs(n) >= 999.5 && unit + 1 < sizeof(units) / sizeof(*units)) {
		n /= 1000;
		unit++;
	}
	snprintf(buffer, 16, !unit && n == floor(n) ? "%.0f" : "%.3g", n);
	return strcat(buffer, units[unit]);
}

const char *fperf_short_mean(double mean, double ci, char *buffer)
{
	const int decimals = ci > 0 && ci < 999.5 ? 2 - (int)floor(log10(ci)) : 0;

	if (!(fabs(mean) < 0.001) || fabs(mean) >= ci || !(ci >= 1e-6))
		return fperf_short_number(mean, buffer);
	if (decimals <= 0 || fabs(mean) < 0.5 * pow(10, -decimals))
		return strcpy(buffer, "0");
	snprintf(buffer, 16, "%.*f", decimals, mean);
	return buffer;
}
