# SPDX-License-Identifier: Apache-2.0
"""
Programs of BPF that the kernel holds.
"""

import ctypes
import os

SYS_BPF = 321
PROG_GET_NEXT_ID, PROG_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 11, 13, 15
NAME_AT = 64  # of a program, in struct bpf_prog_info


def bpf(command, words):
    """bpf(2), whose argument begins with these 32-bit words; (result, the argument afterwards)."""
    attr = (ctypes.c_uint32 * 32)(*words)
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(SYS_BPF, command, ctypes.byref(attr), ctypes.sizeof(attr)), attr


def programs_of(pid):
    """What the BPF programs of an iprobe do that the kernel holds: letters (thread_filter.h)."""
    found, last = [], 0
    while True:
        result, attr = bpf(PROG_GET_NEXT_ID, [last])
        if result < 0:
            return found
        last = attr[1]
        fd, _ = bpf(PROG_GET_FD_BY_ID, [last])
        if fd < 0:
            continue
        info = ctypes.create_string_buffer(256)
        address = ctypes.addressof(info)
        result, _ = bpf(OBJ_GET_INFO_BY_FD, [fd, 256, address & 0xFFFFFFFF, address >> 32])
        os.close(fd)
        name = info.raw[NAME_AT : NAME_AT + 16].split(b"\0")[0].decode(errors="replace")
        if result == 0 and name.startswith(f"iprobe_{pid}") and len(name) == len(f"iprobe_{pid}r"):
            found.append(name[-1])
