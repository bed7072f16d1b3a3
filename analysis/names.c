/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of demangled names.
 */
#include "analysis/names.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/selection.h"
#include "common/utf8.h"

struct ip_names {
	const struct ip_recording *session;
	char **names;
};

struct ip_names *ip_names_create(const struct ip_recording *session)
{
	struct ip_names *names = calloc(1, sizeof(*names));

	if (names)
		names->names = calloc(session->nfunctions, sizeof(*names->names));
	if (!names || !names->names) {
		free(names);
		ip_error("out of memory");
		return NULL;
	}
	names->session = session;
	return names;
}

void ip_names_destroy(struct ip_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->session->nfunctions; i++)
		free(names->names[i]);
	free(names->names);
	free(names);
}

const char *ip_names_get(struct ip_names *names, uint32_t function)
{
	const char *linker_name = names->session->functions[function].linker_name;

	if (!names->names[function])
		names->names[function] = ip_demangle(linker_name, false);
	return names->names[function] ? names->names[function] : linker_name;
}

void ip_clean(char *text)
{
	for (size_t n; *text; text += n) {
		unsigned char c = *text;

		n = ip_utf8_length(text);
		if (n == 0)
			n = 1;
		/* C0, DEL, what is no UTF-8, and the C1 controls U+0080..U+009F */
		if (c < ' ' || c == 0x7f || (c >= 0x80 && n == 1))
			*text = '?';
		else if (c == 0xc2 && (unsigned char)text[1] < 0xa0)
			text[0] = text[1] = '?';
	}
}

void ip_print_clean(FILE *out, const char *text)
{
	while (*text) {
		size_t n = ip_utf8_length(text);
		unsigned char c = *text;
		bool control = c < ' ' || c == 0x7f || (c == 0xc2 && n == 2 && (unsigned char)text[1] < 0xa0);

		if (n == 0 || control) {
			putc('?', out);
			text += n ? n : 1;
		} else {
			fwrite(text, 1, n, out);
			text += n;
		}
	}
}
