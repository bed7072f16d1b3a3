/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions whose names differ in their ends only.
 *
 *   long_names N     calls each N times
 */
#include <stdlib.h>

#define KEEP __attribute__((noinline))

static volatile unsigned long done;

KEEP void a_name_of_which_the_beginning_says_nothing_at_all_one(void)
{
	done++;
}

KEEP void a_name_of_which_the_beginning_says_nothing_at_all_two(void)
{
	done += 2;
}

int main(int argc, char **argv)
{
	for (int n = argc > 1 ? atoi(argv[1]) : 1; n > 0; n--) {
		a_name_of_which_the_beginning_says_nothing_at_all_one();
		a_name_of_which_the_beginning_says_nothing_at_all_two();
	}
	return 0;
}
