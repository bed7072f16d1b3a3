/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads values, each within its bounds.
 */
#include "cli/darc/darc_state_values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

const char *cli_state_choice(enum ip_darc_choice choice)
{
	static const char *const names[] = {[IP_DARC_RIGHTMOST] = "rightmost",
					    [IP_DARC_PEAK] = "peak",
					    [IP_DARC_SLOWER] = "slower",
					    [IP_DARC_PERCENTILE] = "percentile"};

	return names[choice];
}

int cli_state_error(const struct cli_state_object *f, const struct ip_yaml *node, const char *key,
		    const char *what)
{
	return ip_yaml_error(f->document, node ? node : f->object, "%s: %s", key, what);
}

const struct ip_yaml *cli_state_get(const struct cli_state_object *f, const char *key,
				    enum ip_yaml_kind kind)
{
	static const char *const kinds[] = {"a value", "a list", "an object"};
	const struct ip_yaml *node = ip_yaml_get(f->object, key);
	char what[32];

	if (node && node->kind == kind)
		return node;
	snprintf(what, sizeof(what), "%s is needed", kinds[kind]);
	cli_state_error(f, node, key, what);
	return NULL;
}

bool cli_state_is_null(const struct ip_yaml *node)
{
	return node && node->kind == IP_YAML_SCALAR && !strcmp(node->text, "null");
}

int cli_state_number_of(const struct cli_state_object *f, const struct ip_yaml *node,
			const char *key, uint64_t most, uint64_t *ret)
{
	char *end;

	if (node->kind != IP_YAML_SCALAR || *node->text < '0' || *node->text > '9')
		return cli_state_error(f, node, key, "a number is needed");
	errno = 0;
	*ret = strtoull(node->text, &end, 10);
	if (*end || errno || *ret > most)
		return cli_state_error(f, node, key,
				       *end ? "a number is needed" : "the number is too large");
	return 0;
}

int cli_state_number(const struct cli_state_object *f, const char *key, uint64_t most,
		     uint64_t *ret)
{
	const struct ip_yaml *node = cli_state_get(f, key, IP_YAML_SCALAR);

	return node ? cli_state_number_of(f, node, key, most, ret) : -1;
}

int cli_state_real(const struct cli_state_object *f, const char *key, double most, double *ret)
{
	const struct ip_yaml *node = cli_state_get(f, key, IP_YAML_SCALAR);
	char *end;

	if (!node)
		return -1;
	*ret = strtod(node->text, &end);
	if (!*node->text || *end || !(*ret >= 0 && *ret <= most))
		return cli_state_error(f, node, key, "no such number is possible");
	return 0;
}

int cli_state_bool(const struct cli_state_object *f, const char *key, bool *ret)
{
	const struct ip_yaml *node = cli_state_get(f, key, IP_YAML_SCALAR);

	return node ? ip_yaml_bool(f->document, node, key, ret) : -1;
}

int cli_state_text(const struct cli_state_object *f, const char *key, bool may_miss, char **ret)
{
	const struct ip_yaml *node = cli_state_get(f, key, IP_YAML_SCALAR);

	if (!node)
		return -1;
	if (may_miss && cli_state_is_null(node))
		return 0;
	if (strlen(node->text) > CLI_STATE_TEXT_MAX)
		return cli_state_error(f, node, key, "the text is too long");
	*ret = strdup(node->text);
	return *ret ? 0 : ip_error("out of memory");
}

const struct ip_yaml *cli_state_list(const struct cli_state_object *f, const char *key, size_t most)
{
	const struct ip_yaml *list = cli_state_get(f, key, IP_YAML_LIST);

	if (!list || list->n <= most)
		return list;
	cli_state_error(f, list, key, "the list is too long");
	return NULL;
}
