# SPDX-License-Identifier: Apache-2.0
"""
iprobe syscalls PID and iprobe wait PID: a process that runs, without a trace; against what strace
counts of the same program.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter

import pytest

from iptest import actor as actors
from iptest.terminal import Terminal
from test_syscall_report import MADE, ROUNDS, play, until
from iptest.bpf import programs_of
from test_wait import instances, skip_without_events, source  # noqa: F401

POLL = 7  # poll(2)


@pytest.fixture
def traced(root, source):
    """An actor that may record kernel events, from each of their sources."""
    skip_without_events(root, source)
    return root


@pytest.fixture
def waiting(traced, programs):
    """The program, which waits for a line; it is no child of an iprobe."""
    (traced.top / "read").write_text("sixteen bytes of text")
    proc = traced.popen(
        [programs.simple("syscaller", placement="fentry"), str(ROUNDS), traced.top / "read"],
        stdin=subprocess.PIPE,
    )
    assert proc.stdout.readline() == "ready\n"
    return proc


def records(pid):
    """Whether an iprobe's instance of tracefs is on. It is made on, and off while it is set up. Of
    perf events, whether its last BPF programs are attached.
    """
    if os.environ["IPROBE_KERNEL_SOURCE"] == "perf":
        return programs_of(pid).count("r") >= 3
    files = ("events/raw_syscalls/sys_exit/enable", "tracing_on")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c"]
        + [
            f"mount -t tracefs none /mnt && cd /mnt/instances/iprobe-{pid}-* && cat "
            + " ".join(files)
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split() == ["1", "1"]


def watches(pid):
    """Whether its first thread waits for the end of what it counts: all processes are counted."""
    with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        return file.read().split()[0] == str(POLL)


def start(actor, *args):
    """Recording goes on with the first of several processes."""
    proc = actor.start_iprobe(*args)
    until(
        lambda: proc.poll() is not None or (records(proc.pid) and watches(proc.pid)),
        "it does not record",
    )
    assert proc.poll() is None, proc.stderr.read()
    return proc


def strace(actor, programs, rounds):
    """What strace -c counts: (calls, errors) by name."""
    out = actor.top / f"strace.{rounds}"
    proc = actor.popen(
        ["strace", "-c", "-f", "-o", out]
        + [programs.simple("syscaller", placement="fentry"), str(rounds), actor.top / "read"],
        stdin=subprocess.PIPE,
    )
    assert proc.stdout.readline() == "ready\n"
    play(proc)
    assert proc.wait(timeout=60) == 0, proc.stderr.read()
    calls, errors = Counter(), Counter()
    for line in out.read_text().splitlines():
        row = re.fullmatch(r" *[\d.]+ +[\d.]+ +\d+ +(\d+) +(\d+)? +(\w+)", line)
        if row and row[3] != "total":
            calls[row[3]] = int(row[1])
            errors[row[3]] = int(row[2] or 0)
    assert calls["getppid"] == 5 * rounds, out.read_text()
    return calls, errors


def test_counts_are_those_of_strace(traced, waiting, programs):
    proc = start(traced, "syscalls", "--json", waiting.pid)
    play(waiting)
    said = json.loads(actors.last_words(proc).stdout)
    assert said["kernel_lost"] == 0 and said["pid"] == waiting.pid and said["scheduler"]
    rows = {row["name"]: row for row in said["syscalls"]}
    all_calls, all_errors = strace(traced, programs, 2 * ROUNDS)
    calls, errors = strace(traced, programs, ROUNDS)
    made = {name for of_one, _ in MADE.values() for name in of_one}
    # what ROUNDS rounds make, the program's start left out
    for name in made:
        once = 1 if name == "openat" else 0  # open_file()
        end = 2 if name == "read" else 0  # the line before, and the end of the input
        assert rows[name]["calls"] == all_calls[name] - calls[name] + once + end, name
        assert rows[name]["errors"] == all_errors[name] - errors[name], name
        parts = sum(rows[name][p + "_ns"] for p in ("cpu", "runqueue", "blocked", "unknown"))
        assert abs(parts - rows[name]["total_ns"]) < 10 and not rows[name]["unknown_ns"]
    assert rows["openat"]["errors_by_name"] == {"ENOENT": 3 * ROUNDS, "ENOTDIR": ROUNDS}
    assert rows["read"]["errors_by_name"] == {"EBADF": 2 * ROUNDS}
    assert rows["read"]["earlier"] == 1  # it waited for its line
    assert rows["exit_group"]["open"] == 1 and rows["exit_group"]["calls"] == 0
    assert not {name for name in instances(proc.pid)}


def test_a_part_of_a_run(traced, programs):
    """It begins and ends at one moment for all tracepoints: each return has its entry."""
    (traced.top / "read").write_text("sixteen bytes of text")
    proc = traced.popen(
        [programs.simple("syscaller", placement="fentry"), "4000", traced.top / "read"],
        stdin=subprocess.PIPE,
    )
    assert proc.stdout.readline() == "ready\n"
    proc.stdin.write("\n")
    proc.stdin.flush()
    time.sleep(0.3)  # the thread that makes calls as fast as it can has ended
    for _ in range(3):
        done = traced.iprobe("syscalls", "--json", "--duration", "300ms", proc.pid)
        said = json.loads(done.stdout)
        assert said["kernel_lost"] == 0 and said["calls"] > 100, repr(done)
        rows = said["syscalls"]
        # of each of two threads, the call in which it begins may have no entry, and that in which
        # it ends has no return
        assert 0 <= sum(row["calls"] - row["timed"] - row["earlier"] for row in rows) <= 2, rows
        assert sum(row["earlier"] for row in rows) <= 2 >= sum(row["open"] for row in rows), rows
        assert not any(row["unknown_results"] for row in rows), rows


def test_interrupt_prints_the_table(traced, waiting):
    proc = start(traced, "syscalls", "-p", str(waiting.pid), "-e", "getppid,read")
    play_without_end(waiting)
    proc.send_signal(signal.SIGINT)
    done = actors.last_words(proc)
    assert done.returncode == 0 and not done.stderr, repr(done)
    assert done.stdout.startswith(f"# pid {waiting.pid}: ")
    assert re.search(rf" {5 * ROUNDS} +0  getppid$", done.stdout, re.M), done.stdout
    assert re.search(r"^Not returned: read 1 \(", done.stdout, re.M), done.stdout


def test_calls_that_are_begun_again_are_told(traced):
    """A stop breaks off a sleep, of which the program knows nothing."""
    sleeping = traced.popen(["sleep", "1000"])
    proc = start(traced, "syscalls", "-p", str(sleeping.pid))
    for _ in range(2):
        sleeping.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        sleeping.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    proc.send_signal(signal.SIGINT)
    done = actors.last_words(proc)
    sleeping.kill()
    sleeping.wait()
    told = re.findall(r"^(\d+) calls \(ERESTART\.\.\.\) were broken off", done.stdout, re.M)
    shown = re.findall(r"ERESTART_RESTARTBLOCK (\d+)", done.stdout)
    assert told and told == [str(sum(map(int, shown)))] == ["2"], repr(done)


def play_without_end(proc):
    proc.stdin.write("\n")
    proc.stdin.flush()
    assert proc.stdout.readline() == "done\n"


def test_list(traced, waiting):
    proc = start(traced, "syscalls", "--list", "-e", "openat", "-n", "5", str(waiting.pid))
    play_without_end(waiting)
    done = actors.last_words(proc)  # it ends behind the fifth
    assert done.returncode == 0 and not done.stderr, repr(done)
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert all(
        re.fullmatch(r"\d\d:\d\d:\d\d\.\d{6} \[\d+ syscaller\] openat\(.*\) = .* <0\.\d{9}>", line)
        for line in lines
    ), done.stdout
    assert [("ENOENT" in line, "ENOTDIR" in line) for line in lines] == [
        (False, False),
        *[(True, False)] * 3,
        (False, True),
    ]


def test_list_that_nobody_reads(traced, waiting):
    """The user can end it all the same, as with a pager that stands still."""
    reader, writer = full_pipe()
    proc = traced.start_iprobe("syscalls", "--list", waiting.pid, stdout=writer)
    os.close(writer)
    until(lambda: records(proc.pid) or proc.poll() is not None, "it does not record")
    play_without_end(waiting)
    proc.send_signal(signal.SIGTERM)
    assert proc.wait(timeout=30) == 1
    assert "nobody reads stdout" in proc.stderr.read()
    os.close(reader)
    assert not instances(proc.pid)


def test_screen(traced, waiting):
    terminal = Terminal(traced, "syscalls", "-e", "getppid", waiting.pid)
    try:
        until(lambda: records(terminal.pid), "it does not record")
        terminal.wait_text("q quit")
        assert terminal.alternate
        play_without_end(waiting)
        terminal.wait_text("getppid")
        terminal.press("q")
        code, said = terminal.wait_end()
        assert code == 0 and not said, said
        assert terminal.is_restored() and re.search(r" 30 +0  getppid$", terminal.text(), re.M)
    finally:
        terminal.close()


def test_killed(traced, waiting):
    proc = start(traced, "syscalls", waiting.pid)
    proc.kill()
    proc.wait()
    # any iprobe that records kernel events removes what it has left
    done = traced.iprobe("syscalls", "--duration", "1ms", waiting.pid)
    assert done.returncode == 0, repr(done)
    assert not instances(proc.pid)


def test_no_such_process(traced, waiting):
    kernel = 2
    over = threading.Event()
    thread = threading.Thread(target=over.wait, daemon=True)
    thread.start()
    for args, said in (
        (["999999999"], "no such process"),
        ([str(thread.native_id)], f"is a thread of process {os.getpid()}"),
        ([str(kernel)], "thread of the kernel"),
        (["-p", str(waiting.pid), str(thread.native_id)], "is a thread of process"),
        (["--duration", "1s", traced.top], "goes with a PID"),
        (["--duration", "0s", str(waiting.pid)], "a time above 0"),
    ):
        done = traced.iprobe("syscalls", *args)
        assert done.returncode in (1, 2) and said in done.stderr, repr(done)
        assert done.stderr.count("\n") == 1
    over.set()
    thread.join()


def test_without_the_right(traced, user, waiting):
    done = user.iprobe("syscalls", str(waiting.pid))
    assert done.returncode == 1 and done.stderr.count("\n") == 1, repr(done)


def test_functions_of_a_process(traced, waiting):
    """With -f it is recorded first; the recording is removed."""
    place = traced.dir()
    args = ["syscalls", "-f", "ask_parent", "--by", "function", "--json", str(waiting.pid)]
    proc = traced.start_iprobe(*args, env={"TMPDIR": str(place)})
    live_in(traced, waiting)
    play(waiting)
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    (row,) = json.loads(done.stdout)["syscalls"]
    assert (row["name"], row["function"], row["calls"]) == ("getppid", "ask_parent", 5 * ROUNDS)
    assert not list(place.iterdir())


def live_in(actor, waiting):
    """Until a session has made the probes live."""
    until(
        lambda: re.search(r"[1-9]\d* (of \d+ )?(sites? )?live", status(actor, waiting)),
        "not live: " + status(actor, waiting),
    )


def status(actor, waiting):
    return actor.iprobe("status", str(waiting.pid)).stdout


def test_wait_for_a_process(traced, waiting):
    place = traced.dir()
    env = {"TMPDIR": str(place)}
    # what a killed one has left goes away
    killed = traced.start_iprobe("wait", waiting.pid, env=env)
    until(lambda: list(place.glob("iprobe-recorded*/trace/kernel")), "no recording")
    killed.kill()
    killed.wait()
    (left,) = place.iterdir()
    assert traced.iprobe("detach", waiting.pid).returncode == 0
    proc = traced.start_iprobe("wait", "-f", "read_file", "--json", waiting.pid, env=env)
    live_in(traced, waiting)
    play(waiting)
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    (row,) = json.loads(done.stdout)["functions"]
    assert (row["function"], row["calls"]) == ("read_file", ROUNDS)
    assert row["blocked"][0]["kind"] == "timer"
    assert not left.exists() and not list(place.iterdir())


def test_what_stays_beside_the_recording(traced, waiting):
    """What only looks like a recording that was left, or is not ours to remove, stays."""
    place = traced.dir()
    end = "0123456789ab"
    names = ["", "-keep", ".keep", f".{end}c", f".{end.upper()}"]
    for name in (*names, f".a{end[1:]}", f".b{end[1:]}", f".c{end[1:]}", f".d{end[1:]}"):
        (place / f"iprobe-recorded{name}" / "trace").mkdir(parents=True)
    own, other, locked, left = (place / f"iprobe-recorded.{c}{end[1:]}" for c in "abcd")
    (own / "notes").write_text("of the user")
    os.chown(other, 65534, 65534)
    (place / f"iprobe-recorded.e{end[1:]}").symlink_to(own)
    before = set(place.iterdir())
    fd = os.open(locked, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    env = {"TMPDIR": str(place)}
    done = traced.iprobe("wait", "--duration", "1ms", "--json", waiting.pid, env=env)
    os.close(fd)
    assert done.returncode == 0, repr(done)
    assert set(place.iterdir()) == before - {left}
    assert (own / "notes").exists() and (own / "trace").exists()


def full_pipe():
    """Its two ends; who writes to it waits."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer


@pytest.mark.parametrize(
    "command,how",
    [("wait", "SIGINT"), ("wait", "SIGTERM"), ("wait", "SIGPIPE"), ("syscalls", "SIGINT")],
)
def test_report_that_is_ended(traced, waiting, command, how):
    """The recording is removed where the reader of a report leaves, or a signal ends it."""
    place = traced.dir()
    reader, writer = full_pipe()
    args = [command, "--duration", "1ms", waiting.pid]
    args[1:1] = ["--by", "function"] if command == "syscalls" else []
    proc = traced.start_iprobe(*args, env={"TMPDIR": str(place)}, stdout=writer)
    os.close(writer)
    until(lambda: blocks_in_write(proc.pid) or proc.poll() is not None, "no report")
    assert list(place.iterdir()), proc.stderr.read()
    if how == "SIGPIPE":
        os.close(reader)
        assert proc.wait(timeout=60) == 1
        assert "cannot write to stdout: Broken pipe" in proc.stderr.read()
    else:
        proc.send_signal(getattr(signal, how))
        assert proc.wait(timeout=60) == -getattr(signal, how)
        os.close(reader)
    assert not list(place.iterdir())


def blocks_in_write(pid):
    """Whether its first thread waits in a write to stdout."""
    with open(f"/proc/{pid}/syscall", encoding="ascii") as f:
        return f.read().startswith("1 0x1 ")


def test_wait_keeps_the_recording(traced, waiting):
    done = traced.iprobe(
        "wait", "--duration", "1ms", "-o", traced.top / "kept", "--json", waiting.pid
    )
    assert done.returncode == 0, repr(done)
    again = traced.iprobe("wait", "--json", traced.top / "kept")
    assert again.stdout == done.stdout
    for args, said in (
        (["999999999"], "no such process"),
        (["--duration", "1s", traced.top], "goes with a PID"),
    ):
        done = traced.iprobe("wait", *args)
        assert done.returncode in (1, 2) and said in done.stderr, repr(done)
