/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum of batches: values that RFC 3720 has, and parts that follow each other.
 */
#include "common/trace/checksum.h"
#include "test/unit/test.h"

static void test_known_values(void **state)
{
	uint8_t bytes[32];

	(void)state;
	assert_int_equal(ip_checksum(0, "123456789", 9), 0xe3069283u);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(ip_checksum(0, bytes, sizeof(bytes)), 0x8a9136aau);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(ip_checksum(0, bytes, sizeof(bytes)), 0x62a8ab43u);
	for (int i = 0; i < 32; i++)
		bytes[i] = i;
	assert_int_equal(ip_checksum(0, bytes, sizeof(bytes)), 0x46dd794eu);
	assert_int_equal(ip_checksum(0, NULL, 0), 0);
}

static void test_in_parts(void **state)
{
	uint8_t bytes[41];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = i * 37;
	for (size_t i = 0; i <= sizeof(bytes); i++)
		assert_int_equal(
			ip_checksum(ip_checksum(0, bytes, i), bytes + i, sizeof(bytes) - i),
			ip_checksum(0, bytes, sizeof(bytes)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
