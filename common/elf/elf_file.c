// SPDX-License-Identifier: Apache-2.0
/*
 * Reading ELF files.
 *
 * The first bytes are checked here, before libelf sees the file. So a file of another kind is
 * refused by what it is. Segments and sections are checked against the size of the file once, when
 * it is opened. libelf reads the file; it does not map it, since a mapped file that shrinks would
 * cause SIGBUS.
 */
#include "common/elf/elf_file.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arch/arch.h"
#include "common/cleanup.h"
#include "common/elf/elf_class.h"
#include "common/elf/note.h"
#include "common/error.h"
#include "common/file.h"

#define SECTION_MAX (4ull << 30)
#define NOTES_MAX   (1u << 20)

#define ULL(x) ((unsigned long long)(x))

static const char *machine_name(unsigned machine)
{
	static const struct {
		unsigned machine;
		const char *name;
	} names[] = {
		{EM_386, "i386"},      {EM_ARM, "arm"},		{EM_AARCH64, "aarch64"},
		{EM_PPC, "powerpc"},   {EM_PPC64, "powerpc64"}, {EM_S390, "s390"},
		{EM_MIPS, "mips"},     {EM_RISCV, "riscv"},	{EM_LOONGARCH, "loongarch"},
		{EM_SPARCV9, "sparc"}, {EM_IA_64, "ia64"},	{EM_BPF, "bpf"},
		{EM_X86_64, "x86-64"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].machine == machine)
			return names[i].name;
	return NULL;
}

static int refuse_machine(const char *path, unsigned machine)
{
	const char *name = machine_name(machine);

	if (!name)
		return ip_error("%s: ELF for machine %u, this iprobe knows x86-64 and i386", path,
				machine);
	return ip_error("%s: ELF for %s (machine %u), this iprobe knows x86-64 and i386", path,
			name, machine);
}

/* Checks the identity by the first 20 bytes: they have the same layout in every ELF file. */
static int check_ident(int fd, const char *path, uint64_t size)
{
	uint8_t start[EI_NIDENT + 4] = {0};
	size_t n = size < sizeof(start) ? (size_t)size : sizeof(start);
	const uint8_t *half = start + EI_NIDENT;
	const struct ip_arch *arch;
	bool big;
	unsigned type, machine;

	if (size == 0)
		return ip_error("%s: not an ELF file: it is empty", path);
	if (ip_read_at(fd, path, 0, start, n) < 0)
		return -1;
	if (n < SELFMAG || memcmp(start, ELFMAG, SELFMAG) != 0)
		return ip_error("%s: not an ELF file", path);
	if (n < sizeof(start))
		return ip_error("%s: truncated ELF file: its header ends at byte %zu", path, n);
	big = start[EI_DATA] == ELFDATA2MSB;
	type = big ? half[0] << 8 | half[1] : half[1] << 8 | half[0];
	machine = big ? half[2] << 8 | half[3] : half[3] << 8 | half[2];
	if (start[EI_CLASS] == ELFCLASS32 && machine == EM_X86_64)
		return ip_error("%s: ELF for x32 (32-bit pointers in 64-bit code), this iprobe "
				"knows x86-64 and i386",
				path);
	arch = ip_arch_for_machine(machine);
	if (!arch)
		return refuse_machine(path, machine);
	if (start[EI_CLASS] != (arch->bits == 64 ? ELFCLASS64 : ELFCLASS32))
		return ip_error("%s: corrupt ELF file: %s of class %u", path, arch->name,
				start[EI_CLASS]);
	if (start[EI_DATA] != ELFDATA2LSB)
		return ip_error("%s: corrupt ELF file: %s in byte order %u", path, arch->name,
				start[EI_DATA]);
	if (start[EI_VERSION] != EV_CURRENT)
		return ip_error("%s: ELF of unknown version %u", path, start[EI_VERSION]);
	switch (type) {
	case ET_EXEC:
	case ET_DYN:
		return 0;
	case ET_REL:
		return ip_error("%s: is an object file, not linked yet; link it first", path);
	case ET_CORE:
		return ip_error("%s: is a core dump; a program or a library is needed", path);
	}
	return ip_error("%s: ELF of type %u; a program or a library is needed", path, type);
}

/* Whether [offset, offset + size) lies in a file of file_size bytes. */
static bool lies_within(uint64_t offset, uint64_t size, uint64_t file_size)
{
	return offset <= file_size && size <= file_size - offset;
}

/* Checks both header tables before libelf does: libelf only says "invalid data", but this function
 * says what is wrong. */
static int check_tables(struct ip_elf_file *file, uint64_t size)
{
	const Elf64_Ehdr *ehdr = &file->ehdr;
	size_t phdr_size = ip_elf_phdr_size(ehdr->e_ident[EI_CLASS]);
	size_t shdr_size = ip_elf_shdr_size(ehdr->e_ident[EI_CLASS]);

	if (ehdr->e_phnum == 0)
		return ip_error(
			"%s: ELF file without program headers; a program or a library is needed",
			file->path);
	if (ehdr->e_phnum == PN_XNUM)
		return ip_error("%s: ELF file with more than %u program headers", file->path,
				PN_XNUM - 1);
	if (ehdr->e_phentsize != phdr_size)
		return ip_error("%s: corrupt ELF file: program headers of %u bytes", file->path,
				ehdr->e_phentsize);
	if (!lies_within(ehdr->e_phoff, ehdr->e_phnum * phdr_size, size))
		return ip_error("%s: truncated ELF file: the program headers lie behind its end",
				file->path);
	/* libelf would take the file's first bytes for them */
	if (ehdr->e_shoff == 0 && ehdr->e_shnum)
		return ip_error("%s: corrupt ELF file: %u section headers that lie nowhere",
				file->path, ehdr->e_shnum);
	if (ehdr->e_shoff == 0)
		return 0;
	if (ehdr->e_shentsize != shdr_size)
		return ip_error("%s: corrupt ELF file: section headers of %u bytes", file->path,
				ehdr->e_shentsize);
	/* e_shnum is 0 if there are too many sections for it. Then section 0 holds their number,
	 * and must exist. */
	if (!lies_within(ehdr->e_shoff, (ehdr->e_shnum ? ehdr->e_shnum : 1) * shdr_size, size))
		return ip_error("%s: truncated ELF file: the section headers lie behind its end",
				file->path);
	return 0;
}

static int read_segments(struct ip_elf_file *file, uint64_t size)
{
	size_t n = file->ehdr.e_phnum;

	if (file->debug)
		return 0;
	file->loads = calloc(n, sizeof(*file->loads));
	if (!file->loads)
		return ip_error("%s: out of memory", file->path);
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr phdr;

		if (!gelf_getphdr(file->elf, (int)i, &phdr))
			return ip_error("%s: corrupt ELF file: program header %zu: %s", file->path,
					i, elf_errmsg(-1));
		if (phdr.p_type != PT_LOAD)
			continue;
		if (!lies_within(phdr.p_offset, phdr.p_filesz, size))
			return ip_error("%s: truncated ELF file: segment %zu lies behind its end "
					"(byte %llu)",
					file->path, i, ULL(size));
		if (phdr.p_filesz > phdr.p_memsz || phdr.p_vaddr + phdr.p_memsz < phdr.p_vaddr)
			return ip_error("%s: corrupt ELF file: segment %zu has an impossible size",
					file->path, i);
		file->loads[file->nloads++] = (struct ip_elf_segment){
			.offset = phdr.p_offset,
			.vaddr = phdr.p_vaddr,
			.filesz = phdr.p_filesz,
			.memsz = phdr.p_memsz,
			.flags = phdr.p_flags,
		};
	}
	if (file->nloads == 0)
		return ip_error(
			"%s: ELF file without a segment to load; a program or a library is needed",
			file->path);
	return 0;
}

/* A file without a section table is valid: only the sections' names are missing. */
static int check_sections(struct ip_elf_file *file, uint64_t size)
{
	size_t n, shdr_size = ip_elf_shdr_size(file->ehdr.e_ident[EI_CLASS]);

	if (file->ehdr.e_shoff == 0)
		return 0;
	if (elf_getshdrnum(file->elf, &n) < 0)
		return ip_error("%s: corrupt ELF file: %s", file->path, elf_errmsg(-1));
	/* libelf itself reports no sections if they do not fit. */
	if (n < file->ehdr.e_shnum || n > size / shdr_size ||
	    !lies_within(file->ehdr.e_shoff, n * shdr_size, size))
		return ip_error("%s: truncated ELF file: the section headers lie behind its end",
				file->path);
	for (size_t i = 1; i < n; i++) {
		Elf_Scn *scn = elf_getscn(file->elf, i);
		GElf_Shdr shdr;

		if (!scn || !gelf_getshdr(scn, &shdr))
			return ip_error("%s: corrupt ELF file: section %zu: %s", file->path, i,
					elf_errmsg(-1));
		if (shdr.sh_type != SHT_NOBITS && shdr.sh_type != SHT_NULL &&
		    !lies_within(shdr.sh_offset, shdr.sh_size, size))
			return ip_error("%s: truncated ELF file: section %zu lies behind its end "
					"(byte %llu)",
					file->path, i, ULL(size));
	}
	return 0;
}

size_t ip_elf_build_id_in_notes(const void *notes, size_t size, uint8_t *ret)
{
	const uint8_t *p = notes;
	size_t at = 0;

	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t name, desc, end;

		memcpy(&note, p + at, sizeof(note));
		/* 32-bit sizes are rounded up to 4 and added to a size_t offset: no overflow in 64
		 * bits. GNU property notes are aligned to 8, but with their sizes this gives the
		 * same offsets. */
		name = at + sizeof(note);
		desc = name + (((uint64_t)note.n_namesz + 3) & ~3ull);
		end = desc + note.n_descsz;
		if (end > size)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(p + name, "GNU", 4) && note.n_descsz > 0 && note.n_descsz <= 32) {
			memcpy(ret, p + desc, note.n_descsz);
			return note.n_descsz;
		}
		end = (end + 3) & ~3ull;
		if (end >= size)
			return 0;
		at = (size_t)end;
	}
	return 0;
}

static int notes_at(struct ip_elf_file *file, uint64_t offset, uint64_t size)
{
	_cleanup_free_ uint8_t *notes = NULL;

	if (size == 0 || size > NOTES_MAX)
		return 0;
	notes = malloc(size);
	if (!notes)
		return ip_error("%s: out of memory", file->path);
	if (ip_read_at(file->fd, file->path, offset, notes, size) < 0)
		return -1;
	file->build_id_size = ip_elf_build_id_in_notes(notes, size, file->build_id);
	return 0;
}

static int find_build_id(struct ip_elf_file *file, uint64_t file_size)
{
	Elf_Scn *scn = NULL;

	for (size_t i = 0; i < file->ehdr.e_phnum && !file->build_id_size; i++) {
		GElf_Phdr phdr;

		if (!gelf_getphdr(file->elf, (int)i, &phdr) || phdr.p_type != PT_NOTE ||
		    !lies_within(phdr.p_offset, phdr.p_filesz, file_size))
			continue;
		if (notes_at(file, phdr.p_offset, phdr.p_filesz) < 0)
			return -1;
	}
	/* A linker script may leave the notes out of the segments. */
	while (!file->build_id_size && (scn = elf_nextscn(file->elf, scn))) {
		GElf_Shdr shdr;

		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_NOTE &&
		    notes_at(file, shdr.sh_offset, shdr.sh_size) < 0)
			return -1;
	}
	return 0;
}

static int open_elf(struct ip_elf_file *file)
{
	uint8_t header[sizeof(Elf64_Ehdr)];
	uint64_t size;

	if (ip_check_regular(file->fd, file->path, &size) < 0 ||
	    check_ident(file->fd, file->path, size) < 0)
		return -1;
	if (ip_read_at(file->fd, file->path, 0, header, EI_NIDENT) < 0)
		return -1;
	if (size < ip_elf_ehdr_size(header[EI_CLASS]))
		return ip_error("%s: truncated ELF file: its header ends at byte %llu", file->path,
				ULL(size));
	if (ip_read_at(file->fd, file->path, 0, header, ip_elf_ehdr_size(header[EI_CLASS])) < 0)
		return -1;
	ip_elf_ehdr_decode(header, &file->ehdr);
	if (check_tables(file, size) < 0)
		return -1;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return ip_error("libelf is too old: %s", elf_errmsg(-1));
	file->elf = elf_begin(file->fd, ELF_C_READ, NULL);
	if (!file->elf || elf_kind(file->elf) != ELF_K_ELF)
		return ip_error("%s: corrupt ELF file: %s", file->path, elf_errmsg(-1));
	if (read_segments(file, size) < 0 || check_sections(file, size) < 0)
		return -1;
	return find_build_id(file, size);
}

static int open_with(int fd, bool own_fd, bool debug, const char *path, struct ip_elf_file **ret)
{
	struct ip_elf_file *file = calloc(1, sizeof(*file));

	if (!file) {
		if (own_fd)
			close(fd);
		return ip_error("out of memory");
	}
	file->fd = fd;
	file->own_fd = own_fd;
	file->debug = debug;
	file->path = strdup(path);
	if (!file->path || open_elf(file) < 0) {
		if (!file->path)
			ip_error("out of memory");
		ip_elf_close(file);
		return -1;
	}
	*ret = file;
	return 0;
}

int ip_elf_open_fd(int fd, const char *path, struct ip_elf_file **ret)
{
	return open_with(fd, false, false, path, ret);
}

int ip_elf_open_debug_fd(int fd, const char *path, struct ip_elf_file **ret)
{
	return open_with(fd, false, true, path, ret);
}

int ip_elf_open(const char *path, struct ip_elf_file **ret)
{
	uint64_t size;
	int fd = ip_open_regular(path, &size);

	if (fd < 0)
		return -1;
	return open_with(fd, true, false, path, ret);
}

void ip_elf_close(struct ip_elf_file *file)
{
	if (!file)
		return;
	elf_end(file->elf);
	if (file->own_fd)
		close(file->fd);
	free(file->loads);
	free(file->path);
	free(file);
}

static int section_data(struct ip_elf_file *file, Elf_Scn *scn, const GElf_Shdr *shdr,
			const char *name, const void **ret_data, size_t *ret_size)
{
	Elf_Data *data;

	*ret_data = NULL;
	*ret_size = 0;
	if (shdr->sh_type == SHT_NOBITS || shdr->sh_size == 0)
		return 1;
	if (shdr->sh_size > SECTION_MAX)
		return ip_error("%s: section %s of %llu bytes is too large", file->path, name,
				ULL(shdr->sh_size));
	data = elf_getdata(scn, NULL);
	if (!data || !data->d_buf)
		return ip_error("%s: cannot read section %s: %s", file->path, name, elf_errmsg(-1));
	*ret_data = data->d_buf;
	*ret_size = data->d_size;
	return 1;
}

/* *ret: the section, if it is found. */
static int find_section(struct ip_elf_file *file, const char *name, GElf_Shdr *ret_shdr,
			Elf_Scn **ret)
{
	size_t names;
	Elf_Scn *scn = NULL;

	if (file->ehdr.e_shoff == 0)
		return 0;
	if (elf_getshdrstrndx(file->elf, &names) < 0)
		return ip_error("%s: corrupt ELF file: %s", file->path, elf_errmsg(-1));
	while ((scn = elf_nextscn(file->elf, scn))) {
		const char *found;

		if (!gelf_getshdr(scn, ret_shdr))
			return ip_error("%s: corrupt ELF file: %s", file->path, elf_errmsg(-1));
		found = elf_strptr(file->elf, names, ret_shdr->sh_name);
		if (!found || strcmp(found, name) != 0)
			continue;
		*ret = scn;
		return 1;
	}
	return 0;
}

int ip_elf_section(struct ip_elf_file *file, const char *name, GElf_Shdr *ret_shdr,
		   const void **ret_data, size_t *ret_size, size_t *ret_index)
{
	Elf_Scn *scn;
	int r = find_section(file, name, ret_shdr, &scn);

	if (r <= 0)
		return r;
	if (ret_index)
		*ret_index = elf_ndxscn(scn);
	return section_data(file, scn, ret_shdr, name, ret_data, ret_size);
}

int ip_elf_find_section(struct ip_elf_file *file, const char *name, GElf_Shdr *ret_shdr,
			size_t *ret_size)
{
	Elf_Scn *scn;
	int r = find_section(file, name, ret_shdr, &scn);

	*ret_size = 0;
	if (r <= 0 || ret_shdr->sh_type == SHT_NOBITS)
		return r;
	if (ret_shdr->sh_size > SECTION_MAX)
		return ip_error("%s: section %s of %llu bytes is too large", file->path, name,
				ULL(ret_shdr->sh_size));
	*ret_size = ret_shdr->sh_size;
	return 1;
}

/* Value of a defined symbol in one table. */
static int symbol_in(struct ip_elf_file *file, const char *table, const char *name, uint64_t *ret)
{
	GElf_Shdr shdr;
	const void *bytes;
	Elf_Data *data;
	size_t size, index;
	GElf_Sym sym;
	int r = ip_elf_section(file, table, &shdr, &bytes, &size, &index);

	if (r <= 0)
		return r;
	data = elf_getdata(elf_getscn(file->elf, index), NULL);
	for (size_t i = 0; data && i <= INT32_MAX && gelf_getsym(data, (int)i, &sym); i++) {
		const char *found;

		if (sym.st_shndx == SHN_UNDEF || GELF_ST_TYPE(sym.st_info) == STT_TLS)
			continue;
		found = elf_strptr(file->elf, shdr.sh_link, sym.st_name);
		if (found && !strcmp(found, name)) {
			*ret = sym.st_value;
			return 1;
		}
	}
	return 0;
}

int ip_elf_symbol(struct ip_elf_file *file, const char *name, uint64_t *ret)
{
	int r = symbol_in(file, ".dynsym", name, ret);

	return r ? r : symbol_in(file, ".symtab", name, ret);
}

/* The place that a note of iprobe names. notes: the bytes of notes; address: their address. */
static bool find_place(const uint8_t *notes, uint64_t size, uint64_t address, uint32_t type,
		       uint64_t *ret_address, uint64_t *ret_size)
{
	for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
		struct ip_note_place place;
		Elf64_Nhdr note;
		uint64_t name = at + sizeof(note), desc, end;

		memcpy(&note, notes + at, sizeof(note));
		desc = name + (((uint64_t)note.n_namesz + 3) & ~3ull);
		end = desc + note.n_descsz;
		if (end > size)
			return false;
		if (note.n_type == type && note.n_namesz == sizeof(IP_NOTE_OWNER) &&
		    note.n_descsz == sizeof(place) &&
		    !memcmp(notes + name, IP_NOTE_OWNER, sizeof(IP_NOTE_OWNER))) {
			memcpy(&place, notes + desc, sizeof(place));
			*ret_address = address + desc + place.distance;
			*ret_size = place.size;
			return true;
		}
		at = (end + 3) & ~3ull;
	}
	return false;
}

static bool lies_in_data(const struct ip_elf_file *file, uint64_t address, uint64_t size)
{
	for (size_t i = 0; i < file->nloads; i++) {
		const struct ip_elf_segment *s = &file->loads[i];

		if (!(s->flags & PF_X) && address >= s->vaddr &&
		    lies_within(address - s->vaddr, size, s->memsz))
			return true;
	}
	return false;
}

int ip_elf_note_place(struct ip_elf_file *file, uint32_t type, uint64_t *ret_address,
		      uint64_t *ret_size)
{
	*ret_address = *ret_size = 0;
	for (size_t i = 0; i < file->ehdr.e_phnum; i++) {
		_cleanup_free_ uint8_t *notes = NULL;
		GElf_Phdr phdr;

		if (!gelf_getphdr(file->elf, (int)i, &phdr) || phdr.p_type != PT_NOTE ||
		    !phdr.p_filesz || phdr.p_filesz > NOTES_MAX)
			continue;
		notes = malloc(phdr.p_filesz);
		if (!notes)
			return ip_error("%s: out of memory", file->path);
		if (pread(file->fd, notes, phdr.p_filesz, phdr.p_offset) != (ssize_t)phdr.p_filesz)
			continue;
		if (find_place(notes, phdr.p_filesz, phdr.p_vaddr, type, ret_address, ret_size))
			break;
	}
	if (*ret_size && lies_in_data(file, *ret_address, *ret_size))
		return 1;
	*ret_address = *ret_size = 0;
	return 0;
}

char *ip_build_id_format(const uint8_t *id, size_t size, char *buffer)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		buffer[2 * i] = digits[id[i] >> 4];
		buffer[2 * i + 1] = digits[id[i] & 15];
	}
	buffer[2 * size] = '\0';
	return buffer;
}
