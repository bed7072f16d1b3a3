/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fperf: what is to be done, and errors in its name.
 */
#include "cli/fperf/fperf.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "access/delegation.h"
#include "cli/cli.h"
#include "cli/fperf/fperf_options.h"
#include "cli/fperf/fperf_output.h"
#include "cli/fperf/fperf_run.h"
#include "cli/fperf/fperf_worker.h"
#include "cli/record/live_line.h"
#include "common/elf/mapped_file.h"
#include "common/error.h"
#include "common/print.h"
#include "config/probes_d.h"

int cli_fail(void)
{
	cli_live_line_clear();
	ip_print(stderr, "fperf: %s\n", ip_error_message());
	return 1;
}

int cli_usage(const char *command, const char *format, ...)
{
	va_list args;

	ip_print(stderr, "fperf: ");
	va_start(args, format);
	ip_vprint(stderr, format, args);
	va_end(args);
	ip_print(stderr, " (see fperf --help)\n");
	return 2;
}

static int count(int argc, char **argv)
{
	struct ip_session_summary summary;
	struct fperf_options o;
	struct fperf_output output;
	int code = fperf_options_parse(argc, argv, &o);

	if (code < 0 && o.pid)
		code = fperf_run_by_daemon(&o, argc, argv);
	if (code >= 0)
		return code;
	if (!o.quiet && o.pid && isatty(STDERR_FILENO))
		o.fperf.show = fperf_show_live;
	if (fperf_try(&o.fperf) < 0 || fperf_output_open(&o, &output) < 0)
		return cli_fail();
	return o.any && !o.pid ? fperf_worker_run_all(&o, &output, argc, argv)
			       : fperf_run(&o, &output, argv + optind, &summary);
}

int main(int argc, char **argv)
{
	int code;

	cli_print_notices();
	ip_mapped_file_may_shrink();
	if (ip_delegation_take() < 0)
		return cli_fail();
	ip_probes_d_serve();
	ip_fperf_events_ask(fperf_papi_find);
	if (argc < 2) {
		ip_print_lines(stderr, fperf_help);
		return 2;
	}
	/* the options of list-events and self-test are in the same help */
	if (argc == 3 && (!strcmp(argv[1], "list-events") || !strcmp(argv[1], "self-test")) &&
	    (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"))) {
		ip_print_lines(stdout, fperf_help);
		return 0;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		ip_print(stdout, "fperf " IP_VERSION "\n");
		return 0;
	}
	if (!strcmp(argv[1], "list-events"))
		code = fperf_list_events(argc - 1, argv + 1);
	else if (!strcmp(argv[1], "self-test"))
		code = fperf_self_test(argc - 1, argv + 1);
	else
		code = count(argc, argv);
	if (fflush(stdout) != 0 && !code) {
		ip_print(stderr, "fperf: cannot write to stdout: %s\n", strerror(errno));
		code = 1;
	}
	return code;
}
