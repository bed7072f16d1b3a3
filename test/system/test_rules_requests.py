# SPDX-License-Identifier: Apache-2.0
"""Requests for rules, and what is said of rules and processes."""

import os
import shutil
import signal
import time

from iptest import memory
from iptest.actor import one_line
from iptest.rules import (  # noqa: F401
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


def test_request_for_what_has_just_started(rules, targets, me, program):
    """Processes are looked at from time to time; a request does not wait for that."""
    rules.start(rule("request", more="for: 100ms"))
    for n in range(1, 4):
        target = targets.start(me, [program], preload=False)
        done = rules.command("--fire", f"r:{target.pid}")
        assert done.returncode == 0, repr(done)
        rules.recorded("r", n)


def test_request(rules, serving, me):
    rules.start(
        rule("request", more="for: 100ms\n    enabled: yes")
        + "  off:\n    match: {exe: PROGRAM}\n    when: request\n    do: trace\n    enabled: no\n"
    )
    memory.wait_for(
        "the process is not found", lambda: rules.listed().get("r", {}).get("processes"), WAIT
    )
    assert "no rule 'off'" in one_line(rules.command("--fire", "off"))
    assert "no rule 'none'" in one_line(rules.command("--fire", "none"))
    assert "is not for pid 1" in one_line(rules.command("--fire", "r:1"))
    assert "iprobed: " in one_line(rules.command("--fire", "r:x"))
    recorded_functions(rules, me, f"r:{serving.pid}", {"handle"})
    fired = rules.listed()["r"]["fired"]
    text = rules.command("--rules").stdout
    assert (
        fired
        and text.startswith(f"r: trace, fired {fired} time{'' if fired == 1 else 's'}")
        and f"  pid {serving.pid}  nothing  " in text
    )
    assert "off" not in text


def test_a_rule_that_waits_for_another(rules, serving, me):
    """A flight recorder and a latency do not go together: --check, --rules and the request say so,
    and which rule has the process.
    """
    text = (
        "rules:\n  first:\n    match: {exe: PROGRAM}\n    do: trace\n"
        "    when: {latency: {functions: handle, p99: '> 100s'}}\n"
        "  ring: {match: {exe: PROGRAM}, when: request, do: {snapshot: handle}}\n"
    )
    rules.start(text)
    rules.wait_log("rule ring: ", "waits: the process has one session", "the rule 'first'")
    rules.wait_log("rule first: ", "is watched")
    listed = rules.listed()
    assert [p["waits_for"] for p in listed["ring"]["processes"]] == ["first"], listed
    assert "waits_for" not in listed["first"]["processes"][0], listed
    text = rules.command("--rules").stdout
    assert text.count("waits: the rule 'first' watches the process") == 1, text
    assert rules.command("--fire", "ring").returncode == 0
    rules.wait_log("rule ring: ", "as the rule 'first' watches the process: no snapshot")
    check = ("--check", "--probes-d", rules.files, "--policy", rules.path / "none")
    done = rules.command(*check)
    assert done.returncode == 0, repr(done)
    said = [line for line in done.stderr.splitlines() if "rule ring: waits" in line]
    assert len(said) == 1 and f"the rule 'first' watches pid {serving.pid}: " in said[0], repr(done)
    assert "rule first: waits" not in done.stderr, repr(done)


def test_what_is_met_when_another_rule_takes_the_process(rules, serving):
    """The session that watched is ended then; what it met by its last look is the reason."""
    rules.start(
        "rules:\n  slow:\n    match: {exe: PROGRAM}\n    do: {hist: handle}\n    for: 100ms\n"
        "    when: {latency: {functions: handle, max: '> 400ms', over: 3s}}\n"
        "  now: {match: {exe: PROGRAM}, when: request, do: {hist: handle}, for: 100ms}\n"
    )
    rules.wait_log("is watched: max>400ms")
    wait_until_live(serving.pid)
    time.sleep(3.5)  # it judges what it has seen for so long
    os.kill(serving.pid, signal.SIGHUP)  # one call of half a second
    time.sleep(0.6)
    assert rules.command("--fire", "now").returncode == 0
    rules.wait_log("fires: max of handle was ")
    assert "fires: interrupted" not in rules.log()


def test_names_that_terminals_obey(rules, targets, me, program):
    """And that do not fit into one packet."""
    name = rules.path / "a\x1b]0;title\x07\nok\u00e4"
    shutil.copy(program, name)
    t = targets.start(me, [name], preload=False)
    long = "r" * 60
    rules.start(
        "rules:\n"
        + "".join(
            f"  {long}{i}: {{match: {{exe: '{rules.path}/a*'}}, when: request, do: trace}}\n"
            for i in range(1000)
        )
    )
    memory.wait_for(
        "the process is not found", lambda: rules.listed()[f"{long}999"]["processes"], WAIT
    )
    assert len(rules.listed()) == 1000 and rules.listed()[f"{long}1"]["processes"][0][
        "program"
    ] == str(name)
    text = rules.command("--rules").stdout
    assert (
        f"  pid {t.pid}  nothing  {rules.path}/a\\x1b]0;title\\x07\\x0aok\\xc3\\xa4\n" in text
        and len(text) > 2**17
    )
    assert text.isascii() and min(set(text) - {"\n"}) >= " "


def test_requests_are_for_the_same_user(root, user, serving, program):
    rules = Rules(root, root.dir(), program).start(rule("request"))
    rules.wait_log("1 carried out")
    rules.actor = user
    assert "Permission denied" in one_line(rules.command("--fire", "r"))
    assert rules.daemon.end() == 0


def test_usage(me):
    for args, words in (
        (["--json"], "--json goes with --rules"),
        (["--fire", "a", "--rules"], "--fire or --rules"),
        (["--rule", "a", "--no-rules"], "--rule or --no-rules"),
    ):
        done = me.run([me.builddir / "cli" / "iprobed", *args])
        assert done.returncode == 2 and words in done.stderr, repr(done)
