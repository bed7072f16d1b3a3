/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches from outside what the target's dynamic loader has loaded. One look costs one system call
 * of ours, and none of the target's.
 *
 * The loader keeps a list of all libraries for debuggers (r_debug, found by DT_DEBUG). dlopen links
 * a new library in at its end, dlclose unlinks one: both change a link that we know. So we keep
 * where all links are and what they held, and read them all again at once (process_vm_readv). A
 * library that is unloaded and loaded again between two looks may leave every link as it was; but
 * its text is new then. So one live site of each library that can be unloaded is read, too. The
 * bytes to compare with are those that were written, not those that are found later, when the
 * library may have been unloaded and loaded again already.
 *
 * glibc and musl keep such a list. A static program has none, and loads nothing.
 */
#ifndef IP_LINK_MAP_H
#define IP_LINK_MAP_H

#include "hotpatcher/process/modules.h"

struct ip_link_map;

/* The caller destroys it. NULL with an error if memory ran out. */
struct ip_link_map *ip_link_map_create(void);
/* A copy that has noted the same. The caller destroys it. NULL with an error if memory ran out. */
struct ip_link_map *ip_link_map_copy(const struct ip_link_map *link_map);
void ip_link_map_destroy(struct ip_link_map *link_map);

/* Notes the list as it is now. 1: noted; 0: the loader is changing the list, look again in a
 * moment; -1: the target has no list, or one that is too long to be read whole. */
int ip_link_map_note(struct ip_link_map *link_map, const struct ip_target *target);

/* Notes that a site of a module that can be unloaded has just been made live: its address and its
 * bytes. To be called before ip_link_map_note_sites(). -1 if memory ran out. */
int ip_link_map_expect(struct ip_link_map *link_map, uint64_t address, const uint8_t *bytes,
		       unsigned size);

/* Finds a live site of a module: its address, and its bytes (at most IP_SITE_MAX). Returns how many
 * bytes; 0: no site is live. */
typedef unsigned (*ip_link_map_find_t)(const struct ip_target *target,
				       const struct ip_module *module, uint64_t *ret_address,
				       uint8_t *ret_bytes);

/* Notes one live site of each module that can be unloaded. If none of its sites is live any more,
 * the site that was noted or expected before is kept, for one more time: so a library that was
 * unloaded and loaded again while we were at work shows as a change. -1 if memory ran out. */
int ip_link_map_note_sites(struct ip_link_map *link_map, const struct ip_target *target,
			   const struct ip_modules *modules, ip_link_map_find_t find);

/* Whether anything differs from what was noted. */
bool ip_link_map_changed(struct ip_link_map *link_map, const struct ip_target *target);

/* Whether the site that was noted of the module is as it was. True if none was noted. */
bool ip_link_map_site_stands(const struct ip_link_map *link_map, const struct ip_target *target,
			     const struct ip_module *module);

#endif
