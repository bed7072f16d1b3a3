/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first few names of a list.
 */
#include "common/names/name_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/names/short_name.h"
#include "common/selection/selection.h"

#define SIZE sizeof(((struct ip_name_list *)0)->names[0])

char *ip_name_for_people(const char *linker_name)
{
	_cleanup_free_ char *demangled = ip_demangle(linker_name, false);

	return demangled ? ip_short_name(demangled, IP_SHORT_NAME_LIMIT) : NULL;
}

static void make_short(const char *linker_name, char ret[SIZE])
{
	_cleanup_free_ char *name = ip_name_for_people(linker_name);
	const char *text = name ? name : linker_name;

	if (snprintf(ret, SIZE, "%s", text) >= (int)SIZE)
		memcpy(ret + SIZE - 4, "...", 4);
}

static uint32_t find(const struct ip_name_list *list, const char *name)
{
	uint32_t i = 0;

	while (i < list->shown && strcmp(list->names[i], name))
		i++;
	return i;
}

static void show(struct ip_name_list *list, const char *name)
{
	if (list->shown < IP_NAMES_TOLD && find(list, name) == list->shown)
		memcpy(list->names[list->shown++], name, SIZE);
}

void ip_name_list_add(struct ip_name_list *list, const char *linker_name)
{
	char name[SIZE];

	list->n++;
	if (list->shown == IP_NAMES_TOLD)
		return;
	make_short(linker_name, name);
	show(list, name);
}

void ip_name_list_remove(struct ip_name_list *list, const char *linker_name)
{
	char name[SIZE];
	uint32_t at;

	list->n -= list->n > 0;
	make_short(linker_name, name);
	at = find(list, name);
	if (at == list->shown)
		return;
	list->shown--;
	memmove(list->names[at], list->names[at + 1], (list->shown - at) * SIZE);
}

void ip_name_list_join(struct ip_name_list *to, const struct ip_name_list *from)
{
	to->n += from->n;
	for (uint32_t i = 0; i < from->shown && i < IP_NAMES_TOLD; i++)
		show(to, from->names[i]);
}

const char *ip_name_list_text(const struct ip_name_list *list, char text[IP_NAME_LIST_TEXT])
{
	size_t used = 0;

	*text = '\0';
	for (uint32_t i = 0; i < list->shown; i++)
		used += snprintf(text + used, IP_NAME_LIST_TEXT - used, "%s%s", i ? ", " : "",
				 list->names[i]);
	if (list->n > list->shown)
		snprintf(text + used, IP_NAME_LIST_TEXT - used, "%s...", used ? ", " : "");
	return text;
}
