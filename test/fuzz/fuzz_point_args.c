/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of where a point's arguments are: any text. What it takes is written and read again.
 *
 * covers: common/elf/point_args.c
 */
#include "common/elf/point_args.h"
#include "fuzz.h"

static bool same(const struct ip_point_arg *a, const struct ip_point_arg *b)
{
	return a->operand == b->operand && a->size == b->size && a->base == b->base &&
	       a->index == b->index && a->scale == b->scale && a->is_signed == b->is_signed &&
	       a->is_string == b->is_string && a->is_pointer == b->is_pointer &&
	       a->in_module == b->in_module && a->value == b->value &&
	       a->symbol_length == b->symbol_length &&
	       !memcmp(a->symbol_length ? a->symbol : "", b->symbol_length ? b->symbol : "",
		       a->symbol_length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ip_point_arg all[IP_POINT_ARGS_MAX], again;
	char *text = strndup((const char *)data, size);
	int n;

	fuzz_assert(text);
	n = ip_point_args_parse(text, all);
	if (n < 0)
		fuzz_check_error();
	fuzz_assert(n <= IP_POINT_ARGS_MAX);
	for (int i = 0; i < n; i++) {
		char *written = malloc(size + 128);
		int length = ip_point_arg_format(&all[i], written, size + 128);

		fuzz_assert(written && length > 0 && (size_t)length < size + 128);
		fuzz_assert(ip_point_arg_parse(written, length, &again) == 0);
		fuzz_assert(same(&all[i], &again));
		free(written);
	}
	free(text);
	return 0;
}
