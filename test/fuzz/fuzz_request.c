/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to iprobed: any bytes. What it takes is written and read again, and holds no option that
 * names a file. The same bytes as a policy.
 *
 * covers: access/protocol.c
 */
#include "access/policy.h"
#include "access/protocol.h"
#include "fuzz.h"

static void check(const struct ip_request *r)
{
	struct ip_request again;
	char *text = ip_request_format(r);
	uint64_t buffer;
	bool optional;

	fuzz_assert(text);
	fuzz_assert(ip_request_parse(text, strlen(text), &again) == 0);
	fuzz_assert(again.what == r->what && again.pid == r->pid && again.leave == r->leave);
	fuzz_assert(!strcmp(again.directory, r->directory) && again.noptions == r->noptions);
	for (size_t i = 0; i < r->noptions; i++) {
		fuzz_assert(!strcmp(again.options[i], r->options[i]));
		fuzz_assert(!strncmp(r->options[i], "--", 2));
		fuzz_assert(r->what == IP_REQUEST_SNAPSHOT || !strstr(r->options[i], ":@"));
		fuzz_assert(!strchr(r->options[i], '=') || strchr(r->options[i], '=')[1] != '@');
		fuzz_assert(strncmp(r->options[i], "--list", 6));
		fuzz_assert(strncmp(r->options[i], "--output", 8) ||
			    (r->what == IP_REQUEST_SNAPSHOT &&
			     !strncmp(r->options[i], "--output=/", 10)));
	}
	fuzz_assert(!strchr(r->directory, '/') && r->pid > 0);
	fuzz_assert(r->what == IP_REQUEST_ATTACH || !r->leave);
	fuzz_assert(ip_request_fds(r->what) == IP_REQUEST_FDS || !*r->directory);
	fuzz_assert(ip_request_memory(r) <= IP_REQUEST_MEMORY_MAX);
	fuzz_assert(!ip_request_kernel(r, &buffer, &optional) || r->what == IP_REQUEST_ATTACH ||
		    r->what == IP_REQUEST_TOP || r->what == IP_REQUEST_KERNEL);
	fuzz_assert(buffer <= IP_REQUEST_KERNEL_BUFFER_MAX);
	fuzz_assert(r->what == IP_REQUEST_ATTACH || !r->member);
	fuzz_assert(ip_request_fds(r->what) ==
		    (r->what == IP_REQUEST_ATTACH || r->what == IP_REQUEST_SNAPSHOT ? 3
		     : r->what == IP_REQUEST_KERNEL				    ? 0
										    : 2));
	fuzz_assert(!strncmp(ip_request_name(r->what), strchr(text, '\n') + 1,
			     strlen(ip_request_name(r->what))));
	ip_request_clear(&again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ip_policy policy;
	struct ip_request r;

	if (ip_request_parse((const char *)data, size, &r) < 0) {
		fuzz_check_error();
	} else {
		check(&r);
		ip_request_clear(&r);
	}
	if (ip_policy_parse((const char *)data, size, "policy", &policy) < 0) {
		fuzz_check_error();
	} else {
		for (size_t i = 0; i < policy.n; i++)
			fuzz_assert(policy.entries[i].nusers &&
				    !ip_policy_entry_allows(&policy.entries[i], 0, "/bin/sh"));
		ip_policy_clear(&policy);
	}
	return 0;
}
