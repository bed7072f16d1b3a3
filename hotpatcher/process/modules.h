/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules of a live process: which ELF files are mapped where, and their probe lists.
 *
 * Files are opened so that what we read is what is mapped: through map_files or exe in /proc/PID
 * where we may, else by their path through /proc/PID/root (namespaces, chroots), where the inode is
 * compared. In any case the build-id in memory must be the file's.
 */
#ifndef IP_MODULES_H
#define IP_MODULES_H

#include "common/elf/elf_file.h"
#include "common/elf/probe_list.h"
#include "hotpatcher/process/target.h"

/* Where the jump behind a tail exit leads (tails.h), as far as that will never change. */
struct ip_jump {
	enum { IP_JUMP_UNKNOWN, IP_JUMP_NOWHERE, IP_JUMP_FOUND } state;
	uint32_t module, function; /* module: index into the modules */
};

struct ip_module {
	char *path;
	uint64_t start, end; /* of all its mappings */
	uint64_t load_bias;
	bool deleted;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	struct ip_elf_file *elf;    /* NULL: the file cannot be opened; see problem */
	struct ip_probe_list *list; /* NULL: not prepared, or problem */
	struct ip_jump *jumps;	    /* by probe of the list; used by tails.c */
	char *problem; /* why it cannot be patched although it may have probes; NULL: no problem */
	bool runtime;
	bool plt;    /* the functions of its PLT stand behind those that the list had (plt.h) */
	bool may_go; /* it can be unloaded (modules_needed.h) */
	bool fresh;  /* opened by the last load */
	size_t old;  /* private: index + 1 of the old module whose files were taken over */
	uint64_t room, room_size; /* room for stubs that the module has, executable; 0: none */
};

struct ip_modules {
	struct ip_module *items;
	size_t n;
};

/* Finds all file-backed modules with executable mappings, by address, in the maps that were read
 * last. The caller clears *ret. -1 only if memory ran out: what is wrong with a single module is
 * kept in its problem. */
int ip_modules_load(struct ip_target *target, struct ip_modules *ret);

/* As ip_modules_load(), where old tells what was mapped earlier. Modules that are still mapped,
 * with the same build-id in memory, take over the open files and lists of old: their files may be
 * gone from the disk. The files of the others are opened: these modules are fresh. On success old
 * keeps the files and lists of those modules only that are gone. On failure old is as it was. */
int ip_modules_reload(struct ip_target *target, struct ip_modules *old, struct ip_modules *ret);

void ip_modules_clear(struct ip_modules *modules);

/* The build-id, in memory, of what is mapped at start. Returns its size in bytes; 0: it has none.
 * ret: IP_BUILD_ID_MAX bytes. */
size_t ip_modules_build_id_at(const struct ip_target *target, uint64_t start, uint64_t load_bias,
			      uint8_t *ret);

/* The room for stubs that the module brings along, executable or not. False: it brings none. */
bool ip_module_room(const struct ip_module *module, struct ip_stub_room *ret);

/* Looks anew which rooms for stubs are executable: the runtime makes them so when it is set up. 0,
 * or -1 with an error. */
int ip_modules_find_rooms(struct ip_target *target, struct ip_modules *modules);

/* Whether the module is still mapped where it was, by the maps that were read last. */
bool ip_module_is_mapped(const struct ip_target *target, const struct ip_module *module);

/* Whether iprobe-cc has compiled the module, and coldpatch has still to make its probes. */
bool ip_module_is_to_be_made(const struct ip_module *module);

/* Sets the error for a process none of whose modules has probes: the first problem, a list that the
 * user named and that fits no module, a module whose list is missing or is still to be made, or
 * that the process was not built with iprobe-cc. Returns -1. */
int ip_modules_no_probes(const struct ip_target *target, const struct ip_modules *modules);

#endif
