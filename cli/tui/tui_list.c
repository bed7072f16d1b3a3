/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the choice in a list.
 */
#include "cli/tui/tui_list.h"

#include "cli/screen/screen.h"

void cli_tui_list_fit(struct cli_tui_list *l, size_t room)
{
	room = room ? room : 1;
	if (l->chosen >= l->n)
		l->chosen = l->n ? l->n - 1 : 0;
	if (l->chosen < l->first)
		l->first = l->chosen;
	if (l->chosen >= l->first + room)
		l->first = l->chosen - room + 1;
	if (l->first + room > l->n)
		l->first = l->n > room ? l->n - room : 0;
}

bool cli_tui_list_key(struct cli_tui_list *l, int key, size_t room)
{
	size_t page = room > 1 ? room - 1 : 1;

	switch (key) {
	case CLI_KEY_UP:
	case 'k':
		l->chosen -= l->chosen > 0;
		break;
	case CLI_KEY_DOWN:
	case 'j':
		l->chosen++;
		break;
	case CLI_KEY_PAGE_UP:
		l->chosen = l->chosen > page ? l->chosen - page : 0;
		break;
	case CLI_KEY_PAGE_DOWN:
		l->chosen += page;
		break;
	case CLI_KEY_HOME:
		l->chosen = 0;
		break;
	case CLI_KEY_END:
		l->chosen = l->n;
		break;
	default:
		return false;
	}
	cli_tui_list_fit(l, room);
	return true;
}
