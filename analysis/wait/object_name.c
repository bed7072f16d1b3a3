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

#include "analysis/read/members.h"
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

/* The modules of one process, or of one member of a recording of several: each has them elsewhere.
 */
struct image {
	const struct ip_recording *session;
	struct module *modules; /* those of the session, then the others */
};

struct ip_object_names {
	struct image *images; /* by member */
	size_t n;
	char text[512];
};

static size_t modules_of(const struct image *image)
{
	return image->session ? image->session->nmodules + image->session->nothers : 0;
}

struct ip_object_names *ip_object_names_create(const struct ip_recording *session)
{
	struct ip_object_names *names = calloc(1, sizeof(*names));
	const struct ip_recording_members *members = session->members;

	if (names) {
		names->n = members ? members->n : 1;
		names->images = calloc(names->n + 1, sizeof(*names->images));
	}
	for (size_t i = 0; names && names->images && i < names->n; i++) {
		struct image *image = &names->images[i];

		image->session = members ? members->items[i].own : session;
		image->modules = calloc(modules_of(image) + 1, sizeof(*image->modules));
		if (!image->modules)
			names->n = i; /* what is behind it was not laid out */
	}
	if (names && names->images && names->n == (members ? members->n : 1))
		return names;
	ip_error("out of memory");
	ip_object_names_destroy(names);
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
	for (size_t i = 0; names->images && i < names->n; i++) {
		for (size_t k = 0; k < modules_of(&names->images[i]); k++)
			close_file(&names->images[i].modules[k]);
		free(names->images[i].modules);
	}
	free(names->images);
	free(names);
}

static const struct ip_recording_module *recorded(const struct image *image, size_t i)
{
	const struct ip_recording *s = image->session;

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

static const char *name_address(struct ip_object_names *names, uint32_t member, uint64_t address)
{
	const struct image *image = member < names->n ? &names->images[member] : NULL;
	const char *variable;
	char part[256];
	uint64_t offset;

	for (size_t i = 0; image && i < modules_of(image); i++) {
		struct module *m = &image->modules[i];
		const struct ip_recording_module *r = recorded(image, i);
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
		else if (ip_variable_member(m->dwarf, address - r->load_bias - offset, offset, part,
					    sizeof(part)))
			snprintf(names->text, sizeof(names->text), "&%s%s", variable, part);
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
	const struct ip_syscall *call;

	if (o->call == IP_UNTOLD_CALL)
		return "a system call that was not recorded";
	call = o->call == IP_NO_CALL ? NULL : ip_syscall_find(o->call);
	return call ? call->name : NULL;
}

const char *ip_object_name(struct ip_object_names *names, const struct ip_wait_object *o)
{
	const char *call = call_name(o);

	if (o->text)
		return o->text;
	if (o->address)
		return name_address(names, o->member, o->address);
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
