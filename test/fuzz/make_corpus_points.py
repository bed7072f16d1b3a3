#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the three harnesses of points: make_corpus_points.py DIR makes
DIR/point_args/*, DIR/point_names/* and DIR/points/*.
"""

import os
import struct
import sys

SEEDS = [
    "",
    "?",
    "4@%edi -8@-16(%rbp) 8s@%rsi",
    "-4@$-3 1@$0xff",
    "2@8(%rax,%rbx,4) 4@(,%rcx,8)",
    "8@*0x4010(,%rdi,2) 8@*0x10",
    "-4@counter.0+4-2(%rip) 4@table(,%rdi,4)",
    "? ? ? ? ? ? ?",
    "4@%ah",
    "3@%eax",
    "4@(%eax)",
    "4@%fs:x@tpoff",
]


NAMES = [
    (2, "r->id, IPROBE_STRING(r->uri)"),
    (3, "x, x, x"),
    (1, "((const void *)((long unsigned int)(f(x)) & (sizeof(((void)0, (f(x))))))"),
    (2, "((const char *)(const void *)(u->data)), ((const void *)((unsigned long)(f(x, y\1"),
    (3, "\"a, \\\"b\", ',', 1'000 + 1e-5"),
    (2, "IPROBE_HEX(a) + 1, \u00e4" + "\u00e4" * 40),
    (1, "y" * 1200),
    (6, "a, b\x1b\1"),
]


TEXT = 0x11000  # where the harness has its code: a function of 64 sites each 0x200 bytes
POINT, BEGIN, END = 0, 1, 2


def record(
    kind,
    site,
    name="",
    args="",
    identity="",
    *,
    strings=0,
    pointers=0,
    version=1,
    size=None,
    text=None,
):
    texts = b"".join(t.encode() + b"\0" for t in (name, args, identity))
    texts += bytes(-len(texts) % 8)
    if text is not None:
        version = max(version, 2)
        texts = struct.pack("<Q", text) + texts
    return (
        struct.pack(
            "<IBBBBQ",
            16 + len(texts) if size is None else size,
            version,
            kind,
            strings,
            pointers,
            TEXT + 8 * site,
        )
        + texts
    )


def scope_hash(name):
    value = 0
    for i in range(48):
        value = (value * 31 + (ord(name[i]) if i < len(name) else 0)) % 2**64
    return value - 2**64 if value >= 2**63 else value


def records():
    point = record(
        POINT,
        0,
        "p",
        "-4@%edi;8@%rsi;4@local(%rip);4@global+4(%rip);4@twice(%rip);4@nobody(%rip)",
        strings=2,
    )
    yield point
    yield point + bytes(8) + record(BEGIN, 1, "a") + record(BEGIN, 2, "b") + record(
        END, 3, "b"
    ) + record(END, 4, "a")
    yield b"".join(
        [
            record(BEGIN, 1, "a"),
            record(BEGIN, 2, "b"),
            record(END, 3, identity=f"8@${scope_hash('b')}"),
            record(END, 4, identity=f"8@{scope_hash('a')}"),
        ]
    )
    yield b"".join(
        [
            record(BEGIN, 1, "a"),
            record(BEGIN, 2, "b"),
            record(END, 3, identity="8@%rax"),
            record(END, 4, identity="8@%rax"),
        ]
    )
    yield b"".join(
        [
            record(BEGIN, 1, "a"),
            record(END, 3, identity="8@%rax"),
            record(END, 4, identity="8@%rax"),
        ]
    )
    yield b"".join(
        [record(BEGIN, 1, "a"), record(BEGIN, 2, "b"), record(END, 4, identity="8@%rax")]
    )
    yield record(END, 4, identity="8@%rax")
    yield record(POINT, 70, "q", "4@twice(%rip);4@table(,%rdi,4);DWORD PTR [rbp-4]") + record(
        POINT, -0x2200, "dropped"
    )
    yield record(POINT, 0, "") + point
    yield record(POINT, 0, "a b")
    yield record(7, 0, "p")
    yield record(POINT, 0, "p", version=4)
    yield record(
        POINT, 0, "p", "8@%rdi;8@%rsi", strings=3, pointers=2, version=3, text=0x20018
    )
    yield record(POINT, 0, "p", "8@%rdi", strings=1, pointers=1, version=2, text=0x20018)
    yield record(POINT, 0, "p", "-4@%edi;8@%rsi", text=0x20018)
    yield record(POINT, 0, "p", "-4@%edi", text=2**64 - 1) + record(POINT, 1, "p", version=2)
    yield record(POINT, 0, "p" * 2000, "4@%edi", text=0x20018)
    yield record(POINT, 0, "p", "4@%edi", text=0x20000 + 39)
    yield record(POINT, 0, "p", size=20)
    yield record(POINT, 0, "p", size=0x1000)
    yield record(POINT, 2**40, "p")
    yield point[:-9]
    yield point[:12]


def main():
    names = [bytes([n]) + text.encode() for n, text in NAMES]
    args = [seed.encode() for seed in SEEDS]
    for name, seeds in (("point_args", args), ("point_names", names), ("points", records())):
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        for i, seed in enumerate(seeds):
            with open(os.path.join(folder, f"seed-{i}"), "wb") as file:
                file.write(seed)


if __name__ == "__main__":
    main()
