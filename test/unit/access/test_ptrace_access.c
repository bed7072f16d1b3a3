/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's rule about who may trace whom, row by row.
 */
#include <linux/capability.h>

#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "access/credentials.h"
#include "access/ptrace_access.h"
#include "test/unit/test.h"

#define PTRACE (1ull << CAP_SYS_PTRACE)
#define NET    (1ull << CAP_NET_RAW)
#define ALL    (~0ull)
#define IDS(u, g)                                                                                  \
	{                                                                                          \
		u, u, u, g, g, g                                                                   \
	}

struct row {
	const char *what;
	struct ip_tracer_credentials caller;
	struct ip_target_credentials target;
	const char *refusal; /* NULL: allowed */
};

static const struct row rows[] = {
	{"the same user", {IDS(5, 6), 0, 0}, {IDS(5, 6), 0, true}, NULL},
	{"another user", {IDS(5, 6), 0, 0}, {IDS(7, 6), 0, true}, "another user"},
	{"another group", {IDS(5, 6), 0, 0}, {IDS(5, 7), 0, true}, "another group"},
	{"a real uid alone", {IDS(5, 6), 0, 0}, {{5, 0, 0, 6, 6, 6}, 0, true}, "two users"},
	{"an effective uid alone", {IDS(5, 6), 0, 0}, {{7, 5, 7, 6, 6, 6}, 0, true}, "two users"},
	{"a saved uid of another", {IDS(5, 6), 0, 0}, {{5, 5, 0, 6, 6, 6}, 0, true}, "two users"},
	{"a saved gid of another", {IDS(5, 6), 0, 0}, {{5, 5, 5, 6, 6, 0}, 0, true}, "two groups"},
	{"an effective gid of another",
	 {IDS(5, 6), 0, 0},
	 {{5, 5, 5, 6, 7, 6}, 0, true},
	 "two groups"},
	{"the caller's effective ids do not count",
	 {{7, 5, 5, 6, 6, 6}, 0, 0},
	 {IDS(5, 6), 0, true},
	 "another user"},
	{"the caller's real ids do", {{5, 7, 7, 6, 8, 8}, 0, 0}, {IDS(5, 6), 0, true}, NULL},
	{"undumpable", {IDS(5, 6), 0, 0}, {IDS(5, 6), 0, false}, "undumpable"},
	{"a target with more capabilities",
	 {IDS(5, 6), 0, 0},
	 {IDS(5, 6), NET, true},
	 "capabilities"},
	{"a target with as many", {IDS(5, 6), NET, 0}, {IDS(5, 6), NET, true}, NULL},
	{"a target with others",
	 {IDS(5, 6), NET, NET},
	 {IDS(5, 6), NET << 1, true},
	 "capabilities"},
	{"capabilities are no ids", {IDS(5, 6), NET, NET}, {IDS(7, 6), 0, true}, "another user"},
	{"root", {IDS(0, 0), ALL, ALL}, {IDS(5, 6), 0, true}, NULL},
	{"root, setuid", {IDS(0, 0), ALL, ALL}, {{5, 0, 0, 6, 6, 6}, ALL, false}, NULL},
	{"root, undumpable", {IDS(0, 0), ALL, ALL}, {IDS(5, 6), 0, false}, NULL},
	{"root without CAP_SYS_PTRACE",
	 {IDS(0, 0), ALL & ~PTRACE, ALL & ~PTRACE},
	 {IDS(5, 6), 0, true},
	 "another user"},
	{"that, root's own", {IDS(0, 0), NET, NET}, {IDS(0, 0), NET, true}, NULL},
	{"that, root's own with more",
	 {IDS(0, 0), NET, NET},
	 {IDS(0, 0), ALL, true},
	 "capabilities"},
	{"CAP_SYS_PTRACE alone", {IDS(5, 6), PTRACE, PTRACE}, {IDS(0, 0), ALL, false}, NULL},
	{"CAP_SYS_PTRACE that is not effective",
	 {IDS(5, 6), PTRACE, 0},
	 {IDS(0, 0), 0, true},
	 "another user"},
	{"a namespace below that is the caller's",
	 {IDS(5, 6), 0, 0},
	 {IDS(5, 6), ALL, true, IP_USERNS_BELOW, true},
	 NULL},
	{"that, another user in it",
	 {IDS(5, 6), 0, 0},
	 {IDS(9, 9), ALL, false, IP_USERNS_BELOW, true},
	 NULL},
	{"a namespace below that is not",
	 {IDS(5, 6), 0, 0},
	 {IDS(5, 6), 0, true, IP_USERNS_BELOW, false},
	 "user namespace"},
	{"that, with capabilities of the caller's",
	 {IDS(5, 6), ALL, ALL & ~PTRACE},
	 {IDS(5, 6), 0, true, IP_USERNS_BELOW},
	 "user namespace"},
	{"root and a namespace below",
	 {IDS(0, 0), ALL, ALL},
	 {IDS(5, 6), ALL, false, IP_USERNS_BELOW},
	 NULL},
	{"root and a namespace elsewhere",
	 {IDS(0, 0), ALL, ALL},
	 {IDS(0, 0), 0, true, IP_USERNS_OTHER},
	 "user namespace"},
	{"the owner of a namespace elsewhere",
	 {IDS(5, 6), 0, 0},
	 {IDS(5, 6), 0, true, IP_USERNS_OTHER, true},
	 "user namespace"},
};

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		const char *refusal = ip_ptrace_access_refusal(&rows[i].caller, &rows[i].target);

		if (!refusal != !rows[i].refusal || (refusal && !strstr(refusal, rows[i].refusal)))
			fail_msg("%s: %s, expected %s", rows[i].what, refusal ? refusal : "allowed",
				 rows[i].refusal ? rows[i].refusal : "allowed");
	}
}

static void test_plain(void **state)
{
	static const struct {
		struct ip_target_credentials target;
		const char *why;
	} cases[] = {
		{{IDS(5, 6), 0, true}, NULL},
		{{{5, 0, 0, 6, 6, 6}, 0, true}, "two users"},
		{{{5, 5, 0, 6, 6, 6}, 0, true}, "two users"},
		{{{5, 5, 5, 6, 7, 7}, 0, true}, "two groups"},
		{{{5, 5, 5, 6, 6, 7}, 0, true}, "two groups"},
		{{IDS(0, 0), 0, true}, "root"},
		{{IDS(5, 6), 0, false}, "undumpable"},
		{{IDS(5, 6), NET, true}, "capabilities"},
		{{IDS(5, 6), 0, true, IP_USERNS_BELOW, true}, "user namespace"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const char *why = ip_ptrace_access_not_plain(&cases[i].target);

		if (!why != !cases[i].why || (why && !strstr(why, cases[i].why)))
			fail_msg("row %zu: %s", i, why ? why : "plain");
	}
}

/* What the kernel says of who has connected: this process itself. */
static void test_who_asks(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listening = socket(AF_UNIX, SOCK_SEQPACKET, 0),
	    client = socket(AF_UNIX, SOCK_SEQPACKET, 0), accepted;
	struct rlimit limit, lower;
	struct ip_peer peer;

	(void)state;
	assert_return_code(getrlimit(RLIMIT_FSIZE, &limit), 0);
	lower = (struct rlimit){limit.rlim_max == RLIM_INFINITY ? 123456789 : limit.rlim_max,
				limit.rlim_max};
	assert_return_code(setrlimit(RLIMIT_FSIZE, &lower), 0);
	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "iprobe-test-%d", getpid());
	assert_return_code(bind(listening, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_return_code(listen(listening, 1), 0);
	assert_return_code(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	accepted = accept(listening, NULL, NULL);
	assert_return_code(accepted, 0);
	assert_int_equal(ip_credentials_of_peer(accepted, &peer), 0);
	assert_int_equal(peer.pid, getpid());
	assert_true(ip_pidfd_lives(peer.pidfd));
	assert_int_equal(peer.facts.ids.ruid, getuid());
	assert_int_equal(peer.facts.ids.sgid, getgid());
	assert_int_equal(peer.limits.file_size, lower.rlim_cur);
	assert_return_code(getrlimit(RLIMIT_NPROC, &lower), 0);
	assert_true(peer.limits.processes == lower.rlim_cur); /* RLIM_INFINITY is UINT64_MAX */
	ip_peer_clear(&peer);
	setrlimit(RLIMIT_FSIZE, &limit);
	close(accepted);
	close(client);
	close(listening);
	assert_int_equal(ip_credentials_of_peer(-1, &peer), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_who_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
