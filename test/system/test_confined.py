# SPDX-License-Identifier: Apache-2.0
"""
Sandboxed processes (seccomp): borrowing one of their threads suspends their filter for exactly
the calls that are ours, whatever the other threads do meanwhile.
"""

import json
import os
import pathlib
import select

import pytest

from iptest import actor as actors
from iptest import memory

TOP = pathlib.Path(__file__).resolve().parents[2]
ATTACHES = 60 if os.environ.get("IPROBE_TEST_FULL") else 6


def answer(target, line):
    """What a process says that may be in an endless loop by its own doing."""
    target.proc.stdin.write(line)
    target.proc.stdin.flush()
    ready, _, _ = select.select([target.proc.stdout], [], [], 5)
    return target.proc.stdout.readline() if ready else ""


def test_a_sibling_that_writes_over_the_stack(root, programs, targets):
    """It makes the borrowed thread go where it wants; the forbidden call does not succeed from
    there.
    """
    program = programs.simple("escaping", extra=["-O1", "-I", str(TOP)])
    strayed = 0
    for _ in range(ATTACHES):
        folder = root.dir() / "escaped"
        target = targets.start(root, [program, folder], preload=False)
        for _ in range(2):
            done = root.iprobe(
                "attach", target.pid, "--duration", "10ms", "-o", root.dir() / "trace"
            )
            assert not folder.exists(), "a forbidden call was made"
            strayed += "left iprobe's code" in done.stderr
            assert done.returncode == 0 or len(done.stderr.strip().splitlines()) == 1, repr(done)
            if answer(target, "again\n") != "ready\n":
                break
        target.proc.kill()
        assert not folder.exists(), "a forbidden call was made"
    assert strayed, "the sibling never hit: this shows nothing"


LINKS = {"preloaded": [], "static": ["-static"], "static-pie": ["-static-pie"], "m32": ["-m32"]}


def tell(proc, line, answer):
    proc.stdin.write(line + "\n")
    proc.stdin.flush()
    assert proc.stdout.readline() == answer + "\n", f"it was ended: {proc.wait(timeout=5)}"


@pytest.mark.parametrize("how", LINKS)
@pytest.mark.parametrize("run", [False, True], ids=["attach", "run"])
def test_threads_that_may_not_ask_for_their_ids(root, programs, targets, how, run):
    """A filter that kills for gettid and getpid: hooks of new threads ask nobody."""
    program = programs.simple("confining", extra=LINKS[how], placement="instrument")
    trace = root.dir() / "trace"
    if run:
        proc = session = root.popen(
            [root.iprobe_path, "run", "--json", "-o", trace, "--", program, "ids"]
        )
        assert proc.stdout.readline() == "ready\n"
    else:
        target = targets.start(root, [program, "ids"], preload=how in ("preloaded", "m32"))
        proc = target.proc
        session = root.start_iprobe("attach", target.pid, "-f", "step", "--json", "-o", trace)
        memory.wait_for("no site went live", lambda: patched(root, target.pid, session))
    tell(proc, "confine", "confined")
    for _ in range(3):
        tell(proc, "threads", "called")
    proc.stdin.close()
    assert proc.wait(timeout=30) == 0
    if not run:
        done = actors.last_words(session)
        assert done.returncode == 0, repr(done)
        assert done.summary()["events"] + done.summary()["lost"] == 2 * 3 * 4 * 1000
    report = json.loads(root.iprobe("report", "--json", trace).stdout)
    assert {f["function"]: f["calls"] for f in report["functions"]}["step"] == 12000 and report[
        "threads"
    ] >= 12


def patched(actor, pid, session):
    assert session.poll() is None, f"ended early: {session.communicate()}"
    done = actor.iprobe("status", "--json", pid)
    return done.returncode == 0 and json.loads(done.stdout)["patched"]
