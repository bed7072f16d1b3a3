/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the note on values beyond the limit.
 */
#include "cli/report/value_note.h"

#include "common/print.h"
#include "common/units.h"

void cli_value_note(const struct ip_value_groups *values, const char *by)
{
	char count[32], rows[32], all[32];

	if (!values->others)
		return;
	ip_format_count(IP_VALUES_OF_FUNCTION, rows);
	ip_format_count(IP_VALUES_OF_ALL, all);
	ip_print(stdout, "\n(others): %s call%s or points with other values. ",
		 ip_format_count(values->others, count), ip_plural(values->others));
	if (by)
		ip_print(stdout, "By %s the first %s values of a function are shown, %s of all.\n",
			 by, rows, all);
	else
		ip_print(stdout,
			 "The %s values of a function that were recorded first are shown, %s of "
			 "all.\n",
			 rows, all);
	/* texts have no powers of two */
	ip_print(stdout, "iprobe report --slowest N shows single calls%s.\n",
		 values->ranges || ip_value_name_is_text(&values->name)
			 ? ""
			 : "; --by value:NAME/log2 puts numbers together");
}
