/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the description in a payload object.
 */
#include "hotpatcher/plan/user_payload.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/arch/arch.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "hotpatcher/arch/x86_64/regs.h"

#define SYMBOL "iprobe_payload"

int ip_user_check_file(const char *path)
{
	struct ip_elf_file *elf;
	uint64_t value, size;
	_cleanup_close_ int fd = ip_open_regular(path, &size);
	int found;

	if (fd < 0)
		return ip_error_prefix("--payload user");
	if (ip_elf_open_fd(fd, path, &elf) < 0)
		return -1;
	found = ip_elf_symbol(elf, SYMBOL, &value);
	if (found > 0 && (elf->ehdr.e_machine != EM_X86_64 || elf->ehdr.e_type != ET_DYN))
		found = ip_error("--payload user: %s is no shared object of 64-bit programs", path);
	else if (!found)
		found = ip_error("--payload user: %s has no payload in it: IPROBE_PAYLOAD of "
				 "<iprobe/payload.h> makes one",
				 path);
	ip_elf_close(elf);
	return found > 0 ? 0 : -1;
}

/* Returns whether the module stays mapped after dlclose: it cannot be unloaded, or it was linked
 * with -z nodelete. */
static bool never_unloaded(const struct ip_module *m)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	if (!m->may_go)
		return true;
	while ((scn = elf_nextscn(m->elf->elf, scn))) {
		Elf_Data *data;
		GElf_Dyn dyn;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_DYNAMIC)
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++)
			if (dyn.d_tag == DT_FLAGS_1 && dyn.d_un.d_val & DF_1_NODELETE)
				return true;
	}
	return false;
}

static const struct ip_module *find_file(const struct ip_modules *modules, const char *path)
{
	struct stat st, opened;

	if (stat(path, &st) < 0)
		return NULL;
	for (size_t i = 0; i < modules->n; i++) {
		const struct ip_module *m = &modules->items[i];

		/* Some file systems (overlayfs, btrfs) show another device in maps than in stat. So
		 * the mapped file itself is compared. */
		if (m->elf && fstat(m->elf->fd, &opened) == 0 && opened.st_ino == st.st_ino &&
		    opened.st_dev == st.st_dev)
			return m;
	}
	return NULL;
}

/* Finds the module by the path as the tracer sees it, or else as the target sees it, which may have
 * mounts of its own. */
static const struct ip_module *find_module(const struct ip_target *target,
					   const struct ip_modules *modules, const char *path)
{
	const struct ip_module *m = find_file(modules, path);
	_cleanup_free_ char *theirs = NULL;

	if (m)
		return m;
	if (asprintf(&theirs, "/proc/%d/root%s", target->pid, path) < 0) {
		theirs = NULL;
		return NULL;
	}
	return find_file(modules, theirs);
}

/* Reads a name, byte by byte: the string may end just before memory that is not mapped. */
static bool read_name(const struct ip_target *target, uint64_t at, char *name)
{
	for (unsigned i = 0; i < IP_USER_NAME_MAX; i++) {
		if (ip_target_read(target, at + i, &name[i], 1) < 0)
			return false;
		if (!name[i])
			return i > 0;
		if (!isgraph((unsigned char)name[i]))
			return false;
	}
	return false;
}

static int read_fields(const struct ip_target *target, const struct iprobe_payload *p,
		       struct ip_user_payload *ret)
{
	struct iprobe_field fields[IPROBE_FIELDS_MAX];

	if (ip_target_read(target, (uintptr_t)p->fields, fields, p->nfields * sizeof(*fields)) < 0)
		return ip_error("--payload user:%s: its fields cannot be read", ret->path);
	for (uint32_t i = 0; i < p->nfields; i++) {
		if (fields[i].offset % 8 || p->cell_size < 8 ||
		    fields[i].offset > p->cell_size - 8 || fields[i].how > IPROBE_MIN ||
		    !read_name(target, (uintptr_t)fields[i].name, ret->fields[i].name))
			return ip_error("--payload user:%s: field %u is none: a name without "
					"blanks of at most %u characters, 8 bytes within the cell, "
					"and IPROBE_SUM, MAX or MIN",
					ret->path, i, IP_USER_NAME_MAX - 1);
		ret->fields[i].offset = fields[i].offset;
		ret->fields[i].how = fields[i].how;
	}
	return 0;
}

int ip_user_find(const struct ip_target *target, const struct ip_modules *modules, const char *path,
		 bool preloaded, struct ip_user_payload *ret)
{
	const struct ip_module *m = find_module(target, modules, path);
	struct iprobe_payload p;
	uint64_t value;

	if (target->arch->bits != 64)
		return ip_error("pid %d: --payload user works in 64-bit programs only",
				target->pid);
	if (!m)
		return ip_error(
			"pid %d has not loaded %s, and iprobe loads nothing into a process that "
			"runs: start it by iprobe run --payload user:..., or with LD_PRELOAD=%s",
			target->pid, path, path);
	if (!preloaded && !never_unloaded(m))
		return ip_error(
			"pid %d may unload %s while a hook calls it: link it with -Wl,-z,nodelete",
			target->pid, path);
	if (ip_elf_symbol(m->elf, SYMBOL, &value) <= 0 ||
	    ip_target_read(target, m->load_bias + value, &p, sizeof(p)) < 0)
		return ip_error("pid %d: %s has no payload in it (iprobe_payload)", target->pid,
				path);
	if (p.abi != IPROBE_PAYLOAD_ABI || p.nfields > IPROBE_FIELDS_MAX ||
	    p.cell_size > IPROBE_CELL_MAX || p.scratch_size > IPROBE_SCRATCH_MAX)
		return ip_error("pid %d: the payload of %s is of another version of iprobe, or "
				"asks for more than %u fields, %u bytes a cell, or %u a thread",
				target->pid, path, IPROBE_FIELDS_MAX, IPROBE_CELL_MAX,
				IPROBE_SCRATCH_MAX);
	if ((uintptr_t)p.call < m->start || (uintptr_t)p.call >= m->end)
		return ip_error("pid %d: the payload of %s does not call into that object",
				target->pid, path);
	ret->call = (uintptr_t)p.call;
	ret->preloaded = preloaded;
	ret->cell_size = (p.cell_size + 7) / 8 * 8;
	ret->scratch_size = (p.scratch_size + 7) / 8 * 8;
	ret->nfields = p.nfields;
	ret->mask = ip_arch_vector_state();
	return read_fields(target, &p, ret);
}

void ip_user_merge(const struct ip_user_payload *user, const void *cell, uint64_t *sums)
{
	for (uint32_t i = 0; i < user->nfields; i++) {
		uint64_t value = __atomic_load_n(
			(const uint64_t *)((const char *)cell + user->fields[i].offset),
			__ATOMIC_RELAXED);

		switch (user->fields[i].how) {
		case IPROBE_MAX:
			sums[i] = value > sums[i] ? value : sums[i];
			break;
		case IPROBE_MIN:
			sums[i] = value && (!sums[i] || value < sums[i]) ? value : sums[i];
			break;
		default:
			sums[i] += value;
		}
	}
}
