# SPDX-License-Identifier: Apache-2.0
"""
fperf takes probes away and brings them back without a stop where a thread of the target waits:
pages of which functions stay live are switched under threads that run them and check what they
compute.
"""

import json
import os
import random
import re
import signal
import time

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.fperf import by_name, count_around_the_work, fperf_path, start_fperf
from test_nostop import check_and_restore, layout

ROTATING = ("--budget", "4%", "--interval", "20ms")  # some of steady's functions stay live
TIGHT = ("--budget", "0.2%", "--interval", "20ms")


def settled(target):
    """The detached target's text and mappings are untouched, and its threads run on."""
    target.wait_for_progress()
    memory.assert_untouched(target.pid)


def rotate(actor, target, *options):
    """What fperf says of a run in which it changed probes without a stop: on a busy machine it
    may take longer to come to that.
    """
    for duration in ("2s", "6s", "15s"):
        done = actor.run(
            [
                fperf_path(actor),
                "--json",
                *ROTATING,
                *options,
                "--duration",
                duration,
                "-p",
                target.pid,
            ]
        )
        assert done.returncode == 0, repr(done)
        result = json.loads(done.stdout)
        if result["changes_without_stop"]:
            break
    assert result["changes_without_stop"] > 0, (
        done.stderr,
        {k: v for k, v in result.items() if k != "functions"},
    )
    assert result["changes_without_stop"] <= result["changes"]
    assert f"{result['changes_without_stop']} of them without a stop" in done.stderr
    return result


def test_threads_that_check_themselves(actor, programs, targets):
    program = programs.simple("steady")
    target = targets.steady(actor, program, "-t", "4", "-x")
    before = layout(target, program)
    result = rotate(actor, target)
    assert result["longest_stop_us"] > 0, "it went live by one"
    settled(target)
    assert layout(target, program) == before
    target.finish()


def test_under_signals(me, programs, targets):
    """A handler every millisecond, of checking functions as well."""
    target = targets.steady(me, programs.simple("steady"), "-t", "3", "-i")
    rotate(me, target)
    settled(target)
    target.finish()


def test_exclusive(me, programs, targets):
    """A call inside of a sample that nobody has seen would be taken for the outer one's own:
    samples are cut instead.
    """
    target = targets.steady(me, programs.simple("steady"), "-t", "3", "-x")
    rotate(me, target, "--exclusive")
    settled(target)
    target.finish()


def test_calls_and_counters_are_right(me, programs, targets):
    """hot() comes and goes; the others stay, on the same page, and lose what they call in some ten
    microseconds of each change. The first thread waits for the others.
    """
    program = programs.simple("paging")
    stay = {"none": 0, "three": 3, "eleven": 11, "outer": 6}  # and the pages of a call
    for ms in (2000, 6000, 15000):
        result, own = count_around_the_work(
            me, targets, program, ["-t", 3, "-s", ms, "-l"], ["--budget", "3%"]
        )
        functions = by_name(result)
        # where others have the CPUs for long, the budget of a short run goes to three() as well
        if result["changes_without_stop"] and all(functions[f]["live"] == 1 for f in stay):
            break
    assert result["changes_without_stop"] > 0, {k: v for k, v in result.items() if k != "functions"}
    for name, pages in stay.items():
        f = functions[name]
        assert f["live"] == 1, f
        # what a change has missed at most, a call a thread that runs, and what is said of it
        assert abs(f["calls"] - own[name][0]) <= f["calls_ci95"] + 3 * result["changes"], (
            f,
            own[name],
        )
        if f["samples"] > 1:
            counter = f["counters"]["perf::PAGE-FAULTS"]
            # one that was open in the gap has been cut: none ends with another's exit
            assert abs(counter["per_call"] - pages) <= counter["ci95"] + 1e-9 + 2 / f["samples"], f
    assert functions["hot"]["counters"]["perf::PAGE-FAULTS"]["per_call"] < 0.5, functions["hot"]


def test_nobody_to_borrow(me, programs, targets):
    """A program of one thread that never waits is stopped, as before, and works on."""
    target = targets.start(me, [programs.simple("waits"), "busy"])
    for duration in ("1s", "4s", "12s"):
        done = me.run([fperf_path(me), "--json", *TIGHT, "--duration", duration, "-p", target.pid])
        assert done.returncode == 0, repr(done)
        result = json.loads(done.stdout)
        if result["changes"]:
            break
    assert result["changes"] > 0 and result["changes_without_stop"] == 0, (done.stderr, result)
    assert result["longest_gap_us"] == 0
    memory.assert_untouched(target.pid)
    os.kill(target.pid, signal.SIGALRM)
    assert actors.last_words(target.proc).stdout == "good\n"


def test_stops_if_asked_to(me, programs, targets):
    target = targets.steady(me, programs.simple("steady"), "-t", "3")
    for duration in ("1s", "4s", "12s"):
        done = me.run(
            [
                fperf_path(me),
                "--json",
                *ROTATING,
                "--stop",
                "--duration",
                duration,
                "-p",
                target.pid,
            ]
        )
        assert done.returncode == 0, repr(done)
        result = json.loads(done.stdout)
        if result["changes"]:
            break
    assert result["changes"] > 0 and result["changes_without_stop"] == 0, (done.stderr, result)
    settled(target)
    target.finish()


def test_somebody_elses_byte(me, programs, targets):
    """A breakpoint between the sites, in a page that would be switched: it is kept, and the
    process is stopped instead.
    """
    program = programs.simple("paging")
    target = targets.start(me, [program, "-t", 2, "-s", 1500, "-l"])
    text = next(m for m in memory.mappings(target.pid) if m.path == str(program) and "x" in m.perms)
    page = memory.read_memory(target.pid, text.start, text.end - text.start)
    # behind the code of the last function there are zeros
    address = text.start + len(page.rstrip(b"\0")) + 16
    assert address < text.end and text.end - text.start <= 8192, "one piece holds all of it"
    memory.write_memory(target.pid, address, b"\xcc")
    proc = start_fperf(me, target, *TIGHT)
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0, repr(said)
    result = json.loads(said.stdout)
    assert result["changes"] > 0 and result["changes_without_stop"] == 0, said.stderr
    assert memory.read_memory(target.pid, address, 1) == b"\xcc"
    memory.write_memory(target.pid, address, b"\0")
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def kills():
    return 60 if os.environ.get("IPROBE_TEST_FULL") == "1" else 4


def test_killed_at_any_moment(me, programs, targets):
    """Also in the midst of switching pages: the target runs on, and detach brings its text and
    mappings back.
    """
    rng = random.Random(7)
    program = programs.simple("steady")
    target = targets.steady(me, program, "-t", "3", "-x")
    before = layout(target, program)
    for i in range(kills()):
        proc = me.popen([fperf_path(me), "-q", *ROTATING, "-p", target.pid])
        time.sleep(rng.uniform(0.1, 0.8))
        proc.kill()
        actors.end(proc)
        check_and_restore(
            me, target, program, before, f"kill {i}", *(["--no-stop"] if i % 2 else [])
        )
    target.finish()


def requests(actor, target, *inject):
    """fperf's requests to the target's threads, by strace, in their order."""
    log = actor.dir() / "strace"
    done = actor.run(
        [
            "strace",
            "-o",
            log,
            "--trace=ptrace,pwrite64",
            *inject,
            fperf_path(actor),
            "-q",
            *ROTATING,
            "--duration",
            "1500ms",
            "-p",
            target.pid,
        ]
    )
    assert inject or done.returncode == 0, repr(done)
    lines = [
        line
        for line in log.read_text(errors="replace").splitlines()
        if re.search(r"\b(ptrace|pwrite64)\(", line)
    ]
    return [re.search(r"\b(ptrace|pwrite64)\((\w+)", line).groups() for line in lines]


def test_killed_at_steps_of_a_change(me, programs, targets):
    """At the requests by which a thread is borrowed, one after the other, of changes behind the
    first stop.
    """
    rng = random.Random(8)
    program = programs.simple("steady")
    target = targets.steady(me, program, "-t", "3", "-x")
    before = layout(target, program)
    for _ in range(5):  # as many changes as the machine allows in that time
        asked = requests(me, target)
        if sum(what == "PTRACE_SEIZE" for _, what in asked) > 12:
            break
    of_ptrace = [what for call, what in asked if call == "ptrace"]
    seized = [i for i, what in enumerate(of_ptrace, 1) if what == "PTRACE_SEIZE"]
    # the threads of the stop with which it went live come first, those of the last one at the end
    threads = len(os.listdir(f"/proc/{target.pid}/task"))
    changes = seized[threads:-threads]
    assert changes, asked
    steps = range(changes[0], changes[-1] + 8)
    for step in sorted(rng.sample(steps, min(len(steps), kills()))):
        requests(me, target, f"--inject=ptrace:signal=SIGKILL:when={step}")
        check_and_restore(
            me, target, program, before, f"request {step}", *(["--no-stop"] if step % 2 else [])
        )
    settled(target)
    target.finish()
