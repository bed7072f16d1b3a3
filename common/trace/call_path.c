/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads lines of paths: TSC TID NUMBER path ARGUMENT ADDRESS[ TEXT], with tabs up to the
 * argument, as lines of descriptors have them.
 */
#include "common/trace/call_path.h"

#include <inttypes.h>
#include <string.h>

#include "common/arch/syscalls.h"

uint64_t ip_call_path_write(FILE *out, const struct ip_call_path *path)
{
	const int n = fprintf(out, "%" PRIu64 "\t%d\t%u\t" IP_CALL_PATH_KIND "\t%u %" PRIx64,
			      path->tsc, path->tid, path->number, path->argument, path->address);
	uint64_t bytes = n > 0 ? n : 0;

	if (path->text)
		putc(' ', out);
	for (const char *c = path->text; c && *c; c++, bytes++)
		putc((unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c, out);
	putc('\n', out);
	return bytes + 1 + !!path->text;
}

bool ip_call_path_parse(const char *line, struct ip_call_path *ret)
{
	struct ip_call_path p = {0};
	int n = 0;

	if (sscanf(line,
		   "%" SCNu64 "\t%" SCNd32 "\t%" SCNu16 "\t" IP_CALL_PATH_KIND "\t%" SCNu8
		   " %" SCNx64 "%n",
		   &p.tsc, &p.tid, &p.number, &p.argument, &p.address, &n) != 5 ||
	    p.tid < 0 || p.argument >= IP_SYSCALL_ARGUMENTS || (line[n] && line[n] != ' '))
		return false;
	p.text = line[n] ? line + n + 1 : NULL;
	*ret = p;
	return true;
}
