/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps values of open calls. Memory of one call serves for the next one of that number.
 */
#include "analysis/darc/values/open_values.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"
#include "common/trace/trace_format.h"

int ip_kept_values_set(struct ip_kept_values *kept, const uint64_t *payload)
{
	const size_t size = payload ? (1 + (size_t)IP_PAYLOAD_N(payload[0])) * sizeof(*payload) : 0;

	kept->size = 0;
	if (size > kept->room) {
		free(kept->words);
		kept->words = malloc(size);
		kept->room = kept->words ? size : 0;
		if (!kept->words)
			return ip_error("out of memory");
	}
	if (size)
		memcpy(kept->words, payload, size);
	kept->size = size;
	return 0;
}

const uint64_t *ip_kept_values_get(const struct ip_kept_values *kept)
{
	return kept->size ? kept->words : NULL;
}

int ip_open_values_enter(struct ip_open_values *values, uint32_t number, const uint64_t *payload)
{
	if (!number)
		return 0;
	values->innermost = number;
	if (number > values->most)
		return 0;
	while (values->n < number) {
		if (ip_array_grow(&values->calls, values->n, sizeof(*values->calls)) < 0)
			return -1;
		values->calls[values->n++] = (struct ip_open_call){0};
	}
	values->calls[number - 1].npoints = 0;
	return ip_kept_values_set(&values->calls[number - 1].entry, payload);
}

int ip_open_values_point(struct ip_open_values *values, uint32_t function, const uint64_t *payload)
{
	struct ip_open_call *call;
	size_t i = 0;

	if (!payload || !values->innermost || values->innermost > values->n ||
	    values->innermost > values->most)
		return 0;
	call = &values->calls[values->innermost - 1];
	while (i < call->npoints && call->points[i].function != function)
		i++;
	if (i == IP_OPEN_POINTS_MOST)
		return 0;
	if (i == call->made) {
		if (ip_array_grow(&call->points, call->made, sizeof(*call->points)) < 0)
			return -1;
		call->points[call->made++] = (struct ip_kept_values){0};
	}
	call->points[i].function = function;
	call->npoints = i == call->npoints ? i + 1 : call->npoints;
	return ip_kept_values_set(&call->points[i], payload);
}

void ip_open_values_leave(struct ip_open_values *values, uint32_t number)
{
	if (number)
		values->innermost = number - 1;
}

const struct ip_open_call *ip_open_values_of(const struct ip_open_values *values, uint32_t number)
{
	return number && number <= values->n ? &values->calls[number - 1] : NULL;
}

void ip_open_values_clear(struct ip_open_values *values)
{
	for (size_t i = 0; i < values->n; i++) {
		for (size_t k = 0; k < values->calls[i].made; k++)
			free(values->calls[i].points[k].words);
		free(values->calls[i].points);
		free(values->calls[i].entry.words);
	}
	free(values->calls);
	*values = (struct ip_open_values){0};
}
