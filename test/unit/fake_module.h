/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module for a fake target (fake_target.h): an ELF file whose text holds idle sites, with their
 * probe list in it. The file is a real one, since modules are opened by their path.
 *
 *   link-time address   what lies there
 *   0                   headers and build-id
 *   FAKE_TEXT           text: NOPs, and the sites where the recipe has them
 *   behind the text     a page of data; behind that, room for stubs, which the file does not hold
 */
#ifndef TEST_FAKE_MODULE_H
#define TEST_FAKE_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "common/elf/probe_list.h"

#define FAKE_PAGE 0x1000ull
#define FAKE_TEXT FAKE_PAGE

struct fake_probe {
	const char *function, *file; /* file: NULL: unknown */
	uint64_t address;	     /* of the function; 0: unknown */
	uint64_t offset;	     /* of the site */
	uint8_t kind, form, regs, flags;
	uint8_t length; /* 0: 5 bytes */
	uint32_t frame;
};

struct fake_recipe {
	const char *build_id; /* text, its bytes are the id */
	const char *list_id;  /* that of the probe list; NULL: the same */
	const struct fake_probe *probes;
	size_t nprobes;	     /* 0: the module has no probe list */
	uint64_t text_pages; /* 0: one */
	uint64_t room_pages; /* of room for stubs */
};

struct fake_module {
	char path[64];
	uint64_t inode;
	uint64_t text_size, room_size;
	uint8_t *bytes; /* what the file holds up to the end of the data; malloc'ed */
	size_t size;
};

/* Makes the file. fake_module_remove() removes it. */
struct fake_module fake_module_make(const struct fake_recipe *recipe);
void fake_module_remove(struct fake_module *module);

/* Writes another file to the path: another inode, another build. */
void fake_module_replace(struct fake_module *module, const struct fake_recipe *recipe);

/* Link-time addresses of the data and of the room. */
static inline uint64_t fake_module_data(const struct fake_module *module)
{
	return FAKE_TEXT + module->text_size;
}

static inline uint64_t fake_module_room(const struct fake_module *module)
{
	return fake_module_data(module) + FAKE_PAGE;
}

#endif
