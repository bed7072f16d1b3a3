/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles one module from end to end:
 *
 *  1. Read it. If it has a list already, check the list and stop.
 *  2. Find the sites (or refuse the module). Each kind has its finder (find.h).
 *  3. Name each site, and make the list.
 *  4. Write new files, check that the module is still the one that was read, and rename.
 */
#include "coldpatch/coldpatch.h"

#include "coldpatch/elf/debug.h"
#include "coldpatch/sites/arch.h"
#include "coldpatch/sites/attribute.h"
#include "coldpatch/sites/find.h"
#include "coldpatch/write/atomic_file.h"
#include "coldpatch/write/emit_relocs.h"
#include "coldpatch/write/list_path.h"
#include "coldpatch/write/rewrite.h"
#include "common/arch/arch.h"
#include "common/cleanup.h"
#include "common/elf/note.h"
#include "common/error.h"
#include "common/file.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

const char *ip_coldpatch_status_name(enum ip_coldpatch_status status)
{
	static const char *const names[] = {
		[IP_COLDPATCH_PATCHED] = "patched",
		[IP_COLDPATCH_ALREADY] = "already",
		[IP_COLDPATCH_DRY_RUN] = "dry-run",
		[IP_COLDPATCH_NO_PROBES] = "no-probes",
	};

	return names[status];
}

static void count(const struct ip_probe_list *list, struct ip_coldpatch_result *ret)
{
	ip_build_id_format(list->header->build_id, list->header->build_id_size, ret->build_id);
	ret->found_by = list->header->found_by;
	ret->placement = list->header->placement;
	ret->sites = list->header->nprobes;
	ret->functions = list->header->nfunctions;
	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		ret->entry += list->probes[i].kind == IP_PROBE_ENTRY;
		ret->exit += list->probes[i].kind == IP_PROBE_EXIT;
		ret->tail_exit += list->probes[i].kind == IP_PROBE_TAIL_EXIT;
		ret->point += list->probes[i].kind == IP_PROBE_POINT;
		ret->inlined += (list->probes[i].flags & IP_PROBE_INLINED) != 0;
	}
}

/* Checks a module that has a list. The list must be this module's, every site must be idle, and no
 * call of an instrumentation function may be left. */
static int check_patched(struct cold_module *m, const struct ip_probe_list *list)
{
	const struct ip_arch *arch = ip_arch_for_machine(m->elf->ehdr.e_machine);
	const struct cold_arch *code = cold_arch_for_machine(m->elf->ehdr.e_machine);
	struct cold_sites sites = {0};
	struct cold_hooks hooks;
	int result;

	if (!arch || !code)
		return ip_error("%s: unknown machine %u", m->path, m->elf->ehdr.e_machine);
	if (list->header->machine != m->elf->ehdr.e_machine ||
	    list->header->build_id_size != m->elf->build_id_size ||
	    memcmp(list->header->build_id, m->elf->build_id, m->elf->build_id_size))
		return ip_error("%s: its probe list belongs to another build; link it again",
				m->path);
	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *probe = &list->probes[i];
		const uint8_t *bytes = cold_module_bytes(m, probe->offset, probe->length);
		uint8_t idle[IP_SITE_MAX];

		if (!bytes || arch->idle(probe->form, probe->length, ip_probe_jump(probe), idle) ||
		    memcmp(bytes, idle, probe->length))
			return ip_error("%s: its probe list names a site at 0x%lx, which is not a "
					"NOP; link it again",
					m->path, (unsigned long)probe->offset);
	}
	/* if relocations or tables named the sites, no call was left over */
	if (!(list->header->found_by & IP_FOUND_BY_DECODING))
		return 0;
	if (cold_hooks_find(m, &hooks))
		return -1;
	result = code->sweep(m, &hooks, false, &sites);
	if (!result && sites.n)
		result = ip_error("%s: has a probe list, but still calls an instrumentation "
				  "function at 0x%lx; link it again",
				  m->path, (unsigned long)sites.sites[0].address);
	cold_sites_destroy(&sites);
	cold_hooks_destroy(&hooks);
	return result;
}

/* Each finder looks at the module by itself, and adds the sites that it knows. */
static int (*const finders[])(struct cold_module *, struct cold_found *) = {
	cold_calls_find,      cold_site_table_find, cold_xray_find,
	cold_other_nops_find, cold_points_find,
};

/* Every probe list needs a build-id. */
static int check_build_id(const struct cold_module *m)
{
	if (!m->elf->build_id_size)
		return ip_error("%s: has no build-id, by which its probe list is found; link with "
				"-Wl,--build-id",
				m->path);
	if (m->elf->build_id_size > IP_BUILD_ID_MAX)
		return ip_error("%s: its build-id has %zu bytes; link with -Wl,--build-id=sha1",
				m->path, m->elf->build_id_size);
	return 0;
}

/* Adds what the module brings along for the hotpatcher: room for stubs, a runtime. */
static int add_places(struct cold_module *m, const struct cold_found *found,
		      struct ip_probe_list_builder *builder)
{
	uint64_t room = 0, room_size = 0, anchor = 0, anchor_size = 0;

	if (ip_elf_note_place(m->elf, IP_NOTE_ROOM, &room, &room_size) < 0 ||
	    ip_elf_note_place(m->elf, IP_NOTE_ANCHOR, &anchor, &anchor_size) < 0)
		return -1;
	ip_probe_list_builder_header(builder, found->found_by, room, room_size, anchor);
	return 0;
}

/* Finds the sites of a module without a list, and makes the list. *ret_list is NULL if the module
 * has no sites. */
static int analyse(struct cold_module *m, const struct ip_coldpatch_options *o,
		   struct cold_found *found, void **ret_list, size_t *ret_size,
		   struct cold_attribution *attribution)
{
	struct ip_probe_list_builder *builder = NULL;
	int result = -1;

	*ret_list = NULL;
	for (size_t i = 0; i < sizeof(finders) / sizeof(finders[0]); i++)
		if (finders[i](m, found))
			return -1;
	if (!found->sites.n)
		return 0;
	cold_sites_sort(&found->sites);
	if (check_build_id(m) || cold_sites_check(m, &found->sites))
		return -1;
	if (ip_probe_list_builder_create(m->elf->ehdr.e_machine, found->placement, m->elf->build_id,
					 m->elf->build_id_size, &builder))
		return -1;
	if (!add_places(m, found, builder) &&
	    !cold_attribute(m, &found->hooks, &found->sites, o->exclude, builder, attribution) &&
	    !ip_probe_list_builder_finish(builder, ret_list, ret_size))
		result = 0;
	ip_probe_list_builder_destroy(builder);
	return result;
}

static int unchanged(const struct cold_module *m, const struct stat *before)
{
	struct stat now, there;

	if (fstat(m->elf->fd, &now) || stat(m->path, &there))
		return ip_error_errno("%s", m->path);
	if (now.st_size != before->st_size || now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != before->st_mtim.tv_nsec || there.st_ino != before->st_ino ||
	    there.st_dev != before->st_dev)
		return ip_error("%s: somebody else changed it meanwhile", m->path);
	return 0;
}

/* Step 4. sites is NULL if the module itself does not change. has_list: the module has its list
 * already. */
static int write_out(const struct cold_module *m, const struct ip_coldpatch_options *o,
		     const struct cold_sites *sites, const void *list, size_t size, bool has_list,
		     const struct stat *before)
{
	const struct cold_rewrite_how how = {
		.keep_relocs = o->keep_relocs && !o->strip,
		.drop_debug = o->drop_debug && cold_debug_is_ours(m),
		.strip = o->strip,
		.drop_list = o->list != NULL,
	};
	const void *added = has_list || (o->strip && o->list) ? NULL : list;
	_cleanup_free_ char *place = NULL;
	struct cold_atomic_file module = COLD_NEW_FILE_NONE, listing = COLD_NEW_FILE_NONE;
	struct ip_dir_place where;
	struct sigaction ignore = {.sa_handler = SIG_IGN}, too_big;
	struct stat like = *before;
	sigset_t all, old;
	int result = -1;

	/* Ctrl-C in a build must not leave a file with a temporary name. A limit on file sizes must
	 * be an error like any other. */
	sigfillset(&all);
	/* the kernel keeps a blocked signal for later even if it is ignored */
	sigdelset(&all, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	sigaction(SIGXFSZ, &ignore, &too_big);
	if (o->list) {
		like.st_mode = before->st_mode & 0666;
		place = cold_list_path(o->list, m->elf->build_id, m->elf->build_id_size);
		if (!place || cold_list_path_open(o->list, place, &where) ||
		    cold_atomic_file_open_at(place, &where, &listing) ||
		    cold_atomic_file_write(&listing, list, size, 0) ||
		    cold_atomic_file_resemble(&listing, m->elf->fd, &like, false))
			goto out;
	}
	if (sites || o->output) {
		if (o->output ? cold_atomic_file_open(o->output, -1, &module)
			      : cold_atomic_file_open(m->path, m->elf->fd, &module))
			goto out;
		if (sites ? cold_rewrite(m, sites, added, size, &how, &module)
			  : cold_rewrite_copy_all(m, &module))
			goto out;
		if (cold_atomic_file_resemble(&module, m->elf->fd, before, !o->output) ||
		    unchanged(m, before))
			goto out;
	}
	if (listing.fd >= 0 && cold_atomic_file_commit(&listing))
		goto out;
	if (module.fd >= 0 && cold_atomic_file_commit(&module))
		goto out;
	result = 0;
out:
	cold_atomic_file_release(&listing);
	cold_atomic_file_release(&module);
	sigaction(SIGXFSZ, &too_big, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return result;
}

/* Whether an earlier run has moved the module's list to the place that the user names now. */
static bool has_list_elsewhere(struct cold_module *m, const struct ip_coldpatch_options *o,
			       struct ip_probe_list **ret)
{
	_cleanup_free_ char *place = NULL;

	if (!o->list || !m->elf->build_id_size)
		return false;
	place = cold_list_path(o->list, m->elf->build_id, m->elf->build_id_size);
	if (!place || ip_access(place, R_OK) || ip_probe_list_load(place, ret))
		return false;
	if (!check_patched(m, *ret))
		return true;
	ip_probe_list_destroy(*ret);
	*ret = NULL;
	return false;
}

/* Copies the unchanged module to the place that the user names. Its list stays where it is. */
static int copy_out(const struct cold_module *m, const struct ip_coldpatch_options *o,
		    const struct stat *before)
{
	const struct ip_coldpatch_options only = {.output = o->output};

	return write_out(m, &only, NULL, NULL, 0, true, before);
}

static int patch(struct cold_module *m, const struct ip_coldpatch_options *o,
		 struct ip_coldpatch_result *ret)
{
	static const struct cold_sites none;
	struct ip_probe_list *list = NULL;
	struct cold_attribution attribution = {0};
	_cleanup_free_ void *block = NULL;
	struct cold_found found = {0};
	const void *section;
	struct stat before;
	int result = -1, listed;
	size_t size;

	if (fstat(m->elf->fd, &before))
		return ip_error_errno("%s", m->path);
	listed = ip_probe_list_from_elf(m->elf->fd, m->path, &list);
	if (listed < 0)
		return -1;
	if (listed) {
		GElf_Shdr shdr;
		size_t index;

		if (check_patched(m, list) ||
		    ip_elf_section(m->elf, IP_PROBE_SECTION, &shdr, &section, &size, &index) < 0)
			goto out;
		if (!o->dry_run &&
		    write_out(m, o, o->strip ? &none : NULL, section, size, true, &before))
			goto out;
		ret->status = IP_COLDPATCH_ALREADY;
		count(list, ret);
		result = 0;
		goto out;
	}
	if (has_list_elsewhere(m, o, &list)) {
		ret->status = IP_COLDPATCH_ALREADY;
		count(list, ret);
		result = o->output && !o->dry_run ? copy_out(m, o, &before) : 0;
		goto out;
	}
	if (analyse(m, o, &found, &block, &size, &attribution))
		goto out;
	if (!block) {
		ret->status = IP_COLDPATCH_NO_PROBES;
		ret->why_none = found.why_none;
		result = 0;
		goto out;
	}
	/* a list that cannot be read back is not written */
	if (ip_probe_list_parse(block, size, &list)) {
		ip_error_prefix("%s: the probe list that was made", m->path);
		goto out;
	}
	if (!o->dry_run && write_out(m, o, &found.sites, block, size, false, &before))
		goto out;
	ret->status = o->dry_run ? IP_COLDPATCH_DRY_RUN : IP_COLDPATCH_PATCHED;
	count(list, ret);
	ret->excluded = attribution.excluded;
	ret->by_code = attribution.by_code;
	ret->by_debug = attribution.by_debug;
	ret->by_symbol = attribution.by_symbol;
	ret->other_links = o->output ? 0 : before.st_nlink - 1;
	result = 0;
out:
	if (list)
		ip_probe_list_destroy(list);
	cold_found_destroy(&found);
	return result;
}

int ip_coldpatch(const char *path, const struct ip_coldpatch_options *options,
		 struct ip_coldpatch_result *ret)
{
	struct cold_module m;
	int result;

	memset(ret, 0, sizeof(*ret));
	if (cold_module_open(path, cold_arch_module_code, &m))
		return -1;
	result = patch(&m, options, ret);
	cold_module_destroy(&m);
	return result;
}

int ip_coldpatch_drop_relocs(const char *path, bool strip)
{
	const struct ip_coldpatch_options options = {.strip = strip};
	static const struct cold_sites none;
	struct cold_module m;
	struct stat before;
	int result = 0;

	if (cold_module_open(path, cold_arch_module_code, &m))
		return -1;
	if (strip || cold_emit_relocs_exist(&m)) {
		result = fstat(m.elf->fd, &before)
				 ? ip_error_errno("%s", path)
				 : write_out(&m, &options, &none, NULL, 0, false, &before);
	}
	cold_module_destroy(&m);
	return result;
}
