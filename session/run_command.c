/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at a command before it is launched. See run_command.h.
 */
#include "session/run_command.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arch/arch.h"
#include "common/cleanup.h"
#include "common/elf/elf_file.h"
#include "common/error.h"
#include "common/file.h"
#include "hotpatcher/process/anchor.h"
#include "hotpatcher/process/target.h"

/* Finds the file that execvp would execute. The caller frees the path. NULL: there is none; execvp
 * will report that. */
static char *find_command(const char *name)
{
	const char *path = getenv("PATH");
	char *found;

	if (strchr(name, '/'))
		return strdup(name);
	for (path = path ? path : "/bin:/usr/bin"; *path; path += *path == ':') {
		size_t length = strcspn(path, ":");

		if (asprintf(&found, "%.*s%s%s", (int)length, path, length ? "/" : "./", name) < 0)
			return NULL;
		if (ip_access(found, X_OK) == 0)
			return found;
		free(found);
		path += length;
	}
	return NULL;
}

/* Finds, among the libraries that the file needs, the library that gives up unless it is the first
 * of all. The caller frees the name. NULL: there is none. */
static char *insists_on_first(struct ip_elf_file *elf)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(elf->elf, scn))) {
		Elf_Data *data;
		GElf_Dyn dyn;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_DYNAMIC)
			continue;
		data = elf_getdata(scn, NULL);
		for (int i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
			const char *name =
				dyn.d_tag == DT_NEEDED
					? elf_strptr(elf->elf, shdr.sh_link, dyn.d_un.d_val)
					: NULL;

			if (name && !strncmp(name, "libasan.so", 10) && !strpbrk(name, ": "))
				return strdup(name);
		}
	}
	return NULL;
}

/* Checks whether the command can be recorded. *ret_first: see insists_on_first(). 0, or -1 with an
 * error. */
static int check(const char *name, unsigned *ret_bits, char **ret_first)
{
	_cleanup_free_ char *path = find_command(name);
	uint64_t anchor, size;
	_cleanup_close_ int fd = path ? ip_open_regular(path, &size) : -1;
	struct ip_elf_file *elf;
	char magic[SELFMAG];
	bool serves = false;
	size_t n;

	*ret_bits = 64;
	*ret_first = NULL;
	if (fd < 0 || pread(fd, magic, SELFMAG, 0) != SELFMAG || memcmp(magic, ELFMAG, SELFMAG))
		return 0;
	if (ip_elf_open_fd(fd, path, &elf) < 0)
		return -1;
	if (elf_getphdrnum(elf->elf, &n) == 0)
		for (size_t i = 0; i < n; i++) {
			GElf_Phdr phdr;

			serves |= gelf_getphdr(elf->elf, i, &phdr) && phdr.p_type == PT_INTERP;
		}
	serves = serves || ip_elf_linked_runtime(elf, &anchor) > 0;
	*ret_bits = ip_arch_for_machine(elf->ehdr.e_machine)->bits;
	*ret_first = insists_on_first(elf);
	ip_elf_close(elf);
	return serves ? 0
		      : ip_error("%s is statically linked and has no runtime in it: link it with "
				 "iprobe-cc -static, or dynamically",
				 path);
}

/* Path of the runtime for programs of that many bits; the caller frees it. NULL with an error. */
static char *runtime_for(const char *runtime, unsigned bits)
{
	const char *base = strrchr(runtime, '/');
	int folder = base ? (int)(base + 1 - runtime) : 0;
	char *path;

	if (bits == 64)
		path = strdup(runtime);
	else if (asprintf(&path, "%.*s32/%s", folder, runtime, runtime + folder) < 0)
		path = NULL;
	if (!path) {
		ip_error("out of memory");
		return NULL;
	}
	if (bits == 32 && ip_access(path, R_OK) < 0) {
		ip_error("this iprobe has no runtime for 32-bit programs (%s): build it where cc "
			 "-m32 works (Debian: gcc-multilib)",
			 path);
		free(path);
		return NULL;
	}
	return path;
}

int ip_command_prepare(const char *name, const char *runtime, char **ret_preload)
{
	_cleanup_free_ char *first = NULL, *ours = NULL;
	unsigned bits;

	if (check(name, &bits, &first) < 0)
		return -1;
	ours = runtime_for(runtime, bits);
	if (!ours)
		return -1;
	if (asprintf(ret_preload, "%s%s%s", first ? first : "", first ? ":" : "", ours) < 0) {
		*ret_preload = NULL;
		return ip_error("out of memory");
	}
	return 0;
}
