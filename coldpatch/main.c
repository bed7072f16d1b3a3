/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coldpatch command: options and printing.
 */
#include "coldpatch/coldpatch.h"
#include "coldpatch/sites/exclude.h"
#include "coldpatch/write/list_path.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
	"usage: coldpatch [-o OUT] [--list FILE] [--strip] [--exclude SEL] [--keep-relocs]\n"
	"                 [--dry-run] [--json] [-q] ELF...\n"
	"\n"
	"Turns the calls that -finstrument-functions left in linked programs and shared\n"
	"libraries into NOPs, and adds the list of the probes that can be set there.\n"
	"Files that have been patched before are left as they are.\n"
	"\n"
	"  -o, --output OUT  write the result to OUT, leave ELF alone (one ELF only)\n"
	"      --list FILE   write the probe list to FILE as well; a directory: into it, by "
	"build-id\n"
	"      --strip       take symbols and debug information off; with --list the probe list "
	"too\n"
	"      --exclude SEL give no probes to what SEL matches (globs, file:GLOB; or a file of "
	"them)\n"
	"      --keep-relocs leave the relocations that the linker kept for -q in the file\n"
	"      --dry-run     say what would be done, change nothing\n"
	"      --json        one JSON document on standard output\n"
	"  -q, --quiet       print nothing but errors\n"
	"  -h, --help        print this\n"
	"      --version     print the version\n"
	"\n"
	"exit status: 0 done, 1 could not, 2 usage\n";

static int usage(const char *what)
{
	ip_print(stderr, "coldpatch: %s; see coldpatch --help\n", what);
	return 2;
}

/* How the sites were found, by bit of found_by. */
static const char *const found_by_names[] = {"table", "relocations", "decoding", "foreign"};
#define FOUND_BY_N (sizeof(found_by_names) / sizeof(found_by_names[0]))

static void print_json(struct ip_json *j, const char *path, const struct ip_coldpatch_result *r)
{
	ip_json_object(j, NULL);
	ip_json_string(j, "path", path);
	ip_json_string(j, "build_id", r->build_id);
	ip_json_string(j, "placement", ip_placement_name(r->placement));
	ip_json_array(j, "found_by");
	for (size_t i = 0; i < FOUND_BY_N; i++)
		if (r->found_by & 1u << i)
			ip_json_string(j, NULL, found_by_names[i]);
	ip_json_end_array(j);
	ip_json_uint(j, "sites", r->sites);
	ip_json_uint(j, "functions", r->functions);
	ip_json_uint(j, "entry", r->entry);
	ip_json_uint(j, "exit", r->exit);
	ip_json_uint(j, "tail_exit", r->tail_exit);
	ip_json_uint(j, "point", r->point);
	ip_json_uint(j, "inlined", r->inlined);
	ip_json_uint(j, "excluded", r->excluded);
	ip_json_uint(j, "by_code", r->by_code);
	ip_json_uint(j, "by_debug", r->by_debug);
	ip_json_uint(j, "by_symbol", r->by_symbol);
	ip_json_string(j, "status", ip_coldpatch_status_name(r->status));
	ip_json_end_object(j);
}

static void print_text(const char *path, const struct ip_coldpatch_result *r)
{
	static const char *const verbs[] = {
		[IP_COLDPATCH_PATCHED] = "patched",
		[IP_COLDPATCH_ALREADY] = "already patched, nothing to do",
		[IP_COLDPATCH_DRY_RUN] = "would be patched",
	};

	ip_print(stdout,
		 "%s: %s: %zu site%s (%zu entry, %zu exit, %zu tail-exit, %zu point; %zu inlined) "
		 "of %zu function%s",
		 path, verbs[r->status], r->sites, ip_plural(r->sites), r->entry, r->exit,
		 r->tail_exit, r->point, r->inlined, r->functions, ip_plural(r->functions));
	for (size_t i = 0, n = 0; i < FOUND_BY_N; i++)
		if (r->found_by & 1u << i)
			ip_print(stdout, "%s%s", n++ ? ", " : ", found by ", found_by_names[i]);
	ip_print(stdout, "\n");
	if (r->other_links && r->status == IP_COLDPATCH_PATCHED)
		ip_print(stdout, "%s: %zu other hard link(s) to it keep the unpatched file\n", path,
			 r->other_links);
}

int main(int argc, char **argv)
{
	enum {
		OPT_LIST = 256,
		OPT_DRY_RUN,
		OPT_JSON,
		OPT_STRIP,
		OPT_KEEP_RELOCS,
		OPT_EXCLUDE,
		OPT_VERSION
	};
	static const struct option long_options[] = {
		{"output", required_argument, NULL, 'o'},
		{"list", required_argument, NULL, OPT_LIST},
		{"dry-run", no_argument, NULL, OPT_DRY_RUN},
		{"json", no_argument, NULL, OPT_JSON},
		{"strip", no_argument, NULL, OPT_STRIP},
		{"keep-relocs", no_argument, NULL, OPT_KEEP_RELOCS},
		{"exclude", required_argument, NULL, OPT_EXCLUDE},
		{"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, OPT_VERSION},
		{0},
	};
	struct ip_coldpatch_options options = {0};
	struct ip_selection *exclude = NULL;
	bool json = false, quiet = false;
	struct ip_json j;
	int c, status = 0;

	/* getopt prints this name in its messages */
	if (argc)
		argv[0] = (char *)"coldpatch";
	while ((c = getopt_long(argc, argv, "o:qh", long_options, NULL)) != -1) {
		switch (c) {
		case 'o':
			options.output = optarg;
			break;
		case OPT_LIST:
			options.list = optarg;
			break;
		case OPT_EXCLUDE:
			ip_selection_destroy(exclude);
			if (cold_exclude_parse(optarg, &exclude)) {
				ip_print(stderr, "coldpatch: --exclude: %s\n", ip_error_message());
				return 1;
			}
			options.exclude = exclude;
			break;
		case OPT_STRIP:
			options.strip = true;
			break;
		case OPT_KEEP_RELOCS:
			options.keep_relocs = true;
			break;
		case OPT_DRY_RUN:
			options.dry_run = true;
			break;
		case OPT_JSON:
			json = true;
			break;
		case 'q':
			quiet = true;
			break;
		case 'h':
			ip_print_lines(stdout, help);
			return 0;
		case OPT_VERSION:
			ip_print(stdout, "coldpatch " IP_VERSION "\n");
			return 0;
		default:
			/* getopt has printed the mistake */
			return 2;
		}
	}
	if (optind == argc)
		return usage("no ELF file named");
	if (options.list && !*options.list)
		return usage("--list needs the name of a file or directory");
	if ((options.output || (options.list && !cold_list_path_is_directory(options.list))) &&
	    optind + 1 < argc)
		return usage("-o and --list FILE go with one ELF file only (--list DIRECTORY with "
			     "many)");

	if (json) {
		ip_json_init(&j, stdout);
		ip_json_object(&j, NULL);
		ip_json_array(&j, "modules");
	}
	for (int i = optind; i < argc; i++) {
		struct ip_coldpatch_result result;

		if (ip_coldpatch(argv[i], &options, &result)) {
			ip_print(stderr, "coldpatch: %s\n", ip_error_message());
			status = 1;
		} else if (result.status == IP_COLDPATCH_NO_PROBES) {
			/* ip_error() makes odd file names safe to print */
			if (result.why_none)
				ip_error("no probes: %s: %s", argv[i], result.why_none);
			else
				ip_error("no probes: %s was not compiled with "
					 "-finstrument-functions (use iprobe-cc)",
					 argv[i]);
			ip_print(stderr, "coldpatch: %s\n", ip_error_message());
			status = 1;
		} else if (json) {
			print_json(&j, argv[i], &result);
		} else if (!quiet) {
			print_text(argv[i], &result);
		}
	}
	if (json) {
		ip_json_end_array(&j);
		ip_json_end_object(&j);
	}
	ip_selection_destroy(exclude);
	if (fflush(stdout) || ferror(stdout)) {
		ip_print(stderr, "coldpatch: cannot write to standard output\n");
		status = 1;
	}
	return status;
}
