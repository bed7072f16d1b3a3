# SPDX-License-Identifier: Apache-2.0
"""A probe list by the book (common/elf/probe_list.h), independently of the C reader."""

import collections
import pathlib
import struct

ENTRY, EXIT, TAIL_EXIT, POINT = 1, 2, 3, 4
INLINED, ENTRY_ONLY, FLAGS_DEAD = 1, 2, 4
FORM_CALL, FORM_RETURN, FORM_JUMP, FORM_TAIL = 0, 1, 2, 3
REGS_CALL, REGS_ENTRY, REGS_RETURN, REGS_ALL = 0, 1, 2, 3
PLACEMENTS = {1: "instrument", 2: "fentry", 3: "inline"}
TABLE, RELOCATIONS, DECODING, FOREIGN = 1, 2, 4, 8  # found_by

Function = collections.namedtuple("Function", "name address file line")
Probe = collections.namedtuple(
    "Probe", "offset function line kind length flags form regs args jump text"
)
List = collections.namedtuple(
    "List", "functions probes build_id placement found_by stub_area anchor machine"
)


NOPS = {4: "0f1f4000", 5: "0f1f440000", 6: "660f1f440000"}


def idle(probe):
    """The bytes of an idle site."""
    if probe.form == FORM_TAIL:
        return b"\xe9" + struct.pack("<i", probe.jump)
    if probe.form == FORM_RETURN:
        return b"\xc3" + bytes.fromhex(NOPS[probe.length - 1])
    return bytes.fromhex(NOPS[probe.length])


def parse(data):
    (
        magic,
        version,
        _,
        machine,
        placement,
        nfunctions,
        nprobes,
        functions_at,
        probes_at,
        strings_at,
        strings_size,
        id_size,
        build_id,
        found_by,
        area,
        area_size,
        anchor,
    ) = struct.unpack_from("<8sIIIIIIQQQQI32sIQQQ", data)
    assert (magic, version) == (b"iprobePL", 3)
    strings = data[strings_at : strings_at + strings_size]

    def text(at):
        return strings[at : strings.index(b"\0", at)].decode()

    functions = []
    for i in range(nfunctions):
        address, name, file, line, _ = struct.unpack_from("<QIIII", data, functions_at + 24 * i)
        functions.append(Function(text(name), address, text(file), line))
    probes = []
    for i in range(nprobes):
        offset, function, line, kind, length, flags, form, regs, args, jump = struct.unpack_from(
            "<QIIBBBBB3xIi", data, probes_at + 32 * i
        )
        what = (kind, length, flags, form, regs, text(args), jump if form == FORM_TAIL else 0)
        source = text(jump) if kind == POINT else ""
        probes.append(Probe(offset, functions[function], line, *what, source))
    return List(
        functions,
        probes,
        build_id[:id_size].hex(),
        PLACEMENTS[placement],
        found_by,
        (area, area_size),
        anchor,
        machine,
    )


def read_list(path):
    return parse(pathlib.Path(path).read_bytes())
