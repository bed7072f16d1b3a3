/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the index of an unwind table.
 */
#include "common/elf/eh_frame_hdr.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

/* version, three encodings, pointer to the table, number of entries */
#define HEAD_SIZE  12u
#define ENTRY_SIZE 8u

int ip_eh_frame_hdr_read(struct ip_elf_file *file, struct ip_eh_frame_hdr *ret)
{
	const uint8_t *bytes;
	const void *data;
	GElf_Shdr shdr;
	uint32_t count;
	size_t size;
	int found = ip_elf_section(file, ".eh_frame_hdr", &shdr, &data, &size, NULL);

	*ret = (struct ip_eh_frame_hdr){0};
	if (found <= 0 || size < HEAD_SIZE)
		return found < 0 ? -1 : 0;
	bytes = data;
	if (bytes[0] != 1 || (bytes[1] & 0xf) != DW_EH_PE_sdata4 || bytes[2] != DW_EH_PE_udata4 ||
	    bytes[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return 0;
	memcpy(&count, bytes + 8, sizeof(count));
	if (!count || count > (size - HEAD_SIZE) / ENTRY_SIZE)
		return 0;
	ret->starts = calloc(count, sizeof(*ret->starts));
	if (!ret->starts)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < count; i++)
		memcpy(&ret->starts[i], bytes + HEAD_SIZE + i * (size_t)ENTRY_SIZE,
		       sizeof(*ret->starts));
	ret->address = shdr.sh_addr;
	ret->n = count;
	return 1;
}

void ip_eh_frame_hdr_clear(struct ip_eh_frame_hdr *hdr)
{
	free(hdr->starts);
	*hdr = (struct ip_eh_frame_hdr){0};
}

/* The address that the distance leads to. Addresses wrap around, as those of any damaged file. */
static uint64_t start(const struct ip_eh_frame_hdr *hdr, size_t i)
{
	return hdr->address + (uint64_t)(int64_t)hdr->starts[i];
}

uint64_t ip_eh_frame_hdr_find(const struct ip_eh_frame_hdr *hdr, uint64_t address)
{
	size_t low = 0, high = hdr->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (start(hdr, middle) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? start(hdr, low - 1) : 0;
}
