# SPDX-License-Identifier: Apache-2.0
"""Files of rules: read again, of others, shipped; and files that rules write."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import time

from iptest import memory
from iptest.actor import one_line
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

SHIPPED = pathlib.Path(__file__).resolve().parents[2] / "probes.d"


def test_rules_are_read_again(rules, serving):
    rules.start(rule(LATENCY, name="old"))
    wait_until_live(serving.pid)
    rules.write("rules: {a: b}\n")
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    rules.wait_log("all stays as it was: ", "rules.yaml:1:12: a rule is written as")
    assert not idle(serving.pid) and set(rules.listed()) == {"old"}
    rules.write(rule("request", name="new"))
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    memory.wait_for(
        "the new rule is not there", lambda: rules.log().count("1 carried out") == 2, WAIT
    )
    assert set(rules.listed()) == {"new"}
    wait_until_idle(serving.pid)


BARE = """rules:
  r:
    match: {exe: PROGRAM}
    when: {memory: '> 90 for 5', latency: {functions: handle, max: '> 20', over: 2}}
    do: {trace: {memory: 2000000}}
    for: 3
    every: 10
    at_most: 3 per 20
    disk: 5000000
  good:
    match: {exe: PROGRAM}
    when: {memory: '> 90G for 5s', latency: {functions: handle, calls: '> 20', over: 2s}}
    do: {trace: {memory: 2M}}
    for: 3s
    every: 10s
    at_most: 3 per 20m
    processes: 2
"""
NOTES = {
    "4:20": "the level of memory is 90 bytes",
    "4:20 ": "how long is 5s",
    "4:68": "max: the limit is 20s",
    "4:82": "over is 2s",
    "5:26": "memory is 2000000 bytes",
    "6:10": "for is 3s",
    "7:12": "every is 10s",
    "8:14": "the time of at_most is 20s",
    "9:11": "disk is 5000000 bytes",
}


def test_numbers_without_a_unit_are_told(rules, serving, me):
    """By --check and in the log, with their places; others are not."""
    rules.start(BARE)
    rules.wait_log("2 carried out")
    check = me.run([me.builddir / "cli" / "iprobed", "--check", "--probes-d", rules.files])
    assert check.returncode == 0, repr(check)
    place = f"{rules.files}/rules.yaml"
    for at, what in NOTES.items():
        line = f"{place}:{at.strip()}: {what}, since it has no unit ("
        assert f"iprobed: {line}" in check.stderr, (line, check.stderr)
        rules.wait_log(f"iprobed: rules: {line}")
    for text in (check.stderr, rules.log()):
        assert text.count("since it has no unit") == len(NOTES), text


UNDERSTOOD = """rules:
  a:
    match: {exe: PROGRAM, user: no-such-user-here}
    when: {latency: {functions: handle, p99: '> 10ms', over: 2s}, cpu: '> 90% for 5s'}
    do: {snapshot: {functions: 'look_*', memory: 2M, args: 'look_up(key)'}}
    for: 200ms
    every: 10m
    at_most: 3 per 1h
  b:
    match: {exe: PROGRAM}
    when: {latency: {functions: [handle, parse], calls: '> 20'}, memory: '> 2G', signal: USR1}
    do: hist
    record: service
    overhead: 1%
    processes: 1
  c: {match: {exe: PROGRAM, user: no-such-user-here}, when: start, do: trace, enabled: false}
  d:
    match: {exe: PROGRAM, user: no-such-user-here}
    when: {latency: {functions: handle, max: '> 1s'}}
    do: snapshot
    enabled: false
"""


def test_a_program_that_is_started_through_a_link(rules, targets, programs, me):
    """exe is the file that runs: whoever names the link is told which that is."""
    link = me.dir() / "started-as"
    link.symlink_to(programs.simple("standing", placement="fentry"))
    target = targets.start(me, [link, "plain"])
    rules.write("rules:\n  a: {match: {exe: started-as}, when: start, do: trace}\n")
    check = me.run([me.builddir / "cli" / "iprobed", "--check", "--probes-d", rules.files])
    assert check.returncode == 0 and "    no process that runs matches\n" in check.stdout
    said = f"    pid {target.pid} is called so, and runs {link.resolve()}: "
    assert said in check.stdout, repr(check)


def test_rules_are_told_as_understood(rules, serving, me):
    """And the processes that they are for now; users that do not exist are told."""
    rules.write(UNDERSTOOD)
    check = me.run([me.builddir / "cli" / "iprobed", "--check", "--probes-d", rules.files])
    assert check.returncode == 0, repr(check)
    for text in (
        "  rule a: snapshot\n"
        "    when its CPU time is above 90% for 5s, or p99 of handle is above 10ms in 2s: a "
        "snapshot of the flight recorder of look_* and handle, args look_up(key), memory 2.00 MiB\n"
        "    for 200ms after the moment, at most every 10m, at most 3 per 1h, disk 1.00 GiB, at "
        "most 16 processes\n"
        "    no process that runs matches\n",
        "    when its memory is above 2.00 GiB, or handle,parse is called more than 20 times in "
        "1s, or iprobed gets signal USR1: histograms of all functions\n"
        "    for 1s, all processes of the service, at most 10 per 1h, overhead 1%, disk 1.00 GiB, "
        "at most 1 process\n"
        f"    matches pid {serving.pid} ({rules.program})\n",
        "  rule c (not enabled): trace\n    when a process starts: a trace of all functions\n",
        "a snapshot of the flight recorder of all functions\n",
    ):
        assert text.replace(".00 ", ".0 ") in check.stdout, (text, check.stdout)
    user, args = check.stderr.splitlines()
    where = f"iprobed: {rules.files}/rules.yaml:2:3: rule a: "
    assert user == where + "there is no user 'no-such-user-here'"
    assert args.startswith(where) and "there is no parameter 'key'" in args


def test_relative_paths(rules, serving, me):
    """Of all that is given: workers have working directories of their own."""
    rules.write(rule(LATENCY) + rule("request", name="now").split("\n", 1)[1])
    daemon = rules.daemon
    daemon.start(
        *("--probes-d", rules.files.name, "--traces", rules.traces.name),
        *("--state", daemon.state.name, "--socket", daemon.socket.name),
        before=["sh", "-c", f'cd {rules.path}; exec "$@"', "sh"],
    )
    rules.wait_log("2 carried out")
    wait_until_live(serving.pid)
    memory.wait_for("the process is not found", lambda: rules.listed()["now"]["processes"], WAIT)
    assert rules.command("--fire", "now").returncode == 0
    (path,) = rules.recorded("now")
    assert path.parent.parent == rules.traces and "handle" in report(me, path)


def test_files_of_others(rules, serving):
    rules.write(rule("request"))
    (rules.files / "rules.yaml").chmod(0o666)
    rules.start()
    rules.wait_log(
        "none are carried out: ", "rules.yaml can be written by others", "rules are made of it"
    )
    assert "nobody listens" in one_line(rules.command("--rules"))


def test_files_of_others_that_rules_use(rules, serving):
    rules.write(rule("request", do="{trace: '@some'}"))
    (rules.files / "some.yaml").write_text("selections: {some: handle}\n")
    (rules.files / "some.yaml").chmod(0o664)
    rules.start()
    rules.wait_log(
        "none are carried out: ", "some.yaml can be written by others", "rules are made of it"
    )


def test_an_error_changes_nothing(rules, serving):
    """Also where the file can be read."""
    rules.start(rule(LATENCY), "--rule", "r")
    wait_until_live(serving.pid)
    rules.write(rule("request", name="other"))
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    rules.wait_log("all stays as it was: no rule 'r' in ")
    rules.write(rule("request"))
    (rules.files / "rules.yaml").chmod(0o666)
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    rules.wait_log("all stays as it was: ", "rules.yaml can be written by others")
    assert rules.listed()["r"]["processes"] and rules.carried_out() == 1 and not idle(serving.pid)


# What is shipped


def test_shipped_rules(rules, serving, me, program):
    """As they are: those by request do what they say; one of the others is carried out by its
    name.
    """
    for name in ("examples.yaml", "rules.yaml"):
        shutil.copy(SHIPPED / name, rules.files / name)
        (rules.files / name).chmod(0o644)
    rules.files.chmod(0o755)
    check = me.run(
        [
            me.builddir / "cli" / "iprobed",
            "--check",
            "--probes-d",
            rules.files,
            "--policy",
            rules.path / "none",
        ]
    )
    assert (
        check.returncode == 0
        and "rule look: " in check.stdout
        and "rule slow-redis (not enabled): " in check.stdout
    ), repr(check)
    rules.start()
    memory.wait_for(
        "the process is not found",
        lambda: serving.pid
        in {p["pid"] for p in rules.listed().get("look", {"processes": []})["processes"]},
        WAIT,
    )
    assert set(rules.listed()) == {"look", "where"}
    assert idle(serving.pid)  # before somebody asks
    recorded_functions(rules, me, f"look:{serving.pid}", {"handle", "parse", "look_up", "reply"})


def test_shipped_rules_by_name(rules, targets, me, program):
    """What is not enabled: the program has the name that the rule is for."""
    for name in ("examples.yaml", "rules.yaml"):
        shutil.copy(SHIPPED / name, rules.files / name)
        (rules.files / name).chmod(0o644)
    rules.files.chmod(0o755)
    (rules.path / "my-service").symlink_to(program)
    shutil.copy(program, rules.path / "copy")
    os.rename(rules.path / "copy", rules.path / "my-service")
    rules.start(None, "--rule", "starting")
    rules.wait_log("1 carried out")
    memory.wait_for("no look at all processes", lambda: rules.listed(), WAIT)
    time.sleep(1)
    t = targets.start(me, [rules.path / "my-service"], preload=False)
    assert f" pid {t.pid} " in rules.wait_log("rule starting:", "fires: it has started")
    (path,) = rules.recorded("starting")
    assert "handle" in report(me, path)


def test_nobody_else_can_read(rules, serving, me):
    """What rules keep, their notes, lock and socket: while a session goes on and afterwards,
    with a umask that forbids nothing.
    """
    text = (
        "profiles: {p: {events: page-faults, functions: handle}}\n"
        + rule("request", more="for: 2s")
        + "".join(
            r.split("\n", 1)[1]
            for r in (
                rule("request", do="{fperf: p}", name="f", more="for: 1s"),
                rule(LATENCY, name="w"),
            )
        )
    )
    rules.write(text)
    rules.daemon.start(
        "--probes-d",
        rules.files,
        "--traces",
        rules.traces,
        before=["sh", "-c", 'umask 0; exec "$@"', "sh"],
    )
    memory.wait_for("the rules are not taken", rules.carried_out, WAIT)
    assert "3 carried out" in rules.log()
    seen = set()

    def check():
        for top in (rules.traces, rules.daemon.state):
            for path in [rules.traces, *top.rglob("*")]:
                with contextlib.suppress(FileNotFoundError):  # it has just gone
                    st = path.lstat()
                    if (
                        path != rules.daemon.state / "sock"
                    ):  # which members of the group may connect to
                        assert not st.st_mode & 0o077, (path, oct(st.st_mode))
                    seen.add(re.sub(r"[0-9T.Z-]{4,}", "-", path.name))

    def done(name):
        check()
        return any(
            f"rule {name}: " in line and "has recorded" in line for line in rules.log().splitlines()
        )

    wait_until_live(serving.pid)
    for name in ("r", "f"):
        assert rules.command("--fire", name).returncode == 0
        memory.wait_for(f"{name} records nothing", lambda name=name: done(name), WAIT)
    assert {
        "why.txt",
        "trace",
        "fperf.json",
        "rules.lock",
        "rules.sock",
        "r",
        "f",
        "metadata",
    } <= seen, seen
    assert {"rule", "watch"} <= {name.split("-")[0] for name in seen}, seen
