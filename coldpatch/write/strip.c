/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses what is removed. See strip.h.
 */
#include "coldpatch/write/strip.h"

#include "common/elf/probe_list.h"

#include <string.h>

/* Sections that only debuggers, linkers and coldpatch itself read. */
static const char *const prefixes[] = {
	".debug_", ".zdebug_", ".gdb_index",	".gnu.debuglto_", ".gnu.lto_",
	".stab",   ".line",    ".iprobe.sites", ".iprobe.points",
};

static bool starts_with(const struct cold_elf_end *t, size_t index, const char *prefix)
{
	uint64_t at = t->headers[index].sh_name;
	size_t n = strlen(prefix);

	return at < t->names_size && t->names_size - at > n && !memcmp(t->names + at, prefix, n);
}

static bool is_list(const struct cold_elf_end *t, size_t index)
{
	return starts_with(t, index, IP_PROBE_SECTION) &&
	       t->names[t->headers[index].sh_name + strlen(IP_PROBE_SECTION)] == '\0';
}

static bool goes(const struct cold_elf_end *t, size_t index, bool list)
{
	const Elf64_Shdr *h = &t->headers[index];

	if (h->sh_type == SHT_NULL || (h->sh_flags & SHF_ALLOC) || index == t->shstrndx)
		return false;
	switch (h->sh_type) {
	case SHT_SYMTAB:
	case SHT_SYMTAB_SHNDX:
	case SHT_STRTAB:
	case SHT_REL:
	case SHT_RELA:
	case SHT_GROUP:
		return true;
	}
	if (is_list(t, index))
		return list;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (starts_with(t, index, prefixes[i]))
			return true;
	return false;
}

void cold_strip(struct cold_elf_end *t, bool list)
{
	/* the sections behind old_n are new: they are not stripped */
	for (size_t i = 1; i < t->old_n; i++)
		if (goes(t, i, list))
			cold_elf_end_drop(t, i);
}
