# SPDX-License-Identifier: Apache-2.0
"""Processes that rules are for: other users, other programs, those that vanish."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

from iptest import memory
from iptest.actor import ORDINARY_UID, one_line
from iptest.rules import (  # noqa: F401
    LATENCY,
    Rules,
    WAIT,
    program,
    pytestmark,
    recorded_functions,
    rule,
    rules,
    serving,
    wait_until_live,
)


def test_users(rules, me, serving):
    """By number; another user's process is left alone."""
    rules.start(
        rule("request", match=f"{{exe: PROGRAM, user: {me.uid + 1}}}", name="others")
        + f"  mine: {{match: {{user: {me.uid}, exe: PROGRAM}}, when: request, do: trace, for: "
        f"50ms}}\n"
    )
    memory.wait_for(
        "the process is not found", lambda: rules.listed().get("mine", {}).get("processes"), WAIT
    )
    assert not rules.listed()["others"]["processes"]
    assert "is for no process that runs" in one_line(rules.command("--fire", "others"))


def test_another_program(rules, targets, me, program):
    """A process that is watched executes another one, which is watched then; and each time there
    is one session and one note.
    """
    names = [rules.path / name for name in ("one-serving", "two-serving")]
    for name in names:
        shutil.copy(program, name)
    t = targets.start(me, [names[0], "become", names[1]], preload=False)
    rules.start(
        rule(
            "{latency: {functions: handle, p99: '> 10s'}, request: true}",
            match="{exe: '*-serving'}",
            more="for: 100ms",
        )
    )
    wait_until_live(t.pid)
    os.kill(t.pid, signal.SIGUSR2)
    memory.wait_for(
        "the other program is not found",
        lambda: [(p["pid"], p["program"], p["doing"]) for p in rules.listed()["r"]["processes"]]
        == [(t.pid, str(names[1]), "watch")],
        WAIT,
    )
    wait_until_live(t.pid)
    recorded_functions(rules, me, "r", {"handle"})
    assert (
        len(list(rules.daemon.state.glob("rule-*"))) <= 1 and "failed" not in rules.log()
    ), rules.log()


def test_who_changes_the_user(root):
    rules = Rules(root, root.dir(), "none")
    word = f"test-{os.getpid()}"
    proc = root.popen(
        [
            sys.executable,
            "-c",
            f"import os; input(); os.setresuid({ORDINARY_UID}, {ORDINARY_UID}, {ORDINARY_UID}); "
            f"input()",
            word,
        ],
        stdin=subprocess.PIPE,
        text=True,
    )
    rules.start(
        rule("request", match=f"{{cmdline: '*{word}', user: {ORDINARY_UID}}}")
        + f"  before: {{match: {{cmdline: '*{word}', user: 0}}, when: request, do: trace}}\n"
    )
    memory.wait_for("the process is not found", lambda: rules.listed()["before"]["processes"], WAIT)
    assert not rules.listed()["r"]["processes"]
    proc.stdin.write("\n")
    proc.stdin.flush()
    memory.wait_for("it is not found again", lambda: rules.listed()["r"]["processes"], WAIT)
    assert not rules.listed()["before"]["processes"]
    assert rules.daemon.end() == 0


def test_who_starts_and_changes_the_user(root):
    """Each rule sees a start once, also where another one had the process; some tries, since
    three seconds later it is no start any more.
    """
    rules = Rules(root, root.dir(), "none")
    word = f"test-start-{os.getpid()}"
    rules.start(
        rule(
            "start",
            match=f"{{cmdline: '*{word}', user: {ORDINARY_UID}}}",
            more="at_most: 100 per 1h",
        )
        + f"  before: {{match: {{cmdline: '*{word}'}}, when: start, do: trace, at_most: 100 per "
        f"1h}}\n"
    )
    memory.wait_for("no look at all processes", lambda: rules.listed(), WAIT)
    ids = f"{ORDINARY_UID}, {ORDINARY_UID}, {ORDINARY_UID}"
    code = f"import os, time; input(); os.setresuid({ids}); time.sleep(600)"
    for _ in range(10):
        proc = root.popen([sys.executable, "-c", code, word], stdin=subprocess.PIPE, text=True)

        def starts(name, pid=proc.pid):
            return sum(
                f"rule {name}: pid {pid} " in line and "fires: it has started" in line
                for line in rules.log().splitlines()
            )

        with contextlib.suppress(AssertionError):
            memory.wait_for("it has been met too late", lambda: starts("before"), 10)
        proc.stdin.write("\n")
        proc.stdin.flush()
        memory.wait_for(
            "it is not found",
            lambda pid=proc.pid: pid in {p["pid"] for p in rules.listed()["r"]["processes"]},
            WAIT,
        )
        counts = starts("before"), starts("r")
        assert max(counts) <= 1, rules.log()
        if counts == (1, 1):
            break
    assert counts == (1, 1), rules.log()
    assert rules.daemon.end() == 0


def test_targets_that_vanish(rules, targets, me, program):
    rules.start(rule(LATENCY))
    for _ in range(3):
        t = targets.start(me, [program], preload=False)
        wait_until_live(t.pid)
        t.proc.kill()
    memory.wait_for("they stay in the list", lambda: not rules.listed()["r"]["processes"], WAIT)
    memory.wait_for("notes stay", lambda: not list(rules.daemon.state.glob("rule-*")), WAIT)


def test_programs_that_are_not_prepared(rules, targets, me):
    seconds = 100_000 + os.getpid()  # nobody else's
    t = targets.start(me, ["sleep", seconds], preload=False, wait=False)
    rules.start(rule(LATENCY, match=f"{{exe: sleep, cmdline: 'sleep {seconds}'}}"))
    rules.wait_log(f"pid {t.pid} ", "it is tried again in 1.00 s, and then less and less often")
    time.sleep(4)
    assert rules.log().count("it is tried again") == 1 and t.alive()
