# SPDX-License-Identifier: Apache-2.0
"""What readers of a trace say where their options leave nothing of it."""

import json
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest.actor import one_line  # noqa: E402

EXPORTS = [
    ("export", "--format", name, "-o", "new")
    for name in ("html", "chrome", "perfetto", "folded", "callgrind", "pprof")
]
TRIM = ("trim", "-o", "new")


@pytest.fixture
def folder(me):
    """A trace of one second: the threads 41 and 42 call main, and it calls work. idle is never
    called.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    for number in (0, 1):
        thread = trace.thread(stream=number, tid=41 + number)
        for name in ("main", "work"):
            thread.call(name)
            thread.advance(125_000_000)
        for _ in range(2):
            thread.advance(125_000_000)
            thread.ret()
    trace.add("idle")
    folder = me.dir()
    trace.write(folder / "trace")
    return folder


def run(me, folder, command, *options):
    """All commands take the trace as the last operand."""
    return me.iprobe(*command, *options, "trace", cwd=folder)


@pytest.mark.parametrize("options", [(), ("--json",), ("--tid", "41")])
@pytest.mark.parametrize("command", [("dump",), TRIM], ids=" ".join)
def test_a_time_behind_the_end(me, folder, command, options):
    done = run(me, folder, command, "--from", "100s", *options)
    assert done.returncode == 1, repr(done)
    assert one_line(done) == (
        "iprobe: trace: no events from 100 s: the recording lasts from 0 ns to 1.00 s"
    )
    assert done.stdout == ""
    assert not (folder / "new").exists()


def test_a_time_before_the_beginning(me, folder):
    """A part of a trace keeps the times of the whole."""
    assert run(me, folder, ("trim", "-o", "part"), "--from", "400ms").returncode == 0
    done = me.iprobe("dump", "--to", "100ms", "part", cwd=folder)
    assert done.returncode == 1, repr(done)
    assert "no events up to 100 ms: the recording lasts from 400 ms to 1.00 s" in one_line(done)


def test_the_last_event_is_not_behind_the_end(me, folder):
    lines = [json.loads(line) for line in run(me, folder, ("dump", "--json")).stdout.splitlines()]
    done = run(me, folder, ("dump", "--json"), "--from", f"{lines[-1]['ts']}ns")
    assert done.returncode == 0, repr(done)
    assert [json.loads(line) for line in done.stdout.splitlines()] == lines[-1:]
    assert done.stderr == ""


def test_times_in_the_wrong_order(me, folder):
    done = run(me, folder, ("dump",), "--from", "2ms", "--to", "1ms")
    assert done.returncode == 2, repr(done)
    assert "--to lies before --from" in done.stderr


@pytest.mark.parametrize(
    "command", [("dump",), ("graph",), ("hist",), TRIM, *EXPORTS], ids=" ".join
)
def test_a_thread_that_is_not_there(me, folder, command):
    done = run(me, folder, command, "--tid", "43")
    assert done.returncode == 1, repr(done)
    assert one_line(done) == ("iprobe: trace: no events of a thread 43; its threads are 41, 42")
    assert done.stdout == ""
    assert not (folder / "new").exists()


def test_a_process_that_is_not_there(me, folder):
    done = run(me, folder, TRIM, "--pid", "77")
    assert done.returncode == 1, repr(done)
    assert "no events of a process 77" in one_line(done)
    assert not (folder / "new").exists()
    for command in (("dump",), ("report",), ("graph",), ("hist",), TRIM, *EXPORTS):
        done = run(me, folder, command, "--process", "nginx*")
        assert done.returncode == 1, repr(done)
        assert "no process 'nginx*' in the trace; there is demo (1000)" in one_line(done)


@pytest.mark.parametrize(
    "command",
    [
        ("dump",),
        ("dump", "--json"),
        ("report",),
        ("report", "--json"),
        ("report", "--slowest", "3"),
        ("graph",),
        TRIM,
        *EXPORTS,
    ],
    ids=" ".join,
)
def test_functions_without_calls(me, folder, command):
    """The trace has the function, and might have had calls of it: that is no error."""
    done = run(me, folder, command, "-f", "idle")
    none = (
        "iprobe: trace: the options choose none of 8 events (iprobe report shows what was called)\n"
    )
    written = "iprobe: new: {} events, {} B\n" if command == TRIM else ""
    assert done.returncode == 0, repr(done)
    assert done.stderr == written.format(0, 0) + none
    if command == TRIM:
        shutil.rmtree(folder / "new")
    chosen = run(me, folder, command, "-f", "work")
    assert chosen.returncode == 0, repr(chosen)
    assert "none of" not in chosen.stderr and chosen.stderr.count("\n") == len(written) // 20
    if "--slowest" in command:
        assert done.stdout == "" and "work" in chosen.stdout


def test_values_that_no_call_has(me):
    trace = tracegen.Trace(hz=1_000_000_000)
    thread = trace.thread()
    signature = trace.signature("i4:status i4:t")
    for t in range(4):
        thread.call("answer", values=(signature, 0, [200, t]))
        thread.advance(1000)
        thread.ret()
    folder = me.dir()
    trace.write(folder / "trace")
    options = ("--value", "status=404", "--value", "t > 9")
    for command in (("report", "--slowest", "2"), ("dump",)):
        done = run(me, folder, command, *options)
        assert (done.returncode, done.stdout) == (0, ""), repr(done)
        assert done.stderr == (
            "iprobe: trace: the options choose none of 8 events; nothing meets 'status=404' and "
            "'t > 9' (iprobe report --by 'value:status' shows which values there are)\n"
        )
        done = run(me, folder, command, "--value", "status=200")
        assert done.stderr == "" and done.stdout.count("answer") >= 2
    done = run(me, folder, ("report", "--slowest", "2"), *options, "--json")
    assert json.loads(done.stdout)["slowest"] == []


def test_a_time_without_events(me, folder):
    done = run(me, folder, ("dump",), "--from", "10ms", "--to", "20ms")
    assert done.returncode == 0, repr(done)
    assert "; the recording lasts from 0 ns to 1.00 s (" in done.stderr
    assert done.stdout == ""


def test_a_trace_without_events(me):
    """There is nothing to choose from: nothing is said about options."""
    empty = me.dir()
    tracegen.Trace(hz=1_000_000_000).write(empty / "trace")
    done = run(me, empty, ("dump",))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), repr(done)
    done = run(me, empty, ("dump",), "--tid", "43")
    assert "no events of a thread 43, nor of any other" in one_line(done)
