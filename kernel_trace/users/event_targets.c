/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which processes were asked for.
 */
#include "kernel_trace/users/event_targets.h"

#include <string.h>

#include "common/error.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/users/event_packets.h"

bool ip_event_target_is_gone(const struct ip_event_targets *targets,
			     const struct ip_event_target *t)
{
	const struct ip_event_reader_options *o = targets->options;

	return o->lives && !o->lives(o->context, t->pid);
}

static size_t count(const struct ip_event_targets *targets)
{
	return __atomic_load_n(&targets->n, __ATOMIC_ACQUIRE);
}

struct ip_event_target *ip_event_targets_find(struct ip_event_targets *targets, pid_t pid)
{
	for (size_t i = count(targets); i > 0; i--)
		if (__atomic_load_n(&targets->items[i - 1].pid, __ATOMIC_ACQUIRE) == pid)
			return &targets->items[i - 1];
	return NULL;
}

bool ip_event_target_is_strange(const struct ip_event_target *t)
{
	return __atomic_load_n(&t->strange, __ATOMIC_ACQUIRE);
}

void ip_event_target_set_strange(struct ip_event_target *t)
{
	__atomic_store_n(&t->strange, true, __ATOMIC_RELEASE);
}

struct ip_event_target *ip_event_targets_take(struct ip_event_targets *targets, pid_t pid)
{
	const struct ip_event_reader_options *o = targets->options;
	struct ip_event_target *t = ip_event_targets_find(targets, pid);

	/* where there is one process, nothing else comes to be it */
	if (t && (!o->hold || !ip_event_target_is_gone(targets, t)))
		return t;
	if (targets->n == IP_EVENT_TARGETS_MOST) {
		ip_error("events of the kernel are given of %u processes at most",
			 IP_EVENT_TARGETS_MOST);
		return NULL;
	}
	if (t)
		__atomic_store_n(&t->pid, 0, __ATOMIC_RELEASE);
	if (o->hold && o->hold(o->context, pid) < 0)
		return NULL;
	t = &targets->items[targets->n];
	*t = (struct ip_event_target){.pid = pid};
	__atomic_store_n(&targets->n, targets->n + 1, __ATOMIC_RELEASE);
	return t;
}

/* It was read of /proc, of the process' own threads, by their numbers. If it is still there, they
 * are its own. Its parent is another process. */
int ip_event_targets_begin_state(struct ip_event_targets *targets, const uint8_t *event,
				 size_t size)
{
	struct ip_event_item item = {.size = size};
	uint8_t copy[IP_EVENT_SIZE_MAX];
	struct ip_kernel_event_header header;
	struct {
		int32_t tid, pid, ppid;
		char name[16];
	} ids;
	struct ip_event_target *t;

	if (size < sizeof(header) || size > sizeof(copy))
		return 0;
	memcpy(copy, event, size);
	memcpy(&header, copy, sizeof(header));
	if ((int)(size - sizeof(header)) != ip_kernel_fields_size(header.id))
		return 0;
	if (header.id == IP_KERNEL_PROCESS_STATE) { /* each thread begins with it */
		memcpy(&ids, copy + sizeof(header), sizeof(ids));
		targets->reading = ids.pid > 0 ? ip_event_targets_find(targets, ids.pid) : NULL;
	}
	t = targets->reading;
	if (!t)
		return 0;
	if (ip_event_target_is_gone(targets, t))
		ip_event_target_set_strange(t);
	if (ip_event_target_is_strange(t))
		return 0;
	item.tsc = header.tsc;
	item.asked = t->asked;
	item.pid = t->pid;
	if (header.id == IP_KERNEL_PROCESS_STATE) {
		ids.name[15] = '\0';
		if (ip_event_filter_show(targets->filter, ids.tid, ids.pid, ids.name, t->asked,
					 header.tsc) < 0)
			return -1;
		ids.ppid = 0;
		memcpy(copy + sizeof(header), &ids, sizeof(ids));
	}
	return ip_event_queue_put(targets->queues, &targets->begin, &item, copy)
		       ? 0
		       : ip_error("pid %d has too many threads", t->pid);
}

/* The beginning of an exec, and the end. */
void ip_event_targets_note(struct ip_event_targets *targets,
			   const struct ip_kernel_event_header *header, const uint8_t *event)
{
	struct ip_event_target *t;
	int32_t tid;

	if (header->id != IP_KERNEL_SCHED_EXEC && header->id != IP_KERNEL_TASK_RENAME)
		return;
	memcpy(&tid, event + sizeof(*header), sizeof(tid));
	t = tid > 0 ? ip_event_targets_find(targets, tid) : NULL;
	if (t && header->tsc > t->executed)
		t->executed = header->tsc;
}

void ip_event_targets_note_loss(struct ip_event_targets *targets, uint64_t tsc)
{
	for (size_t i = 0; i < count(targets); i++) /* perhaps an exec */
		targets->items[i].executed = tsc;
}

/* What was read of a program that the process has executed since it was checked is dropped: it may
 * have had other rights. */
int ip_event_targets_send_begin(struct ip_event_targets *targets, int socket, uint64_t until,
				bool all)
{
	struct ip_event_queue *begin = &targets->begin;
	struct ip_event_writer o = {0};
	struct ip_event_item item;
	const uint8_t *event;
	int ret = 0;

	if (!begin->used || (until <= begin->last && !all))
		return 0;
	while (ret == 0 && (event = ip_event_queue_first(begin, &item))) {
		const struct ip_event_target *t = ip_event_targets_find(targets, item.pid);

		if (t && !ip_event_target_is_strange(t) && t->executed < item.asked)
			ret = ip_event_gather(socket, &o, true, IP_KERNEL_CPUS_MAX, event,
					      item.size);
		ip_event_queue_drop(begin);
	}
	if (ret == 0)
		ret = ip_event_send(socket, &o);
	ip_event_queue_tidy(targets->queues, begin);
	ip_event_writer_clear(&o);
	return ret;
}

void ip_event_targets_clear(struct ip_event_targets *targets)
{
	ip_event_queue_clear(targets->queues, &targets->begin);
}
