/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads calls out of the files of a live process, and follows them in its memory.
 *
 * A function reaches from its address to the end that its symbol tells; without a symbol table, up
 * to the next function that has probes. Code that the compiler has moved elsewhere (.cold) is not
 * looked at.
 */
#include "hotpatcher/process/callees.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"
#include "hotpatcher/arch/x86_64/calls.h"
#include "hotpatcher/process/modules.h"

/* the most bytes of a function: compilers make none longer, so a longer one means a mistake of
 * ours */
#define CODE_MAX (1u << 20)

/* A function with probes, and where it is in the process. */
struct place {
	uint64_t address;
	const struct ip_module *module;
	uint32_t function;
	bool callee, jumps_read;
};

struct search {
	struct ip_target *target;
	struct ip_modules modules;
	struct place *places; /* by address */
	size_t n;
	bool pointers; /* a function calls through pointers, too */
};

static int by_address(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static const char *name_of(const struct place *p)
{
	return ip_probe_list_string(p->module->list, p->module->list->functions[p->function].name);
}

static int collect(struct search *s)
{
	for (size_t m = 0; m < s->modules.n; m++) {
		const struct ip_module *module = &s->modules.items[m];
		uint32_t n = module->list ? module->list->header->nfunctions : 0;

		for (uint32_t i = 0; i < n; i++) {
			uint64_t address = module->list->functions[i].address;

			if (!address)
				continue;
			if (ip_array_grow(&s->places, s->n, sizeof(*s->places)) < 0)
				return -1;
			s->places[s->n++] = (struct place){address + module->load_bias, module, i,
							   false, false};
		}
	}
	if (s->n)
		qsort(s->places, s->n, sizeof(*s->places), by_address);
	return 0;
}

static struct place *find(const struct search *s, uint64_t address)
{
	const struct place key = {.address = address};

	return s->n ? bsearch(&key, s->places, s->n, sizeof(*s->places), by_address) : NULL;
}

/* Size of a function by the symbol tables of its module; 0: they do not tell it. */
static uint64_t symbol_size(const struct place *p)
{
	uint64_t address = p->address - p->module->load_bias;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(p->module->elf->elf, section));) {
		GElf_Shdr header;
		Elf_Data *data;
		GElf_Sym symbol;

		if (!gelf_getshdr(section, &header) ||
		    (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
			continue;
		data = elf_getdata(section, NULL);
		for (int i = 0; data && gelf_getsym(data, i, &symbol); i++)
			if (symbol.st_value == address && symbol.st_size &&
			    GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
				return symbol.st_size;
	}
	return 0;
}

static uint64_t size_of(const struct search *s, const struct place *p)
{
	const struct ip_mapping *text = ip_maps_find(&s->target->maps, p->address);
	uint64_t size = symbol_size(p), most = text ? text->end - p->address : 0;

	for (const struct place *next = p + 1; !size && next < s->places + s->n; next++)
		size = next->address - p->address; /* 0 if one place has two names */
	if (!size || size > most)
		size = most;
	return size < CODE_MAX ? size : CODE_MAX;
}

static bool is_code(const struct search *s, uint64_t address)
{
	const struct ip_mapping *m = ip_maps_find(&s->target->maps, address);

	return m && m->perms[2] == 'x' && address + IP_PLT_LENGTH <= m->end;
}

/* Where the pointer at the address slot points; 0: it cannot be read. */
static uint64_t follow(const struct search *s, uint64_t slot)
{
	uint64_t address = 0;

	if (!ip_maps_find(&s->target->maps, slot) ||
	    ip_target_read(s->target, slot, &address, sizeof(address)) < 0)
		return 0;
	return address;
}

static struct place *callee_at(const struct search *s, uint64_t address, const uint8_t *bytes)
{
	unsigned bits = s->target->arch->bits;
	uint8_t plt[IP_PLT_LENGTH];
	enum ip_call_form form;
	struct place *found;
	uint64_t to, slot;

	form = ip_call_at(bits, address, bytes, &to);
	if (form == IP_CALL_NONE)
		return NULL;
	if (form == IP_CALL_SLOT)
		return find(s, follow(s, to));
	found = find(s, to);
	if (found || !is_code(s, to) || ip_target_read(s->target, to, plt, sizeof(plt)) < 0)
		return found;
	slot = ip_call_plt_slot(bits, to, plt);
	return slot ? find(s, follow(s, slot)) : NULL;
}

/* Whether the bytes call or jump through a register, or a pointer that one leads to. */
static bool is_by_pointer(const uint8_t *bytes)
{
	const unsigned mod = bytes[1] >> 6, operation = bytes[1] >> 3 & 7, rm = bytes[1] & 7;

	return bytes[0] == 0xff && (operation == 2 || operation == 4) && (mod || rm != 5);
}

/* The code as the file has it: in the process, jumps may be live sites, which lead elsewhere. */
static int read_code(const struct search *s, const struct place *p, uint8_t *code, uint64_t size)
{
	const struct ip_elf_file *elf = p->module->elf;
	const uint64_t address = p->address - p->module->load_bias;

	for (size_t i = 0; i < elf->nloads; i++) {
		const struct ip_elf_segment *load = &elf->loads[i];

		if (address >= load->vaddr && address - load->vaddr < load->filesz &&
		    size <= load->filesz - (address - load->vaddr) &&
		    pread(elf->fd, code, size, load->offset + (address - load->vaddr)) ==
			    (ssize_t)size)
			return 0;
	}
	return ip_target_read(s->target, p->address, code, size);
}

/* Whether the bytes jump, where they call or jump at all. */
static bool is_jump(const uint8_t *bytes)
{
	return bytes[0] == 0xe9 || (bytes[0] == 0xff && (bytes[1] >> 3 & 7) == 4);
}

/* jumps: no calls, jumps alone. */
static int scan(struct search *s, const struct place *caller, bool jumps)
{
	uint64_t size = size_of(s, caller);
	_cleanup_free_ uint8_t *code = calloc(1, size + IP_CALL_LENGTH_MAX);

	if (!code)
		return ip_error("out of memory");
	if (read_code(s, caller, code, size) < 0)
		return -1;
	for (uint64_t i = 0; i < size; i++) {
		struct place *p;

		if (jumps && !is_jump(code + i))
			continue;
		p = callee_at(s, caller->address + i, code + i);
		if (p && p != caller)
			p->callee = true;
		s->pointers |= i + 1 < size && is_by_pointer(code + i);
	}
	return 0;
}

/* What a callee jumps to at its end returns to the caller: it is called by it as well. */
static int follow_jumps(struct search *s)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < s->n; i++) {
			struct place *p = &s->places[i];

			if (!p->callee || p->jumps_read)
				continue;
			p->jumps_read = more = true;
			if (scan(s, p, true) < 0)
				return -1;
		}
	}
	return 0;
}

/* Makes the selection: the names of the callees, each once. */
static int name_them(const struct search *s, char **ret, size_t *ret_n)
{
	size_t size;
	FILE *out = open_memstream(ret, &size);

	if (!out)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->n; i++) {
		bool known = !s->places[i].callee;

		for (size_t k = 0; k < i && !known; k++)
			known = s->places[k].callee &&
				!strcmp(name_of(&s->places[k]), name_of(&s->places[i]));
		if (!known)
			fprintf(out, "%s%.*s", (*ret_n)++ ? "," : "",
				(int)ip_base_name_length(name_of(&s->places[i])),
				name_of(&s->places[i]));
	}
	if (fclose(out) != 0)
		return ip_error("out of memory");
	if (!*ret_n) {
		free(*ret);
		*ret = NULL;
	}
	return 0;
}

static int search(struct search *s, const char *linker_name, char **ret, size_t *ret_n)
{
	size_t length = ip_base_name_length(linker_name), callers = 0;

	if (ip_modules_load(s->target, &s->modules) < 0 || collect(s) < 0)
		return -1;
	for (size_t i = 0; i < s->n; i++) {
		const char *name = name_of(&s->places[i]);

		if (ip_base_name_length(name) != length || strncmp(name, linker_name, length))
			continue;
		callers++;
		if (scan(s, &s->places[i], false) < 0)
			return -1;
	}
	if (follow_jumps(s) < 0)
		return -1;
	if (!callers)
		return ip_error("pid %d: the probe lists do not tell where %s is", s->target->pid,
				linker_name);
	return name_them(s, ret, ret_n);
}

int ip_callees_and_pointers(pid_t pid, const char *linker_name, char **ret, size_t *ret_n,
			    bool *ret_pointers)
{
	struct search s = {0};
	int done;

	*ret = NULL;
	*ret_n = 0;
	if (ip_target_open(pid, false, &s.target) < 0)
		return -1;
	done = search(&s, linker_name, ret, ret_n);
	*ret_pointers = s.pointers;
	free(s.places);
	ip_modules_clear(&s.modules);
	ip_target_close(s.target);
	return done;
}

int ip_callees(pid_t pid, const char *linker_name, char **ret, size_t *ret_n)
{
	bool pointers;

	return ip_callees_and_pointers(pid, linker_name, ret, ret_n, &pointers);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Writes the names one after the other, each with a zero behind it. */
static int write_names(const struct search *s, char **ret_text, size_t *ret_size)
{
	FILE *out = open_memstream(ret_text, ret_size);

	if (!out)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->n; i++) {
		const char *name = name_of(&s->places[i]);

		fprintf(out, "%.*s%c", (int)ip_base_name_length(name), name, 0);
	}
	return fclose(out) == 0 ? 0 : ip_error("out of memory");
}

static int all_names(const struct search *s, char ***ret, size_t *ret_n, char **ret_text)
{
	char **names, *text = NULL;
	size_t size, n = 0;

	if (write_names(s, &text, &size) < 0)
		return -1;
	*ret_text = text;
	*ret = names = calloc(s->n + 1, sizeof(*names));
	if (!names)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->n; i++, text += strlen(text) + 1)
		names[i] = text;
	if (s->n)
		qsort(names, s->n, sizeof(*names), by_name);
	for (size_t i = 0; i < s->n; i++)
		if (!n || strcmp(names[n - 1], names[i]))
			names[n++] = names[i];
	*ret_n = n;
	return 0;
}

int ip_callees_all(pid_t pid, char ***ret, size_t *ret_n, char **ret_text)
{
	struct search s = {0};
	int done;

	*ret = NULL;
	*ret_text = NULL;
	*ret_n = 0;
	if (ip_target_open(pid, false, &s.target) < 0)
		return -1;
	done = ip_modules_load(s.target, &s.modules) < 0 || collect(&s) < 0
		       ? -1
		       : all_names(&s, ret, ret_n, ret_text);
	free(s.places);
	ip_modules_clear(&s.modules);
	ip_target_close(s.target);
	return done;
}
