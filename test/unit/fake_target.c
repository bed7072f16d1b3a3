/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes targets without a process. See fake_target.h.
 */
#include "test/unit/fake_target.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* the whole lower half of the address space */
#define MEMORY_SIZE (1ll << 47)

static void must(int holds)
{
	if (!holds)
		abort();
}

struct ip_target *fake_target_open(void)
{
	struct ip_target *target = calloc(1, sizeof(*target));

	must(target != NULL);
	target->pid = target->inner_pid = FAKE_NO_PID;
	target->arch = &ip_arch_x86_64;
	target->pidfd = -1;
	target->exit_status = -1;
	target->mem = memfd_create("fake target", MFD_CLOEXEC);
	must(target->mem >= 0 && ftruncate(target->mem, MEMORY_SIZE) == 0);
	return target;
}

void fake_target_lose_memory(struct ip_target *target)
{
	must(ftruncate(target->mem, 0) == 0);
}

void fake_target_map(struct ip_target *target, uint64_t start, uint64_t size, const char *perms,
		     const char *path, uint64_t inode, uint64_t offset)
{
	struct ip_maps *maps = &target->maps;
	size_t at = 0;

	maps->items = realloc(maps->items, (maps->n + 1) * sizeof(*maps->items));
	must(maps->items != NULL);
	while (at < maps->n && maps->items[at].start < start)
		at++;
	memmove(maps->items + at + 1, maps->items + at, (maps->n - at) * sizeof(*maps->items));
	maps->items[at] = (struct ip_mapping){.start = start,
					      .end = start + size,
					      .offset = offset,
					      .inode = inode,
					      .path = strdup(path)};
	snprintf(maps->items[at].perms, sizeof(maps->items[at].perms), "%s", perms);
	maps->n++;
}

void fake_target_unmap(struct ip_target *target, uint64_t start, uint64_t end)
{
	struct ip_maps *maps = &target->maps;
	size_t kept = 0;

	for (size_t i = 0; i < maps->n; i++) {
		const struct ip_mapping *m = &maps->items[i];

		if (m->start < start || m->start >= end) {
			maps->items[kept++] = *m;
			continue;
		}
		must(fallocate(target->mem, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       (off_t)m->start, (off_t)(m->end - m->start)) == 0);
		free(m->path);
	}
	maps->n = kept;
}

void fake_target_map_module(struct ip_target *target, const struct fake_module *module,
			    uint64_t start)
{
	uint64_t data = fake_module_data(module);

	fake_target_map(target, start, FAKE_PAGE, "r--p", module->path, module->inode, 0);
	fake_target_map(target, start + FAKE_TEXT, module->text_size, "r-xp", module->path,
			module->inode, FAKE_TEXT);
	fake_target_map(target, start + data, FAKE_PAGE, "rw-p", module->path, module->inode, data);
	if (module->room_size)
		fake_target_map(target, start + fake_module_room(module), module->room_size, "r-xp",
				"", 0, 0);
}

void fake_target_load(struct ip_target *target, const struct fake_module *module, uint64_t start)
{
	fake_target_map_module(target, module, start);
	must(pwrite(target->mem, module->bytes, module->size, (off_t)start) ==
	     (ssize_t)module->size);
}

void fake_target_unload(struct ip_target *target, const struct fake_module *module, uint64_t start)
{
	fake_target_unmap(target, start, start + fake_module_room(module) + module->room_size);
}

void fake_target_set_runtime(struct ip_target *target, uint64_t hooks, uint64_t pool,
			     uint64_t pool_size)
{
	struct ip_rt_anchor *a = &target->anchor;
	unsigned n = 0;

	*a = (struct ip_rt_anchor){.magic = IP_RT_MAGIC, .abi = IP_RT_ABI, .area_fd = -1};
	for (unsigned kind = 0; kind < IP_HOOK_KINDS; kind++) {
		for (unsigned regs = 0; regs < IP_HOOK_REGS; regs++)
			a->hooks[kind][regs] = hooks + 16 * n++;
		a->jump_hooks[kind] = hooks + 16 * n++;
		for (unsigned jump = 0; jump < 2; jump++)
			a->payload_hooks[kind][jump] = hooks + 16 * n++;
	}
	for (unsigned values = 0; values < 2; values++)
		a->return_hooks[values] = hooks + 16 * n++;
	a->tail_hook = hooks + 16 * n++;
	a->plt_hook = hooks + 16 * n++;
	a->pools[IP_POOL_EXECUTABLE].address = pool;
	a->pools[IP_POOL_EXECUTABLE].size = pool_size;
	target->has_runtime = true;
}

uint8_t fake_target_byte(const struct ip_target *target, uint64_t address)
{
	uint8_t byte;

	must(pread(target->mem, &byte, 1, (off_t)address) == 1);
	return byte;
}
