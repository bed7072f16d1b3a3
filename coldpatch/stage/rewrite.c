/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds sites in gcc's assembler text. See rewrite.h.
 *
 * With -p -mfentry -mrecord-mcount gcc begins a function in this way (the call differs by code
 * model):
 *
 *   1:    call    *__fentry__@GOTPCREL(%rip)
 *         .section __mcount_loc, "a",@progbits
 *         .quad 1b
 *         .previous
 *
 * With -minstrument-return=nop5 -mrecord-return it puts this in front of each return and tail jump:
 *
 *   1:
 *         .byte   0x0f, 0x1f, 0x44, 0x00, 0x00
 *         .section __return_loc, "a",@progbits
 *         .quad 1b
 *         .previous
 *
 * gcc's own tables hold absolute addresses in loaded sections. A PIE pays for these addresses with
 * text relocations. So both become
 *
 *   .Liprobe7:    .byte 0x0f,0x1f,0x44,0,0
 *         .pushsection .pdr.iprobe,"o?",@progbits,.Liprobes2
 *         .quad .Liprobe7;.byte 1,5,0,1;.long .Liprobe7-.Liprobes2
 *         .popsection
 *
 * Here .Liprobes2 is the start of the section. This label is put behind the directive that first
 * named the section.
 *
 * A plain `ret` becomes the site itself (IP_FORM_RETURN), and so does a jump to a symbol
 * (IP_FORM_TAIL): no NOP is executed in front of them. The bytes behind the ret are never reached.
 * The jump must have five bytes, whatever the assembler would choose, and lie within 16 bytes: if
 * it crossed a page, it could not be written safely.
 *
 *   .Liprobe8:    .byte 0xc3,0x0f,0x1f,0x40,0
 *
 *   .p2align 4,,4
 *   .Liprobe9:    .byte 0xe9;.reloc .,R_X86_64_PLT32,g-4;.long 0
 *
 * Placement inline marks its sites in the text of the hooks' asm (include/iprobe_inline.h). Such a
 * site gets the same record.
 *
 * Around the call in a nested function gcc saves r10, its static chain. The stub keeps r10 anyway,
 * so the push and pop are removed. A naked function (naked_attr.h) gets no site: its registers
 * follow no convention that is known.
 */
#include "coldpatch/stage/rewrite.h"

#include "coldpatch/sites/site_table.h"
#include "coldpatch/stage/instruction.h"
#include "coldpatch/stage/naked_attr.h"
#include "coldpatch/stage/output.h"
#include "coldpatch/stage/section.h"
#include "common/elf/probe_list.h"

#include <stdlib.h>

#define CALL_LINES 6 /* lines of the longest call of __fentry__ */

struct stage_rewriter {
	const struct ip_selection *exclude; /* NULL: nothing */
	char *file;			    /* of the source, from .file; NULL: unknown */
	bool excluded;			    /* the present function is excluded */
	bool failed;			    /* out of memory */
	bool red_zone;
	unsigned exit; /* form of the site that the next instruction is to be; 0: it is no site */
	/* of the present function: no instruction of the compiler's was seen yet; it is naked */
	bool fresh, naked;
	unsigned sites;	       /* number of sites so far: it numbers their labels */
	unsigned section;      /* label of the present section; NO_SECTION: unknown */
	bool app, app_section; /* inside of #APP; #APP has changed the section */
	unsigned section_before_app;
	struct sections sections;
	struct output out;
};

/* Handles a directive that changes the section: notes the new section, and labels it if it is
 * new. */
static void enter_section(struct stage_rewriter *r, struct line l)
{
	int fresh = section_enter(&r->sections, l, &r->section);

	output_put(&r->out, l.text, l.length);
	r->failed |= fresh < 0;
	if (fresh > 0)
		output_print(&r->out, ";.Liprobes%u:", r->section);
	if (l.next)
		output_put(&r->out, "\n", 1);
}

/* --- what is excluded */

/* Returns the text between quotes, or the text up to a comma; malloc'ed; NULL: out of memory, or
 * there is none. */
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

/* .file "x.c" names the source; .type f, @function begins a function. */
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

static const struct line nowhere;

/* to: where a site of form TAIL jumps. */
static void put_site(struct stage_rewriter *r, unsigned kind, unsigned form, unsigned regs,
		     struct line to)
{
	unsigned n = ++r->sites;
	/* The number of lines must not change: one, or those of gcc's mark. */
	char end = r->app || form == IP_FORM_RETURN || form == IP_FORM_TAIL ? ';' : '\n';

	/* an inlined function has another name than the function around it: ColdPatch excludes
	 * it */
	if (r->excluded && !r->app) {
		output_put(&r->out, "\n\n\n\n", 4);
		return;
	}
	output_print(&r->out, "%s.Liprobe%u:\t.byte ",
		     form == IP_FORM_TAIL ? "\t.p2align 4,,4;" : "", n);
	if (form == IP_FORM_TAIL) {
		output_print(&r->out, "0xe9;.reloc .,R_X86_64_PLT32,");
		output_put(&r->out, to.text, to.length);
		output_print(&r->out, "-4;.long 0");
	} else {
		output_print(&r->out, form == IP_FORM_RETURN ? "0xc3,0x0f,0x1f,0x40,0"
							     : "0x0f,0x1f,0x44,0,0");
	}
	output_print(&r->out, "%c\t.pushsection " IP_SITE_TABLE_SECTION ",\"o?\",@progbits,", end);
	/* There is one table for each section of code: the assembler makes one for each symbol that
	 * stands here. */
	output_print(&r->out, ".Liprobe%s%u%c", r->section ? "s" : "", r->section ? r->section : n,
		     end);
	output_print(&r->out, "\t.quad .Liprobe%u;.byte %u,5,%u,%u;.long ", n, kind, form, regs);
	if (r->section)
		output_print(&r->out, ".Liprobe%u-.Liprobes%u%c\t.popsection\n", n, r->section,
			     end);
	else
		output_print(&r->out, "%u%c\t.popsection\n", COLD_TABLE_NO_OFFSET, end);
}

/* Puts the site in place of the instruction that leaves the function. */
static void put_exit(struct stage_rewriter *r, struct line l)
{
	struct line to = nowhere;

	if (r->exit == IP_FORM_RETURN)
		put_site(r, IP_PROBE_EXIT, IP_FORM_RETURN, IP_REGS_RETURN, to);
	else if (stage_is_plain_jump(l, &to))
		put_site(r, IP_PROBE_TAIL_EXIT, IP_FORM_TAIL, IP_REGS_ALL, to);
	r->exit = 0;
}

/* Skips the three lines of gcc's own table behind a site. Returns 1: they are there, *p is behind
 * them; 0: they are not; -1: the text ends. */
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

/*
 * Rewrites the site that starts at p, if one does. Returns where the text goes on; p itself: there
 * is no site; NULL: the text ends before that is known.
 */
static const char *rewrite_entry(struct stage_rewriter *r, const char *p, const char *end,
				 bool pushed)
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
		if (!stage_is_call_part(l))
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
		put_site(r, IP_PROBE_ENTRY, IP_FORM_CALL, IP_REGS_ENTRY, nowhere);
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
		output_put(&r->out, "\n", 1);
	return at;
}

static const char *rewrite_exit(struct stage_rewriter *r, const char *p, const char *end)
{
	struct line l = line_at(p, end), next, to;
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
	kind = stage_exit_kind(next, end);
	if ((kind == IP_PROBE_EXIT && stage_is_plain_return(next)) ||
	    (kind == IP_PROBE_TAIL_EXIT && stage_is_plain_jump(next, &to))) {
		if (!r->excluded)
			r->exit = kind == IP_PROBE_EXIT ? IP_FORM_RETURN : IP_FORM_TAIL;
		output_put(&r->out, "\n\n\n\n\n", 5);
	} else if (kind) {
		put_site(r, kind, IP_FORM_CALL,
			 kind == IP_PROBE_EXIT ? IP_REGS_RETURN : IP_REGS_ALL, nowhere);
		output_put(&r->out, "\n", 1);
	} else {
		/* the line behind it is not an exit; the code stays as it was */
		output_put(&r->out, "\t.byte 0x0f,0x1f,0x44,0,0\n\n\n\n\n",
			   strlen("\t.byte 0x0f,0x1f,0x44,0,0\n\n\n\n\n"));
	}
	return at;
}

/*
 * Rewrites a site of placement inline. Inside of asm the present section may be one of the user's,
 * and not the section of the function. Returns 1: it is a site; 0: it is not; -1: the text ends
 * before that is known.
 *
 * If the code behind the site may read the flags, a site that crosses a page cannot be patched byte
 * by byte (ip_x86_transit). Such a site must lie within 16 bytes; NOPs are put in front of it where
 * it would not.
 */
static int rewrite_inline(struct stage_rewriter *r, struct line l, const char *end, bool last)
{
	unsigned kind;
	int dead;

	if (!begins(l, STAGE_INLINE_MARK) || l.length != sizeof(STAGE_INLINE_MARK))
		return 0;
	kind = l.text[l.length - 1] - '0';
	if (kind != IP_PROBE_ENTRY && kind != IP_PROBE_EXIT)
		return 0;
	if (r->naked) {
		output_put(&r->out, "\n", 1);
		return 1;
	}
	dead = stage_flags_dead(l.next, end);
	if (dead < 0 && !last)
		return -1;
	if (dead <= 0)
		output_print(&r->out, "\t.p2align 4,,4;");
	put_site(r, kind, r->red_zone ? IP_FORM_JUMP : IP_FORM_CALL, IP_REGS_ALL, nowhere);
	return 1;
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
	} else if (r->app && section_changes(l)) {
		/* the section before it, or an unknown one */
		r->app_section = !has(l, ".previous");
	}
}

ptrdiff_t stage_rewrite(struct stage_rewriter *r, const char *text, size_t size, bool last)
{
	const char *p = text, *end = text + size;

	while (p < end && !r->failed && !r->out.failed) {
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
						output_put(&r->out, "\n", 1);
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
			if (l.text[0] == '\t' && l.length > 4 && l.text[1] == '.' &&
			    section_changes(l) && !begins(l, "\t.previous")) {
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
		if (r->app && l.next) {
			int there = rewrite_inline(r, l, end, last);

			if (there < 0)
				break;
			if (there) {
				p = l.next;
				continue;
			}
		}
		next = l.next ? l.next : end;
		if (r->exit && !r->app && is_instruction(l))
			put_exit(r, l);
		else
			output_put(&r->out, p, next - p);
		p = next;
	}
	output_flush(&r->out);
	return r->failed || r->out.failed ? -1 : p - text;
}

bool stage_concerns(const char *text, size_t size)
{
	return memmem(text, size, "__mcount_loc", 12) || memmem(text, size, "__return_loc", 12) ||
	       memmem(text, size, "#iprobe:", 8);
}

struct stage_rewriter *stage_rewriter_create(const struct ip_selection *exclude, stage_sink *sink,
					     void *context, bool red_zone)
{
	struct stage_rewriter *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->exclude = exclude;
	r->out.sink = sink;
	r->out.context = context;
	r->red_zone = red_zone;
	return r;
}

void stage_rewriter_destroy(struct stage_rewriter *r)
{
	sections_release(&r->sections);
	free(r->file);
	free(r);
}
