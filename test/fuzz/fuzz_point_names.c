/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a point's values: any text of any number of arguments. A name is one word of a
 * signature, and none is there twice. The first byte is the number of arguments.
 *
 * covers: common/elf/point_names.c
 */
#include "common/elf/point_names.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ip_point_names names;
	const unsigned n = size ? data[0] % (IP_POINT_ARGS_MAX + 1) : 0;
	char *text = strndup(size ? (const char *)data + 1 : "", size ? size - 1 : 0);

	fuzz_assert(text);
	ip_point_names_make(text, n, &names);
	for (unsigned i = 0; i < IP_POINT_ARGS_MAX; i++) {
		const char *name = names.names[i];

		fuzz_assert(strnlen(name, IP_POINT_NAME_MAX + 1) <= IP_POINT_NAME_MAX);
		fuzz_assert(i < n || !*name);
		for (const char *p = name; *p; p++)
			fuzz_assert((unsigned char)*p > ' ' && *p != 0x7f && !strchr("{}=,\"", *p));
		for (unsigned k = 0; k < i && *name; k++)
			fuzz_assert(strcmp(names.names[k], name) != 0);
	}
	free(text);
	return 0;
}
