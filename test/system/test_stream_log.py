# SPDX-License-Identifier: Apache-2.0
"""A live log (--stream): what it has when all was killed, cut or damaged, and what reaches it."""

import json
import os
import pathlib
import random
import signal
import stat
import struct
import time

import pytest

from iptest import actor as actors
from iptest.actor import one_line
from iptest.stream_log import FUNCTIONS, attach, last, summary_of, target  # noqa: F401

SOURCE = pathlib.Path(__file__).resolve().parents[2]
KEPT = 1 << 20
NOTE = struct.Struct("<4Q")
NOTE_SIZE = 8 * (4 + KEPT)
HEADER = struct.Struct("<4I5Q2I")


def batches(data):
    """[(offset, size)] of the batches in a whole log."""
    found, at = [], 0
    while at < len(data):
        magic, _, size = struct.unpack_from("<3I", data, at)
        assert magic == 0x474C5049 and size % 8 == 0
        found.append((at, size))
        at += size
    assert at == len(data)
    return found


def command_of(pid):
    """The command that iprobe run has started: one of its children is its guard."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = [c for c in children if "last_calls" in os.readlink(f"/proc/{c}/exe")]
    assert len(found) == 1, children
    return int(found[0])


class Truth:
    """What a thread of last_calls has noted."""

    def __init__(self, data, index):
        self.tid, self.begun, self.ended, self.hangs = NOTE.unpack_from(data, index * NOTE_SIZE)
        times = struct.unpack_from(f"<{KEPT}Q", data, index * NOTE_SIZE + NOTE.size)
        # the newest calls, the oldest of them first
        n = min(self.begun, KEPT)
        self.first = self.begun - n
        self.times = [times[i % KEPT] for i in range(self.first, self.begun)]

    def begun_before(self, tsc):
        return self.first + sum(t < tsc for t in self.times)


def killed(me, program, threads, gap, directory, seconds):
    """Records last_calls, and kills it together with iprobe. Returns notes and log."""
    notes, log = directory / "notes", directory / "log"
    options = ["--stream", log, "-f", FUNCTIONS, "-o", directory / "trace", "--clock", "tsc"]
    proc = me.start_iprobe("run", "-q", *options, "--", program, notes, threads, gap)
    try:
        assert proc.stdout.readline() == "ready\n", proc.stderr.read()
        command = command_of(proc.pid)
        pids = [command, proc.pid]
        time.sleep(random.uniform(0.02, seconds))
        random.shuffle(pids)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    finally:
        actors.end(proc)
    deadline = time.monotonic() + 20
    while pathlib.Path(f"/proc/{command}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return notes.read_bytes(), log


def check_thread(found, truth, pauses):
    """The log is complete where it says so, and has nothing that did not happen. Returns how many
    calls of step() it lacks. pauses: there are some, and calls of hang() between those of step().
    """
    mine = [t for t in found["threads"] if t["tid"] == truth.tid]
    promised = truth.begun_before(found["complete_tsc"])
    if not mine:
        # iprobe was killed before it could tell of the thread
        assert promised <= 1, (promised, found)
        return truth.begun
    assert len(mine) == 1
    thread = mine[0]
    assert thread["thread"] is None or thread["thread"].startswith(("worker-", "last_calls"))
    opened = [call["function"] for call in thread["open"]]
    calls = [call["function"] for call in thread["calls"] if call["end"] != "unfinished"]
    if thread["ended"]:
        # iprobe lived on for a moment, and has seen the end of the program
        ended = [call for call in thread["calls"] if call["end"] == "unfinished"]
        assert not opened
        opened = [call["function"] for call in sorted(ended, key=lambda call: call["depth"])]
    if found["dropped"] or found["lost"]:
        assert (thread["records"] - 1) / 2 <= truth.begun
        return truth.begun
    assert opened in (["work"], ["work", "step"], ["work", "hang"]), thread
    assert thread["records"] % 2 == len(opened) % 2
    steps = (thread["records"] - 1 + opened.count("step")) // 2
    if pauses:
        assert thread["records"] == 2 * len(calls) + len(opened)
        steps = calls.count("step") + opened.count("step")
    assert steps <= truth.begun, "calls that never were"
    # of the last call before that time only the note may have been made
    if not thread["behind_words"]:
        assert steps >= promised - 1, (steps, promised, truth.begun, found)
    return truth.begun - steps


@pytest.mark.parametrize("times", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_together(me, programs, times):
    """Nothing that happened before the time of the end mark is missing, at whatever moment the
    program and iprobe were killed.
    """
    program = programs.simple("last_calls")
    missing = []
    for i in range(times):
        directory = me.dir()
        notes, log = killed(me, program, 2, 1500, directory, 0.6)
        found = last(me, log, "-n", "10000")
        assert not found["dropped"] and not found["lost"]
        # killed first, the program may have been seen to end
        assert found["end"] in (None, "target ended")
        for k in range(2):
            missing.append(check_thread(found, Truth(notes, k), True))
    # the log is no more than the last moment behind
    assert sorted(missing)[len(missing) // 2] <= 20, missing


def test_killed_at_full_speed(me, programs):
    """Where more happens than can be written, the log says how much it lacks."""
    program = programs.simple("last_calls")
    for i in range(4):
        notes, log = killed(me, program, 2, 0, me.dir(), 0.5)
        found = last(me, log)
        for k in range(2):
            check_thread(found, Truth(notes, k), False)


@pytest.fixture
def log(me, target):
    """A whole log, and what it says."""
    path = me.dir() / "log"
    summary_of(attach(me, target, path))
    return path


def test_to_the_end(me, target, log):
    found = last(me, log)
    assert found["end"] and found["pid"] == target.pid and found["tail_bytes"] == 0
    assert not found["dropped"] and not found["lost"] and not found["missing_batches"]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    named = {thread["thread"]: thread for thread in found["threads"]}
    assert {"worker-0", "worker-1"} <= set(named), found
    for name in ("worker-0", "worker-1"):
        opened = named[name]["open"]
        # it was in work() before the attach
        assert opened[0]["function"] == "work" and opened[0]["earlier"] and not named[name]["ended"]
        ends = [call["start_ns"] + call["duration_ns"] for call in named[name]["calls"]]
        assert ends == sorted(ends) and len(ends) == 10
    text = me.iprobe("last", "-n", "2", log)
    assert text.returncode == 0 and "worker-1" in text.stdout, repr(text)
    assert "since before the recording" in text.stdout
    assert text.stdout.count("ended ") == 4


def test_cut_anywhere(me, log):
    """Each whole batch is read, and nothing of the one behind it."""
    data = log.read_bytes()
    found = batches(data)
    cuts = [at + k for at, size in found[-3:] for k in (0, 1, 63, 64, size - 1)]
    cuts += random.sample(range(found[1][0], len(data)), 40)
    part, before = me.dir() / "part", None
    for cut in sorted(cuts):
        part.write_bytes(data[:cut])
        whole = [at + size for at, size in found if at + size <= cut]
        told = last(me, part)
        assert told["batches"] == len(whole) and told["tail_bytes"] == cut - whole[-1]
        assert told["damaged_bytes"] == 0 and told["missing_batches"] == 0
        now = (told["records"], told["complete_tsc"])
        assert before is None or (now[0] >= before[0] and now[1] >= before[1])
        before = now
    assert one_line(me.iprobe("last", me.dir()))
    part.write_bytes(data[: found[0][1] - 1])
    assert "not a live log" in one_line(me.iprobe("last", part))
    part.write_bytes(b"")
    assert "not a live log" in one_line(me.iprobe("last", part))
    part.write_bytes(data[found[0][1] :])
    assert "its beginning is missing" in one_line(me.iprobe("last", part))


def test_damaged_within(me, log):
    """A batch that is damaged is left out and told; those behind it are read."""
    data = bytearray(log.read_bytes())
    found = batches(data)
    whole = last(me, log)
    part = me.dir() / "part"
    for at, size in (found[len(found) // 2], found[-2]):
        damaged = bytearray(data)
        damaged[at + size // 2] ^= 0x10
        part.write_bytes(damaged)
        told = last(me, part)
        assert told["missing_batches"] == 1 and told["damaged_bytes"] == size
        assert told["batches"] == whole["batches"] - 1
        assert told["complete_tsc"] == whole["complete_tsc"]
    # what an earlier log has left on a device is no part of this one
    other = bytearray(data)
    number = HEADER.unpack_from(other, found[-1][0])
    part.write_bytes(data[: found[-4][0]] + bytes(64) + data[found[-1][0] :])
    assert last(me, part)["missing_batches"] == 3
    HEADER.pack_into(other, found[-1][0], *number[:4], number[4] ^ 1, *number[5:])
    part.write_bytes(other)
    assert last(me, part)["batches"] == whole["batches"] - 1


def test_silence_has_an_end_mark(me, programs, targets):
    """Where nothing happens, the log tells that nothing has happened."""
    target = targets.start(me, [programs.simple("held_call")])
    path = me.dir() / "log"
    proc = me.start_iprobe(
        *("attach", target.pid, "-q", "--stream", path, "--stream-interval", "5ms"),
        *("-f", "held", "-o", me.dir() / "trace"),
    )

    def grown(size):
        deadline = time.monotonic() + 30
        while not path.exists() or path.stat().st_size <= size:
            assert time.monotonic() < deadline and proc.poll() is None, proc.stderr.read()
            time.sleep(0.005)
        return path.stat().st_size

    grown(grown(0))
    target.say()
    time.sleep(0.5)
    grown(grown(path.stat().st_size))
    proc.kill()
    actors.end(proc)
    found = last(me, path)
    opened = [call for thread in found["threads"] for call in thread["open"]]
    assert [call["function"] for call in opened] == ["held"]
    assert found["interval_ns"] == 5000000
    # it has been open up to the last end mark, not only when it began
    assert opened[0]["open_ns"] >= 400000000, found
    assert me.iprobe("detach", target.pid).returncode == 0


def test_usage(me, target):
    for options, why in (
        (["--stream", ""], "needs a FILE"),
        (["--stream", "-"], "needs a FILE"),
        (["--stream", "host:0"], "a port is"),
        (["--stream", "host:65536"], "a port is"),
        (["--stream", "device:sdb"], "named by its path"),
        (["--stream-interval", "20ms"], "add that option"),
        (["--stream", "x", "--stream-interval", "20us"], "from 1ms to 10s"),
        (["--stream", "x", "--overwrite"], "--overwrite"),
        (["--stream", "x", "--min-duration", "1ms"], "holds entries back"),
    ):
        done = me.iprobe("attach", target.pid, *options)
        assert done.returncode == 2 and why in done.stderr, repr(done)
    done = me.iprobe("attach", target.pid, target.proc.pid, "--stream", "x", "-p", "1")
    assert done.returncode in (1, 2), repr(done)
    for arguments in ([], ["a", "b"], ["-n", "x", "a"], ["-n", "10001", "a"]):
        assert me.iprobe("last", *arguments).returncode == 2


def test_forked_children_and_ends(me, programs, targets):
    """Threads of children are told by their process; what has ended is told as ended."""
    program = programs.simple("forking")
    path = me.dir() / "log"
    done = me.iprobe(
        *("run", "--json", "--follow-fork", "--stream", path, "-o", me.dir() / "trace"),
        *("--", program),
        input="",
    )
    summary = json.loads(done.stdout.splitlines()[-1])
    found = last(me, path)
    assert found["records"] == summary["events"] > 0
    assert all(thread["ended"] for thread in found["threads"]), found


@pytest.mark.slow
def test_a_machine_that_stops(root, programs):
    """A machine ends without warning: what the serial line has taken names the call that hung."""
    if os.environ.get("IPROBE_CHECK", "").startswith("other-kernel"):
        pytest.skip("this is such a machine")
    program, directory = programs.simple("held_call"), root.dir()
    script = directory / "script"
    script.write_text(
        f"(echo; sleep 600) | {root.iprobe_path} run -q -f held -o /run/trace "
        f"--stream device:/dev/ttyS1 -- {program} &\n"
        "sleep 15; echo now it stops; sleep 600\n"
    )
    log = directory / "serial"
    done = root.run(
        [SOURCE / "scripts" / "in-kernel", "--timeout", 300, "--serial", log]
        + ["--kill-at", "now it stops", "--", "sh", script],
        timeout=400,
    )
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, repr(done)
    found = last(root, log)
    assert found["end"] is None and not found["dropped"] and not found["missing_batches"]
    opened = [call for thread in found["threads"] for call in thread["open"]]
    assert [call["function"] for call in opened] == ["held"], found
    assert opened[0]["open_ns"] > 1000000000, found


@pytest.mark.parametrize(
    "options",
    [
        ["--time", "coarse"],
        ["--clock", "monotonic"],
        ["--args"],
        ["--callsite"],
        ["--depth", "2"],
        ["--compress"],
        ["--payload", "count:work"],
        ["--no-stop"],
        ["--sample", "3"],
    ],
)
def test_whatever_is_recorded(me, target, options):
    """Each event that reaches the trace reaches the log, whichever way it was recorded."""
    path = me.dir() / "log"
    summary = summary_of(attach(me, target, path, *options))
    assert summary["events"] > 0 and summary["stream"]["dropped"] == 0
    found = last(me, path)
    assert found["records"] == summary["events"] and found["end"]
