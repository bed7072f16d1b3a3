/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads sets of system calls.
 */
#include "analysis/syscalls/syscall_set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch/syscalls.h"
#include "common/edit_distance.h"
#include "common/error.h"

/* Classes that arguments do not tell. Names between commas. */
static const struct {
	const char *name, *calls;
} classes[] = {
	{"network", ",socket,connect,accept,accept4,sendto,recvfrom,sendmsg,recvmsg,sendmmsg,"
		    "recvmmsg,shutdown,bind,listen,getsockname,getpeername,socketpair,setsockopt,"
		    "getsockopt,"},
	{"process", ",clone,clone3,fork,vfork,execve,execveat,exit,exit_group,wait4,waitid,kill,"
		    "tkill,tgkill,pidfd_open,pidfd_send_signal,rt_sigqueueinfo,rt_tgsigqueueinfo,"
		    "arch_prctl,unshare,"},
	{"memory", ",mmap,munmap,mprotect,pkey_mprotect,mremap,brk,msync,madvise,process_madvise,"
		   "mincore,mlock,mlock2,munlock,mlockall,munlockall,mbind,set_mempolicy,"
		   "get_mempolicy,migrate_pages,move_pages,remap_file_pages,shmat,shmdt,"},
	{"signal", ",rt_sigaction,rt_sigprocmask,rt_sigreturn,rt_sigpending,rt_sigtimedwait,"
		   "rt_sigsuspend,rt_sigqueueinfo,rt_tgsigqueueinfo,sigaltstack,kill,tkill,tgkill,"
		   "pause,signalfd,signalfd4,pidfd_send_signal,"},
	{"ipc", ",shmget,shmat,shmctl,shmdt,semget,semop,semctl,semtimedop,msgget,msgsnd,msgrcv,"
		"msgctl,"},
};

static bool is_among(const char *word, const char *words)
{
	char wanted[40];

	snprintf(wanted, sizeof(wanted), ",%s,", word);
	return strstr(words, wanted);
}

bool ip_syscall_names_descriptor(const char *argument)
{
	return is_among(argument, ",fd,dfd,oldfd,newfd,olddfd,newdfd,epfd,ufd,in_fd,out_fd,fd_in,"
				  "fd_out,fdin,fdout,mqdes,pidfd,mountdirfd,fanotify_fd,group_fd,"
				  "kernel_fd,initrd_fd,ruleset_fd,");
}

bool ip_syscall_names_path(const char *argument)
{
	return is_among(argument, ",filename,pathname,path,oldname,newname,specialfile,dir_name,"
				  "new_root,put_old,from_pathname,to_pathname,fs_name,");
}

const char *ip_syscall_name(unsigned number, char buffer[32])
{
	const struct ip_syscall *call = ip_syscall_find(number);

	if (call)
		return call->name;
	snprintf(buffer, 32, "syscall_%u", number);
	return buffer;
}

const char *ip_syscall_argument_name(unsigned number, unsigned i, char buffer[32])
{
	const struct ip_syscall *call = ip_syscall_find(number);
	const char *at = call ? call->arguments : "";
	size_t n;

	while (i--) {
		at = strchr(at, ',');
		if (!at)
			return NULL;
		at++;
	}
	n = strcspn(at, ",");
	if (!n)
		return NULL;
	snprintf(buffer, 32, "%.*s", n < 31 ? (int)n : 31, at);
	return buffer;
}

static bool has_argument(unsigned number, bool (*names)(const char *argument))
{
	char name[32];

	for (unsigned i = 0; ip_syscall_argument_name(number, i, name); i++)
		if (names(name))
			return true;
	return false;
}

static void add(struct ip_syscall_set *set, unsigned number)
{
	set->bits[number / 64] |= 1ull << number % 64;
}

/* Takes a class, by a function of its arguments or by a list of calls. */
static void add_class(struct ip_syscall_set *set, bool (*names)(const char *argument),
		      const char *calls)
{
	for (unsigned i = 0; i < ip_syscall_end() && i < IP_KERNEL_SYSCALLS_MAX; i++) {
		const struct ip_syscall *call = ip_syscall_find(i);

		if (call && (names ? has_argument(i, names) : is_among(call->name, calls)))
			add(set, i);
	}
}

static bool take_class(const char *name, struct ip_syscall_set *set)
{
	if (!strcmp(name, "file")) {
		add_class(set, ip_syscall_names_path, NULL);
		return true;
	}
	if (!strcmp(name, "desc")) {
		add_class(set, ip_syscall_names_descriptor, NULL);
		return true;
	}
	if (!strcmp(name, "net"))
		name = "network";
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (!strcmp(name, classes[i].name)) {
			add_class(set, NULL, classes[i].calls);
			return true;
		}
	return false;
}

static const char *nearest(const char *name)
{
	const char *found = "read";
	size_t best = SIZE_MAX;

	for (unsigned i = 0; i < ip_syscall_end(); i++) {
		const struct ip_syscall *call = ip_syscall_find(i);
		const size_t apart = call ? ip_edit_distance(name, strlen(name), call->name,
							     strlen(call->name), 40)
					  : SIZE_MAX;

		if (apart < best) {
			best = apart;
			found = call->name;
		}
	}
	return found;
}

static int take_item(const char *item, struct ip_syscall_set *set)
{
	unsigned long number;
	char *end;

	if (*item == '%' && take_class(item + 1, set))
		return 0;
	if (*item == '%')
		return ip_error("-e %s: there is no such class of system calls: %%file, %%desc, "
				"%%network, %%process, %%memory, %%signal, %%ipc",
				item);
	for (unsigned i = 0; i < ip_syscall_end(); i++)
		if (ip_syscall_find(i) && !strcmp(item, ip_syscall_find(i)->name)) {
			add(set, i);
			return 0;
		}
	errno = 0;
	number = strtoul(item, &end, 10);
	if (*item >= '0' && *item <= '9' && !*end && !errno && number < IP_KERNEL_SYSCALLS_MAX) {
		add(set, number);
		return 0;
	}
	return ip_error("-e %s: there is no such system call; the nearest is %s", item,
			nearest(item));
}

int ip_syscall_set_parse(const char *text, struct ip_syscall_set *ret)
{
	struct ip_syscall_set set = {0};
	bool inverted;

	if (!strncmp(text, "trace=", 6))
		text += 6;
	inverted = *text == '!';
	text += inverted;
	if (!*text)
		return ip_error("-e needs the names of system calls: openat,read, %%file");
	while (*text) {
		const size_t n = strcspn(text, ",");
		char item[40];

		snprintf(item, sizeof(item), "%.*s", n < 39 ? (int)n : 39, text);
		if (!n)
			return ip_error("-e: an empty name among the system calls");
		if (take_item(item, &set) < 0)
			return -1;
		text += n;
		text += *text == ',' && text[1];
		if (*text == ',')
			return ip_error("-e: an empty name among the system calls");
	}
	for (size_t i = 0; inverted && i < sizeof(set.bits) / sizeof(*set.bits); i++)
		set.bits[i] = ~set.bits[i];
	*ret = set;
	return 0;
}
