/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML document as a tree, each node with the place that it comes from, so that whoever reads it
 * can say what is wrong where.
 *
 * What we read is configuration: one document of scalars, lists and maps. Anchors, aliases, tags,
 * merge keys and keys that occur twice are refused, and so is what is larger or deeper than any
 * such file is.
 */
#ifndef IP_YAML_TREE_H
#define IP_YAML_TREE_H

#include <stdbool.h>
#include <stddef.h>

#define IP_YAML_SIZE_MAX  (1u << 20)
#define IP_YAML_DEPTH_MAX 16u
#define IP_YAML_NODES_MAX 50000u

enum ip_yaml_kind {
	IP_YAML_SCALAR,
	IP_YAML_LIST,
	IP_YAML_MAP,
};

struct ip_yaml {
	enum ip_yaml_kind kind;
	unsigned line, column; /* from 1 */
	char *text;	       /* of a scalar: UTF-8 without a zero in it */
	/* of a list; of a map: key, value, key, value... where keys are scalars */
	struct ip_yaml **items;
	size_t n; /* of items */
};

struct ip_yaml_document {
	char *name;	      /* of the file */
	struct ip_yaml *root; /* NULL: the file is empty */
};

/* 0, or -1 with "NAME:LINE:COLUMN: what is wrong". The text need not end in a zero. */
int ip_yaml_parse(const char *text, size_t size, const char *name, struct ip_yaml_document *ret);
void ip_yaml_clear(struct ip_yaml_document *document);

/* Records "NAME:LINE:COLUMN: message" for the node; always -1. */
int ip_yaml_error(const struct ip_yaml_document *document, const struct ip_yaml *node,
		  const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The value of a key of a map; NULL where it has none. */
const struct ip_yaml *ip_yaml_get(const struct ip_yaml *map, const char *key);

/* node is a map with no keys but these (NULL ends them). 0 or -1 with an error. what: "a rule", for
 * the error. */
int ip_yaml_check_map(const struct ip_yaml_document *document, const struct ip_yaml *node,
		      const char *what, const char *const *known);

/* The text of node, which must be a scalar that is not empty. NULL with an error. what: "the
 * description", for the error. */
const char *ip_yaml_text(const struct ip_yaml_document *document, const struct ip_yaml *node,
			 const char *what);

/* true, yes, on; false, no, off. 0 or -1. */
int ip_yaml_bool(const struct ip_yaml_document *document, const struct ip_yaml *node,
		 const char *what, bool *ret);

#endif
