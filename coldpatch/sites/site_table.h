/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of sites that a compilation leaves behind: one record of 16 bytes for each site,
 * little-endian:
 *
 *   u64 address   of the site, as linked
 *   u8  kind      enum ip_probe_kind
 *   u8  length    bytes of the site; they are its idle form
 *   u8  form      enum ip_site_form
 *   u8  regs      enum ip_site_regs
 *   u32 offset    of the site in its section of the object file; COLD_TABLE_NO_OFFSET: not known
 *
 * Its section is not allocated: it costs nothing at run time, and its relocations are the linker's
 * business alone (lld and mold take no PC-relative ones there). Each record is in a section that is
 * linked to the site's (flag "o") and in its group ("?"): COMDAT, --gc-sections and ld -r treat it
 * like the code. gold and mold do not drop records of code that was discarded, they put 0 where the
 * section's address was; such a record's address is its offset.
 *
 * Why the odd name: gold refuses relocations against discarded sections, but in sections that it
 * takes for debug information by their name. Of those names .pdr is the one that strip -g, ld -s
 * and the others do not take for such.
 */
#ifndef COLD_SITE_TABLE_H
#define COLD_SITE_TABLE_H

#define COLD_TABLE_SECTION   ".pdr.iprobe"
#define COLD_TABLE_RECORD    16
#define COLD_TABLE_NO_OFFSET 0xffffffffu

#endif
