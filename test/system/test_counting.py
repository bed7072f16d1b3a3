# SPDX-License-Identifier: Apache-2.0
"""
A program that counts its own calls on one, two and eight threads: what was recorded plus what
was lost is exactly two events a call, and an independent CTF reader finds exactly what was
recorded, by name.
"""

import collections
import json
import signal

import pytest

from iptest import ctf, memory
from iptest.actor import last_words


def own_counts(stdout):
    """(calls by function, total) as the program printed them."""
    calls, total = {}, None
    for line in stdout.splitlines():
        words = line.split()
        if words[:1] == ["function"]:
            calls[words[1]] = int(words[2])
        elif words[:1] == ["calls"]:
            total = int(words[1])
    assert total and sum(calls.values()) == total, stdout
    return calls, total


def info_of(actor, directory):
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def check(actor, directory, summary, calls, total, threads):
    """One recording against the program's own counts."""
    assert summary["events"] + summary["lost"] == 2 * total
    report = info_of(actor, directory)
    assert report["events"] == summary["events"]
    assert report["lost"] == summary["lost"]
    assert report["threads"] == threads
    seen, warnings = ctf.read_events(directory)
    assert sum(seen.values()) == summary["events"]
    names = {function for _, _, function in seen}
    assert names <= set(calls), names
    modules = {module for _, module, _ in seen}
    assert modules <= {"count"}, modules
    by_name = collections.Counter()
    for (event, _, function), n in seen.items():
        by_name[function] += n
        assert n <= calls[function], (event, function)
    reported = {f["function"]: f["calls"] for f in report["functions"]}
    if summary["lost"] == 0:
        assert {f: n // 2 for f, n in by_name.items()} == {f: n for f, n in calls.items() if n}
        for function, n in calls.items():
            assert seen["func_entry", "count", function] == n
            assert seen["func_exit", "count", function] == n
        assert reported == {f: n for f, n in calls.items() if n}
        assert "discarded" not in warnings.lower(), warnings
    else:
        assert set(reported) <= set(calls)
    return report


def record(actor, program, args, options=()):
    """(directory, summary, calls, total) of one `iprobe run`."""
    directory = actor.dir() / "trace"
    done = actor.iprobe("run", "--json", *options, "-o", directory, "--", program, *args)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert (
        summary["dir"] and summary["pid"] > 0 and summary["sites"] > 0 and summary["functions"] > 0
    )
    return directory, summary, *own_counts(done.stdout)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("opt", ["-O0", "-O2"])
def test_run_counts_every_call(actor, programs, threads, opt):
    program = programs.simple("count", opt=opt)
    directory, summary, calls, total = record(actor, program, ["-t", threads, "-n", 20000])
    check(actor, directory, summary, calls, total, threads)


def test_run_counts_every_call_of_clang(me, programs):
    program = programs.simple("count", compiler="clang")
    directory, summary, calls, total = record(me, program, ["-t", 2, "-n", 20000])
    check(me, directory, summary, calls, total, 2)


@pytest.mark.parametrize(
    "flags",
    [("-fno-plt",), ("-no-pie", "-fno-pie"), ("-fPIC", "-Wl,-z,now"), ("-O3", "-flto")],
    ids=lambda flags: flags[0].strip("-"),
)
def test_run_counts_every_call_however_built(me, programs, flags):
    program = programs.simple("count", extra=flags)
    directory, summary, calls, total = record(me, program, ["-t", 2, "-n", 20000])
    check(me, directory, summary, calls, total, 2)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("memory_size,count", [("1M", 200000), ("64M", 200000)])
def test_overload_loses_exactly_what_it_says(actor, programs, threads, memory_size, count):
    """As fast as the program can: losses are allowed, wrong counts are not."""
    program = programs.simple("count")
    directory, summary, calls, total = record(
        actor, program, ["-t", threads, "-n", count // threads], ["--memory", memory_size]
    )
    check(actor, directory, summary, calls, total, threads)


@pytest.mark.slow
@pytest.mark.parametrize(
    "actor,threads", [("root", 1), ("user", 2), ("root", 8)], indirect=["actor"]
)
def test_overload_of_seconds_loses_exactly_what_it_says(actor, programs, threads):
    test_overload_loses_exactly_what_it_says(actor, programs, threads, "8M", 1000000)


def test_tiny_memory_does_lose(me, programs):
    """The overload is one: otherwise the test above shows nothing about losses."""
    _, summary, _, total = record(
        me, programs.simple("count"), ["-t", 8, "-n", 500000], ["--memory", "64K"]
    )
    assert summary["lost"] > 0
    assert summary["events"] + summary["lost"] == 2 * total


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 8])
def test_a_million_events_a_second_lose_nothing(me, programs, threads, paced_seconds):
    program = programs.simple("count")
    directory, summary, calls, total = record(
        me, program, ["-t", threads, "-r", 500000, "-s", paced_seconds]
    )
    assert total >= 0.7 * 500000 * paced_seconds, "the machine is too busy to make the rate"
    assert summary["lost"] == 0
    check(me, directory, summary, calls, total, threads)


def test_a_million_events_a_second_lose_nothing_for_a_moment(actor, programs):
    directory, summary, calls, total = record(
        actor, programs.simple("count"), ["-t", 2, "-r", 500000, "-s", 0.3]
    )
    assert summary["lost"] == 0
    check(actor, directory, summary, calls, total, 2)


def attach_around_the_work(actor, targets, program, args, options=()):
    """The whole work inside a session that began before it and ended after it."""
    target = targets.start(actor, [program, "-w", *args])
    directory = actor.dir() / "trace"
    session = actor.start_iprobe("attach", target.pid, "--json", *options, "-o", directory)
    memory.wait_until_live(target.pid, session)
    target.say()
    lines = []
    while not lines or not lines[-1].startswith("calls "):
        lines.append(target.proc.stdout.readline())
        assert lines[-1], "the target ended early"
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()
    return directory, done.summary(), *own_counts("".join(lines))


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_attach_counts_every_call(actor, programs, targets, threads):
    args = ["-t", threads, "-n", 20000]
    directory, summary, calls, total = attach_around_the_work(
        actor, targets, programs.simple("count"), args
    )
    check(actor, directory, summary, calls, total, threads)
    assert len(summary["stop_us"]) >= 2 and all(us > 0 for us in summary["stop_us"])


def test_attach_overload(actor, programs, targets):
    args = ["-t", 8, "-n", 40000]
    directory, summary, calls, total = attach_around_the_work(
        actor, targets, programs.simple("count"), args, ["--memory", "1M"]
    )
    check(actor, directory, summary, calls, total, 8)


def test_attach_to_a_selection(actor, programs, targets):
    """Only what was selected is recorded, and all of it."""
    args = ["-t", 2, "-n", 20000]
    directory, summary, calls, _ = attach_around_the_work(
        actor, targets, programs.simple("count"), args, ["-f", "chain_*,!chain_middle,half"]
    )
    chosen = {f: n for f, n in calls.items() if f in ("chain_inner", "chain_outer", "half")}
    assert summary["functions"] == 3
    assert summary["events"] + summary["lost"] == 2 * sum(chosen.values())
    report = info_of(actor, directory)
    assert summary["lost"] == 0
    assert {f["function"]: f["calls"] for f in report["functions"]} == chosen


def test_attach_until_the_target_ends(actor, programs, targets):
    """The session ends with its target, and nothing that was recorded is lost with it."""
    target = targets.start(actor, [programs.simple("count"), "-w", "-t", "2", "-n", "20000"])
    directory = actor.dir() / "trace"
    session = actor.start_iprobe("attach", target.pid, "--json", "-o", directory)
    memory.wait_until_live(target.pid, session)
    target.say("\n")
    calls, total = own_counts(target.finish().stdout)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    check(actor, directory, done.summary(), calls, total, 2)


def test_two_sessions_one_after_the_other(actor, programs, targets):
    """The second session records nothing of the first and all of its own."""
    target = targets.start(actor, [programs.simple("count"), "-w", "-t", "2", "-n", "20000"])
    first = actor.iprobe(
        "attach", target.pid, "--json", "--duration", "50ms", "-o", actor.dir() / "trace"
    )
    assert first.returncode == 0, repr(first)
    assert first.summary()["events"] == 0
    directory = actor.dir() / "trace"
    session = actor.start_iprobe("attach", target.pid, "--json", "-o", directory)
    memory.wait_until_live(target.pid, session)
    target.say("\n")
    calls, total = own_counts(target.finish().stdout)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    check(actor, directory, done.summary(), calls, total, 2)
