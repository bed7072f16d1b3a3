/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of requests for values: any text. The first byte says which option it is for. The text
 * of each expression that it takes is parsed again.
 *
 * covers: common/values/expression.c common/values/value_request.c
 */
#include "common/values/value_request.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ip_value_requests requests = {0};
	struct ip_expression *again;
	char *text;

	if (!size)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	fuzz_assert(text);
	ip_value_request_is(text);
	if (ip_value_requests_add(&requests, data[0] % 3, text) < 0)
		fuzz_check_error();
	for (size_t i = 0; i < requests.n; i++) {
		const struct ip_value_request *r = &requests.items[i];

		fuzz_assert(r->n >= 1 && r->n <= IP_VALUES_MAX);
		for (size_t k = 0; k < r->n; k++) {
			const char *item = r->items[k].text;

			fuzz_assert(r->kind == IP_REQUEST_WHEN || r->items[k].name);
			fuzz_assert(ip_expression_parse(item, strlen(item), &again) == 0);
			fuzz_assert(again->kind == r->items[k].expression->kind);
			ip_expression_destroy(again);
		}
	}
	ip_value_requests_clear(&requests);
	free(text);
	return 0;
}
