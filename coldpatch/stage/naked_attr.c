/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises naked functions. See naked_attr.h.
 */
#include "coldpatch/stage/naked_attr.h"

#include "coldpatch/stage/line.h"

/* Whether a line of asm returns or jumps. Only its words are looked at. */
static bool leaves(struct line l)
{
	static const char *const words[] = {"ret", "jmp", "iret", "sysret"};

	for (size_t at = 0; at < l.length;) {
		size_t n = 0;

		while (at + n < l.length && !strchr(" \t;{}", l.text[at + n]))
			n++;
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			/* matches retq, jmpq, iretq, too */
			if (n >= strlen(words[i]) && n <= strlen(words[i]) + 1 &&
			    !memcmp(l.text + at, words[i], strlen(words[i])))
				return true;
		at += n + 1;
	}
	return false;
}

int stage_is_naked(const char *p, const char *end, bool app)
{
	bool left = false;

	while (p < end) {
		struct line l = line_at(p, end);

		if (!l.next)
			return -1;
		if (begins(l, "#APP"))
			app = true;
		else if (begins(l, "#NO_APP"))
			app = false;
		else if (app && l.length && l.text[0] != '#')
			left |= leaves(l);
		else if (!app && is_mnemonic(l, "\tud2"))
			return left;
		else if (!app && is_instruction(l) && !is_mnemonic(l, "\tnop"))
			return 0;
		p = l.next;
	}
	return -1;
}

void stage_find_broken(const char *text, size_t size,
		       void (*found)(void *context, const char *name, size_t length), void *context)
{
	const char *end = text + size, *name = text;
	size_t length = 0;
	bool exited = false;

	/* Looks for an exit with no instruction of the compiler's behind it but ud2: any other
	 * function returns behind an exit, or unwinds. */
	for (struct line l = line_at(text, end);; l = line_at(l.next, end)) {
		if (begins(l, "\t.type\t")) {
			const char *comma = memchr(l.text, ',', l.length);

			name = l.text + strlen("\t.type\t");
			length = (comma ? comma : l.text + l.length) - name;
			exited = false;
		} else if (is_instruction(l)) {
			if (exited && is_mnemonic(l, "\tud2"))
				found(context, name, length);
			if (!is_mnemonic(l, "\tnop"))
				exited = begins(l, "\tcall\t") && has(l, "__cyg_profile_func_exit");
		}
		if (!l.next)
			return;
	}
}
