# SPDX-License-Identifier: Apache-2.0
"""
iprobe is killed while it records, again and again, and `iprobe attach --resume` goes on each
time: every event of a program that counts its own calls is in the trace once, or counted as
lost. Kills come after a random time, and by strace at a write of a packet or of the journal.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import time

import pytest

from iptest import actor as actors
from iptest import area, ctf, memory
from iptest.actor import last_words, one_line

FULL = os.environ.get("IPROBE_TEST_FULL") == "1"
SECONDS = 5
THREADS = 3


def counts_of(target):
    """The program's own count of its calls, once it has come to its end."""
    for line in target.proc.stdout:
        if line.startswith("calls "):
            return int(line.split()[1])
    raise AssertionError(f"the target died: {target.proc.wait()}")


def begin(actor, programs, targets, rate, *options):
    target = targets.start(
        actor,
        [
            programs.simple("count", opt="-O0"),
            "-w",
            "-t",
            str(THREADS),
            "-r",
            str(rate),
            "-s",
            str(SECONDS),
        ],
    )
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe("attach", target.pid, "-o", directory, *options)
    is_live(actor, target)
    return target, directory, proc


def is_live(actor, target):
    def patched():
        done = actor.iprobe("status", target.pid, "--json")
        return done.returncode == 0 and json.loads(done.stdout)["patched"] > 0

    memory.wait_for("the probes do not go live", patched, 60)


def kill(proc):
    """And the iprobe that it runs, where it is strace: that would live on."""
    early = proc.poll() is None
    children = pathlib.Path(f"/proc/{proc.pid}/task/{proc.pid}/children")
    below = children.read_text().split() if early else []
    proc.kill()
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    actors.end(proc)
    for pid in below:
        memory.wait_for(
            f"{pid} does not end", lambda pid=pid: not os.path.exists(f"/proc/{pid}/exe"), 10
        )
    return early


def listens(proc):
    """Whether SIGINT would end it properly by now."""
    with contextlib.suppress(OSError):
        status = pathlib.Path(f"/proc/{proc.pid}/status").read_text()
        return int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> signal.SIGINT - 1 & 1
    return True


def finish(actor, target, directory):
    """The last resume, to the program's own end; the summary."""
    proc = actor.start_iprobe("attach", "--resume", target.pid, "--json", "-o", directory)
    total = counts_of(target)
    # what it has counted is in its rings by now: any end of the session drains them
    memory.wait_for("iprobe does not catch SIGINT", lambda: listens(proc), 30, 0.01)
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    return done.summary(), total


def plain(actor, directory):
    """The trace, or where it is compressed a copy that is not."""
    if not list(directory.glob("stream-*.zst")):
        return directory
    copy = actor.dir() / "plain"
    done = actor.iprobe("trim", "-o", copy, directory)
    assert done.returncode == 0, repr(done)
    return copy


def check(actor, target, directory, summary, total):
    assert summary["events"] + summary["lost"] + summary.get("rotated", 0) == 2 * total, summary
    seen, _ = ctf.read_events(plain(actor, directory))
    assert sum(seen.values()) == summary["events"]
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    report = json.loads(done.stdout)
    assert (report["events"], report["lost"]) == (summary["events"], summary["lost"])
    # of the whole recording, not of its last part
    assert summary["threads"] == THREADS or summary["lost"] or "rotated" in summary, summary
    assert 0 < summary["resumed_ns"] < summary["duration_ns"] - 50_000_000, summary
    apart = abs(summary["duration_ns"] - report["duration_ns"])
    assert apart < 50_000_000 or "rotated" in summary, (summary, report["duration_ns"])
    if not summary["lost"] and not summary.get("rotated"):
        assert sum(f["calls"] for f in report["functions"]) == total
    assert not os.path.exists(directory / "iprobe/journal")
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def kill_often(actor, programs, targets, kills, seed, *options):
    rng = random.Random(seed)
    target, directory, proc = begin(actor, programs, targets, 100000, *options)
    target.say()
    early = 0
    end = time.monotonic() + SECONDS
    while early < kills and time.monotonic() < end:
        time.sleep(rng.uniform(0.01, 2 * SECONDS / 3 / kills))
        early += kill(proc)
        if rng.random() < 0.5:
            proc = actor.start_iprobe("attach", "--resume", target.pid, "-o", directory)
            continue
        # at the write of a packet (writev) or of the journal (pwrite64), or where an old piece is
        # removed, before or after it
        call, when = rng.choice(
            ["writev", "pwrite64"] + ["unlinkat"] * ("--rotate" in options)
        ), rng.randint(1, 12)
        proc = actor.popen(
            [
                "strace",
                "-o",
                "/dev/null",
                f"--trace={call}",
                f"--inject={call}:signal=SIGKILL:when={when}",
                actor.iprobe_path,
                "attach",
                "--resume",
                target.pid,
                "-o",
                directory,
            ]
        )
        actors.end(proc) if proc.poll() else None
    assert early >= min(kills, 3), f"only {early} kills came while iprobe was at work"
    kill(proc)
    check(actor, target, directory, *finish(actor, target, directory))


def test_killed_and_resumed(me, programs, targets):
    kill_often(me, programs, targets, 10, seed=1)


def test_killed_and_resumed_compressed(me, programs, targets):
    """Packets that were on their way to the press are taken again."""
    kill_often(me, programs, targets, 10, 7, "--compress")


ROTATE = ["--rotate", "4", "--max-size", "1M"]


def test_killed_and_resumed_while_it_rotates(me, programs, targets):
    kill_often(me, programs, targets, 10, 8, *ROTATE)


WAYS = [
    (2, []),
    (3, []),
    (4, ["--compress"]),
    (5, ["--compress"]),
    (6, ROTATE),
    (7, ["--rotate", "2", "--max-size", "512K", "--compress"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "actor,seed,options",
    [
        (who, seed, options)
        for seed, options in WAYS
        for odd, who in enumerate(("root", "user"))
        if FULL or seed % 2 == odd
    ],
    indirect=["actor"],
)
def test_killed_and_resumed_often(actor, programs, targets, seed, options):
    """Each way as root and as an ordinary user; by IPROBE_TEST_FULL=1 each seed as both, and
    more often.
    """
    kill_often(actor, programs, targets, 24 if FULL else 16, seed, *options)


def test_rings_that_fill_up_are_counted(actor, programs, targets):
    """Nobody drains for longer than the rings last: the rest is lost, and counted."""
    target, directory, proc = begin(actor, programs, targets, 400000, "--memory", "1M")
    kill(proc)
    target.say()
    total = counts_of(target)
    proc = actor.start_iprobe("attach", "--resume", target.pid, "--json", "-o", directory)
    memory.wait_for("no packet is written", lambda: os.path.exists(directory / "stream-0"), 60)
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["lost"] > 0 and summary["events"] > 0
    check(actor, target, directory, summary, total)


def test_resumed_behind_an_exec(me, programs, targets):
    """The session has followed its target into another image, under another number, when its
    iprobe is killed.
    """
    target = targets.start(me, [programs.simple("exec_next")])
    directory = me.dir() / "trace"
    proc = me.start_iprobe(
        "attach", target.pid, "--follow-exec", "-f", "step*", "-q", "-o", directory
    )
    is_live(me, target)
    time.sleep(0.1)
    before = memory.segment_bias(target.pid, target.program)
    target.proc.stdin.write("x")
    target.proc.stdin.flush()
    assert target.proc.stdout.readline() == "ready\n"
    assert memory.segment_bias(target.pid, target.program) != before
    is_live(me, target)
    memory.wait_for(
        "the exec is not in the trace",
        lambda: "\nagain\t" in (directory / "iprobe" / "session").read_text(),
        30,
    )
    kill(proc)
    done = me.iprobe(
        "attach", "--resume", target.pid, "--json", "--duration", "300ms", "-o", directory
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    events = [
        json.loads(line) for line in me.iprobe("dump", "--json", directory).stdout.splitlines()
    ]
    assert len(events) == summary["events"] > 0
    info = json.loads(me.iprobe("info", "--json", directory).stdout)
    exec_at = info["execs"][0]["ts"]
    assert {event["ts"] > exec_at for event in events} == {False, True}
    assert {event["function"] for event in events} == {"step"}
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize("when", [3, 2])
def test_killed_while_it_moves_to_another_image(me, programs, targets, when):
    """When the new area has a session and the journal does not say so; and just before that."""
    target = targets.start(me, [programs.simple("exec_next")])
    # so that the session's number there is another one
    for _ in range(2):
        assert (
            me.iprobe(
                "attach", target.pid, "-q", "--duration", "10ms", "-o", me.dir() / "other"
            ).returncode
            == 0
        )
    directory = me.dir() / "trace"
    # of a function that is not called again nothing is written: the journal is made, told of the
    # number that comes, and told that it came
    proc = me.popen(
        [
            "strace",
            "-f",
            "-o",
            "/dev/null",
            "-P",
            directory / "iprobe/journal",
            "--trace=pwrite64",
            f"--inject=pwrite64:signal=SIGKILL:when={when}",
            me.iprobe_path,
            "attach",
            target.pid,
            "--follow-exec",
            "-f",
            "work",
            "-q",
            "-o",
            directory,
        ]
    )
    is_live(me, target)
    target.proc.stdin.write("x")
    target.proc.stdin.flush()
    assert target.proc.stdout.readline() == "ready\n"
    proc.wait(timeout=60)
    memory.wait_for("its iprobe does not end", lambda: not kill(proc), 30)
    memory.assert_untouched(target.pid)
    done = me.iprobe("attach", "--resume", "--json", target.pid, "-o", directory)
    if when == 3:
        assert done.returncode == 0 and done.summary()["end"] == "interrupted", repr(done)
        assert not os.path.exists(directory / "iprobe/journal")
    else:
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, repr(done)
    assert me.iprobe("info", directory).returncode == 0
    done = me.iprobe("attach", target.pid, "-q", "--duration", "50ms", "-o", me.dir() / "another")
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    target.finish()


def test_refusals(actor, programs, targets):
    target, directory, proc = begin(actor, programs, targets, 1000)
    done = actor.iprobe("attach", "--resume", target.pid, "-o", directory)
    assert done.returncode == 1 and "session already" in done.stderr, repr(done)
    # a second recording does not take the directory of one that goes on
    other = targets.start(actor, [programs.simple("count", opt="-O0"), "-w"])
    done = actor.iprobe("attach", other.pid, "--duration", "10ms", "-o", directory)
    assert done.returncode == 1 and "another iprobe" in done.stderr, repr(done)
    memory.assert_untouched(other.pid)
    kill(proc)
    done = actor.iprobe("attach", "--resume", target.pid, "-o", actor.dir())
    assert done.returncode == 1 and "broken off" in done.stderr, repr(done)
    done = actor.iprobe("attach", "--resume", "-f", "leaf", target.pid, "-o", directory)
    assert done.returncode == 2, repr(done)
    done = actor.iprobe("attach", "--resume", other.pid, "-o", directory)
    assert done.returncode == 1, repr(done)
    # an attach of its own puts the sites back, says what would have been, and records anew
    done = actor.iprobe("attach", target.pid, "--duration", "10ms", "-o", directory)
    assert done.returncode == 0 and "--resume" in done.stderr, repr(done)
    done = actor.iprobe("attach", "--resume", target.pid, "-o", directory)
    assert done.returncode == 1 and "broken off" in done.stderr, repr(done)
    memory.assert_untouched(target.pid)


def test_the_directory_is_found(actor, programs, targets):
    """Without -o, wherever --resume is typed; and it is the recording that was broken off."""
    target, directory, proc = begin(actor, programs, targets, 1000)
    kill(proc)
    elsewhere = actor.dir()
    proc = actor.start_iprobe("attach", "--resume", target.pid, "--json", cwd=elsewhere)
    memory.wait_for("it does not listen", lambda: listens(proc), 30)
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0 and done.summary()["dir"] == str(directory), repr(done)
    assert not os.listdir(elsewhere)
    memory.assert_untouched(target.pid)


def test_a_directory_that_the_target_names(me, programs, targets):
    """What lies in the area is a hint: a directory that others may write to is not taken."""
    target, directory, proc = begin(me, programs, targets, 1000)
    kill(proc)
    directory.chmod(0o777)
    done = me.iprobe("attach", "--resume", target.pid, cwd=me.dir())
    assert f"-o {directory}" in one_line(done), repr(done)
    directory.chmod(0o755)
    # what the target may have written instead: nothing of it is taken
    mapped = area.mapped(target.pid)
    at = area.offsets()["TRACE"] + 8
    said = bytes(mapped[at : at + 1000])
    assert said.partition(b"\0")[0] == str(directory).encode()
    for forged in (str(me.dir()), "/", "/dev/null", "trace", "x" * 1000, "", "/../" * 250):
        mapped[at : at + 1000] = forged.encode().ljust(1000, b"\0")
        done = me.iprobe("attach", "--resume", target.pid, cwd=me.dir())
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, repr(done)
    # a link of /proc leads to what the process has open, whatever its text says: here it is true
    for way in ("self/root", f"{target.pid}/root", "self/cwd"):
        forged = f"/proc/{way}{directory}".replace("cwd/", "cwd/" + "../" * 30)
        mapped[at : at + 1000] = forged.encode().ljust(1000, b"\0")
        done = me.iprobe("attach", "--resume", target.pid, "--duration", "50ms", cwd=me.dir())
        assert f"-o {forged}" in one_line(done), repr(done)
    mapped[at : at + 1000] = said
    done = me.iprobe("attach", "--resume", target.pid, "--duration", "50ms", cwd=me.dir())
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)


def recorder_left_behind(actor, programs, targets):
    """A flight recorder whose iprobe is killed; its threads live, and write over their events."""
    options = ["--overwrite", "--memory", "1M", "-q"]
    target, directory, proc = begin(actor, programs, targets, 400000, *options)
    target.say()
    time.sleep(0.5)
    kill(proc)
    return target, directory


def account(summary):
    return summary["events"] + summary["lost"] + summary["overwritten"]


def test_a_flight_recorder_goes_on(me, programs, targets):
    """Nothing of threads that live is missing in the sums; snapshots are to be had again, also when
    the iprobe was killed while it wrote one.
    """
    target, directory = recorder_left_behind(me, programs, targets)
    done = me.iprobe("snapshot", target.pid)
    assert f"iprobe attach --resume {target.pid} goes on with it" in one_line(done), repr(done)
    strace = ["strace", "-f", "-o", "/dev/null", "--trace=writev"]
    proc = me.popen(
        [
            *strace,
            "--inject=writev:signal=SIGKILL:when=2",
            *(me.iprobe_path, "attach", "--resume", target.pid, "-q", "-o", directory),
        ]
    )
    memory.wait_for("it is not killed", lambda: snapshot(me, target) and proc.poll(), 30)
    kill(proc)
    proc = me.start_iprobe("attach", "--resume", target.pid, "--json", "-o", directory)
    memory.wait_for("no snapshot is to be had", lambda: snapshot(me, target) == 0, 30)
    total = counts_of(target)
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0 and "flight recorder goes on" in done.stderr, repr(done)
    summary = done.summary()
    assert account(summary) == 2 * total and summary["overwritten"] > 0, (summary, total)
    assert summary["threads"] == THREADS, summary
    seen, _ = ctf.read_events(directory)
    assert sum(seen.values()) == summary["events"] > 0
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def snapshot(actor, target):
    done = actor.iprobe("snapshot", "--json", "-o", actor.dir() / "snapshot", target.pid)
    return done.returncode


def test_a_flight_recorder_that_was_being_saved(me, programs, targets):
    """The iprobe is killed at a packet of the end: what was written stays, the rest is lost, and
    told; nothing is live.
    """
    target, directory = recorder_left_behind(me, programs, targets)
    proc = me.popen(
        [
            *("strace", "-f", "-o", "/dev/null", "--trace=writev"),
            "--inject=writev:signal=SIGKILL:when=3",
            *(me.iprobe_path, "attach", "--resume", target.pid, "-q", "-o", directory),
            *("--duration", "100ms"),
        ]
    )
    proc.wait(timeout=60)
    kill(proc)
    done = me.iprobe("attach", "--resume", target.pid, "-o", directory)
    assert "was killed while it wrote at the end" in one_line(done), repr(done)
    assert f"written by then is in {directory}" in done.stderr
    info = json.loads(me.iprobe("info", "--json", directory).stdout)
    assert info["events"] > 0 and not info["ended"], info
    done = me.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    # and it is recorded anew
    done = me.iprobe("attach", target.pid, "-q", "--duration", "50ms", "-o", me.dir() / "another")
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
