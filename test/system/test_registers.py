# SPDX-License-Identifier: Apache-2.0
"""Everything that is live at a site survives its hook, in every form of site, while probes come
and go.
"""

import json
import re

import pytest

HOOKED = "!main,!check,!wrong,!random64,!fill_vectors"


@pytest.fixture
def program(programs):
    return programs.simple("registers", placement="fentry")


def rounds(said):
    return int(re.search(r"(\d+) rounds", said)[1])


def test_while_probes_come_and_go(actor, targets, program):
    target = targets.start(actor, [program])
    seen = set()
    for _ in range(12):
        directory = actor.dir() / "trace"
        done = actor.iprobe(
            "attach",
            target.pid,
            "-f",
            HOOKED,
            "--duration",
            "50ms",
            "--max-stop",
            "5s",
            "--json",
            "-o",
            directory,
        )
        assert (
            done.returncode == 0
        ), f"{done!r}\n{target.proc.stdout.read() if not target.alive() else ''}"
        assert done.summary()["sites"] == 13
        seen |= {
            f["function"]
            for f in json.loads(actor.iprobe("report", "--json", directory).stdout)["functions"]
        }
    result = target.finish()
    assert rounds(result.stdout) > 100
    # entries are calls; exits without one are none
    assert {"call_entry", "entry_entry", "all_entry", "jumping_entry"} <= seen


def test_recorded_from_the_start(me, program):
    """Each site makes one event a round."""
    done = me.iprobe(
        "run",
        "--json",
        "-f",
        HOOKED,
        "--memory",
        "256M",
        "-o",
        me.dir() / "trace",
        "--",
        program,
        1000,
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert rounds(done.stdout) == 1000
    assert summary["sites"] == 13 and summary["lost"] == 0 and summary["events"] == 13 * 1000


def test_with_values(me, program):
    """A point whose arguments are recorded: nothing changes, and they are what they are."""
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "-f",
        "a_point,call_entry",
        "--args",
        "--retval",
        "-o",
        directory,
        "--",
        program,
        1000,
    )
    assert done.returncode == 0, repr(done)
    assert rounds(done.stdout) == 1000
    events = [
        json.loads(line) for line in me.iprobe("dump", "--json", directory).stdout.splitlines()
    ]
    points = [event for event in events if event["event"] == "point"]
    assert len(points) == 1000
    for event in points:
        r15, near, far, _ = event["args"].values()
        assert r15 == near == far
    assert len({event["args"]["arg1"] for event in points}) == 1000
