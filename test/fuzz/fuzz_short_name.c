/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short forms of names: any bytes as a demangled name, and what the demangler makes of them. The
 * form is never longer than the name, and no longer with a smaller limit.
 *
 * covers: common/names/short_name.c
 */
#include "common/names/short_name.h"
#include "common/selection/selection.h"
#include "fuzz.h"

static void check(const char *name)
{
	char *whole = ip_short_name(name, SIZE_MAX),
	     *shorter = ip_short_name(name, IP_SHORT_NAME_LIMIT), *least = ip_short_name(name, 0),
	     *bare = ip_name_without_templates(name);

	fuzz_assert(whole && shorter && least && bare);
	fuzz_assert(strlen(whole) <= strlen(name) && strlen(shorter) <= strlen(whole));
	fuzz_assert(strlen(least) <= strlen(shorter));
	fuzz_assert(strlen(bare) <= strlen(name));
	fuzz_assert(ip_name_scope_length(name) <= strlen(name));
	fuzz_assert(strlen(whole) > IP_SHORT_NAME_LIMIT || !strcmp(whole, shorter));
	free(whole);
	free(shorter);
	free(least);
	free(bare);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *name;

	fuzz_assert(text);
	check(text);
	name = ip_demangle(text, size && data[0] & 1);
	fuzz_assert(name);
	check(name);
	free(name);
	free(text);
	return 0;
}
