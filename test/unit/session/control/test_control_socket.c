/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the door of a session lets in: every packet that is cut, too long or of another kind is
 * refused in words, none is read beyond its end; and several selections as one.
 */
#include <stdlib.h>

#include "hotpatcher/plan/selections.h"
#include "session/control/control_socket.h"
#include "test/unit/test.h"

#define MAX (sizeof(struct ip_control_request) + IP_CONTROL_TEXT_MAX)

static struct ip_control_request good(void)
{
	return (struct ip_control_request){
		.magic = IP_CONTROL_MAGIC, .inner_pid = 1, .string_limit = 64, .max_stop_ns = 1};
}

/* The packet lies at the end of its memory: a sanitizer sees a byte too far. */
static const char *parse(const struct ip_control_request *request, const char *text,
			 size_t text_size, size_t cut, char **ret)
{
	size_t size = sizeof(*request) + text_size - cut;
	struct ip_control_request read;
	char *whole = malloc(sizeof(*request) + text_size + 1), *packet = malloc(size ? size : 1);
	const char *why;

	assert_true(whole && packet);
	memcpy(whole, request, sizeof(*request));
	memcpy(whole + sizeof(*request), text, text_size);
	memcpy(packet, whole, size);
	*ret = NULL;
	why = ip_control_parse(packet, size, &read, ret);
	free(packet);
	free(whole);
	return why;
}

static void test_requests(void **state)
{
	struct ip_control_request r = good();
	char *text = NULL, *large = calloc(1, MAX + 2);

	(void)state;
	assert_null(parse(&r, "a,!b", 4, 0, &text));
	assert_string_equal(text, "a,!b");
	free(text);
	assert_null(parse(&r, "", 0, 0, &text));
	assert_string_equal(text, "");
	free(text);
	for (size_t cut = 1; cut <= sizeof(r); cut++)
		assert_non_null(parse(&r, "", 0, cut, &text));
	assert_non_null(parse(&r, "@/etc/passwd", 12, 0, &text));
	assert_non_null(parse(&r, "a\0b", 3, 0, &text));
	assert_true(large);
	memset(large, 'a', MAX);
	assert_null(parse(&r, large, IP_CONTROL_TEXT_MAX, 0, &text));
	free(text);
	assert_non_null(parse(&r, large, IP_CONTROL_TEXT_MAX + 1, 0, &text));
	free(large);
	r.flags = IP_CONTROL_FLAGS + 1;
	assert_non_null(parse(&r, "a", 1, 0, &text));
	r = good();
	r.magic ^= 1;
	assert_non_null(parse(&r, "a", 1, 0, &text));
	r = good();
	r.reserved = 1;
	assert_non_null(parse(&r, "a", 1, 0, &text));
	r = good();
	r.max_stop_ns = 0;
	assert_non_null(parse(&r, "a", 1, 0, &text));
}

static void test_selections(void **state)
{
	struct ip_selections s = {0}, next;

	(void)state;
	assert_int_equal(ip_selections_add(&s, "!skip"), 0); /* the first: everything else */
	assert_true(ip_selections_match(&s, "a", NULL, NULL));
	assert_false(ip_selections_match(&s, "skip", NULL, NULL));
	assert_int_equal(ip_selections_add(&s, "!a*"), 0);
	assert_false(ip_selections_match(&s, "ab", NULL, NULL));
	assert_true(ip_selections_match(&s, "b", NULL, NULL));
	assert_false(ip_selections_match(&s, "skip", NULL, NULL));
	assert_int_equal(ip_selections_with(&s, "ab,skip", &next), 0);
	assert_true(ip_selections_match(&next, "ab", NULL, NULL));
	assert_true(ip_selections_match(&next, "skip", NULL, NULL));
	assert_false(ip_selections_match(&next, "ac", NULL, NULL));
	assert_false(ip_selections_match(&s, "ab", NULL, NULL));
	/* the same again and again takes no more room */
	for (int i = 0; i < 100; i++) {
		assert_int_equal(ip_selections_add(&next, "!ab"), 0);
		assert_false(ip_selections_match(&next, "ab", NULL, NULL));
		assert_int_equal(ip_selections_add(&next, "ab"), 0);
		assert_true(ip_selections_match(&next, "ab", NULL, NULL));
	}
	assert_true(next.n <= 5);
	assert_int_equal(ip_selections_add(&next, "((,"), -1);
	assert_true(ip_selections_match(&next, "ab", NULL, NULL));
	ip_selections_clear(&next);
	ip_selections_clear(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_requests),
					   cmocka_unit_test(test_selections)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
