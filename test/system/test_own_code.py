# SPDX-License-Identifier: Apache-2.0
"""
Threads are sent through the runtime's code only where that code stands: where a process has put
other bytes in its place, iprobe refuses, and the process goes on.
"""

import struct
import subprocess

import pytest

from iptest import memory
from iptest.actor import one_line

WAKE, FLIP = 416, 504  # places of struct ip_rt_anchor: code, its end, its block
ILLEGAL = b"\x0f\x0b"


@pytest.fixture
def actor(root):
    """Who may look at the mapped files themselves."""
    return root


def words(pid, at, n):
    return struct.unpack(f"<{n}Q", memory.read_memory(pid, at, 8 * n))


def symbol(path, name, *options):
    text = subprocess.run(["nm", *options, path], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in text.splitlines() if line.split()[-1] == name)


def anchor_of(kind, actor, target, program):
    if kind == "preloaded":
        base = min(m.start for m in memory.mappings(target.pid) if "libiprobe-rt" in m.path)
        return base + symbol(actor.runtime_path, "iprobe_rt_anchor", "-D")
    if kind == "linked":
        return symbol(program, "iprobe_rt_anchor")
    return next(
        m.start
        for m in memory.mappings(target.pid)
        if m.perms == "rw-p" and memory.read_memory(target.pid, m.start, 8) == b"iprobeRT"
    )


def start(kind, actor, targets, programs):
    program = programs.simple(
        "steady", placement="fentry", extra=["-static"] if kind == "linked" else []
    )
    target = targets.steady(actor, program, preload=kind == "preloaded")
    if kind == "injected":
        assert (
            actor.iprobe(
                "attach", "-q", "--duration", "20ms", "-o", actor.dir() / "t", target.pid
            ).returncode
            == 0
        )
    return target, program, anchor_of(kind, actor, target, program)


def attach(actor, target, *options):
    return actor.iprobe(
        "attach", "-q", "--duration", "50ms", *options, "-o", actor.dir() / "trace", target.pid
    )


def refused(actor, target, at, bytes_, *options):
    """With other bytes there it is refused, and nothing has changed; with the old ones it works."""
    before = memory.read_memory(target.pid, at, len(bytes_))
    assert before != bytes_
    memory.write_memory(target.pid, at, bytes_)
    line = one_line(attach(actor, target, *options))
    assert "no thread is sent there" in line, line
    assert target.alive() and memory.status_field(target.pid, "TracerPid") == "0"
    memory.write_memory(target.pid, at, before)


@pytest.mark.parametrize("kind", ["preloaded", "linked", "injected"])
def test_switching_pages(actor, targets, programs, kind):
    """The code of --no-stop: what is run first, what it calls, where its block is."""
    target, _, anchor = start(kind, actor, targets, programs)
    if kind == "linked":
        assert attach(actor, target).returncode == 0  # it wakes
    code, end, block = words(target.pid, anchor + FLIP, 3)
    assert attach(actor, target, "--no-stop").returncode == 0
    refused(actor, target, code, ILLEGAL, "--no-stop")
    refused(actor, target, end - 2, ILLEGAL, "--no-stop")
    called = code + memory.read_memory(target.pid, code, end - code).index(b"\x0f\x05\xe8") + 2
    function = called + 5 + struct.unpack("<i", memory.read_memory(target.pid, called + 1, 4))[0]
    # the call leads to what is no code, or other code stands there
    refused(actor, target, called + 1, struct.pack("<i", anchor - called - 5), "--no-stop")
    refused(actor, target, function, ILLEGAL, "--no-stop")
    # the anchor itself says that it is elsewhere
    refused(actor, target, anchor + FLIP, struct.pack("<QQ", code + 16, end + 16), "--no-stop")
    refused(actor, target, anchor + FLIP + 16, struct.pack("<Q", block + 64), "--no-stop")
    assert attach(actor, target, "--no-stop").returncode == 0
    target.finish()


def test_waking(actor, targets, programs):
    target, _, anchor = start("linked", actor, targets, programs)
    code, end, block = words(target.pid, anchor + WAKE, 3)
    refused(actor, target, code, ILLEGAL)
    refused(actor, target, end - 2, ILLEGAL)
    refused(actor, target, anchor + WAKE, struct.pack("<QQ", code + 16, end + 16))
    refused(actor, target, anchor + WAKE + 16, struct.pack("<Q", block - 64))
    assert attach(actor, target).returncode == 0
    target.finish()


def test_the_32_bit_code_has_room(actor):
    """Also where the kernel runs no 32-bit programs: slots that are empty, and executable."""
    library = actor.runtime_path.parent / "32" / actor.runtime_path.name
    if not library.exists():
        pytest.skip("built without a runtime for 32-bit programs")
    start, end = symbol(library, "rt_restart"), symbol(library, "rt_restart_end")
    assert end - start == 128 * 256 and start % 256 == 0
    sections = [
        line.split()
        for line in subprocess.run(
            ["readelf", "-SW", library], capture_output=True, text=True, check=True
        )
        .stdout.replace("[ ", "[")
        .splitlines()
        if " .iprobe.stubs " in line
    ]
    assert len(sections) == 1 and sections[0][2] == "NOBITS" and sections[0][7] == "AX", sections
    first = int(sections[0][3], 16)
    assert first <= start and end <= first + int(sections[0][5], 16)
