# SPDX-License-Identifier: Apache-2.0
"""Rules that do not watch: functions that are not there, limits that are reached; what came of
them.
"""

import re
import time

import pytest

from iptest import memory
from iptest.rules import (  # noqa: F401
    LATENCY,
    WAIT,
    program,
    pytestmark,
    report,
    rule,
    rules,
    serving,
    wait_until_idle,
    wait_until_live,
)

MISTYPED = "{latency: {functions: hndle, max: '> 1us'}}"
FAST = "{latency: {functions: handle, max: '> 1us'}}"


def several(*texts):
    return "rules:\n" + "".join(text.split("\n", 1)[1] for text in texts)


@pytest.mark.parametrize("do", ["trace", "snapshot"])
def test_a_function_that_is_not_there(rules, serving, me, do):
    """Its rule alone is left out, by name, and tried again; the others are watched."""
    # long enough for a call even where the server gets the CPU rarely
    good = rule(FAST, name="good", more="for: 500ms\n    at_most: 1 per 1h")
    bad, other = rule(MISTYPED, do, name="bad"), rule(LATENCY, name="other", more="for: 50ms")
    rules.start(several(bad, good, other) if do == "snapshot" else several(good, bad, other))
    rules.wait_log(
        "rule bad: ", "not watched: the process has no function hndle; nearest: handle; it is tried"
    )
    (path,) = rules.recorded("good")
    assert "handle" in report(me, path)
    rules.wait_log("rule other: ", "is watched: p99>10ms/1s:handle")
    time.sleep(2)  # it is tried again
    wait_until_live(serving.pid)
    log = rules.log()
    assert log.count("has no function hndle") == 1 and log.count("tried again") == 1, log
    bad = [line for line in log.splitlines() if "rule bad: " in line]
    assert not [line for line in bad if "is watched" in line], bad
    listed = rules.listed()
    assert "has no function hndle" in listed["bad"]["last"] and not listed["bad"]["last_recorded"]
    assert listed["good"]["last_recorded"] and "has recorded: " in listed["good"]["last"]
    assert "last" not in listed["other"]


def test_a_recorder_rests(rules, serving, targets, me, program):
    """It ends where the rule may not fire, also that of another process of the service."""
    other = targets.start(me, [program], preload=False)
    rules.start(
        rule(
            "{latency: {functions: handle, max: '> 10s'}, every: 3s}",
            do="{snapshot: {memory: 2M}}",
            more="for: 50ms\n    at_most: 1 per 1h",
        )
    )
    rules.recorded("r")
    for pid in (serving.pid, other.pid):
        wait_until_idle(pid)
    line = rules.wait_log("limit 1 per 1h reached, next at ", "its flight recorder rests")
    assert re.search(r"next at \d\d:\d\d:\d\d: its", line), line
    rules.wait_log(
        "would fire, but it has fired 1 time in 3600 s (at_most): not now; limit 1 per 1h"
    )
    assert "    limit 1 per 1h reached, next at " in rules.command("--rules").stdout
    for process in rules.listed()["r"]["processes"]:
        assert process["limit"].startswith("limit 1 per 1h reached") and process["doing"] != "act"
        assert 3000e9 < process["next_in_ns"] < 3600e9, process
    assert rules.command("--fire", f"r:{other.pid}").returncode == 0
    assert "handle" in report(me, rules.recorded("r", 2)[1])
    wait_until_idle(other.pid)


def test_a_recorder_begins_again_in_time(rules, serving):
    """Five seconds before it may fire again; meanwhile it is not live."""
    rules.start(
        rule(FAST, do="{snapshot: {memory: 2M}}", more="for: 50ms\n    every: 8s"),
    )
    rules.recorded("r")
    rules.wait_log("fired less than 8s ago, next at ", "its flight recorder rests")
    wait_until_idle(serving.pid)
    (process,) = rules.listed()["r"]["processes"]
    assert process["limit"].startswith("fired less than 8s ago, next at ")
    rules.recorded("r", 2)
    assert rules.log().count("its flight recorder rests") == 2


def test_what_came_of_it(rules, serving):
    """The list tells it, and the answer to the next request: the first cannot know yet."""
    rules.start(
        several(
            rule("request", "{trace: {functions: handle, args: 'handle(nope)'}}", name="bad"),
            rule("request", name="good", more="for: 50ms"),
        )
    )
    memory.wait_for("the process is not found", lambda: rules.listed()["bad"]["processes"], WAIT)
    assert "last" not in rules.listed()["bad"]
    assert rules.command("--fire", "bad").stdout == "the rule 'bad' fires for 1 process\n"
    rules.wait_log("rule bad: ", "nothing is recorded: ")
    said = rules.command("--rules").stdout
    assert re.search(r"^  last: pid \d+: nothing is recorded: .*nope", said, re.M), said
    again = rules.command("--fire", "bad")
    assert again.returncode == 0 and re.search(
        r"^what came of it the last time: pid \d+: nothing is recorded: .*nope", again.stdout, re.M
    ), again
    assert rules.command("--fire", "good").returncode == 0
    rules.recorded("good")
    assert rules.command("--fire", "good").stdout == "the rule 'good' fires for 1 process\n"
