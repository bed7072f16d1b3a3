// SPDX-License-Identifier: Apache-2.0
/*
 * Reading probe lists. check_list() checks everything once, on a private copy. So the accessors,
 * and all code that walks the tables afterwards, need no checks.
 */
#include "common/elf/probe_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch/arch.h"
#include "common/cleanup.h"
#include "common/elf/elf_file.h"
#include "common/error.h"
#include "common/file.h"

#define LIST_MAX (1ull << 30) /* 1 GiB: some 30 million probes */

_Static_assert(sizeof(struct ip_pl_header) == 128 && sizeof(struct ip_pl_function) == 24 &&
		       sizeof(struct ip_pl_probe) == 32,
	       "probe list format");

const char *ip_placement_name(uint32_t placement)
{
	switch (placement) {
	case IP_PLACEMENT_INSTRUMENT:
		return "instrument";
	case IP_PLACEMENT_FENTRY:
		return "fentry";
	case IP_PLACEMENT_INLINE:
		return "inline";
	}
	return "?";
}

const char *ip_probe_kind_name(uint32_t kind)
{
	switch (kind) {
	case IP_PROBE_ENTRY:
		return "entry";
	case IP_PROBE_EXIT:
		return "exit";
	case IP_PROBE_TAIL_EXIT:
		return "tail-exit";
	case IP_PROBE_POINT:
		return "point";
	}
	return "?";
}

static bool all_zero(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i])
			return false;
	return true;
}

/* at: offset within the block at which something is wrong */
#define BAD(at, ...) bad_list((unsigned long long)(at), __VA_ARGS__)

static int __attribute__((format(printf, 2, 3)))
bad_list(unsigned long long at, const char *format, ...)
{
	char what[256];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return ip_error("corrupt probe list: byte %llu: %s; build the module again", at, what);
}

static int check_header(const struct ip_pl_header *h)
{
#define AT(field) offsetof(struct ip_pl_header, field)
	if (memcmp(h->magic, IP_PL_MAGIC, sizeof(h->magic)) != 0)
		return ip_error("not a probe list: it does not begin with '%s'", IP_PL_MAGIC);
	if (h->version < IP_PL_OLDEST_VERSION || h->version > IP_PL_VERSION)
		return ip_error("probe list of version %u; this iprobe reads versions %u to %u",
				h->version, IP_PL_OLDEST_VERSION, IP_PL_VERSION);
	if (h->header_size != sizeof(*h))
		return BAD(AT(header_size), "header of %u bytes instead of %zu", h->header_size,
			   sizeof(*h));
	if (!ip_arch_for_machine(h->machine))
		return BAD(AT(machine), "unknown machine %u", h->machine);
	if (h->placement < IP_PLACEMENT_INSTRUMENT || h->placement > IP_PLACEMENT_INLINE)
		return BAD(AT(placement), "unknown placement %u", h->placement);
	if (h->build_id_size < 1 || h->build_id_size > IP_BUILD_ID_MAX)
		return BAD(AT(build_id_size), "build-id of %u bytes", h->build_id_size);
	if (!all_zero(h->build_id + h->build_id_size, IP_BUILD_ID_MAX - h->build_id_size))
		return BAD(AT(build_id), "build-id longer than its size");
	if (h->stub_area_offset + h->stub_area_size < h->stub_area_offset ||
	    !h->stub_area_offset != !h->stub_area_size)
		return BAD(AT(stub_area_size), "room for stubs of %llu bytes at 0x%llx",
			   (unsigned long long)h->stub_area_size,
			   (unsigned long long)h->stub_area_offset);
	return 0;
#undef AT
}

/* The tables follow each other without gaps up to the end of the block. */
static int check_layout(const struct ip_pl_header *h, size_t size)
{
#define AT(field) offsetof(struct ip_pl_header, field)
	/* 32-bit counts of records: no sum here can overflow 64 bits. */
	uint64_t functions_end =
		sizeof(*h) + (uint64_t)h->nfunctions * sizeof(struct ip_pl_function);
	uint64_t probes_end = functions_end + (uint64_t)h->nprobes * sizeof(struct ip_pl_probe);

	if (h->functions_offset != sizeof(*h))
		return BAD(AT(functions_offset), "functions at %llu instead of %zu",
			   (unsigned long long)h->functions_offset, sizeof(*h));
	if (functions_end > size)
		return BAD(AT(nfunctions), "%u functions do not fit into %zu bytes", h->nfunctions,
			   size);
	if (h->probes_offset != functions_end)
		return BAD(AT(probes_offset), "probes at %llu instead of %llu",
			   (unsigned long long)h->probes_offset, (unsigned long long)functions_end);
	if (probes_end > size)
		return BAD(AT(nprobes), "%u probes do not fit into %zu bytes", h->nprobes, size);
	if (h->strings_offset != probes_end)
		return BAD(AT(strings_offset), "strings at %llu instead of %llu",
			   (unsigned long long)h->strings_offset, (unsigned long long)probes_end);
	if (h->strings_size != size - probes_end)
		return BAD(AT(strings_size), "%llu bytes of strings where %llu are left",
			   (unsigned long long)h->strings_size,
			   (unsigned long long)(size - probes_end));
	if (h->strings_size < 1)
		return BAD(AT(strings_size), "no strings");
	return 0;
#undef AT
}

static int check_functions(const struct ip_probe_list *list)
{
	const struct ip_pl_header *h = list->header;

	for (uint32_t i = 0; i < h->nfunctions; i++) {
		const struct ip_pl_function *f = &list->functions[i];
		uint64_t at = h->functions_offset + (uint64_t)i * sizeof(*f);

		if (f->name == 0 || f->name >= h->strings_size || !list->strings[f->name])
			return BAD(at + offsetof(struct ip_pl_function, name),
				   "function %u without a name", i);
		if (f->file >= h->strings_size)
			return BAD(at + offsetof(struct ip_pl_function, file),
				   "file name of function %u outside of the strings", i);
		if (f->reserved)
			return BAD(at + offsetof(struct ip_pl_function, reserved),
				   "reserved field in use");
	}
	return 0;
}

static int check_probes(const struct ip_probe_list *list)
{
	const struct ip_pl_header *h = list->header;
	const struct ip_arch *arch = ip_arch_for_machine(h->machine);
	uint64_t end = 0; /* end of the site before */

	for (uint32_t i = 0; i < h->nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];
		uint64_t at = h->probes_offset + (uint64_t)i * sizeof(*p);
		uint8_t idle[IP_SITE_MAX];

		if (p->function >= h->nfunctions)
			return BAD(at + offsetof(struct ip_pl_probe, function),
				   "probe %u of function %u, there are %u", i, p->function,
				   h->nfunctions);
		if (p->flags & ~(IP_PROBE_INLINED | IP_PROBE_ENTRY_ONLY | IP_PROBE_FLAGS_DEAD))
			return BAD(at + offsetof(struct ip_pl_probe, flags), "unknown flags 0x%x",
				   p->flags);
		if (!all_zero(p->reserved, sizeof(p->reserved)))
			return BAD(at + offsetof(struct ip_pl_probe, reserved),
				   "reserved field in use");
		if (p->kind < IP_PROBE_ENTRY || p->kind > IP_PROBE_POINT)
			return BAD(at + offsetof(struct ip_pl_probe, kind),
				   "probe of unknown kind %u", p->kind);
		if (p->regs > IP_REGS_ALL)
			return BAD(at + offsetof(struct ip_pl_probe, regs),
				   "unknown set of registers %u", p->regs);
		if (p->args >= h->strings_size)
			return BAD(at + offsetof(struct ip_pl_probe, args),
				   "arguments of probe %u outside of the strings", i);
		if (p->kind == IP_PROBE_POINT && p->arg_text >= h->strings_size)
			return BAD(at + offsetof(struct ip_pl_probe, arg_text),
				   "text of the arguments of probe %u outside of the strings", i);
		if (arch->idle(p->form, p->length, ip_probe_jump(p), idle) < 0)
			return BAD(at + offsetof(struct ip_pl_probe, form), "%s",
				   ip_error_message());
		/* no other site of this form has a hook */
		if (p->form == IP_FORM_RETURN &&
		    !(p->kind == IP_PROBE_TAIL_EXIT && p->regs == IP_REGS_CALL) &&
		    !(p->kind == IP_PROBE_EXIT && p->regs == IP_REGS_RETURN &&
		      h->machine == EM_X86_64))
			return BAD(at + offsetof(struct ip_pl_probe, form),
				   "probe %u is a return, and not an exit", i);
		if (p->form == IP_FORM_TAIL &&
		    (p->kind != IP_PROBE_TAIL_EXIT || p->regs != IP_REGS_ALL ||
		     p->flags & IP_PROBE_INLINED))
			return BAD(at + offsetof(struct ip_pl_probe, form),
				   "probe %u is a jump, and not a tail exit", i);
		if (p->form == IP_FORM_PLT &&
		    (p->kind != IP_PROBE_ENTRY || p->regs != IP_REGS_ALL ||
		     p->flags != IP_PROBE_ENTRY_ONLY))
			return BAD(at + offsetof(struct ip_pl_probe, form),
				   "probe %u is a PLT entry, and not an entry alone", i);
		if (p->offset + p->length < p->offset)
			return BAD(at, "site at 0x%llx wraps around",
				   (unsigned long long)p->offset);
		if (i && p->offset < end)
			return BAD(at,
				   "site at 0x%llx is not behind the one before it, which ends at "
				   "0x%llx",
				   (unsigned long long)p->offset, (unsigned long long)end);
		end = p->offset + p->length;
	}
	return 0;
}

static int check_list(struct ip_probe_list *list, size_t size)
{
	const uint8_t *block = list->owned;
	const struct ip_pl_header *h = list->owned;

	if (size < sizeof(*h))
		return ip_error("not a probe list: %zu bytes are less than its header", size);
	if (check_header(h) < 0 || check_layout(h, size) < 0)
		return -1;
	list->header = h;
	list->functions = (const void *)(block + h->functions_offset);
	list->probes = (const void *)(block + h->probes_offset);
	list->strings = (const char *)block + h->strings_offset;
	if (list->strings[0] || list->strings[h->strings_size - 1])
		return BAD(h->strings_offset, "strings do not begin and end with a NUL");
	if (check_functions(list) < 0)
		return -1;
	return check_probes(list);
}

/* Takes the ownership of the block (malloc'ed), also if it fails. */
static int adopt(void *block, size_t size, struct ip_probe_list **ret)
{
	struct ip_probe_list *list = calloc(1, sizeof(*list));

	if (!list) {
		free(block);
		return ip_error("out of memory");
	}
	list->owned = block;
	if (check_list(list, size) < 0) {
		ip_probe_list_destroy(list);
		return -1;
	}
	*ret = list;
	return 0;
}

int ip_probe_list_parse(const void *data, size_t size, struct ip_probe_list **ret)
{
	void *block;

	if (size > LIST_MAX)
		return ip_error("probe list of %zu bytes is larger than any can be", size);
	block = malloc(size + 1);
	if (!block)
		return ip_error("out of memory for a probe list of %zu bytes", size);
	if (size)
		memcpy(block, data, size);
	return adopt(block, size, ret);
}

/* Reads the list from the file itself: in a large program it is the largest part of what is read,
 * and is wanted once, while libelf would keep a copy of its own. */
static int read_list(int fd, const char *path, uint64_t offset, uint64_t size,
		     struct ip_probe_list **ret)
{
	_cleanup_free_ void *block = NULL;

	if (size > LIST_MAX)
		return ip_error("%s: %llu bytes are more than any probe list has", path,
				(unsigned long long)size);
	block = malloc((size_t)size + 1);
	if (!block)
		return ip_error("%s: out of memory for %llu bytes", path, (unsigned long long)size);
	if (ip_read_at(fd, path, offset, block, (size_t)size) < 0)
		return -1;
	if (adopt(ip_steal_ptr(block), (size_t)size, ret) < 0)
		return ip_error_prefix("%s", path);
	return 0;
}

int ip_probe_list_load(const char *path, struct ip_probe_list **ret)
{
	uint64_t size;
	_cleanup_close_ int fd = ip_open_regular(path, &size);

	return fd < 0 ? -1 : ip_probe_list_load_fd(fd, path, ret);
}

int ip_probe_list_load_fd(int fd, const char *path, struct ip_probe_list **ret)
{
	uint64_t size;

	return ip_check_regular(fd, path, &size) < 0 ? -1 : read_list(fd, path, 0, size, ret);
}

/* A list that was copied into the file of another build describes other code. */
static int check_build_id(const struct ip_probe_list *list, const struct ip_elf_file *elf)
{
	const struct ip_pl_header *h = list->header;

	if (elf->build_id_size == 0)
		return 0;
	if (h->build_id_size == elf->build_id_size &&
	    !memcmp(h->build_id, elf->build_id, elf->build_id_size))
		return 0;
	return ip_error(
		"its probe list belongs to another build (build-id differs); build it again, and "
		"let no tool change the build-id (debugedit -i)");
}

int ip_probe_list_from_elf(int fd, const char *path, struct ip_probe_list **ret)
{
	struct ip_elf_file *elf;
	struct ip_probe_list *list = NULL;
	GElf_Shdr shdr;
	size_t size;
	int r;

	*ret = NULL;
	if (ip_elf_open_fd(fd, path, &elf) < 0)
		return -1;
	r = ip_elf_find_section(elf, IP_PROBE_SECTION, &shdr, &size);
	if (r > 0 && read_list(fd, path, shdr.sh_offset, size, &list) < 0) {
		r = -1;
	} else if (r > 0 && check_build_id(list, elf) < 0) {
		ip_probe_list_destroy(list);
		r = ip_error_prefix("%s", path);
	} else if (r > 0) {
		*ret = list;
	}
	ip_elf_close(elf);
	return r;
}

bool ip_probe_list_is_to_be_made(struct ip_elf_file *elf)
{
	GElf_Shdr shdr;
	size_t size;

	return ip_elf_find_section(elf, IP_SITE_TABLE_SECTION, &shdr, &size) > 0;
}

int ip_probe_list_from_debug_file(int fd, const char *path, struct ip_probe_list **ret)
{
	struct ip_elf_file *elf;
	GElf_Shdr shdr;
	size_t size;
	int r;

	*ret = NULL;
	if (ip_elf_open_debug_fd(fd, path, &elf) < 0)
		return 0;
	r = ip_elf_find_section(elf, IP_PROBE_SECTION, &shdr, &size);
	if (r > 0 && !size) /* only its header is there: the module has the list */
		r = 0;
	if (r > 0 && read_list(fd, path, shdr.sh_offset, size, ret) < 0)
		r = -1;
	ip_elf_close(elf);
	return r < 0 ? -1 : r;
}

char *ip_probe_list_file_name(const uint8_t *build_id, size_t size)
{
	char id[2 * IP_BUILD_ID_MAX + 1], *name;

	ip_build_id_format(build_id, size < IP_BUILD_ID_MAX ? size : IP_BUILD_ID_MAX, id);
	return asprintf(&name, ".build-id/%.2s/%s.probes", id, strlen(id) > 2 ? id + 2 : "") < 0
		       ? NULL
		       : name;
}

void ip_probe_list_destroy(struct ip_probe_list *list)
{
	if (!list)
		return;
	free(list->owned);
	free(list);
}
