/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows DT_NEEDED from the executable.
 */
#include "hotpatcher/process/modules_needed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"

static bool has_interpreter(const struct ip_elf_file *elf)
{
	size_t n;

	if (!elf || elf_getphdrnum(elf->elf, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr phdr;

		if (gelf_getphdr(elf->elf, i, &phdr) && phdr.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* Calls visit for each string of the dynamic section that has the tag, until visit returns true.
 * True if it did. */
static bool each_string(const struct ip_module *module, GElf_Sxword tag,
			bool (*visit)(void *, const char *), void *data)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while (module->elf && (scn = elf_nextscn(module->elf->elf, scn))) {
		Elf_Data *bytes;
		GElf_Dyn dyn;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_DYNAMIC)
			continue;
		bytes = elf_getdata(scn, NULL);
		for (int i = 0; bytes && gelf_getdyn(bytes, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
			const char *text =
				dyn.d_tag == tag
					? elf_strptr(module->elf->elf, shdr.sh_link, dyn.d_un.d_val)
					: NULL;

			if (text && visit(data, text))
				return true;
		}
	}
	return false;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_name(void *wanted, const char *name)
{
	return !strcmp(base_name(name), wanted);
}

struct walk {
	struct ip_modules *modules;
	bool changed;
};

/* A module that stays needs a library of that name: so this library stays, too. */
static bool needs(void *data, const char *name)
{
	struct walk *w = data;

	for (size_t i = 0; i < w->modules->n; i++) {
		struct ip_module *m = &w->modules->items[i];

		if (!m->may_go || (strcmp(base_name(m->path), base_name(name)) &&
				   !each_string(m, DT_SONAME, is_name, (void *)base_name(name))))
			continue;
		m->may_go = false;
		w->changed = true;
	}
	return false;
}

void ip_modules_mark_lasting(const struct ip_target *target, struct ip_modules *modules)
{
	struct walk w = {modules, true};
	struct stat st;
	char name[64];
	bool known;

	snprintf(name, sizeof(name), "/proc/%d/exe", target->pid);
	known = stat(name, &st) == 0; /* not known if the leader has ended */
	for (size_t i = 0; i < modules->n; i++) {
		struct ip_module *m = &modules->items[i];

		m->may_go =
			!m->runtime && (known ? m->inode != st.st_ino : !has_interpreter(m->elf));
	}
	while (w.changed) {
		w.changed = false;
		for (size_t i = 0; i < modules->n; i++)
			if (!modules->items[i].may_go)
				each_string(&modules->items[i], DT_NEEDED, needs, &w);
	}
}
