/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a document of a search's state (darc_state.h). Each is needed, of its kind and within
 * its bounds: what is not is an error with its place in the document.
 */
#ifndef IP_CLI_DARC_STATE_VALUES_H
#define IP_CLI_DARC_STATE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/darc/darc_state.h"
#include "config/yaml_tree.h"

#define CLI_STATE_TEXT_MAX 4096u /* bytes of a name */

/* As the document has it. */
const char *cli_state_choice(enum ip_darc_choice choice);

/* An object of a document that is read. Both are borrowed. */
struct cli_state_object {
	const struct ip_yaml_document *document;
	const struct ip_yaml *object;
};

/* Records an error at a node, or at the object if that is NULL: "FILE:1:2: KEY: what". Returns -1
 * always. */
int cli_state_error(const struct cli_state_object *from, const struct ip_yaml *node,
		    const char *key, const char *what);

/* The member, of a kind. Returns NULL with an error. */
const struct ip_yaml *cli_state_get(const struct cli_state_object *from, const char *key,
				    enum ip_yaml_kind kind);
/* The same of a list of at most so many items. */
const struct ip_yaml *cli_state_list(const struct cli_state_object *from, const char *key,
				     size_t most);
/* Whether a value, which may be NULL, is null. */
bool cli_state_is_null(const struct ip_yaml *node);

/* These return 0, or -1 with an error. A whole number from 0 to most; the first one of an item of a
 * list. */
int cli_state_number_of(const struct cli_state_object *from, const struct ip_yaml *node,
			const char *key, uint64_t most, uint64_t *ret);
int cli_state_number(const struct cli_state_object *from, const char *key, uint64_t most,
		     uint64_t *ret);
/* A number from 0 to most. */
int cli_state_real(const struct cli_state_object *from, const char *key, double most, double *ret);
int cli_state_bool(const struct cli_state_object *from, const char *key, bool *ret);
/* A text, which the caller frees. may_miss: of null *ret stays as it is. */
int cli_state_text(const struct cli_state_object *from, const char *key, bool may_miss, char **ret);

/* Reads the ftree, and the paths of causes in it (darc_state_tree.c). Returns 0, or -1 with an
 * error. */
int cli_darc_state_read_tree(const struct cli_state_object *from, struct cli_darc_state *ret);

#endif
