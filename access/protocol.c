/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses, checks and writes requests. See protocol.h.
 */
#include "access/protocol.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/trace/kernel_format.h"
#include "common/units.h"

#define FIRST_LINE "iprobe 1"

#define BIT(what) (1u << IP_REQUEST_##what)
#define RECORDS	  (BIT(ATTACH) | BIT(TOP) | BIT(FPERF))

static const struct {
	const char *name;
	unsigned fds;
	bool changes;
} commands[] = {
	[IP_REQUEST_ATTACH] = {"attach", 3, true},  [IP_REQUEST_DETACH] = {"detach", 2, true},
	[IP_REQUEST_STATUS] = {"status", 2, false}, [IP_REQUEST_SNAPSHOT] = {"snapshot", 3, false},
	[IP_REQUEST_TOP] = {"top", 2, true},	    [IP_REQUEST_FPERF] = {"fperf", 2, true},
	[IP_REQUEST_KERNEL] = {"kernel", 0, false},
};

#define NCOMMANDS (sizeof(commands) / sizeof(*commands))

/* An option that is not in this table is refused: a new option is safe only after a developer has
 * thought about it. */
static const struct {
	const char *name;
	unsigned of; /* bits of the commands that take it */
	bool value;
	bool may_lack_it;
} options[] = {
	{"functions", RECORDS, true},
	{"duration", RECORDS, true},
	{"memory", RECORDS, true},
	{"max-stop", RECORDS, true},
	{"json", ~0u, false},
	{"quiet", BIT(ATTACH) | BIT(FPERF), false},
	{"no-stop", BIT(ATTACH) | BIT(DETACH), false},
	{"stop", BIT(ATTACH) | BIT(FPERF), false},
	{"left-over", BIT(DETACH), false},
	{"max-size", BIT(ATTACH), true},
	{"dry-run", BIT(ATTACH), false},
	{"args", BIT(ATTACH), true, true},
	{"retval", BIT(ATTACH), true, true},
	{"when", BIT(ATTACH), true},
	{"string-limit", BIT(ATTACH), true},
	{"follow-fork", BIT(ATTACH), false},
	{"follow-exec", BIT(ATTACH), false},
	{"plt", BIT(ATTACH), false},
	{"time", BIT(ATTACH), true},
	{"clock", BIT(ATTACH), true},
	{"depth", BIT(ATTACH), true},
	{"min-duration", BIT(ATTACH), true},
	{"sample", BIT(ATTACH), true},
	{"start-on", BIT(ATTACH), true},
	{"stop-on", BIT(ATTACH), true},
	{"within", BIT(ATTACH), true},
	{"tid", BIT(ATTACH), true},
	{"thread", BIT(ATTACH), true},
	{"callsite", BIT(ATTACH), false},
	{"payload", BIT(ATTACH), true},
	{"drop-hot", BIT(ATTACH), true, true},
	{"overwrite", BIT(ATTACH), false},
	{"compress", BIT(ATTACH), false},
	{"delay", BIT(TOP), true},
	{"iterations", BIT(TOP), true},
	{"sort", BIT(TOP), true},
	{"batch", BIT(TOP), false},
	{"full-names", BIT(TOP) | BIT(FPERF), false},
	{"limit", BIT(TOP) | BIT(FPERF), true},
	{"events", BIT(FPERF), true},
	{"budget", BIT(FPERF), true},
	{"interval", BIT(FPERF), true},
	{"alternate", BIT(FPERF), true},
	{"multiplex", BIT(FPERF), false},
	{"exclusive", BIT(FPERF), false},
	{"csv", BIT(FPERF), false},
	{"until", BIT(ATTACH), true},
	{"linger", BIT(ATTACH), true},
	{"save-counts", BIT(ATTACH), true},
	{"kernel", BIT(ATTACH) | BIT(TOP) | BIT(KERNEL), true, true},
	{"kernel-buffer", BIT(ATTACH) | BIT(TOP) | BIT(KERNEL), true},
	{"idle", BIT(TOP), false},
	{"waits", BIT(TOP), true},
	{"by", BIT(TOP), true},
};

const char *ip_request_refusal(enum ip_request_what what, const char *option)
{
	size_t n = strcspn(option, "="), i;
	const char *value = option[n] ? option + n + 1 : NULL;
	uint64_t size;

	if (strncmp(option, "--", 2))
		return "is no option";
	for (i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (strlen(options[i].name) == n - 2 && !memcmp(options[i].name, option + 2, n - 2))
			break;
	if (i == sizeof(options) / sizeof(*options) || !(options[i].of >> what & 1))
		return "is not taken by iprobed";
	if (options[i].value != (value != NULL) && !(options[i].may_lack_it && !value))
		return value ? "takes no value" : "lacks its value";
	/* @FILE as a whole selection, or behind the colon of P:SEL; below, a payload that is a
	 * file */
	if (value && (*value == '@' || strstr(value, ":@")))
		return "would have iprobed read a file";
	/* the memory counts as iprobed's, not as the client's */
	if (value && !strcmp(options[i].name, "memory") && ip_parse_size(value, &size) == 0 &&
	    size > IP_REQUEST_MEMORY_MAX)
		return "is more than iprobed gives, which is 1G";
	if (value && !strcmp(options[i].name, "kernel-buffer") &&
	    ip_parse_size(value, &size) == 0 && size > IP_REQUEST_KERNEL_BUFFER_MAX)
		return "is more than iprobed gives, which is 16M";
	if (value && !strcmp(options[i].name, "payload") && !strncmp(value, "user", 4))
		return "would have iprobed load a file";
	return NULL;
}

unsigned ip_request_fds(enum ip_request_what what)
{
	return commands[what].fds;
}

const char *ip_request_name(enum ip_request_what what)
{
	return commands[what].name;
}

uint64_t ip_request_memory(const struct ip_request *r)
{
	uint64_t memory = IP_REQUEST_MEMORY_USUAL;

	if (!(RECORDS >> r->what & 1))
		return 0;
	for (size_t i = 0; i < r->noptions; i++)
		if (!strncmp(r->options[i], "--memory=", 9) &&
		    ip_parse_size(r->options[i] + 9, &memory) < 0)
			memory = IP_REQUEST_MEMORY_MAX; /* the command refuses it */
	return memory;
}

/* Whether an option is the one of that name. *ret_value: NULL where it has none. */
static bool is_option(const char *option, const char *name, const char **ret_value)
{
	const size_t n = strlen(name);

	if (strncmp(option, "--", 2) || strncmp(option + 2, name, n) ||
	    (option[2 + n] && option[2 + n] != '='))
		return false;
	*ret_value = option[2 + n] ? option + 3 + n : NULL;
	return true;
}

bool ip_request_keeps_newest(const struct ip_request *r)
{
	const char *value;
	bool keeps = r->what == IP_REQUEST_TOP;

	for (size_t i = 0; i < r->noptions; i++)
		keeps |= is_option(r->options[i], "overwrite", &value);
	return keeps;
}

bool ip_request_kernel(const struct ip_request *r, uint64_t *ret_buffer, bool *ret_optional)
{
	const char *value;
	bool asked = false;
	unsigned groups;

	*ret_buffer = IP_REQUEST_KERNEL_BUFFER_USUAL;
	/* iprobe top shows the rest */
	*ret_optional = r->what == IP_REQUEST_TOP;
	for (size_t i = 0; i < r->noptions; i++)
		if (is_option(r->options[i], "kernel", &value)) {
			asked = true;
			if (r->what == IP_REQUEST_TOP)
				continue;
			if (ip_kernel_choice_parse(value, &groups, ret_optional) < 0)
				*ret_optional = false; /* the command refuses it */
		} else if (is_option(r->options[i], "kernel-buffer", &value) && value &&
			   ip_parse_size(value, ret_buffer) < 0)
			*ret_buffer = IP_REQUEST_KERNEL_BUFFER_MAX; /* the command refuses it */
	return asked;
}

bool ip_request_changes(enum ip_request_what what)
{
	return commands[what].changes;
}

void ip_request_clear(struct ip_request *request)
{
	for (size_t i = 0; i < request->noptions; i++)
		free(request->options[i]);
	free(request->shown);
	*request = (struct ip_request){0};
}

static int check_directory(const char *name)
{
	if (!ip_dir_is_name(name) || strlen(name) >= sizeof(((struct ip_request *)NULL)->directory))
		return ip_error("request: '%s' is no name of one directory", name);
	return 0;
}

static int take_line(struct ip_request *r, const char *line, bool *have)
{
	const char *value = strchr(line, ' ');
	size_t n = value ? (size_t)(value++ - line) : strlen(line), what;
	const char *why;
	int pid;

	for (what = 0; what < NCOMMANDS; what++)
		if (strlen(commands[what].name) == n && !memcmp(line, commands[what].name, n))
			break;
	if (what < NCOMMANDS) {
		if (*have || !value || ip_parse_pid(value, &pid) < 0)
			return ip_error("request: one process, and its id, not '%s'", line);
		r->what = what;
		r->pid = pid;
		*have = true;
		return 0;
	}
	if (!*have)
		return ip_error("request: '%s' before what is asked for", line);
	if (!strcmp(line, "leave") && r->what == IP_REQUEST_ATTACH) {
		r->leave = true;
		return 0;
	}
	if (!strcmp(line, "member") && r->what == IP_REQUEST_ATTACH) {
		r->member = true;
		return 0;
	}
	if (n == 5 && !memcmp(line, "shown", 5) && value && r->what == IP_REQUEST_ATTACH &&
	    !r->shown) {
		/* the environment of a worker has a limit for each text */
		if (!*value || strlen(value) >= PATH_MAX)
			return ip_error("request: no path, or one that is too long, is shown");
		r->shown = strdup(value);
		return r->shown ? 0 : ip_error("out of memory");
	}
	if (n == 9 && !memcmp(line, "directory", 9) && value &&
	    ip_request_fds(r->what) == IP_REQUEST_FDS && !*r->directory) {
		if (check_directory(value) < 0)
			return -1;
		strcpy(r->directory, value);
		return 0;
	}
	if (n == 6 && !memcmp(line, "option", 6) && value) {
		why = ip_request_refusal(r->what, value);
		if (why)
			return ip_error("request: '%s' %s", value, why);
		if (r->noptions == IP_REQUEST_OPTIONS_MAX)
			return ip_error("request: more than %u options", IP_REQUEST_OPTIONS_MAX);
		r->options[r->noptions] = strdup(value);
		if (!r->options[r->noptions])
			return ip_error("out of memory");
		r->noptions++;
		return 0;
	}
	return ip_error("request: '%s' is not understood", line);
}

static int take_lines(struct ip_request *r, char *text)
{
	bool first = true, have = false;

	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		else if (!*line)
			break; /* nothing follows the last newline */
		if (first && strcmp(line, FIRST_LINE))
			return ip_error("request: it does not begin with '" FIRST_LINE
					"': another version of iprobe?");
		if (!first && take_line(r, line, &have) < 0)
			return -1;
		first = false;
	}
	return have ? 0 : ip_error("request: it asks for nothing");
}

int ip_request_parse(const char *text, size_t size, struct ip_request *ret)
{
	_cleanup_free_ char *copy = NULL;

	*ret = (struct ip_request){0};
	if (size > IP_REQUEST_SIZE_MAX)
		return ip_error("request: larger than %u bytes", IP_REQUEST_SIZE_MAX);
	if (memchr(text, '\0', size))
		return ip_error("request: it holds a zero byte");
	copy = strndup(text, size);
	if (!copy)
		return ip_error("out of memory");
	if (take_lines(ret, copy) == 0)
		return 0;
	ip_request_clear(ret);
	return -1;
}

char *ip_request_format(const struct ip_request *r)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out) {
		ip_error("out of memory");
		return NULL;
	}
	fprintf(out, FIRST_LINE "\n%s %d\n", commands[r->what].name, r->pid);
	if (r->leave)
		fprintf(out, "leave\n");
	if (r->member)
		fprintf(out, "member\n");
	if (r->shown && !strchr(r->shown, '\n')) /* the rest would be lines of the request */
		fprintf(out, "shown %s\n", r->shown);
	if (*r->directory)
		fprintf(out, "directory %s\n", r->directory);
	for (size_t i = 0; i < r->noptions; i++)
		fprintf(out, "option %s\n", r->options[i]);
	if (fclose(out) != 0) {
		free(text);
		ip_error("out of memory");
		return NULL;
	}
	return text;
}
