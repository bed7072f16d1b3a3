/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of probes.d, and what is said of those that are wrong, for tests.
 */
#ifndef IP_TEST_PROBES_D_TEXT_H
#define IP_TEST_PROBES_D_TEXT_H

#include <string.h>

#include "common/error.h"
#include "config/probes_d.h"
#include "test/unit/test.h"

/* A text, and a part of what is to be said. */
struct refused {
	const char *text, *error;
};

static inline int add(struct ip_probes_d *probes, const char *text)
{
	return ip_probes_d_add(probes, text, strlen(text), "f.yaml");
}

static inline void assert_refused(const struct refused *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct ip_probes_d p = {0};

		ip_error("none");
		if (add(&p, cases[i].text) != -1)
			fail_msg("taken: %s", cases[i].text);
		if (!strstr(ip_error_message(), cases[i].error))
			fail_msg("%s\n  says:   %s\n  wanted: %s", cases[i].text,
				 ip_error_message(), cases[i].error);
		assert_error("f.yaml:");
		ip_probes_d_clear(&p);
	}
}

/* Each is taken, but names something that is not there. */
static inline void assert_unresolved(const struct refused *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct ip_probes_d p = {0};

		assert_int_equal(add(&p, cases[i].text), 0);
		assert_int_equal(ip_probes_d_check(&p), -1);
		assert_error(cases[i].error);
		ip_probes_d_clear(&p);
	}
}

#endif
