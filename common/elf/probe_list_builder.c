// SPDX-License-Identifier: Apache-2.0
/*
 * Building probe lists. Strings and functions are looked up by hashing. Probes are sorted at the
 * end. The result has passed the reader's own checks.
 */
#include "common/elf/probe_list.h"

#include <stdlib.h>
#include <string.h>

#include "common/arch/arch.h"
#include "common/cleanup.h"
#include "common/error.h"

/* Open addressing. An entry holds index + 1; 0 means empty. The table is at most half full. */
struct table {
	uint32_t *slots;
	size_t nslots, used;
};

struct ip_probe_list_builder {
	uint32_t machine;
	uint32_t placement;
	uint8_t build_id[IP_BUILD_ID_MAX];
	uint32_t build_id_size;
	uint32_t found_by;
	uint64_t stub_area_offset, stub_area_size, rt_anchor_offset;

	char *strings;
	size_t strings_size, strings_room;
	struct table string_table; /* offsets into strings */

	struct ip_pl_function *functions;
	size_t nfunctions, functions_room;
	struct table function_table; /* indexes of functions */

	struct ip_pl_probe *probes;
	size_t nprobes, probes_room;
};

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * 0x100000001b3;
	return hash;
}

static uint64_t hash_string(const char *s)
{
	uint64_t hash = hash_bytes(0xcbf29ce484222325, s, strlen(s));

	return hash ^ hash >> 32;
}

static uint64_t hash_function(uint32_t name, uint64_t address)
{
	uint64_t hash = (address + name * 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;

	return hash ^ hash >> 32;
}

/* Makes room for one more element of the given size. */
static int grow(void *array, size_t used, size_t *room, size_t size)
{
	void **p = array;
	size_t more = *room ? *room * 2 : 64;
	void *bigger;

	if (used < *room)
		return 0;
	bigger = reallocarray(*p, more, size);
	if (!bigger)
		return ip_error("out of memory for a probe list");
	*p = bigger;
	*room = more;
	return 0;
}

static uint64_t hash_of(const struct ip_probe_list_builder *b, const struct table *table,
			uint32_t value)
{
	if (table == &b->string_table)
		return hash_string(b->strings + value);
	return hash_function(b->functions[value].name, b->functions[value].address);
}

static int table_grow(const struct ip_probe_list_builder *b, struct table *table)
{
	struct table bigger = {.nslots = table->nslots ? table->nslots * 2 : 256,
			       .used = table->used};

	if (table->used * 2 < table->nslots)
		return 0;
	bigger.slots = calloc(bigger.nslots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return ip_error("out of memory for a probe list");
	for (size_t i = 0; i < table->nslots; i++) {
		size_t slot;

		if (!table->slots[i])
			continue;
		slot = hash_of(b, table, table->slots[i] - 1) & (bigger.nslots - 1);
		while (bigger.slots[slot])
			slot = (slot + 1) & (bigger.nslots - 1);
		bigger.slots[slot] = table->slots[i];
	}
	free(table->slots);
	*table = bigger;
	return 0;
}

/* Offset of s among the strings; s is added if it is new. -1 with an error. */
static int64_t intern(struct ip_probe_list_builder *b, const char *s)
{
	struct table *table = &b->string_table;
	size_t n = strlen(s) + 1, slot;
	uint32_t offset;

	if (n == 1)
		return 0;
	if (table_grow(b, table) < 0)
		return -1;
	slot = hash_string(s) & (table->nslots - 1);
	for (; table->slots[slot]; slot = (slot + 1) & (table->nslots - 1))
		if (!strcmp(b->strings + table->slots[slot] - 1, s))
			return table->slots[slot] - 1;
	if (n >= UINT32_MAX - b->strings_size)
		return ip_error("the names of a probe list exceed 4 GiB");
	while (b->strings_room < b->strings_size + n)
		if (grow(&b->strings, b->strings_room, &b->strings_room, 1) < 0)
			return -1;
	offset = (uint32_t)b->strings_size;
	memcpy(b->strings + offset, s, n);
	b->strings_size += n;
	table->slots[slot] = offset + 1;
	table->used++;
	return offset;
}

int ip_probe_list_builder_create(uint32_t machine, enum ip_placement placement,
				 const uint8_t *build_id, size_t build_id_size,
				 struct ip_probe_list_builder **ret)
{
	struct ip_probe_list_builder *b;

	if (!ip_arch_for_machine(machine))
		return ip_error("no probe list for machine %u: this iprobe does not know it",
				machine);
	if (build_id_size < 1 || build_id_size > IP_BUILD_ID_MAX)
		return ip_error("build-id of %zu bytes; a probe list needs one of 1 to %d (link "
				"with --build-id)",
				build_id_size, IP_BUILD_ID_MAX);
	b = calloc(1, sizeof(*b));
	if (!b)
		return ip_error("out of memory");
	b->machine = machine;
	b->placement = placement;
	b->build_id_size = (uint32_t)build_id_size;
	memcpy(b->build_id, build_id, build_id_size);
	if (grow(&b->strings, 0, &b->strings_room, 1) < 0) {
		ip_probe_list_builder_destroy(b);
		return -1;
	}
	b->strings[b->strings_size++] = '\0';
	*ret = b;
	return 0;
}

int64_t ip_probe_list_builder_function(struct ip_probe_list_builder *b, const char *name,
				       uint64_t address, const char *file, uint32_t line)
{
	struct table *table = &b->function_table;
	int64_t name_offset, file_offset;
	size_t slot;

	if (!*name)
		return ip_error("function at 0x%llx without a name", (unsigned long long)address);
	name_offset = intern(b, name);
	file_offset = intern(b, file ? file : "");
	if (name_offset < 0 || file_offset < 0 || table_grow(b, table) < 0)
		return -1;
	slot = hash_function((uint32_t)name_offset, address) & (table->nslots - 1);
	for (; table->slots[slot]; slot = (slot + 1) & (table->nslots - 1)) {
		const struct ip_pl_function *f = &b->functions[table->slots[slot] - 1];

		if (f->name == name_offset && f->address == address)
			return table->slots[slot] - 1;
	}
	if (b->nfunctions >= UINT32_MAX - 1)
		return ip_error("too many functions for a probe list");
	if (grow(&b->functions, b->nfunctions, &b->functions_room, sizeof(*b->functions)) < 0)
		return -1;
	b->functions[b->nfunctions] = (struct ip_pl_function){
		.address = address,
		.name = (uint32_t)name_offset,
		.file = (uint32_t)file_offset,
		.line = line,
	};
	table->slots[slot] = (uint32_t)++b->nfunctions;
	table->used++;
	return (int64_t)b->nfunctions - 1;
}

void ip_probe_list_builder_header(struct ip_probe_list_builder *b, uint32_t found_by,
				  uint64_t stub_area_offset, uint64_t stub_area_size,
				  uint64_t rt_anchor_offset)
{
	b->found_by = found_by;
	b->stub_area_offset = stub_area_offset;
	b->stub_area_size = stub_area_size;
	b->rt_anchor_offset = rt_anchor_offset;
}

int ip_probe_list_builder_probe(struct ip_probe_list_builder *b, const struct ip_pl_probe *probe,
				const char *args, const char *arg_text)
{
	const int64_t text = args ? intern(b, args) : 0,
		      source = arg_text ? intern(b, arg_text) : 0;
	struct ip_pl_probe *added;
	uint8_t idle[IP_SITE_MAX];

	if (text < 0 || source < 0)
		return -1;
	if (probe->function >= b->nfunctions)
		return ip_error("probe at 0x%llx of function %u, there are %zu",
				(unsigned long long)probe->offset, probe->function, b->nfunctions);
	if (ip_arch_for_machine(b->machine)
		    ->idle(probe->form, probe->length, ip_probe_jump(probe), idle) < 0)
		return ip_error_prefix("probe at 0x%llx", (unsigned long long)probe->offset);
	if (b->nprobes >= UINT32_MAX)
		return ip_error("too many probes for a probe list");
	if (grow(&b->probes, b->nprobes, &b->probes_room, sizeof(*b->probes)) < 0)
		return -1;
	added = &b->probes[b->nprobes++];
	*added = *probe;
	added->args = (uint32_t)text;
	if (added->kind == IP_PROBE_POINT)
		added->arg_text = (uint32_t)source;
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct ip_pl_probe *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static const char *probe_function(const struct ip_probe_list_builder *b,
				  const struct ip_pl_probe *p)
{
	return b->strings + b->functions[p->function].name;
}

static int sort_probes(struct ip_probe_list_builder *b)
{
	if (b->nprobes)
		qsort(b->probes, b->nprobes, sizeof(*b->probes), by_offset);
	for (size_t i = 1; i < b->nprobes; i++) {
		const struct ip_pl_probe *p = &b->probes[i - 1], *q = &b->probes[i];

		if (q->offset - p->offset < p->length)
			return ip_error("sites overlap: 0x%llx (%s) and 0x%llx (%s)",
					(unsigned long long)p->offset, probe_function(b, p),
					(unsigned long long)q->offset, probe_function(b, q));
	}
	return 0;
}

int ip_probe_list_builder_finish(struct ip_probe_list_builder *b, void **ret_data, size_t *ret_size)
{
	size_t functions_size = b->nfunctions * sizeof(*b->functions);
	size_t probes_size = b->nprobes * sizeof(*b->probes);
	struct ip_pl_header header = {
		.magic = IP_PL_MAGIC,
		.version = IP_PL_VERSION,
		.header_size = sizeof(header),
		.machine = b->machine,
		.placement = b->placement,
		.nfunctions = (uint32_t)b->nfunctions,
		.nprobes = (uint32_t)b->nprobes,
		.functions_offset = sizeof(header),
		.probes_offset = sizeof(header) + functions_size,
		.strings_offset = sizeof(header) + functions_size + probes_size,
		.strings_size = b->strings_size,
		.build_id_size = b->build_id_size,
		.found_by = b->found_by,
		.stub_area_offset = b->stub_area_offset,
		.stub_area_size = b->stub_area_size,
		.rt_anchor_offset = b->rt_anchor_offset,
	};
	size_t size = header.strings_offset + b->strings_size;
	_cleanup_free_ char *block = NULL;
	struct ip_probe_list *list;

	if (sort_probes(b) < 0)
		return -1;
	memcpy(header.build_id, b->build_id, b->build_id_size);
	block = malloc(size);
	if (!block)
		return ip_error("out of memory for a probe list of %zu bytes", size);
	memcpy(block, &header, sizeof(header));
	if (functions_size)
		memcpy(block + header.functions_offset, b->functions, functions_size);
	if (probes_size)
		memcpy(block + header.probes_offset, b->probes, probes_size);
	memcpy(block + header.strings_offset, b->strings, b->strings_size);

	/* A list that a reader would refuse must fail here, not later in production. */
	if (ip_probe_list_parse(block, size, &list) < 0)
		return -1;
	ip_probe_list_destroy(list);
	*ret_data = ip_steal_ptr(block);
	*ret_size = size;
	return 0;
}

void ip_probe_list_builder_destroy(struct ip_probe_list_builder *b)
{
	if (!b)
		return;
	free(b->strings);
	free(b->string_table.slots);
	free(b->functions);
	free(b->function_table.slots);
	free(b->probes);
	free(b);
}
