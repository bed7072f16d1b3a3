/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages: the parts of analysis/export/html/ around one JSON document, which holds what the page
 * draws. It is in a script element, and must not contain a '<' as such, since names come from
 * outside.
 */
#ifndef IP_HTML_DOCUMENT_H
#define IP_HTML_DOCUMENT_H

#include <stdio.h>

#include "analysis/export/html/parts.h"
#include "analysis/read/session.h"

/* Writes JSON up to its first newline, without a '<' as such. */
void ip_html_put_json(FILE *out, const char *json);

/* When a recording began; "": that is not known. */
void ip_html_start(const struct ip_recording *session, char ret[64]);

/* Writes a page. Errors are those of out. */
void ip_html_document_write(FILE *out, const struct ip_html_parts *page, const char *json);

#endif
