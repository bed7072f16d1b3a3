#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the harness of kernel events: make_corpus_kernel_events.py DIR makes
DIR/kernel_events/*.
"""

import os
import struct
import sys

SWITCH, WAKING, WAKEUP, WAKEUP_NEW, FORK, EXIT = range(1, 7)
FAULT, PROCESS, CALL_STATE = 16, 20, 21
ENTRY, RETURN = 1024, 2048
FUNCTION, FUNCTION_RETURN = 256, 512
IDS = 22
# arguments of system calls as common/arch/x86_64/syscalls.c counts them
SOME = {
    0: 3, 1: 3, 2: 3, 3: 1, 7: 3, 23: 5, 33: 2, 34: 0, 35: 2, 42: 3, 43: 3, 44: 6, 45: 6, 47: 3,
    56: 5, 59: 3, 61: 4, 292: 3, 436: 3,
    72: 3, 73: 2, 74: 1,
    128: 4, 202: 6, 219: 0, 230: 4, 232: 4, 247: 5, 257: 4, 270: 6, 271: 5, 281: 6,
    288: 4, 426: 6, 40: 4, 162: 0, 165: 5, 449: 5, 4: 2, 58: 0, 209: 3, 455: 6,
}  # fmt: skip
DESCRIPTORS = (
    b"1\t7\t3\tfile\t/var/x\n5\t7\t3\tsocket\ttcp 1.2.3.4:5\n1\t7\t4\tpipe\tpipe:[1]\nx\n"
    b"1\t8\t3\tnone\tx\n1\t7\t-1\tfile\tx\n9\t7\t5\ttimer\tanon_inode:[timerfd]\n2\t7"
)


def event(number, tsc, tid, fields=b"", context=0):
    return struct.pack("<HQiB", number, tsc, tid, context) + fields


def switch(tsc, prev, state, following):
    fields = b"p" * 15 + b"\0" + struct.pack("<iiq", prev, 120, state)
    return event(SWITCH, tsc, prev, fields + b"n" * 15 + b"\0" + struct.pack("<ii", following, 120))


def woken(number, tsc, tid, whom, context=0):
    return event(number, tsc, tid, b"w" * 16 + struct.pack("<iii", whom, 120, 0), context)


def packet(events, begin, end, cpu=0, lost=0, number=0):
    body = b"".join(events)
    bits = 8 * (76 + len(body))
    head = struct.pack(
        "<I16sI6QI", 0xC1FC1FC1, b"u" * 16, 0, begin, end, bits, bits, number, lost, cpu
    )
    return head + body


def call(tsc, tid, number, result=1, arguments=(3, 4, 5, 6, 7, 8)):
    """A call in which the thread is blocked, and is woken by thread 9."""
    n = SOME[number]
    return [
        event(ENTRY + number, tsc, tid, struct.pack(f"<{n}Q", *arguments[:n])),
        switch(tsc + 1, tid, 1, 9),
        woken(WAKING, tsc + 2, 9, tid),
        woken(WAKEUP, tsc + 3, 9, tid),
        switch(tsc + 4, 9, 0, tid),
        event(RETURN + number, tsc + 5, tid, struct.pack("<q", result)),
    ]


def futex(tsc, tid, word, operation, value):
    return event(ENTRY + 202, tsc, tid, struct.pack("<6Q", word, operation | 128, value, 0, 0, 0))


def locked(tsc, tid, by, word, operation=0, result=0):
    """A thread waits for a lock, which another one unlocks."""
    return [
        switch(tsc, 0, 0, tid),
        futex(tsc + 1, tid, word, operation, 2),
        switch(tsc + 2, tid, 1, by),
        futex(tsc + 3, by, word, 7 if operation == 6 else 1, 1),
        woken(WAKING, tsc + 4, by, tid),
        woken(WAKEUP, tsc + 5, by, tid),
        event(RETURN + 202, tsc + 6, by, struct.pack("<q", 1)),
        switch(tsc + 7, by, 1, tid),
        event(RETURN + 202, tsc + 8, tid, struct.pack("<q", result)),
    ]


def queue(tsc, word, *tids):
    """Threads wait for a lock, which each gets from the one in front of it; the first has it."""
    said = []
    for i, tid in enumerate(tids[1:]):
        said += [switch(tsc + 3 * i, 0, 0, tid), futex(tsc + 3 * i + 1, tid, word, 0, 2)]
        said += [switch(tsc + 3 * i + 2, tid, 1, 0)]
    tsc += 3 * len(tids)
    said += [switch(tsc, 0, 0, tids[0])]
    for by, tid in zip(tids, tids[1:]):
        tsc += 10
        said += [futex(tsc, by, word, 1, 1)]
        said += [woken(WAKING, tsc + 1, by, tid), woken(WAKEUP, tsc + 2, by, tid)]
        said += [event(RETURN + 202, tsc + 3, by, struct.pack("<q", 1))]
        said += [switch(tsc + 4, by, 1, tid)]
        said += [event(RETURN + 202, tsc + 5, tid, struct.pack("<q", 0))]
    return said


def whole(*streams, descriptors=DESCRIPTORS):
    return b"".join(struct.pack("<I", len(part)) + part for part in (descriptors, *streams))


def functions(tsc, tid, *numbers):
    """Functions of the kernel, called (n) and returned from (~n)."""
    return [
        event(
            FUNCTION + n if n >= 0 else FUNCTION_RETURN + ~n,
            tsc + i,
            tid,
            struct.pack("<QQ", 0x1000 + n, 0x2000),
        )
        for i, n in enumerate(numbers)
    ]


def seeds():
    for number in SOME:
        events, tsc = [], 10
        for result in (1, 0, -4):
            events += call(tsc, 7, number, result)
            events += call(tsc + 10, 7, 0)
            tsc += 20
        yield whole(packet(events, 10, tsc))
    plain = [
        event(PROCESS, 10, 7, struct.pack("<iii16siiii", 7, 7, 1, b"name", 0, 2, 0, 5)),
        event(CALL_STATE, 11, 7, struct.pack("<ii6Q", 7, 202, 1, 2, 3, 4, 5, 6)),
        woken(WAKING, 12, 8, 7),
        woken(WAKEUP, 13, 8, 7),
        switch(14, 8, 0x100, 7),
        event(FAULT, 15, 7, struct.pack("<QQQ", 4096, 1, 4)),
        switch(16, 7, 2, 0),
        woken(WAKING, 17, 0, 7, 1),
        switch(18, 0, 0, 7),
        switch(19, 7, 4, 8),
        woken(WAKING, 20, 8, 5),
        event(FORK, 21, 8, b"f" * 16 + struct.pack("<i", 8) + b"c" * 16 + struct.pack("<i", 6)),
        woken(WAKEUP_NEW, 22, 8, 6),
        switch(23, 8, 0, 6),
        event(EXIT, 24, 6, b"e" * 16 + struct.pack("<ii", 6, 120)),
        switch(25, 6, 0x10, 7),
        event(FORK, 26, 8, b"f" * 16 + struct.pack("<i", 8) + b"c" * 16 + struct.pack("<i", 6)),
    ]
    yield whole(packet(plain, 10, 26))
    yield whole(packet(plain[:8], 10, 17), packet(plain[8:], 18, 26, 1), packet([], 20, 20))
    lost = packet(plain[:8], 10, 17) + packet(plain[8:12], 18, 21, 0, 5, 1)
    yield whole(lost + packet([], 30, 30, 0, 9, 2), packet(call(12, 5, 202), 12, 17, 1))
    yield whole(lost[:-3])
    yield whole(lost.replace(b"u", b"\xff"))
    yield whole(packet(plain, 10, 9))
    yield whole(packet([event(999, 10, 7)], 10, 10))
    yield whole(packet(plain[:1], 10, 10)[:40])
    # what is closed by a thread of an unknown process, over and over
    closed = [event(ENTRY + 3, 100 + i, 9, struct.pack("<Q", i % 5)) for i in range(330)]
    yield whole(packet(closed, 100, 500))
    # arguments of all kinds: names, descriptors, sizes, and results that are errors
    some = []
    for i, number in enumerate(sorted(SOME)):
        n, tsc = SOME[number], 100 + 10 * i
        values = (3, 0x80041, 0x80042, 0x22, 0xFFFFFFFFFFFFFFFF, 0)[:n]
        some += [event(ENTRY + number, tsc, 7, struct.pack(f"<{n}Q", *values))]
        some += [event(RETURN + number, tsc + 3, 7, struct.pack("<q", (3, -2, -516, -4095)[i % 4]))]
    yield whole(packet(some, 100, 100 + 10 * len(SOME)))
    # many threads, calls that have no return, and returns without an entry
    many = [event(ENTRY + 34, 100 + i, 1000 + i) for i in range(300)]
    many += [event(RETURN + 56, 500 + i, 2000 + i, struct.pack("<q", i % 2)) for i in range(40)]
    many += [event(ENTRY + 1000, 600, 7, struct.pack("<6Q", 1, 2, 3, 4, 5, 6))]
    many += [event(ENTRY + 9, 601, 7, struct.pack("<6Q", 0, 4096, 3, 0x22, 2**64 - 1, 0))]
    yield whole(packet(many, 100, 601))
    # locks: taken by who waits, by another one, not in time, with PI, of two processes, of a file
    locks = locked(100, 7, 9, 64) + locked(110, 7, 8, 64) + [futex(120, 7, 64, 1, 1)]
    locks += locked(130, 8, 7, 64, result=-110) + locked(140, 8, 7, 96, 6) + locked(150, 9, 7, 64)
    locks += [futex(160, 8, 96, 7, 0), futex(161, 8, 128, 1, 1)]
    files = call(170, 7, 73) + call(180, 8, 72, arguments=(3, 7, 0))
    idle = packet([switch(60, 0, 1, 0)], 60, 60, 1) + packet([], 300, 300, 1, 0, 1)
    yield whole(packet(locks + files, 100, 300), idle)
    # a packet without events is the first one: older events of that CPU are gone
    mark = packet([], 120, 120, 1) + packet([], 300, 300, 1, 0, 1)
    yield whole(packet([], 90, 90) + packet(locks + files, 100, 300, 0, 0, 1), mark)
    late = packet(locks[25:] + files, 130, 300, 0, 3, 1)
    yield whole(packet(locks[:25], 100, 129) + late, idle)
    # calls that a stop has broken off: they go on, by themselves or with restart_syscall(2), or a
    # handler has run; and what a thread was in that was seen before, or was unknown
    broken = call(100, 7, 35, -516) + call(110, 7, 219, -516, ())
    broken += call(120, 7, 7, -514) + call(130, 7, 7, -514) + [event(ENTRY + 15, 137, 7)]
    broken += call(140, 7, 7, 1)
    inside = struct.pack("<ii6Q", 9, 202, 1, 2, 3, 4, 5, 6)
    yield whole(packet(broken, 100, 150), idle)
    begun = [switch(90, 9, 1, 7), event(CALL_STATE, 91, 7, inside)]
    yield whole(packet(begun + broken, 90, 150), idle)
    # events of the target were lost while threads were in calls
    gap = packet(broken[:5], 100, 105) + packet(broken[6:], 110, 150, 0, 2, 1)
    gap += packet([], 150, 150, 0, 2, 2)
    gap += packet([event(CALL_STATE, 160, 7, inside)], 160, 160, 0, 2, 3)
    yield whole(packet(begun[:1] + broken, 90, 150), idle, gap)
    yield whole(packet(begun[:1] + broken[:4], 90, 104), packet([], 300, 300, 1), gap)
    # who waits gets it from others that waited
    yield whole(packet(queue(100, 64, 9, 7, 8, 6) + queue(180, 64, 6, 8, 7), 100, 300), idle)
    # work for clients: of a port, of unix, of another process, accepted and without a name
    names = (
        b"1\t7\t3\tsocket\ttcp 0.0.0.0:80\n1\t7\t4\tsocket\ttcp 1.1.1.1:80 - 2.2.2.2:9\n"
        b"1\t7\t5\tsocket\tunix bound:[1] - [2]\n1\t7\t6\tsocket\ttcp 1.1.1.1:7 - 1.1.1.1:80\n"
        b"1\t7\t8\tsocket\ttcp 1.1.1.1:80 - 1.1.1.1:7\n1\t7\t2\tpipe\tpipe:[1]\n"
    )
    work = [event(CALL_STATE, 9, 7, struct.pack("<ii6Q", 7, 0, 4, 2, 3, 4, 5, 6))]
    for i, (tid, number, fd, result) in enumerate(
        [
            *[(7, 0, 4, 10), (7, 0, 4, -11), (7, 44, 6, 10), (8, 45, 8, 10), (8, 1, 5, 1)],
            *[(8, 7, 0, 1), (8, 44, 6, 5), (7, 288, 3, 12), (7, 0, 12, 5), (7, 3, 12, 0)],
            *[(8, 0, 2, 1), (8, 202, 1, 0), (8, 1, 4, 1), (7, 288, 3, 13), (7, 33, 1, 13)],
            *[(7, 436, 3, 0), (7, 35, 0, 0), (7, 219, 0, 0), (8, 230, 0, 0), (8, 0, 5, 0)],
        ]
    ):
        work += call(100 + 10 * i, tid, number, result, (fd, 13 if number == 33 else 9, 3, 4, 5, 6))
    yield whole(packet(work, 9, 400), descriptors=names)
    lost = packet([], 1, 1, 0, 0) + packet(work[40:60], 130, 210, 0, 0, 1)
    lost += packet(work[60:], 220, 400, 0, 3, 2)
    yield whole(b"", b"", packet(work[:40], 9, 120) + lost, descriptors=names)
    # a child serves what its parent has accepted; another one with its pid does not
    forked = [
        event(PROCESS, 9, 7, struct.pack("<iii16siiii", 7, 7, 1, b"name", 0, 2, 0, 5)),
        *call(100, 7, 43, 12, (3, 0, 0, 0, 0, 0)),
        *call(110, 7, 288, 13, (3, 0, 0, 0, 0, 0)),
        event(ENTRY + 58, 120, 7),
        event(FORK, 121, 7, b"f" * 16 + struct.pack("<i", 7) + b"c" * 16 + struct.pack("<i", 6)),
        event(RETURN + 58, 122, 7, struct.pack("<q", 6)),
        *call(130, 6, 0, 5, (12, 1, 2, 0, 0, 0)),
        *call(140, 6, 44, 5, (12, 1, 2, 0, 0, 0)),
        *call(150, 6, 0, 5, (13, 1, 2, 0, 0, 0)),
        switch(160, 6, 0x10, 7),
        event(ENTRY + 58, 161, 7),
        event(FORK, 162, 7, b"f" * 16 + struct.pack("<i", 7) + b"c" * 16 + struct.pack("<i", 6)),
        event(RETURN + 58, 163, 7, struct.pack("<q", 6)),
        *call(170, 6, 0, 5, (12, 1, 2, 0, 0, 0)),
        *call(180, 7, 45, 9, (8, 1, 2, 0, 0, 0)),
    ]
    yield whole(b"", b"", packet(forked, 9, 300), descriptors=names)
    # woken for nothing: the call waits once more
    twice = call(100, 7, 202)[:-1] + call(110, 7, 202)[1:] + call(120, 7, 0)[:-1]
    twice += call(130, 7, 0)[1:-1] + call(140, 7, 0)[1:]
    yield whole(packet(twice, 100, 300))
    # functions of the kernel: nested, without a return, without an entry, deep, and one unknown
    called = functions(100, 7, 0, 1, ~1, 1, 2, ~1, ~0, ~2, 0, 5, ~5, 0, ~0)
    called += functions(120, 8, *[2] * 70, *[~2] * 75)
    other = functions(110, 7, 1, ~1, 2, ~2, 0)
    yield whole(b"", b"", packet(called, 100, 270))
    yield whole(packet(other, 110, 114), b"", packet(called, 100, 270))
    lossy = packet(called[:9], 100, 108) + packet(called[9:], 109, 270, 0, 3, 1)
    yield whole(b"", packet(other, 110, 114, 1), lossy)
    inner = [event(IDS, 50, 7, struct.pack("<iiii", 7, 7, 2, 2))]
    yield whole(b"", packet(inner + other, 50, 114, 1), packet(called, 100, 270))
    # threads that wait for each other, in a ring
    ring = []
    for i in range(40):
        ring += [switch(100 + 4 * i, 7 + i % 3, 1, 7 + (i + 1) % 3)]
        ring += [woken(WAKING, 101 + 4 * i, 7 + (i + 1) % 3, 7 + i % 3)]
        ring += [woken(WAKEUP, 102 + 4 * i, 7 + (i + 1) % 3, 7 + i % 3)]
    yield whole(packet(ring, 100, 300))


def main():
    folder = os.path.join(sys.argv[1], "kernel_events")
    os.makedirs(folder, exist_ok=True)
    for i, seed in enumerate(seeds()):
        with open(os.path.join(folder, f"seed-{i}"), "wb") as file:
            file.write(seed)


if __name__ == "__main__":
    main()
