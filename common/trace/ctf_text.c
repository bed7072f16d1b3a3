/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of TSDL that the descriptions of all our streams share.
 */
#include "common/trace/ctf_text.h"

void ip_ctf_write_string(FILE *out, const char *text)
{
	putc_unlocked('"', out);
	for (;;) {
		size_t plain = 0;
		unsigned char c;

		while ((c = text[plain]) >= ' ' && c != 0x7f && c != '"' && c != '\\')
			plain++;
		fwrite_unlocked(text, 1, plain, out);
		if (!c)
			break;
		if (c == '"' || c == '\\')
			putc_unlocked('\\', out);
		putc_unlocked(c < ' ' || c == 0x7f ? '?' : c, out);
		text += plain + 1;
	}
	putc_unlocked('"', out);
}

void ip_ctf_write_uuid(FILE *out, const uint8_t uuid[16])
{
	fputc('"', out);
	for (int i = 0; i < 16; i++)
		fprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	fputc('"', out);
}

void ip_ctf_write_clock(FILE *out, const struct ip_ctf_metadata *m)
{
	/* Wall time at TSC 0, in cycles. It lies before 1970 if the machine's clock was never
	 * set. */
	__int128 offset = (__int128)m->start_realtime_ns * m->tsc_hz / 1000000000 - m->tsc_start;
	__int128 seconds = offset / (__int128)m->tsc_hz;

	if (offset - seconds * m->tsc_hz < 0)
		seconds--;
	fprintf(out,
		"clock {\n"
		"	name = tsc;\n"
		"	description = \"time stamp counter\";\n"
		"	freq = %llu;\n"
		"	precision = 1;\n"
		"	offset_s = %lld;\n"
		"	offset = %llu;\n"
		"	absolute = TRUE;\n"
		"};\n\n",
		(unsigned long long)m->tsc_hz, (long long)seconds,
		(unsigned long long)(offset - seconds * m->tsc_hz));
}
