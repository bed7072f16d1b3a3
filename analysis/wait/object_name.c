/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names objects. Variables are found in the symbol tables of the recorded modules.
 */
#include "analysis/wait/object_name.h"

#include <elfutils/libdw.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/wait/thread_states.h"
#include "analysis/wait/variable_member.h"
#include "common/arch/syscalls.h"
#include "common/elf/elf_file.h"
#include "common/error.h"

struct module {
	bool looked;
	struct ip_elf_file *elf; /* NULL: not here, or another build */
	Dwarf *dwarf;		 /* NULL: it has no debug information */
};

struct ip_object_names {
	const struct ip_recording *session;
	struct module *modules; /* those of the session, then the others */
	char text[512];
};

struct ip_object_names *ip_object_names_create(const struct ip_recording *session)
{
	struct ip_object_names *names = calloc(1, sizeof(*names));

	if (names) {
		names->session = session;
		names->modules =
			calloc(session->nmodules + session->nothers + 1, sizeof(*names->modules));
	}
	if (names && names->modules)
		return names;
	ip_error("out of memory");
	free(names);
	return NULL;
}

static void close_file(struct module *m)
{
	dwarf_end(m->dwarf);
	ip_elf_close(m->elf);
	m->dwarf = NULL;
	m->elf = NULL;
}

void ip_object_names_destroy(struct ip_object_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->session->nmodules + names->session->nothers; i++)
		close_file(&names->modules[i]);
	free(names->modules);
	free(names);
}

static const struct ip_recording_module *recorded(const struct ip_object_names *names, size_t i)
{
	const struct ip_recording *s = names->session;

	return i < s->nmodules ? &s->modules[i] : &s->others[i - s->nmodules];
}

/* Whether a loaded segment of the file has the link-time address. */
static bool contains(Elf *elf, uint64_t address)
{
	size_t n;

	if (elf_getphdrnum(elf, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr p;

		if (gelf_getphdr(elf, i, &p) && p.p_type == PT_LOAD && address >= p.p_vaddr &&
		    address - p.p_vaddr < p.p_memsz)
			return true;
	}
	return false;
}

/* The variable that an address lies in. */
static bool find_variable(Elf *elf, uint64_t address, const char **ret_name, uint64_t *ret_offset)
{
	for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn; scn = elf_nextscn(elf, scn)) {
		GElf_Shdr header;
		Elf_Data *data;

		if (!gelf_getshdr(scn, &header) || !header.sh_entsize ||
		    (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
			continue;
		data = elf_getdata(scn, NULL);
		for (size_t i = 0; data && i < header.sh_size / header.sh_entsize; i++) {
			GElf_Sym symbol;

			if (!gelf_getsym(data, i, &symbol) ||
			    GELF_ST_TYPE(symbol.st_info) != STT_OBJECT ||
			    address < symbol.st_value ||
			    address - symbol.st_value >= symbol.st_size)
				continue;
			*ret_name = elf_strptr(elf, header.sh_link, symbol.st_name);
			*ret_offset = address - symbol.st_value;
			return *ret_name != NULL;
		}
	}
	return false;
}

/* A file of another build, or of another machine, tells nothing. */
static void open_file(struct module *m, const struct ip_recording_module *r)
{
	char id[2 * 32 + 1];

	if (*r->path != '/' || ip_elf_open(r->path, &m->elf) < 0) {
		m->elf = NULL;
		return;
	}
	m->dwarf = dwarf_begin_elf(m->elf->elf, DWARF_C_READ, NULL);
	if (m->elf->build_id_size &&
	    !strcmp(ip_build_id_format(m->elf->build_id, m->elf->build_id_size, id), r->build_id))
		return;
	close_file(m);
}

static const char *name_address(struct ip_object_names *names, uint64_t address)
{
	const struct ip_recording *s = names->session;
	const char *variable;
	char member[256];
	uint64_t offset;

	for (size_t i = 0; i < s->nmodules + s->nothers; i++) {
		struct module *m = &names->modules[i];
		const struct ip_recording_module *r = recorded(names, i);
		const char *file = strrchr(r->path, '/') ? strrchr(r->path, '/') + 1 : r->path;

		if (!m->looked) {
			m->looked = true;
			open_file(m, r);
		}
		if (!m->elf || !contains(m->elf->elf, address - r->load_bias))
			continue;
		if (!find_variable(m->elf->elf, address - r->load_bias, &variable, &offset))
			snprintf(names->text, sizeof(names->text), "%s+0x%" PRIx64, file,
				 address - r->load_bias);
		else if (ip_variable_member(m->dwarf, address - r->load_bias - offset, offset,
					    member, sizeof(member)))
			snprintf(names->text, sizeof(names->text), "&%s%s", variable, member);
		else if (offset)
			snprintf(names->text, sizeof(names->text), "&%s+%" PRIu64, variable,
				 offset);
		else
			snprintf(names->text, sizeof(names->text), "&%s", variable);
		return names->text;
	}
	snprintf(names->text, sizeof(names->text), "0x%" PRIx64, address);
	return names->text;
}

static const char *call_name(const struct ip_wait_object *o)
{
	const struct ip_syscall *call = o->call == IP_NO_CALL ? NULL : ip_syscall_find(o->call);

	return call ? call->name : NULL;
}

const char *ip_object_name(struct ip_object_names *names, const struct ip_wait_object *o)
{
	const char *call = call_name(o);

	if (o->text)
		return o->text;
	if (o->address)
		return name_address(names, o->address);
	if (o->kind == IP_WAIT_CHILD && o->pid)
		snprintf(names->text, sizeof(names->text), "pid %d", o->pid);
	else if (o->fd >= 0 && call)
		snprintf(names->text, sizeof(names->text), "descriptor %d in %s", o->fd, call);
	else if (o->fd >= 0)
		snprintf(names->text, sizeof(names->text), "descriptor %d", o->fd);
	else
		snprintf(names->text, sizeof(names->text), "%s",
			 call ? call : "outside of system calls");
	return names->text;
}
