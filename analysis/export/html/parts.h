/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two parts of the page around the data. pack.py makes them of the files of this folder.
 */
#ifndef IP_PARTS_H
#define IP_PARTS_H

extern const char ip_html_head[], ip_html_tail[];

#endif
