/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules of a live process: which ELF files are mapped where, and their probe lists.
 *
 * Files are opened so that what we read is what is mapped: through map_files where we may, else
 * through /proc/PID/root with device and inode compared (namespaces, chroots). In any case the
 * build-id in memory must be the file's.
 */
#ifndef IP_MODULES_H
#define IP_MODULES_H

#include "common/elf_file.h"
#include "common/probe_list.h"
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
	struct ip_elf_file *elf;    /* NULL where the file cannot be had; see problem */
	struct ip_probe_list *list; /* NULL: not prepared, or problem */
	struct ip_jump *jumps;	    /* by probe of the list; tails.c's */
	char *problem; /* why it cannot be patched although it might have probes; NULL: nothing */
	bool runtime;
	bool may_go; /* it can be unloaded (modules_needed.h) */
	bool fresh;  /* opened by the last load */
	size_t old;  /* private: index + 1 of the module that files were taken over from */
	uint64_t room, room_size; /* for stubs, in memory: brought along and executable; 0: none */
};

struct ip_modules {
	struct ip_module *items;
	size_t n;
};

/* All file-backed modules with executable mappings, by address. -1 only where the process cannot
 * be read at all. */
int ip_modules_load(struct ip_target *target, struct ip_modules *ret);

/* The same where old tells what was mapped earlier: files that are mapped still, with the same
 * build-id in memory, are taken over, not opened again (they may be gone from the disk); the
 * others are fresh. On success old has files and lists of those only that are gone; on failure
 * it is as it was. */
int ip_modules_reload(struct ip_target *target, struct ip_modules *old, struct ip_modules *ret);

void ip_modules_clear(struct ip_modules *modules);

/* The build-id of what is mapped at start, in memory; its size, 0: none. ret: IP_BUILD_ID_MAX
 * bytes. */
size_t ip_modules_build_id_at(const struct ip_target *target, uint64_t start, uint64_t load_bias,
			      uint8_t *ret);

/* The room for stubs that the module brings along, executable or not. */
bool ip_module_room(const struct ip_module *module, struct ip_stub_room *ret);

/* Looks anew which rooms for stubs are executable: the runtime makes them so when it is set up. 0,
 * or -1 with an error. */
int ip_modules_find_rooms(struct ip_target *target, struct ip_modules *modules);

/* Whether the module is still mapped where it was, by the maps read last. */
bool ip_module_is_mapped(const struct ip_target *target, const struct ip_module *module);

/* Error text for a process none of whose modules has probes: the first problem, or that it was not
 * prepared.
 */
int ip_modules_no_probes(const struct ip_target *target, const struct ip_modules *modules);

#endif
