# SPDX-License-Identifier: Apache-2.0
"""
Which room may use which (docs/architecture.md): what includes say, and what the linker sees. A
room is a folder with a library of its own.
"""

import collections
import os
import re
import subprocess

import pytest

# Lowest first. A room may use those it names, and what these may use.
ROOMS = {
    "common": [],
    "include": [],
    "config": ["common"],
    "access": ["config"],
    "hotpatcher/arch": ["common"],
    "hotpatcher/process": ["access", "hotpatcher/arch"],
    "hotpatcher/ptrace": ["hotpatcher/process"],
    "hotpatcher/inject": ["hotpatcher/ptrace"],
    "hotpatcher/patch": ["hotpatcher/inject"],
    "hotpatcher/shm": ["hotpatcher/process"],
    "hotpatcher/plan": ["hotpatcher/patch", "hotpatcher/shm", "include"],
    "trace_writer": ["hotpatcher/plan"],
    "collector": ["trace_writer"],
    "kernel_trace": ["common"],
    "service": ["trace_writer", "kernel_trace"],
    "stream_log": ["collector"],
    "session": ["stream_log", "kernel_trace"],
    "fperf": ["session"],
    "iprobed": ["access", "kernel_trace"],
    "runtime": ["common", "include"],
    "coldpatch/elf": ["common"],
    "coldpatch/sites": ["coldpatch/elf"],
    "coldpatch/write": ["coldpatch/sites"],
    "coldpatch": ["coldpatch/write"],
    "coldpatch/cc": ["coldpatch"],
    "coldpatch/stage": ["coldpatch/sites"],
    "analysis/read": ["common"],
    "analysis/callstack": ["analysis/read"],
    "analysis/profile": ["analysis/callstack"],
    "analysis/wait": ["analysis/profile"],
    "analysis/darc": ["analysis/wait"],
    "analysis/syscalls": ["analysis/wait"],
    "analysis/export": ["analysis/wait"],
    "analysis/trim": ["analysis/callstack"],
    "analysis/stream_log": ["analysis/callstack"],
    "cli": [
        *("fperf", "service", "iprobed", "analysis/export", "analysis/trim", "analysis/syscalls"),
        *("analysis/darc", "analysis/stream_log"),
    ],
}
# Files of the runtime: what is compared with, or laid into, a target; and its way of reading
# counters, which fperf tries on itself.
DATA = {
    ("hotpatcher/arch/x86_64/syscall_resume.S", "runtime/arch/x86_64/syscall_resume.S"),
    ("hotpatcher/arch/x86_64/borrowed.S", "runtime/arch/x86_64/borrowed.h"),
    ("hotpatcher/inject/inject.c", "runtime/rt_image.h"),
    ("cli/fperf/fperf_self_test.c", "runtime/fperf_pmu.h"),
    ("cli/fperf/fperf_try.c", "runtime/fperf_pmu.h"),
}
MOST_FILES = 40  # sources and headers of one level
LIBRARY = {
    "hotpatcher/arch": "iprobe-arch",
    "trace_writer": "iprobe-trace-writer",
    "kernel_trace": "iprobe-kernel-trace",
    "stream_log": "iprobe-stream-log",
    "analysis/stream_log": "iprobe-last-calls",
} | {
    f"coldpatch/{part}": f"iprobe-coldpatch-{part}" for part in ("elf", "sites", "write")
}


def room_of(path):
    parts = path.split("/")
    two = "/".join(parts[:2])
    return two if two in ROOMS else parts[0] if parts[0] in ROOMS else None


def allowed(room):
    found, ways = {room}, [room]
    while ways:
        for used in ROOMS[ways.pop()]:
            if used not in found:
                found.add(used)
                ways.append(used)
    return found


def sources(root):
    done = subprocess.run(
        ["git", "ls-files", "*.c", "*.h", "*.S"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    names = (
        done.stdout.split()
        if done.returncode == 0
        else [
            os.path.relpath(os.path.join(folder, name), root)
            for top in {room.split("/")[0] for room in ROOMS}
            for folder, _, names in os.walk(root / top)
            for name in names
            if name.endswith((".c", ".h", ".S"))
        ]
    )
    return [name for name in names if room_of(name)]


def wrong_includes(root, names):
    wrong = []
    for name in names:
        text = (root / name).read_text(encoding="utf-8")
        for used in re.findall(r'^#include "([^"]+)"', text, re.M):
            other = room_of(used)
            if other and other not in allowed(room_of(name)) and (name, used) not in DATA:
                wrong.append(f"{name}: {used}")
    return wrong


def test_the_order_has_no_cycle():
    for room, uses in ROOMS.items():
        for used in uses:
            assert room not in allowed(used), (room, used)


def test_includes_go_down(root):
    names = sources(root)
    assert len(names) > 300 and {room_of(name) for name in names} == set(ROOMS)
    assert not wrong_includes(root, names)


def test_an_include_that_goes_up_is_found(tmp_path):
    for name, text in [
        ("common/a.c", '#include "session/session.h"\n'),
        ("hotpatcher/shm/b.c", '#include "hotpatcher/plan/plan.h"\n'),
        ("iprobed/c.c", '#include "hotpatcher/process/target.h"\n'),
        ("fperf/d.c", '#include "session/session.h"\n'),
    ]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [
        line.split(":")[0]
        for line in wrong_includes(
            tmp_path, ["common/a.c", "hotpatcher/shm/b.c", "iprobed/c.c", "fperf/d.c"]
        )
    ] == ["common/a.c", "hotpatcher/shm/b.c", "iprobed/c.c"]


def test_no_level_is_crowded(root):
    levels = collections.Counter(os.path.dirname(name) for name in sources(root))
    crowded = {level: n for level, n in levels.items() if n > MOST_FILES}
    assert not crowded


def defined_and_used(library):
    done = subprocess.run(["nm", library], capture_output=True, text=True, check=True)
    defined, used = set(), set()
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) >= 2 and not line.endswith(":") and words[-1].startswith("ip_"):
            (used if words[-2] == "U" else defined if words[-2].isupper() else set()).add(words[-1])
    return defined, used


@pytest.fixture(scope="module")
def libraries(builddir):
    """{room: (names that it defines, names that it needs)} of the rooms that have a library."""
    found = {}
    for room in ROOMS:
        path = builddir / room / f"lib{LIBRARY.get(room, 'iprobe-' + room.split('/')[-1])}.a"
        if path.exists():
            found[room] = defined_and_used(path)
    return found


def test_calls_go_down(libraries):
    """What a declaration without an include would hide."""
    assert {"common", "config", "access", "hotpatcher/plan", "session", "fperf", "iprobed"} <= set(
        libraries
    )
    wrong = [
        f"{room} uses {name} of {other}"
        for room, (_, used) in libraries.items()
        for other, (defined, _) in libraries.items()
        if other not in allowed(room)
        for name in sorted(used & defined)
    ]
    assert not wrong


def wrong_in_document(root, text):
    """Paths that are not there; functions that are nowhere, or not in the file that is named."""
    code = {name: (root / name).read_text(encoding="utf-8") for name in sources(root)}
    wrong = [n for n in re.findall(r"`([a-z_]+/[a-z0-9_/.-]+)`", text) if not (root / n).exists()]
    for function in re.findall(r"`(\w+)\(\)`", text):
        if not any(
            re.search(rf"(?m)^(?:#define |[^\s#]).*\b{function}\(", code[name]) for name in code
        ):
            wrong.append(function)
    for function, name in re.findall(r"`(\w+)\(\)`\s+(?:in\s+|\()`([a-z_]+/[\w/.-]+\.c)`", text):
        if not re.search(rf"(?m)^[^\s#].*\b{function}\(", code.get(name, "")):
            wrong.append(f"{function} in {name}")
    return wrong


def test_the_document_names_what_is_there(root):
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(re.findall(r"`\w+\(\)`", text)) > 30 and not wrong_in_document(root, text)


def test_what_the_document_gets_wrong_is_found(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "a.c").write_text("int ip_one(void)\n{\n\treturn ip_two(1);\n}\n")
    (tmp_path / "common" / "b.c").write_text("static int\nnothing;\n")
    text = "`ip_one()` in `common/a.c`, `ip_one()` (`common/b.c`), `ip_two()`, `common/c.c`"
    assert wrong_in_document(tmp_path, text) == ["common/c.c", "ip_two", "ip_one in common/b.c"]


def test_the_document_has_the_table_of_this_test(root):
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = [name.rstrip("/") for name in re.findall(r"(?m)^\| `([a-z_/]+/)` \|", text)]
    assert rooms == [room for room in ROOMS if room != "include"]
