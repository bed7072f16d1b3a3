/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sites of a module while ColdPatch works: where they are, and what the code says about the
 * function that they belong to.
 */
#ifndef COLD_SITES_H
#define COLD_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of the hook's first argument, which is the address of the function. */
enum cold_argument {
	COLD_ARGUMENT_UNKNOWN = 0,
	COLD_ARGUMENT_ADDRESS, /* argument is the address */
	COLD_ARGUMENT_SLOT,    /* the code loaded it from the offset-table slot at argument */
};

/* How the name of the site's function is found. */
enum cold_naming {
	/* from the code's argument to the hook, else from debug information, else from the
	 * symbol */
	COLD_NAME_BY_ARGUMENT = 0,
	/* the function whose range holds the site; it is never inlined (fentry) */
	COLD_NAME_BY_SYMBOL,
	/* the innermost function, inlined ones included, in the debug information (inline) */
	COLD_NAME_BY_DEBUG,
	COLD_NAME_GIVEN, /* the site's own name (points) */
};

/* What is written behind a site, into the room that the compiler has left. */
enum cold_after {
	COLD_AFTER_NOPS = 0,
	COLD_AFTER_RETURN, /* int3, never reached: the site is a return */
};

#define COLD_AFTER_MAX 16

#define COLD_DEPTH_UNKNOWN INT32_MIN

struct cold_site {
	uint64_t address;
	uint64_t argument;
	uint32_t range; /* index of the range that holds the site; COLD_NONE */
	/* entries without an exit before the site, the same on every way from the function's
	 * start */
	int32_t depth;
	/* of an entry: distance in bytes from the stack pointer to its value before the function
	 * was called; 0: unknown */
	uint32_t frame;
	int32_t jump; /* of form TAIL: struct ip_pl_probe */
	uint8_t kind; /* enum ip_probe_kind */
	uint8_t length;
	uint8_t form;	       /* enum ip_site_form */
	uint8_t regs;	       /* enum ip_site_regs */
	uint8_t naming;	       /* enum cold_naming */
	uint8_t argument_kind; /* enum cold_argument */
	uint8_t after;	       /* enum cold_after */
	/* in bytes, at most COLD_AFTER_MAX; 0: the bytes behind the site are not changed */
	uint8_t after_length;
	bool idle;	 /* its bytes in the file already have the idle form */
	bool flags_dead; /* the code behind it does not read the flags */
	bool entry_only; /* an entry whose function has no exits */
	/* for COLD_NAME_GIVEN; the site's finder owns them; they live as long as the sites */
	const char *name, *args, *arg_text;
	bool doubtful; /* it is not proven that the code before it was decoded correctly */
	/* it calls through register + constant: the slot is a hook's if the register holds the
	 * offset table */
	bool by_register;
	bool by_got; /* the register does hold the offset table */
};

struct cold_module;

struct cold_sites {
	struct cold_site *sites; /* ascending by address */
	size_t n;
};

int cold_sites_add(struct cold_sites *sites, struct cold_site site);
void cold_sites_sort(struct cold_sites *sites);
/* Adds all sites of from, which is sorted, each once: functions that the linker folded into one
 * have several records for each site. If two records contradict each other, this calls refuse with
 * the address and the reason, and returns its result. */
int cold_sites_add_once(struct cold_sites *to, const struct cold_sites *from,
			const struct cold_module *module,
			int (*refuse)(const struct cold_module *module, uint64_t address,
				      const char *why));
/* Returns the site at exactly address; NULL if there is none. */
struct cold_site *cold_sites_at(const struct cold_sites *sites, uint64_t address);
void cold_sites_destroy(struct cold_sites *sites);

/* Checks that each site lies in one executable segment, at the place that its section gives.
 * Returns 0, or -1 with an error. */
int cold_sites_check(const struct cold_module *module, const struct cold_sites *sites);

#endif
