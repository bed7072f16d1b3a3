/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts programs of BPF together, and loads them.
 */
#include "kernel_trace/perf/bpf_program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

static int bpf(enum bpf_cmd command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

void ip_bpf_put(struct ip_bpf_program *p, uint8_t code, uint8_t dst, uint8_t src, int16_t offset,
		int32_t immediate)
{
	if (p->n < IP_BPF_INSNS)
		p->insns[p->n] = (struct bpf_insn){.code = code,
						   .dst_reg = dst,
						   .src_reg = src,
						   .off = offset,
						   .imm = immediate};
	p->n++;
}

void ip_bpf_put_map(struct ip_bpf_program *p, uint8_t dst, int map)
{
	ip_bpf_put(p, BPF_LD | BPF_IMM | BPF_DW, dst, BPF_PSEUDO_MAP_FD, 0, map);
	ip_bpf_put(p, 0, 0, 0, 0, 0);
}

void ip_bpf_call(struct ip_bpf_program *p, enum bpf_func_id function)
{
	ip_bpf_put(p, BPF_JMP | BPF_CALL, 0, 0, 0, function);
}

void ip_bpf_exit_unless(struct ip_bpf_program *p, uint8_t reg)
{
	if (p->nexits == IP_BPF_EXITS)
		p->n = IP_BPF_INSNS;
	else
		p->exits[p->nexits++] = p->n;
	ip_bpf_put(p, BPF_JMP | BPF_JEQ | BPF_K, reg, 0, 0, 0);
}

static void put_end(struct ip_bpf_program *p)
{
	for (unsigned i = 0; i < p->nexits && p->n < IP_BPF_INSNS; i++)
		p->insns[p->exits[i]].off = p->n - p->exits[i] - 1;
	ip_bpf_put(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 1);
	ip_bpf_put(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

int ip_bpf_load(struct ip_bpf_program *p, const char *name)
{
	union bpf_attr attr = {.prog_type = p->type,
			       .insns = (uintptr_t)p->insns,
			       /* bpf_perf_event_output() asks for it; the program is ours */
			       .license = (uintptr_t) "Dual MIT/GPL"};
	int fd;

	put_end(p);
	if (p->n > IP_BPF_INSNS)
		return ip_error("a BPF program is too long");
	attr.insn_cnt = p->n;
	snprintf(attr.prog_name, sizeof(attr.prog_name), "%s", name);
	fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd < 0 && (errno == EPERM || errno == EACCES))
		return ip_error("cannot load a BPF program, which takes root, or CAP_BPF and "
				"CAP_PERFMON");
	if (fd < 0)
		return ip_error_errno("this kernel does not load a BPF program (it takes Linux "
				      "5.12)");
	return fd;
}

int ip_bpf_attach_raw(int program, const char *tracepoint)
{
	union bpf_attr attr = {
		.raw_tracepoint = {.name = (uintptr_t)tracepoint, .prog_fd = program}};
	const int fd = bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);

	return fd < 0 ? ip_error_errno("cannot attach a BPF program to %s", tracepoint) : fd;
}

int ip_bpf_map(enum bpf_map_type type, unsigned value_size, unsigned entries, unsigned flags)
{
	union bpf_attr attr = {.map_type = type,
			       .key_size = type == BPF_MAP_TYPE_RINGBUF ? 0 : 4,
			       .value_size = value_size,
			       .max_entries = entries,
			       .map_flags = flags};
	const int fd = bpf(BPF_MAP_CREATE, &attr);

	if (fd < 0 && (errno == EPERM || errno == EACCES))
		return ip_error("cannot make a BPF map, which takes root, or CAP_BPF");
	if (fd < 0)
		return ip_error_errno("cannot make a BPF map");
	return fd;
}

int ip_bpf_map_set(int map, uint32_t key, const void *value)
{
	union bpf_attr attr = {.map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)value};

	return bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

int ip_bpf_map_get(int map, uint32_t key, void *value)
{
	union bpf_attr attr = {.map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)value};

	return bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

static int get_info(int program, struct bpf_prog_info *ret)
{
	union bpf_attr attr = {
		.info = {.bpf_fd = program, .info_len = sizeof(*ret), .info = (uintptr_t)ret}};

	*ret = (struct bpf_prog_info){0};
	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
}

uint32_t ip_bpf_id(int program)
{
	struct bpf_prog_info info;

	return get_info(program, &info) < 0 ? 0 : info.id;
}

bool ip_bpf_is_named(uint32_t id, const char *begin)
{
	union bpf_attr attr = {.prog_id = id};
	struct bpf_prog_info info;
	_cleanup_close_ int fd = bpf(BPF_PROG_GET_FD_BY_ID, &attr);

	return fd >= 0 && get_info(fd, &info) == 0 && !strncmp(info.name, begin, strlen(begin));
}
