/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares values as people read them: those that are shown alike are alike.
 */
#include "cli/darc/compare/compare_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/values.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"

/* Two values of one place. */
struct pair {
	const char *of;	   /* "args", "retval", or "point" */
	const char *point; /* its name; NULL: of none */
	struct ip_value slow, usual;
	const char *slow_text, *usual_text;
};

typedef int visit(void *context, const struct pair *pair);

static char *text_of(const struct ip_value *value)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (out)
		ip_value_print(out, value);
	return ip_print_end_text(out, &text);
}

/* Another signature is that of another build of the function: nothing of it is compared. */
static bool is_same(const struct ip_signature *a, const struct ip_signature *b)
{
	if (!a || !b || a->n != b->n)
		return false;
	for (unsigned i = 0; i < a->n; i++)
		if (!a->values[i].name != !b->values[i].name ||
		    (a->values[i].name && strcmp(a->values[i].name, b->values[i].name)))
			return false;
	return true;
}

/* Visits the pairs that differ. Returns 0, or -1 with an error. */
static int visit_payloads(const struct ip_recording *session, const uint64_t *slow,
			  const uint64_t *usual, struct pair pair, visit *each, void *context)
{
	const struct ip_signature *a = ip_recording_signature(session, slow),
				  *b = ip_recording_signature(session, usual);
	int ret = 0;

	if (!is_same(a, b))
		return 0;
	for (unsigned i = 0; ret == 0 && i < a->n; i++) {
		_cleanup_free_ char *x = NULL, *y = NULL;

		if (!ip_value_at(a, slow, i, &pair.slow) || !ip_value_at(b, usual, i, &pair.usual))
			continue;
		pair.slow_text = x = text_of(&pair.slow);
		pair.usual_text = y = text_of(&pair.usual);
		ret = !x || !y ? -1 : strcmp(x, y) ? each(context, &pair) : 0;
	}
	return ret;
}

static const struct ip_kept_values *find_point(const struct ip_node_value *v, uint32_t function)
{
	for (size_t i = 0; i < v->npoints; i++)
		if (v->points[i].function == function)
			return &v->points[i];
	return NULL;
}

static int visit_points(const struct cli_compare_values *v, visit *each, void *context)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < v->slow->npoints; i++) {
		const struct ip_kept_values *slow = &v->slow->points[i],
					    *usual = find_point(v->usual, slow->function);
		const struct pair pair = {.of = "point",
					  .point = ip_names_get(v->names, slow->function)};

		if (usual)
			ret = visit_payloads(v->session, ip_kept_values_get(slow),
					     ip_kept_values_get(usual), pair, each, context);
	}
	return ret;
}

static int visit_all(const struct cli_compare_values *v, visit *each, void *context)
{
	const struct pair args = {.of = "args"}, result = {.of = "retval"};

	if (!v->slow || !v->usual)
		return 0;
	if (visit_payloads(v->session, ip_kept_values_get(&v->slow->args),
			   ip_kept_values_get(&v->usual->args), args, each, context) < 0 ||
	    visit_points(v, each, context) < 0)
		return -1;
	return visit_payloads(v->session, ip_kept_values_get(&v->slow->result),
			      ip_kept_values_get(&v->usual->result), result, each, context);
}

static bool is_result(const struct pair *pair)
{
	return !strcmp(pair->of, "retval");
}

/* The name of a value, as in other views; "returned": it is a result without one. */
static const char *name_of(const struct pair *pair, char buffer[16])
{
	if (pair->slow.type->name)
		return pair->slow.type->name;
	if (is_result(pair))
		return "returned";
	snprintf(buffer, 16, "arg%u", pair->slow.place + 1);
	return buffer;
}

struct text {
	FILE *out;
	bool any;
};

static int put_text(void *context, const struct pair *pair)
{
	struct text *t = context;
	char buffer[16];

	ip_print(t->out, "%s%s%s%s ", t->any ? ", " : "", pair->point ? pair->point : "",
		 pair->point ? ": " : "", name_of(pair, buffer));
	ip_value_print(t->out, &pair->usual);
	ip_print(t->out, " -> ");
	ip_value_print(t->out, &pair->slow);
	t->any = true;
	return 0;
}

char *cli_compare_values_text(const struct cli_compare_values *values)
{
	struct text t = {0};
	char *text = NULL;
	size_t size;

	t.out = open_memstream(&text, &size);
	if (t.out && visit_all(values, put_text, &t) < 0) {
		fclose(t.out);
		free(text);
		return NULL;
	}
	return ip_print_end_text(t.out, &text);
}

struct members {
	struct ip_json *j;
	bool any;
};

static int put_member(void *context, const struct pair *pair)
{
	struct members *m = context;
	char buffer[16];

	if (!m->any)
		ip_json_array(m->j, "values");
	m->any = true;
	ip_json_object(m->j, NULL);
	ip_json_string(m->j, "name",
		       is_result(pair) && !pair->slow.type->name ? NULL : name_of(pair, buffer));
	ip_json_string(m->j, "of", pair->of);
	if (pair->point)
		ip_json_string(m->j, "point", pair->point);
	ip_value_write(m->j, "slow", &pair->slow);
	ip_value_write(m->j, "usual", &pair->usual);
	ip_json_end_object(m->j);
	return 0;
}

int cli_compare_values_json(struct ip_json *j, const struct cli_compare_values *values)
{
	struct members m = {.j = j};
	const int ret = visit_all(values, put_member, &m);

	if (m.any)
		ip_json_end_array(j);
	return ret;
}
