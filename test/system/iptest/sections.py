# SPDX-License-Identifier: Apache-2.0
"""Sections and segments of ELF64 files, read by hand."""

import collections
import pathlib
import struct

Section = collections.namedtuple(
    "Section", "name type flags address offset size link info align entsize"
)


def sections(path):
    """All of them, by number; those without a type (SHT_NULL) too."""
    data = pathlib.Path(path).read_bytes()
    (at,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(count)]
    strings = data[raw[names][4] :][: raw[names][5]]
    return [Section(strings[r[0] : strings.index(b"\0", r[0])].decode(), *r[1:]) for r in raw]


def section_names(path):
    return [s.name for s in sections(path) if s.type]


def section(path, name):
    """Contents of the section of that name."""
    (found,) = [s for s in sections(path) if s.name == name and s.type]
    return pathlib.Path(path).read_bytes()[found.offset : found.offset + found.size]


def symbols(path, table=".dynsym"):
    """Of each symbol (name, value, size, name of its section), in the order of the table; []
    where there is none.
    """
    data, all_sections = pathlib.Path(path).read_bytes(), sections(path)
    found = []
    for s in all_sections:
        if s.name != table or not s.type:
            continue
        names = data[all_sections[s.link].offset :][: all_sections[s.link].size]
        for at in range(s.offset, s.offset + s.size, 24):
            name, _, _, shndx, value, size = struct.unpack_from("<IBBHQQ", data, at)
            where = all_sections[shndx].name if 0 < shndx < 0xFF00 else shndx
            found.append((names[name : names.index(b"\0", name)].decode(), value, size, where))
    return found


def loaded_bytes(path):
    """Bytes of each PT_LOAD, but for what the ELF header says of the section headers, and for the
    numbers of sections in the loaded symbol table: symbols() has those by name.
    """
    data = bytearray(pathlib.Path(path).read_bytes())
    for s in sections(path):
        for entry in range(s.offset, s.offset + s.size, 24) if s.name == ".dynsym" else ():
            (shndx,) = struct.unpack_from("<H", data, entry + 6)
            data[entry + 6 : entry + 8] = (
                bytes(2) if 0 < shndx < 0xFF00 else data[entry + 6 : entry + 8]
            )
    data[40:48] = bytes(8)
    data[60:64] = bytes(4)
    (at,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    found = []
    for i in range(count):
        kind, _, offset, address, _, filesz = struct.unpack_from("<IIQQQQ", data, at + i * size)
        if kind == 1:
            found.append((address, bytes(data[offset : offset + filesz])))
    return found
