// SPDX-License-Identifier: Apache-2.0
/*
 * The ELF reader: opens any bytes as a file, and as separate debug information, and asks for all
 * that it can be asked for. The same of the PLT.
 *
 * covers: common/elf/elf_file.c common/elf/elf_symbols.c
 */
#include "common/elf/eh_frame_hdr.h"
#include "common/elf/elf_file.h"
#include "common/elf/elf_symbols.h"
#include "fuzz.h"
#include "hotpatcher/process/plt.h"

static volatile unsigned sum;

static void see(void *context, const GElf_Sym *symbol)
{
	size_t *n = context;

	++*n;
	sum += symbol->st_value;
}

static void ask(struct ip_elf_file *file, size_t size)
{
	static const char *const names[] = {".text",	      ".bss",	   ".dynsym", ".symtab",
					    ".iprobe.probes", ".shstrtab", ".none"};
	struct ip_eh_frame_hdr hdr;
	char id[65];
	uint64_t value;
	size_t symbols = 0;

	fuzz_assert(file->debug ? !file->nloads : file->nloads > 0);
	for (size_t i = 0; i < file->nloads; i++) {
		fuzz_assert(file->loads[i].offset <= size &&
			    file->loads[i].filesz <= size - file->loads[i].offset);
		fuzz_assert(file->loads[i].filesz <= file->loads[i].memsz);
	}
	fuzz_assert(file->build_id_size <= sizeof(file->build_id));
	ip_build_id_format(file->build_id, file->build_id_size, id);
	fuzz_assert(strlen(id) == 2 * file->build_id_size);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		GElf_Shdr shdr;
		const void *data;
		size_t n, index;
		int r = ip_elf_section(file, names[i], &shdr, &data, &n, &index);

		if (r < 0)
			fuzz_check_error();
		for (size_t k = 0; r > 0 && k < n; k++)
			sum += ((const uint8_t *)data)[k];
	}
	if (ip_eh_frame_hdr_read(file, &hdr) < 0)
		fuzz_check_error();
	fuzz_assert(hdr.n <= size / 8);
	for (size_t i = 0; i < hdr.n; i++)
		sum += ip_eh_frame_hdr_find(&hdr, hdr.address + hdr.starts[i]);
	ip_eh_frame_hdr_clear(&hdr);
	if (ip_elf_symbol(file, "answer", &value) < 0)
		fuzz_check_error();
	if (ip_elf_symbol(file, "", &value) < 0)
		fuzz_check_error();
	/* of two tables, which may be the same bytes */
	fuzz_assert(ip_elf_each_symbol(file, see, &symbols) == 0);
	fuzz_assert(symbols <= 2 * (size / sizeof(Elf32_Sym)));
	for (uint32_t type = 1; type <= 2; type++) {
		uint64_t place, room;

		fuzz_assert(ip_elf_note_place(file, type, &place, &room) >= 0);
		fuzz_assert(place + room >= place);
	}
}

static void ask_plt(const struct ip_elf_file *file)
{
	struct ip_plt plt;

	fuzz_assert(ip_plt_find(file, &plt) == 0);
	for (size_t i = 0; i < plt.n; i++) {
		fuzz_assert(i == 0 || plt.items[i].site >= plt.items[i - 1].site);
		fuzz_assert(*plt.items[i].symbol);
		fuzz_assert(plt.items[i].slot - plt.items[i].site + (1ull << 32) < 1ull << 33);
	}
	ip_plt_clear(&plt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ip_elf_file *file;
	char path[64];
	uint8_t id[32];
	int fd = fuzz_file(data, size);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (ip_elf_open(path, &file) < 0) {
		fuzz_check_error();
	} else {
		ask(file, size);
		ask_plt(file);
		ip_elf_close(file);
	}
	if (ip_elf_open_debug_fd(fd, path, &file) < 0) {
		fuzz_check_error();
	} else {
		ask(file, size);
		ip_elf_close(file);
	}
	fuzz_assert(ip_elf_build_id_in_notes(data, size, id) <= sizeof(id));
	return 0;
}
