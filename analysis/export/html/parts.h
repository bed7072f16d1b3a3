/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two parts of each page around its data. pack.py makes them of the files of this folder.
 */
#ifndef IP_PARTS_H
#define IP_PARTS_H

struct ip_html_parts {
	const char *head, *tail;
};

extern const struct ip_html_parts ip_html_export, /* iprobe export --format html */
	ip_html_compare,			  /* iprobe compare-calls */
	ip_html_darc;				  /* iprobe darc */

#endif
