/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits a line byte by byte: terminals send the bytes of a character one after the other.
 */
#include "cli/screen/screen_line.h"

#include <string.h>

#include "cli/screen/screen.h"

enum cli_screen_line cli_screen_line_key(char *text, size_t size, int key)
{
	size_t n = strlen(text);

	if (key == '\r' || key == '\n')
		return CLI_SCREEN_LINE_DONE;
	if (key == CLI_KEY_ESCAPE)
		return CLI_SCREEN_LINE_LEFT;
	if (key == 0x7f || key == '\b') {
		while (n && (text[n - 1] & 0xc0) == 0x80) /* the other bytes of a character */
			n--;
		text[n ? n - 1 : 0] = '\0';
	} else if (key == 'U' - '@') {
		*text = '\0';
	} else if (key >= ' ' && key < 256 && n + 1 < size) {
		text[n] = (char)key;
		text[n + 1] = '\0';
	}
	return CLI_SCREEN_LINE_OPEN;
}
