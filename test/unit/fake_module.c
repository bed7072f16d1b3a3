/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes modules for fake targets. See fake_module.h.
 */
#include "test/unit/fake_module.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/arch/arch.h"

#define NOTE_AT	  0x200u
#define DATA_SIZE 8u

enum { SECTION_NULL, SECTION_LIST, SECTION_NAMES, SECTIONS };

static const char names[] = "\0" IP_PROBE_SECTION "\0.shstrtab";

static void must(int holds)
{
	if (!holds)
		abort();
}

static void make_list(const struct fake_recipe *recipe, const struct fake_module *m, void **ret,
		      size_t *ret_size)
{
	const char *id = recipe->list_id ? recipe->list_id : recipe->build_id;
	struct ip_probe_list_builder *b;

	*ret = NULL;
	*ret_size = 0;
	if (!recipe->nprobes)
		return;
	must(ip_probe_list_builder_create(EM_X86_64, IP_PLACEMENT_FENTRY, (const uint8_t *)id,
					  strlen(id), &b) == 0);
	for (size_t i = 0; i < recipe->nprobes; i++) {
		const struct fake_probe *p = &recipe->probes[i];
		int64_t function =
			ip_probe_list_builder_function(b, p->function, p->address, p->file, 0);
		const struct ip_pl_probe probe = {.offset = p->offset,
						  .function = (uint32_t)function,
						  .kind = p->kind,
						  .form = p->form,
						  .regs = p->regs,
						  .flags = p->flags,
						  .length = p->length ? p->length : 5,
						  .frame = p->frame};

		must(function >= 0 && ip_probe_list_builder_probe(b, &probe, NULL, NULL) == 0);
	}
	if (m->room_size)
		ip_probe_list_builder_header(b, IP_FOUND_BY_TABLE, fake_module_room(m),
					     m->room_size, 0);
	must(ip_probe_list_builder_finish(b, ret, ret_size) == 0);
	ip_probe_list_builder_destroy(b);
}

static void put_sites(const struct fake_recipe *recipe, struct fake_module *m)
{
	memset(m->bytes + FAKE_TEXT, 0x90, m->text_size);
	for (size_t i = 0; i < recipe->nprobes; i++) {
		const struct fake_probe *p = &recipe->probes[i];
		uint8_t idle[IP_SITE_MAX];
		unsigned length = p->length ? p->length : 5;

		must(ip_arch_x86_64.idle(p->form, length, 0, idle) == 0);
		if (p->offset >= FAKE_TEXT && p->offset + length <= FAKE_TEXT + m->text_size)
			memcpy(m->bytes + p->offset, idle, length);
	}
}

static void put_headers(const struct fake_recipe *recipe, const struct fake_module *m,
			uint64_t sections_at)
{
	size_t id_size = strlen(recipe->build_id);
	const Elf64_Nhdr note = {4, (Elf64_Word)id_size, NT_GNU_BUILD_ID};
	const Elf64_Phdr phdrs[] = {
		{.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = FAKE_PAGE, .p_memsz = FAKE_PAGE},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_offset = FAKE_TEXT,
		 .p_vaddr = FAKE_TEXT,
		 .p_filesz = m->text_size,
		 .p_memsz = m->text_size},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_W,
		 .p_offset = fake_module_data(m),
		 .p_vaddr = fake_module_data(m),
		 .p_filesz = DATA_SIZE,
		 .p_memsz = FAKE_PAGE + m->room_size},
		{.p_type = PT_NOTE,
		 .p_flags = PF_R,
		 .p_offset = NOTE_AT,
		 .p_vaddr = NOTE_AT,
		 .p_filesz = sizeof(note) + 4 + id_size,
		 .p_memsz = sizeof(note) + 4 + id_size}};
	const Elf64_Ehdr ehdr = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_shoff = sections_at,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = sizeof(phdrs) / sizeof(*phdrs),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = SECTION_NAMES};

	memcpy(m->bytes, &ehdr, sizeof(ehdr));
	memcpy(m->bytes + sizeof(ehdr), phdrs, sizeof(phdrs));
	memcpy(m->bytes + NOTE_AT, &note, sizeof(note));
	memcpy(m->bytes + NOTE_AT + sizeof(note), "GNU", 4);
	memcpy(m->bytes + NOTE_AT + sizeof(note) + 4, recipe->build_id, id_size);
}

static void write_all(int fd, const void *bytes, size_t size)
{
	must(write(fd, bytes, size) == (ssize_t)size);
}

/* Writes loaded bytes, list, names of sections and their headers, one behind the other. */
static void write_file(const struct fake_recipe *recipe, struct fake_module *m, int fd)
{
	uint64_t list_at = fake_module_data(m) + FAKE_PAGE, names_at;
	Elf64_Shdr sections[SECTIONS] = {{0}};
	struct stat st;
	void *list;
	size_t size;

	make_list(recipe, m, &list, &size);
	m->size = list_at;
	m->bytes = calloc(1, m->size);
	must(m->bytes != NULL);
	put_sites(recipe, m);
	names_at = list_at + size;
	put_headers(recipe, m, (names_at + sizeof(names) + 7) / 8 * 8);
	sections[SECTION_LIST] = (Elf64_Shdr){.sh_name = list ? 1 : 0,
					      .sh_type = list ? SHT_PROGBITS : SHT_NULL,
					      .sh_offset = list_at,
					      .sh_size = size,
					      .sh_addralign = 8};
	sections[SECTION_NAMES] = (Elf64_Shdr){.sh_name = sizeof("\0" IP_PROBE_SECTION),
					       .sh_type = SHT_STRTAB,
					       .sh_offset = names_at,
					       .sh_size = sizeof(names)};
	write_all(fd, m->bytes, m->size);
	write_all(fd, list ? list : "", size);
	write_all(fd, names, sizeof(names));
	must(lseek(fd, (off_t)((names_at + sizeof(names) + 7) / 8 * 8), SEEK_SET) >= 0);
	write_all(fd, sections, sizeof(sections));
	must(fstat(fd, &st) == 0);
	m->inode = st.st_ino;
	free(list);
}

struct fake_module fake_module_make(const struct fake_recipe *recipe)
{
	struct fake_module m = {.path = "/tmp/iprobe-module-XXXXXX",
				.text_size =
					FAKE_PAGE * (recipe->text_pages ? recipe->text_pages : 1),
				.room_size = FAKE_PAGE * recipe->room_pages};
	int fd = mkstemp(m.path);

	must(fd >= 0);
	write_file(recipe, &m, fd);
	close(fd);
	return m;
}

void fake_module_replace(struct fake_module *module, const struct fake_recipe *recipe)
{
	struct fake_module other = fake_module_make(recipe);

	must(rename(other.path, module->path) == 0);
	memcpy(other.path, module->path, sizeof(other.path));
	free(module->bytes);
	*module = other;
}

void fake_module_remove(struct fake_module *module)
{
	unlink(module->path);
	free(module->bytes);
	*module = (struct fake_module){0};
}
