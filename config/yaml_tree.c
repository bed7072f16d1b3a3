/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the tree from libyaml's events. See yaml_tree.h.
 */
#include "config/yaml_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

struct reader {
	yaml_parser_t parser;
	const char *text;
	size_t size;
	const char *name;
	unsigned nodes;
};

static void free_node(struct ip_yaml *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->n; i++)
		free_node(node->items[i]);
	free(node->items);
	free(node->text);
	free(node);
}

static int fail_at(const struct reader *r, const yaml_mark_t *mark, const char *what)
{
	return ip_error("%s:%zu:%zu: %s", r->name, mark->line + 1, mark->column + 1, what);
}

/* Reports that libyaml could not go on. For bytes that are not UTF-8 libyaml knows only the
 * offset. */
static int fail_as_parser(const struct reader *r)
{
	const yaml_parser_t *p = &r->parser;
	yaml_mark_t mark = p->problem_mark;
	char what[256];

	if (p->error == YAML_MEMORY_ERROR)
		return ip_error("%s: out of memory", r->name);
	if (p->error == YAML_READER_ERROR) {
		mark = (yaml_mark_t){0};
		for (size_t i = 0; i < p->problem_offset && i < r->size; i++) {
			mark.column++;
			if (r->text[i] == '\n') {
				mark.line++;
				mark.column = 0;
			}
		}
	}
	snprintf(what, sizeof(what), "%s%s%s", p->problem ? p->problem : "not YAML",
		 p->context ? ", " : "", p->context ? p->context : "");
	return fail_at(r, &mark, what);
}

static int next_event(struct reader *r, yaml_event_t *event)
{
	return yaml_parser_parse(&r->parser, event) ? 0 : fail_as_parser(r);
}

static bool has_key(const struct ip_yaml *map, const char *key)
{
	for (size_t i = 0; i + 1 < map->n; i += 2)
		if (!strcmp(map->items[i]->text, key))
			return true;
	return false;
}

static int read_node(struct reader *r, const yaml_event_t *event, unsigned depth,
		     struct ip_yaml **ret);

/* Reads the items of a list, or the keys and values of a map in turn. */
static int read_items(struct reader *r, struct ip_yaml *node, yaml_event_type_t end, unsigned depth)
{
	for (;;) {
		yaml_event_t event;
		struct ip_yaml *item = NULL;
		bool key = node->kind == IP_YAML_MAP && !(node->n & 1), done;
		int ret = next_event(r, &event);

		if (ret < 0)
			return -1;
		done = event.type == end;
		if (!done && key && event.type != YAML_SCALAR_EVENT)
			ret = fail_at(r, &event.start_mark, "a key must be a word");
		else if (!done)
			ret = read_node(r, &event, depth + 1, &item);
		if (ret == 0 && item && key && has_key(node, item->text))
			ret = ip_error("%s:%u:%u: the key '%.64s' is there twice", r->name,
				       item->line, item->column, item->text);
		yaml_event_delete(&event);
		if (ret == 0 && item)
			ret = ip_array_grow(&node->items, node->n, sizeof(*node->items));
		if (ret < 0) {
			free_node(item);
			return -1;
		}
		if (done)
			return 0;
		node->items[node->n++] = item;
	}
}

static int read_collection(struct reader *r, const yaml_event_t *event, bool marked,
			   struct ip_yaml *node, yaml_event_type_t end, unsigned depth)
{
	return marked ? fail_at(r, &event->start_mark,
				"anchors (&) and tags (!) are not understood here")
		      : read_items(r, node, end, depth);
}

static int read_scalar(struct reader *r, const yaml_event_t *event, struct ip_yaml *node)
{
	const char *value = (const char *)event->data.scalar.value;

	if (event->data.scalar.anchor || event->data.scalar.tag)
		return fail_at(
			r, &event->start_mark,
			"anchors (&) and tags (!) are not understood here: put it into quotes");
	if (strlen(value) != event->data.scalar.length)
		return fail_at(r, &event->start_mark, "a text with a zero byte");
	node->text = strdup(value);
	return node->text ? 0 : ip_error("%s: out of memory", r->name);
}

/* Reads the node that begins with the event. */
static int read_node(struct reader *r, const yaml_event_t *event, unsigned depth,
		     struct ip_yaml **ret)
{
	struct ip_yaml *node;
	int done;

	if (depth > IP_YAML_DEPTH_MAX)
		return fail_at(r, &event->start_mark, "nested too deeply");
	if (++r->nodes > IP_YAML_NODES_MAX)
		return fail_at(r, &event->start_mark, "too much for a file of this kind");
	node = calloc(1, sizeof(*node));
	if (!node)
		return ip_error("%s: out of memory", r->name);
	node->line = event->start_mark.line + 1;
	node->column = event->start_mark.column + 1;
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		node->kind = IP_YAML_SCALAR;
		done = read_scalar(r, event, node);
		break;
	case YAML_SEQUENCE_START_EVENT:
		node->kind = IP_YAML_LIST;
		done = read_collection(r, event,
				       event->data.sequence_start.anchor ||
					       event->data.sequence_start.tag,
				       node, YAML_SEQUENCE_END_EVENT, depth);
		break;
	case YAML_MAPPING_START_EVENT:
		node->kind = IP_YAML_MAP;
		done = read_collection(
			r, event, event->data.mapping_start.anchor || event->data.mapping_start.tag,
			node, YAML_MAPPING_END_EVENT, depth);
		break;
	default:
		done = fail_at(r, &event->start_mark,
			       "aliases (*) are not understood here: put a glob into quotes");
	}
	if (done < 0) {
		free_node(node);
		return -1;
	}
	*ret = node;
	return 0;
}

/* Reads from the stream's start to its end. Only one document may lie in between. */
static int read_stream(struct reader *r, struct ip_yaml **ret)
{
	for (unsigned documents = 0;;) {
		yaml_event_t event;
		int done = 0;
		bool end;

		if (next_event(r, &event) < 0)
			return -1;
		end = event.type == YAML_STREAM_END_EVENT;
		if (event.type == YAML_DOCUMENT_START_EVENT && documents++)
			done = fail_at(r, &event.start_mark,
				       "a second document: one a file is read");
		else if (event.type == YAML_SCALAR_EVENT ||
			 event.type == YAML_SEQUENCE_START_EVENT ||
			 event.type == YAML_MAPPING_START_EVENT || event.type == YAML_ALIAS_EVENT)
			done = read_node(r, &event, 1, ret);
		yaml_event_delete(&event);
		if (done < 0 || end)
			return done;
	}
}

int ip_yaml_parse(const char *text, size_t size, const char *name, struct ip_yaml_document *ret)
{
	struct reader r = {.text = text, .size = size, .name = name};
	int done;

	*ret = (struct ip_yaml_document){.name = strdup(name)};
	if (!ret->name)
		return ip_error("out of memory");
	if (size > IP_YAML_SIZE_MAX) {
		ip_yaml_clear(ret);
		return ip_error("%s: larger than %u bytes", name, IP_YAML_SIZE_MAX);
	}
	if (!yaml_parser_initialize(&r.parser)) {
		ip_yaml_clear(ret);
		return ip_error("out of memory");
	}
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
	done = read_stream(&r, &ret->root);
	yaml_parser_delete(&r.parser);
	if (done < 0)
		ip_yaml_clear(ret);
	return done;
}

void ip_yaml_clear(struct ip_yaml_document *document)
{
	free_node(document->root);
	free(document->name);
	*document = (struct ip_yaml_document){0};
}

int ip_yaml_error(const struct ip_yaml_document *document, const struct ip_yaml *node,
		  const char *format, ...)
{
	char what[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return ip_error("%s:%u:%u: %s", document->name, node->line, node->column, what);
}

void ip_yaml_note(const struct ip_yaml_document *document, const struct ip_yaml *node,
		  const char *format, ...)
{
	struct ip_yaml_notes *notes = document->notes;
	char what[1024], *whole;
	va_list args;

	if (!notes || ip_array_grow(&notes->items, notes->n, sizeof(*notes->items)) < 0)
		return;
	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (asprintf(&whole, "%s:%u:%u: %s", document->name, node->line, node->column, what) >= 0)
		notes->items[notes->n++] = whole;
}

void ip_yaml_notes_clear(struct ip_yaml_notes *notes)
{
	for (size_t i = 0; i < notes->n; i++)
		free(notes->items[i]);
	free(notes->items);
	*notes = (struct ip_yaml_notes){0};
}

const struct ip_yaml *ip_yaml_get(const struct ip_yaml *map, const char *key)
{
	for (size_t i = 0; i + 1 < map->n; i += 2)
		if (!strcmp(map->items[i]->text, key))
			return map->items[i + 1];
	return NULL;
}

int ip_yaml_check_map(const struct ip_yaml_document *document, const struct ip_yaml *node,
		      const char *what, const char *const *known)
{
	if (node->kind != IP_YAML_MAP)
		return ip_yaml_error(document, node, "%s is written as lines of 'key: value'",
				     what);
	for (size_t i = 0; i + 1 < node->n; i += 2) {
		const char *key = node->items[i]->text;
		char list[512] = "";
		size_t k = 0;

		while (known[k] && strcmp(known[k], key))
			k++;
		if (known[k])
			continue;
		for (k = 0; known[k]; k++)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
				 k ? ", " : "", known[k]);
		return ip_yaml_error(document, node->items[i], "unknown key '%.64s'; %s has %s",
				     key, what, list);
	}
	return 0;
}

const char *ip_yaml_text(const struct ip_yaml_document *document, const struct ip_yaml *node,
			 const char *what)
{
	if (node->kind == IP_YAML_SCALAR && node->text[strspn(node->text, " \t\n")])
		return node->text;
	ip_yaml_error(document, node, "%s is %s", what,
		      node->kind == IP_YAML_SCALAR ? "empty"
						   : "a single value, not a list or a map");
	return NULL;
}

int ip_yaml_bool(const struct ip_yaml_document *document, const struct ip_yaml *node,
		 const char *what, bool *ret)
{
	static const char *const words[2][3] = {{"false", "no", "off"}, {"true", "yes", "on"}};
	const char *text = ip_yaml_text(document, node, what);

	if (!text)
		return -1;
	for (int value = 0; value < 2; value++)
		for (int i = 0; i < 3; i++)
			if (!strcmp(text, words[value][i])) {
				*ret = value;
				return 0;
			}
	return ip_yaml_error(document, node, "%s is true or false, not '%.64s'", what, text);
}
