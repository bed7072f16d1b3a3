# SPDX-License-Identifier: Apache-2.0
"""Rules of probes.d that record a whole service when one of its processes meets the condition."""

import json
import os
import re
import signal
import time

import pytest

from iptest import memory
from iptest.actor import end
from iptest.rules import WAIT, Rules, pytestmark, rule  # noqa: F401
from iptest.server import Server
from test_service import calls, listed, member

SERVICE = "record: service"


@pytest.fixture
def program(programs):
    return programs.simple("prefork")


@pytest.fixture
def rules(me, program):
    made = Rules(me, me.dir(), program)
    yield made
    if made.daemon.proc:
        assert made.daemon.end() == 0, made.log()
        assert not [p.name for p in made.daemon.state.iterdir() if p.name != "sock"], made.log()


@pytest.fixture
def server(me, programs, targets):
    return Server(me, programs, targets, workers=2)


def doing(rules, name="r"):
    return {p["pid"]: p["doing"] for p in rules.listed()[name]["processes"]}


def wait_until_doing(rules, what, pids, name="r"):
    memory.wait_for(
        f"not all do {what}",
        lambda: {pid: d for pid, d in doing(rules, name).items() if d == what}.keys() >= set(pids),
        WAIT,
    )


def processes_of(path):
    return set(listed(path / "trace"))


def test_one_worker_is_slow_and_all_are_recorded(rules, server, me):
    """One episode, one directory, one message; watches give way, and come back; a worker that is
    forked meanwhile is recorded, too.
    """
    rules.start(
        rule(
            "{latency: {functions: prefork_answer, calls: '> 100', over: 1s}}",
            more=f"for: 4s\n    every: 1h\n    {SERVICE}",
        )
    )
    for pid in server.everybody():
        memory.wait_until_live(pid)
    first = server.everybody()
    server.go(300)
    rules.wait_log("fires: prefork_answer was called ")
    wait_until_doing(rules, "act", first)
    for pid in first:
        memory.wait_until_live(pid)
    server.fork()
    server.go(50)
    (path,) = rules.recorded("r")
    wait_until_doing(rules, "nothing", server.everybody())  # every: 1h
    trace = path / "trace"
    assert set(listed(trace)) >= set(first), rules.log()
    # where a child is followed its calls are in its parent's trace
    assert sum(calls(me, member(trace, pid)) for pid in listed(trace)) == 150, rules.log()
    assert [calls(me, member(trace, pid)) for pid in first[1:]] == [50, 50]
    log = rules.log()
    assert log.count("fires: ") == 1 and log.count("has recorded: ") == 1, log
    assert re.search(r"has recorded: .* of \d processes, lost 0, stopped for ", log), log
    assert "tried again" not in log and "nothing is recorded" not in log, log
    why = (path / "why.txt").read_text()
    assert sorted(map(int, re.search(r"^recorded (.*)$", why, re.M)[1].split())) == sorted(
        first
    ), why
    server.finish()


def test_requests_are_for_the_service(rules, server, me, targets, program):
    """One request records all of them once, another service by itself, and no program that a
    member executes.
    """
    rules.start(rule("request", more=f"for: 1s\n    {SERVICE}"))
    wait_until_doing(rules, "nothing", server.everybody())
    done = rules.command("--fire", f"r:{server.workers[0]}")
    assert done.stdout == "the rule 'r' fires for 1 service\n", repr(done)
    wait_until_doing(rules, "act", server.everybody())
    assert "at work on it already" in rules.command("--fire", f"r:{server.pid}").stderr
    (path,) = rules.recorded("r")
    assert set(processes_of(path)) == set(server.everybody())
    # the next one, with a worker that has ended since it was found
    os.kill(server.workers.pop(), signal.SIGKILL)
    assert rules.command("--fire", "r").stdout == "the rule 'r' fires for 1 service\n"
    path = rules.recorded("r", 2)[1]
    assert set(processes_of(path)) >= {server.pid, server.workers[0]}, rules.log()
    memory.wait_for(
        "sites stay live",
        lambda: not any(memory.text_differences(pid) for pid in server.everybody()),
        WAIT,
    )


def test_other_users_processes_are_no_members(root, user, programs, targets, program):
    """Of the same program, in no unit: each user's are a service of their own; workers that have
    become another user belong to their parent's.
    """
    rules = Rules(root, root.dir(), program)
    ours, theirs = (Server(actor, programs, targets) for actor in (root, user))
    ours.fork()
    assert ours.say(f"as {user.uid}") == "done"
    ours.fork()
    theirs.fork()
    rules.start(rule("request", more=f"for: 500ms\n    {SERVICE}"))
    wait_until_doing(rules, "nothing", [*ours.everybody(), *theirs.everybody()])
    assert rules.command("--fire", f"r:{theirs.workers[0]}").returncode == 0
    (path,) = rules.recorded("r")
    assert set(processes_of(path)) == set(theirs.everybody())
    assert rules.command("--fire", f"r:{ours.workers[1]}").returncode == 0
    path = rules.recorded("r", 2)[1]
    assert set(processes_of(path)) == set(ours.everybody())
    assert rules.command("--fire", "r").stdout == "the rule 'r' fires for 2 services\n"
    rules.recorded("r", 4)
    assert rules.daemon.end() == 0
    ours.finish()
    theirs.finish()


@pytest.mark.parametrize("do", ["hist", "fperf", "snapshot"])
def test_every_action(rules, server, me, do):
    action = {
        "hist": "{hist: prefork_tick}",
        "fperf": "{fperf: clock}",
        "snapshot": "{snapshot: {functions: prefork_tick, memory: 1M}}",
    }[do]
    rules.start(
        rule("request", do=action, more=f"for: 1s\n    {SERVICE}")
        + "profiles:\n  clock: {events: ['perf::TASK-CLOCK'], functions: prefork_tick}\n"
    )
    wait_until_doing(rules, "watch" if do == "snapshot" else "nothing", server.everybody())
    if do == "snapshot":
        time.sleep(0.3)  # there is something in the rings
    assert rules.command("--fire", "r").stdout == "the rule 'r' fires for 1 service\n"
    (path,) = rules.recorded("r")
    workers = set(server.workers)
    if do == "hist":
        done = me.iprobe("hist", "--json", path / "trace")
        assert done.returncode == 0 and "prefork_tick" in done.stdout, repr(done)
        assert int(re.search(r"and ([\d.]+).* calls counted", rules.log())[1][0]) > 0
    elif do == "fperf":
        found = json.loads((path / "fperf.json").read_text())["processes"]
        assert {p["pid"] for p in found} >= workers, found
    else:
        assert set(processes_of(path)) >= workers
        wait_until_doing(rules, "watch", server.everybody())
    rules.daemon.end()
    server.finish()


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_cpu_of_all_together(rules, me, targets, programs):
    """None of the three takes as much by itself."""
    serving = programs.simple("serving", placement="fentry")
    several = [targets.start(me, ["taskset", "-c", "0", serving], preload=False) for _ in range(3)]
    for t in several:
        os.kill(t.pid, signal.SIGUSR2)
    before, began = [cpu_s(t.pid) for t in several], time.monotonic()
    time.sleep(1.5)
    shares = [
        100 * (cpu_s(t.pid) - b) / (time.monotonic() - began) for t, b in zip(several, before)
    ]
    limit = (sum(shares) / 2 + max(shares)) / 2
    rules.program = serving
    rules.start(
        rule(
            f"{{cpu: '> {limit:.0f}% for 500ms'}}",
            more=f"for: 200ms\n    at_most: 1 per 1h\n    {SERVICE}",
        )
    )
    line = rules.wait_log("fires: its service takes ")
    assert float(line.split("takes ")[1].split()[0]) >= limit - 1
    (path,) = rules.recorded("r")
    assert processes_of(path) == {t.pid for t in several}
    for t in several:
        end(t.proc)


def test_a_member_that_another_rule_records_is_left_out(rules, server, me):
    rules.start(
        f"rules:\n  one: {{match: {{exe: PROGRAM}}, when: request, do: trace, for: 4s}}\n"
        f"  all: {{match: {{exe: PROGRAM}}, when: request, do: trace, for: 500ms, {SERVICE}}}\n"
    )
    wait_until_doing(rules, "nothing", server.everybody(), "all")
    assert rules.command("--fire", f"one:{server.workers[0]}").returncode == 0
    wait_until_doing(rules, "act", [server.workers[0]], "one")
    assert rules.command("--fire", f"all:{server.workers[1]}").returncode == 0
    (path,) = rules.recorded("all")
    assert set(processes_of(path)) == {server.pid, server.workers[1]}
    assert "; 1 of the service left out" in (path / "why.txt").read_text()
    rules.recorded("one")


@pytest.mark.parametrize("who", ["session", "everything"])
def test_kills(rules, server, who):
    """All members are put back, by this iprobed or by the next."""
    text = rule("request", more=f"for: 1h\n    {SERVICE}")
    rules.start(text)
    wait_until_doing(rules, "nothing", server.everybody())
    assert rules.command("--fire", "r").returncode == 0
    for pid in server.everybody():
        memory.wait_until_live(pid)
    mine = rules.rules_pid()
    with open(f"/proc/{mine}/task/{mine}/children", encoding="ascii") as file:
        session = next(
            int(pid)
            for pid in file.read().split()
            if b"--children" in open(f"/proc/{pid}/cmdline", "rb").read()
        )
    with open(f"/proc/{session}/task/{session}/children", encoding="ascii") as file:
        workers = [int(pid) for pid in file.read().split()]
    assert len(workers) == 3, workers
    # Who stands still does nothing about the death of another, and is there until it is killed. The
    # session must not be stopped where iprobed runs: it kills such a one itself.
    stopped = workers
    if who == "everything":
        stopped = [rules.daemon.proc.pid, mine, session, *workers]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
        memory.wait_for("not stopped", lambda pid=pid: memory.status_field(pid, "State")[0] == "T")
    # children first: the kernel continues what is stopped in a process group that becomes orphaned
    for pid in reversed(stopped) if who == "everything" else [session, *workers]:
        os.kill(pid, signal.SIGKILL)
    if who == "everything":
        rules.daemon.proc.wait()
        rules.start(text)
    memory.wait_for(
        "sites stay live",
        lambda: not any(memory.text_differences(pid) for pid in server.everybody()),
        WAIT,
    )
    if who == "session":
        rules.wait_log("nothing is recorded: its session was killed")
    wait_until_doing(rules, "nothing", server.everybody())
    server.finish()
