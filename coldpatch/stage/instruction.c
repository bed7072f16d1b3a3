/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads instructions. See instruction.h.
 */
#include "coldpatch/stage/instruction.h"

#include "common/elf/probe_list.h"

#define FAR 64 /* lines of code; after them the flags count as not known to be dead */

/* A thunk may stand in the function itself (-mfunction-return=thunk-inline,
 * -mindirect-branch=thunk-inline). It drops its return address to return, or overwrites it with the
 * target to jump. This returns true for the first kind. */
static bool returns_by_thunk(const char *p, const char *end)
{
	for (int i = 0; i < 16 && p && p < end; i++) {
		struct line l = line_at(p, end);

		if (is_mnemonic(l, "\tret"))
			return false;
		if (begins(l, "\tlea") || begins(l, "\tadd"))
			return true;
		p = l.next;
	}
	return false;
}

/* Returns the line without the prefix, if it has it. */
static struct line without(struct line l, const char *prefix)
{
	size_t n = strlen(prefix);

	if (!is_mnemonic(l, prefix))
		return l;
	while (n < l.length && strchr(" \t;", l.text[n]))
		n++;
	l.text += n;
	l.length -= n;
	return l;
}

bool stage_is_plain_return(struct line l)
{
	size_t n;

	l.text++;
	l.length--;
	/* "rep ret" is a return; the prefix fills a slot of an old predictor */
	l = without(l, "rep");
	n = is_mnemonic(l, "retq") ? 4 : 3;
	if (!is_mnemonic(l, "ret") && n == 3)
		return false;
	while (n < l.length && strchr(" \t", l.text[n]))
		n++;
	return n == l.length || l.text[n] == '#';
}

bool stage_is_plain_jump(struct line l, struct line *ret)
{
	static const char in_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789_.$";
	size_t n = strlen("\tjmp"), end;

	if (!is_mnemonic(l, "\tjmp"))
		return false;
	while (n < l.length && strchr(" \t", l.text[n]))
		n++;
	for (end = n; end < l.length && strchr(in_names, l.text[end]);)
		end++;
	*ret = (struct line){.text = l.text + n, .next = NULL, .length = end - n};
	if (begins((struct line){.text = l.text + end, .length = l.length - end}, "@PLT"))
		end += strlen("@PLT");
	while (end < l.length && strchr(" \t", l.text[end]))
		end++;
	return ret->length && (end == l.length || l.text[end] == '#');
}

unsigned stage_exit_kind(struct line l, const char *end)
{
	static const char *const prefixes[] = {"rep", "bnd", "notrack"};

	l.text++;
	l.length--;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		l = without(l, prefixes[i]);
	if (is_mnemonic(l, "ret") || is_mnemonic(l, "retq"))
		return IP_PROBE_EXIT;
	if (is_mnemonic(l, "jmp"))
		return has(l, "__x86_return_thunk") ? IP_PROBE_EXIT : IP_PROBE_TAIL_EXIT;
	if (is_mnemonic(l, "call") && has(l, ".LIND"))
		return returns_by_thunk(l.next, end) ? IP_PROBE_EXIT : IP_PROBE_TAIL_EXIT;
	return 0;
}

bool stage_is_call_part(struct line l)
{
	static const char *const parts[] = {"movabsq\t$", "leaq\t1b(%rip), %r10",
					    "addq\t%r11, %r10", "call\t*%r10"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (begins(l, "\t") &&
		    begins((struct line){.text = l.text + 1, .length = l.length - 1}, parts[i]))
			return true;
	return false;
}

/* --- flags */

static bool is_one_of(const char *text, size_t length, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(words[i]) == length && !memcmp(words[i], text, length))
			return true;
	return false;
}

/* Whether the instruction sets every flag, whatever the flags were. The mnemonic must have a suffix
 * for the width: without it, it may be an SSE instruction (cmpps, andpd, ...). */
static bool sets_flags(const char *mnemonic, size_t length)
{
	static const char *const words[] = {"add", "and", "cmp", "neg", "or", "sub", "test", "xor"};

	return length > 2 && strchr("bwlq", mnemonic[length - 1]) &&
	       is_one_of(mnemonic, length - 1, words, sizeof(words) / sizeof(*words));
}

/* Whether the instruction leaves the flags unchanged, or sets them without reading them. An
 * instruction that is not listed may do anything. */
static bool ignores_flags(const char *mnemonic, size_t length)
{
	static const char *const words[] = {"pushq", "popq", "leave", "cltq",	"cqto",
					    "cltd",  "cwtl", "nop",   "endbr64"};
	static const char *const starts[] = {"mov", "lea", "cvt", "vmov", "vcvt", "pxor", "vpxor"};
	static const char *const vector_ends[] = {"ss", "sd", "ps", "pd"};

	if (is_one_of(mnemonic, length, words, sizeof(words) / sizeof(*words)))
		return true;
	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (length >= strlen(starts[i]) && !memcmp(mnemonic, starts[i], strlen(starts[i])))
			return true;
	/* vector arithmetic; comparisons of this kind set all flags */
	return length > 4 && is_one_of(mnemonic + length - 2, 2, vector_ends, 4);
}

int stage_flags_dead(const char *p, const char *end)
{
	bool app = false;

	for (int lines = 0; lines < FAR && p < end;) {
		struct line l = line_at(p, end);
		size_t length;

		if (!l.next)
			return -1;
		p = l.next;
		if (begins(l, "#APP"))
			app = true;
		else if (begins(l, "#NO_APP"))
			app = false;
		else if (app && l.length && l.text[0] != '#' && !begins(l, STAGE_INLINE_MARK))
			return false; /* this is the user's asm */
		if (app || !is_instruction(l))
			continue;
		lines++;
		l.text++;
		for (length = 0; length + 1 < l.length && !strchr(" \t;", l.text[length]);)
			length++;
		/* no flags are passed to a function or back */
		if (is_one_of(l.text, length, (const char *const[]){"call", "ret"}, 2) ||
		    sets_flags(l.text, length))
			return true;
		if (!ignores_flags(l.text, length))
			return false;
	}
	return p < end ? false : -1;
}
