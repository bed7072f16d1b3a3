/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps 2 and 3 of a live search (darc_live.c): which functions are live.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/darc/live/darc_live_private.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"
#include "hotpatcher/process/callees.h"

/* The name of a function without the compiler's suffixes: a selection means all of its parts. Valid
 * until the next call. */
const char *cli_darc_live_name(struct cli_darc_live_search *l, uint32_t node)
{
	const struct ip_darc_search *s = &l->moment.search;
	const char *name = s->session->functions[s->ftree.nodes[node].function].linker_name;

	free(l->name);
	l->name = strndup(name, ip_base_name_length(name));
	return l->name ? l->name : name;
}

/* Makes functions live beside those of the path and of handovers: so many of the list from one on.
 * what: of them, for the user. */
static int select_some(struct cli_darc_live_search *l, const char *what,
		       const struct cli_darc_names *from, size_t first, size_t n)
{
	const struct cli_darc_names *more = &l->options->handovers->names;
	struct cli_darc_names wanted = {0};
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < more->n; i++)
		ret = cli_darc_names_add(&wanted, more->items[i], SIZE_MAX);
	for (size_t i = 0; ret >= 0 && i < l->sets.path.n; i++)
		if (strcmp(l->sets.path.items[i], l->f0))
			ret = cli_darc_names_add(&wanted, l->sets.path.items[i], SIZE_MAX);
	for (size_t i = first; ret >= 0 && i < first + n && i < from->n; i++)
		if (strcmp(from->items[i], l->f0))
			ret = cli_darc_names_add(&wanted, from->items[i], SIZE_MAX);
	if (ret >= 0) {
		cli_darc_live_tell(l, what, wanted.n + 1);
		ret = cli_darc_session_select(&l->session, wanted.items, wanted.n);
	}
	cli_darc_names_clear(&wanted);
	return ret < 0 ? -1 : 0;
}

/* Whether a callee is a root cause, which is to be gone on with. */
bool cli_darc_live_goes_on(const struct cli_darc_live_search *l)
{
	const struct ip_root_causes *c = &l->moment.search.causes;

	for (size_t i = 0; i < c->n; i++)
		if (c->items[i].stop == IP_DARC_DEPTH)
			return true;
	return false;
}

/* Adds the callees that a function was seen to call. */
static int add_known(struct cli_darc_live_search *l, const char *caller)
{
	const size_t length = strlen(caller);

	for (size_t i = 0; i < l->sets.seen.n; i++)
		if (!strncmp(l->sets.seen.items[i], caller, length) &&
		    l->sets.seen.items[i][length] == ' ' &&
		    cli_darc_names_add(&l->sets.callees, l->sets.seen.items[i] + length + 1,
				       SIZE_MAX) < 0)
			return -1;
	return 0;
}

/* Adds the callees, as the code tells them, of the functions that the search is at. */
int cli_darc_live_find(struct cli_darc_live_search *l)
{
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < l->sets.below.n; i++) {
		struct ip_callees found;

		ret = ip_callees_find(l->options->session.pid, l->sets.below.items[i], &found);
		for (size_t k = 0; ret >= 0 && k < found.n; k++)
			ret = cli_darc_names_add(&l->sets.callees, found.names[k], SIZE_MAX);
		if (ret >= 0 && found.pointers)
			ret = cli_darc_names_add(&l->sets.pointers, l->sets.below.items[i],
						 SIZE_MAX);
		if (ret >= 0)
			ret = add_known(l, l->sets.below.items[i]);
		ip_callees_clear(&found);
	}
	return ret < 0 ? -1 : 0;
}

/* Whether a cause is what a thread did while an object waited for it, and may be called by
 * something there that was not live: its return address is not looked at. */
static bool is_meanwhile(const struct cli_darc_live_search *l, const struct ip_darc_cause *c)
{
	const struct ip_ftree *t = &l->moment.search.ftree;

	return c->node && t->nodes[t->nodes[c->node].parent].call_site == IP_FTREE_QUEUED;
}

/* Whether a function may be a cause for what callees take that were not live: it is a cause by
 * itself, or nothing is. */
static bool is_open(const struct cli_darc_live_search *l)
{
	const struct ip_root_causes *c = &l->moment.search.causes;

	for (size_t i = 0; i < c->n; i++)
		if (c->items[i].stop == IP_DARC_OWN || c->items[i].stop == IP_DARC_SPREAD ||
		    is_meanwhile(l, &c->items[i]))
			return true;
	return !c->n;
}

/* Callees that are causes stay live while others take their turn. */
static int keep_causes(struct cli_darc_live_search *l)
{
	const struct ip_root_causes *c = &l->moment.search.causes;

	for (size_t i = 0; i < c->n; i++)
		if (c->items[i].stop == IP_DARC_DEPTH &&
		    cli_darc_names_add(&l->sets.path, cli_darc_live_name(l, c->items[i].node),
				       SIZE_MAX) < 0)
			return -1;
	return 0;
}

/* Step 2: as many callees at once as are allowed. */
int cli_darc_live_look(struct cli_darc_live_search *l)
{
	const size_t most = l->options->max_functions;
	size_t first = 0;

	/* functions that call no others were live with their callers */
	if (!l->sets.callees.n && l->moment.trace) {
		const int decided = cli_darc_live_look_deeper(l);

		if (decided)
			return decided < 0 ? -1 : 0;
	}
	do {
		if (select_some(l, "", &l->sets.callees, first, most) < 0 ||
		    cli_darc_live_wait(l, CLI_DARC_DECIDE) < 0 || keep_causes(l) < 0)
			return -1;
		first += most;
	} while (first < l->sets.callees.n && is_open(l) && !cli_darc_live_is_left(l));
	return 0;
}

/* The name of a cause that calls through pointers, and whose callees have not been seen; NULL: it
 * is none. Valid until the next call. */
static const char *unseen_name(struct cli_darc_live_search *l, const struct ip_darc_cause *c)
{
	const bool meanwhile = is_meanwhile(l, c);
	const char *name = cli_darc_live_name(
		l, meanwhile ? l->moment.search.ftree.nodes[c->node].parent : c->node);

	return (meanwhile || c->stop != IP_DARC_DEPTH) &&
			       cli_darc_names_has(&l->sets.below, name) &&
			       cli_darc_names_has(&l->sets.pointers, name) &&
			       !cli_darc_names_has(&l->sets.known, name)
		       ? name
		       : NULL;
}

bool cli_darc_live_is_unseen(struct cli_darc_live_search *l)
{
	const struct ip_root_causes *c = &l->moment.search.causes;

	for (size_t i = 0; i < c->n; i++)
		if (unseen_name(l, &c->items[i]))
			return true;
	return false;
}

/* Adds the names of such causes. Of the others of this level callees may come to be seen that lie
 * deeper than what is looked at now, as those of a function that calls itself. */
static int add_unseen(struct cli_darc_live_search *l, struct cli_darc_names *ret)
{
	const struct ip_root_causes *c = &l->moment.search.causes;
	int added = 0;

	for (size_t i = 0; added >= 0 && i < c->n; i++) {
		const char *name = unseen_name(l, &c->items[i]);

		if (name)
			added = cli_darc_names_add(ret, name, SIZE_MAX);
	}
	return added < 0 ? -1 : 0;
}

int cli_darc_live_add_seen(struct cli_darc_live_search *l)
{
	const struct ip_ftree *t = &l->moment.search.ftree;
	int added = 0;

	for (uint32_t i = 1; i < t->n; i++) {
		_cleanup_free_ char *caller = strdup(cli_darc_live_name(l, t->nodes[i].parent)),
				    *pair = NULL;
		const char *callee = cli_darc_live_name(l, i);
		int ret;

		if (!caller)
			return ip_error("out of memory");
		if (!cli_darc_names_has(&l->sets.below, caller))
			continue;
		if (asprintf(&pair, "%s %s", caller, callee) < 0) {
			pair = NULL;
			return ip_error("out of memory");
		}
		ret = cli_darc_names_add(&l->sets.callees, callee, SIZE_MAX);
		if (ret < 0 || cli_darc_names_add(&l->sets.seen, pair, SIZE_MAX) < 0)
			return -1;
		added += ret;
	}
	return added;
}

/* Step 3. Returns whether there are more callees; -1 with an error. */
int cli_darc_live_see(struct cli_darc_live_search *l)
{
	struct cli_darc_names others = {0}, unseen = {0};
	struct ip_callees all;
	int added = 0, ret = ip_callees_all(l->options->session.pid, &all, NULL);

	if (ret >= 0)
		ret = add_unseen(l, &unseen);
	for (size_t i = 0; ret >= 0 && i < all.n; i++)
		if (!cli_darc_names_has(&l->sets.path, all.names[i]) &&
		    !cli_darc_names_has(&l->sets.callees, all.names[i]))
			ret = cli_darc_names_add(&others, all.names[i], SIZE_MAX);
	ip_callees_clear(&all);
	for (size_t first = 0; ret >= 0 && first < others.n && cli_darc_live_is_unseen(l) &&
			       !cli_darc_live_is_left(l);
	     first += l->options->max_functions) {
		l->seeing = true;
		ret = select_some(l, "which it calls through pointers: ", &others, first,
				  l->options->max_functions);
		if (ret == 0)
			ret = cli_darc_live_wait(l, CLI_DARC_SEE);
		if (ret == 0)
			ret = cli_darc_live_add_seen(l);
		added += ret > 0 ? ret : 0;
	}
	for (size_t i = 0; ret >= 0 && i < unseen.n; i++)
		ret = cli_darc_names_add(&l->sets.known, unseen.items[i], SIZE_MAX);
	cli_darc_names_clear(&unseen);
	cli_darc_names_clear(&others);
	return ret < 0 ? -1 : added;
}
