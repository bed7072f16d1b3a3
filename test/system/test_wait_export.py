# SPDX-License-Identifier: Apache-2.0
"""
What the kernel's events tell in exports: off-CPU and off-wake stacks, profiles for pprof, traces
for Perfetto. They are held against iprobe wait, babeltrace2, and what the program does.
"""

import collections
import gzip
import json
import os
import re
import shutil
import subprocess

import pytest
from test_export import fields, numbers
from test_wait import blocked, skip_without_events

from iptest import actor as actors

ROUNDS = 5


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
    # the consumer waits for nothing but work
    done = actor.iprobe("export", "--format", "folded", "--idle", *options, trace)
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
    assert stacks["consume;await_turn;futex:&turn"] > 0, stacks
    assert stacks["produce;grant;timer:clock_nanosleep"] > 0, stacks
    for function in ("consume", "produce"):
        us = sum(n for stack, n in stacks.items() if stack.startswith(f"{function};"))
        assert abs(us - off_cpu(said[function]) / 1e3) < len(stacks), (stacks, said[function])
    for stack in stacks:
        assert stack.rpartition(";")[2].partition(":")[0] in ("futex", "timer", "runqueue"), stack


def test_off_wake_stacks(turns):
    """The waker's stack goes up from its innermost call. Its thread's name has a ';'."""
    stacks = folded(turns, "--off-wake")
    woken = "consume;await_turn;futex:&turn;--;notify;grant;produce;grant:er"
    assert stacks[woken] > 0, stacks
    timer = "produce;grant;timer:clock_nanosleep;--;[interrupt]"
    assert stacks[timer] > 0, stacks
    plain = collections.Counter()
    for stack, us in stacks.items():
        assert stack.count(";--;") == 1, stack
        plain[stack.partition(";--;")[0]] += us
    for stack, us in folded(turns, "--off-cpu").items():
        assert abs(plain[stack] - us) <= len(stacks), stack


def test_of_which_calls(turns):
    chosen = folded(turns, "--off-cpu", "-f", "grant")
    assert {stack.split(";")[0] for stack in chosen} == {"grant"}
    by_thread = folded(turns, "--off-wake", "--by", "thread")
    assert {stack.split(";")[0].split(maxsplit=2)[2] for stack in by_thread} == {
        "grant:er",
        "take_turns",
    }
    tid = next(stack.split()[1] for stack in by_thread if "grant:er;produce" in stack)
    assert {stack.split(";")[0] for stack in folded(turns, "--off-cpu", "--tid", tid)} == {
        "produce"
    }


def pprof_sums(path):
    """Of a profile: {function: {type: sum of the samples it is in}}, and off_cpu by its label."""
    profile = fields(gzip.decompress(path.read_bytes()))
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
    return sums, objects


def test_pprof_has_time_on_and_off_the_cpu(turns):
    actor, trace = turns
    out = actor.dir() / "profile.pb.gz"
    done = actor.iprobe("export", "--format", "pprof", "--idle", "-o", out, trace)
    assert done.returncode == 0, repr(done)
    sums, objects = pprof_sums(out)
    for name, said in waits(turns).items():
        assert abs(sums[name]["cpu"] - said["cpu_ns"]) < 1000, (name, sums, said)
        assert abs(sums[name]["off_cpu"] - off_cpu(said)) < 1000, (name, sums, said)
        assert abs(sums[name]["time"] - said["elapsed_ns"]) < 1000, (name, sums, said)
    # of each with those inside of it
    calls = {"notify": 1, "grant": 2, "await_turn": 1}
    assert {name: sums[name]["calls"] for name in calls} == {
        name: ROUNDS * n for name, n in calls.items()
    }
    assert objects["futex:&turn"] > 0, objects
    assert sum(objects.values()) == sum(
        sums[name]["off_cpu"] for name in ("consume", "produce")
    ), objects


@pytest.mark.skipif(not shutil.which("go"), reason="go is not installed")
def test_go_tool_pprof_has_both(turns, tmp_path):
    """As the tool shows it which others have the format from."""
    actor, trace = turns
    out = actor.dir() / "profile.pb.gz"
    done = actor.iprobe("export", "--format", "pprof", "--idle", "-o", out, trace)
    assert done.returncode == 0, repr(done)
    told = {}
    for index in ("cpu", "off_cpu"):
        said = subprocess.run(
            ["go", "tool", "pprof", "-top", "-nodefraction=0", "-unit=ns"]
            + [f"-sample_index={index}", out],
            check=True,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            env={**os.environ, "HOME": str(tmp_path)},
        ).stdout
        for line in said.splitlines():
            row = re.match(r" *\d+(?:ns)? +[\d.]+% +[\d.]+% +(\d+)(?:ns)? +[\d.]+% +(\S+)$", line)
            if row:
                told[row[2], index] = int(row[1])
    for name, said in waits(turns).items():
        assert abs(told.get((name, "cpu"), 0) - said["cpu_ns"]) < 1000, (name, told, said)
        assert abs(told.get((name, "off_cpu"), 0) - off_cpu(said)) < 1000, (name, told, said)


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


def signed(value):
    """A number of 64 bits."""
    return value - (1 << 64) if value >> 63 else value


def kernel_events(trace, name):
    """[{field: number}] of the events of a name, as babeltrace2 reads them."""
    text = subprocess.run(
        ["babeltrace2", trace / "kernel"], capture_output=True, text=True, check=True
    ).stdout
    return [
        {key: int(value) for key, value in re.findall(r"(\w+) = (-?\d+)\b", line)}
        for line in text.splitlines()
        if f" {name}: " in line
    ]


def test_perfetto_has_who_ran_and_who_woke_whom(turns):
    if not shutil.which("babeltrace2"):
        pytest.skip("no babeltrace2")
    actor, trace = turns
    out = actor.dir() / "trace.pftrace"
    done = actor.iprobe("export", "--format", "perfetto", "-o", out, trace)
    assert done.returncode == 0, repr(done)
    packets = [dict(fields(v)) for field, v in fields(out.read_bytes()) if field == 1]
    assert all(packet[10] == 1 for packet in packets)
    system = next(dict(fields(dict(fields(p[45]))[1])) for p in packets if 45 in p)
    assert system[1] == b"Linux" and system[3].decode() == os.uname().release
    switches, wakings, times = [], [], collections.defaultdict(list)
    for bundle in (fields(p[1]) for p in packets if 1 in p):
        cpu = dict(bundle)[1]
        for event in (dict(fields(v)) for field, v in bundle if field == 2):
            times[cpu].append(event[1])
            if 4 in event:
                one = dict(fields(event[4]))
                assert event[2] == one[2]  # the thread that goes tells it
                switches.append((cpu, one[2], signed(one[4]), one[6]))
            if 20 in event:
                one = dict(fields(event[20]))
                wakings.append((event[1], event[2], one[2], one[5]))
    assert all(sorted(some) == some for some in times.values())
    assert sorted(switches) == sorted(
        (e["cpu_id"], e["prev_tid"], e["prev_state"], e["next_tid"])
        for e in kernel_events(trace, "sched_switch")
    )
    assert sorted(one[2:] for one in wakings) == sorted(
        (e["tid"], e["target_cpu"]) for e in kernel_events(trace, "sched_waking")
    )
    # the clock is that of calls: a thread is woken by the other one within its outermost call
    tracks, tids, calls = {}, {}, collections.defaultdict(list)
    for packet in packets:
        track = dict(fields(packet.get(60, b"")))
        if 4 in track:
            thread = dict(fields(track[4]))
            tracks[track[1]], tids[thread[5]] = thread[2], thread[2]
        if 11 in packet:
            event = dict(fields(packet[11]))
            calls[tracks[event[11]]].append(packet[8])
    waiter, waker = tids[b"take_turns"], tids[b"grant;er"]
    woken = [one for one in wakings if one[1:3] == (waker, waiter)]
    assert len([one for one in woken if calls[waiter][0] < one[0] < calls[waiter][-1]]) == ROUNDS


def test_perfetto_without_events_of_the_kernel(me, programs):
    trace, out = me.dir() / "trace", me.dir() / "trace.pftrace"
    program = programs.simple("take_turns", placement="fentry")
    assert me.iprobe("run", "-q", "-o", trace, "--", program, "1").returncode == 0
    assert me.iprobe("export", "--format", "perfetto", "-o", out, trace).returncode == 0
    packets = [dict(fields(v)) for field, v in fields(out.read_bytes()) if field == 1]
    assert not any(1 in packet or 45 in packet for packet in packets)


@pytest.mark.parametrize("named", ["html", "perfetto", "pprof", "folded"])
def test_streams_that_are_damaged(turns, named):
    """What can be read is written, what cannot is told."""
    actor, source = turns
    trace = actor.dir() / "trace"
    shutil.copytree(source, trace)
    stream = max((trace / "kernel").glob("all_*"), key=lambda path: path.stat().st_size)
    stream.write_bytes(stream.read_bytes()[:-9])
    options = ["--format", named, *(["--off-wake"] if named == "folded" else [])]
    done = actor.iprobe("export", *options, "-o", trace.parent / "out", trace)
    assert done.returncode == 0, repr(done)
    assert done.stderr.count(f"kernel/{stream.name}: its last packet") == 1, done.stderr
    for path in (trace / "kernel").iterdir():
        if path.name != "metadata":
            path.write_bytes(b"\xff" * 300)
    done = actor.iprobe("export", *options, "-o", trace.parent / "out", trace)
    assert done.returncode == 0 and done.stderr.count("there is no packet at 0") > 2, repr(done)
