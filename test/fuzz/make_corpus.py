#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the ELF and the probe list harness: make_corpus.py DIR makes DIR/elf/* and
DIR/probe_list/*.

They are made rather than kept, so that the tree holds no binaries. Where a format gets a new
field, it is added here.
"""

import os
import struct
import sys

BUILD_ID = bytes(range(1, 21))
EM_386, EM_X86_64, EM_AARCH64 = 3, 62, 183
ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
PT_LOAD, PT_NOTE = 1, 4
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 1, 2, 3, 7, 8, 11


def probe_list(functions, probes, build_id=BUILD_ID, placement=1, machine=EM_X86_64, version=2):
    """functions: (address, name, file, line); probes: (offset, function, line, kind, length,
    flags).
    """
    strings = b"\0"
    places = {"": 0}

    def place(text):
        nonlocal strings
        if text not in places:
            places[text] = len(strings)
            strings += text.encode() + b"\0"
        return places[text]

    table = b"".join(
        struct.pack("<QIIII", address, place(name), place(file), line, 0)
        for address, name, file, line in functions
    )
    sites = b"".join(struct.pack("<QIIBBB13x", *probe) for probe in probes)
    functions_at = 128
    probes_at = functions_at + len(table)
    strings_at = probes_at + len(sites)
    header = struct.pack(
        "<8sIIIIIIQQQQI32sIQQQ",
        b"iprobePL",
        version,
        128,
        machine,
        placement,
        len(functions),
        len(probes),
        functions_at,
        probes_at,
        strings_at,
        len(strings),
        len(build_id),
        build_id,
        4,
        0,
        0,
        0,
    )
    return header + table + sites + strings


def note(build_id):
    return struct.pack("<III4s", 4, len(build_id), 3, b"GNU\0") + build_id


def symbols(names):
    """A symbol table and its strings; names: (name, section, value, type)."""
    strings = b"\0"
    table = bytes(24)
    for name, section, value, kind in names:
        table += struct.pack("<IBBHQQ", len(strings), 0x10 | kind, 0, section, value, 0)
        strings += name.encode() + b"\0"
    return table, strings


def elf(sections, type=ET_DYN, machine=EM_X86_64, segments=None, tables=True):
    """sections: (name, type, contents, link). segments: (type, index of the section); the whole
    file is loaded before them.
    """
    if segments is None:
        segments = [(PT_NOTE, i) for i, s in enumerate(sections) if s[1] == SHT_NOTE]
    phnum = 1 + len(segments)
    body = bytes(64 + 56 * phnum)
    names = b"\0"
    headers = [bytes(64)]
    places = []
    for name, kind, contents, link in sections + [(".shstrtab", SHT_STRTAB, None, 0)]:
        body += bytes(-len(body) % 8)
        name_at = len(names)
        names += name.encode() + b"\0"
        if contents is None:
            contents = names
        size = 1 << 20 if kind == SHT_NOBITS else len(contents)
        entry = 24 if kind in (SHT_SYMTAB, SHT_DYNSYM) else 0
        headers.append(
            struct.pack("<IIQQQQIIQQ", name_at, kind, 0, 0, len(body), size, link, 0, 8, entry)
        )
        places.append((len(body), len(contents)))
        if kind != SHT_NOBITS:
            body += contents
    body += bytes(-len(body) % 8)
    shoff = len(body) if tables else 0
    phdrs = struct.pack("<IIQQQQQQ", PT_LOAD, 5, 0, 0, 0, len(body), len(body), 4096)
    for kind, section in segments:
        at, size = places[section]
        phdrs += struct.pack("<IIQQQQQQ", kind, 4, at, at, 0, size, size, 4)
    header = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH",
        b"\x7fELF",
        2,
        1,
        1,
        0,
        type,
        machine,
        1,
        0,
        64,
        shoff,
        0,
        64,
        56,
        phnum,
        64,
        len(headers) if tables else 0,
        len(headers) - 1 if tables else 0,
    )
    body = header + phdrs + body[len(header) + len(phdrs) :]
    return body + b"".join(headers) if tables else body


FUNCTIONS = [(0x1000, "alpha", "a.c", 10), (0x2000, "_ZN2ns4betaEi", "", 0)]
PROBES = [
    (0x1005, 0, 11, 1, 5, 0),
    (0x100A, 0, 12, 2, 5, 0),
    (0x2010, 1, 0, 1, 6, 0),
    (0x2016, 1, 0, 3, 5, 1),
    (0x3000, 1, 0, 4, 5, 0),
]


def lists():
    good = probe_list(FUNCTIONS, PROBES)
    yield "good", good
    yield "empty", probe_list([], [])
    yield "fentry", probe_list(FUNCTIONS[:1], PROBES[:2], placement=2)
    yield "inline", probe_list(FUNCTIONS[:1], PROBES[:2], placement=3, build_id=b"short")
    yield "version", probe_list(FUNCTIONS, PROBES, version=1)
    yield "machine", probe_list(FUNCTIONS, PROBES, machine=EM_AARCH64)
    yield "placement", probe_list(FUNCTIONS, PROBES, placement=9)
    yield "cut", good[:-1]
    yield "header-only", good[:104]
    yield "nameless", probe_list([(0x1000, "", "", 0)], [])
    yield "function-index", probe_list(FUNCTIONS, [(0x1005, 2, 0, 1, 5, 0)])
    yield "kind", probe_list(FUNCTIONS, [(0x1005, 0, 0, 7, 5, 0)])
    yield "flags", probe_list(FUNCTIONS, [(0x1005, 0, 0, 1, 5, 255)])
    yield "overlap", probe_list(FUNCTIONS, [(0x1005, 0, 0, 1, 5, 0), (0x1006, 0, 0, 2, 5, 0)])
    yield "wrap", probe_list(FUNCTIONS, [(2**64 - 2, 0, 0, 1, 5, 0)])
    yield "in-elf", elf(
        [
            (".iprobe.probes", SHT_PROGBITS, good, 0),
            (".note.gnu.build-id", SHT_NOTE, note(BUILD_ID), 0),
        ]
    )
    yield "in-elf-without-id", elf([(".iprobe.probes", SHT_PROGBITS, good, 0)])
    yield "in-elf-of-another-build", elf(
        [
            (".iprobe.probes", SHT_PROGBITS, good, 0),
            (".note.gnu.build-id", SHT_NOTE, note(b"another"), 0),
        ]
    )
    yield "in-elf-cut", elf([(".iprobe.probes", SHT_PROGBITS, good[:-1], 0)])
    yield "elf-without", elf([])


def elves():
    table, strings = symbols([("undefined", 0, 0, 2), ("tls", 1, 8, 6), ("answer", 1, 42, 2)])
    full = [
        (".text", SHT_PROGBITS, b"\x90" * 16, 0),
        (".note.gnu.build-id", SHT_NOTE, note(BUILD_ID), 0),
        (".dynsym", SHT_DYNSYM, table[:48], 4),
        (".dynstr", SHT_STRTAB, strings, 0),
        (".symtab", SHT_SYMTAB, table, 4),
        (".bss", SHT_NOBITS, b"", 0),
    ]
    good = elf(full)
    yield "good", good
    yield "exec", elf(full[:1], type=ET_EXEC)
    yield "room", elf(
        [
            *full,
            (".note.iprobe", SHT_NOTE, struct.pack("<III8sqQ", 7, 16, 1, b"iprobe", -64, 32), 0),
        ]
    )
    yield "note-by-section", elf(full, segments=[])
    yield "two-notes", elf(
        [
            (
                ".note.gnu.property",
                SHT_NOTE,
                struct.pack("<III4s16x", 4, 16, 5, b"GNU\0") + note(b"id"),
                0,
            )
        ]
    )
    yield "no-sections", elf(full, tables=False)
    yield "object", elf(full, type=ET_REL)
    yield "core", elf(full, type=4)
    yield "aarch64", elf(full, machine=EM_AARCH64)
    yield "unknown-machine", elf(full, machine=12345)
    yield "i386", b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HH", ET_EXEC, EM_386)
    yield "i386-with-symbols", elf32()
    yield "x32", b"\x7fELF\1\1\1" + bytes(9) + struct.pack("<HH", ET_EXEC, EM_X86_64)
    yield "big-endian", b"\x7fELF\2\2\1" + bytes(9) + struct.pack(">HH", ET_EXEC, 21)
    yield "cut", good[:-1]
    yield "cut-header", good[:40]
    yield "cut-sections", good[: len(good) // 2]
    yield "script", b"#!/bin/sh\n"
    yield "note", note(BUILD_ID)
    # One field of the header each: class, byte order, version, the two tables' places, sizes and
    # numbers.
    for at, value in (
        (4, 3),
        (5, 3),
        (6, 2),
        (32, 255),
        (40, 255),
        (54, 57),
        (56, 255),
        (58, 65),
        (60, 255),
        (56, 0),
    ):
        yield f"header-{at}-{value}", good[:at] + bytes([value]) + good[at + 1 :]
    yield "many-segments", good[:56] + b"\xff\xff" + good[58:]
    yield "segment-behind", good[: 64 + 9] + b"\xff" + good[64 + 10 :]
    yield "segment-size", good[: 64 + 40] + bytes(8) + good[64 + 48 :]
    yield "nothing-to-load", good[:64] + b"\x06" + good[65:]
    shoff = struct.unpack_from("<Q", good, 40)[0]
    yield "section-behind", good[: shoff + 64 + 25] + b"\xff" + good[shoff + 64 + 26 :]


def elf32():
    """An ELF file of a 32-bit program, with a symbol."""
    symbols = bytes(16) + struct.pack("<IIIBBH", 1, 0x1000, 4, 0x12, 0, 0xFFF1)
    strings, names = b"\0answer\0", b"\0.symtab\0.strtab\0.shstrtab\0"
    at = 52 + 32
    tables = at + len(symbols) + len(strings) + len(names)
    head = b"\x7fELF\1\1\1" + bytes(9)
    head += struct.pack("<HHIIIIIHHHHHH", ET_EXEC, 3, 1, 0x1000, 52, tables, 0, 52, 32, 1, 40, 4, 3)
    head += struct.pack("<8I", PT_LOAD, 0, 0x1000, 0x1000, tables, tables, 5, 0x1000)
    sections = bytes(40)
    for name, kind, contents, link, size in (
        (1, SHT_SYMTAB, symbols, 2, 16),
        (9, 3, strings, 0, 0),
        (17, 3, names, 0, 0),
    ):
        sections += struct.pack("<10I", name, kind, 0, 0, at, len(contents), link, 1, 1, size)
        at += len(contents)
    return head + symbols + strings + names + sections


def main():
    folder = sys.argv[1]
    for harness, seeds in (("elf", elves()), ("probe_list", lists())):
        os.makedirs(os.path.join(folder, harness), exist_ok=True)
        for name, contents in seeds:
            with open(os.path.join(folder, harness, "seed-" + name), "wb") as file:
                file.write(contents)


if __name__ == "__main__":
    main()
