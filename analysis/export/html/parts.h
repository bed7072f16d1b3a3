/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page around the data, made of the files of this folder by pack.py.
 */
#ifndef IP_PARTS_H
#define IP_PARTS_H

extern const char ip_html_head[], ip_html_tail[];

#endif
