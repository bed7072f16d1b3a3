/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up addresses. The loaded segments of the modules' files tell which module has an
 * address. The debug information of a module is opened when the first address of the module is
 * looked up. Paths come from the trace, which may come from another machine: a file counts only
 * where it has the build-id that the trace names.
 */
#include "analysis/read/symbolize.h"

#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/read/members.h"
#include "analysis/read/names.h"
#include "common/cleanup.h"
#include "common/elf/debug_file.h"
#include "common/elf/elf_file.h"
#include "common/elf/probe_list.h"
#include "common/error.h"
#include "common/file.h"
#include "common/print.h"
#include "common/selection/selection.h"
#include "common/trace/trace_format.h"

/* A probe list without sizes gives each function the addresses up to the next function, but not
 * more than this many bytes. */
#define FUNCTION_MAX (1ull << 20)

struct function {
	uint64_t address; /* link-time address */
	const char *name;
};

struct module {
	const struct ip_recording_module *recorded;
	bool looked;		 /* the file and the list have been looked for */
	struct ip_elf_file *elf; /* NULL: this machine does not have the file */
	Dwfl *dwfl;
	struct ip_debug_file_search search;
	Dwfl_Module *debug; /* NULL: none */
	struct ip_probe_list *list;
	struct function *functions; /* functions of the list, sorted by address */
	size_t nfunctions;
};

struct ip_symbolizer {
	const char *dir;
	const struct ip_recording *session;
	struct module *modules; /* those in session->modules, then the others */
	size_t nmodules, nrecorded;
	struct ip_place **index; /* open addressing, by address */
	size_t n, size;
};

struct ip_symbolizer *ip_symbolizer_create(const char *dir, const struct ip_recording *session)
{
	struct ip_symbolizer *p = calloc(1, sizeof(*p));

	if (p)
		p->modules = calloc(session->nmodules + session->nothers + 1, sizeof(*p->modules));
	if (!p || !p->modules) {
		free(p);
		ip_error("out of memory");
		return NULL;
	}
	p->dir = dir;
	p->session = session;
	for (size_t i = 0; i < session->nmodules; i++)
		p->modules[p->nmodules++].recorded = &session->modules[i];
	p->nrecorded = p->nmodules;
	for (size_t i = 0; i < session->nothers; i++)
		p->modules[p->nmodules++].recorded = &session->others[i];
	return p;
}

static void free_place(struct ip_place *place)
{
	free((char *)place->function);
	free((char *)place->name);
	free((char *)place->file);
	free(place);
}

void ip_symbolizer_destroy(struct ip_symbolizer *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->nmodules; i++) {
		if (p->modules[i].dwfl)
			dwfl_end(p->modules[i].dwfl);
		ip_elf_close(p->modules[i].elf);
		ip_probe_list_destroy(p->modules[i].list);
		free(p->modules[i].functions);
	}
	for (size_t i = 0; i < p->size; i++)
		if (p->index[i])
			free_place(p->index[i]);
	free(p->index);
	free(p->modules);
	free(p);
}

static int by_address(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Opens the copy of the probe list. A list that is missing or damaged is no error: less is known
 * then. */
static void open_list(struct ip_symbolizer *p, struct module *m)
{
	const struct ip_recording_members *members = p->session->members;
	_cleanup_free_ char *path = NULL;

	if (strspn(m->recorded->build_id, "0123456789abcdef") != strlen(m->recorded->build_id) ||
	    asprintf(&path, "%s%s%s/%s/%s.probes", p->dir, members ? "/" : "",
		     members ? members->items[m->recorded->member].name : "", IP_TRACE_SUBDIR,
		     m->recorded->build_id) < 0)
		return;
	if (ip_access(path, R_OK) < 0 || ip_probe_list_load(path, &m->list) < 0)
		return;
	m->functions = calloc(m->list->header->nfunctions + 1, sizeof(*m->functions));
	for (uint32_t i = 0; m->functions && i < m->list->header->nfunctions; i++) {
		const struct ip_pl_function *f = &m->list->functions[i];

		if (f->address)
			m->functions[m->nfunctions++] = (struct function){
				f->address, ip_probe_list_string(m->list, f->name)};
	}
	if (m->nfunctions)
		qsort(m->functions, m->nfunctions, sizeof(*m->functions), by_address);
}

static void open_file(struct module *m)
{
	char id[2 * sizeof(m->elf->build_id) + 1];
	int fd;

	if (*m->recorded->path != '/' || ip_access(m->recorded->path, R_OK) < 0 ||
	    ip_elf_open(m->recorded->path, &m->elf) < 0)
		return;
	if (strcmp(ip_build_id_format(m->elf->build_id, m->elf->build_id_size, id),
		   m->recorded->build_id)) {
		ip_elf_close(m->elf);
		m->elf = NULL;
		return;
	}
	m->dwfl = dwfl_begin(&ip_debug_file_callbacks);
	fd = m->dwfl ? dup(m->elf->fd) : -1;
	if (fd < 0)
		return;
	dwfl_report_begin(m->dwfl);
	m->debug = dwfl_report_elf(m->dwfl, m->recorded->path, m->recorded->path, fd,
				   m->recorded->load_bias, true);
	m->search.root = -1;
	if (m->debug)
		ip_debug_file_set_search(m->debug, &m->search);
	else
		close(fd);
	dwfl_report_end(m->dwfl, NULL, NULL);
}

static void look(struct ip_symbolizer *p, struct module *m)
{
	if (m->looked || !m->recorded->present)
		return;
	m->looked = true;
	open_file(m);
	open_list(p, m);
}

static bool is_in_file(const struct module *m, uint64_t address)
{
	uint64_t at = address - m->recorded->load_bias;

	for (size_t i = 0; m->elf && i < m->elf->nloads; i++)
		if (at >= m->elf->loads[i].vaddr &&
		    at - m->elf->loads[i].vaddr < m->elf->loads[i].memsz)
			return true;
	return false;
}

/* Returns the last function of the list that begins at or before the address; NULL: there is
 * none near it. */
static const struct function *find_listed(const struct module *m, uint64_t address)
{
	uint64_t at = address - m->recorded->load_bias;
	size_t low = 0, high = m->nfunctions;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->functions[middle].address <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low && at - m->functions[low - 1].address < FUNCTION_MAX ? &m->functions[low - 1]
									: NULL;
}

/* The modules of a member: those with probes, then the others. NULL: it has none of this index. */
static size_t count_modules(const struct ip_symbolizer *p, uint32_t member)
{
	const struct ip_recording_member *m;

	if (!p->session->members)
		return p->nmodules;
	m = &p->session->members->items[member];
	return m->own->nmodules + m->nothers;
}

static struct module *module_at(struct ip_symbolizer *p, uint32_t member, size_t i)
{
	const struct ip_recording_member *m;

	if (!p->session->members)
		return &p->modules[i];
	m = &p->session->members->items[member];
	if (i >= m->own->nmodules)
		return &p->modules[p->nrecorded + m->others + i - m->own->nmodules];
	return m->modules[i] == IP_NO_MODULE ? NULL : &p->modules[m->modules[i]];
}

/* Returns the index of the module where the member has loaded it; SIZE_MAX: it has not. */
static size_t loaded_as(const struct ip_symbolizer *p, uint32_t member, uint32_t module)
{
	const struct ip_recording_member *m;

	if (module >= p->nrecorded || !p->session->members)
		return module < p->nrecorded ? module : SIZE_MAX;
	m = &p->session->members->items[member];
	for (size_t i = 0; i < m->own->nmodules; i++)
		if (m->modules[i] != IP_NO_MODULE &&
		    p->session->modules[m->modules[i]].same_as == module)
			return m->modules[i];
	return SIZE_MAX;
}

/* Finds the module of the address: the module whose file has the address, else the module whose
 * list has a function just before it. */
static struct module *find_module(struct ip_symbolizer *p, uint32_t member, uint64_t address)
{
	size_t n = count_modules(p, member);
	struct module *found = NULL;
	uint64_t nearest = UINT64_MAX;

	for (size_t i = 0; i < n; i++) {
		struct module *m = module_at(p, member, i);
		const struct function *f;

		if (!m)
			continue;
		look(p, m);
		if (is_in_file(m, address))
			return m;
		f = m->elf ? NULL : find_listed(m, address);
		if (f && address - m->recorded->load_bias - f->address < nearest) {
			nearest = address - m->recorded->load_bias - f->address;
			found = m;
		}
	}
	return found;
}

/* Finds the function of the address: of the symbol and the listed function, the one that begins
 * nearer. A symbol that ends before the address does not count. */
static void find_function(const struct module *m, uint64_t address, struct ip_place *ret)
{
	const struct function *listed = find_listed(m, address);
	const char *name = NULL;
	GElf_Off offset = 0;
	GElf_Sym sym;

	if (m->debug)
		name = dwfl_module_addrinfo(m->debug, address, &offset, &sym, NULL, NULL, NULL);
	if (name && sym.st_size && offset >= sym.st_size)
		name = NULL;
	/* A list says where functions with probes begin and tells nothing of the functions
	 * between them. So a symbol with a size is better. */
	if (listed && (!name || !sym.st_size)) {
		uint64_t distance = address - m->recorded->load_bias - listed->address;

		if (!name || distance <= offset) {
			name = listed->name;
			offset = distance;
		}
	}
	if (!name)
		return;
	ret->function = strndup(name, ip_base_name_length(name));
	ret->name = ret->function ? ip_demangle(ret->function, false) : NULL;
	ret->offset = offset + 1; /* offset of the return address */
}

static void find_line(const struct module *m, uint64_t address, struct ip_place *ret)
{
	Dwfl_Line *line = m->debug ? dwfl_module_getsrc(m->debug, address) : NULL;
	const char *file;
	int number;

	file = line ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;
	if (!file || number <= 0)
		return;
	ret->file = strdup(file);
	ret->line = number;
}

static struct ip_place *make_place(struct ip_symbolizer *p, uint32_t member, size_t chosen,
				   uint64_t return_address)
{
	struct ip_place *place = calloc(1, sizeof(*place));
	/* The call may be the last instruction of its function, and the instruction after it may
	 * have another line. So look up an address within the call. */
	uint64_t address = return_address - !!return_address;
	struct module *m;

	if (!place)
		return NULL;
	place->address = return_address;
	place->chosen = chosen;
	place->member = member;
	m = chosen ? &p->modules[chosen - 1] : find_module(p, member, address);
	if (m) {
		const char *slash = strrchr(m->recorded->path, '/');

		place->module = slash && slash[1] ? slash + 1 : m->recorded->path;
		find_function(m, address, place);
		find_line(m, address, place);
	}
	return place;
}

static size_t slot_of(const struct ip_symbolizer *p, uint32_t member, size_t chosen,
		      uint64_t address)
{
	size_t at = ((address + chosen + ((uint64_t)member << 48)) * 0x9e3779b97f4a7c15ull >> 20) &
		    (p->size - 1);

	while (p->index[at] && (p->index[at]->address != address ||
				p->index[at]->chosen != chosen || p->index[at]->member != member))
		at = (at + 1) & (p->size - 1);
	return at;
}

static int grow(struct ip_symbolizer *p)
{
	struct ip_symbolizer old = *p;

	p->size = old.size ? 2 * old.size : 256;
	p->index = calloc(p->size, sizeof(struct ip_place *));
	if (!p->index) {
		*p = old;
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < old.size; i++)
		if (old.index[i])
			p->index[slot_of(p, old.index[i]->member, old.index[i]->chosen,
					 old.index[i]->address)] = old.index[i];
	free(old.index);
	return 0;
}

const struct ip_place *ip_symbolizer_get(struct ip_symbolizer *p, uint32_t member, uint32_t callee,
					 uint64_t return_address)
{
	size_t at, chosen = 0, loaded = loaded_as(p, member, callee);

	if (loaded != SIZE_MAX) {
		look(p, &p->modules[loaded]);
		chosen = is_in_file(&p->modules[loaded], return_address - !!return_address)
				 ? loaded + 1
				 : 0;
	}
	if (2 * (p->n + 1) > p->size && grow(p) < 0)
		return NULL;
	at = slot_of(p, member, chosen, return_address);
	if (!p->index[at]) {
		p->index[at] = make_place(p, member, chosen, return_address);
		if (!p->index[at]) {
			ip_error("out of memory");
			return NULL;
		}
		p->n++;
	}
	return p->index[at];
}

char *ip_place_text(const struct ip_place *place)
{
	const char *slash = place->file ? strrchr(place->file, '/') : NULL;
	const char *file = slash ? slash + 1 : place->file;
	char line[16] = "", *text;
	int n;

	if (file)
		snprintf(line, sizeof(line), ":%" PRIu32, place->line);
	if (place->name)
		n = asprintf(&text, "%s+0x%" PRIx64 "%s%s%s", place->name, place->offset,
			     file ? " " : "", file ? file : "", line);
	else
		n = asprintf(&text, "%#" PRIx64 "%s%s%s%s%s", place->address,
			     place->module ? " in " : "", place->module ? place->module : "",
			     file ? " " : "", file ? file : "", line);
	if (n < 0)
		return NULL;
	ip_clean(text);
	return text;
}
