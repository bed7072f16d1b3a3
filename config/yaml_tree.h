/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML document as a tree. Each node has its place in the file, so that an error message can tell
 * where the mistake is.
 *
 * The files that we read are configuration: one document of scalars, lists and maps. Anchors,
 * aliases, tags, merge keys and keys that occur twice are refused. A document that is larger or
 * deeper than any such file is refused, too.
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
	char *text;	       /* of a scalar: UTF-8 without a zero byte */
	/* of a list: its items; of a map: key, value, key, value... where keys are scalars */
	struct ip_yaml **items;
	size_t n; /* number of items */
};

/* What is valid, and hardly what was meant: "FILE:LINE:COLUMN: what". */
struct ip_yaml_notes {
	char **items;
	size_t n;
};

struct ip_yaml_document {
	char *name;	      /* of the file */
	struct ip_yaml *root; /* NULL: the file is empty */
	/* where notes go, borrowed; NULL: none are kept. ip_yaml_parse() sets NULL. */
	struct ip_yaml_notes *notes;
};

/* Parses a document. The text need not end in a zero byte. Returns 0, or -1 with the error
 * "NAME:LINE:COLUMN: what is wrong". */
int ip_yaml_parse(const char *text, size_t size, const char *name, struct ip_yaml_document *ret);
void ip_yaml_clear(struct ip_yaml_document *document);

/* Records the error "NAME:LINE:COLUMN: message" for the node. Returns -1 always. */
int ip_yaml_error(const struct ip_yaml_document *document, const struct ip_yaml *node,
		  const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds a note "FILE:LINE:COLUMN: message" for the node. Without memory there is none. */
void ip_yaml_note(const struct ip_yaml_document *document, const struct ip_yaml *node,
		  const char *format, ...) __attribute__((format(printf, 3, 4)));
void ip_yaml_notes_clear(struct ip_yaml_notes *notes);

/* Returns the value of a key of a map; NULL if the map does not have the key. */
const struct ip_yaml *ip_yaml_get(const struct ip_yaml *map, const char *key);

/* Checks that node is a map that has only known keys (NULL ends the array). what: the name of the
 * map in an error message, for example "a rule". Returns 0, or -1 with an error. */
int ip_yaml_check_map(const struct ip_yaml_document *document, const struct ip_yaml *node,
		      const char *what, const char *const *known);

/* Returns the text of node, which must be a scalar that is not empty. what: the name of the node in
 * an error message, for example "the description". NULL with an error. */
const char *ip_yaml_text(const struct ip_yaml_document *document, const struct ip_yaml *node,
			 const char *what);

/* Reads true, yes, on; false, no, off. Returns 0, or -1 with an error. */
int ip_yaml_bool(const struct ip_yaml_document *document, const struct ip_yaml *node,
		 const char *what, bool *ret);

#endif
