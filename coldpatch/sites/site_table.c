/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placements fentry and inline: the sites that the compilation wrote down. See site_table.h.
 *
 * The table counts only where the code agrees with it: each record of code that was not discarded
 * must lie in code and name the idle form of a site.
 */
#include "coldpatch/sites/site_table.h"

#include "coldpatch/sites/arch.h"
#include "coldpatch/sites/find.h"
#include "common/arch/arch.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

#include <string.h>

static int refuse(const struct cold_module *m, uint64_t address, const char *why)
{
	return ip_error("%s: its table of sites names 0x%lx, %s; link it again from clean objects",
			m->path, (unsigned long)address, why);
}

static bool is_code(const struct cold_module *m, uint64_t address)
{
	const struct cold_section *section = cold_module_section(m, address, 1);

	return section && section->exec;
}

/* Adds the site of one record if its code was not discarded. */
static int read_record(const struct cold_module *m, const struct ip_arch *arch,
		       const uint8_t *record, struct cold_sites *sites)
{
	struct cold_site site = {.idle = true};
	const struct cold_section *section;
	uint8_t idle[IP_SITE_MAX];
	const uint8_t *bytes;
	uint32_t offset;
	bool sure;

	memcpy(&site.address, record, 8);
	memcpy(&offset, record + 12, 4);
	site.kind = record[8];
	site.length = record[9];
	site.form = record[10];
	site.regs = record[11];
	if (site.kind < IP_PROBE_ENTRY || site.kind > IP_PROBE_TAIL_EXIT ||
	    site.form > IP_FORM_TAIL || site.regs > IP_REGS_ALL ||
	    arch->idle(site.form, site.length, 0, idle))
		return refuse(m, site.address, "in a record that this version does not know");
	sure = offset != COLD_TABLE_NO_OFFSET;
	if (sure && site.address == offset)
		return 0;
	section = cold_module_section(m, site.address, site.length);
	if (!section || !section->exec || section->plt)
		return sure ? refuse(m, site.address, "which is not in its code") : 0;
	bytes = section->data + (site.address - section->address);
	if (site.form == IP_FORM_TAIL) {
		memcpy(&site.jump, bytes + 1, sizeof(site.jump));
		memcpy(idle + 1, &site.jump, sizeof(site.jump));
		/* a weak function that nobody defines: the code never gets here */
		if (!is_code(m, site.address + site.length + (uint64_t)(int64_t)site.jump))
			return 0;
	}
	if (memcmp(bytes, idle, site.length))
		return sure ? refuse(m, site.address, "where there is no site") : 0;
	site.range = cold_module_range(m, site.address);
	site.naming = site.regs == IP_REGS_ALL && site.kind != IP_PROBE_TAIL_EXIT
			      ? COLD_NAME_BY_DEBUG
			      : COLD_NAME_BY_SYMBOL;
	/* a tail jump passes no flags to the next function */
	site.flags_dead = site.kind == IP_PROBE_TAIL_EXIT;
	if (site.naming == COLD_NAME_BY_SYMBOL) {
		site.depth = site.kind == IP_PROBE_ENTRY ? 0 : 1;
		/* the site is in front of the function's first push */
		site.frame = site.kind == IP_PROBE_ENTRY ? 8 : 0;
	} else {
		site.depth = COLD_DEPTH_UNKNOWN;
	}
	return cold_sites_add(sites, site);
}

static int read_table(struct cold_module *m, const struct ip_arch *arch, const GElf_Shdr *shdr,
		      Elf_Scn *scn, struct cold_sites *sites)
{
	Elf_Data *data = elf_rawdata(scn, NULL);

	if (!data || (data->d_size && !data->d_buf) || (shdr->sh_flags & SHF_COMPRESSED) ||
	    data->d_size % COLD_TABLE_RECORD)
		return ip_error("%s: its table of sites (section " IP_SITE_TABLE_SECTION
				") cannot be read",
				m->path);
	for (size_t at = 0; at < data->d_size; at += COLD_TABLE_RECORD)
		if (read_record(m, arch, (const uint8_t *)data->d_buf + at, sites))
			return -1;
	return 0;
}

/* Sites of placement inline stand anywhere in a function. The code around them tells their nesting
 * and stack pointer. */
static int follow(struct cold_module *m, const struct cold_hooks *hooks, struct cold_sites *sites,
		  size_t *ret_inlined)
{
	const struct cold_arch *arch = cold_arch_for_machine(m->elf->ehdr.e_machine);
	struct cold_sites some = {0};
	int result = -1;

	for (size_t i = 0; i < sites->n; i++)
		if (sites->sites[i].naming == COLD_NAME_BY_DEBUG &&
		    cold_sites_add(&some, sites->sites[i]))
			goto out;
	*ret_inlined = some.n;
	if (some.n && arch && (arch->sweep(m, hooks, true, &some) || arch->flow(m, hooks, &some)))
		goto out;
	for (size_t i = 0, j = 0; i < sites->n && j < some.n; i++) {
		struct cold_site *site = &some.sites[j];

		if (sites->sites[i].address != site->address)
			continue;
		site->flags_dead = arch && arch->flags_dead &&
				   arch->flags_dead(m, site->address + site->length);
		sites->sites[i] = *site;
		j++;
	}
	result = 0;
out:
	cold_sites_destroy(&some);
	return result;
}

int cold_site_table_find(struct cold_module *m, struct cold_found *found)
{
	const struct ip_arch *arch = ip_arch_for_machine(m->elf->ehdr.e_machine);
	struct cold_sites read = {0}, sites = {0};
	size_t names, inlined = 0;
	Elf_Scn *scn = NULL;
	int result = -1;

	if (!arch || elf_getshdrstrndx(m->elf->elf, &names))
		return 0;
	while ((scn = elf_nextscn(m->elf->elf, scn))) {
		GElf_Shdr shdr;
		const char *name;

		if (!gelf_getshdr(scn, &shdr))
			continue;
		name = elf_strptr(m->elf->elf, names, shdr.sh_name);
		if (!name || strcmp(name, IP_SITE_TABLE_SECTION) || shdr.sh_type == SHT_NOBITS)
			continue;
		if (read_table(m, arch, &shdr, scn, &read))
			goto out;
	}
	result = 0;
	if (!read.n)
		goto out;
	result = -1;
	cold_sites_sort(&read);
	if (cold_sites_add_once(&sites, &read, m, refuse) ||
	    follow(m, &found->hooks, &sites, &inlined))
		goto out;
	for (size_t i = 0; i < sites.n; i++)
		if (cold_sites_add(&found->sites, sites.sites[i]))
			goto out;
	if (2 * sites.n > found->sites.n)
		found->placement =
			2 * inlined > sites.n ? IP_PLACEMENT_INLINE : IP_PLACEMENT_FENTRY;
	found->found_by |= IP_FOUND_BY_TABLE;
	result = 0;
out:
	cold_sites_destroy(&read);
	cold_sites_destroy(&sites);
	return result;
}
