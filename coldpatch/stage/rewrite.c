/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding sites in gcc's assembler text. See rewrite.h.
 *
 * With -p -mfentry -mrecord-mcount gcc begins a function like this (the call varies by code model):
 *
 *   1:	call	*__fentry__@GOTPCREL(%rip)
 *   	.section __mcount_loc, "a",@progbits
 *   	.quad 1b
 *   	.previous
 *
 * and with -minstrument-return=nop5 -mrecord-return this stands in front of each return and tail jump:
 *
 *   1:
 *   	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00
 *   	.section __return_loc, "a",@progbits
 *   	.quad 1b
 *   	.previous
 *
 * gcc's own tables hold absolute addresses in loaded sections, which a PIE pays for with text relocations. Both become
 *
 *   .Liprobe7:	.byte 0x0f,0x1f,0x44,0,0
 *   	.pushsection .pdr.iprobe,"o?",@progbits,.Liprobes2
 *   	.quad .Liprobe7;.byte 1,5,0,1;.long .Liprobe7-.Liprobes2
 *   	.popsection
 *
 * where .Liprobes2 is the start of the section, a label put behind the directive that first named it.
 *
 * Placement inline marks its sites in the text of the hooks' asm (include/iprobe_inline.h), after which they get the same.
 *
 * Around the call of a nested function gcc saves r10, its static chain; the stub keeps it anyway, so the push and pop go.
 * A naked function (naked.h) gets no site: its registers follow no convention that we know.
 */
#include "coldpatch/stage/rewrite.h"

#include "coldpatch/stage/line.h"
#include "coldpatch/stage/naked.h"
#include "coldpatch/table.h"
#include "common/probe_list.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_SECTION  0u
#define CALL_LINES  6 /* the longest call of __fentry__ */
#define BUFFER_SIZE 65536

/* What gcc calls a section, and the number of the label at its start. */
struct section {
	char *directive;
	size_t length;
	unsigned label;
};

struct stage_rewriter {
	stage_sink *sink;
	void *context;
	const struct ip_selection *exclude; /* NULL: nothing */
	char *file;			    /* of the source, as .file says; NULL: not known */
	bool excluded;			    /* so is the function that we are in */
	bool failed, red_zone;
	bool fresh, naked; /* of the function that we are in: nothing of the compiler's yet; it is naked */
	unsigned sites;	  /* so far: numbers their labels */
	unsigned section; /* where we are: label, NO_SECTION: not known */
	bool app, app_section; /* inside of #APP; it has changed the section */
	unsigned section_before_app;
	struct section *sections; /* hash table */
	size_t nsections, room;
	size_t used;
	char buffer[BUFFER_SIZE];
};

static void flush(struct stage_rewriter *r)
{
	if (r->used && !r->failed && !r->sink(r->context, r->buffer, r->used))
		r->failed = true;
	r->used = 0;
}

static void put(struct stage_rewriter *r, const char *data, size_t size)
{
	if (size > BUFFER_SIZE - r->used)
		flush(r);
	if (size > BUFFER_SIZE) {
		if (!r->failed && !r->sink(r->context, data, size))
			r->failed = true;
		return;
	}
	memcpy(r->buffer + r->used, data, size);
	r->used += size;
}

__attribute__((format(printf, 2, 3))) static void print(struct stage_rewriter *r, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	put(r, text, vsnprintf(text, sizeof(text), format, args));
	va_end(args);
}

/* --- sections */

static size_t hash(const char *text, size_t length)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < length; i++)
		h = (h ^ (unsigned char)text[i]) * 1099511628211u;
	return h ^ h >> 32;
}

static struct section *section_slot(struct section *sections, size_t room, const char *directive, size_t length)
{
	size_t i = hash(directive, length) & (room - 1);

	while (sections[i].directive &&
	       (sections[i].length != length || memcmp(sections[i].directive, directive, length)))
		i = (i + 1) & (room - 1);
	return &sections[i];
}

static bool grow(struct stage_rewriter *r)
{
	size_t room = r->room ? 2 * r->room : 64;
	struct section *sections = calloc(room, sizeof(*sections));

	if (!sections)
		return false;
	for (size_t i = 0; i < r->room; i++)
		if (r->sections[i].directive)
			*section_slot(sections, room, r->sections[i].directive, r->sections[i].length) = r->sections[i];
	free(r->sections);
	r->sections = sections;
	r->room = room;
	return true;
}

/* What tells a section of code from others. gcc gives the flags only where it names one for the first time, and they count
 * only where they are not the usual ones: a group of its own makes another section of the same name. 0: none of code. */
static size_t section_key(struct line l)
{
	const char *comma = memchr(l.text, ',', l.length);

	if (begins(l, "\t.text"))
		return l.length;
	if (!begins(l, "\t.section"))
		return 0;
	if (!comma)
		return l.length;
	if (!begins((struct line){.text = comma, .length = l.text + l.length - comma}, ",\"ax"))
		return 0;
	return comma[4] == '"' ? (size_t)(comma - l.text) : l.length;
}

/* A directive that changes the section: notes where we are, labels a section that is new. */
static void enter_section(struct stage_rewriter *r, struct line l)
{
	size_t length = section_key(l);
	struct section *s;

	put(r, l.text, l.length);
	r->section = NO_SECTION;
	if (length && 2 * (r->nsections + 1) > r->room && !grow(r)) {
		r->failed = true;
		return;
	}
	if (length) {
		s = section_slot(r->sections, r->room, l.text, length);
		if (!s->directive) {
			s->directive = malloc(length);
			if (!s->directive) {
				r->failed = true;
				return;
			}
			memcpy(s->directive, l.text, length);
			s->length = length;
			s->label = ++r->nsections;
			print(r, ";.Liprobes%u:", s->label);
		}
		r->section = s->label;
	}
	if (l.next)
		put(r, "\n", 1);
}

static bool changes_section(struct line l)
{
	static const char *const directives[] = {".section", ".text", ".data", ".bss", ".subsection", ".previous"};
	size_t skip = 0;

	while (skip < l.length && (l.text[skip] == ' ' || l.text[skip] == '\t'))
		skip++;
	l.text += skip;
	l.length -= skip;
	for (size_t i = 0; i < sizeof(directives) / sizeof(directives[0]); i++) {
		size_t n = strlen(directives[i]);

		if (begins(l, directives[i]) && (l.length == n || strchr(" \t;#", l.text[n])))
			return true;
	}
	return false;
}

/* --- what is excluded */

/* The text between quotes, or up to a comma; malloc'ed; NULL: out of memory, or there is none. */
static char *word_of(struct line l, size_t skip)
{
	const char *p = l.text + skip, *end = l.text + l.length, *stop;

	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if (p < end && *p == '"') {
		p++;
		stop = memchr(p, '"', end - p);
	} else {
		stop = memchr(p, ',', end - p);
	}
	stop = stop ? stop : end;
	return stop > p ? strndup(p, stop - p) : NULL;
}

/* .file "x.c" names the source, .type f, @function begins a function. */
static void note_function(struct stage_rewriter *r, struct line l)
{
	char *word;

	if (begins(l, "\t.file\t\"")) {
		free(r->file);
		r->file = word_of(l, 6);
	} else if (begins(l, "\t.type\t") && has(l, "@function")) {
		word = word_of(l, 6);
		r->excluded = word && ip_selection_match(r->exclude, word, r->file, NULL);
		free(word);
	}
}

/* --- sites */

static void put_site(struct stage_rewriter *r, unsigned kind, unsigned form, unsigned regs)
{
	unsigned n = ++r->sites;
	char end = r->app ? ';' : '\n'; /* as many lines as there were */

	/* what is inlined has another name than its host: left to ColdPatch */
	if (r->excluded && !r->app) {
		put(r, "\n\n\n\n", 4);
		return;
	}
	print(r, ".Liprobe%u:\t.byte 0x0f,0x1f,0x44,0,0%c\t.pushsection " COLD_TABLE_SECTION ",\"o?\",@progbits,", n, end);
	/* one table for each section of code: the assembler makes as many as there are symbols here */
	print(r, ".Liprobe%s%u%c", r->section ? "s" : "", r->section ? r->section : n, end);
	print(r, "\t.quad .Liprobe%u;.byte %u,5,%u,%u;.long ", n, kind, form, regs);
	if (r->section)
		print(r, ".Liprobe%u-.Liprobes%u%c\t.popsection\n", n, r->section, end);
	else
		print(r, "%u%c\t.popsection\n", COLD_TABLE_NO_OFFSET, end);
}

/* The three lines of gcc's own table behind a site. 1: they are there, *p is behind them; 0: no; -1: the text ends. */
static int skip_record(const char **p, const char *end, const char *section)
{
	const char *at = *p;

	for (int i = 0; i < 3; i++) {
		struct line l = line_at(at, end);

		if (!l.next)
			return -1;
		if (i == 0 && !(begins(l, "\t.section ") && has(l, section)))
			return 0;
		if (i == 1 && !is(l, "\t.quad 1b"))
			return 0;
		if (i == 2 && !is(l, "\t.previous"))
			return 0;
		at = l.next;
	}
	*p = at;
	return 1;
}

/* A thunk that stands in the function itself (-mfunction-return=thunk-inline, -mindirect-branch=thunk-inline) drops its
 * return address to return, or writes the target over it to jump. */
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

/* What an exit NOP stands in front of; 0: nothing that leaves the function. */
static unsigned exit_kind(struct line l, const char *end)
{
	static const char *const prefixes[] = {"rep", "bnd", "notrack"};

	l.text++;
	l.length--;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t n = strlen(prefixes[i]);

		if (!is_mnemonic(l, prefixes[i]))
			continue;
		while (n < l.length && strchr(" \t;", l.text[n]))
			n++;
		l.text += n;
		l.length -= n;
	}
	if (is_mnemonic(l, "ret") || is_mnemonic(l, "retq"))
		return IP_PROBE_EXIT;
	if (is_mnemonic(l, "jmp"))
		return has(l, "__x86_return_thunk") ? IP_PROBE_EXIT : IP_PROBE_TAIL_EXIT;
	if (is_mnemonic(l, "call") && has(l, ".LIND"))
		return returns_by_thunk(l.next, end) ? IP_PROBE_EXIT : IP_PROBE_TAIL_EXIT;
	return 0;
}

/* The lines of the call behind "1:", as far as they are known. */
static bool is_call_part(struct line l)
{
	static const char *const parts[] = {"movabsq\t$", "leaq\t1b(%rip), %r10", "addq\t%r11, %r10", "call\t*%r10"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (begins(l, "\t") && begins((struct line){.text = l.text + 1, .length = l.length - 1}, parts[i]))
			return true;
	return false;
}

/*
 * The site that starts at p, if one does. Returns where the text goes on; p itself: there is none; NULL: the text ends before
 * that can be told.
 */
static const char *rewrite_entry(struct stage_rewriter *r, const char *p, const char *end, bool pushed)
{
	struct line l = line_at(p, end);
	bool called = has(l, "__fentry__");
	const char *at = l.next;
	unsigned lines = 1;
	int there;

	if (!begins(l, "1:\tcall\t") && !begins(l, "1:\tmovabsq\t$"))
		return p;
	for (; lines <= CALL_LINES; lines++) {
		if (!at)
			return NULL;
		l = line_at(at, end);
		if (!l.next)
			return NULL;
		if (!is_call_part(l))
			break;
		called |= has(l, "__fentry__");
		at = l.next;
	}
	if (!called)
		return p;
	there = skip_record(&at, end, "__mcount_loc");
	if (there <= 0)
		return there ? NULL : p;
	there = stage_is_naked(at, end, false);
	if (there < 0)
		return NULL;
	if (there) {
		lines += 3;
	} else {
		put_site(r, IP_PROBE_ENTRY, IP_FORM_CALL, IP_REGS_ENTRY);
		lines--;
	}
	if (pushed) {
		l = line_at(at, end);
		if (is(l, "\tpopq\t%r10")) {
			at = l.next;
			lines++;
		}
	}
	while (lines--)
		put(r, "\n", 1);
	return at;
}

static const char *rewrite_exit(struct stage_rewriter *r, const char *p, const char *end)
{
	struct line l = line_at(p, end), next;
	const char *at = l.next;
	unsigned kind;
	int there;

	if (!is(l, "1:"))
		return p;
	if (!at)
		return NULL;
	l = line_at(at, end);
	if (!l.next)
		return NULL;
	if (!is(l, "\t.byte\t0x0f, 0x1f, 0x44, 0x00, 0x00"))
		return p;
	at = l.next;
	there = skip_record(&at, end, "__return_loc");
	if (there <= 0)
		return there ? NULL : p;
	if (!next_instruction(at, end, &next))
		return NULL;
	kind = exit_kind(next, end);
	if (kind) {
		put_site(r, kind, IP_FORM_CALL, kind == IP_PROBE_EXIT ? IP_REGS_RETURN : IP_REGS_ALL);
		put(r, "\n", 1);
	} else {
		/* whatever it is, it is no exit; the code stays as it was */
		put(r, "\t.byte 0x0f,0x1f,0x44,0,0\n\n\n\n\n", strlen("\t.byte 0x0f,0x1f,0x44,0,0\n\n\n\n\n"));
	}
	return at;
}

/* A site of placement inline. Inside of asm we may be in a section of the user's, not where the function is. */
static bool rewrite_inline(struct stage_rewriter *r, struct line l)
{
	static const char mark[] = "\t.byte 0x0f,0x1f,0x44,0,0 #iprobe:";
	unsigned kind;

	if (!begins(l, mark) || l.length != sizeof(mark))
		return false;
	kind = l.text[l.length - 1] - '0';
	if (kind != IP_PROBE_ENTRY && kind != IP_PROBE_EXIT)
		return false;
	if (r->naked)
		put(r, "\n", 1);
	else
		put_site(r, kind, r->red_zone ? IP_FORM_JUMP : IP_FORM_CALL, IP_REGS_ALL);
	return true;
}

static void note_app(struct stage_rewriter *r, struct line l)
{
	if (begins(l, "#APP")) {
		r->app = true;
		r->app_section = false;
		r->section_before_app = r->section;
	} else if (begins(l, "#NO_APP")) {
		r->app = false;
		if (r->app_section)
			r->section = NO_SECTION;
	} else if (r->app && changes_section(l)) {
		/* back to where it came from, or not known */
		r->app_section = !has(l, ".previous");
	}
}

ptrdiff_t stage_rewrite(struct stage_rewriter *r, const char *text, size_t size, bool last)
{
	const char *p = text, *end = text + size;

	while (p < end && !r->failed) {
		struct line l = line_at(p, end), after;
		const char *next = p;

		if (!l.next && !last)
			break;
		if (l.length && !r->app) {
			bool pushed = is(l, "\tpushq\t%r10");

			if (pushed) {
				after = l.next ? line_at(l.next, end) : l;
				if (!after.next && !last)
					break;
				if (begins(after, "1:")) {
					next = rewrite_entry(r, l.next, end, true);
					if (next == l.next)
						next = p;
					else if (next)
						put(r, "\n", 1);
				}
			} else if (l.text[0] == '1') {
				next = rewrite_entry(r, p, end, false);
				if (next == p)
					next = rewrite_exit(r, p, end);
			}
			if (!next && !last)
				break;
			if (next && next != p) {
				p = next;
				continue;
			}
			if (l.text[0] == '\t' && l.length > 4 && l.text[1] == '.' && changes_section(l) &&
			    !begins(l, "\t.previous")) {
				enter_section(r, l);
				p = l.next ? l.next : end;
				continue;
			}
		}
		if (r->exclude && !r->app && l.length > 6 && l.text[1] == '.')
			note_function(r, l);
		if (begins(l, "\t.type\t")) {
			r->fresh = true;
			r->naked = false;
		} else if (!r->app && is_instruction(l)) {
			r->fresh = false;
		} else if (r->fresh && begins(l, "#APP") && l.next) {
			int naked = stage_is_naked(l.next, end, true);

			if (naked < 0 && !last)
				break;
			r->naked = naked > 0;
			r->fresh = false;
		}
		if (l.length && (r->app || l.text[0] == '#'))
			note_app(r, l);
		if (r->app && l.next && rewrite_inline(r, l)) {
			p = l.next;
			continue;
		}
		next = l.next ? l.next : end;
		put(r, p, next - p);
		p = next;
	}
	flush(r);
	return r->failed ? -1 : p - text;
}

bool stage_concerns(const char *text, size_t size)
{
	return memmem(text, size, "__mcount_loc", 12) || memmem(text, size, "__return_loc", 12) ||
	       memmem(text, size, "#iprobe:", 8);
}

struct stage_rewriter *stage_rewriter_create(const struct ip_selection *exclude, stage_sink *sink, void *context,
					     bool red_zone)
{
	struct stage_rewriter *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->exclude = exclude;
	r->sink = sink;
	r->context = context;
	r->red_zone = red_zone;
	return r;
}

void stage_rewriter_destroy(struct stage_rewriter *r)
{
	for (size_t i = 0; i < r->room; i++)
		free(r->sections[i].directive);
	free(r->sections);
	free(r->file);
	free(r);
}
