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

/* A path may name what lies below /usr/lib/debug of this process's root, also where another root's
 * file has the path. */
static bool is_debug_path(const char *path)
{
	return !strncmp(path, DEBUG_DIR "/", strlen(DEBUG_DIR) + 1) && !strstr(path, "/..");
}

/* The path below the folder that has the file by its build-id: what is /usr/lib/debug/REST on a
 * machine where a package is installed is FOLDER/REST where it was unpacked. */
static char *below_folder_of(const char *file, const char *link)
{
	const char *by = NULL;
	char *path;

	for (const char *at = file; (at = strstr(at, "/.build-id/")); at++)
		by = at;
	if (!by || !is_debug_path(link))
		return NULL;
	return asprintf(&path, "%.*s%s", (int)(by - file), file, link + strlen(DEBUG_DIR)) < 0
		       ? NULL
		       : path;
}

/* The path in the directory of the file, which may have been named relative to our own. */
static char *near(const char *file, const char *link)
{
	const char *slash = strrchr(file, '/');
	char *path;

	return asprintf(&path, "%.*s%s", slash ? (int)(slash + 1 - file) : 0, file, link) < 0
		       ? NULL
		       : path;
}

static int try_shared_path(const struct ip_debug_file_search *search, const char *file,
			   const char *link, const unsigned char *id, int size, char **ret_name)
{
	const char *slash = strrchr(link, '/');
	const int from = search->file_root;
	int fd = try_file(from, below_folder_of(file, link), id, size, ret_name);

	if (fd < 0)
		fd = try_file(from, *link == '/' ? strdup(link) : near(file, link), id, size,
			      ret_name);
	if (fd < 0)
		fd = try_file(from, near(file, slash ? slash + 1 : link), id, size, ret_name);
	if (fd < 0 && from != -1 && is_debug_path(link))
		fd = try_file(-1, strdup(link), id, size, ret_name);
	if (fd < 0 && from != search->root && is_debug_path(link))
		fd = try_file(search->root, strdup(link), id, size, ret_name);
	return fd;
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

static int find_by_id(const struct ip_debug_file_search *search, const unsigned char *id, int size,
		      char **ret_name, int *ret_root)
{
	int fd = find_named(search, id, size, ret_name);

	*ret_root = -1;
	if (fd < 0)
		fd = try_file(-1, by_id(id, size), id, size, ret_name);
	if (fd < 0 && search && search->root >= 0) {
		*ret_root = search->root;
		fd = try_file(search->root, by_id(id, size), id, size, ret_name);
	}
	return fd;
}

/* Finds the file of shared debug information that the debug information of the module names. The
 * link is a path: absolute, or relative to the directory of the file that contains it. */
static int find_shared(Dwfl_Module *module, struct ip_debug_file_search *search, const char *file,
		       const char *link, char **ret_name)
{
	const char *name;
	const void *id;
	Dwarf_Addr bias;
	Dwarf *dwarf;
	ssize_t size;
	int fd, root;

	/* a name of a separate file that looks like a link: libdwfl asks again */
	if (search->asked)
		return -1;
	search->asked = true;
	dwarf = dwfl_module_getdwarf(module, &bias);
	search->asked = false;
	size = dwarf ? dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id) : -1;
	if (size < 2 || size > 64 || strcmp(name, link))
		return -1;
	fd = try_shared_path(search, file, link, id, (int)size, ret_name);
	if (fd < 0)
		fd = find_by_id(search, id, (int)size, ret_name, &root);
	search->found_shared |= fd >= 0;
	return fd;
}

static int find(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
		const char *file, const char *link, GElf_Word crc, char **ret_name)
{
	struct ip_debug_file_search *search = data ? *data : NULL;
	int root = search ? search->root : -1, size, fd, found_in;
	const unsigned char *id;
	GElf_Addr address;

	(void)name, (void)base;
	/* libdwfl has a checksum for the name of a separate file, and none for a shared one */
	if (link && (strchr(link, '/') || !crc))
		return file && search ? find_shared(module, search, file, link, ret_name) : -1;
	size = dwfl_module_build_id(module, &id, &address);
	if (size < 2)
		return -1;
	fd = find_by_id(search, id, size, ret_name, &found_in);
	if (fd < 0)
		found_in = root;
	for (int i = 0; fd < 0 && i < 3 && link && *link && file; i++)
		fd = try_file(root, beside(file, link, i), id, size, ret_name);
	if (search)
		search->file_root = found_in;
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

	search->file_root = search->root;
	if (dwfl_module_info(module, &data, NULL, NULL, NULL, NULL, NULL, NULL))
		*data = search;
}

const char *ip_debug_file_lacks_shared(Dwarf *dwarf, const struct ip_debug_file_search *search)
{
	const char *name = NULL;
	const void *id;
	ssize_t size = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id);

	if (search->found_shared || size == 0)
		return NULL;
	return size > 0 && name && *name ? name : "that a damaged .gnu_debugaltlink names";
}
