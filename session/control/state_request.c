/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for what the program does that has a session: both ends. The answer comes in memory of
 * the client's.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "session/session_private.h"

int ip_session_serve_description(struct ip_session *s, int memory)
{
	if (memory < 0)
		return ip_error("the request is damaged");
	if (!s->options->on_describe)
		return ip_error(
			"pid %d: its session (of iprobe pid %d) is none of a search: iprobe "
			"darc -f F0 %d begins one, once that has ended",
			s->target->pid, getpid(), s->target->pid);
	return s->options->on_describe(s->options->context, memory);
}

int ip_session_ask_description(pid_t pid, size_t most, char **ret_text, size_t *ret_size,
			       pid_t *ret_iprobe)
{
	_cleanup_close_ int memory =
		memfd_create("iprobe-description", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const struct ip_control_request request = {.flags = IP_CONTROL_DESCRIBE};
	_cleanup_free_ char *answer = NULL, *text = NULL;
	struct ip_control_reply reply;
	struct stat st;

	if (memory < 0)
		return ip_error_errno("cannot make memory for the answer");
	if (ip_session_request(pid, 0, &request, "", memory,
			       "iprobe darc -f F0 PID begins a search", &reply, &answer) < 0)
		return -1;
	if (fstat(memory, &st) < 0 || (uint64_t)st.st_size > most)
		return ip_error("pid %d: the answer of its session is too long", pid);
	text = calloc(1, (size_t)st.st_size + 1);
	if (!text)
		return ip_error("out of memory");
	if (ip_read_at(memory, "the answer of the session", 0, text, (size_t)st.st_size) < 0)
		return -1;
	*ret_text = ip_steal_ptr(text);
	*ret_size = (size_t)st.st_size;
	*ret_iprobe = (pid_t)reply.iprobe_pid;
	return 0;
}
