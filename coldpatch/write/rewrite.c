/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the new file. The loaded part is copied, the sites are overwritten, and the tail
 * (elf_end.h) follows, with the probe list.
 */
#include "coldpatch/write/rewrite.h"

#include "coldpatch/sites/arch.h"
#include "coldpatch/sites/site_table.h"
#include "coldpatch/write/elf_end.h"
#include "coldpatch/write/emit_relocs.h"
#include "coldpatch/write/strip.h"
#include "common/arch/arch.h"
#include "common/cleanup.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>

int cold_rewrite_copy(const struct cold_module *m, uint64_t from, uint64_t size,
		      struct cold_atomic_file *f, uint64_t to)
{
	off_t in = (off_t)from, out = (off_t)to;
	bool by_range = true;

	while (in < (off_t)(from + size)) {
		size_t left = from + size - in;
		ssize_t n;

		if (by_range) {
			n = copy_file_range(m->elf->fd, &in, f->fd, &out, left, 0);
			if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS ||
				      errno == EOPNOTSUPP)) {
				by_range = false;
				continue;
			}
		} else {
			if (lseek(f->fd, out, SEEK_SET) < 0)
				return ip_error_errno("%s", f->target);
			n = sendfile(f->fd, m->elf->fd, &in, left);
			if (n > 0)
				out += n;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ip_error_errno("%s: cannot write the new file", f->target);
		if (!n)
			return ip_error("%s: became shorter while it was read", m->path);
	}
	return 0;
}

int cold_rewrite_copy_all(const struct cold_module *m, struct cold_atomic_file *f)
{
	struct stat st;

	if (fstat(m->elf->fd, &st))
		return ip_error_errno("%s", m->path);
	return cold_rewrite_copy(m, 0, st.st_size, f, 0);
}

static int write_sites(const struct cold_module *m, const struct cold_sites *sites,
		       struct cold_atomic_file *f)
{
	const struct ip_arch *arch = ip_arch_for_machine(m->elf->ehdr.e_machine);

	if (!arch)
		return ip_error("%s: unknown machine %u", m->path, m->elf->ehdr.e_machine);
	for (size_t i = 0; i < sites->n; i++) {
		const struct cold_site *site = &sites->sites[i];
		const struct cold_section *s = cold_module_section(m, site->address, site->length);
		uint8_t idle[IP_SITE_MAX], after[COLD_AFTER_MAX];

		if (!s || arch->idle(site->form, site->length, site->jump, idle))
			return ip_error_prefix("%s: site at 0x%lx", m->path,
					       (unsigned long)site->address);
		if (cold_atomic_file_write(f, idle, site->length,
					   s->offset + (site->address - s->address)))
			return -1;
		if (!site->after_length)
			continue;
		cold_arch_for_machine(m->elf->ehdr.e_machine)->after(site, after);
		if (cold_atomic_file_write(f, after, site->after_length,
					   s->offset + (site->address - s->address) + site->length))
			return -1;
	}
	return 0;
}

int cold_rewrite(const struct cold_module *m, const struct cold_sites *sites, const void *list,
		 size_t size, const struct cold_rewrite_how *how, struct cold_atomic_file *f)
{
	struct cold_elf_end tail;
	int result = -1;

	if (cold_elf_end_open(m, &tail))
		return -1;
	if (!how->keep_relocs)
		cold_emit_relocs_drop(&tail);
	if (list && cold_elf_end_add(&tail, IP_PROBE_SECTION, 8, list, size))
		goto out;
	/* drops the tables of sites, with their relocations that -q has left: the probe list holds
	 * all of it */
	cold_elf_end_drop_named(&tail, IP_SITE_TABLE_SECTION);
	if (how->strip)
		cold_strip(&tail, how->drop_list);
	if (how->drop_debug)
		/* and their relocations that -q has left: the probe list holds all of it */
		cold_elf_end_drop_named(&tail, ".debug_");
	if (cold_rewrite_copy(m, 0, cold_elf_end_start(&tail), f, 0) || write_sites(m, sites, f) ||
	    cold_elf_end_write(&tail, f))
		goto out;
	result = 0;
out:
	cold_elf_end_close(&tail);
	return result;
}
