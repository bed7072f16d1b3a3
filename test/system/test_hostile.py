# SPDX-License-Identifier: Apache-2.0
"""
The memory that a target shares with iprobe is scribbled over while it records: iprobe ends in time, without a crash, the trace can be
read, and the target's text is as it was.
"""

import json
import mmap
import random
import struct
import threading
import time

import pytest

from iptest import memory
from iptest.actor import last_words, one_line

# common/rt_abi.h
MODULES, SLOTS, SUBBUFS_MAX = 1024, 8192, 32768
SLOTS_AT = 4096 + MODULES * 64
SUBBUFS_AT = SLOTS_AT + SLOTS * 128
DATA_AT = SUBBUFS_AT + SUBBUFS_MAX * 32 + MODULES * 4 + (1 << 20) * 8 + (1 << 15) * 272
SUBBUF_SIZE = 32768
USED_AT, NFREE_AT, UNSERVED_AT = 28, 20, 32
MEMORY = 1 << 20


def shared_memory(pid):
    """The target's own memfd, as itself would have it."""
    with memory.ring_memory(pid) as file:
        return mmap.mmap(file.fileno(), 0)


def word(rng):
    """Something that looks like a word of a record, more or less."""
    return rng.choice([0, 7, 8, rng.getrandbits(64), rng.getrandbits(61) << 3 | rng.randint(0, 7),
                       (1 << 32 | rng.randint(16, 60) << 3 | 7)])


def scribble(area, rng):
    """One lie."""
    nsubbufs, slot, subbuf = MEMORY // SUBBUF_SIZE, rng.randrange(12), rng.randrange(MEMORY // SUBBUF_SIZE)
    what = rng.randrange(7)
    if what == 0:
        struct.pack_into("<I", area, USED_AT, rng.choice([0, 1, 12, SLOTS, 1 << 31, 0xffffffff]))
    elif what == 1:
        struct.pack_into("<i", area, NFREE_AT, rng.getrandbits(32) - (1 << 31))
        struct.pack_into("<Q", area, UNSERVED_AT, rng.getrandbits(64))
    elif what == 2:
        cur = rng.choice([subbuf, 0xffff, rng.getrandbits(16)]) << 48 | rng.getrandbits(rng.choice([4, 16, 48]))
        struct.pack_into("<8Q", area, SLOTS_AT + 128 * slot, cur, *[rng.choice([0, rng.getrandbits(64)]) for _ in range(7)])
    elif what == 3:
        struct.pack_into("<IIIIQ", area, SLOTS_AT + 128 * slot + 64, rng.choice([1, 1, 1, 0, 2, 77]),
                         rng.getrandbits(32), rng.getrandbits(32), 1, rng.choice([5, rng.getrandbits(64)]))
    elif what in (4, 5):
        struct.pack_into("<IIQQQ", area, SUBBUFS_AT + 32 * subbuf, rng.choice([0, 1, 2, 2, 2, 3, 99]),
                         rng.choice([slot, 0xffffffff, rng.getrandbits(32)]),
                         rng.choice([0, 0, 1, 2, rng.getrandbits(64)]), rng.getrandbits(64), rng.choice([0, 1]))
    else:
        at = DATA_AT + SUBBUF_SIZE * subbuf + 8 * rng.randrange(4096 - 64)
        for i in range(64):
            struct.pack_into("<Q", area, at + 8 * i, word(rng))
    assert nsubbufs


@pytest.mark.parametrize("seed", [1, 2])
def test_rings_that_lie(actor, programs, targets, seed):
    rng = random.Random(seed)
    target = targets.start(actor, [programs.simple("count", opt="-O0"), "-w"])
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe("attach", target.pid, "--json", "--memory", "1M", "--duration", "2s", "-o", directory)

    def patched():
        done = actor.iprobe("status", target.pid, "--json")
        return proc.poll() is not None or json.loads(done.stdout)["patched"] > 0

    memory.wait_for("the probes do not go live", patched, 60)
    area = shared_memory(target.pid)
    lies = 0
    while proc.poll() is None:
        for _ in range(200):
            scribble(area, rng)
            lies += 1
        time.sleep(0.0005)
    done = last_words(proc)
    assert lies >= 200
    assert done.returncode == 0, repr(done)
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode in (0, 1), repr(done)  # what lies is at most useless
    memory.assert_untouched(target.pid)
    area.close()


EXTREMES = [0, 1, 2, 7, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 1 << 16, 1 << 21]
# header, clock and filters; modules; slots; descriptors of sub-buffers; payload numbers; payloads; programs; duties; rules
PAYLOADS_AT = SUBBUFS_AT + SUBBUFS_MAX * 32 + MODULES * 4
PROGRAMS_AT = PAYLOADS_AT + (1 << 20) * 8
DUTIES_AT = PROGRAMS_AT + (1 << 15) * 272
RULES_AT = DUTIES_AT + (1 << 21) * 4
BLOCKS_AT = RULES_AT + (1 << 21) * 16
REGIONS = [(16, 4096 - 16), (4096, 8 * 64), (SLOTS_AT, 16 * 128), (SUBBUFS_AT, 64 * 32), (PAYLOADS_AT - MODULES * 4, 64),
           (PAYLOADS_AT, 512), (PROGRAMS_AT, 8 * 272), (DUTIES_AT, 512), (RULES_AT, 2048), (BLOCKS_AT, 1 << 19)]


def scribble_anywhere(area, rng):
    at, size = rng.choice(REGIONS)
    at += rng.randrange(size) & ~3
    if at + 8 <= len(area):
        value = rng.choice([rng.choice(EXTREMES), rng.getrandbits(32)])
        struct.pack_into("<I", area, at, value)


MODES = {"log": [], "hist": ["--payload", "hist"], "count": ["--payload", "count"], "filters": ["--depth", "3", "--callsite"],
         "values": ["--args"], "overwrite": ["--overwrite"], "coarse": ["--time", "coarse"]}


@pytest.mark.parametrize("mode", MODES)
def test_all_that_tools_read_lies(actor, programs, targets, mode):
    """Every field, by little and much, while commands come and go: each ends by itself, by words, and the target lives."""
    rng = random.Random(mode)
    target = targets.start(actor, [programs.simple("count", opt="-O0"), "-w"])
    ends = threading.Event()
    session = actor.start_iprobe("attach", target.pid, "--memory", "1M", "--duration", "3s", *MODES[mode], "-q", "-o", actor.dir() / "trace")
    memory.wait_for("no area", lambda: session.poll() is not None or any("memfd:iprobe" in m.path for m in memory.mappings(target.pid)))

    def lie():
        area = shared_memory(target.pid)
        while not ends.is_set():
            for _ in range(100):
                scribble_anywhere(area, rng)
            time.sleep(0.001)
        area.close()

    liar = threading.Thread(target=lie)
    liar.start()
    try:
        for command in (["status", target.pid], ["attach", target.pid, "-f", "step_*", "-q", "--duration", "100ms", "-o", actor.dir() / "other"],
                        ["snapshot", target.pid, "-o", actor.dir() / "snap"], ["status", target.pid, "--json"]):
            done = actor.iprobe(*command)
            assert done.returncode in (0, 1, 2), repr(done)
        done = last_words(session)
        assert done.returncode in (0, 1), repr(done)
        done = actor.iprobe("attach", target.pid, "--resume", "-q", "--duration", "100ms", "-o", actor.dir() / "trace")
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
