/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers in the tables of fperf.
 */
#ifndef IP_FPERF_NUMBER_H
#define IP_FPERF_NUMBER_H

/* Makes "1.23M"; "-" of what is no number. buffer has at least 16 bytes. Returns it. */
const char *fperf_short_number(double n, char *buffer);

/* The same, of a mean. One that is near 0 and lies within its interval has no more decimals than
 * the interval: the others mean nothing. */
const char *fperf_short_mean(double mean, double ci, char *buffer);

#endif
