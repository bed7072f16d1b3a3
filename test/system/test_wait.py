# SPDX-License-Identifier: Apache-2.0
"""
iprobe wait: functions that wait for what is known, against the clock of the program itself.
"""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from iptest import actor as actors
from iptest import memory

ROUNDS = 6
NAP = 8e6  # ns, of test/programs/wait_kinds.c
# function: kind, and a part of the object's name; None: it is not named
WAITS = {
    "on_timer": ("timer", "clock_nanosleep"),
    "on_futex": ("futex", "&db.lock"),
    "on_pipe": ("pipe", "pipe:["),
    "on_socket": ("socket", "tcp 127.0.0.1:{port} - 127.0.0.1:"),
    "on_child": ("child", "pid "),
    "on_signal": ("signal", "rt_sigtimedwait"),
    "on_poll_timeout": ("timer", "poll"),
    "on_poll_pipe": ("pipe", "pipe:["),
    "on_epoll_socket": ("socket", "tcp 127.0.0.1:{port} - 127.0.0.1:"),
    "on_timerfd": ("timer", "timerfd"),
    "on_flock": ("file", "{lock}"),
    "on_heap_futex": ("futex", ""),
    "on_unix": ("socket", "unix ["),
    "on_select_pipe": ("pipe", "pipe:["),
    "on_pselect_timeout": ("timer", "pselect6"),
    "on_eventfd": ("other", "eventfd"),
    "on_fault": ("fault", "0x"),
    "on_io_uring": ("io_uring", "io_uring_enter"),
}

# no helper ends these
ENDED_BY_TIME = {
    *("on_timer", "on_poll_timeout", "on_pselect_timeout", "on_timerfd", "on_io_uring"),
    "on_child",
}


def instances(pid):
    """Instances of tracefs that an iprobe has made, seen by a mount of our own."""
    done = subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            "mount -t tracefs none /mnt && ls /mnt/instances",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no tracefs here: {done.stderr.strip()}")
    return {name for name in done.stdout.split() if name.startswith(f"iprobe-{pid}-")}


def skip_without_events(actor, source="tracefs"):
    """Where the machine does not let even root record them (a container)."""
    said = next(
        line for line in actor.iprobe("doctor").stdout.splitlines() if "kernel events" in line
    )
    not_by = f"by {'perf events' if source == 'perf' else 'tracefs'} not: "
    if "can be recorded" not in said or not_by in said:
        pytest.skip(" ".join(said.split()))
    if source == "tracefs":
        instances(0)


def stolen_ns():
    """What the machine below this one took of all CPUs, which no thread's CPU clock counts."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) * 1e9 / os.sysconf("SC_CLK_TCK")


@pytest.fixture(params=["tracefs", "perf"])
def source(request, monkeypatch):
    """Where events of the kernel come from, in all that the test runs."""
    monkeypatch.setenv("IPROBE_KERNEL_SOURCE", request.param)
    return request.param


@pytest.fixture
def traced(root):
    """An actor that may record kernel events."""
    skip_without_events(root)
    return root


@pytest.fixture(scope="module", params=["tracefs", "perf"])
def planted(request, top, builddir, programs):
    """One run of the program with its waits, and what iprobe says of it."""
    if os.getuid() != 0:
        pytest.skip("not root")
    actor = actors.Actor("root", 0, top, builddir)
    skip_without_events(actor, request.param)
    folder = actor.dir()
    stolen = stolen_ns()
    proc = actor.popen(
        [
            actor.iprobe_path,
            *("run", "-q", "--kernel", "--kernel-buffer", "64M", "-o", folder / "trace"),
            *("--kernel-source", request.param, "--"),
            programs.simple("wait_kinds", placement="fentry"),
            str(ROUNDS),
            folder / "lock",
        ],
        stdin=subprocess.PIPE,
    )
    port = proc.stdout.readline().split()[1]
    assert proc.stdout.readline() == "ready\n"
    proc.stdin.write("\n")
    proc.stdin.flush()
    done = actors.last_words(proc)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), repr(done)
    truth = {
        name: (int(calls), int(ns))
        for name, calls, ns in (line.split() for line in done.stdout.splitlines()[:-1])
    }
    said = actor.iprobe("wait", "--json", folder / "trace")
    assert said.returncode == 0, repr(said)
    values = {"port": port, "lock": str(folder / "lock"), "trace": folder / "trace"}
    # it is told in ticks
    values["stolen_ns"] = stolen_ns() - stolen + 1e9 / os.sysconf("SC_CLK_TCK")
    yield truth, json.loads(said.stdout), values, lambda *a: actor.iprobe(*a, folder / "trace")
    actor.cleanup()


def row(document, function):
    return next(f for f in document["functions"] if f["function"] == function)


def blocked(function):
    return sum(b["ns"] for b in function["blocked"])


@pytest.mark.parametrize("function", sorted(WAITS))
def test_each_wait_is_named(planted, function):
    truth, document, values, _ = planted
    if function not in truth:
        pytest.skip("this kernel does not let the program do that")
    said, kind = row(document, function), WAITS[function]
    calls, elapsed = truth[function]
    assert said["calls"] == calls == ROUNDS
    # the program's clock stands around the call: 1 %, or 10 us a call, for what is between
    assert elapsed - max(0.01 * elapsed, 10e3 * calls) < said["elapsed_ns"] <= elapsed + 1e3, said
    longest = said["blocked"][0]
    assert longest["kind"] == kind[0], said
    assert kind[1].format(**values) in longest["object"], said
    named = sum(b["ns"] for b in said["blocked"] if b["kind"] == kind[0])
    assert named > 0.99 * blocked(said) and said["unknown_ns"] == 0, said
    # what no helper ends lasts for the nap, whoever else wants the CPU
    if function in ENDED_BY_TIME:
        # (it may lose its CPU before it waits)
        waited = named + said["runqueue_ns"] + said["cpu_ns"]
        assert waited > 0.99 * ROUNDS * NAP, said


def test_time_on_a_cpu(planted):
    truth, document, values, _ = planted
    said, spent = row(document, "on_cpu"), ROUNDS * NAP
    assert said["calls"] == truth["on_cpu"][0]
    assert 0.95 * spent < said["cpu_ns"] < 1.05 * spent + values["stolen_ns"], said


def test_parts_are_the_whole(planted):
    _, document, _, _ = planted
    assert document["kernel_lost"] == 0 and document["unknown_threads"] == 0
    for f in document["functions"]:
        parts = f["cpu_ns"] + f["runqueue_ns"] + f["unknown_ns"] + blocked(f)
        assert abs(parts - f["elapsed_ns"]) <= max(1000, 0.001 * f["elapsed_ns"]), f


def test_the_table(planted):
    _, _, _, read = planted
    text = read("wait", "-f", "on_futex").stdout
    assert "futex &db.lock" in text and "on_pipe" not in text, text


def test_the_chain_of_a_call(planted):
    """In one line: what it waited for, who had that, and what that one did."""
    _, _, _, read = planted
    shown = ("--of", "on_futex", "--slowest", str(ROUNDS))
    text = read("wait", *shown).stdout
    # others may have had the CPU for longest
    found = re.search(
        r"\non_futex [\d.]+ ms: [\d.]+ ms in futex &db\.lock held by thread (\d+) \(wait_kinds\)"
        r" <- [\d.]+ ms (in timer clock_nanosleep|waiting for a CPU.*|on a CPU.*)\n",
        text,
    )
    assert found, text
    calls = json.loads(read("wait", "--json", *shown).stdout)["calls"]
    calls = [call for call in calls if call["chain"][0].get("kind") == "futex"]
    assert calls
    for call in calls:
        chain = call["chain"]
        assert chain[0]["tid"] == call["tid"] and chain[0]["function"] == "on_futex", chain
        assert chain[1]["tid"] == call["blocked"][0]["holder"]["tid"] == int(found[1]), chain
        assert chain[1]["ns"] <= chain[0]["ns"] <= call["elapsed_ns"], chain
    alone = json.loads(read("wait", "--json", "--of", "on_timer").stdout)
    assert all(len(call["chain"]) == 1 for call in alone["calls"]), alone


def test_the_tree(planted):
    _, document, _, read = planted
    tree = json.loads(read("wait", "--tree", "--json").stdout)
    nodes = {node["function"]: node for node in tree["nodes"]}
    assert tree["events"] == document["events"] and len(nodes) == len(tree["nodes"])
    for f in document["functions"]:
        node = nodes[f["function"]]
        for key in ("calls", "elapsed_ns", "cpu_ns", "runqueue_ns", "unknown_ns"):
            assert node[key] == f[key], (node, f)
        waits = [{k: v for k, v in wait.items() if k != "by"} for wait in f["blocked"]]
        assert node["self_blocked"] == waits, (node, f)  # none calls another
    text = read("wait", "--tree", "--objects", "1", "--min-percent", "0").stdout
    assert re.search(r" on_futex\n +[\d.]+ ms +\| futex &db\.lock \(\d+ times\)\n", text), text
    assert "on_" not in read("wait", "--tree", "--min-percent", "100").stdout
    for wrong in (["--depth", "2"], ["--tree", "--of", "x"], ["--tree", "--min-percent", "x"]):
        assert read("wait", *wrong).returncode == 2, wrong


def test_locks(planted):
    """A helper has the mutex, another process the file: for as long as the function waits."""
    _, _, values, read = planted
    locks = json.loads(read("wait", "--locks", "--json").stdout)["locks"]
    locks = {lock["object"]: lock for lock in locks}
    mutex = locks["&db.lock"]
    # a round in which others had the CPU may find it free
    assert 0 < mutex["held_whole"] <= mutex["waits"] <= ROUNDS, mutex
    assert mutex["held_whole"] < mutex["held"] <= 2 * ROUNDS, mutex
    assert mutex["held_whole_ns"] < mutex["held_ns"], mutex
    by = {f["function"]: f for f in mutex["functions"]}
    assert by["on_futex"]["waits"] == mutex["waits"] and by[None]["waits"] == 0, mutex
    assert by["on_futex"]["held_whole"] == mutex["held_whole"], mutex
    # from when it was waited for, and the wait ends a moment later
    assert by[None]["held"] > 0 and by[None]["held_whole"] == 0, mutex
    assert by[None]["held_ns"] <= by["on_futex"]["wait_ns"] <= mutex["wait_max_ns"] * ROUNDS
    file = locks[values["lock"]]
    assert file["kind"] == "file" and 0 < file["waits"] <= ROUNDS, file
    text = read("wait", "--locks", "-f", "on_futex").stdout
    assert "futex &db.lock" in text and "in on_futex" in text and "flock" not in text, text
    assert "No lock was waited for" in read("wait", "--locks", "-f", "on_timer").stdout
    for wrong in (["--locks", "--tree"], ["--locks", "--of", "x"], ["--locks", "--tid", "1"]):
        assert read("wait", *wrong).returncode == 2, wrong


def test_a_trace_with_kernel_events_makes_place(traced, programs):
    """As any other: the older one is kept, the one before that is removed."""
    folder = traced.dir()
    waits = [programs.simple("wait_kinds", placement="fentry"), "1", folder / "lock"]
    for _ in range(3):
        done = traced.iprobe(
            *("run", "-q", "--kernel", "-o", folder / "trace", "--", *waits), input="\n"
        )
        assert done.returncode == 0, repr(done)
    assert {path.name for path in folder.iterdir()} == {"lock", "trace", "trace.old"}
    (folder / "trace.old" / "kernel" / "mine").write_text("x")
    done = traced.iprobe("run", "-q", "-o", folder / "trace", "--", *waits, input="\n")
    assert done.returncode == 1 and "mine in it, which is no file of a trace" in done.stderr


def test_streams_that_are_damaged(planted, me):
    """What can be read is shown, what cannot is told, and nothing falls over."""
    _, _, values, read = planted
    trace = me.dir() / "trace"
    shutil.copytree(values["trace"], trace)
    stream = next(path for path in sorted((trace / "kernel").iterdir()) if path.name == "all_1")
    stream.write_bytes(stream.read_bytes()[:-9])
    with open(trace / "iprobe" / "descriptors", "ab") as file:
        file.write(b"no line\n1\t2\t-3\tfile\tx\n9999999999999999999999\t1")
    done = me.iprobe("wait", trace)
    assert done.returncode == 0, repr(done)
    assert "kernel/all_1: its last packet" in done.stderr and "on_futex" in done.stdout
    for path in (trace / "kernel").iterdir():
        if path.name != "metadata":
            path.write_bytes(b"\xff" * 300)
    done = me.iprobe("wait", trace)
    assert done.returncode == 0 and done.stderr.count("there is no packet at 0") > 2, repr(done)


def test_descriptors_of_a_hostile_name(traced, programs):
    folder = traced.dir()
    lock = folder / "a\n1\t2\x1b[2Jb"
    waits = [programs.simple("wait_kinds", placement="fentry"), "1", lock]
    run = ["run", "-q", "--kernel", "-o", folder / "trace", "--", *waits]
    assert traced.iprobe(*run, input="\n").returncode == 0
    lines = (folder / "trace" / "iprobe" / "descriptors").read_text().splitlines()
    assert all(len(line.split("\t")) == 5 for line in lines), lines
    text = traced.iprobe("wait", folder / "trace").stdout
    assert "a?1?2?[2Jb" in text and "\x1b" not in text, text


def test_a_trace_without_kernel_events(me, programs):
    folder = me.dir()
    waits = [programs.simple("wait_kinds", placement="fentry"), "1", folder / "lock"]
    done = me.iprobe("run", "-q", "-o", folder / "trace", "--", *waits, input="\n")
    assert done.returncode == 0, repr(done)
    done = me.iprobe("wait", folder / "trace")
    assert done.returncode == 1
    assert "has no events of the kernel: record with iprobe attach --kernel" in done.stderr


@pytest.mark.parametrize("by", ["attach", "detach"])
def test_instances_go_away(traced, programs, targets, by):
    """Also those that an iprobe left which was killed: the next one removes them."""
    target = targets.steady(traced, programs.simple("steady"), "-t", "3", "-n")
    folder = traced.dir()
    proc = traced.popen(
        [traced.iprobe_path, "attach", str(target.pid), "--kernel", "-q", "-o", folder / "killed"]
    )
    memory.wait_for("no instances", lambda: len(instances(proc.pid)) == 2)
    proc.send_signal(signal.SIGKILL)
    proc.wait()
    options = ["--kernel", "--duration", "100ms", "-q", "-o", folder / "next"]
    done = traced.iprobe(by, str(target.pid), *(options if by == "attach" else []))
    assert done.returncode == 0, repr(done)
    assert not instances(proc.pid)


def test_an_ordinary_user_is_told(user, programs, targets):
    target = targets.steady(user, programs.simple("steady"), "-t", "3", "-n")
    done = user.iprobe("attach", str(target.pid), "--kernel", "--duration", "100ms")
    assert done.returncode == 1
    assert "kernel" in done.stderr and done.stderr.count("\n") == 1, done.stderr
