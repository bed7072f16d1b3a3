/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and applies the rules of --payload.
 */
#include "hotpatcher/plan/payload_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/abi/meters.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/plan/user_payload.h"

#define RULES_MAX 256u

static const char *const names[] = {[IP_DUTY_LOG] = "log",
				    [IP_DUTY_COUNT] = "count",
				    [IP_DUTY_HIST] = "hist",
				    [IP_DUTY_USER] = "user"};

const char *ip_duty_name(uint32_t duty)
{
	return duty < sizeof(names) / sizeof(*names) ? names[duty] : "silent";
}

static void clear_rule(struct ip_payload_rule *rule)
{
	free(rule->text);
	ip_selection_destroy(rule->selection);
}

static int parse_payload(const char *text, size_t length, struct ip_payload_rule *rule)
{
	for (uint32_t duty = IP_DUTY_LOG; duty <= IP_DUTY_HIST; duty++)
		if (strlen(names[duty]) == length && !strncmp(text, names[duty], length)) {
			rule->duty = duty;
			return 0;
		}
	return ip_error("--payload %s: there are log, count and hist, and user:FILE; a selection "
			"of functions may follow behind a colon",
			text);
}

/* Parses "user:FILE[:SEL]". *ret_length: length up to the selection's colon. */
static int parse_user(struct ip_payload_rules *rules, const char *text, size_t *ret_length)
{
	const char *file = text + strlen("user:");
	size_t length = strcspn(file, ":");
	_cleanup_free_ char *name = strndup(file, length),
			    *object = name && *name ? realpath(name, NULL) : NULL;

	*ret_length = file + length - text;
	if (!length)
		return ip_error("--payload user: needs a shared object: user:FILE.so[:SEL]");
	if (!object)
		return ip_error_errno("--payload user: %s", name ? name : "out of memory");
	if (strpbrk(object, ": "))
		return ip_error(
			"--payload user: %s: the loader takes no names with blanks and colons",
			object);
	if (rules->object && strcmp(rules->object, object))
		return ip_error("--payload user: a session takes one object: %s, or %s",
				rules->object, object);
	if (ip_user_check_file(object) < 0)
		return -1;
	if (!rules->object)
		rules->object = ip_steal_ptr(object);
	return 0;
}

int ip_payload_rules_add(struct ip_payload_rules *rules, const char *text)
{
	size_t length = strcspn(text, ":");
	struct ip_payload_rule rule = {0}, *grown;

	if (rules->n == RULES_MAX)
		return ip_error("--payload %s: a session takes %u of them at most", text,
				RULES_MAX);
	if (!strncmp(text, "user:", 5)) {
		rule.duty = IP_DUTY_USER;
		if (parse_user(rules, text, &length) < 0)
			return -1;
	} else if (parse_payload(text, length, &rule) < 0) {
		return -1;
	}
	if (text[length] && !text[length + 1])
		return ip_error("--payload %s: a selection is missing behind the colon", text);
	if (text[length] && ip_selection_parse(text + length + 1, &rule.selection) < 0)
		return ip_error_prefix("--payload");
	for (size_t i = 0; !rule.selection && i < rules->n; i++)
		if (!rules->items[i].selection)
			return ip_error("--payload %s: %s is for everything else "
					"already: give one of them a selection (P:SEL)",
					text, rules->items[i].text);
	if (asprintf(&rule.text, "--payload %s", text) < 0)
		rule.text = NULL;
	grown = rule.text ? reallocarray(rules->items, rules->n + 1, sizeof(*grown)) : NULL;
	if (!grown) {
		clear_rule(&rule);
		return ip_error("out of memory");
	}
	rules->items = grown;
	rules->items[rules->n++] = rule;
	return 0;
}

int ip_payload_rules_call(struct ip_payload_rules *rules, const char *option, const char *text)
{
	struct ip_payload_rule *last = &rules->items[rules->n - 1];
	char *whole;

	if (asprintf(&whole, "%s %s", option, text) < 0)
		return ip_error("out of memory");
	free(last->text);
	last->text = whole;
	return 0;
}

void ip_payload_rules_clear(struct ip_payload_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++)
		clear_rule(&rules->items[i]);
	free(rules->items);
	free(rules->object);
	*rules = (struct ip_payload_rules){0};
}

bool ip_payload_rules_matter(const struct ip_payload_rules *rules)
{
	for (size_t i = 0; rules && i < rules->n; i++)
		if (rules->items[i].duty != IP_DUTY_LOG)
			return true;
	return false;
}

bool ip_payload_rules_measure(const struct ip_payload_rules *rules)
{
	for (size_t i = 0; rules && i < rules->n; i++)
		if (rules->items[i].duty == IP_DUTY_HIST || rules->items[i].duty == IP_DUTY_TIMED)
			return true;
	return false;
}

bool ip_payload_rules_count(const struct ip_payload_rules *rules)
{
	for (size_t i = 0; rules && i < rules->n; i++)
		if (rules->items[i].duty != IP_DUTY_LOG && rules->items[i].duty != IP_DUTY_TIMED)
			return true;
	return false;
}

bool ip_payload_rules_never_log(const struct ip_payload_rules *rules, const char *functions)
{
	for (size_t i = 0; rules && i < rules->n; i++)
		if (rules->items[i].duty == IP_DUTY_LOG || rules->items[i].duty == IP_DUTY_TIMED)
			return false;
	for (size_t i = 0; rules && i < rules->n; i++)
		if (!rules->items[i].selection)
			return true;
	/* the rules' own selections are those of the session */
	return !functions && rules && rules->n;
}

void ip_payload_rules_log_too(struct ip_payload_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++)
		if (rules->items[i].duty == IP_DUTY_HIST)
			rules->items[i].duty = IP_DUTY_TIMED;
}

struct ip_payload_rule *ip_payload_rules_find(const struct ip_payload_rules *rules,
					      const char *linker_name, const char *file,
					      const char *module,
					      const struct ip_payload_rule **ret_other)
{
	struct ip_payload_rule *found = NULL, *rest = NULL;

	*ret_other = NULL;
	for (size_t i = 0; rules && i < rules->n; i++) {
		struct ip_payload_rule *rule = &rules->items[i];

		if (!rule->selection)
			rest = rule;
		else if (!ip_selection_match(rule->selection, linker_name, file, module))
			continue;
		else if (!found)
			found = rule;
		else if (found->duty != rule->duty && !*ret_other)
			*ret_other = rule;
		/* a rule that only repeats another one has applied to the function, too */
		else
			rule->functions++;
	}
	found = found ? found : rest;
	if (found)
		found->functions++;
	return found;
}

const struct ip_payload_rule *ip_payload_rules_unused(const struct ip_payload_rules *rules)
{
	for (size_t i = 0; rules && i < rules->n; i++)
		if (rules->items[i].selection && !rules->items[i].functions)
			return &rules->items[i];
	return NULL;
}

int ip_payload_rules_select(const struct ip_payload_rules *rules, const char *functions,
			    struct ip_selections *ret)
{
	bool all_say = rules && rules->n;

	for (size_t i = 0; rules && i < rules->n; i++)
		all_say &= rules->items[i].selection && rules->items[i].duty != IP_DUTY_TIMED;
	if (functions || !all_say)
		return ip_selections_add(ret, functions);
	for (size_t i = 0; i < rules->n; i++) {
		const struct ip_selection *selection = rules->items[i].selection;
		_cleanup_free_ char *text = ip_selection_text(selection), *whole = NULL;

		if (!text)
			return -1;
		/* if the selection consists of ! items only, it stands for all other functions */
		if (asprintf(&whole, "%s%s", ip_selection_only_takes_away(selection) ? "*," : "",
			     text) < 0) {
			whole = NULL;
			return ip_error("out of memory");
		}
		if (ip_selections_add(ret, whole) < 0)
			return -1;
	}
	return 0;
}
