#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the harness of live logs: make_corpus_stream_log.py DIR makes
DIR/stream_log/*: a whole log, and others that are cut, have holes, or lie in one respect.
"""

import os
import struct
import sys

TEXT, THREADS, RECORDS, BEHIND, ENDED = range(1, 6)
ENTRY, EXIT = 1, 2
SESSION = (
    "iprobe-session\t1\nhost\th\ncommand\tc\npid\t5\ntsc_start\t100\ntsc_hz\t1000000\n"
    "module\t0\tm\t\t0\t1\t-\n"
    "function\t1\t0\tf\t\t0\t-\t16\nfunction\t3\t0\tg\t\t0\t-\t16\n"
    "stack\t5\t6\t150\t1:28672\nstack\t5\t9\t150\t1:28672,3:28416\n"
)


def polynomial():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


TABLE = polynomial()


def checksum(data):
    found = 0xFFFFFFFF
    for byte in data:
        found = found >> 8 ^ TABLE[(found ^ byte) & 0xFF]
    return found ^ 0xFFFFFFFF


def section(kind, content):
    return struct.pack("<2I", kind, len(content)) + content + bytes(-len(content) % 8)


def batch(number, complete, *sections, log=7, dropped=0, late=0, version=1):
    body = b"".join(sections)
    head = struct.pack("<4I", 0x474C5049, version, 64 + len(body), 0)
    rest = struct.pack("<5Q2I", log, number, complete, dropped, 0, late, 10000) + body
    return head[:12] + struct.pack("<I", checksum(head + rest)) + rest


def thread(number, tid, sp=0x7000):
    return struct.pack("<4IQ", number, 5, tid, 0, sp)


def record(after, number, kind, sp, of=0):
    return struct.pack("<4I", after, of, sp >> 3, number | kind << 21)


def records(base, *items):
    return section(RECORDS, struct.pack("<Q", base) + b"".join(items))


def log():
    calls = [
        record(0, 1, ENTRY, 0x6FF0),
        record(1, 3, ENTRY, 0x6F00),
        record(2, 3, EXIT, 0x6F00),
        record(2, 1, ENTRY, 0x5000, 1),
        record(3, 3, ENTRY, 0x6F00),
        record(4, 3, EXIT, 0x6F00),
        record(5, 3, ENTRY, 0x6F00),
        record(6, 3, EXIT, 0x6F00),
        record(7, 3, ENTRY, 0x6F00),
        record(8, 3, EXIT, 0x6F00),
        record(9, 3, ENTRY, 0x6F00),
        # longjmp has left g
        record(12, 3, ENTRY, 0x6FE0),
    ]
    return [
        batch(0, 100, section(TEXT, SESSION.encode())),
        batch(1, 300, section(THREADS, thread(0, 6) + thread(1, 7)), records(200, *calls)),
        batch(2, 400, section(BEHIND, struct.pack("<2IQ", 0, 12, 210))),
        batch(3, 500, records(450, record(0, 1, EXIT, 0x5000, 1)), dropped=5, late=1),
        batch(4, 600, section(ENDED, struct.pack("<2IQ", 1, 0, 550))),
        batch(5, 700, section(TEXT, b"end\tover\n")),
    ]


def main():
    folder = os.path.join(sys.argv[1], "stream_log")
    whole = log()
    seeds = {
        "whole": b"".join(whole),
        "cut": b"".join(whole)[:-20],
        "hole": b"".join(whole[:2] + whole[3:]),
        "damaged": b"".join([*whole[:2], bytes(len(whole[2])), *whole[3:]]),
        "late_start": b"".join(whole[1:]),
        "text_in_parts": b"".join(
            batch(i, 100, section(TEXT, SESSION.encode()[20 * i : 20 * i + 20])) for i in range(20)
        ),
        "other_log": b"".join(whole[:3]) + batch(3, 900, log=8),
        "bad_checksum": b"".join(whole[:3]) + whole[3][:-8] + b"8 others",
        "other_version": batch(0, 100, section(TEXT, SESSION.encode()), version=2),
        "unknown_section": b"".join([*whole[:2], batch(2, 350, section(77, b"later"))]),
        "large_numbers": b"".join(
            [
                whole[0],
                batch(1, 9, section(THREADS, thread((1 << 20) - 1, 6) + thread(1 << 20, 7))),
                batch(2, 9, records(1 << 63, record(0, 0x1FFFFF, ENTRY, 0x1000, (1 << 20) - 1))),
            ]
        ),
        "short_sections": b"".join(
            [whole[0], batch(1, 9, *(section(kind, b"1234567") for kind in range(1, 6)))]
        ),
    }
    os.makedirs(folder, exist_ok=True)
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
