/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for probe lists. probe_list_search.h tells the order.
 */
#include "hotpatcher/process/probe_list_search.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "hotpatcher/process/target_files.h"

struct named {
	const char *path;
	bool directory;
	bool debug; /* a file: separate debug information that carries a list */
	bool used;
	uint8_t build_id[IP_BUILD_ID_MAX]; /* if it is a file */
	size_t build_id_size;
};

/* What the user named on the command line holds for the whole command. */
static struct named *all_named;
static size_t nnamed;

static bool is_elf(int fd)
{
	char magic[SELFMAG];

	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
	       !memcmp(magic, ELFMAG, sizeof(magic));
}

/* Loads a file that the user named: a list, or an ELF file that carries one. */
static int load_named(const char *path, bool *ret_debug, struct ip_probe_list **ret)
{
	uint64_t size;
	_cleanup_close_ int fd = ip_open_regular(path, &size);
	int found;

	if (fd < 0)
		return -1;
	*ret_debug = is_elf(fd);
	if (!*ret_debug)
		return ip_probe_list_load_fd(fd, path, ret);
	found = ip_probe_list_from_debug_file(fd, path, ret);
	if (!found)
		return ip_error("--list %s: has no probe list in it: name the file that strip or "
				"objcopy made of a program that iprobe-cc had linked",
				path);
	return found < 0 ? -1 : 0;
}

int ip_probe_list_search_add(const char *path)
{
	struct named n = {.path = path};
	struct ip_probe_list *list;
	struct stat st;

	if (stat(path, &st) < 0)
		return ip_error_errno("--list %s", path);
	n.directory = S_ISDIR(st.st_mode);
	if (!n.directory) {
		if (load_named(path, &n.debug, &list) < 0)
			return -1;
		n.build_id_size = list->header->build_id_size;
		memcpy(n.build_id, list->header->build_id, n.build_id_size);
		ip_probe_list_destroy(list);
	}
	if (ip_array_grow(&all_named, nnamed, sizeof(*all_named)) < 0)
		return -1;
	all_named[nnamed++] = n;
	return 0;
}

static bool is_for(const struct ip_probe_list *list, const struct ip_elf_file *elf)
{
	return list->header->build_id_size == elf->build_id_size &&
	       !memcmp(list->header->build_id, elf->build_id, elf->build_id_size);
}

/* Loads the list that the path leads to from the root (-1: our own): the file is a list, or with
 * debug, separate debug information that may carry one. 1; 0: there is none that we may read; -1
 * with an error. */
static int load(int root, const char *path, bool debug, struct ip_probe_list **ret)
{
	_cleanup_close_ int found = ip_find_in_root(root, path), fd = -1;
	char self[64];
	uint64_t size;

	if (found < 0 && (errno == ENOSYS || errno == EPERM))
		return ip_error_errno(
			"%s: cannot be looked up beneath the root of the process (openat2)", path);
	if (found < 0)
		return 0;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", found);
	if (ip_check_regular(found, path, &size) < 0)
		return debug ? 0 : -1; /* nothing of ours must lie at this path */
	if (ip_access(self, R_OK) < 0)
		return 0;
	fd = ip_reopen_regular(found, path, &size);
	if (fd < 0)
		return -1;
	if (debug)
		return ip_probe_list_from_debug_file(fd, path, ret);
	return ip_probe_list_load_fd(fd, path, ret) < 0 ? -1 : 1;
}

/* Loads one file, if it exists. 1; 0: there is none; -1 with an error: it cannot be read, or is the
 * list of another build. */
static int try_file(int root, const char *path, bool debug, const struct ip_elf_file *elf,
		    struct ip_probe_list **ret)
{
	char wants[2 * IP_BUILD_ID_MAX + 1], has[2 * IP_BUILD_ID_MAX + 1];
	int loaded = load(root, path, debug, ret);

	if (loaded <= 0)
		return loaded;
	if (is_for(*ret, elf))
		return 1;
	ip_build_id_format(elf->build_id, elf->build_id_size, wants);
	ip_build_id_format((*ret)->header->build_id, (*ret)->header->build_id_size, has);
	ip_probe_list_destroy(*ret);
	*ret = NULL;
	if (debug)
		return ip_error("%s: the probe list in %s is that of build-id %s, not %s: it "
				"is of another build, or the build-id was changed after the link "
				"(debugedit -i), see docs/package-builds.md",
				elf->path, path, has, wants);
	return ip_error("%s: its probe list %s belongs to another build (build-id %s, not %s): get "
			"the one that was made with it",
			elf->path, path, has, wants);
}

/* Looks for the list by build-id in a directory of a root. */
static int try_directory(int root, const char *directory, int length, const struct ip_elf_file *elf,
			 struct ip_probe_list **ret)
{
	_cleanup_free_ char *name = ip_probe_list_file_name(elf->build_id, elf->build_id_size),
			    *path = NULL, *flat = NULL, *separate = NULL;
	char id[2 * IP_BUILD_ID_MAX + 1];
	int found;

	if (!length)
		return 0;
	ip_build_id_format(elf->build_id, elf->build_id_size, id);
	if (!name || asprintf(&path, "%.*s/%s", length, directory, name) < 0)
		return ip_error("out of memory");
	found = try_file(root, path, false, elf, ret);
	if (found)
		return found;
	if (asprintf(&flat, "%.*s/%s.probes", length, directory, id) < 0)
		return ip_error("out of memory");
	found = try_file(root, flat, false, elf, ret);
	if (found)
		return found;
	if (asprintf(&separate, "%.*s/.build-id/%.2s/%s.debug", length, directory, id, id + 2) < 0)
		return ip_error("out of memory");
	return try_file(root, separate, true, elf, ret);
}

/* Looks in the separate debug information that the module names itself (.gnu_debuglink), where gdb
 * looks for it. */
static int try_debug_link(int root, const char *module, struct ip_elf_file *elf,
			  struct ip_probe_list **ret)
{
	static const char *const before[] = {"", "", "/usr/lib/debug"}, *const behind[] = {
										"", ".debug/", ""};
	const char *slash = strrchr(module, '/');
	int length = slash ? (int)(slash + 1 - module) : 0;
	const void *link;
	GElf_Shdr shdr;
	size_t size;
	int found = ip_elf_section(elf, ".gnu_debuglink", &shdr, &link, &size, NULL);

	if (found <= 0)
		return found;
	found = 0;
	if (!size || !memchr(link, '\0', size) || !*(const char *)link || strchr(link, '/'))
		return 0;
	for (int i = 0; !found && i < 3; i++) {
		_cleanup_free_ char *path = NULL;

		if (*before[i] && *module != '/')
			continue;
		if (asprintf(&path, "%s%.*s%s%s", before[i], length, module, behind[i],
			     (const char *)link) < 0) {
			path = NULL;
			return ip_error("out of memory");
		}
		found = try_file(root, path, true, elf, ret);
	}
	return found;
}

static bool is_named_for(const struct named *n, const struct ip_elf_file *elf)
{
	return n->build_id_size == elf->build_id_size &&
	       !memcmp(n->build_id, elf->build_id, n->build_id_size);
}

void ip_probe_list_search_not_needed(const struct ip_elf_file *elf)
{
	for (size_t i = 0; i < nnamed; i++)
		all_named[i].used |= is_named_for(&all_named[i], elf);
}

char *ip_probe_list_search_debug_path(size_t i, const uint8_t *build_id, size_t size)
{
	const char *path = getenv("IPROBE_LIST_PATH");
	char id[2 * IP_BUILD_ID_MAX + 1], *ret;
	int length = 0;

	if (size < 2 || size > IP_BUILD_ID_MAX)
		return NULL;
	ip_build_id_format(build_id, size, id);
	if (i < nnamed && !all_named[i].directory)
		return strdup(all_named[i].path);
	if (i < nnamed) {
		path = all_named[i].path;
		length = (int)strlen(path);
	} else {
		for (i -= nnamed; path; i--) {
			path += strspn(path, ":");
			length = (int)strcspn(path, ":");
			if (!i)
				break;
			path += length;
		}
	}
	if (!path || !length)
		return NULL;
	return asprintf(&ret, "%.*s/.build-id/%.2s/%s.debug", length, path, id, id + 2) < 0 ? NULL
											    : ret;
}

static int try_named(const struct ip_elf_file *elf, struct ip_probe_list **ret)
{
	for (size_t i = 0; i < nnamed; i++) {
		struct named *n = &all_named[i];
		int found = 0;

		if (n->directory)
			found = try_directory(-1, n->path, strlen(n->path), elf, ret);
		else if (is_named_for(n, elf))
			found = try_file(-1, n->path, n->debug, elf, ret);
		n->used |= found > 0;
		if (found)
			return found;
	}
	return 0;
}

/* Looks in colon-separated directories, of our root and of the process's. */
static int try_path(int root, const char *path, const struct ip_elf_file *elf,
		    struct ip_probe_list **ret)
{
	while (path && *path) {
		int length = strcspn(path, ":"), found = try_directory(-1, path, length, elf, ret);

		if (!found && root >= 0 && path[0] == '/')
			found = try_directory(root, path, length, elf, ret);
		if (found)
			return found;
		path += length + (path[length] == ':');
	}
	return 0;
}

int ip_probe_list_search_find(pid_t pid, const char *path, struct ip_elf_file *elf,
			      struct ip_probe_list **ret)
{
	_cleanup_free_ char *beside = NULL;
	_cleanup_close_ int root = -1;
	int found;

	*ret = NULL;
	if (!elf->build_id_size)
		return 0;
	if (pid)
		root = ip_target_root(pid);
	if (pid && root < 0)
		return ip_error_errno("pid %d: cannot open its root directory", pid);
	if (asprintf(&beside, "%s.probes", pid ? ip_target_path(pid, path) : path) < 0) {
		beside = NULL;
		return ip_error("out of memory");
	}
	found = try_named(elf, ret);
	if (!found)
		found = try_file(root, beside, false, elf, ret);
	if (!found)
		found = try_path(root, getenv("IPROBE_LIST_PATH"), elf, ret);
	if (!found)
		found = try_path(root, IP_PROBE_LIST_SEARCH_DEFAULT, elf, ret);
	return found ? found
		     : try_debug_link(root, pid ? ip_target_path(pid, path) : path, elf, ret);
}

int ip_probe_list_search_check_used(const char *what)
{
	char id[2 * IP_BUILD_ID_MAX + 1];

	for (size_t i = 0; i < nnamed; i++) {
		if (all_named[i].used || all_named[i].directory)
			continue;
		ip_build_id_format(all_named[i].build_id, all_named[i].build_id_size, id);
		return ip_error("%s: --list %s is the probe list of build-id %s, which none of the "
				"modules has",
				what, all_named[i].path, id);
	}
	return 0;
}
