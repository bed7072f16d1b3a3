# SPDX-License-Identifier: Apache-2.0
"""
Where things lie in the memory that a target shares with iprobe, by what common/abi/*.h say
today, and words of records in it.
"""

import functools
import mmap
import pathlib
import re
import struct
import subprocess
import tempfile

from . import memory

SUBBUF_WORDS = 4096
SUBBUF_SIZE = 8 * SUBBUF_WORDS
OWNED = 1
EXTENDED = 7

NAMES = [
    "MODULES",
    "SLOTS",
    "SUBBUFS",
    "FIRSTS",
    "PAYLOADS",
    "PROGRAMS",
    "DUTIES",
    "RULES",
    "DATA",
    "TRACE",
    "CLOCK",
    "FILTERS",
]
FIELDS = {
    "ip_area_header": "area",
    "ip_slot": "slot",
    "ip_subbuf": "subbuf",
    "ip_area_module": "module",
    "ip_filters": "filters",
}


@functools.cache
def offsets():
    """{"DATA": offset in the memfd, ...} and {"area.nfree": offset in struct ip_area_header,
    ...}.
    """
    top = pathlib.Path(__file__).resolve().parents[3]
    text = "\n".join(path.read_text() for path in (top / "common" / "abi").glob("*.h"))
    lines, found = [], {}
    for name in NAMES:
        lines.append(f'printf("{name} %llu\\n", (unsigned long long)IP_AREA_{name}_OFFSET);')
    for structure, short in FIELDS.items():
        body = re.sub(
            r"/\*.*?\*/",
            "",
            re.search(rf"struct {structure} {{(.*?)\n}};", text, re.S).group(1),
            flags=re.S,
        )
        for declared in body.split(";"):
            for field in re.sub(r"^\s*u?int\d+_t", "", declared.replace("\n", " ")).split(","):
                field = re.sub(r"\[.*", "", field).strip()
                if field:
                    lines.append(
                        f'printf("{short}.{field} %zu\\n", offsetof(struct {structure}, {field}));'
                    )
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "offsets"
        source = (
            '#include <stdio.h>\n#include "common/abi/area.h"\nint main(void){'
            + "\n".join(lines)
            + "}"
        )
        subprocess.run(
            ["gcc", "-x", "c", "-I", str(top), "-o", str(program), "-"],
            input=source,
            text=True,
            check=True,
        )
        for line in subprocess.run(
            [str(program)], capture_output=True, text=True, check=True
        ).stdout.splitlines():
            key, value = line.split()
            found[key] = int(value)
    return found


def mapped(pid):
    """The target's own memfd, as itself would have it."""
    with memory.ring_memory(pid) as file:
        return mmap.mmap(file.fileno(), 0)


def plain_records(area, nsubbufs):
    """Offsets of the words that are short records by now in sub-buffers which a thread is at, in
    their order.
    """
    at = offsets()
    for i in range(nsubbufs):
        state, slot = struct.unpack_from("<II", area, at["SUBBUFS"] + 32 * i)
        if state != OWNED or slot == 0xFFFFFFFF:
            continue
        words = struct.unpack_from(f"<{SUBBUF_WORDS}Q", area, at["DATA"] + SUBBUF_SIZE * i)
        word = 1
        while word < SUBBUF_WORDS and words[word]:
            kind = words[word] & 7
            if kind == EXTENDED:
                word += 3
                continue
            if kind:
                yield at["DATA"] + SUBBUF_SIZE * i + 8 * word
            word += 1


def spoil(area, nsubbufs, n):
    """Makes n short records words that are none: of no probe. They are spread over all; how many
    there were.
    """
    places = list(plain_records(area, nsubbufs))
    assert len(places) >= n, f"{len(places)} short records"
    for i in range(n):
        place = places[i * len(places) // n]
        area[place + 4 : place + 8] = bytes(4)
    return len(places)
