// SPDX-License-Identifier: Apache-2.0
/*
 * Asks gcc for its parts. See compiler_parts.h.
 */
#include "coldpatch/cc/compiler_parts.h"

#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coldpatch/cc/real_compiler.h"
#include "common/cleanup.h"

#define MOST_WORDS 64

static bool is_gcc(char *const *real)
{
	for (size_t i = 0; real[i]; i++) {
		_cleanup_free_ char *path = realpath(real[i], NULL);
		const char *base = strrchr(path ? path : real[i], '/');

		base = base ? base + 1 : path ? path : real[i];
		if (real[i][0] != '-' && (strstr(base, "gcc") || strstr(base, "g++")))
			return true;
	}
	return false;
}

char *compiler_part(const struct command_line *line, char *const *real, const char *question)
{
	char *argv[MOST_WORDS];
	size_t n = 0;

	if (!is_gcc(real))
		return NULL;
	for (size_t i = 0; real[i] && n < MOST_WORDS / 4; i++)
		argv[n++] = real[i];
	for (size_t i = 1; line->expanded[i] && n < MOST_WORDS - 4; i++) {
		const char *a = line->expanded[i];

		if (strncmp(a, "-B", 2) && strncmp(a, "--prefix", 8))
			continue;
		argv[n++] = line->expanded[i];
		if ((!strcmp(a, "-B") || !strcmp(a, "--prefix")) && line->expanded[i + 1])
			argv[n++] = line->expanded[++i];
	}
	argv[n++] = (char *)question;
	argv[n] = NULL;
	return real_compiler_ask(argv);
}

/* What the plugin takes from cc1. */
static const char *const wanted[] = {"_Z8find_optPKcj",	  "_Z15option_flag_variP11gcc_options",
				     "cl_options_count",  "global_options",
				     "plugin_event_name", "register_callback"};
#define NWANTED (sizeof(wanted) / sizeof(*wanted))

static size_t count_wanted(Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t found = 0;
	GElf_Sym symbol;

	for (int i = 0; data && gelf_getsym(data, i, &symbol) && found < NWANTED; i++) {
		const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);

		for (size_t k = 0; name && symbol.st_shndx != SHN_UNDEF && k < NWANTED; k++)
			found += !strcmp(name, wanted[k]);
	}
	return found;
}

/* A gcc without plugins does not export its symbols. */
static bool exports_wanted(const char *program)
{
	_cleanup_close_ int fd = open(program, O_RDONLY | O_CLOEXEC);
	Elf *elf = fd >= 0 && elf_version(EV_CURRENT) != EV_NONE
			   ? elf_begin(fd, ELF_C_READ_MMAP, NULL)
			   : NULL;
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	bool all = false;

	while (elf && (section = elf_nextscn(elf, section)) && gelf_getshdr(section, &header))
		if (header.sh_type == SHT_DYNSYM)
			all = count_wanted(elf, section, &header) == NWANTED;
	elf_end(elf);
	return all;
}

bool compiler_takes_plugins(const struct command_line *line, char *const *real)
{
	_cleanup_free_ char *program = NULL;

	for (size_t i = 1; line->expanded[i]; i++)
		if (!strncmp(line->expanded[i], "-fplugin", 8) ||
		    !strncmp(line->expanded[i], "-iplugindir", 11))
			return false;
	program = compiler_part(line, real, "-print-prog-name=cc1");
	return program && strchr(program, '/') && exports_wanted(program);
}
