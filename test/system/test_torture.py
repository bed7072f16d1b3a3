# SPDX-License-Identifier: Apache-2.0
"""
A thousand sites that are being executed are patched and unpatched without a pause, by a driver that
knows no politeness (test/soak/cycles.c), in a process with 64 threads that does whatever makes it
hard (test/programs/torture.c) and checks all its results.

IPROBE_TEST_SOAK: how many cycles (default 100); the long form is 100000, some half an hour on
two CPUs.
"""

import json
import os
import struct

import pytest

from iptest import memory

CYCLES = int(os.environ.get("IPROBE_TEST_SOAK", "100"))
THREADS = 64
ACTIVITIES = ["threads that come and go", "forks", "libraries", "signal handlers", "blocking calls"]


@pytest.fixture
def library(programs):
    return programs.library("torture_lib", placement="fentry")


@pytest.mark.parametrize(
    "placement", ["fentry", pytest.param("instrument", marks=pytest.mark.slow)]
)
def test_patched_without_a_pause(me, programs, targets, library, placement):
    program = programs.simple("torture", placement=placement)
    beats = me.dir() / "beats"
    target = targets.start(me, [program, "-b", beats, "-t", THREADS, "-l", library], beats=beats)
    done = me.run(
        [me.builddir / "test" / "soak" / "soak-cycles", target.pid, "step_*", CYCLES],
        timeout=120 + CYCLES * 0.2,
    )
    assert (
        done.returncode == 0
    ), f"{done!r}\n{target.proc.stderr.read() if not target.alive() else ''}"
    summary = json.loads(done.stdout)
    assert (
        summary["cycles"] == CYCLES and summary["sites"] >= 1000 and summary["threads"] > THREADS
    ), summary
    assert summary["least_events"] > 0, summary
    assert target.alive()

    def all_at_work():
        counts = struct.unpack(f"<{256 + len(ACTIVITIES)}Q", beats.read_bytes())
        return all(counts[: THREADS + len(ACTIVITIES)])

    memory.wait_for("some activity has never had a turn", all_at_work, 60)
    memory.wait_for(
        "a thread stays stopped",
        lambda: all(state(target.pid, tid) in "RSDZX" for tid in threads(target.pid)),
    )
    assert memory.text_differences(target.pid) == []
    target.finish()


def threads(pid):
    return os.listdir(f"/proc/{pid}/task")


def state(pid, tid):
    try:
        return memory.status_field(pid, "State", tid)[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"  # it has ended meanwhile
