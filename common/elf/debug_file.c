/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdwfl's callback that finds debug information. See debug_file.h.
 */
#include "common/elf/debug_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"

#define DEBUG_DIR "/usr/lib/debug"

/* No main file is searched for: the caller passes it as a descriptor. */
static int find_no_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
		       char **ret_name, Elf **ret_elf)
{
	return -1;
}

static int open_file(int root, const char *path)
{
	_cleanup_close_ int found = ip_find_in_root(root, path);
	uint64_t size;

	return found < 0 ? -1 : ip_reopen_regular(found, path, &size);
}

static bool has_build_id(int fd, const unsigned char *id, int size)
{
	const void *has = NULL;
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	bool same = elf && dwelf_elf_gnu_build_id(elf, &has) == size && !memcmp(has, id, size);

	elf_end(elf);
	return same;
}

/* ret_name: malloc'ed; the name that libdwfl uses for the file. */
static int try_file(int root, char *path, const unsigned char *id, int size, char **ret_name)
{
	_cleanup_free_ char *name = path;
	_cleanup_close_ int fd = name ? open_file(root, name) : -1;

	if (fd < 0 || (size && !has_build_id(fd, id, size)))
		return -1;
	*ret_name = ip_steal_ptr(name);
	return ip_steal_fd(&fd);
}

static char *by_id(const unsigned char *id, int size)
{
	char hex[2 * 64 + 1], *path;

	if (size < 2 || size > 64)
		return NULL;
	for (int i = 0; i < size; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	return asprintf(&path, DEBUG_DIR "/.build-id/%.2s/%s.debug", hex, hex + 2) < 0 ? NULL
										       : path;
}

/* The n-th place for a debug link of the file. */
static char *beside(const char *file, const char *link, int n)
{
	static const char *const before[] = {"", "", DEBUG_DIR}, *const behind[] = {"", ".debug/",
										    ""};
	const char *slash = strrchr(file, '/');
	char *path;

	if (!slash || *file != '/')
		return NULL;
	return asprintf(&path, "%s%.*s%s%s", before[n], (int)(slash + 1 - file), file, behind[n],
			link) < 0
		       ? NULL
		       : path;
}

/* Finds the file of shared debug information. The link is a path: absolute, or relative to the
 * directory of the file that contains it. */
static int find_shared(int root, const char *file, const char *link, char **ret_name)
{
	return try_file(root, *link == '/' ? strdup(link) : beside(file, link, 0), NULL, 0,
			ret_name);
}

static int find_named(const struct ip_debug_file_search *search, const unsigned char *id, int size,
		      char **ret_name)
{
	int fd = -1;

	for (size_t i = 0; fd < 0 && search && search->named; i++) {
		char *path = search->named(i, id, (size_t)size);

		if (!path)
			break;
		fd = try_file(-1, path, id, size, ret_name);
	}
	return fd;
}

static int find(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
		const char *file, const char *link, GElf_Word crc, char **ret_name)
{
	struct ip_debug_file_search *search = data ? *data : NULL;
	int root = search ? search->root : -1, size, fd;
	const unsigned char *id;
	GElf_Addr address;

	(void)name, (void)base, (void)crc;
	if (link && strchr(link, '/')) {
		fd = file ? find_shared(root, file, link, ret_name) : -1;
		if (search && fd >= 0)
			search->found_shared = true;
		return fd;
	}
	size = dwfl_module_build_id(module, &id, &address);
	if (size < 2)
		return -1;
	fd = find_named(search, id, size, ret_name);
	if (fd < 0)
		fd = try_file(-1, by_id(id, size), id, size, ret_name);
	if (fd < 0 && root >= 0)
		fd = try_file(root, by_id(id, size), id, size, ret_name);
	for (int i = 0; fd < 0 && i < 3 && link && *link && file; i++)
		fd = try_file(root, beside(file, link, i), id, size, ret_name);
	return fd;
}

const Dwfl_Callbacks ip_debug_file_callbacks = {
	.find_elf = find_no_elf,
	.find_debuginfo = find,
	.section_address = dwfl_offline_section_address,
};

void ip_debug_file_set_search(Dwfl_Module *module, struct ip_debug_file_search *search)
{
	void **data;

	if (dwfl_module_info(module, &data, NULL, NULL, NULL, NULL, NULL, NULL))
		*data = search;
}

bool ip_debug_file_lacks_shared(Dwarf *dwarf, const struct ip_debug_file_search *search)
{
	const char *name;
	const void *id;

	return dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id) != 0 && !search->found_shared;
}
