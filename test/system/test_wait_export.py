# SPDX-License-Identifier: Apache-2.0
"""
What the kernel's events tell in exports: off-CPU and off-wake stacks, profiles for pprof. All are
held against iprobe wait, and against what the program does.
"""

import collections
import gzip
import json
import os

import pytest
from test_export import fields, numbers
from test_wait import blocked, skip_without_events

from iptest import actor as actors

ROUNDS, NAP = 5, 2e6  # ns


@pytest.fixture(scope="module")
def turns(top, builddir, programs):
    """A trace of two threads, of which one waits for the other, and an actor that reads it."""
    if os.getuid() != 0:
        pytest.skip("not root")
    actor = actors.Actor("root", 0, top, builddir)
    skip_without_events(actor)
    trace = actor.dir() / "trace"
    program = programs.simple("take_turns", placement="fentry")
    done = actor.iprobe("run", "-q", "--kernel", "-o", trace, "--", program, str(ROUNDS))
    assert done.returncode == 0, repr(done)
    yield actor, trace
    actor.cleanup()


def folded(turns, *options):
    actor, trace = turns
    done = actor.iprobe("export", "--format", "folded", *options, trace)
    assert done.returncode == 0, repr(done)
    stacks = collections.Counter()
    for line in done.stdout.splitlines():
        stack, us = line.rsplit(" ", 1)
        stacks[stack] += int(us)
    return stacks


def waits(turns):
    """{function: what iprobe wait says of it}"""
    actor, trace = turns
    document = json.loads(actor.iprobe("wait", "--json", trace).stdout)
    assert document["kernel_lost"] == 0
    return {f["function"]: f for f in document["functions"]}


def off_cpu(function):
    return function["runqueue_ns"] + blocked(function)


def test_off_cpu_stacks(turns):
    stacks, said = folded(turns, "--off-cpu"), waits(turns)
    assert stacks["consume;await_turn;futex:&turn"] > 0.9 * ROUNDS * NAP / 1e3, stacks
    assert stacks["produce;grant;timer:clock_nanosleep"] > 0.9 * ROUNDS * NAP / 1e3, stacks
    for function in ("consume", "produce"):
        us = sum(n for stack, n in stacks.items() if stack.startswith(f"{function};"))
        assert abs(us - off_cpu(said[function]) / 1e3) < len(stacks), (stacks, said[function])
    for stack in stacks:
        assert stack.rpartition(";")[2].partition(":")[0] in ("futex", "timer", "runqueue"), stack


def test_off_wake_stacks(turns):
    """The waker's stack goes up from its innermost call. Its thread's name has a ';'."""
    stacks = folded(turns, "--off-wake")
    woken = "consume;await_turn;futex:&turn;--;notify;grant;produce;grant:er"
    assert stacks[woken] > 0.9 * ROUNDS * NAP / 1e3, stacks
    timer = "produce;grant;timer:clock_nanosleep;--;[interrupt]"
    assert stacks[timer] > 0.9 * ROUNDS * NAP / 1e3, stacks
    plain = collections.Counter()
    for stack, us in stacks.items():
        assert stack.count(";--;") == 1, stack
        plain[stack.partition(";--;")[0]] += us
    for stack, us in folded(turns, "--off-cpu").items():
        assert abs(plain[stack] - us) <= len(stacks), stack


def test_of_which_calls(turns):
    chosen = folded(turns, "--off-cpu", "-f", "grant")
    assert set(chosen) <= {"grant;timer:clock_nanosleep", "grant;runqueue"} and chosen
    by_thread = folded(turns, "--off-wake", "--by", "thread")
    assert {stack.split(";")[0].split(maxsplit=2)[2] for stack in by_thread} == {
        "grant:er",
        "take_turns",
    }
    tid = next(stack.split()[1] for stack in by_thread if "grant:er;produce" in stack)
    assert {stack.split(";")[0] for stack in folded(turns, "--off-cpu", "--tid", tid)} == {
        "produce"
    }


def test_pprof_has_time_on_and_off_the_cpu(turns):
    actor, trace = turns
    out = actor.dir() / "profile.pb.gz"
    done = actor.iprobe("export", "--format", "pprof", "-o", out, trace)
    assert done.returncode == 0, repr(done)
    profile = fields(gzip.decompress(out.read_bytes()))
    strings = [value.decode() for field, value in profile if field == 6]
    types = [[strings[value] for _, value in fields(v)] for field, v in profile if field == 1]
    assert types == [
        ["calls", "count"],
        *([name, "nanoseconds"] for name in ("time", "cpu", "off_cpu")),
    ]
    names = {dict(fields(v))[1]: strings[dict(fields(v))[2]] for field, v in profile if field == 5}
    sums, objects = collections.defaultdict(collections.Counter), collections.Counter()
    for field, v in profile:
        if field != 2:
            continue
        parts = fields(v)
        # a location has the number of its function
        way = {names[n] for n in numbers(dict(parts)[1])}
        values = dict(zip(("calls", "time", "cpu", "off_cpu"), numbers(dict(parts)[2])))
        for name in way:
            sums[name].update(values)
        for label in (dict(fields(value)) for part, value in parts if part == 3):
            assert strings[label[1]] == "wait"
            objects[strings[label[2]]] += values["off_cpu"]
    for name, said in waits(turns).items():
        assert abs(sums[name]["cpu"] - said["cpu_ns"]) < 1000, (name, sums, said)
        assert abs(sums[name]["off_cpu"] - off_cpu(said)) < 1000, (name, sums, said)
        assert abs(sums[name]["time"] - said["elapsed_ns"]) < 1000, (name, sums, said)
    # of each with those inside of it
    calls = {"notify": 1, "grant": 2, "await_turn": 1}
    assert {name: sums[name]["calls"] for name in calls} == {
        name: ROUNDS * n for name, n in calls.items()
    }
    assert objects["futex:&turn"] > 0.9 * ROUNDS * NAP, objects
    assert sum(objects.values()) == sum(
        sums[name]["off_cpu"] for name in ("consume", "produce")
    ), objects


def test_without_events_of_the_kernel(me, programs):
    trace = me.dir() / "trace"
    program = programs.simple("take_turns", placement="fentry")
    assert me.iprobe("run", "-q", "-o", trace, "--", program, "1").returncode == 0
    for option in ("--off-cpu", "--off-wake"):
        done = me.iprobe("export", "--format", "folded", option, trace)
        assert (done.returncode, done.stdout) == (1, "")
        assert "has no events of the kernel: record with iprobe attach --kernel" in done.stderr
        done = me.iprobe("export", "--format", "callgrind", option, trace)
        assert done.returncode == 2 and f"{option} goes with --format folded" in done.stderr
