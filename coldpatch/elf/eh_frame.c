/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads .eh_frame and the call-site tables in .gcc_except_table. See eh_frame.h.
 */
#include "coldpatch/elf/eh_frame.h"

#include "coldpatch/elf/module.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <dwarf.h>
#include <string.h>

/* A cursor over bytes that are mapped at address. A read past the end gives zeros and sets bad. */
struct cursor {
	const uint8_t *p, *end;
	uint64_t address;
	unsigned bits; /* of an address */
	bool bad;
};

static uint64_t read_fixed(struct cursor *c, size_t size)
{
	uint64_t v = 0;

	if (c->bad || (size_t)(c->end - c->p) < size) {
		c->bad = true;
		return 0;
	}
	for (size_t i = 0; i < size; i++)
		v |= (uint64_t)c->p[i] << (8 * i);
	c->p += size;
	c->address += size;
	return v;
}

static uint64_t read_uleb(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint64_t byte = read_fixed(c, 1);

		if (c->bad || shift > 63) {
			c->bad = true;
			return 0;
		}
		v |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
}

static void skip(struct cursor *c, uint64_t n)
{
	if (c->bad || n > (uint64_t)(c->end - c->p)) {
		c->bad = true;
		return;
	}
	c->p += n;
	c->address += n;
}

static int64_t read_sleb(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0;;) {
		uint64_t byte = read_fixed(c, 1);

		if (c->bad || shift > 63) {
			c->bad = true;
			return 0;
		}
		v |= (byte & 0x7f) << shift;
		shift += 7;
		if (!(byte & 0x80)) {
			if (shift < 64 && (byte & 0x40))
				v |= ~UINT64_C(0) << shift;
			return (int64_t)v;
		}
	}
}

/* Reads a pointer in one of the DW_EH_PE encodings that compilers for x86 use. A null pointer is
 * 0. */
static uint64_t read_encoded(struct cursor *c, uint8_t encoding)
{
	uint64_t here = c->address, v;

	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
		v = read_fixed(c, c->bits / 8);
		break;
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		v = read_fixed(c, 8);
		break;
	case DW_EH_PE_udata4:
		v = read_fixed(c, 4);
		break;
	case DW_EH_PE_sdata4:
		v = (uint64_t)(int64_t)(int32_t)read_fixed(c, 4);
		break;
	case DW_EH_PE_udata2:
		v = read_fixed(c, 2);
		break;
	case DW_EH_PE_sdata2:
		v = (uint64_t)(int64_t)(int16_t)read_fixed(c, 2);
		break;
	case DW_EH_PE_uleb128:
		v = read_uleb(c);
		break;
	case DW_EH_PE_sleb128:
		v = (uint64_t)read_sleb(c);
		break;
	default:
		c->bad = true;
		return 0;
	}
	if (!v)
		return 0;
	switch (encoding & 0x70) {
	case 0:
		return v;
	case DW_EH_PE_pcrel:
		return c->bits == 64 ? v + here : (uint32_t)(v + here);
	default:
		c->bad = true;
		return 0;
	}
}

struct cie {
	uint8_t pointer_encoding;
	uint8_t lsda_encoding;
	bool augmented;
};

static bool read_cie(struct cursor c, struct cie *ret)
{
	const char *augmentation;
	uint8_t version;

	*ret = (struct cie){.pointer_encoding = DW_EH_PE_absptr, .lsda_encoding = DW_EH_PE_omit};
	version = read_fixed(&c, 1);
	augmentation = (const char *)c.p;
	while (read_fixed(&c, 1) && !c.bad)
		;
	if (c.bad || (version != 1 && version != 3))
		return false;
	read_uleb(&c); /* code alignment */
	read_sleb(&c); /* data alignment */
	if (version == 1)
		read_fixed(&c, 1);
	else
		read_uleb(&c);
	if (!*augmentation)
		return !c.bad;
	if (*augmentation++ != 'z')
		return false;
	ret->augmented = true;
	read_uleb(&c);
	for (; *augmentation; augmentation++) {
		switch (*augmentation) {
		case 'R':
			ret->pointer_encoding = read_fixed(&c, 1);
			break;
		case 'L':
			ret->lsda_encoding = read_fixed(&c, 1);
			break;
		case 'P':
			/* the personality may be reached through a pointer; its value is not needed
			 * here */
			read_encoded(&c, read_fixed(&c, 1) & 0x7f);
			break;
		case 'S':
		case 'B':
			break;
		default:
			return false;
		}
	}
	return !c.bad;
}

int cold_eh_frame_read(const struct cold_module *m, struct cold_unwind **ret, size_t *ret_n)
{
	_cleanup_free_ struct cold_unwind *entries = NULL;
	const struct cold_section *s = NULL;
	size_t n = 0, room = 0;
	struct cursor c;

	*ret = NULL;
	*ret_n = 0;
	for (size_t i = 0; i < m->nsections; i++)
		if (!strcmp(m->sections[i].name, ".eh_frame"))
			s = &m->sections[i];
	if (!s)
		return 0;
	c = (struct cursor){
		.p = s->data, .end = s->data + s->size, .address = s->address, .bits = m->bits};
	while (c.end - c.p >= 4) {
		uint64_t length = read_fixed(&c, 4), id_address, start, size;
		struct cursor body, cie_cursor;
		const struct cold_section *code;
		struct cold_unwind entry = {0};
		uint64_t cie_offset;
		uint32_t id;
		struct cie cie;

		if (!length)
			break;
		if (length == 0xffffffff)
			length = read_fixed(&c, 8);
		body = c;
		skip(&c, length);
		if (c.bad)
			break;
		body.end = c.p;
		id_address = body.address;
		id = read_fixed(&body, 4);
		if (!id || body.bad)
			continue;
		/* the CIE lies id bytes before the field */
		cie_offset = id_address - s->address;
		if (id > cie_offset)
			break;
		cie_offset -= id;
		cie_cursor = (struct cursor){.p = s->data + cie_offset,
					     .end = s->data + s->size,
					     .address = s->address + cie_offset,
					     .bits = m->bits};
		length = read_fixed(&cie_cursor, 4);
		if (length == 0xffffffff)
			length = read_fixed(&cie_cursor, 8);
		if (cie_cursor.bad || length > (uint64_t)(cie_cursor.end - cie_cursor.p))
			continue;
		cie_cursor.end = cie_cursor.p + length;
		if (read_fixed(&cie_cursor, 4) != 0 || !read_cie(cie_cursor, &cie))
			continue;
		start = read_encoded(&body, cie.pointer_encoding);
		size = read_encoded(&body, cie.pointer_encoding & 0x0f);
		if (cie.augmented) {
			read_uleb(&body);
			if (cie.lsda_encoding != DW_EH_PE_omit)
				entry.lsda = read_encoded(&body, cie.lsda_encoding);
		}
		if (body.bad || !size)
			continue;
		code = cold_module_section(m, start, size);
		if (!code || !code->exec || code->plt)
			continue;
		entry.start = start;
		entry.end = start + size;
		if (n == room) {
			struct cold_unwind *grown;

			room = room ? 2 * room : 256;
			grown = reallocarray(entries, room, sizeof(*entries));
			if (!grown)
				return ip_error("out of memory");
			entries = grown;
		}
		entries[n++] = entry;
	}
	*ret = ip_steal_ptr(entries);
	*ret_n = n;
	return 0;
}

int cold_landings_read(const struct cold_module *m, uint64_t lsda, uint64_t function,
		       struct cold_landing **ret, size_t *ret_n)
{
	_cleanup_free_ struct cold_landing *rows = NULL;
	const struct cold_section *s = cold_module_section(m, lsda, 4);
	uint64_t base = function, length;
	uint8_t encoding;
	size_t n = 0, room = 0;
	struct cursor c;

	*ret = NULL;
	*ret_n = 0;
	if (!s)
		return 0;
	c = (struct cursor){.p = s->data + (lsda - s->address),
			    .end = s->data + s->size,
			    .address = lsda,
			    .bits = m->bits};
	encoding = read_fixed(&c, 1);
	if (encoding != DW_EH_PE_omit)
		base = read_encoded(&c, encoding);
	encoding = read_fixed(&c, 1);
	if (encoding != DW_EH_PE_omit)
		read_uleb(&c); /* the type table is not needed */
	encoding = read_fixed(&c, 1);
	length = read_uleb(&c);
	if (c.bad || length > (uint64_t)(c.end - c.p) || (encoding & 0x70))
		return 0;
	c.end = c.p + length;
	while (c.p < c.end) {
		uint64_t start = read_encoded(&c, encoding), size = read_encoded(&c, encoding),
			 pad = read_encoded(&c, encoding);

		read_uleb(&c); /* action */
		if (c.bad)
			return 0;
		if (!pad)
			continue;
		if (n == room) {
			struct cold_landing *grown;

			room = room ? 2 * room : 16;
			grown = reallocarray(rows, room, sizeof(*rows));
			if (!grown)
				return ip_error("out of memory");
			rows = grown;
		}
		rows[n++] = (struct cold_landing){.start = function + start,
						  .end = function + start + size,
						  .pad = base + pad};
	}
	*ret = ip_steal_ptr(rows);
	*ret_n = n;
	return 1;
}
