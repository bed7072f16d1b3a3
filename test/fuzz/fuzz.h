/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every libFuzzer harness includes.
 *
 * A harness is a file fuzz_NAME.c here. A line "covers: PATH ..." in its comment names the sources
 * of the parser that it is for (from the top of the tree); test/fuzz/run finds it by that, and
 * measures how much of those sources its corpus reaches. Seeds come from make_corpus*.py; inputs
 * that crashed once lie in corpus/NAME/.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise of the parser that was not kept: a finding like a crash. */
#define fuzz_assert(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__,          \
				#condition);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* The same file each time, without a name, holding data. */
static inline int fuzz_file(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	fuzz_assert(fd >= 0);
	fuzz_assert(ftruncate(fd, 0) == 0);
	fuzz_assert(pwrite(fd, data, size, 0) == (ssize_t)size);
	return fd;
}

/* Each refusal comes with one line. */
static inline void fuzz_check_error(void)
{
	const char *line = ip_error_message();

	fuzz_assert(*line);
	for (; *line; line++)
		fuzz_assert((unsigned char)*line >= 0x20 && *line != 0x7f);
	ip_error("%s", "");
}

#endif
