/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the values that several kinds of entries in probes.d have in common from YAML. All
 * functions return 0, or -1 with an error that gives FILE:LINE:COLUMN.
 */
#ifndef IP_PROBES_D_VALUES_H
#define IP_PROBES_D_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "config/yaml_tree.h"

/* Reads a text, if the map has the key. *ret gets a malloc'ed copy. Without the key *ret is
 * unchanged. */
int ip_probes_text(const struct ip_yaml_document *document, const struct ip_yaml *map,
		   const char *key, char **ret);

/* Reads a list of texts, or one text, and joins it with commas; *ret is malloc'ed. check is called
 * for each text and may be NULL. */
int ip_probes_join(const struct ip_yaml_document *document, const struct ip_yaml *node,
		   const char *what,
		   int (*check)(const struct ip_yaml_document *, const struct ip_yaml *,
				const char *),
		   char **ret);

/* Checks whether a text is a selection, for ip_probes_join(). The names in the selection are looked
 * up later. */
int ip_probes_check_selection(const struct ip_yaml_document *document, const struct ip_yaml *node,
			      const char *text);

/* Reads a time above 0, in nanoseconds, if the map has the key. Without it *ret is unchanged. */
int ip_probes_duration(const struct ip_yaml_document *document, const struct ip_yaml *map,
		       const char *key, uint64_t *ret);

/* Whether a number, also behind '>', has no unit. */
bool ip_probes_is_bare(const char *text);
/* Adds a note if the text of a time, or of a size, has no unit. what: "the level". */
void ip_probes_note_duration(const struct ip_yaml_document *document, const struct ip_yaml *node,
			     const char *what, const char *text, uint64_t ns);
void ip_probes_note_size(const struct ip_yaml_document *document, const struct ip_yaml *node,
			 const char *what, const char *text, uint64_t bytes);

/* Reports the error that was recorded last as an error at the node. Returns -1 always. */
int ip_probes_error_at(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       const char *what);

#endif
