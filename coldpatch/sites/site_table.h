/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of sites that a compilation leaves behind. It has one record of 16 bytes for each site,
 * little-endian:
 *
 *   u64 address   of the site, as linked
 *   u8  kind      enum ip_probe_kind
 *   u8  length    bytes of the site; they are its idle form
 *   u8  form      enum ip_site_form
 *   u8  regs      enum ip_site_regs
 *   u32 offset    of the site in its section of the object file; COLD_TABLE_NO_OFFSET: not known
 *
 * The table's section is not allocated, so it costs nothing at run time, and only the linker
 * handles its relocations (lld and mold accept no PC-relative ones there). Each record is in a
 * section that is linked to the site's section (flag "o") and is in the same group ("?"): COMDAT,
 * --gc-sections and ld -r treat the record like the code. gold and mold do not drop records of code
 * that was discarded. They put 0 in place of the section's address; the address in such a record is
 * then its offset.
 *
 * Why the odd name: gold refuses relocations against discarded sections, except in sections that it
 * takes for debug information by their name. Among those names .pdr is the one that strip -g, ld -s
 * and other tools do not take for debug information.
 */
#ifndef COLD_SITE_TABLE_H
#define COLD_SITE_TABLE_H

#define COLD_TABLE_RECORD    16
#define COLD_TABLE_NO_OFFSET 0xffffffffu

#endif
