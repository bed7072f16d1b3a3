/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers the text that the assembler stage writes, and passes it to a sink.
 */
#ifndef COLD_STAGE_OUTPUT_H
#define COLD_STAGE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Takes size bytes. Returns false if they cannot be written: then the stage gives up. */
typedef bool stage_sink(void *context, const char *data, size_t size);

#define OUTPUT_BUFFER 65536

struct output {
	stage_sink *sink;
	void *context;
	bool failed; /* the sink failed: further output is dropped */
	size_t used;
	char buffer[OUTPUT_BUFFER];
};

void output_put(struct output *output, const char *data, size_t size);
/* Prints less than 512 bytes. */
__attribute__((format(printf, 2, 3))) void output_print(struct output *output, const char *format,
							...);
void output_flush(struct output *output);

#endif
