/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points and scopes that programs name themselves (include/iprobe/probe.h). The records in the
 * module say where they are.
 */
#include "coldpatch/sites/points.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "coldpatch/sites/find.h"
#include "common/arch/arch.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/elf/point_args.h"
#include "common/elf/point_names.h"
#include "common/error.h"

#define VERSION	    3 /* 1 has no text of the arguments, 2 no numbers of IPROBE_HEX */
#define SITE_LENGTH 5
#define TEXT_MAX    1023 /* characters of the text of the arguments; what is longer is cut */
#define HASHED	    48	 /* characters of a scope's name in its hash */

/* Some linkers keep the record of a function that they have dropped. They put zero in place of the
 * function's address. So an address from zero up to the size of a function means that the function
 * was dropped. */
#define DROPPED 0x10000

/* A record as the assembler writes it; strings follow. */
struct record {
	uint32_t size;
	uint8_t version, kind, strings, pointers;
	uint64_t address;
};

struct points {
	struct cold_point *points;
	size_t n;
};

uint64_t cold_scope_hash(const char *name)
{
	size_t length = strlen(name);
	uint64_t hash = 0;

	for (size_t i = 0; i < HASHED; i++)
		hash = hash * 31 + (i < length ? (unsigned char)name[i] : 0);
	return hash;
}

/* Returns the string at *at and moves *at behind it; NULL if no string ends before the record
 * does. */
static const char *take_string(const uint8_t *bytes, size_t size, size_t *at)
{
	const char *s = (const char *)bytes + *at;
	size_t length = strnlen(s, size - *at);

	if (length == size - *at)
		return NULL;
	*at += length + 1;
	return s;
}

static bool is_plain(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name <= ' ' || *name == 0x7f)
			return false;
	return true;
}

int cold_point_read(const uint8_t *bytes, size_t size, struct cold_point *ret, size_t *ret_length)
{
	size_t at = sizeof(struct record);
	struct record r;

	if (size < sizeof(r))
		return ip_error("the last record of a point is cut off");
	memcpy(&r, bytes, sizeof(r));
	if (r.size < sizeof(r) + 3 || r.size > size || r.size % 8)
		return ip_error("record of a point of %u bytes, %zu are left", r.size, size);
	if (r.version < 1 || r.version > VERSION)
		return ip_error(
			"record of a point of version %u; this coldpatch knows versions 1 to %u: "
			"it is older than the iprobe/probe.h that the program was built with",
			r.version, VERSION);
	if (r.kind > COLD_SCOPE_END)
		return ip_error("record of a point of unknown kind %u", r.kind);
	*ret = (struct cold_point){
		.address = r.address, .kind = r.kind, .strings = r.strings, .pointers = r.pointers};
	if (r.version > 1) {
		if (r.size < at + sizeof(ret->text) + 3)
			return ip_error("record of a point of %u bytes", r.size);
		memcpy(&ret->text, bytes + at, sizeof(ret->text));
		at += sizeof(ret->text);
	}
	if (r.version > 2) {
		ret->hexes = r.strings & r.pointers;
		ret->strings &= ~ret->hexes;
		ret->pointers &= ~ret->hexes;
	}
	ret->name = take_string(bytes, r.size, &at);
	ret->args = ret->name ? take_string(bytes, r.size, &at) : NULL;
	ret->identity = ret->args ? take_string(bytes, r.size, &at) : NULL;
	if (!ret->identity)
		return ip_error("record of a point whose texts do not end");
	for (size_t left = r.size - at, i = 0; i < left; i++)
		if (left >= 8 || bytes[at + i])
			return ip_error("record of a point with more than its texts");
	if (!is_plain(ret->name) || (!*ret->name && !(r.kind == COLD_SCOPE_END && *ret->identity)))
		return ip_error("record of a point without a name");
	*ret_length = r.size;
	return 0;
}

static int read_points(const struct cold_module *m, const uint8_t *data, size_t size,
		       struct points *ret)
{
	const struct ip_arch *arch = ip_arch_for_machine(m->elf->ehdr.e_machine);
	uint8_t idle[IP_SITE_MAX];
	size_t at = 0, length;

	if (arch->idle(IP_FORM_JUMP, SITE_LENGTH, 0, idle))
		return -1;
	while (at < size) {
		struct cold_point p;
		const struct cold_section *s;
		const uint8_t *bytes;
		uint32_t begin;

		/* padding between the parts of several object files */
		if (size - at < sizeof(begin))
			break;
		memcpy(&begin, data + at, sizeof(begin));
		if (!begin) {
			at += 4;
			continue;
		}
		if (cold_point_read(data + at, size - at, &p, &length))
			return ip_error_prefix("%s: section " COLD_POINTS_SECTION ", byte %zu",
					       m->path, at);
		at += length;
		s = cold_module_section(m, p.address, SITE_LENGTH);
		bytes = s && s->exec ? cold_module_bytes(m, p.address, SITE_LENGTH) : NULL;
		if (bytes && !memcmp(bytes, idle, SITE_LENGTH))
			;
		else if (p.address < DROPPED)
			continue;
		else
			return ip_error("%s: there is no NOP at 0x%lx, where point %s should be; "
					"link it again",
					m->path, (unsigned long)p.address, p.name);
		if (ip_array_grow(&ret->points, ret->n, sizeof(*ret->points)))
			return -1;
		ret->points[ret->n++] = p;
	}
	return 0;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct cold_point *)a)->address,
		 y = ((const struct cold_point *)b)->address;

	return x < y ? -1 : x > y;
}

/* Returns the scope whose name has the hash that the end at p passes, if the hash is a constant
 * there: "8@$NUMBER", or without the dollar in Intel syntax. */
static const char *name_by_hash(const struct points *all, const struct cold_point *p)
{
	const char *number = p->identity + strcspn(p->identity, "@");
	char *end;
	uint64_t hash;

	number += *number == '@';
	number += *number == '$';
	hash = *number == '-' ? (uint64_t)strtoll(number, &end, 10) : strtoull(number, &end, 10);
	if (end == number || *end)
		return NULL;
	for (size_t i = 0; i < all->n; i++)
		if (all->points[i].kind == COLD_SCOPE_BEGIN &&
		    cold_scope_hash(all->points[i].name) == hash)
			return all->points[i].name;
	return NULL;
}

/*
 * Names the ends without a name in one function: points [first, last) in the order of their
 * addresses. Code that was compiled without optimisation stands in the order of the source, so ends
 * close beginnings as brackets do. If they do not, the ends get the name of the scopes there, if it
 * is only one. Returns false if the names cannot be told.
 */
static bool pair(struct cold_point *points, size_t first, size_t last)
{
	_cleanup_free_ const char **open = calloc(last - first + 1, sizeof(*open));
	const char *only = NULL;
	bool brackets = true, several = false;
	size_t depth = 0;

	for (size_t i = first; open && i < last; i++) {
		if (points[i].kind == COLD_SCOPE_BEGIN) {
			several |= only && strcmp(only, points[i].name);
			only = points[i].name;
			open[depth++] = points[i].name;
		} else if (points[i].kind == COLD_SCOPE_END && !depth--) {
			brackets = false;
			break;
		}
	}
	if (!open || ((!brackets || depth) && (several || !only)))
		return false;
	depth = 0;
	for (size_t i = first; i < last; i++) {
		if (points[i].kind == COLD_SCOPE_BEGIN && brackets)
			open[depth++] = points[i].name;
		if (points[i].kind != COLD_SCOPE_END)
			continue;
		if (brackets && depth)
			depth--;
		if (!*points[i].name)
			points[i].name = several ? open[depth] : only;
	}
	return true;
}

/* Gives ends their names. Nothing is known of an end that has no name afterwards. */
static void name_ends(const struct cold_module *m, struct points *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (!*all->points[i].name) {
			const char *name = name_by_hash(all, &all->points[i]);

			if (name)
				all->points[i].name = name;
		}
	for (size_t first = 0, last; first < all->n; first = last) {
		uint32_t range = cold_module_range(m, all->points[first].address);
		bool nameless = false;

		for (last = first;
		     last < all->n && cold_module_range(m, all->points[last].address) == range;
		     last++)
			nameless |= !*all->points[last].name;
		if (nameless)
			pair(all->points, first, last);
	}
}

/* Whether an end of the scope is known. A beginning without any end is only counted. */
static bool has_end(const struct points *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->points[i].kind == COLD_SCOPE_END && !strcmp(all->points[i].name, name))
			return true;
	return false;
}

/* Returns a copy of the arguments' text at address; "" where none is there, NULL with an error: out
 * of memory. */
static char *copy_source(const struct cold_module *m, uint64_t address)
{
	const struct cold_section *s = address ? cold_module_section(m, address, 1) : NULL;
	size_t length = 0, room = 0;
	const char *text = NULL;
	char *copy;

	if (s && !s->exec) {
		text = (const char *)s->data + (address - s->address);
		room = s->size - (address - s->address);
		length = strnlen(text, room < TEXT_MAX ? room : TEXT_MAX);
	}
	if (length == room) /* its end is not there: it is none of ours */
		length = 0;
	copy = length ? strndup(text, length) : strdup("");
	if (!copy)
		ip_error("out of memory");
	else if (length == TEXT_MAX && text[length])
		copy[length - 1] = IP_POINT_TEXT_CUT;
	return copy;
}

/* Has found keep text. Returns it; NULL with an error: out of memory, or text is NULL. */
static const char *keep_text(struct cold_found *found, char *text)
{
	if (!text)
		return NULL;
	if (ip_array_grow(&found->texts, found->ntexts, sizeof(*found->texts))) {
		free(text);
		return NULL;
	}
	found->texts[found->ntexts++] = text;
	return text;
}

static int add_site(struct cold_module *m, const struct points *all, const struct cold_point *p,
		    struct cold_found *found)
{
	static const uint8_t kinds[] = {[COLD_POINT] = IP_PROBE_POINT,
					[COLD_SCOPE_BEGIN] = IP_PROBE_ENTRY,
					[COLD_SCOPE_END] = IP_PROBE_EXIT};
	struct cold_site site = {
		.address = p->address,
		.range = cold_module_range(m, p->address),
		.depth = COLD_DEPTH_UNKNOWN,
		.kind = kinds[p->kind],
		.length = SITE_LENGTH,
		.form = IP_FORM_JUMP, /* it is not known whether the function uses the red zone */
		.regs = IP_REGS_ALL,
		.naming = COLD_NAME_GIVEN,
		.idle = true,
		.name = p->name,
	};

	if (p->kind == COLD_POINT && *p->args) {
		site.args = keep_text(found, cold_point_places(m, p));
		site.arg_text = keep_text(found, copy_source(m, p->text));
		if (!site.args || !site.arg_text)
			return -1;
	}
	site.entry_only = p->kind == COLD_SCOPE_BEGIN && !has_end(all, p->name);
	return cold_sites_add(&found->sites, site);
}

int cold_points_find(struct cold_module *m, struct cold_found *found)
{
	struct points all = {0};
	GElf_Shdr shdr;
	const void *data;
	size_t size, before = found->sites.n;
	int result = ip_elf_section(m->elf, COLD_POINTS_SECTION, &shdr, &data, &size, NULL);

	if (result <= 0)
		return result;
	result = read_points(m, data, size, &all);
	if (!result && all.n) {
		qsort(all.points, all.n, sizeof(*all.points), by_address);
		name_ends(m, &all);
	}
	for (size_t i = 0; !result && i < all.n; i++)
		if (*all.points[i].name)
			result = add_site(m, &all, &all.points[i], found);
	free(all.points);
	if (!result && found->sites.n > before) {
		found->found_by |= IP_FOUND_BY_TABLE;
		/* a module without other probes: the placement that it would have been compiled
		 * with */
		if (!found->placement)
			found->placement = IP_PLACEMENT_FENTRY;
	}
	return result;
}
