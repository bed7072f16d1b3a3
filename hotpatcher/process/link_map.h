/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the target's dynamic loader has loaded, watched from outside at the price of one system call
 * a look, and none of the target's.
 *
 * The loader keeps a list of all libraries for debuggers (r_debug, found by DT_DEBUG). dlopen links
 * a new one in at its end, dlclose unlinks one: both change a link that we know. So we keep where
 * all links are and what they held, and read them all again at once (process_vm_readv). A library
 * that is unloaded and loaded again between two looks may leave every link as it was; its text is
 * fresh then. So of each library that can go one live site is read, too: as it was made, not as it
 * is found later, when the library may have gone and come back already.
 *
 * glibc and musl keep such a list; a static program has none, and loads nothing.
 */
#ifndef IP_LINK_MAP_H
#define IP_LINK_MAP_H

#include "hotpatcher/process/modules.h"

struct ip_link_map;

/* NULL with an error where memory ran out. */
struct ip_link_map *ip_link_map_create(void);
/* One that has noted what the other has. */
struct ip_link_map *ip_link_map_copy(const struct ip_link_map *link_map);
void ip_link_map_destroy(struct ip_link_map *link_map);

/* Takes note of the list as it is now. 1; 0: the loader is at work on it, look again in a moment;
 * -1: it has none. */
int ip_link_map_note(struct ip_link_map *link_map, const struct ip_target *target);

/* A site of a module that may go has just been made live: bytes. To be called before
 * ip_link_map_note_sites(). -1 where memory ran out. */
int ip_link_map_expect(struct ip_link_map *link_map, uint64_t address, const uint8_t *bytes,
		       unsigned size);

/* Finds a live site of a module: its address, and its bytes (IP_SITE_MAX). How many; 0: none. */
typedef unsigned (*ip_link_map_find_t)(const struct ip_target *target,
				       const struct ip_module *module, uint64_t *ret_address,
				       uint8_t *ret_bytes);

/* Takes note of one live site of each module that may go. Where none is live any more what was
 * noted or expected before stays, once: a library that was unloaded and loaded again while we
 * were at work shows as a change then. */
int ip_link_map_note_sites(struct ip_link_map *link_map, const struct ip_target *target,
			   const struct ip_modules *modules, ip_link_map_find_t find);

/* Whether anything differs from what was noted. */
bool ip_link_map_changed(struct ip_link_map *link_map, const struct ip_target *target);

/* Whether the site noted of the module is as it was; true where there was none. */
bool ip_link_map_site_stands(const struct ip_link_map *link_map, const struct ip_target *target,
			     const struct ip_module *module);

#endif
