/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines. See command.h.
 */
#include "iprobed/rules/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"

void ip_rules_command_add(struct ip_rules_command *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (c->n == IP_RULES_COMMAND_WORDS || vasprintf(&c->words[c->n], format, args) < 0) {
		if (c->n < IP_RULES_COMMAND_WORDS)
			c->words[c->n] = NULL;
		c->failed = true;
	} else {
		c->n++;
	}
	va_end(args);
}

void ip_rules_command_pids(struct ip_rules_command *c, const struct ip_rules_members *members)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (size_t i = 0; out && i < members->n; i++)
		fprintf(out, "%s%d", i ? "," : "", members->pids[i]);
	if (!out || fclose(out) != 0)
		c->failed = true;
	ip_rules_command_add(c, "-p");
	ip_rules_command_add(c, "%s", text ? text : "");
	free(text);
}

int ip_rules_command_start(struct ip_rules_command *c, const struct ip_rules *e,
			   const struct ip_rules_members *members, const char *directory,
			   struct ip_rules_job *job)
{
	_cleanup_free_ char *text =
		members->service
			? ip_delegation_text_of_many(IP_RULES_JOB_TARGET, members->pids, members->n)
			: ip_delegation_text(IP_DELEGATION_ANY, IP_DELEGATION_STAYS,
					     IP_RULES_JOB_TARGET, NULL);
	_cleanup_free_ char *variable = NULL, *temporary = NULL;
	char *environment[4] = {e->environment, NULL, NULL, NULL};
	int done = -1;

	if (!text || asprintf(&variable, IP_DELEGATION_VARIABLE "=%s", text) < 0)
		variable = NULL;
	if (c->temporary && asprintf(&temporary, "TMPDIR=%s", c->temporary) < 0)
		temporary = NULL;
	environment[1] = variable;
	environment[2] = temporary;
	if (c->failed || !variable || (c->temporary && !temporary))
		ip_error("out of memory");
	else
		done = ip_rules_job_start(job, c->words, directory, members->pidfds, members->n,
					  environment);
	for (size_t i = 0; i < c->n; i++)
		free(c->words[i]);
	return done;
}

void ip_rules_command_iprobe(struct ip_rules_command *c, const struct ip_rules *e,
			     const char *command)
{
	*c = (struct ip_rules_command){0};
	ip_rules_command_add(c, "%s", e->options->program);
	ip_rules_command_add(c, "%s", command);
}

void ip_rules_command_values(struct ip_rules_command *c, const struct ip_rules_rule *r)
{
	if (r->args)
		ip_rules_command_add(c, "--args");
	if (r->retval)
		ip_rules_command_add(c, "--retval");
	for (size_t i = 0; i < r->args_of.n; i++)
		ip_rules_command_add(c, "--args=%s", r->args_of.items[i]);
	for (size_t i = 0; i < r->retval_of.n; i++)
		ip_rules_command_add(c, "--retval=%s", r->retval_of.items[i]);
	for (size_t i = 0; i < r->when.n; i++)
		ip_rules_command_add(c, "--when=%s", r->when.items[i]);
}

void ip_rules_command_options(struct ip_rules_command *c, const struct ip_rules_rule *r,
			      const char *dir)
{
	ip_rules_command_add(c, "--json");
	ip_rules_command_add(c, "-q");
	ip_rules_command_add(c, "-o");
	ip_rules_command_add(c, "%s", dir);
	if (r && r->functions) {
		ip_rules_command_add(c, "-f");
		ip_rules_command_add(c, "%s", r->functions);
	}
}
