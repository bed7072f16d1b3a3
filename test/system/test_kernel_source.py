# SPDX-License-Identifier: Apache-2.0
"""
Events of the kernel from perf events, where its tracefs is closed: shut by mounts that only iprobe
sees. What they tell is tested with the other source's in test_wait.py and test_syscall_live.py.
"""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.bpf import programs_of
from test_wait import skip_without_events

TRACEFS = "/sys/kernel/tracing"


@pytest.fixture
def traced(root, monkeypatch):
    """An actor that may record perf events."""
    skip_without_events(root, "perf")
    monkeypatch.delenv("IPROBE_KERNEL_SOURCE", raising=False)
    return root


@pytest.fixture
def target(traced, programs, targets):
    return targets.steady(traced, programs.simple("steady"), "-t", "3", "-n")


def behind(mounts, command, *, without=""):
    """A command that runs behind mounts of its own, and without some capabilities."""
    less = f"setpriv --bounding-set {without}" if without else ""
    return [
        *("unshare", "-m", "--propagation", "private", "sh", "-c"),
        f'set -e; {mounts}; exec {less} "$@"',
        "sh",
        *map(str, command),
    ]


def read_only():
    """tracefs, in which nothing can be made."""
    mounted = f"mountpoint -q {TRACEFS} || mount -t tracefs none {TRACEFS}"
    return f"{mounted}; mount --bind {TRACEFS} {TRACEFS}; mount -o remount,bind,ro {TRACEFS}"


def run(actor, *command, mounts, without="", **more):
    return actor.run([*behind(mounts, [actor.iprobe_path, *command], without=without)], **more)


def none_left(pid):
    # (the kernel frees programs a little later than their descriptors)
    memory.wait_for("programs of BPF are left", lambda: not programs_of(pid))


def test_read_only_tracefs(traced, target):
    """perf events are taken by themselves, and it is told."""
    folder = traced.dir()
    options = ("attach", target.pid, "--kernel", "--duration", "300ms", "-o", folder / "trace")
    done = run(traced, *options, mounts=read_only())
    assert done.returncode == 0, repr(done)
    assert "of the kernel by perf, none lost" in done.stderr, done.stderr
    said = json.loads(traced.iprobe("info", "--json", folder / "trace").stdout)["kernel_events"]
    assert said["source"] == "perf" and said["events"] > 0 and not said["lost"], said
    assert " of the kernel by perf, 0 lost: " in traced.iprobe("info", folder / "trace").stdout
    waits = json.loads(traced.iprobe("wait", "--json", folder / "trace").stdout)
    assert waits["functions"] and not any(f["unknown_ns"] for f in waits["functions"]), waits


def test_the_summary_has_the_source(traced, target):
    for source in ("perf", "tracefs"):
        skip_without_events(traced, source)
        done = traced.iprobe(
            *("attach", target.pid, "--kernel", "--kernel-source", source, "--json"),
            *("--duration", "100ms", "-o", traced.dir() / source),
        )
        assert done.returncode == 0, repr(done)
        assert json.loads(done.stdout)["kernel"]["source"] == source


def test_the_source_that_was_asked_for(traced, target):
    """It is not replaced by the other one."""
    options = ("attach", target.pid, "--kernel", "--duration", "100ms", "-o", traced.dir() / "x")
    done = run(traced, *options, "--kernel-source", "tracefs", mounts=read_only())
    assert done.returncode == 1 and done.stderr.count("\n") == 1, repr(done)
    assert "cannot make an instance of the kernel's tracefs" in done.stderr, done.stderr
    done = traced.iprobe(*options, "--kernel-source", "ftrace")
    assert done.returncode == 2 and "auto, tracefs or perf, not 'ftrace'" in done.stderr
    done = traced.iprobe("attach", target.pid, "--kernel-source", "perf")
    assert done.returncode == 2 and "add that option" in done.stderr, repr(done)
    done = traced.iprobe(*options, env={**os.environ, "IPROBE_KERNEL_SOURCE": "magic"})
    assert done.returncode == 1 and "IPROBE_KERNEL_SOURCE: " in done.stderr, repr(done)
    assert target.alive()


def test_functions_of_the_kernel(traced, target):
    """Their probes lie in tracefs: perf events do not have them, and one line says it."""
    folder = traced.dir() / "x"
    options = ("attach", target.pid, "--kernel-functions", "vfs_*", "--duration", "100ms")
    done = traced.iprobe(
        *options, "-o", folder, env={**os.environ, "IPROBE_KERNEL_SOURCE": "perf"}
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1, repr(done)
    assert "by probes of its tracefs, not by perf events" in done.stderr, done.stderr
    done = run(traced, *options, "-o", folder, mounts=read_only())
    assert done.returncode == 1 and done.stderr.count("\n") == 1, repr(done)
    assert "--kernel-functions: cannot make an instance of the kernel's tracefs" in done.stderr
    assert not folder.exists()
    memory.assert_untouched(target.pid)


def test_top(traced, target):
    """It has waits by the source that serves, and tells why where one does not."""
    options = ("top", "--kernel", "--json", "-n", "1", "-d", "300ms", target.pid)
    done = run(traced, *options, mounts=read_only())
    assert done.returncode == 0 and "no waits" not in done.stderr, repr(done)
    said = json.loads(done.stdout)
    assert said["kernel"]["lost"] == 0, said
    assert all(f["wait"]["unknown_ns"] == 0 for f in said["functions"]), said
    done = run(traced, *options, "--kernel-source", "tracefs", mounts=read_only())
    assert done.returncode == 0 and done.stderr.count("no waits") == 1, repr(done)
    assert "no waits are shown: cannot make an instance" in done.stderr, done.stderr
    assert "kernel" not in json.loads(done.stdout)
    done = traced.iprobe("top", "--kernel-source", "perf", target.pid)
    assert done.returncode == 2 and "add that option" in done.stderr, repr(done)
    memory.assert_untouched(target.pid)


def doctor(actor, mounts, without=""):
    done = run(actor, "doctor", mounts=mounts, without=without)
    return [line for line in done.stdout.splitlines() if "kernel events" in line][0]


def test_doctor_tells_what_there_is(traced):
    assert "can be recorded (--kernel), by tracefs or by perf events" in doctor(traced, "true")
    said = doctor(traced, read_only())
    assert "by perf events; by tracefs not: cannot make an instance" in said, said
    said = doctor(traced, "true", without="-sys_admin,-perfmon,-bpf")
    assert "by tracefs; by perf events not: " in said and "CAP_" in said, said
    said = doctor(traced, read_only(), without="-sys_admin,-perfmon,-bpf")
    assert "cannot make an instance" in said and "; by perf events: " in said, said
    assert "can be recorded" not in said
    said = doctor(traced, f"mount -t tmpfs none {TRACEFS}", without="-sys_admin")
    assert "cannot open the kernel's tracefs" in said, said


def test_without_any_source(traced, target):
    """One line says what stands in the way of each."""
    done = run(
        traced,
        *("attach", target.pid, "--kernel", "--duration", "100ms", "-o", traced.dir() / "x"),
        mounts=read_only(),
        without="-sys_admin,-perfmon,-bpf",
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1, repr(done)
    assert "cannot make an instance" in done.stderr and "; by perf events: " in done.stderr
    assert "takes root" in done.stderr, done.stderr
    assert target.alive()


def test_the_capabilities_that_it_takes(traced, target):
    """Without CAP_SYS_ADMIN these do."""
    most = "-all,+sys_ptrace,+perfmon,+bpf,+ipc_lock,+dac_override,+sys_nice,+checkpoint_restore"
    # it cannot see whose programs these are: those of a test beside this one come and go
    until = time.monotonic() + 60
    while True:
        done = run(
            traced,
            *("attach", target.pid, "--kernel", "--duration", "100ms", "-o", traced.dir() / "x"),
            mounts=read_only(),
            without=most,
        )
        if "a BPF program of another tool" not in done.stderr or time.monotonic() > until:
            break
        time.sleep(0.1)
    assert done.returncode == 0, repr(done)
    assert "of the kernel by perf, none lost" in done.stderr, done.stderr


def test_killed(traced, target):
    proc = start_recording(traced, target.pid, "-o", traced.dir() / "killed")
    assert sorted(programs_of(proc.pid)) == ["e", "f", "p", *["r"] * 5]
    proc.send_signal(signal.SIGKILL)
    proc.wait()
    none_left(proc.pid)


def start_recording(actor, pid, *args):
    proc = actor.start_iprobe("attach", pid, "--kernel", *args, "--kernel-source", "perf", "--json")
    memory.wait_until_live(pid, proc)
    return proc


@pytest.fixture
def syscaller(traced, programs):
    """Starts a program that makes system calls and naps, so many rounds when it is given a line."""

    def start(rounds, *before):
        (traced.top / "read").write_text("sixteen bytes of text")
        program = programs.simple("syscaller", placement="fentry")
        proc = traced.popen(
            [*before, program, rounds, traced.top / "read"],
            stdin=subprocess.PIPE,
        )
        assert proc.stdout.readline() == "ready\n"
        return proc

    return start


def play(program):
    program.stdin.write("\n")
    program.stdin.flush()


def test_losses(traced, syscaller):
    """They are counted, and what they would tell is unknown."""
    # on one CPU: its naps are in the ring that is full
    program = syscaller(600, "taskset", "-c", str(min(os.sched_getaffinity(0))))
    folder = traced.dir() / "trace"
    proc = start_recording(traced, program.pid, "--kernel-buffer", "64K", "-o", folder)
    proc.send_signal(signal.SIGSTOP)
    play(program)
    assert program.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGCONT)
    program.stdin.close()
    program.wait()
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    kernel = done.summary()["kernel"]
    # how many the kernel says with the next one that it has room for, if one comes
    assert kernel["source"] == "perf" and kernel["lost"] > 0, kernel
    waits = json.loads(traced.iprobe("wait", "--json", folder).stdout)
    assert waits["kernel_lost"] == kernel["lost"]
    # where switches were lost nothing is known; where system calls were, not on what it waited
    unknown = sum(
        f["unknown_ns"] + sum(b["ns"] for b in f["blocked"] if b["kind"] == "other")
        for f in waits["functions"]
    )
    assert unknown > 100e6, waits


@pytest.fixture
def other_tool(traced):
    """Has a BPF program at block_rq_issue, which might keep the event from perf. (No other test
    records this one.)
    """
    if not shutil.which("bpftrace"):
        pytest.skip("no bpftrace")
    # a line that nobody is woken for is read with the next one
    program = 'interval:ms:100 { printf("on\\n"); } tracepoint:block:block_rq_issue { @n++ }'

    def start():
        proc = traced.popen(["bpftrace", "-e", program])
        while (line := proc.stdout.readline()) != "on\n":
            if not line:
                pytest.skip(f"bpftrace does not run here: {proc.stderr.read()}")
        return proc

    return start


def test_programs_of_others(traced, target, syscaller, other_tool):
    """While they may keep events from perf, all is unknown."""
    folder = traced.dir()
    program = syscaller(100000)
    play(program)
    proc = start_recording(traced, program.pid, "--kernel=all", "-o", folder / "trace")
    time.sleep(0.5)
    other = other_tool()
    begin = time.monotonic()
    time.sleep(0.5)
    done = traced.iprobe(
        *("attach", target.pid, "--kernel=all", "--kernel-source", "perf"),
        *("--duration", "100ms", "-o", folder / "second"),
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1, repr(done)
    assert "a BPF program of another tool stands at block:block_rq_issue" in done.stderr
    apart = (time.monotonic() - begin) * 1e9
    other.send_signal(signal.SIGINT)
    other.communicate()
    time.sleep(0.5)
    proc.send_signal(signal.SIGINT)
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    assert done.stderr.count("a BPF program of another tool may keep the kernel's events") == 1
    assert done.summary()["kernel"]["lost"] > 0, repr(done)
    waits = json.loads(traced.iprobe("wait", "--json", folder / "trace").stdout)
    said = next(f for f in waits["functions"] if f["function"] == "read_file")  # it naps
    assert said["unknown_ns"] > 0.8 * apart, (said, apart)
    assert said["elapsed_ns"] - said["unknown_ns"] > 0.7e9, (said, apart)


def test_two_at_once(traced, target):
    """Programs of two iprobes stand at the same tracepoints, and each has all events."""
    proc = start_recording(traced, target.pid, "-o", traced.dir() / "trace")
    done = traced.iprobe(
        *("syscalls", "--json", "--kernel-source", "perf", "--duration", "300ms", target.pid)
    )
    assert done.returncode == 0 and json.loads(done.stdout)["kernel_lost"] == 0, repr(done)
    proc.send_signal(signal.SIGINT)
    done = actors.last_words(proc)
    assert done.returncode == 0 and done.summary()["kernel"]["lost"] == 0, repr(done)
    assert not [line for line in done.stderr.splitlines() if "BPF" in line], done.stderr
