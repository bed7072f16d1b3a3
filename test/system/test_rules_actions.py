# SPDX-License-Identifier: Apache-2.0
"""What rules do when they fire, and who makes way for whom."""

import json
import os
import signal
import time

import pytest

from iptest import memory
from iptest.actor import end, last_words, one_line
from iptest.rules import (  # noqa: F401
    LATENCY,
    WAIT,
    idle,
    program,
    pytestmark,
    recorded_functions,
    report,
    rule,
    rules,
    serving,
    wait_until_idle,
    wait_until_live,
)


def test_snapshot_of_the_flight_recorder(rules, serving, me):
    """What was before the moment is there, and what came after it."""
    rules.start(rule("request", do="{snapshot: {functions: '*', memory: 2M}}", more="for: 300ms"))
    rules.wait_log("is recorded in a ring")
    wait_until_live(serving.pid)
    time.sleep(1)
    assert rules.command("--fire", "r").returncode == 0
    (path,) = rules.recorded("r")
    info = json.loads(me.iprobe("info", "--json", path / "trace").stdout)
    assert report(me, path)["handle"]["calls"] >= 10, info
    rules.command("--fire", "r")  # it goes on
    rules.recorded("r", 2)
    assert not idle(serving.pid)


def replies(me, path):
    """The numbers of the replies in a trace, of which each has one."""
    done = me.iprobe("dump", "--json", path / "trace")
    assert done.returncode == 0, repr(done)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    entries = [e for e in events if e.get("function") == "reply" and e["event"] == "entry"]
    return [e["args"]["number"] for e in entries]


@pytest.mark.parametrize("when", ["request", "{latency: {functions: reply, calls: '> 5'}}"])
def test_snapshot_with_values(rules, serving, me, when):
    """The flight recorder has the values that the rule asks for, also of the function whose
    latency it watches.
    """
    values = "args: 'reply(number)', retval: true"
    rules.start(
        rule(when, do=f"{{snapshot: {{functions: reply, memory: 2M, {values}}}}}", more="for: 50ms")
    )
    wait_until_live(serving.pid)
    time.sleep(0.2)
    if when == "request":
        assert rules.command("--fire", "r").returncode == 0
    numbers = replies(me, rules.recorded("r")[0])
    assert len(numbers) > 5, numbers
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers


def test_a_wait_for_a_session_is_told_once(rules, serving, me):
    """A recording that was there before keeps a rule from watching: the log says whose it is, not
    which options the watch has; and the watch begins soon after it.
    """
    session = me.start_iprobe("attach", "-q", "-f", "parse", "-o", me.dir() / "t", serving.pid)
    wait_until_live(serving.pid)
    rules.start(
        "rules:\n"
        "  ring: {match: {exe: PROGRAM}, when: request, do: {snapshot: {functions: handle}}}\n"
        "  one: {match: {exe: PROGRAM}, when: request, do: trace, for: 1s}\n"
    )
    waits = f"pid {serving.pid} ({rules.program}): waits until its session of iprobe"
    rules.wait_log("rule ring:", f"{waits} {session.pid} has ended")
    assert rules.command("--fire", "one").returncode == 0
    rules.wait_log("rule one:", f"nothing is recorded: it has a session of iprobe {session.pid}")
    time.sleep(2.5)  # it has been tried again
    assert rules.log().count("waits until its session") == 1
    assert "--" not in rules.log().split("waits until")[1], rules.log()
    done = me.iprobe("attach", "--json", "--duration", "1s", serving.pid)
    assert done.returncode == 1 and "--duration is for a new one" in done.stderr, repr(done)
    assert json.loads(done.stdout) == {"pid": serving.pid, "taken_by": session.pid}
    assert me.iprobe("detach", serving.pid).returncode == 0
    assert last_words(session).returncode == 0
    wait_until_live(serving.pid)
    assert rules.command("--fire", "ring").returncode == 0
    assert "handle" in report(me, rules.recorded("ring")[0])


def test_snapshot_of_a_slow_moment(rules, serving, me):
    """A latency, and a flight recorder: the function that is watched is recorded, too, from before
    the moment on; then it may not again, and the recorder rests; a request has it begin.
    """
    rules.start(
        rule(
            LATENCY,
            do="{snapshot: {functions: 'look_*', memory: 2M}}",
            more="for: 300ms\n    at_most: 1 per 1h",
        )
    )
    rules.wait_log("is recorded in a ring: p99>10ms/1s:handle")
    wait_until_live(serving.pid)
    time.sleep(1)
    assert "fires" not in rules.log()
    os.kill(serving.pid, signal.SIGUSR1)
    assert "p99 of handle was " in rules.wait_log("fires: ")
    (path,) = rules.recorded("r")
    functions = report(me, path)
    assert set(functions) == {"handle", "look_up"}
    # fast ones, from before, and slow ones
    assert functions["look_up"]["min_ns"] < 8e6 < 10e6 < functions["look_up"]["max_ns"], functions
    assert functions["handle"]["max_ns"] >= functions["look_up"]["max_ns"]
    info = json.loads(me.iprobe("info", "--json", path / "trace").stdout)
    assert "why      p99 of handle was " in (path / "why.txt").read_text(), info
    rules.wait_log("limit 1 per 1h reached, next at ", "its flight recorder rests")
    wait_until_idle(serving.pid)
    assert rules.command("--fire", "r").returncode == 0  # by request it may
    assert "look_up" in report(me, rules.recorded("r", 2)[1])
    assert rules.log().count("fires: p99") == 1
    os.kill(serving.pid, signal.SIGUSR1)
    assert sorted(
        p.name.split("-")[0] for p in (rules.traces / "r").iterdir() if p.name.startswith(".")
    ) in ([], [".recorder"])
    rules.daemon.end()
    assert not [p for p in (rules.traces / "r").iterdir() if p.name.startswith(".")]
    wait_until_idle(serving.pid)


def test_a_slow_moment_that_comes_again(rules, serving, me):
    """The recorder is begun anew behind each; when the rule may not fire any more, and then may
    again, it watches again.
    """
    rules.start(
        rule(LATENCY, do="{snapshot: {memory: 2M}}", more="for: 50ms\n    at_most: 1 per 3s")
    )
    rules.wait_log("is recorded in a ring")
    wait_until_live(serving.pid)
    os.kill(serving.pid, signal.SIGUSR1)
    first, second = rules.recorded("r", 2)[:2]
    assert first != second and {"handle", "look_up"} <= set(report(me, second))
    assert serving.alive()


def test_fperf(rules, serving):
    rules.start(
        "profiles: {p: {events: TASK-CLOCK, functions: handle}}\n"
        + rule("request", do="{fperf: p}", more="for: 500ms\n    overhead: 2%")
    )
    memory.wait_for(
        "the process is not found", lambda: rules.listed().get("r", {}).get("processes"), WAIT
    )
    assert rules.command("--fire", "r").returncode == 0
    (path,) = rules.recorded("r")
    result = json.loads((path / "fperf.json").read_text())
    assert "handle" in {f["function"] for f in result["functions"]}
    assert result["budget"] in (0.02, 2), result["budget"]


def test_values_and_selection(rules, serving, me):
    rules.start(
        "selections: {some: [parse, reply]}\n"
        + rule(
            "request",
            do="{trace: {functions: '@some', args: true, retval: true, memory: 4M}}",
            more="for: 100ms",
        )
    )
    memory.wait_for(
        "the process is not found", lambda: rules.listed().get("r", {}).get("processes"), WAIT
    )
    assert set(recorded_functions(rules, me, "r", {"parse", "reply"})) == {"parse", "reply"}


def test_two_rules_one_process(rules, serving, me):
    """One session at a time: what fires ends what watches, the others wait for each other."""
    rules.start(
        "rules:\n"
        "  watch: {match: {exe: PROGRAM}, when: {latency: {functions: handle, p99: '> 10s'}}, do: "
        "trace}\n"
        "  ring: {match: {exe: PROGRAM}, when: request, do: snapshot}\n"
        "  one: {match: {exe: PROGRAM}, when: request, do: trace, for: 1s}\n"
        "  two: {match: {exe: PROGRAM}, when: request, do: {hist: '*'}, for: 300ms}\n"
    )
    rules.wait_log(
        "rule ring:",
        "waits: the process has one session at a time, and the rule 'watch' watches it",
    )
    wait_until_live(serving.pid)
    for name in ("one", "two", "ring"):
        assert rules.command("--fire", name).returncode == 0
    rules.wait_log("rule ring:", "its flight recorder does not run just now")
    (one,) = rules.recorded("one")
    (two,) = rules.recorded("two")
    assert report(me, one)["handle"]["calls"] and two.exists()
    info = json.loads(me.iprobe("info", "--json", one / "trace").stdout)
    assert (
        info["end"] == "duration over" and info["duration_ns"] > 5e8
    ), info  # for: 1s; a busy machine may have held its threads up
    wait_until_live(serving.pid)  # it is watched again
    assert "tried again" not in rules.log()


@pytest.mark.parametrize("how", ["histogram", "flight-recorder"])
def test_a_watch_makes_way(rules, root, user, targets, program, me, how):
    """Whoever may trace a process records it while a rule watches it, with all that a recording of
    its own may have; the watch begins again behind it.
    """
    watched = "{latency: {functions: handle, p99: '> 100s'}}"
    rules.start(
        rule(watched)
        if how == "histogram"
        else rule("request", do="{snapshot: {functions: handle, memory: 1M}}")
    )
    for actor in (user, root) if how == "histogram" else (user,):
        target = targets.start(actor, [program], preload=False)
        wait_until_live(target.pid)
        out = actor.dir() / "own"
        done = actor.iprobe("attach", "--dry-run", "-f", "handle", target.pid)
        assert done.returncode == 0 and "nothing was changed" in done.stdout, repr(done)
        done = actor.iprobe(
            *("attach", "-f", "handle", "--duration", "500ms", "--json", "-o", out, target.pid)
        )
        assert done.returncode == 0 and done.summary()["events"] > 0, repr(done)
        assert "watches it for a rule of iprobed: the watch ends for this recording" in done.stderr
        assert set(report(me, out.parent, "own")) == {"handle"}
        rules.wait_log("is watched no longer: another iprobe has attached")
        wait_until_live(target.pid)
        # all functions, not what the watch measures
        done = actor.iprobe("top", "--batch", "--json", "-n", 1, target.pid)
        assert done.returncode == 0, repr(done)
        shown = json.loads(done.stdout.splitlines()[0])
        assert not shown["joined"] and len(shown["functions"]) > 1, shown
        wait_until_live(target.pid)
        target.say("")
        end(target.proc)


@pytest.mark.parametrize(
    "options", [("--payload", "count"), ("--payload", "hist"), ("--depth", "3")]
)
def test_what_needs_more_than_the_watch_had(me, targets, program, options):
    """The watch gives back at its end what the process has mapped of the ring memory. What comes
    instead of it has that mapped anew: else its hooks would run into what is not there.
    """
    target = targets.start(me, [program], preload=False)
    for _ in range(2):
        watch = me.start_iprobe(
            *("attach", "-q", "--yield", "--until", "max>100s:handle", "-o", me.dir() / "w"),
            target.pid,
        )
        wait_until_live(target.pid)
        done = me.iprobe(
            *("attach", "-f", "handle", "--duration", "500ms", "--json", "-o", me.dir() / "t"),
            *(*options, target.pid),
        )
        assert done.returncode == 0 and target.alive(), repr(done)
        assert "the watch ends for this recording" in done.stderr, repr(done)
        counts = "--payload" in options
        summary = done.summary()
        assert (summary["events"] == 0) == counts, summary
        assert (summary.get("counted", 0) > 0) == counts, summary
        assert last_words(watch).returncode == 0
    target.say("")
    end(target.proc)


def test_what_does_not_make_way_names_the_way(me, user, targets, program):
    """A session that is no watch stays; the refusal tells the command that ends it."""
    target = targets.start(user, [program], preload=False)
    session = me.start_iprobe("attach", "-q", "-f", "handle", "-o", me.dir() / "t", target.pid)
    wait_until_live(target.pid)
    done = me.iprobe("attach", "--duration", "1s", target.pid)
    assert f"end it first (iprobe detach {target.pid})" in one_line(done)
    if me.is_root:
        done = user.iprobe("attach", "-f", "handle", target.pid)
        assert "iprobe detach ends it" in one_line(done)
    assert user.iprobe("detach", target.pid).returncode == 0
    assert last_words(session).returncode == 0
