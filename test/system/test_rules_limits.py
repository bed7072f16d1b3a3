# SPDX-License-Identifier: Apache-2.0
"""Limits of rules: overhead, disk, how often, places and memory."""

import os
import re
import shutil
import signal
import time

from iptest import memory
from iptest.rules import (  # noqa: F401
    Rules,
    WAIT,
    idle,
    program,
    pytestmark,
    report,
    rule,
    rules,
    serving,
    wait_until_idle,
    wait_until_live,
)


def test_overhead_of_a_watch(rules, serving):
    """3333 calls a second are 0.01 % by 30 ns each."""
    os.kill(serving.pid, signal.SIGUSR2)
    rules.start(rule("{latency: {functions: handle, p99: '> 10s'}}", more="overhead: 0.01%"))
    rules.wait_log("to watch it takes more than 0.01 % (overhead): handle was called ")
    wait_until_idle(serving.pid)


def test_overhead_of_a_trace_is_paid_back(rules, serving):
    os.kill(serving.pid, signal.SIGUSR2)
    rules.start(rule("{every: 1s}", more="for: 1s\n    overhead: 0.01%"))
    rules.recorded("r")
    time.sleep(1.5)
    assert rules.log().count("fires") == 1, rules.log()


def test_disk(rules, serving):
    """Two MiB, of which the oldest go."""
    os.kill(serving.pid, signal.SIGUSR2)
    rules.start(rule("{every: 1s}", more="for: 300ms\n    disk: 2M"))
    rules.recorded("r", 4)
    rules.wait_log(
        "oldest of what it has recorded are removed, so that it has no more than 2.0 MiB (disk)"
    )
    used = sum(p.lstat().st_blocks * 512 for p in (rules.traces / "r").rglob("*"))
    assert used < 2.5 * 2**20


def test_at_most_outlives_a_restart(rules, serving):
    text = rule("{every: 1s}", more="for: 50ms\n    at_most: 2 per 1h")
    rules.start(text)
    rules.recorded("r", 2)
    rules.wait_log("would fire, but it has fired 2 times in ")
    rules.daemon.end()
    rules.start(text)
    memory.wait_for(
        "it does not say so again",
        lambda: rules.log().count("would fire, but it has fired 2 times") == 2,
        WAIT,
    )
    assert rules.log().count("fires: ") == 2


def test_a_service_is_recorded_once_in_a_while(rules, targets, me, program):
    """Workers of a service share a cool-down, which outlives a restart; another program has its
    own; a request is not kept waiting.
    """
    other = me.dir() / "other"
    shutil.copy(program, other)
    other.chmod(0o755)
    for path in (program, program, other):
        targets.start(me, [path], preload=False)
    text = rule(
        "{every: 1s, request: true}",
        match=f"{{exe: [PROGRAM, {other}]}}",
        more="for: 50ms\n    every: 1h\n    at_most: 2 per 1h",
    )
    rules.start(text)
    said = [p / "why.txt" for p in rules.recorded("r", 2)]
    services = {re.search(r"^service  (\S+)", p.read_text(), re.M)[1] for p in said}
    assert services == {str(program), str(other)}, services
    rules.wait_log("ago (every 3600 s): not now")
    for _ in range(2):
        # one worker, and the other program, some seconds later
        memory.wait_for(
            "they do not wait", lambda: rules.log().count("fired for this service") >= 2, WAIT
        )
        assert rules.log().count("fires: ") == 2, rules.log()
        rules.daemon.end()
        rules.start(text)
        time.sleep(1.2)
    assert rules.command("--fire", "r").stdout == "the rule 'r' fires for 3 processes\n"
    rules.recorded("r", 5)


def test_a_long_action_holds_nobody_up(rules, serving, me):
    """It ends when the files are read again, with what it has."""
    rules.start(rule("request", more="for: 30m"))
    memory.wait_for("the process is not found", lambda: rules.listed()["r"]["processes"], WAIT)
    assert rules.command("--fire", "r").returncode == 0
    wait_until_live(serving.pid)
    rules.write(rule("request", name="new"))
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    memory.wait_for("the new rule is not there", lambda: rules.carried_out() == 2, WAIT)
    (path,) = rules.recorded("r")
    assert "handle" in report(me, path) and set(rules.listed()) == {"new"}
    memory.wait_for(
        "the process is not found again", lambda: rules.listed()["new"]["processes"], WAIT
    )
    assert idle(serving.pid)


def test_places_are_taken_again(rules, targets, me, program):
    several = {t.pid: t for t in (targets.start(me, [program], preload=False) for _ in range(2))}
    rules.start(rule("request", more="processes: 1"))
    rules.wait_log("is for 1 process at the same time at most (processes)")
    (first,) = memory.wait_for(
        "the process is not found", lambda: rules.listed()["r"]["processes"], WAIT
    )
    several.pop(first["pid"]).proc.kill()
    (other,) = several
    memory.wait_for(
        "the other one does not take its place",
        lambda: [p["pid"] for p in rules.listed()["r"]["processes"]] == [other],
        WAIT,
    )


def test_a_place_is_free_at_once(rules, targets, me, program):
    """A service that is started again takes the place of its process that has ended."""
    first = targets.start(me, [program], preload=False)
    rules.start(rule("request", more="processes: 1"))
    memory.wait_for("the process is not found", lambda: rules.listed()["r"]["processes"], WAIT)
    time.sleep(2.1)  # it is not looked at in each scan any more
    first.proc.kill()
    first.proc.wait()
    second = targets.start(me, [program], preload=False)
    memory.wait_for(
        "the new process is not found",
        lambda: [p["pid"] for p in rules.listed()["r"]["processes"]] == [second.pid],
        WAIT,
    )
    assert "left out" not in rules.log()


def test_places_are_shared_by_users(root, user, targets, program):
    """Who has the fewer gets one, of the newest of who has most; with as many each nothing
    changes any more.
    """
    rules = Rules(root, root.dir(), program)
    many = [targets.start(root, [program], preload=False).pid for _ in range(4)]
    rules.start(rule("{latency: {functions: handle, p99: '> 10s'}}", more="processes: 3"))

    def holders():
        return {p["pid"] for p in rules.listed()["r"]["processes"]}

    memory.wait_for("not three of them are found", lambda: len(holders()) == 3, WAIT)
    assert holders() < set(many)
    few = [targets.start(user, [program], preload=False).pid for _ in range(2)]
    memory.wait_for(
        "the user gets no place",
        lambda: len(holders() & set(few)) == 1 and len(holders()) == 3,
        WAIT,
    )
    line = rules.wait_log("its place is another user's now, who has fewer of them (processes)")
    loser = int(line.split(" pid ")[1].split()[0])
    assert loser in many
    wait_until_idle(loser)
    (other,), lucky = set(few) - holders(), holders() & set(few)
    for pid in holders():
        wait_until_live(pid)
    assert idle(other) and lucky <= holders() and rules.log().count("its place is another") == 1
    # a free place is for whoever waits
    os.kill(lucky.pop(), signal.SIGKILL)
    memory.wait_for("the place stays free", lambda: len(holders()) == 3, WAIT)
    assert rules.daemon.end() == 0


def test_a_full_disk(rules, serving, small_disk):
    """Nothing is recorded, and the log says why; the process is as it was."""
    rules.traces = small_disk / "traces"
    filler = small_disk / "full"
    fd = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(fd, bytes(4096))
    except OSError:
        os.close(fd)
    rules.start(rule("{every: 1s}", more="for: 50ms"))
    rules.wait_log("nothing is recorded: ")
    wait_until_idle(serving.pid)
    filler.unlink()
    rules.wait_log("has recorded: ")
    assert serving.alive()


def test_memory_of_all_sessions(rules, serving, targets, me, program):
    """What is beyond the bound waits, and what never fits is not begun."""
    targets.start(me, [program], preload=False)
    rules.start(
        rule("request", more="for: 1s")
        + rule("request", do="{trace: {functions: handle, memory: 300M}}", name="large").split(
            "\n", 1
        )[1],
        "--memory-of-rules",
        "150M",
    )
    memory.wait_for(
        "the processes are not found", lambda: len(rules.listed()["r"]["processes"]) == 2, WAIT
    )
    assert rules.command("--fire", "r").returncode == 0
    rules.wait_log("rule r: ", "waits until there is memory for it")
    assert len(rules.recorded("r", 2)) == 2
    begun = [line for line in rules.log().splitlines() if "has recorded" in line]
    assert len(begun) == 2
    assert rules.command("--fire", "large").returncode == 0
    rules.wait_log(
        "rule large: ",
        "nothing is recorded: its session needs 332.0 MiB of memory, and all those of rules have "
        "150.0 MiB",
    )
    assert idle(serving.pid)
