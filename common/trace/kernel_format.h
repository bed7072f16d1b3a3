/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the kernel in a trace directory (--kernel). They are a CTF 1.8 trace of their own, as
 * LTTng lays out a session, with the same clock as the trace around it:
 *
 *   DIR/kernel/metadata     TSDL. The events have the names and the fields of LTTng's kernel tracer
 *                           (its version 2.6), so that analyses which expect that tracer work
 *   DIR/kernel/all_N        events of CPU N that happen in any process: who runs, who wakes whom
 *   DIR/kernel/target_N     events of CPU N that happen while a thread of the target runs there
 *   DIR/kernel/state_0      what was so when the recording of a process began
 *   DIR/kernel/state_1      likewise, as iprobed's reader of kernel events has told it, where that
 *                           has read them for a user
 *
 * Where the newest part of a trace is kept alone, there are segments: all_N-SEGMENT and so on, and
 * DIR/iprobe/descriptors-SEGMENT. Segments follow each other without a gap, and the oldest ones are
 * removed: what is older than a number that is missing does not count. Each segment can be read
 * without those before it: its state_0-SEGMENT tells what was so when it
 * began, of the threads that were recorded then, and the counts of its packets begin anew. A stream
 * that has begun has a file in each later segment.
 *
 * Where an iprobe was killed and another one goes on with the trace, the next segment begins with
 * packet 1 of each stream, which is empty: from the last packet before it to its time nothing is
 * known. Segments follow streams without segments then, too.
 *
 * A stream is a sequence of packets. A packet is a struct ip_kernel_packet_header, then events up
 * to content_size, and nothing after them. An event is a struct ip_kernel_event_header, then the
 * fields of its kind in their order, packed. Everything is little-endian.
 *
 * events_discarded of a packet counts the events of its stream that the kernel had no room for, up
 * to the end of the packet. What happened on that CPU between two packets whose counts differ is
 * not known: the events were lost from the end of the former to the first event of the latter.
 *
 * Threads have the ids of the initial pid namespace. Of a recording that iprobed has made for a
 * user all threads but those of the target are one for each CPU, IP_KERNEL_OTHER and its number,
 * whose name is IP_KERNEL_OTHER_NAME: who they are was left out before anything was written.
 *
 * Numbers from IP_KERNEL_SYSCALL_ENTRY on: the entry of the system call `number -
 * IP_KERNEL_SYSCALL_ENTRY`; its fields are the arguments that it has (common/arch/syscalls.h), 64
 * bits each, all six where the call is not known. From IP_KERNEL_SYSCALL_EXIT on: its return, with
 * one field, the result.
 *
 * Numbers from IP_KERNEL_FUNCTION_ENTRY on: the entry of a function of the kernel
 * (--kernel-functions), whose name stands in the line `number - IP_KERNEL_FUNCTION_ENTRY` of
 * DIR/iprobe/kernel_functions (kernel_functions.h). From IP_KERNEL_FUNCTION_EXIT on: its return.
 * Both are named and shaped as those of LTTng's kretprobes: NAME_entry and NAME_exit, with the
 * fields ip (where the function is) and parent_ip (where it returns to).
 */
#ifndef IP_KERNEL_FORMAT_H
#define IP_KERNEL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_KERNEL_SUBDIR   "kernel"
#define IP_KERNEL_ALL	   "all"
#define IP_KERNEL_TARGET   "target"
#define IP_KERNEL_STATE	   "state"
#define IP_KERNEL_CPUS_MAX 8192u

#define IP_KERNEL_OTHER	     (1 << 30) /* above all ids that a kernel gives */
#define IP_KERNEL_OTHER_NAME "another process"

#define IP_KERNEL_SYSCALL_ENTRY 1024u
#define IP_KERNEL_SYSCALL_EXIT	2048u
#define IP_KERNEL_SYSCALLS_MAX	1024u

#define IP_KERNEL_FUNCTION_ENTRY 256u
#define IP_KERNEL_FUNCTION_EXIT	 512u
#define IP_KERNEL_FUNCTIONS_MAX	 200u

struct ip_kernel_packet_header {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id; /* 0 */
	uint64_t timestamp_begin, timestamp_end;
	uint64_t content_size, packet_size; /* in bits, as CTF wants */
	uint64_t packet_seq_num, events_discarded;
	uint32_t cpu_id;
} __attribute__((packed));

struct ip_kernel_event_header {
	uint16_t id; /* enum ip_kernel_event, or of a system call or function */
	uint64_t tsc;
	int32_t tid;	 /* of the thread that ran on the CPU */
	uint8_t context; /* in which the event happened: IP_KERNEL_IN_*; IP_KERNEL_OWN_CALL */
} __attribute__((packed));

/* The fields of a function's entry and of its return. */
struct ip_kernel_function_fields {
	uint64_t ip, parent_ip;
} __attribute__((packed));

#define IP_KERNEL_IN_HARDIRQ 1u
#define IP_KERNEL_IN_SOFTIRQ 2u
/* Of the entry of a system call, and of IP_KERNEL_SYSCALL_STATE: iprobe's code in the process makes
 * it (common/abi/own_call.h). The mark itself is not among the arguments any more. */
#define IP_KERNEL_OWN_CALL 4u

enum ip_kernel_event {
	IP_KERNEL_SCHED_SWITCH = 1,
	IP_KERNEL_SCHED_WAKING,
	IP_KERNEL_SCHED_WAKEUP,
	IP_KERNEL_SCHED_WAKEUP_NEW,
	IP_KERNEL_SCHED_FORK,
	IP_KERNEL_SCHED_EXIT,
	IP_KERNEL_SIGNAL_DELIVER,
	IP_KERNEL_IRQ_ENTRY,
	IP_KERNEL_IRQ_EXIT,
	IP_KERNEL_SOFTIRQ_ENTRY,
	IP_KERNEL_SOFTIRQ_EXIT,
	IP_KERNEL_HRTIMER_ENTRY,
	IP_KERNEL_HRTIMER_EXIT,
	IP_KERNEL_TIMER_IRQ_ENTRY,
	IP_KERNEL_TIMER_IRQ_EXIT,
	IP_KERNEL_FAULT_USER,
	IP_KERNEL_FAULT_KERNEL,
	IP_KERNEL_BLOCK_ISSUE,
	IP_KERNEL_BLOCK_COMPLETE,
	/* of the beginning: the threads of a target; the calls that they had not returned from */
	IP_KERNEL_PROCESS_STATE,
	IP_KERNEL_SYSCALL_STATE,
	/* and of a thread in another pid namespace, its ids there */
	IP_KERNEL_IDS_STATE,
	/* of those who leave out what is other users' (kernel_trace/users/event_filter.h); in no
	   trace */
	IP_KERNEL_SCHED_EXEC,
	IP_KERNEL_TASK_RENAME,
	IP_KERNEL_EVENTS /* their number, and one more */
};

/* What --kernel chooses. */
enum ip_kernel_group {
	IP_KERNEL_GROUP_SCHED,
	IP_KERNEL_GROUP_SYSCALLS,
	IP_KERNEL_GROUP_IRQ,
	IP_KERNEL_GROUP_FAULTS,
	IP_KERNEL_GROUP_BLOCK,
	IP_KERNEL_GROUPS
};

enum ip_kernel_type {
	IP_KERNEL_S32,
	IP_KERNEL_U32,
	IP_KERNEL_S64,
	IP_KERNEL_U64,
	IP_KERNEL_X64,	 /* an address or flags */
	IP_KERNEL_TEXT16 /* 16 bytes, ended by 0 if it is shorter */
};

#define IP_KERNEL_FIELDS_MAX 8

struct ip_kernel_field {
	const char *name;	   /* in the trace */
	const char *of_tracepoint; /* the tracepoint's name for it; NULL: the same */
	enum ip_kernel_type type;
};

struct ip_kernel_kind {
	const char *name;
	/* the tracepoint; NULL: iprobe writes the event by itself */
	const char *system, *tracepoint;
	enum ip_kernel_group group;
	bool everywhere; /* of all processes, not of the target's threads alone */
	struct ip_kernel_field fields[IP_KERNEL_FIELDS_MAX]; /* up to one without a name */
	bool unwritten;					     /* it is in no trace */
};

/* Whether a system call has events. The kernel may number what is none: a call that seccomp has
 * skipped, or one of another ABI. */
bool ip_kernel_has_syscall(uint64_t number);

/* Whether the number is that of a function's entry or return. *ret_function: its line;
 * *ret_exit: whether it is a return. */
bool ip_kernel_is_function(unsigned id, unsigned *ret_function, bool *ret_exit);

/* What is known of an event. NULL: there is no such event. */
const struct ip_kernel_kind *ip_kernel_kind_of(unsigned id);
size_t ip_kernel_type_size(enum ip_kernel_type type);
/* The size of an event's fields. -1: there is no such event. */
int ip_kernel_fields_size(unsigned id);

/* The parts of the name of a stream's file: all_3, or all_3-17 in segment 17. */
struct ip_kernel_stream_name {
	size_t base;	  /* the length of all_3 */
	uint32_t segment; /* 0 where in_segments is false */
	bool in_segments;
	bool all; /* it has events of all processes */
};

/* Whether a file of DIR/kernel is a stream, by its name. */
bool ip_kernel_stream_name_parse(const char *name, struct ip_kernel_stream_name *ret);

/* Whether a text is the number of a segment, as it stands in names. */
bool ip_kernel_segment_parse(const char *text, uint32_t *ret);

/* Reads which groups --kernel asks for, "sched,irq"; "all": all of them. Returns 0, or -1 with an
 * error. */
int ip_kernel_groups_parse(const char *text, unsigned *ret);

/* What --kernel without groups is. */
#define IP_KERNEL_USUAL "sched,syscalls,irq,faults"

/* Reads what --kernel takes: groups, and "optional" among them, which is *ret_optional: where the
 * kernel cannot tell of its events, they are left out. NULL, or no group: IP_KERNEL_USUAL. Returns
 * 0, or -1 with an error. */
int ip_kernel_choice_parse(const char *text, unsigned *ret_groups, bool *ret_optional);

/* The names of groups, as --kernel takes them: "sched,irq". malloc'ed; NULL where memory ran out.
 */
char *ip_kernel_groups_text(unsigned groups);

/* The name of a group, as --kernel takes it. */
const char *ip_kernel_group_name(enum ip_kernel_group group);

#endif
