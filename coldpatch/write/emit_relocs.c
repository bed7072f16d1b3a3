// SPDX-License-Identifier: Apache-2.0
/*
 * Removes what -q left. See emit_relocs.h.
 */
#include "coldpatch/write/emit_relocs.h"

static bool is_of_emit_relocs(const Elf64_Shdr *h)
{
	return (h->sh_type == SHT_RELA || h->sh_type == SHT_REL) && !(h->sh_flags & SHF_ALLOC);
}

bool cold_emit_relocs_exist(const struct cold_module *m)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(m->elf->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && is_of_emit_relocs(&shdr))
			return true;
	return false;
}

void cold_emit_relocs_drop(struct cold_elf_end *t)
{
	for (size_t i = 1; i < t->n; i++)
		if (is_of_emit_relocs(&t->headers[i])) {
			cold_elf_end_drop(t, i);
			t->relocs_gone = true;
		}
}
