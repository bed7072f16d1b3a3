/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the lines of the session file about modules and functions. An index makes one function
 * of all numbers with the same name: copies that the compiler made (.isra, .constprop) and
 * inlined instances. A part of a function (.part) is a function of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/read/session_parser.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"

int ip_session_parse_module(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t index, bias, first;

	if (p->nfields < 7)
		return ip_session_bad(p, "a module needs index, path, build-id, load bias, first "
					 "number and placement");
	if (ip_session_number(p, 1, IP_RECORDING_MODULES - 1, &index) < 0 ||
	    ip_session_number(p, 4, UINT64_MAX, &bias) < 0 ||
	    ip_session_number(p, 5, IP_NUMBER_MAX, &first) < 0)
		return -1;
	if (index >= s->nmodules) {
		struct ip_recording_module *grown =
			reallocarray(s->modules, index + 1, sizeof(*grown));

		if (!grown)
			return ip_error("out of memory");
		memset(grown + s->nmodules, 0, (index + 1 - s->nmodules) * sizeof(*grown));
		s->modules = grown;
		s->nmodules = index + 1;
	}
	if (s->modules[index].present)
		return ip_session_bad(p, "a module that is there already");
	s->modules[index] = (struct ip_recording_module){.path = p->fields[2],
							 .build_id = p->fields[3],
							 .load_bias = bias,
							 .first_number = first,
							 .placement = p->fields[6],
							 .same_as = index,
							 .present = true};
	for (size_t i = 0; i < index; i++)
		if (s->modules[i].present && !strcmp(s->modules[i].path, p->fields[2]) &&
		    !strcmp(s->modules[i].build_id, p->fields[3])) {
			s->modules[index].same_as = s->modules[i].same_as;
			break;
		}
	return 0;
}

static uint64_t hash(uint32_t module, const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull ^ module;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3ull;
	return h ^ h >> 29;
}

/* Returns the slot of the index that holds (module, name), or the free slot where it belongs. */
static uint32_t *index_slot(const struct ip_recording *s, uint32_t module, const char *name)
{
	size_t i = hash(module, name) & (s->index_size - 1);

	for (;; i = (i + 1) & (s->index_size - 1)) {
		const struct ip_recording_function *f = &s->functions[s->index[i]];

		if (!s->index[i] || (f->module == module && !strcmp(f->linker_name, name)))
			return &s->index[i];
	}
}

/* Keeps the index at most half full. */
int ip_recording_grow_index(struct ip_recording *s)
{
	uint32_t *old = s->index;
	size_t size = s->index_size;

	if (s->nfunctions * 2 < size)
		return 0;
	s->index_size = size ? 2 * size : 1024;
	s->index = calloc(s->index_size, sizeof(*s->index));
	if (!s->index) {
		s->index = old;
		s->index_size = size;
		return ip_error("out of memory");
	}
	free(old);
	for (size_t i = 1; i < s->nfunctions; i++)
		*index_slot(s, s->functions[i].module, s->functions[i].linker_name) = i;
	return 0;
}

/* frame is the number of bytes from the stack pointer at the entry site to the caller's; 0:
 * unknown. A call takes at least the return address. */
static uint32_t room_of(bool inlined, uint64_t frame)
{
	if (inlined)
		return 0;
	return frame > 8 ? frame & ~7ull : 8;
}

static int grow_numbers(struct ip_recording *s, uint32_t number)
{
	struct ip_recording_number *grown;
	size_t n = s->nnumbers ? s->nnumbers : 256;

	if (number < s->nnumbers)
		return 0;
	while (n <= number)
		n *= 2;
	grown = reallocarray(s->numbers, n, sizeof(*grown));
	if (!grown)
		return ip_error("out of memory");
	memset(grown + s->nnumbers, 0, (n - s->nnumbers) * sizeof(*grown));
	s->numbers = grown;
	s->nnumbers = n;
	return 0;
}

/* The suffix of a part, in place of the suffix that the compiler gave it. It fits, since the
 * compiler's suffix is not shorter. */
#define PART ".part"

/* Cuts the compiler's suffix off the names of copies, so that they have the name of their
 * function. A part that was split off keeps a name of its own. */
static void merge_name(char *name)
{
	bool part = ip_name_is_part(name);
	size_t n = ip_base_name_length(name);

	if (part)
		memcpy(name + n, PART, sizeof(PART));
	else
		name[n] = '\0';
}

uint32_t ip_recording_host(const struct ip_recording *s, uint32_t function)
{
	const struct ip_recording_function *f = &s->functions[function];
	_cleanup_free_ char *name = NULL;

	if (!function || !ip_name_is_part(f->linker_name))
		return 0;
	name = strndup(f->linker_name, ip_base_name_length(f->linker_name));
	return name && s->index_size ? *index_slot(s, f->module, name) : 0;
}

uint32_t ip_recording_add_function(struct ip_recording *s, uint32_t module, const char *name)
{
	uint32_t *slot;

	if (ip_array_grow(&s->functions, s->nfunctions, sizeof(*s->functions)) < 0 ||
	    ip_recording_grow_index(s) < 0)
		return 0;
	slot = index_slot(s, module, name);
	if (!*slot) {
		*slot = s->nfunctions;
		s->functions[s->nfunctions++] =
			(struct ip_recording_function){.linker_name = name, .module = module};
	}
	return *slot;
}

int ip_session_parse_function(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t num, module, line, frame = 0;
	uint32_t function;
	char *name, *file;

	if (p->nfields < 7)
		return ip_session_bad(
			p,
			"a function needs ip_session_number, module, name, file, line and flags");
	if (ip_session_number(p, 1, IP_NUMBER_MAX, &num) < 0 ||
	    ip_session_number(p, 2, IP_RECORDING_MODULES - 1, &module) < 0 ||
	    ip_session_number(p, 5, UINT32_MAX, &line) < 0 ||
	    (p->nfields > 7 && ip_session_number(p, 7, UINT32_MAX - 15, &frame) < 0))
		return -1;
	name = p->fields[3];
	file = p->fields[4];
	if (!num || !*name)
		return ip_session_bad(p, "a function without number or name");
	if (module >= s->nmodules || !s->modules[module].present)
		return ip_session_bad(p, "a function of a module that is not there");
	module = s->modules[module].same_as;
	merge_name(name);
	function = ip_recording_add_function(s, module, name);
	if (!function)
		return -1;
	if (!s->functions[function].file && *file && strcmp(file, "-")) {
		s->functions[function].file = file;
		s->functions[function].line = line;
	}
	if (grow_numbers(s, num) < 0)
		return -1;
	s->numbers[num] =
		(struct ip_recording_number){function, room_of(strchr(p->fields[6], 'i'), frame),
					     strchr(p->fields[6], 'e') != NULL};
	s->numbers[num].jumps = strchr(p->fields[6], 'j') != NULL;
	s->functions[function].returns |= strchr(p->fields[6], 'r') != NULL;
	return 0;
}
