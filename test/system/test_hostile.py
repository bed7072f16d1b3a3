# SPDX-License-Identifier: Apache-2.0
"""
The memory that a target shares with iprobe is scribbled over while it records: iprobe ends in
time, without a crash, the trace can be read, and the target's text is as it was.
"""

import json
import random
import struct
import threading
import time

import pytest

from iptest import area, memory
from iptest.actor import last_words, one_line

AT = area.offsets()
SUBBUF_SIZE = area.SUBBUF_SIZE
SLOTS, SLOTS_AT, SUBBUFS_AT, DATA_AT = 8192, AT["SLOTS"], AT["SUBBUFS"], AT["DATA"]
MEMORY = 1 << 20
shared_memory = area.mapped


def word(rng):
    """Something that looks like a word of a record, more or less."""
    return rng.choice(
        [
            0,
            7,
            8,
            rng.getrandbits(64),
            rng.getrandbits(61) << 3 | rng.randint(0, 7),
            (1 << 32 | rng.randint(16, 60) << 3 | 7),
        ]
    )


def scribble(shared, rng):
    """One lie."""
    nsubbufs, slot, subbuf = (
        MEMORY // SUBBUF_SIZE,
        rng.randrange(12),
        rng.randrange(MEMORY // SUBBUF_SIZE),
    )
    what = rng.randrange(7)
    if what == 0:
        struct.pack_into(
            "<I", shared, AT["area.slots_used"], rng.choice([0, 1, 12, SLOTS, 1 << 31, 0xFFFFFFFF])
        )
    elif what == 1:
        struct.pack_into("<i", shared, AT["area.nfree"], rng.getrandbits(32) - (1 << 31))
        struct.pack_into("<Q", shared, AT["area.unserved"], rng.getrandbits(64))
    elif what == 2:
        cur = rng.choice([subbuf, 0xFFFF, rng.getrandbits(16)]) << 48 | rng.getrandbits(
            rng.choice([4, 16, 48])
        )
        struct.pack_into(
            "<8Q",
            shared,
            SLOTS_AT + 128 * slot,
            cur,
            *[rng.choice([0, rng.getrandbits(64)]) for _ in range(7)],
        )
    elif what == 3:
        struct.pack_into(
            "<IIIIQ",
            shared,
            SLOTS_AT + 128 * slot + 64,
            rng.choice([1, 1, 1, 0, 2, 77]),
            rng.getrandbits(32),
            rng.getrandbits(32),
            1,
            rng.choice([5, rng.getrandbits(64)]),
        )
    elif what in (4, 5):
        struct.pack_into(
            "<IIQQQ",
            shared,
            SUBBUFS_AT + 32 * subbuf,
            rng.choice([0, 1, 2, 2, 2, 3, 99]),
            rng.choice([slot, 0xFFFFFFFF, rng.getrandbits(32)]),
            rng.choice([0, 0, 1, 2, rng.getrandbits(64)]),
            rng.getrandbits(64),
            rng.choice([0, 1]),
        )
    else:
        at = DATA_AT + SUBBUF_SIZE * subbuf + 8 * rng.randrange(4096 - 64)
        for i in range(64):
            struct.pack_into("<Q", shared, at + 8 * i, word(rng))
    assert nsubbufs


@pytest.mark.parametrize("seed", [1, 2])
def test_rings_that_lie(actor, programs, targets, seed):
    rng = random.Random(seed)
    target = targets.start(actor, [programs.simple("count", opt="-O0"), "-w"])
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe(
        "attach", target.pid, "--json", "--memory", "1M", "--duration", "2s", "-o", directory
    )

    def patched():
        done = actor.iprobe("status", target.pid, "--json")
        return proc.poll() is not None or json.loads(done.stdout)["patched"] > 0

    memory.wait_for("the probes do not go live", patched, 60)
    shared = shared_memory(target.pid)
    lies = 0
    while proc.poll() is None:
        for _ in range(200):
            scribble(shared, rng)
            lies += 1
        time.sleep(0.0005)
    done = last_words(proc)
    assert lies >= 200
    assert done.returncode == 0, repr(done)
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode in (0, 1), repr(done)  # what lies is at most useless
    memory.assert_untouched(target.pid)
    shared.close()


EXTREMES = [0, 1, 2, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF, 1 << 16, 1 << 21]
# header, clock and filters; modules; slots; descriptors of sub-buffers; payload numbers; payloads;
# programs; duties; rules; sub-buffers
REGIONS = [
    (16, 4096 - 16),
    (AT["MODULES"], 8 * 64),
    (SLOTS_AT, 16 * 128),
    (SUBBUFS_AT, 64 * 32),
    (AT["FIRSTS"], 64),
    (AT["PAYLOADS"], 512),
    (AT["PROGRAMS"], 8 * 272),
    (AT["DUTIES"], 512),
    (AT["RULES"], 2048),
    (DATA_AT, 1 << 19),
]


def scribble_anywhere(shared, rng):
    at, size = rng.choice(REGIONS)
    at += rng.randrange(size) & ~3
    if at + 8 <= len(shared):
        value = rng.choice([rng.choice(EXTREMES), rng.getrandbits(32)])
        struct.pack_into("<I", shared, at, value)


MODES = {
    "log": [],
    "hist": ["--payload", "hist"],
    "count": ["--payload", "count"],
    "filters": ["--depth", "3", "--callsite"],
    "values": ["--args"],
    "overwrite": ["--overwrite"],
    "coarse": ["--time", "coarse"],
}


def counting(programs, mode):
    """The program; one whose values can be recorded where they are to be."""
    return programs.simple(
        "count",
        opt="-O0",
        **({"placement": "fentry", "extra": ("-g",)} if mode == "values" else {}),
    )


@pytest.mark.parametrize("mode", MODES)
def test_all_that_tools_read_lies(actor, programs, targets, mode):
    """Every field, by little and much, while commands come and go: each ends by itself, by
    words, and the target lives.
    """
    rng = random.Random(mode)
    target = targets.start(actor, [counting(programs, mode), "-w"])
    ends = threading.Event()
    session = actor.start_iprobe(
        "attach",
        target.pid,
        "--memory",
        "1M",
        "--duration",
        "3s",
        *MODES[mode],
        "-q",
        "-o",
        actor.dir() / "trace",
    )
    memory.wait_for(
        "no area",
        lambda: session.poll() is not None
        or any("memfd:iprobe" in m.path for m in memory.mappings(target.pid)),
    )

    def lie():
        shared = shared_memory(target.pid)
        while not ends.is_set():
            for _ in range(100):
                scribble_anywhere(shared, rng)
            time.sleep(0.001)
        shared.close()

    liar = threading.Thread(target=lie)
    liar.start()
    try:
        for command in (
            ["status", target.pid],
            [
                "attach",
                target.pid,
                "-f",
                "step_*",
                "-q",
                "--duration",
                "100ms",
                "-o",
                actor.dir() / "other",
            ],
            ["snapshot", target.pid, "-o", actor.dir() / "snap"],
            ["status", target.pid, "--json"],
        ):
            done = actor.iprobe(*command)
            assert done.returncode in (0, 1, 2), repr(done)
        done = last_words(session)
        assert done.returncode in (0, 1), repr(done)
        done = actor.iprobe(
            "attach",
            target.pid,
            "--resume",
            "-q",
            "--duration",
            "100ms",
            "-o",
            actor.dir() / "trace",
        )
        assert done.returncode in (0, 1, 2), repr(done)
    finally:
        ends.set()
        liar.join()
    done = actor.iprobe("detach", target.pid)
    assert done.returncode in (0, 1), repr(done)
    assert target.proc.poll() is None, "the target has ended"
    memory.assert_untouched(target.pid)


def test_ring_memory_of_huge_pages(me, programs, targets):
    """Of which the machine may have none left: to read it would be a SIGBUS."""
    target = targets.start(me, [programs.simple("huge_area", prepared=True)], preload=True)
    target.say()
    if target.proc.stdout.readline() != "huge\n":
        pytest.skip("the kernel has no huge pages (hugetlbfs)")
    done = me.iprobe("attach", "--duration", "50ms", "-o", me.dir() / "trace", target.pid)
    assert done.returncode == 1 and "not the runtime's" in one_line(done), repr(done)
    for command in ("status", "detach"):
        done = me.iprobe(command, target.pid)
        assert done.returncode in (0, 1), repr(done)
    target.finish()


def each(start, size, n, *fields):
    return [start + i * size + field for i in range(n) for field in fields]


def module_fields(*names):
    return each(AT["MODULES"], 64, 3, *[AT[f"module.{name}"] for name in names])


def header_fields(*names):
    return [AT[f"area.{name}"] for name in names]


# what a field steers in the tools, each alone: (mode of the session, offsets of 32-bit words)
FIELDS = {
    "modules: numbers": (
        "log",
        module_fields("first_number", "nfunctions") + header_fields("nmodules"),
    ),
    "modules: stubs": ("log", module_fields("stubs", "pool") + header_fields("stubs_used")),
    "modules: identity": ("log", module_fields("load_bias", "build_id_size", "build_id")),
    "payload numbers": ("values", each(AT["FIRSTS"], 4, 4, 0) + header_fields("npayloads")),
    "payloads": ("values", each(AT["PAYLOADS"], 8, 64, 0, 4)),
    "programs": ("values", each(AT["PROGRAMS"], 272, 16, 0, 4, 8, 12, 16, 20, 24)),
    "duties": ("hist", each(AT["DUTIES"], 4, 128, 0)),
    "rules": ("filters", each(AT["RULES"], 16, 64, 0, 4, 8, 12)),
    "filters": (
        "filters",
        [
            AT["FILTERS"] + AT[f"filters.{name}"]
            for name in ("depth", "frames", "callsite", "threads", "nrules", "nthreads")
        ],
    ),
    "header: modes": (
        "log",
        header_fields("modes", "share", "reserve", "inherit", "refused", "follow"),
    ),
    "header: modes of one with meters": ("hist", header_fields("modes", "user", "fperf")),
    "header: meters": (
        "hist",
        header_fields("nmeters", "meters", "meters_size", "meters_all", "meters_hint"),
    ),
    "header: pool": (
        "overwrite",
        header_fields("nsubbufs", "nfree", "hint", "slots_used", "share", "reserve"),
    ),
    "header: sessions": (
        "log",
        header_fields("session", "last_session", "ended", "session_pid", "owner_pid"),
    ),
    "slots: blocks": (
        "hist",
        each(
            SLOTS_AT,
            128,
            8,
            AT["slot.block"],
            AT["slot.modes"],
            AT["slot.oldest"],
            AT["slot.state"],
        ),
    ),
    "slots: rings": (
        "overwrite",
        each(
            SLOTS_AT,
            128,
            8,
            AT["slot.cur"],
            AT["slot.cur"] + 4,
            AT["slot.tail"],
            AT["slot.tail"] + 4,
            AT["slot.memory"],
        ),
    ),
    "sub-buffers": (
        "overwrite",
        each(
            SUBBUFS_AT,
            32,
            32,
            AT["subbuf.state"],
            AT["subbuf.slot"],
            AT["subbuf.ordinal"],
            AT["subbuf.surplus"],
        ),
    ),
}


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_alone(me, programs, targets, field):
    """It is one thing and another in turns, as fast as can be: a tool that reads it twice finds
    two. The rest of the memory is true.
    """
    mode, places = FIELDS[field]
    rng = random.Random(field)
    target = targets.start(me, [counting(programs, mode), "-w", "-r", 20000, "-s", 600])
    target.say()
    ends = threading.Event()
    session = me.start_iprobe(
        "attach",
        target.pid,
        "--memory",
        "1M",
        "--duration",
        "2s",
        *MODES[mode],
        "-q",
        "-o",
        me.dir() / "trace",
    )
    memory.wait_until_live(target.pid, session, 60)

    def lie():
        shared = shared_memory(target.pid)
        true = [shared[at : at + 4] for at in places if at + 4 <= len(shared)]
        while not ends.is_set():
            value = struct.pack("<I", rng.choice([rng.choice(EXTREMES), rng.getrandbits(32)]))
            for _ in range(20):
                for at in places[: len(true)]:
                    shared[at : at + 4] = value
                for at, was in zip(places, true):
                    shared[at : at + 4] = was
        for at, was in zip(places, true):
            shared[at : at + 4] = was
        shared.close()

    liar = threading.Thread(target=lie)
    liar.start()
    try:
        for command in (
            ["status", target.pid, "--json"],
            [
                "attach",
                target.pid,
                "-f",
                "chain_*",
                "-q",
                "-o",
                me.dir() / "other",
                "--duration",
                "50ms",
            ],
            ["hist", target.pid],
            ["snapshot", target.pid, "-o", me.dir() / "snap"],
            [
                "attach",
                target.pid,
                "-f",
                "!chain_*",
                "-q",
                "-o",
                me.dir() / "other",
                "--duration",
                "50ms",
            ],
        ):
            done = me.iprobe(*command)
            assert done.returncode in (0, 1, 2), repr(done)
        done = last_words(session)
        assert done.returncode in (0, 1), repr(done)
        done = me.iprobe(
            "attach", target.pid, "-q", "--duration", "50ms", *MODES[mode], "-o", me.dir() / "again"
        )
        assert done.returncode in (0, 1), repr(done)
    finally:
        ends.set()
        liar.join()
    done = me.iprobe("detach", target.pid)
    assert done.returncode in (0, 1), repr(done)
    assert target.proc.poll() is None, "the target has ended"
    memory.assert_untouched(target.pid)
