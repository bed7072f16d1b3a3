/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every unit test includes: cmocka with the headers that it wants before it.
 */
#ifndef TEST_TEST_H
#define TEST_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"

#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

/* The line recorded last holds text; it is one line. */
#define assert_error(text)                                                                         \
	do {                                                                                       \
		if (!strstr(ip_error_message(), text))                                             \
			fail_msg("error is \"%s\", expected \"%s\" in it", ip_error_message(),     \
				 text);                                                            \
		assert_null(strchr(ip_error_message(), '\n'));                                     \
	} while (0)

#endif
