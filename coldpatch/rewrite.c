/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the new file by hand. libelf would lay out and write every section again; here the old file is
 * copied, the sites are written over, and three things are appended:
 *
 *   the probe list | section names, ours added | section headers, ours added
 *
 * The ELF header is pointed to the new section headers. The old names and headers stay where
 * they are, unused (a few kilobytes; strip and objcopy drop them).
 */
#include "coldpatch/rewrite.h"

#include "common/arch/arch.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/probe_list.h"

#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>

int cold_rewrite_check(const struct cold_module *m, const struct cold_sites *sites)
{
	const struct ip_elf_file *e = m->elf;

	for (size_t i = 0; i < sites->n; i++) {
		const struct cold_site *site = &sites->sites[i];
		const struct cold_section *s = cold_module_section(m, site->address, site->length);
		bool loaded = false;

		if (!s)
			return ip_error("%s: the site at 0x%lx leaves its section", m->path,
					(unsigned long)site->address);
		for (size_t j = 0; j < e->nloads && !loaded; j++) {
			const struct ip_elf_segment *load = &e->loads[j];
			uint64_t into = site->address - load->vaddr;

			loaded = site->address >= load->vaddr && into < load->filesz &&
				 site->length <= load->filesz - into && (load->flags & PF_X) &&
				 load->offset + into == s->offset + (site->address - s->address);
		}
		if (!loaded)
			return ip_error(
				"%s: the code at 0x%lx in section %s is not what an executable segment loads "
				"there",
				m->path, (unsigned long)site->address, s->name);
	}
	return 0;
}

int cold_rewrite_copy(const struct cold_module *m, struct cold_new_file *f)
{
	off_t in = 0, out = 0;
	bool by_range = true;
	struct stat st;

	if (fstat(m->elf->fd, &st))
		return ip_error_errno("%s", m->path);
	while (in < st.st_size) {
		size_t left = st.st_size - in;
		ssize_t n;

		if (by_range) {
			n = copy_file_range(m->elf->fd, &in, f->fd, &out, left, 0);
			if (n < 0 &&
			    (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
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

static int write_sites(const struct cold_module *m, const struct cold_sites *sites, struct cold_new_file *f)
{
	const struct ip_arch *arch = ip_arch_for_machine(m->elf->ehdr.e_machine);

	if (!arch)
		return ip_error("%s: unknown machine %u", m->path, m->elf->ehdr.e_machine);
	for (size_t i = 0; i < sites->n; i++) {
		const struct cold_site *site = &sites->sites[i];
		const struct cold_section *s = cold_module_section(m, site->address, site->length);
		uint8_t idle[IP_SITE_MAX];

		if (!s || arch->idle(site->form, site->length, idle))
			return ip_error_prefix("%s: site at 0x%lx", m->path, (unsigned long)site->address);
		if (cold_new_file_write(f, idle, site->length, s->offset + (site->address - s->address)))
			return -1;
	}
	return 0;
}

static uint64_t round_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) / to * to;
}

/* Appends the section. file_size: of the old file. */
static int append_section(const struct cold_module *m, const void *list, size_t size, uint64_t file_size,
			  struct cold_new_file *f)
{
	_cleanup_free_ Elf64_Shdr *headers = NULL;
	_cleanup_free_ char *names = NULL;
	Elf64_Ehdr ehdr;
	size_t n, shstrndx, names_size;
	uint64_t at = round_up(file_size, 16);
	const void *old_names;
	Elf_Data *data;

	if (pread(m->elf->fd, &ehdr, sizeof(ehdr), 0) != sizeof(ehdr))
		return ip_error("%s: cannot read the ELF header", m->path);
	if (ehdr.e_shentsize != sizeof(Elf64_Shdr))
		return ip_error("%s: section headers of %u bytes", m->path, ehdr.e_shentsize);
	if (elf_getshdrnum(m->elf->elf, &n) || elf_getshdrstrndx(m->elf->elf, &shstrndx) || !shstrndx ||
	    shstrndx >= n)
		return ip_error("%s: has no section names", m->path);
	headers = calloc(n + 1, sizeof(*headers));
	if (!headers)
		return ip_error("out of memory");
	if (pread(m->elf->fd, headers, n * sizeof(*headers), ehdr.e_shoff) != (ssize_t)(n * sizeof(*headers)))
		return ip_error("%s: cannot read the section headers", m->path);
	if (headers[shstrndx].sh_flags & (SHF_ALLOC | SHF_COMPRESSED))
		return ip_error("%s: the section names are loaded or compressed", m->path);
	data = elf_rawdata(elf_getscn(m->elf->elf, shstrndx), NULL);
	if (!data || !data->d_buf || data->d_size != headers[shstrndx].sh_size ||
	    data->d_size > UINT32_MAX - 64)
		return ip_error("%s: cannot read the section names", m->path);
	old_names = data->d_buf;
	names_size = data->d_size + sizeof(IP_PROBE_SECTION);
	names = malloc(names_size);
	if (!names)
		return ip_error("out of memory");
	memcpy(names, old_names, data->d_size);
	memcpy(names + data->d_size, IP_PROBE_SECTION, sizeof(IP_PROBE_SECTION));

	headers[n] = (Elf64_Shdr){
		.sh_name = data->d_size,
		.sh_type = SHT_PROGBITS,
		.sh_offset = at,
		.sh_size = size,
		.sh_addralign = 8,
	};
	if (cold_new_file_write(f, list, size, at))
		return -1;
	at += size;
	headers[shstrndx].sh_offset = at;
	headers[shstrndx].sh_size = names_size;
	if (cold_new_file_write(f, names, names_size, at))
		return -1;
	at = round_up(at + names_size, 8);
	n++;
	if (n >= SHN_LORESERVE) {
		ehdr.e_shnum = 0;
		headers[0].sh_size = n;
	} else {
		ehdr.e_shnum = n;
	}
	ehdr.e_shoff = at;
	if (cold_new_file_write(f, headers, n * sizeof(*headers), at))
		return -1;
	return cold_new_file_write(f, &ehdr, sizeof(ehdr), 0);
}

int cold_rewrite(const struct cold_module *m, const struct cold_sites *sites, const void *list, size_t size,
		 struct cold_new_file *f)
{
	struct stat st;

	if (fstat(m->elf->fd, &st))
		return ip_error_errno("%s", m->path);
	if (cold_rewrite_copy(m, f) || write_sites(m, sites, f))
		return -1;
	return append_section(m, list, size, st.st_size, f);
}
