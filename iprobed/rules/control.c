/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: iprobed --fire and --rules, and the process that serves them. They use a Unix socket in
 * the state directory. Only root and the user that iprobed runs as may connect to it. The reply
 * begins with "ok" or "no", its size and a newline, and is sent in as many packets as needed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/units.h"
#include "iprobed/rules/rules_private.h"

#define REQUEST_MAX 256
#define PACKET_MAX  (32u << 10)
#define REPLY_MAX   (64ul << 20)
#define TIMEOUT_S   60

static int address_of(const char *state, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	return snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/rules.sock", state) <
			       (int)sizeof(ret->sun_path)
		       ? 0
		       : ip_error("%s: too long for the name of a socket", state);
}

int ip_rules_listen(struct ip_rules *e)
{
	struct sockaddr_un address;
	_cleanup_close_ int fd = -1;
	mode_t before;
	int done;

	if (address_of(e->options->state, &address) < 0)
		return -1;
	unlink(address.sun_path); /* this process has the lock, so no other one listens there */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	before = umask(0177);
	done = fd < 0 ? -1 : bind(fd, (const struct sockaddr *)&address, sizeof(address));
	umask(before);
	if (done < 0 || listen(fd, 8) < 0)
		return ip_error_errno("cannot listen at %s", address.sun_path);
	e->listening = ip_steal_fd(&fd);
	return 0;
}

void ip_rules_listen_no_more(struct ip_rules *e)
{
	struct sockaddr_un address;

	if (e->listening < 0 || address_of(e->options->state, &address) < 0)
		return;
	unlink(address.sun_path);
	close(e->listening);
	e->listening = -1;
}

static const char *doing_name(const struct ip_rules_target *t)
{
	static const char *const names[] = {"nothing", "watch", "act", "act", "clean"};

	return names[t->doing];
}

static void limit_json(const struct ip_rules_arm *arm, uint64_t now_ns, struct ip_json *j)
{
	char limit[IP_RULES_LIMIT];

	if (!ip_rules_arm_limit(arm, now_ns, limit))
		return;
	ip_json_string(j, "limit", limit);
	ip_json_uint(j, "next_in_ns", ip_rules_arm_wait(arm, now_ns));
}

static void list_json(const struct ip_rules *e, uint64_t now_ns, FILE *out)
{
	const struct ip_rules_rule *first;
	struct ip_json j;

	ip_json_init(&j, out);
	ip_json_object(&j, NULL);
	ip_json_array(&j, "rules");
	for (size_t i = 0; i < e->nstates; i++) {
		const struct ip_rules_state *s = &e->states[i];

		ip_json_object(&j, NULL);
		ip_json_string(&j, "name", s->rule->name);
		ip_json_string(&j, "does", ip_rules_action_name(s->rule->action));
		ip_json_string(&j, "record", s->rule->service ? "service" : "process");
		ip_json_uint(&j, "fired", s->fired);
		if (*s->outcome) {
			ip_json_string(&j, "last", s->outcome);
			ip_json_bool(&j, "last_recorded", s->recorded);
		}
		ip_json_array(&j, "processes");
		for (size_t k = 0; k < e->ntargets; k++)
			for (size_t a = 0; a < e->targets[k]->narms; a++)
				if (e->targets[k]->arms[a].state == s && !e->targets[k]->gone) {
					ip_json_object(&j, NULL);
					ip_json_int(&j, "pid", e->targets[k]->process.pid);
					ip_json_string(&j, "program", e->targets[k]->process.exe);
					ip_json_string(&j, "doing", doing_name(e->targets[k]));
					limit_json(&e->targets[k]->arms[a], now_ns, &j);
					first = ip_rules_arm_waits_for(e->targets[k],
								       &e->targets[k]->arms[a]);
					if (first)
						ip_json_string(&j, "waits_for", first->name);
					ip_json_end_object(&j);
				}
		ip_json_end_array(&j);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

char *ip_rules_plain(const char *text, bool all)
{
	char *plain = malloc(4 * strlen(text) + 1), *p = plain;

	for (; plain && *text; text++) {
		unsigned char c = *text;

		if (c == '\n' || (c >= 0x20 && c < 0x7f) || (c >= 0x80 && !all))
			*p++ = c;
		else
			p += sprintf(p, "\\x%02x", c);
	}
	if (plain)
		*p = '\0';
	return plain;
}

/* The process has chosen its own name. The name must neither control a terminal nor begin a new
 * line. */
static void put_program(const char *text, FILE *out)
{
	for (; *text; text++)
		fprintf(out, *text >= 0x20 && *text < 0x7f ? "%c" : "\\x%02x",
			(unsigned char)*text);
	putc('\n', out);
}

/* It may have names of the process. */
static void put_outcome(const struct ip_rules_state *state, FILE *out)
{
	fputs("  last: ", out);
	put_program(state->outcome, out);
}

static void list_text(const struct ip_rules *e, uint64_t now_ns, FILE *out)
{
	const struct ip_rules_rule *first;
	char limit[IP_RULES_LIMIT];

	for (size_t i = 0; i < e->nstates; i++) {
		const struct ip_rules_state *s = &e->states[i];

		fprintf(out, "%s: %s, fired %lu time%s%s%s\n", s->rule->name,
			ip_rules_action_name(s->rule->action), s->fired, ip_plural(s->fired),
			*s->last ? ", last " : "", s->last);
		if (*s->outcome)
			put_outcome(s, out);
		for (size_t k = 0; k < e->ntargets; k++)
			for (size_t a = 0; a < e->targets[k]->narms; a++)
				if (e->targets[k]->arms[a].state == s && !e->targets[k]->gone) {
					fprintf(out, "  pid %d  %s  ", e->targets[k]->process.pid,
						doing_name(e->targets[k]));
					put_program(e->targets[k]->process.exe, out);
					if (ip_rules_arm_limit(&e->targets[k]->arms[a], now_ns,
							       limit))
						fprintf(out, "    %s\n", limit);
					first = ip_rules_arm_waits_for(e->targets[k],
								       &e->targets[k]->arms[a]);
					if (first)
						fprintf(out,
							"    waits: the rule '%s' watches the "
							"process, which has one session at a "
							"time\n",
							first->name);
				}
	}
	if (!e->nstates)
		fputs("no rules are carried out\n", out);
}

/* Fires the rule for the targets that it is for (pid 0: for all). Returns the number of these
 * targets. */
static unsigned fire_for(struct ip_rules *e, const char *name, pid_t pid, uint64_t now_ns,
			 unsigned *ret_fired)
{
	unsigned found = 0;

	for (size_t i = 0; i < e->ntargets; i++)
		for (size_t a = 0; a < e->targets[i]->narms && !e->targets[i]->gone; a++) {
			struct ip_rules_target *t = e->targets[i];

			if (strcmp(t->arms[a].state->rule->name, name) ||
			    (pid && t->process.pid != pid))
				continue;
			found++;
			*ret_fired +=
				ip_rules_fire(e, t, &t->arms[a], true, now_ns, "it was asked for");
		}
	return found;
}

/* Returns -1 with an error. */
static int fire(struct ip_rules *e, const char *name, pid_t pid, uint64_t now_ns, FILE *out)
{
	unsigned found, fired = 0;
	const struct ip_rules_state *state = NULL;
	char before[IP_RULES_WHY] = "";

	for (size_t i = 0; i < e->nstates; i++)
		if (!strcmp(e->states[i].rule->name, name)) {
			state = &e->states[i];
			if (!state->recorded)
				snprintf(before, sizeof(before), "%s", state->outcome);
		}
	if (!state)
		return ip_error("no rule '%s' is carried out (iprobed --rules lists them)", name);
	found = fire_for(e, name, pid, now_ns, &fired);
	/* the process may have started since the last scan */
	if (!found && !e->ending && !e->reloading) {
		e->scan_ns = 0;
		ip_rules_scan(e, now_ns);
		found = fire_for(e, name, pid, now_ns, &fired);
	}
	if (!found)
		return pid ? ip_error("the rule '%s' is not for pid %d", name, pid)
			   : ip_error("the rule '%s' is for no process that runs", name);
	if (!fired)
		return ip_error("the rule '%s' is at work on it already", name);
	if (state->rule->service)
		fprintf(out, "the rule '%s' fires for %u service%s\n", name, fired,
			ip_plural(fired));
	else
		fprintf(out, "the rule '%s' fires for %u process%s\n", name, fired,
			fired == 1 ? "" : "es");
	if (*before) {
		fputs("what came of it the last time: ", out);
		put_program(before, out);
	}
	return 0;
}

static int carry_out(struct ip_rules *e, char *request, uint64_t now_ns, FILE *out)
{
	char *save, *word = strtok_r(request, " ", &save), *first = strtok_r(NULL, " ", &save),
		    *second = strtok_r(NULL, " ", &save);
	int pid = 0;

	if (word && !strcmp(word, "list") && (!first || !strcmp(first, "json"))) {
		if (first)
			list_json(e, now_ns, out);
		else
			list_text(e, now_ns, out);
		return 0;
	}
	if (!word || strcmp(word, "fire") || !first || (second && strtok_r(NULL, " ", &save)))
		return ip_error("not understood");
	if (second && ip_parse_pid(second, &pid) < 0)
		return -1;
	return fire(e, first, pid, now_ns, out);
}

/* A client that does not read is not waited for. */
static void send_all(int fd, const char *text, size_t size)
{
	const struct timeval timeout = {.tv_sec = 2};

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	for (size_t sent = 0; sent < size; sent += PACKET_MAX) {
		size_t rest = size - sent;

		if (send(fd, text + sent, rest < PACKET_MAX ? rest : PACKET_MAX, MSG_NOSIGNAL) < 0)
			return;
	}
}

static void serve(struct ip_rules *e, int fd, uint64_t now_ns)
{
	const struct timeval timeout = {
		.tv_sec = 2}; /* only trusted users can connect, but the machine may be busy */
	_cleanup_free_ char *text = NULL, *reply = NULL;
	char request[REQUEST_MAX + 1];
	struct ucred who;
	socklen_t length = sizeof(who);
	size_t size = 0;
	ssize_t n;
	FILE *out;
	int done;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) < 0 ||
	    (who.uid && who.uid != geteuid()) || (n = recv(fd, request, REQUEST_MAX, 0)) <= 0)
		return;
	request[n] = '\0';
	out = open_memstream(&text, &size);
	if (!out)
		return;
	done = carry_out(e, request, now_ns, out);
	if (fclose(out) != 0)
		return;
	if (done < 0)
		size = strlen(ip_error_message());
	if (asprintf(&reply, "%s %zu\n%s", done == 0 ? "ok" : "no", size,
		     done == 0 ? text : ip_error_message()) < 0)
		reply = NULL;
	else
		send_all(fd, reply, strlen(reply));
}

void ip_rules_serve(struct ip_rules *e, uint64_t now_ns)
{
	_cleanup_close_ int fd = accept4(e->listening, NULL, NULL, SOCK_CLOEXEC);

	if (fd >= 0)
		serve(e, fd, now_ns);
}

/* Returns everything that is received until the other end is closed. The caller frees it. NULL with
 * an error. */
static char *receive_all(int fd)
{
	_cleanup_free_ char *all = NULL;
	size_t size = 0;
	ssize_t n = 1;

	while (n > 0 && size < REPLY_MAX) {
		char *grown = realloc(all, size + PACKET_MAX + 1);

		if (!grown) {
			ip_error("out of memory");
			return NULL;
		}
		all = grown;
		n = recv(fd, all + size, PACKET_MAX, 0);
		size += n > 0 ? n : 0;
	}
	if (n < 0) {
		ip_error_errno("iprobed's rules do not answer");
		return NULL;
	}
	all[size] = '\0';
	return ip_steal_ptr(all);
}

int ip_rules_ask(const char *state, const char *request, char **ret)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_S};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	_cleanup_free_ char *reply = NULL;
	struct sockaddr_un address;
	struct ucred who = {.uid = -1};
	socklen_t length = sizeof(who);
	char word[3] = "";
	size_t size = 0;
	int head = 0;

	if (address_of(state, &address) < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return errno == ENOENT || errno == ECONNREFUSED
			       ? ip_error("no iprobed carries out rules here: nobody listens at %s",
					  address.sun_path)
			       : ip_error_errno("%s", address.sun_path);
	/* If other users can make names in the directory, any process might listen there. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) < 0 ||
	    (who.uid && who.uid != geteuid()))
		return ip_error("%s: who listens there is user %u", address.sun_path, who.uid);
	if (strlen(request) > REQUEST_MAX)
		return ip_error("the request is too long");
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return ip_error_errno("%s does not answer", address.sun_path);
	reply = receive_all(fd);
	if (!reply)
		return -1;
	if (sscanf(reply, "%2s %zu%n", word, &size, &head) != 2 || reply[head] != '\n')
		return ip_error("%s: no answer", address.sun_path);
	if (strlen(reply + head + 1) != size)
		return ip_error("%s: the answer is not whole: ask again", address.sun_path);
	if (strcmp(word, "ok"))
		return ip_error("%s", reply + head + 1);
	*ret = strdup(reply + head + 1);
	return *ret ? 0 : ip_error("out of memory");
}
