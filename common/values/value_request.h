/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user wants to record of which functions, and under which condition: the texts of --args,
 * --retval and --when.
 *
 *   --args, --retval   FUNC(ITEM, ITEM...)   item = [name "="] expression
 *   --when             [FUNC ": "] expression
 *
 * FUNC is a glob as in a selection (common/selection/selection.h).
 */
#ifndef IP_VALUE_REQUEST_H
#define IP_VALUE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/selection/selection.h"
#include "common/trace/values.h"
#include "common/values/expression.h"

enum ip_value_request_kind {
	IP_REQUEST_ARGS,
	IP_REQUEST_RETVAL,
	IP_REQUEST_WHEN,
};

struct ip_value_item {
	char *name; /* its label; else the text of the expression without format and spaces */
	char *text; /* the text of the expression, for messages */
	struct ip_expression *expression;
};

struct ip_value_request {
	enum ip_value_request_kind kind;
	char *text;			/* as the user gave it */
	char *function;			/* NULL: all functions */
	bool exact;			/* FUNC is a name, not a glob */
	struct ip_selection *selection; /* of function; NULL: all */
	struct ip_value_item items[IP_VALUES_MAX];
	size_t n;
};

struct ip_value_requests {
	struct ip_value_request *items;
	size_t n;
};

/* Whether the text is a request rather than another word of a command line. */
bool ip_value_request_is(const char *text);

/* Parses a text and adds it. Returns 0, or -1 with an error. May open no file. */
int ip_value_requests_add(struct ip_value_requests *requests, enum ip_value_request_kind kind,
			  const char *text);
void ip_value_requests_clear(struct ip_value_requests *requests);

/* Whether there is a request of that kind. */
bool ip_value_requests_any(const struct ip_value_requests *requests,
			   enum ip_value_request_kind kind);

/* The option that a request of that kind came by. */
const char *ip_value_request_option(enum ip_value_request_kind kind);

#endif
