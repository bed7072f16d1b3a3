/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of live logs: any bytes as a file, as they are, and once more with beginnings and
 * checksums of batches put right where their sizes allow it. What is told of threads fits the
 * session.
 *
 * covers: analysis/stream_log/batch_reader.c analysis/stream_log/last_calls.c
 * covers: analysis/stream_log/log_records.c analysis/stream_log/log_text.c
 * covers: common/trace/checksum.c
 */
#include "analysis/stream_log/last_calls.h"
#include "common/trace/checksum.h"
#include "common/trace/stream_log_format.h"
#include "fuzz.h"

#define CALLS	 3u
#define MACHINES 16u

static void check_call(const struct ip_last_calls *last, const struct ip_last_call *call)
{
	fuzz_assert(call->function < last->session->nfunctions);
}

static void check(const struct ip_last_calls *last)
{
	uint64_t records = 0;

	for (size_t i = 0; i < last->nthreads; i++) {
		const struct ip_last_thread *t = &last->threads[i];

		fuzz_assert(t->ncalls <= CALLS && (!t->nopen || !t->ended));
		fuzz_assert(i == 0 || !t->nopen || last->threads[i - 1].nopen);
		for (size_t k = 0; k < t->nopen; k++)
			check_call(last, &t->open[k]);
		for (size_t k = 0; k < t->ncalls; k++) {
			check_call(last, &t->calls[k]);
			fuzz_assert(t->calls[k].start <= t->calls[k].end);
			fuzz_assert(k == 0 || t->calls[k - 1].end <= t->calls[k].end);
		}
		records += t->records;
	}
	fuzz_assert(records == last->records);
}

static void read_log(const uint8_t *data, size_t size)
{
	struct ip_last_calls last;

	if (ip_last_calls_read_fd(dup(fuzz_file(data, size)), "file", CALLS, MACHINES, &last) < 0) {
		fuzz_check_error();
		return;
	}
	check(&last);
	ip_last_calls_clear(&last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	struct ip_stream_log_header h;

	fuzz_assert(copy);
	read_log(data, size);
	if (size)
		memcpy(copy, data, size);
	for (size_t at = 0; at + sizeof(h) <= size; at += h.size) {
		memcpy(&h, copy + at, sizeof(h));
		if (h.size < sizeof(h) || h.size % 8 || h.size > size - at)
			break;
		h.magic = IP_STREAM_LOG_MAGIC;
		h.version = IP_STREAM_LOG_VERSION;
		h.checksum = 0;
		memcpy(copy + at, &h, sizeof(h));
		h.checksum = ip_checksum(0, copy + at, h.size);
		memcpy(copy + at, &h, sizeof(h));
	}
	read_log(copy, size);
	free(copy);
	return 0;
}
