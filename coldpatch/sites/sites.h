/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sites of a module while ColdPatch works: where they are, and what the
 * code says about the function they belong to.
 */
#ifndef COLD_SITES_H
#define COLD_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of the hook's first argument, the address of the function. */
enum cold_argument {
	COLD_ARGUMENT_UNKNOWN = 0,
	COLD_ARGUMENT_ADDRESS, /* argument is the address */
	COLD_ARGUMENT_SLOT,    /* it was loaded from the offset-table slot at argument */
};

/* How the site's function is known. */
enum cold_naming {
	/* what the code passes to the hook, else debug information, else the symbol */
	COLD_NAME_BY_ARGUMENT = 0,
	COLD_NAME_BY_SYMBOL, /* the function whose range holds the site: never inlined (fentry) */
	/* the innermost function, inlined ones included, of the debug information (inline) */
	COLD_NAME_BY_DEBUG,
	COLD_NAME_GIVEN, /* name (points) */
};

/* What is written behind a site, within what the compiler has left room for. */
enum cold_after {
	COLD_AFTER_NOPS = 0,
	COLD_AFTER_RETURN, /* a return: the site took the place of one */
};

#define COLD_AFTER_MAX 16

#define COLD_DEPTH_UNKNOWN INT32_MIN

struct cold_site {
	uint64_t address;
	uint64_t argument;
	uint32_t range; /* index of the range that holds it; COLD_NONE */
	/* entries not yet exited before the site on every way from the function's start */
	int32_t depth;
	/* of an entry: bytes from the stack pointer up to where it was before the function was
	 * called; 0: unknown */
	uint32_t frame;
	uint8_t kind; /* enum ip_probe_kind */
	uint8_t length;
	uint8_t form;	       /* enum ip_site_form */
	uint8_t regs;	       /* enum ip_site_regs */
	uint8_t naming;	       /* enum cold_naming */
	uint8_t argument_kind; /* enum cold_argument */
	uint8_t after;	       /* enum cold_after */
	uint8_t after_length;  /* bytes, up to COLD_AFTER_MAX; 0: what stands behind it stays */
	bool idle;	       /* its bytes in the file are the idle ones already */
	bool flags_dead;       /* what comes next does not look at the flags */
	bool entry_only;       /* an entry whose function has no exits */
	/* of COLD_NAME_GIVEN; owned by whoever found the site, valid while the sites are */
	const char *name, *args;
	bool doubtful; /* the decoding before it was not proven right */
	/* calls through register + constant: a hook's slot if that register holds the offset
	 * table */
	bool by_register;
	bool by_got; /* it does */
};

struct cold_module;

struct cold_sites {
	struct cold_site *sites; /* ascending by address */
	size_t n;
};

int cold_sites_add(struct cold_sites *sites, struct cold_site site);
void cold_sites_sort(struct cold_sites *sites);
/* Adds all of from, which is sorted: each once, though functions that the linker folded into one
 * have several records for each site. Where two are at odds, what refuse makes of the address
 * and the reason is returned. */
int cold_sites_add_once(struct cold_sites *to, const struct cold_sites *from,
			const struct cold_module *module,
			int (*refuse)(const struct cold_module *module, uint64_t address,
				      const char *why));
/* The site at exactly address; NULL. */
struct cold_site *cold_sites_at(const struct cold_sites *sites, uint64_t address);
void cold_sites_destroy(struct cold_sites *sites);

/* Checks that each site lies in one executable segment, where its section says. 0, or -1 with an
 * error. */
int cold_sites_check(const struct cold_module *module, const struct cold_sites *sites);

#endif
