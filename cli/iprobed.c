/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed: its options, and the checks of its files.
 */
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access/policy.h"
#include "cli/check/rules_check.h"
#include "cli/check/rules_print.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/print.h"
#include "common/units.h"
#include "config/probes_d.h"
#include "iprobed/daemon.h"
#include "iprobed/rules/rules.h"

#define RULES_MAX 64

static const char help[] =
	"usage: iprobed [OPTIONS]\n"
	"       iprobed --check [--probes-d DIR] [--policy FILE]\n"
	"       iprobed --fire RULE[:PID] | --rules [--json] [--state DIR]\n\n"
	"Lets users trace what they may trace by the kernel's classic rules, where they lack the "
	"privilege to do so by\n"
	"themselves: their own processes under Yama. iprobe attach asks it by itself. Members of a "
	"group may trace what a\n"
	"policy lists. Carries out the rules of probes.d.\n\n"
	"      --socket PATH        where it listens (default " IP_SOCKET
	"; not used where systemd listens for it)\n"
	"      --state DIR          notes of sessions (default " IP_STATE ")\n"
	"      --policy FILE        what members may trace (default " IP_POLICY ")\n"
	"      --group NAME|GID     of members (default iprobe)\n"
	"      --sessions N         at most (default 64); --sessions-per-user N (default 8)\n"
	"      --memory-per-user SIZE\n"
	"                           of a user's sessions together (default a quarter of what there "
	"is)\n"
	"      --memory-of-rules SIZE\n"
	"                           of all sessions of rules together (default a quarter of what "
	"there is)\n"
	"      --check              read probes.d and the policy, say what is in them, and what of "
	"the rules no program\n"
	"                           that they are for has, and end\n"
	"      --probes-d DIR       another directory than " IP_PROBES_D "\n"
	"      --traces DIR         what rules record (default " IP_TRACES ")\n"
	"      --rule NAME          carry out this rule, enabled or not, and only those that are "
	"named so; repeatable\n"
	"      --no-rules           carry out none\n"
	"      --fire RULE[:PID]    ask the iprobed that runs to let a rule fire, for PID or all "
	"processes that it is for\n"
	"      --rules              list the rules that the iprobed which runs carries out; "
	"--json\n"
	"  -h, --help\n"
	"  -V, --version\n";

enum {
	OPT_SOCKET = 256,
	OPT_STATE,
	OPT_POLICY,
	OPT_GROUP,
	OPT_SESSIONS,
	OPT_PER_USER,
	OPT_MEMORY,
	OPT_MEMORY_OF_RULES,
	OPT_CHECK,
	OPT_PROBES_D,
	OPT_TRACES,
	OPT_RULE,
	OPT_NO_RULES,
	OPT_FIRE,
	OPT_RULES,
	OPT_JSON,
};

static const struct option long_options[] = {
	{"socket", required_argument, NULL, OPT_SOCKET},
	{"state", required_argument, NULL, OPT_STATE},
	{"policy", required_argument, NULL, OPT_POLICY},
	{"group", required_argument, NULL, OPT_GROUP},
	{"sessions", required_argument, NULL, OPT_SESSIONS},
	{"sessions-per-user", required_argument, NULL, OPT_PER_USER},
	{"memory-per-user", required_argument, NULL, OPT_MEMORY},
	{"memory-of-rules", required_argument, NULL, OPT_MEMORY_OF_RULES},
	{"check", no_argument, NULL, OPT_CHECK},
	{"probes-d", required_argument, NULL, OPT_PROBES_D},
	{"traces", required_argument, NULL, OPT_TRACES},
	{"rule", required_argument, NULL, OPT_RULE},
	{"no-rules", no_argument, NULL, OPT_NO_RULES},
	{"fire", required_argument, NULL, OPT_FIRE},
	{"rules", no_argument, NULL, OPT_RULES},
	{"json", no_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{0},
};

static int fail(void)
{
	ip_print(stderr, "iprobed: %s\n", ip_error_message());
	return 1;
}

static int usage(const char *what)
{
	ip_print(stderr, "iprobed: %s (see iprobed --help)\n", what);
	return 2;
}

/* Parses a number from 1 to max. Returns 0, or -1. */
static int parse_number(const char *text, unsigned long max, unsigned long *ret)
{
	char *end;

	errno = 0;
	*ret = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *ret && *ret <= max ? 0 : -1;
}

/* Finds the group. A group that is named must exist; the default group need not. */
static int find_group(const char *name, gid_t *ret)
{
	const struct group *found = getgrnam(name ? name : "iprobe");
	unsigned long number;

	*ret = found ? found->gr_gid : (gid_t)-1;
	if (found || !name)
		return 0;
	if (parse_number(name, UINT_MAX - 1, &number) < 0)
		return ip_error("no group '%s'", name);
	*ret = number;
	return 0;
}

/* iprobe and fperf are in the directory of iprobed. */
static char *find_beside(const char *name)
{
	char path[PATH_MAX], *slash, *found;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	slash = strrchr(path, '/');
	return slash && asprintf(&found, "%.*s/%s", (int)(slash - path), path, name) >= 0 ? found
											  : NULL;
}

static int check(const char *dir, const char *policy_path)
{
	_cleanup_free_ char *program = find_beside("iprobe");
	struct ip_probes_d probes;
	struct ip_policy policy;

	if (ip_probes_d_load(dir, &probes) < 0)
		return fail();
	ip_print(stdout, "%s: %zu file%s\n", probes.dir, probes.nfiles, ip_plural(probes.nfiles));
	for (size_t i = 0; i < probes.nselections; i++)
		ip_print(stdout, "  selection %s: %s\n", probes.selections[i].name,
			 probes.selections[i].description ? probes.selections[i].description
							  : probes.selections[i].functions);
	for (size_t i = 0; i < probes.nprofiles; i++)
		ip_print(stdout, "  profile %s: %s\n", probes.profiles[i].name,
			 probes.profiles[i].description ? probes.profiles[i].description
							: probes.profiles[i].events);
	cli_rules_print(&probes, program ? program : "");
	for (size_t i = 0; i < probes.notes.n; i++)
		ip_print(stderr, "iprobed: %s\n", probes.notes.items[i]);
	if (program)
		cli_rules_check(&probes, program);
	ip_probes_d_clear(&probes);
	if (ip_policy_load(policy_path, &policy) < 0)
		return fail();
	ip_print(stdout, "%s: %zu entr%s for members\n", policy_path, policy.n,
		 policy.n == 1 ? "y" : "ies");
	if (policy.kernel.all)
		ip_print(stdout, "  events of the kernel for all users\n");
	else if (policy.kernel.nusers + policy.kernel.ngroups)
		ip_print(stdout, "  events of the kernel for %zu user%s and %zu group%s\n",
			 policy.kernel.nusers, ip_plural(policy.kernel.nusers),
			 policy.kernel.ngroups, ip_plural(policy.kernel.ngroups));
	ip_policy_clear(&policy);
	return 0;
}

/* Asks the daemon about its rules. fire is "RULE:PID" or "RULE". */
static int ask(const char *state, const char *fire, bool json)
{
	_cleanup_free_ char *request = NULL, *reply = NULL, *plain = NULL;
	const char *colon = fire ? strchr(fire, ':') : NULL;

	if (fire ? asprintf(&request, "fire %.*s%s%s",
			    colon ? (int)(colon - fire) : (int)strlen(fire), fire, colon ? " " : "",
			    colon ? colon + 1 : "") < 0
		 : asprintf(&request, "list%s", json ? " json" : "") < 0) {
		request = NULL;
		ip_error("out of memory");
		return fail();
	}
	if (ip_rules_ask(state, request, &reply) < 0)
		return fail();
	/* Processes have chosen some of the text. In JSON it is escaped already, except letters
	 * beyond ASCII, which remain as they are. */
	plain = ip_rules_plain(reply, !json);
	if (!plain) {
		ip_error("out of memory");
		return fail();
	}
	ip_print_lines(stdout, plain);
	return fflush(stdout) == 0 ? 0 : (ip_error_errno("cannot write to stdout"), fail());
}

/* Makes a path of the command line absolute, for its workers have other working directories, and
 * hands it over: *path and *ret_free are the same then. "" stays. Returns 0, or -1 with an error.
 */
static int make_absolute(const char **path, char **ret_free)
{
	_cleanup_free_ char *here = NULL;

	if (!*path || !**path || **path == '/')
		return 0;
	here = getcwd(NULL, 0);
	if (!here)
		return ip_error_errno("%s: the working directory is not known", *path);
	if (asprintf(ret_free, "%s/%s", strcmp(here, "/") ? here : "", *path) < 0) {
		*ret_free = NULL;
		return ip_error("out of memory");
	}
	*path = *ret_free;
	return 0;
}

static void print_notice(const char *who, const char *text)
{
	ip_print(stderr, "%s: %s\n", who, text);
}

int main(int argc, char **argv)
{
	struct ip_iprobed_options options = {.socket = IP_SOCKET,
					     .state = IP_STATE,
					     .policy = IP_POLICY,
					     .sessions = 64,
					     .sessions_per_user = 8};
	_cleanup_free_ char *program = NULL, *fperf = NULL, *at_socket = NULL, *in_state = NULL,
			    *by_policy = NULL, *of_rules = NULL, *to_traces = NULL;
	const char *group = NULL, *fire = NULL, *only[RULES_MAX];
	struct ip_rules_options rules = {.traces = IP_TRACES, .only = only};
	bool only_check = false, no_rules = false, list = false, json = false;
	unsigned long number;
	int option;

	ip_notice_to(print_notice);
	opterr = 0;
	while ((option = getopt_long(argc, argv, "hV", long_options, NULL)) >= 0) {
		switch (option) {
		case OPT_SOCKET:
			options.socket = optarg;
			break;
		case OPT_STATE:
			options.state = optarg;
			break;
		case OPT_POLICY:
			options.policy = optarg;
			break;
		case OPT_GROUP:
			group = optarg;
			break;
		case OPT_SESSIONS:
		case OPT_PER_USER:
			if (parse_number(optarg, 10000, &number) < 0)
				return usage("a number of sessions is from 1 to 10000");
			*(option == OPT_SESSIONS ? &options.sessions : &options.sessions_per_user) =
				number;
			break;
		case OPT_MEMORY:
			if (ip_parse_size(optarg, &options.memory_per_user) < 0 ||
			    !options.memory_per_user)
				return usage("--memory-per-user: a size, 512M say");
			break;
		case OPT_MEMORY_OF_RULES:
			if (ip_parse_size(optarg, &rules.memory) < 0 || !rules.memory)
				return usage("--memory-of-rules: a size, 512M say");
			break;
		case OPT_CHECK:
			only_check = true;
			break;
		case OPT_PROBES_D:
			rules.probes_d = optarg;
			break;
		case OPT_TRACES:
			rules.traces = optarg;
			break;
		case OPT_RULE:
			if (rules.nonly == RULES_MAX)
				return usage("--rule: too many");
			only[rules.nonly++] = optarg;
			break;
		case OPT_NO_RULES:
			no_rules = true;
			break;
		case OPT_FIRE:
			fire = optarg;
			break;
		case OPT_RULES:
			list = true;
			break;
		case OPT_JSON:
			json = true;
			break;
		case 'h':
			ip_print_lines(stdout, help);
			return 0;
		case 'V':
			ip_print(stdout, "iprobed " IP_VERSION "\n");
			return 0;
		default:
			return usage("an option is unknown or lacks its value");
		}
	}
	if (optind < argc)
		return usage("it takes options only");
	if (only_check)
		return check(rules.probes_d, options.policy);
	if (json && !list)
		return usage("--json goes with --rules");
	if (fire && list)
		return usage("--fire or --rules");
	if (fire || list)
		return ask(options.state, fire, json);
	if (no_rules && rules.nonly)
		return usage("--rule or --no-rules");
	options.program = program = find_beside("iprobe");
	options.fperf = fperf = find_beside("fperf");
	if (!program) {
		ip_error_errno("cannot find iprobe beside iprobed");
		return fail();
	}
	if (find_group(group, &options.group) < 0)
		return fail();
	if (!rules.probes_d && *ip_probes_d_dir() != '/')
		rules.probes_d = ip_probes_d_dir();
	if (make_absolute(&options.socket, &at_socket) < 0 ||
	    make_absolute(&options.state, &in_state) < 0 ||
	    make_absolute(&options.policy, &by_policy) < 0 ||
	    make_absolute(&rules.probes_d, &of_rules) < 0 ||
	    make_absolute(&rules.traces, &to_traces) < 0)
		return fail();
	rules.state = options.state;
	rules.program = program;
	options.rules = no_rules ? NULL : &rules;
	return ip_iprobed_run(&options) < 0 ? fail() : 0;
}
