/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the assembler stage has written, on its way to a sink.
 */
#ifndef COLD_STAGE_OUTPUT_H
#define COLD_STAGE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Takes size bytes; false: they cannot be written, give up. */
typedef bool stage_sink(void *context, const char *data, size_t size);

#define OUTPUT_BUFFER 65536

struct output {
	stage_sink *sink;
	void *context;
	bool failed; /* the sink gave up: what follows is dropped */
	size_t used;
	char buffer[OUTPUT_BUFFER];
};

void output_put(struct output *output, const char *data, size_t size);
/* Less than 512 bytes. */
__attribute__((format(printf, 2, 3))) void output_print(struct output *output, const char *format,
							...);
void output_flush(struct output *output);

#endif
