/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads the list of the kernel's functions in a trace.
 */
#include "common/trace/kernel_functions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/kernel_format.h"
#include "common/trace/trace_format.h"

#define LINE_MOST (2 * IP_KERNEL_NAME_MAX + 2)
#define SIZE_MOST (IP_KERNEL_FUNCTIONS_MAX * LINE_MOST)

int ip_kernel_functions_add(struct ip_kernel_functions *f, const char *name, const char *module)
{
	struct ip_kernel_function added;

	if (ip_array_grow(&f->items, f->n, sizeof(*f->items)) < 0)
		return -1;
	added = (struct ip_kernel_function){strdup(name), strdup(module)};
	if (!added.name || !added.module) {
		free(added.name);
		free(added.module);
		return ip_error("out of memory");
	}
	f->items[f->n++] = added;
	return 0;
}

void ip_kernel_functions_clear(struct ip_kernel_functions *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->items[i].name);
		free(f->items[i].module);
	}
	free(f->items);
	*f = (struct ip_kernel_functions){0};
}

int ip_kernel_functions_write(int dir, const struct ip_kernel_functions *f)
{
	int fd = ip_file_make(dir, IP_TRACE_KERNEL_FUNCTIONS, O_WRONLY);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	bool bad;

	if (!out) {
		ip_error_errno("cannot make %s", IP_TRACE_KERNEL_FUNCTIONS);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	for (size_t i = 0; i < f->n; i++)
		fprintf(out, "%s\t%s\n", f->items[i].name, f->items[i].module);
	bad = ferror(out);
	bad |= fclose(out) != 0;
	return bad ? ip_error_errno("cannot write %s", IP_TRACE_KERNEL_FUNCTIONS) : 0;
}

/* What the kernel's names consist of: the text becomes a part of TSDL, and goes to terminals. */
static bool is_name(const char *text, bool may_be_empty)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.$";
	const size_t n = strlen(text);

	return (n || may_be_empty) && n < IP_KERNEL_NAME_MAX && strspn(text, letters) == n;
}

static int parse(const char *path, char *text, struct ip_kernel_functions *ret)
{
	for (char *line = text, *end; *line; line = end + 1) {
		char *tab;

		end = strchr(line, '\n');
		if (!end) /* it was cut off while it was written */
			return 0;
		*end = '\0';
		tab = strchr(line, '\t');
		if (!tab || ret->n == IP_KERNEL_FUNCTIONS_MAX)
			return ip_error("%s: line %zu is not a function of the kernel", path,
					ret->n + 1);
		*tab++ = '\0';
		if (!is_name(line, false) || !is_name(tab, true))
			return ip_error("%s: line %zu is not a function of the kernel", path,
					ret->n + 1);
		if (ip_kernel_functions_add(ret, line, tab) < 0)
			return -1;
	}
	return 0;
}

int ip_kernel_functions_read(const char *dir, struct ip_kernel_functions *ret)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	_cleanup_close_ int fd = -1;
	uint64_t size;

	*ret = (struct ip_kernel_functions){0};
	if (asprintf(&path, "%s/%s", dir, IP_TRACE_KERNEL_FUNCTIONS) < 0) {
		path = NULL;
		return ip_error("out of memory");
	}
	if (ip_access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	fd = ip_open_regular(path, &size);
	if (fd < 0)
		return -1;
	if (size > SIZE_MOST)
		return ip_error("%s: too large to be a list of functions of the kernel", path);
	text = malloc(size + 1);
	if (!text)
		return ip_error("out of memory");
	if (ip_read_at(fd, path, 0, text, size) < 0)
		return -1;
	text[size] = '\0';
	if (strlen(text) != size)
		return ip_error("%s: not a list of functions of the kernel", path);
	return parse(path, text, ret);
}
