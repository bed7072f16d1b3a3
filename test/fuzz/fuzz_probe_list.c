// SPDX-License-Identifier: Apache-2.0
/*
 * The probe list reader: any bytes as a list in memory, as a list's file, and as an ELF file that
 * carries a list. What it takes is walked to the end of every table and string, and built again.
 *
 * covers: common/elf/probe_list.c
 */
#include "common/elf/probe_list.h"
#include "fuzz.h"

static volatile size_t sum;

static void walk(const struct ip_probe_list *list)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < list->header->nfunctions; i++) {
		const char *name = ip_probe_list_string(list, list->functions[i].name);

		fuzz_assert(*name);
		sum += strlen(name) + strlen(ip_probe_list_string(list, list->functions[i].file));
	}
	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];

		fuzz_assert(p->function < list->header->nfunctions);
		fuzz_assert(p->offset >= end && p->offset + p->length > p->offset);
		fuzz_assert(*ip_probe_kind_name(p->kind) != '?');
		/* the sites that leave their function are exits */
		fuzz_assert(p->form != IP_FORM_RETURN || p->kind == IP_PROBE_EXIT ||
			    p->kind == IP_PROBE_TAIL_EXIT);
		fuzz_assert(p->form != IP_FORM_TAIL || p->kind == IP_PROBE_TAIL_EXIT);
		end = p->offset + p->length;
	}
	fuzz_assert(*ip_placement_name(list->header->placement) != '?');
}

/* A list that was read can be written again, with the same probes. */
static void rebuild(const struct ip_probe_list *list)
{
	const struct ip_pl_header *h = list->header;
	struct ip_probe_list_builder *b;
	struct ip_probe_list *again;
	void *data;
	size_t size;

	fuzz_assert(ip_probe_list_builder_create(h->machine, h->placement, h->build_id,
						 h->build_id_size, &b) == 0);
	for (uint32_t i = 0; i < h->nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];
		struct ip_pl_probe probe = *p;
		const struct ip_pl_function *f = &list->functions[p->function];
		int64_t function = ip_probe_list_builder_function(
			b, ip_probe_list_string(list, f->name), f->address,
			ip_probe_list_string(list, f->file), f->line);

		fuzz_assert(function >= 0);
		probe.function = (uint32_t)function;
		fuzz_assert(ip_probe_list_builder_probe(
				    b, &probe, p->args ? ip_probe_list_string(list, p->args) : NULL,
				    ip_probe_arg_text(list, p)) == 0);
	}
	fuzz_assert(ip_probe_list_builder_finish(b, &data, &size) == 0);
	fuzz_assert(ip_probe_list_parse(data, size, &again) == 0);
	fuzz_assert(again->header->nprobes == h->nprobes);
	for (uint32_t i = 0; i < h->nprobes; i++)
		fuzz_assert(again->probes[i].offset == list->probes[i].offset);
	ip_probe_list_destroy(again);
	ip_probe_list_builder_destroy(b);
	free(data);
}

static void judge(int r, struct ip_probe_list *list)
{
	if (r < 0) {
		fuzz_check_error();
	} else if (list) {
		walk(list);
		rebuild(list);
		ip_probe_list_destroy(list);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ip_probe_list *list = NULL;
	char path[64];
	int fd = fuzz_file(data, size);
	int r;

	r = ip_probe_list_parse(data, size, &list);
	judge(r, list);

	list = NULL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = ip_probe_list_load(path, &list);
	judge(r, list);

	r = ip_probe_list_from_elf(fd, "fuzz", &list);
	fuzz_assert((r > 0) == (list != NULL));
	judge(r, list);
	return 0;
}
