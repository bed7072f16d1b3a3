/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names sites. The most trusted source comes first: the function whose address the code passes to
 * the hook; then the innermost function, inlined ones included, that debug information gives; then
 * the symbol that holds the site.
 */
#include "coldpatch/sites/attribute.h"

#include "coldpatch/elf/debug.h"
#include "coldpatch/sites/arch.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"

#include <inttypes.h>
#include <string.h>

struct namer {
	const struct cold_module *m;
	const struct cold_hooks *hooks;
	const struct cold_arch *arch;
	struct cold_debug *debug;
	const struct ip_selection *exclude; /* NULL: nothing */
	/* by root range: the member that is the main part of the function; COLD_NONE */
	uint32_t *owners;
	bool *early;	  /* by root range: it runs before the module is relocated */
	bool *entered;	  /* by root range: it has an entry */
	char made_up[32]; /* made-up name for a function without a name */
};

struct function {
	const char *name;
	size_t length; /* of the name, without a suffix */
	uint64_t address;
};

static const char *make_up_name(struct namer *n, uint64_t address)
{
	snprintf(n->made_up, sizeof(n->made_up), "sub_%" PRIx64, address);
	return n->made_up;
}

static bool is_code(const struct cold_module *m, uint64_t address)
{
	const struct cold_section *s = cold_module_section(m, address, 1);

	return s && s->exec && !s->plt;
}

/* Returns 1 and the address of the function (0 if it is in another module; then *ret_name is its
 * name); 0: unknown. */
static int argument_address(const struct cold_module *m, const struct cold_hooks *hooks,
			    const struct cold_arch *arch, const struct cold_site *site,
			    uint64_t *ret_address, const char **ret_name)
{
	uint64_t address = site->argument;

	*ret_name = NULL;
	if (site->argument_kind == COLD_ARGUMENT_UNKNOWN)
		return 0;
	if (site->argument_kind == COLD_ARGUMENT_SLOT) {
		const struct cold_reloc *r = cold_module_reloc(m, site->argument);
		const uint8_t *bytes = cold_module_bytes(m, site->argument, m->bits / 8);

		if (r && r->symbol && arch->reloc_is_slot(r->type)) {
			*ret_name = r->symbol;
			*ret_address = r->defined ? r->value : 0;
			return *r->symbol != '\0';
		}
		if (r && !arch->module.reloc_is_relative(r->type))
			return 0;
		address = 0;
		if (r)
			address = (uint64_t)r->addend;
		else if (bytes)
			memcpy(&address, bytes, m->bits / 8);
		else
			return 0;
	}
	if (is_code(m, address)) {
		*ret_address = address;
		return 1;
	}
	/* the address of a function of another module is that of our own stub for it */
	*ret_name = cold_stub_name(m, hooks, address);
	*ret_address = 0;
	return *ret_name != NULL;
}

bool cold_site_is_known(const struct cold_module *m, const struct cold_hooks *hooks,
			const struct cold_site *site)
{
	uint64_t address;
	const char *name;

	return argument_address(m, hooks, cold_arch_for_machine(m->elf->ehdr.e_machine), site,
				&address, &name);
}

static struct function named(const char *name, size_t length, uint64_t address)
{
	return (struct function){.name = name, .length = length, .address = address};
}

static struct function function_at(struct namer *n, uint64_t address)
{
	const struct cold_symbol *symbol = cold_module_symbol(n->m, address);
	const struct cold_debug_function *known;
	const char *name;

	if (symbol)
		return named(symbol->name, strcspn(symbol->name, "@"), address);
	known = cold_debug_by_address(n->debug, address);
	name = known ? known->name : make_up_name(n, address);
	return named(name, strlen(name), address);
}

/* Whether a symbol at address has this name. Suffixes that compilers append do not count. */
static bool has_name(const struct cold_module *m, uint64_t address, const char *name, size_t length)
{
	const struct cold_symbol *s = cold_module_symbol(m, address);

	for (; s && s < m->symbols + m->nsymbols && s->address == address; s++)
		if (ip_base_name_length(s->name) == length && !memcmp(s->name, name, length))
			return true;
	return false;
}

/* Returns the function whose code holds the site. Cold parts get the name of their function. Clones
 * get the compiler's name for them. */
static struct function owner_of(struct namer *n, const struct cold_site *site)
{
	struct function f = {0};
	const char *name;
	uint32_t proper;

	if (site->range == COLD_NONE)
		return f;
	proper = n->owners[cold_range_root(n->m, site->range)];
	name = cold_range_name(n->m, site->range);
	if (!cold_range_is_cold(n->m, site->range)) {
		if (!name)
			return function_at(n, n->m->ranges[site->range].start);
		return named(name, strcspn(name, "@"), n->m->ranges[site->range].start);
	}
	if (!name)
		return function_at(n,
				   n->m->ranges[proper == COLD_NONE ? site->range : proper].start);
	/* clang's cold parts are functions, and other functions call them */
	if (proper == COLD_NONE && n->entered[cold_range_root(n->m, site->range)])
		return named(name, strcspn(name, "@"), n->m->ranges[site->range].start);
	f = named(name, ip_base_name_length(name), 0);
	if (proper == COLD_NONE || !has_name(n->m, n->m->ranges[proper].start, f.name, f.length))
		return f;
	/* uses the same name as at the other sites: a constructor has several names */
	name = cold_range_name(n->m, proper);
	if (!name)
		return function_at(n, n->m->ranges[proper].start);
	return named(name, strcspn(name, "@"), n->m->ranges[proper].start);
}

static bool same_function(struct function a, struct function b)
{
	size_t la = ip_base_name_length(a.name), lb = ip_base_name_length(b.name);

	if (a.address && a.address == b.address)
		return true;
	return la == lb && !memcmp(a.name, b.name, la);
}

static bool is_excluded(const struct namer *n, const char *name, const char *file,
			struct cold_attribution *count)
{
	if (!n->exclude || !ip_selection_match(n->exclude, name, file, n->m->path))
		return false;
	count->excluded++;
	return true;
}

/* Adds a point or a scope. It counts as a function of its own. There is one function for all sites
 * of a name, in the file of the first of these sites. A scope is like an inlined instance: its
 * frame is that of the function that holds it. */
static int add_given(struct namer *n, const struct cold_site *site,
		     struct ip_probe_list_builder *builder, struct cold_attribution *count)
{
	struct ip_pl_probe probe = {
		.offset = site->address,
		.kind = site->kind,
		.length = site->length,
		.form = site->form,
		.regs = site->regs,
	};
	const char *file = NULL;
	int64_t function;

	if (!cold_debug_line(n->debug, site->address, &file, &probe.line))
		probe.line = 0;
	if (is_excluded(n, site->name, probe.line ? file : NULL, count))
		return 0;
	function = ip_probe_list_builder_function(builder, site->name, 0, probe.line ? file : NULL,
						  probe.line);
	if (function < 0)
		return -1;
	probe.function = (uint32_t)function;
	if (site->kind != IP_PROBE_POINT)
		probe.flags |= IP_PROBE_INLINED;
	if (site->entry_only)
		probe.flags |= IP_PROBE_ENTRY_ONLY;
	if (site->flags_dead)
		probe.flags |= IP_PROBE_FLAGS_DEAD;
	return ip_probe_list_builder_probe(builder, &probe, site->args, site->arg_text);
}

static int add_probe(struct namer *n, const struct cold_site *site,
		     struct ip_probe_list_builder *builder, struct cold_attribution *count)
{
	struct function owner = owner_of(n, site), f = {0};
	const struct cold_debug_function *known = NULL;
	_cleanup_free_ char *own_name = NULL, *name = NULL;
	const char *stated, *file = NULL, *row_file = NULL;
	uint32_t line = 0, row_line = 0;
	uint64_t address;
	struct ip_pl_probe probe;
	int64_t function;
	bool inlined, unsure = false, scope_inlined = false;

	if (site->range != COLD_NONE && n->early[cold_range_root(n->m, site->range)])
		return 0;
	/* made-up names share one buffer */
	if (owner.name == n->made_up) {
		own_name = strdup(owner.name);
		if (!own_name)
			return ip_error("out of memory");
		owner.name = own_name;
	}
	if (site->naming == COLD_NAME_BY_SYMBOL && owner.name) {
		f = owner;
		count->by_symbol++;
	} else if (site->naming == COLD_NAME_BY_ARGUMENT &&
		   argument_address(n->m, n->hooks, n->arch, site, &address, &stated)) {
		f = address ? function_at(n, address) : named(stated, strcspn(stated, "@"), 0);
		count->by_code++;
	} else if ((stated = cold_debug_scope(n->debug, site->address, &scope_inlined)) &&
		   *stated) {
		known = cold_debug_by_name(n->debug, stated);
		f = named(stated, strlen(stated), known ? known->address : 0);
		/* the symbol's name is better: in debug information a function local to its file
		 * has no linker name */
		if (owner.name && !own_name && site->naming == COLD_NAME_BY_DEBUG && !scope_inlined)
			f = owner;
		else if (owner.name && same_function(f, owner))
			f.address = owner.address;
		count->by_debug++;
	} else {
		f = owner;
		if (!f.name) {
			stated = make_up_name(n, site->address);
			f = named(stated, strlen(stated), site->address);
		}
		/*
		 * Most likely this is an exit that an optimiser merged from several inlined
		 * functions. If it counted as the owner's exit, it would close the owner's frame.
		 */
		unsure = site->depth == COLD_DEPTH_UNKNOWN;
		count->by_symbol++;
	}
	name = strndup(f.name, f.length);
	if (!name)
		return ip_error("out of memory");
	f.name = name;
	inlined = unsure || (site->naming == COLD_NAME_BY_DEBUG && scope_inlined) ||
		  (owner.name && !same_function(f, owner));
	if (site->depth != COLD_DEPTH_UNKNOWN &&
	    site->depth >= (site->kind == IP_PROBE_ENTRY ? 1 : 2))
		inlined = true;

	known = cold_debug_by_address(n->debug, f.address);
	if (!known || !known->file)
		known = cold_debug_by_name(n->debug, name);
	if (!known || !known->file) {
		_cleanup_free_ char *base = strndup(name, ip_base_name_length(name));

		known = base ? cold_debug_by_name(n->debug, base) : NULL;
	}
	if (known && known->file) {
		file = known->file;
		line = known->line;
	} else if (f.address) {
		cold_debug_line(n->debug, f.address, &file, &line);
	}
	/* a line counts only if it is in the function's own file: the probe has no file of its
	 * own */
	if (!cold_debug_line(n->debug, site->address, &row_file, &row_line) || !file ||
	    strcmp(file, row_file))
		row_line = 0;
	if (is_excluded(n, name, file, count))
		return 0;
	count->inlined += inlined;
	function = ip_probe_list_builder_function(builder, name, f.address, file, line);
	if (function < 0)
		return -1;
	probe = (struct ip_pl_probe){
		.offset = site->address,
		.function = (uint32_t)function,
		.line = row_line,
		.kind = site->kind,
		.length = site->length,
		.flags = inlined ? IP_PROBE_INLINED : 0,
		.form = site->form,
		.regs = site->regs,
		.frame = inlined ? 0 : site->frame,
	};
	if (site->form == IP_FORM_TAIL)
		probe.jump = site->jump;
	if (site->entry_only)
		probe.flags |= IP_PROBE_ENTRY_ONLY;
	if (site->flags_dead)
		probe.flags |= IP_PROBE_FLAGS_DEAD;
	return ip_probe_list_builder_probe(builder, &probe, site->args, site->arg_text);
}

static void note_early(struct namer *n, uint64_t address)
{
	uint32_t range = cold_module_range(n->m, address);

	if (range != COLD_NONE)
		n->early[cold_range_root(n->m, range)] = true;
}

/* Finds resolvers of ifuncs. No hook may run there, since nothing that a hook needs is ready at
 * that time. If they are local and stripped, the relocations still tell where they are. */
static void find_early(struct namer *n)
{
	for (size_t i = 0; i < n->m->nsymbols; i++)
		if (n->m->symbols[i].resolver)
			note_early(n, n->m->symbols[i].address);
	for (size_t i = 0; i < n->m->nrelocs && n->arch->reloc_is_resolved; i++)
		if (n->arch->reloc_is_resolved(n->m->relocs[i].type))
			note_early(n, n->m->relocs[i].addend);
}

static void find_entered(struct namer *n, const struct cold_sites *sites)
{
	for (size_t i = 0; i < sites->n; i++)
		if (sites->sites[i].kind == IP_PROBE_ENTRY && sites->sites[i].range != COLD_NONE)
			n->entered[cold_range_root(n->m, sites->sites[i].range)] = true;
}

/* In some of the thunks that gcc makes for virtual functions it marks the exit and not the entry.
 * Such a site belongs to no function of the program. */
static bool is_of_thunk(const struct namer *n, const struct cold_site *site)
{
	return site->naming == COLD_NAME_BY_SYMBOL && site->kind != IP_PROBE_ENTRY &&
	       site->range != COLD_NONE && !cold_range_is_cold(n->m, site->range) &&
	       !n->entered[cold_range_root(n->m, site->range)];
}

int cold_attribute(const struct cold_module *m, const struct cold_hooks *hooks,
		   const struct cold_sites *sites, const struct ip_selection *exclude,
		   struct ip_probe_list_builder *builder, struct cold_attribution *ret)
{
	struct namer n = {.m = m,
			  .hooks = hooks,
			  .arch = cold_arch_for_machine(m->elf->ehdr.e_machine),
			  .exclude = exclude};
	int result = -1;

	memset(ret, 0, sizeof(*ret));
	n.owners = malloc((m->nranges + 1) * sizeof(*n.owners));
	n.early = calloc(m->nranges + 1, sizeof(*n.early));
	n.entered = calloc(m->nranges + 1, sizeof(*n.entered));
	if (!n.owners || !n.early || !n.entered) {
		free(n.owners);
		free(n.early);
		free(n.entered);
		return ip_error("out of memory");
	}
	find_early(&n);
	find_entered(&n, sites);
	memset(n.owners, 0xff, (m->nranges + 1) * sizeof(*n.owners));
	for (uint32_t i = 0; i < m->nranges; i++) {
		uint32_t root = cold_range_root(m, i);

		if (n.owners[root] == COLD_NONE && !cold_range_is_cold(m, i))
			n.owners[root] = i;
	}
	if (cold_debug_open(m, &n.debug))
		goto out;
	for (size_t i = 0; i < sites->n; i++) {
		const struct cold_site *site = &sites->sites[i];

		if (is_of_thunk(&n, site))
			continue;
		if (site->naming == COLD_NAME_GIVEN ? add_given(&n, site, builder, ret)
						    : add_probe(&n, site, builder, ret))
			goto out;
	}
	result = 0;
out:
	cold_debug_close(n.debug);
	free(n.owners);
	free(n.early);
	free(n.entered);
	return result;
}
