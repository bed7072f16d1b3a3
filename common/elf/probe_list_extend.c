// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a longer list of one that is in memory. The builder would take several times as long, since
 * it compares every name.
 */
#include "common/elf/probe_list.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"

static void merge_probes(const struct ip_probe_list *list, const struct ip_pl_probe *more,
			 size_t nmore, struct ip_pl_probe *ret)
{
	const struct ip_pl_header *h = list->header;

	for (size_t i = 0, k = 0; i < h->nprobes || k < nmore;) {
		if (k == nmore || (i < h->nprobes && list->probes[i].offset < more[k].offset)) {
			*ret++ = list->probes[i++];
			continue;
		}
		*ret = more[k++];
		ret++->function += h->nfunctions;
	}
}

int ip_probe_list_extend(const struct ip_probe_list *list, const char *const *names, size_t nnames,
			 const struct ip_pl_probe *probes, size_t nprobes,
			 struct ip_probe_list **ret)
{
	struct ip_pl_header h = *list->header;
	const size_t old_strings = h.strings_size,
		     old_functions = h.nfunctions * sizeof(struct ip_pl_function);
	_cleanup_free_ char *block = NULL;
	struct ip_pl_function *functions;
	char *strings;
	size_t size;

	if (nnames > UINT32_MAX - h.nfunctions || nprobes > UINT32_MAX - h.nprobes)
		return ip_error("too many functions for a probe list");
	for (size_t i = 0; i < nnames; i++)
		h.strings_size += strlen(names[i]) + 1;
	if (h.strings_size > UINT32_MAX)
		return ip_error("the names of the functions take more than 4 GiB");
	h.nfunctions += nnames;
	h.nprobes += nprobes;
	h.probes_offset = h.functions_offset + h.nfunctions * sizeof(struct ip_pl_function);
	h.strings_offset = h.probes_offset + h.nprobes * sizeof(struct ip_pl_probe);
	size = h.strings_offset + h.strings_size;
	block = calloc(1, size);
	if (!block)
		return ip_error("out of memory for a probe list of %zu bytes", size);
	memcpy(block, &h, sizeof(h));
	functions = (struct ip_pl_function *)(block + h.functions_offset);
	memcpy(functions, list->functions, old_functions);
	merge_probes(list, probes, nprobes, (struct ip_pl_probe *)(block + h.probes_offset));
	strings = block + h.strings_offset;
	memcpy(strings, list->strings, old_strings);
	functions += list->header->nfunctions;
	for (size_t i = 0, at = old_strings; i < nnames; i++) {
		functions[i].name = at;
		memcpy(strings + at, names[i], strlen(names[i]) + 1);
		at += strlen(names[i]) + 1;
	}
	return ip_probe_list_parse(block, size, ret);
}
