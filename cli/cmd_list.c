/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe list.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/read/names.h"
#include "cli/args/operands.h"
#include "cli/args/suggest.h"
#include "cli/check/list_check.h"
#include "cli/cli.h"
#include "cli/elide.h"
#include "common/cleanup.h"
#include "common/elf/elf_file.h"
#include "common/elf/note.h"
#include "common/elf/point_names.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/names/short_name.h"
#include "common/print.h"
#include "common/selection/selection.h"
#include "common/units.h"
#include "hotpatcher/process/modules.h"
#include "hotpatcher/process/plt.h"
#include "hotpatcher/process/probe_list_search.h"

static const char help[] =
	"usage: iprobe list [-f SEL] [--plt] [--list FILE] [--json] ELF|PID\n"
	"       iprobe list --check [-f SEL] [--args F(...)] [--retval F(...)] [--when COND] "
	"[--json]\n"
	"                           ELF|PID\n\n"
	"The probes of a file, or of every module of a running process.\n\n"
	"  -f, --functions SEL   only those selected\n"
	"      --plt             also what attach --plt can record: calls into libraries, "
	"malloc@plt\n"
	"      --by-function     a row for each function, with the number of its probes; "
	"--functions\n"
	"                        without SEL is the same\n"
	"  -p, --pid PID         a process, in the place of the operand\n"
	"      --list FILE       probe list or debug file of a stripped "
	"module, or a folder of such\n"
	"      --check           list nothing: say what of -f, --args, --retval and --when, as "
	"attach\n"
	"                        takes them, matches nothing there (then the exit code is 1)\n"
	"      --full-names      whole C++ names, not their short forms\n"
	"      --json            one document: path, build-id, placement and "
	"probes of each module;\n"
	"                        with --check: what matches nothing\n";

struct listing {
	struct ip_selection *selection;
	struct cli_list_check check;
	struct ip_json *json;	    /* NULL: as text */
	bool full_names, functions; /* functions: a row for each function */
	bool plt;		    /* functions of the PLT, too */
	uint64_t shown, probes;
	const char **names; /* names of all functions, for the nearest ones in an error */
	size_t nnames;
};

/* Shows where a point's arguments are, and the names of their values. */
static void show_args(struct listing *l, const struct ip_probe_list *list,
		      const struct ip_pl_probe *probe)
{
	const char *places = ip_probe_list_string(list, probe->args);
	struct ip_point_arg args[IP_POINT_ARGS_MAX];
	const int n = ip_point_args_parse(places, args);
	struct ip_point_names names;

	ip_point_names_make(ip_probe_arg_text(list, probe), n > 0 ? (unsigned)n : 0, &names);
	if (!l->json) {
		ip_print(stdout, "  args %s", places);
		for (int i = 0; i < n && *ip_probe_arg_text(list, probe); i++)
			ip_print(stdout, "%s%s", i ? ", " : "  values ",
				 *names.names[i] ? names.names[i] : "?");
		return;
	}
	ip_json_string(l->json, "args", places);
	ip_json_array(l->json, "values");
	for (int i = 0; i < n; i++)
		ip_json_string(l->json, NULL, *names.names[i] ? names.names[i] : NULL);
	ip_json_end_array(l->json);
}

static void show_probe(struct listing *l, const struct ip_probe_list *list,
		       const struct ip_pl_probe *probe)
{
	const struct ip_pl_function *f = &list->functions[probe->function];
	/* with the argument list for people; without it for scripts, as in report and dump */
	_cleanup_free_ char *whole = ip_demangle(ip_probe_list_string(list, f->name), !l->json);
	/* not elided: it can be given to -f */
	_cleanup_free_ char *shorter =
		whole && !l->json && !l->full_names ? ip_short_name(whole, SIZE_MAX) : NULL;
	const char *name = shorter ? shorter : whole;
	const char *linker_name = ip_probe_list_string(list, f->name),
		   *clone = ip_clone_kind(linker_name);
	const char *file = f->file ? ip_probe_list_string(list, f->file) : NULL;

	l->shown++;
	if (!l->json) {
		ip_print(stdout, "%16lx %u %-9s %s", probe->offset, probe->length,
			 ip_probe_kind_name(probe->kind), name);
		if (file)
			ip_print(stdout, "  %s:%u", file, probe->line ? probe->line : f->line);
		if (probe->args)
			show_args(l, list, probe);
		if (clone)
			ip_print(stdout, "  (%s %s)",
				 strcmp(clone, "part") ? "copy" : "split off:", linker_name);
		ip_print(stdout, "%s\n", probe->flags & IP_PROBE_INLINED ? "  (inlined)" : "");
		return;
	}
	ip_json_object(l->json, NULL);
	ip_json_string(l->json, "function", name);
	ip_json_string(l->json, "linker_name", linker_name);
	ip_json_string(l->json, "clone", clone);
	ip_json_string(l->json, "kind", ip_probe_kind_name(probe->kind));
	ip_json_string(l->json, "file", file);
	if (probe->line || f->line)
		ip_json_uint(l->json, "line", probe->line ? probe->line : f->line);
	else
		ip_json_string(l->json, "line", NULL);
	ip_json_uint(l->json, "offset", probe->offset);
	ip_json_uint(l->json, "length", probe->length);
	ip_json_bool(l->json, "inlined", probe->flags & IP_PROBE_INLINED);
	if (probe->args)
		show_args(l, list, probe);
	ip_json_end_object(l->json);
}

/* Shows a function with its number of probes. */
static void show_function(struct listing *l, const struct ip_probe_list *list,
			  const struct ip_pl_function *f, uint32_t nprobes)
{
	const char *linker_name = ip_probe_list_string(list, f->name),
		   *clone = ip_clone_kind(linker_name),
		   *file = f->file ? ip_probe_list_string(list, f->file) : NULL;
	_cleanup_free_ char *whole = ip_demangle(linker_name, !l->json);
	_cleanup_free_ char *form = whole ? ip_short_name(whole, SIZE_MAX) : NULL;

	if (!l->json) {
		ip_print(stdout, "%8u  %s", nprobes, l->full_names ? whole : form);
		if (file)
			ip_print(stdout, "  %s:%u", file, f->line);
		if (clone)
			ip_print(stdout, "  (%s %s)",
				 strcmp(clone, "part") ? "copy" : "split off:", linker_name);
		ip_print(stdout, "\n");
		return;
	}
	ip_json_object(l->json, NULL);
	ip_json_string(l->json, "function", whole);
	cli_json_short(l->json, whole, form);
	ip_json_string(l->json, "linker_name", linker_name);
	ip_json_string(l->json, "clone", clone);
	ip_json_string(l->json, "file", file);
	if (f->line)
		ip_json_uint(l->json, "line", f->line);
	else
		ip_json_string(l->json, "line", NULL);
	ip_json_uint(l->json, "probes", nprobes);
	ip_json_end_object(l->json);
}

/* Prints what is listed of how much there is: "12 of 300 probes in 3 of 80 functions". */
static void print_header(const struct listing *l, const char *path, const struct ip_pl_header *h,
			 const uint32_t *probes)
{
	char id[2 * IP_BUILD_ID_MAX + 1];
	uint32_t nprobes = 0, nfunctions = 0;

	for (uint32_t i = 0; i < h->nfunctions; i++) {
		nprobes += probes[i];
		nfunctions += probes[i] > 0;
	}
	ip_build_id_format(h->build_id, h->build_id_size, id);
	if (l->json) {
		ip_json_object(l->json, NULL);
		ip_json_string(l->json, "path", path);
		ip_json_string(l->json, "build_id", id);
		ip_json_string(l->json, "placement", ip_placement_name(h->placement));
		return;
	}
	ip_print(stdout, "%s: %u", path, nprobes);
	if (nprobes < h->nprobes)
		ip_print(stdout, " of %u", h->nprobes);
	ip_print(stdout, " probe%s in %u", ip_plural(h->nprobes), nfunctions);
	if (nfunctions < h->nfunctions)
		ip_print(stdout, " of %u", h->nfunctions);
	ip_print(stdout, " function%s, placement %s, build-id %s\n", ip_plural(h->nfunctions),
		 ip_placement_name(h->placement), id);
}

static int show_module(struct listing *l, const char *path, const struct ip_probe_list *list)
{
	const struct ip_pl_header *h = list->header;
	const char **grown = realloc(l->names, (l->nnames + h->nfunctions + 1) * sizeof(*grown));
	_cleanup_free_ uint8_t *selected = calloc(h->nfunctions + 1, 1);
	/* of each function: how many of its probes are shown */
	_cleanup_free_ uint32_t *probes = calloc(h->nfunctions + 1, sizeof(*probes));

	if (grown)
		l->names = grown;
	if (!grown || !selected || !probes)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < h->nfunctions; i++) {
		const char *name = ip_probe_list_string(list, list->functions[i].name);
		const char *file = list->functions[i].file
					   ? ip_probe_list_string(list, list->functions[i].file)
					   : NULL;

		l->names[l->nnames++] = name;
		selected[i] = ip_selection_match(l->selection, name, file, path);
	}
	for (uint32_t i = 0; i < h->nprobes; i++)
		probes[list->probes[i].function] += selected[list->probes[i].function];
	l->probes += h->nprobes;
	print_header(l, path, h, probes);
	if (l->json)
		ip_json_array(l->json, l->functions ? "functions" : "probes");
	for (uint32_t i = 0; l->functions && i < h->nfunctions; i++)
		if (probes[i]) {
			l->shown++;
			show_function(l, list, &list->functions[i], probes[i]);
		}
	for (uint32_t i = 0; !l->functions && i < h->nprobes; i++)
		if (selected[list->probes[i].function])
			show_probe(l, list, &list->probes[i]);
	if (l->json) {
		ip_json_end_array(l->json);
		ip_json_end_object(l->json);
	}
	return 0;
}

/* Returns 0, or -1 with an error where the selection matched nothing. Where a part of it did, says
 * so on stderr. */
static int check_shown(const struct listing *l, const char *what)
{
	_cleanup_free_ char *nearest = NULL;

	if (l->shown) {
		nearest = ip_selection_unused_nearest(l->selection, l->names, l->nnames);
		cli_warn_unused(what, nearest);
		return 0;
	}
	nearest = ip_selection_nearest(l->selection, l->names, l->nnames);
	if (nearest && *nearest)
		return ip_error("%s: the selection matches none of its %lu probe%s; nearest: %s",
				what, l->probes, ip_plural(l->probes), nearest);
	return ip_error("%s: the selection matches none of its %lu probe%s", what, l->probes,
			ip_plural(l->probes));
}

static int list_file(struct listing *l, const char *path)
{
	struct ip_module module = {.path = (char *)path};
	struct ip_probe_list *list = NULL;
	struct ip_elf_file *elf;
	uint64_t room, size;
	int ret;

	if (ip_access(path, F_OK) < 0 && errno == ENOENT)
		return ip_error("%s: no such file%s%s", path,
				strchr(path, '/') ? ""
						  : "; a running process is named by its PID: "
						    "pgrep -x ",
				strchr(path, '/') ? "" : path);
	if (ip_elf_open(path, &elf) < 0)
		return -1;
	module.elf = elf;
	ret = ip_probe_list_from_elf(elf->fd, path, &list);
	if (ret > 0)
		ip_probe_list_search_not_needed(elf);
	if (ret == 0)
		ret = ip_probe_list_search_find(0, path, elf, &list);
	if (ret >= 0 && ip_probe_list_search_check_used(path) < 0)
		ret = -1;
	if (ret == 0 && ip_elf_note_place(elf, IP_NOTE_ROOM, &room, &size) > 0)
		ret = ip_error("%s: no probe list for it is found: install its debug symbols "
			       "(-dbgsym, -debuginfo), or name the list with --list",
			       path);
	if (ret == 0 && ip_probe_list_is_to_be_made(elf))
		ret = ip_error("%s has no probes: iprobe-cc has compiled it, and another compiler "
			       "has linked it, as libtool may: run coldpatch %s",
			       path, path);
	if (ret == 0)
		ret = ip_error("%s has no probes: it was not built with iprobe-cc (or not run "
			       "through coldpatch)",
			       path);
	if (ret > 0 && (list->header->build_id_size != elf->build_id_size ||
			memcmp(list->header->build_id, elf->build_id, elf->build_id_size)))
		ret = ip_error("%s: its probe list belongs to another build (build-id differs): "
			       "run coldpatch on it again",
			       path);
	module.list = list;
	if (ret > 0 && l->plt && ip_plt_add(&module) < 0)
		ret = -1;
	if (ret > 0 && l->check.wanted) {
		ret = cli_list_check(&l->check, path, &(struct ip_modules){&module, 1}, 0,
				     l->selection, l->json);
	} else if (ret > 0)
		ret = show_module(l, path, module.list) < 0 || check_shown(l, path) < 0 ? -1 : 0;
	ip_probe_list_destroy(module.list);
	ip_elf_close(elf);
	return ret;
}

static int list_process(struct listing *l, pid_t pid)
{
	struct ip_modules modules;
	struct ip_target *target;
	char what[32];
	int ret = 0;

	if (ip_target_open(pid, false, &target) < 0)
		return -1;
	target->plt = l->plt;
	if (ip_modules_load(target, &modules) < 0) {
		ip_target_close(target);
		return -1;
	}
	snprintf(what, sizeof(what), "pid %d", pid);
	for (size_t i = 0; ret == 0 && i < modules.n; i++)
		if (modules.items[i].list && l->check.wanted)
			l->probes += modules.items[i].list->header->nprobes;
		else if (modules.items[i].list)
			ret = show_module(l, modules.items[i].path, modules.items[i].list);
	if (ret == 0 && l->probes)
		ret = ip_probe_list_search_check_used(what);
	if (ret == 0 && !l->probes)
		ret = ip_modules_no_probes(target, &modules);
	else if (ret == 0 && l->check.wanted)
		ret = cli_list_check(&l->check, what, &modules, pid, l->selection, l->json);
	else if (ret == 0)
		ret = check_shown(l, what);
	/* names point into the lists */
	free(l->names);
	l->names = NULL;
	ip_modules_clear(&modules);
	ip_target_close(target);
	return ret;
}

int cmd_list(int argc, char **argv)
{
	static const char letters[] = ":f:p:h";
	static const struct option long_options[] = {{"functions", required_argument, NULL, 'U'},
						     {"list", required_argument, NULL, 'l'},
						     {"plt", no_argument, NULL, 'P'},
						     {"by-function", no_argument, NULL, 'F'},
						     {"full-names", no_argument, NULL, 'N'},
						     {"json", no_argument, NULL, 'j'},
						     {"check", no_argument, NULL, 'C'},
						     {"args", required_argument, NULL, 'A'},
						     {"retval", required_argument, NULL, 'R'},
						     {"when", required_argument, NULL, 'W'},
						     CLI_OPTION_PID,
						     {"help", no_argument, NULL, 'h'},
						     {0}};
	_cleanup_free_ char *text = NULL;
	size_t text_size = 0;
	struct ip_selection *selection;
	struct listing l = {0};
	const char *functions = NULL, *long_value = NULL;
	struct ip_json j;
	bool json = false;
	FILE *buffer = NULL;
	_cleanup_free_ char **operands = NULL;
	size_t noperands;
	int option, pid = 0, ret;

	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, long_options, NULL)) >= 0) {
		if (option == 'f') {
			if (cli_functions(argv[0], optarg, &functions))
				return 2;
		} else if (option == 'U' && *optarg == '-') {
			l.functions = true;
			optind--; /* it is the next option */
		} else if (option == 'U') {
			long_value = optarg;
		} else if (option == ':' && optopt == 'U') {
			l.functions = true;
		} else if (option == 'l') {
			if (ip_probe_list_search_add(optarg) < 0)
				return cli_fail();
		} else if (option == 'j') {
			json = true;
		} else if (option == 'C') {
			l.check.wanted = true;
		} else if (option == 'A' || option == 'R' || option == 'W') {
			if (cli_list_check_add(&l.check,
					       option == 'A'   ? IP_REQUEST_ARGS
					       : option == 'R' ? IP_REQUEST_RETVAL
							       : IP_REQUEST_WHEN,
					       optarg) < 0)
				return cli_usage(argv[0], "%s", ip_error_message());
		} else if (option == 'P') {
			l.plt = true;
		} else if (option == 'F') {
			l.functions = true;
		} else if (option == 'N') {
			l.full_names = true;
		} else if (option == 'p') {
			if (cli_pid_option(argv[0], optarg))
				return 2;
		} else if (option == 'h') {
			ip_print_lines(stdout, help);
			return 0;
		} else {
			return cli_bad_option(argv[0], argc, argv, letters, long_options);
		}
	}
	if (l.check.last && !l.check.wanted)
		return cli_usage(argv[0], "%s goes with --check", l.check.last);
	if (l.check.wanted && (l.functions || l.full_names))
		return cli_usage(argv[0], "--check lists nothing: no --by-function or "
					  "--full-names");
	operands = cli_operands(argc, argv, optind, &noperands);
	if (!operands)
		return cli_fail();
	/* --functions FILE: the word behind it is no selection where no other one can be the file
	 */
	if (long_value && !noperands) {
		l.functions = true;
		operands[noperands++] = (char *)long_value;
	} else if (long_value && cli_functions(argv[0], long_value, &functions)) {
		return 2;
	}
	if (noperands != 1)
		return cli_usage(argv[0],
				 noperands ? "one ELF file or PID, not '%s' too%s"
					   : "one ELF file or PID is needed",
				 noperands ? operands[1] : "",
				 noperands && !functions ? " (functions are chosen by -f)" : "");
	/* an operand of digits only is a process; a file of such a name is written ./1234 */
	if ((optind == argc && !long_value) ||
	    operands[0][strspn(operands[0], "0123456789")] == '\0') {
		int code = cli_pid_operand(argv[0], operands[0], true, &pid);

		if (code >= 0)
			return code;
	}
	if (ip_selection_parse(functions, &selection) < 0)
		return cli_fail();
	l.selection = selection;
	if (json) {
		/* prints nothing on stdout where it fails half way */
		buffer = open_memstream(&text, &text_size);
		if (!buffer)
			return 1;
		ip_json_init(&j, buffer);
		ip_json_object(&j, NULL);
		if (!l.check.wanted)
			ip_json_array(&j, "modules");
		l.json = &j;
	}
	ret = pid ? list_process(&l, pid) : list_file(&l, operands[0]);
	if (json) {
		if (!l.check.wanted)
			ip_json_end_array(&j);
		ip_json_end_object(&j);
		fclose(buffer);
		if (ret >= 0)
			ip_print_lines(stdout, text);
	}
	free(l.names);
	ip_value_requests_clear(&l.check.requests);
	ip_selection_destroy(selection);
	return ret < 0 ? cli_fail() : ret;
}
