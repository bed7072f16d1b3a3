/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe attach.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "common/error.h"
#include "common/json.h"
#include "common/units.h"

static const char help[] =
	"usage: iprobe attach [OPTIONS] PID\n\n"
	"Makes the chosen probes of a running process live, records until the time is over, Ctrl-C, or the\n"
	"process ends, and puts every byte back. The process must have iprobe's runtime (iprobe run, "
	"LD_PRELOAD).\n\n"
	"  -f, --functions SEL   globs, comma-separated; !GLOB takes away; file:GLOB, lib:GLOB; -f @FILE "
	"reads them\n"
	"                        (default: all probes)\n"
	"  -o, --output DIR      trace directory (default iprobe.data; one that exists is kept as DIR.old)\n"
	"      --duration T      200ms, 10s, 2m (default: until Ctrl-C)\n"
	"      --memory SIZE     ring memory (default 64M)\n"
	"      --max-size SIZE   stop recording when the trace is this large (default 1G or a tenth of the "
	"free space)\n"
	"      --max-stop T      give up, nothing changed, if the threads cannot be gathered in T (default "
	"50ms)\n"
	"      --dry-run         say what would be patched; stop and change nothing\n"
	"      --args            record the arguments of functions (placement fentry, with debug "
	"information) and of\n"
	"                        points\n"
	"      --retval          record what functions return\n"
	"      --string-limit N  bytes of a string that are recorded (default 64, at most 1024)\n"
	"      --follow-fork     record forked children too, in the same trace, until the last has ended\n"
	"      --list FILE       the probe list of a stripped module, or a directory of such lists; "
	"repeatable\n"
	"      --json            the summary as one line of JSON on stdout\n"
	"  -q, --quiet           no live line, no summary\n"
	"  -h, --help\n";

static void print_preview(const struct cli_record_options *options, const struct ip_session_preview *p)
{
	char stop[16];
	struct ip_json j;

	if (!options->json) {
		for (size_t i = 0; i < p->nmodules; i++)
			printf("%8zu sites  %8zu functions  %s\n", p->modules[i].sites,
			       p->modules[i].functions, p->modules[i].path);
		printf("pid %d: %zu sites of %zu functions on %zu pages, %zu threads to stop for about %s; "
		       "nothing was "
		       "changed\n",
		       p->summary.pid, p->summary.sites, p->summary.functions, p->summary.pages,
		       p->summary.threads, ip_format_ns(p->expected_stop_ns, stop));
		return;
	}
	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_int(&j, "pid", p->summary.pid);
	ip_json_bool(&j, "dry_run", true);
	ip_json_uint(&j, "sites", p->summary.sites);
	ip_json_uint(&j, "functions", p->summary.functions);
	ip_json_uint(&j, "threads", p->summary.threads);
	ip_json_uint(&j, "pages", p->summary.pages);
	ip_json_double(&j, "expected_stop_us", p->expected_stop_ns / 1e3);
	ip_json_array(&j, "modules");
	for (size_t i = 0; i < p->nmodules; i++) {
		ip_json_object(&j, NULL);
		ip_json_string(&j, "path", p->modules[i].path);
		ip_json_uint(&j, "sites", p->modules[i].sites);
		ip_json_uint(&j, "functions", p->modules[i].functions);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

/* PID may stand before the options: `iprobe attach PID -f SEL` is how people type it. */
static int find_pid(int argc, char **argv, int next, const char **ret)
{
	if (next >= argc)
		return cli_usage(argv[0], "which process? PID is missing");
	if (next + 1 < argc)
		return cli_usage(argv[0], "one PID, not '%s' too", argv[next + 1]);
	*ret = argv[next];
	return -1;
}

int cmd_attach(int argc, char **argv)
{
	struct cli_record_options options;
	struct ip_session_summary summary;
	const char *text = NULL;
	int next, pid, code;

	if (argc > 2 && argv[1][0] != '-') {
		/* move it behind the options */
		char *first = argv[1];

		if (ip_parse_pid(first, &pid) < 0)
			return cli_usage(argv[0], "%s", ip_error_message());

		for (int i = 1; i + 1 < argc; i++)
			argv[i] = argv[i + 1];
		argv[argc - 1] = first;
	}
	code = cli_record_parse(argc, argv, help, true, &options, &next);
	if (code < 0)
		code = find_pid(argc, argv, next, &text);
	if (code >= 0)
		return code;
	if (ip_parse_pid(text, &pid) < 0)
		return cli_usage(argv[0], "%s", ip_error_message());
	if (options.dry_run) {
		struct ip_session_preview preview;
		int ret = ip_session_preview(pid, &options.session, &preview);

		if (ret == 0)
			print_preview(&options, &preview);
		ip_session_preview_clear(&preview);
		return ret < 0 ? cli_fail() : 0;
	}
	cli_catch_signals();
	code = ip_session_attach(pid, &options.session, &summary) < 0 ? cli_fail() : 0;
	cli_record_summary(&options, &summary);
	return code;
}
