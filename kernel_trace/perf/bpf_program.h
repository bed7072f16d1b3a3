/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of BPF: the few instructions that we need, and bpf(2).
 */
#ifndef IP_BPF_PROGRAM_H
#define IP_BPF_PROGRAM_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_BPF_INSNS 192u
#define IP_BPF_EXITS 12u

struct ip_bpf_program {
	enum bpf_prog_type type;
	struct bpf_insn insns[IP_BPF_INSNS];
	unsigned n;			      /* more than there is room for: it cannot be loaded */
	unsigned exits[IP_BPF_EXITS], nexits; /* jumps to the end */
};

/* Appends one instruction. */
void ip_bpf_put(struct ip_bpf_program *p, uint8_t code, uint8_t dst, uint8_t src, int16_t offset,
		int32_t immediate);
/* dst = the map. */
void ip_bpf_put_map(struct ip_bpf_program *p, uint8_t dst, int map);
void ip_bpf_call(struct ip_bpf_program *p, enum bpf_func_id function);
/* Jumps to the end if reg == 0. */
void ip_bpf_exit_unless(struct ip_bpf_program *p, uint8_t reg);

/* Appends the end, which returns 1, and loads the program. Returns its descriptor, or -1 with an
 * error. */
int ip_bpf_load(struct ip_bpf_program *p, const char *name);
/* Attaches a program of the type BPF_PROG_TYPE_RAW_TRACEPOINT. Returns the descriptor that keeps it
 * there, or -1 with an error. */
int ip_bpf_attach_raw(int program, const char *tracepoint);

/* Makes a map. Returns its descriptor, or -1 with an error. */
int ip_bpf_map(enum bpf_map_type type, unsigned value_size, unsigned entries, unsigned flags);
/* Sets an entry of a map whose keys are 32 bits. Returns 0, or -1 with errno. */
int ip_bpf_map_set(int map, uint32_t key, const void *value);
/* Reads one, of a map that has no entry for each CPU. As above. */
int ip_bpf_map_get(int map, uint32_t key, void *value);

/* The number of a loaded program, by its descriptor; 0: it is not known. */
uint32_t ip_bpf_id(int program);
/* Whether a loaded program's name begins so. Not if it cannot be looked at, which takes
 * CAP_SYS_ADMIN. */
bool ip_bpf_is_named(uint32_t id, const char *begin);

#endif
