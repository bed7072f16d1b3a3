/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks records. common/trace/trace_format.h tells what a record is. common/abi/ring.h tells what
 * else the runtime leaves in a sub-buffer.
 */
#include "collector/record_check.h"

#include <stdbool.h>
#include <string.h>

#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"

/* Returns the number of words of the payload record at i. n: number of words in all. 0: it is not a
 * payload record. */
static size_t payload_length(const uint64_t *words, size_t i, size_t n)
{
	uint64_t tells = i + IP_EXT_WORDS < n ? words[i + IP_EXT_WORDS] : 0;
	size_t length = IP_PAYLOAD_HEAD + IP_PAYLOAD_N(tells);

	if (tells & 7 || !(tells >> 32) || (tells & IP_PAYLOAD_CALLER && !IP_PAYLOAD_N(tells)) ||
	    IP_PAYLOAD_N(tells) > IP_PAYLOAD_MAX || length > n - i)
		return 0;
	return length;
}

static bool valid_id(uint64_t id)
{
	return id >= IP_PROBE_ENTRY && id <= IP_PROBE_POINT;
}

void ip_record_check(const uint64_t *words, size_t n, uint64_t since, uint64_t *records,
		     struct ip_checked_records *ret)
{
	ip_record_check_part(words, n, &(struct ip_record_check_place){.first = 1, .time = since},
			     true, records, ret);
}

size_t ip_record_check_part(const uint64_t *words, size_t n,
			    const struct ip_record_check_place *from, bool complete,
			    uint64_t *records, struct ip_checked_records *ret)
{
	uint64_t time = from->time;
	size_t i;

	*ret = (struct ip_checked_records){0};
	for (i = from->first; i < n;) {
		uint64_t word = words[i], id = word & 7, stamp;
		size_t length = 1;

		if (!word) {
			/* A hook that never came back: one word, or the three words of an extended
			 * record, which values may follow. */
			if (!complete)
				break;
			length = i + 2 < n && !words[i + 1] && !words[i + 2] ? IP_EXT_WORDS : 1;
			if (length == IP_EXT_WORDS && payload_length(words, i, n))
				length = payload_length(words, i, n);
			ret->holes++;
			i += length;
			continue;
		}
		if (!id) { /* padding */
			i++;
			continue;
		}
		if (id == IP_ID_EXTENDED) {
			uint64_t real = ((word >> 3) & IP_TIME_MASK) - IP_ID_EXT_BASE;
			size_t with_values = payload_length(words, i, n);

			length = IP_EXT_WORDS;
			if (real > IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE && with_values) {
				real -= IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE;
				length = with_values;
			}
			if (i + length <= n && valid_id(real) && (!words[i + 1] || !words[i + 2])) {
				/* This hook never came back either: it left after part of its
				 * record. */
				if (!complete)
					break;
				ret->holes++;
				i += length;
				continue;
			}
			if (i + length > n || !valid_id(real) ||
			    !((words[i + 1] >> 32) & IP_NUMBER_MAX)) {
				ret->invalid++;
				i++;
				continue;
			}
			stamp = word >> 32 | words[i + 1] << 32;
		} else {
			stamp = (time & ~IP_TIME_MASK) | ((word >> 3) & IP_TIME_MASK);
			if (!valid_id(id) || !((word >> 32) & IP_NUMBER_MAX) ||
			    !(ret->events || from->begun)) {
				ret->invalid++;
				i++;
				continue;
			}
		}
		if (stamp < time) {
			ret->invalid++;
			i += length;
			continue;
		}
		time = stamp;
		if (!ret->events++)
			ret->begin = stamp;
		memcpy(records + ret->words, words + i, length * sizeof(*words));
		ret->words += length;
		i += length;
	}
	ret->end = ret->events ? time : 0;
	return i;
}
