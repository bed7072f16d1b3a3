/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that several kinds of entries in probes.d have, read from YAML. All: 0, or -1 with
 * FILE:LINE:COLUMN.
 */
#ifndef IP_PROBES_D_VALUES_H
#define IP_PROBES_D_VALUES_H

#include <stdint.h>

#include "config/yaml_tree.h"

/* A text of its own, if the map has the key; else *ret stays. */
int ip_probes_text(const struct ip_yaml_document *document, const struct ip_yaml *map,
		   const char *key, char **ret);

/* A list of texts, or one text, as one with commas. check may be NULL. */
int ip_probes_join(const struct ip_yaml_document *document, const struct ip_yaml *node,
		   const char *what,
		   int (*check)(const struct ip_yaml_document *, const struct ip_yaml *,
				const char *),
		   char **ret);

/* Whether a text is a selection, for ip_probes_join(). Names that it uses are looked for later. */
int ip_probes_check_selection(const struct ip_yaml_document *document, const struct ip_yaml *node,
			      const char *text);

/* A time above 0, if the map has the key; else *ret stays. */
int ip_probes_duration(const struct ip_yaml_document *document, const struct ip_yaml *map,
		       const char *key, uint64_t *ret);

/* The error that was recorded last, as one of the node's. Always -1. */
int ip_probes_error_at(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       const char *what);

#endif
