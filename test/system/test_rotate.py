# SPDX-License-Identifier: Apache-2.0
"""
--rotate: the newest --max-size bytes stay, in one directory that every reader opens; what went
is counted exactly; an iprobe that is killed at any step of it is gone on with.
"""

import bisect
import json
import re
import select
import signal

import pytest

from iptest import ctf, memory
from iptest.actor import last_words
from test_coarse import records, runs_of
from test_counting import own_counts
from test_resume import begin, check as check_resumed, counts_of, finish, kill

MIB = 1 << 20


def info_of(who, directory):
    done = who.iprobe("info", "--json", directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def pieces_of(directory):
    """Numbers of pieces that have files."""
    names = [
        re.fullmatch(r"stream-\d+-(\d+)(\.zst)?", path.name) for path in directory.glob("stream-*")
    ]
    assert names and all(names), sorted(directory.iterdir())
    return {int(name[1]) for name in names}


def size_of(directory):
    return sum(path.stat().st_size for path in directory.glob("stream-*"))


def counted(target):
    """Whether the program has come to its end."""
    return select.select([target.proc.stdout], [], [], 0)[0] and "counted"


def check(who, directory, summary, total, size, pieces):
    """The trace against what was said, and what the program counted."""
    assert summary["events"] + summary["rotated"] + summary["lost"] == 2 * total, summary
    assert summary["end"] != "size limit reached"
    there = pieces_of(directory)
    assert len(there) <= pieces and min(there) >= summary["rotated_pieces"]
    kept = size_of(directory)
    assert kept == summary["bytes"] <= size
    if summary["rotated"]:
        # a piece less, and the last packet that found no room in each
        assert kept > size * (pieces - 1) / pieces - pieces * 33000 - size / pieces * 0.1
        assert (
            summary["rotated_packets"] and summary["rotated_bytes"] and summary["kept_from_ns"] > 0
        )
    info = info_of(who, directory)
    for key in ("events", "lost", "rotated", "rotated_pieces", "rotated_packets", "rotated_bytes"):
        assert info[key] == summary[key], (key, info, summary)
    assert not info["damaged"]
    # it may have been reckoned by a frequency that was better known in the end
    assert (
        abs(info["kept_from_ns"] - summary["kept_from_ns"]) <= 1000 + summary["kept_from_ns"] / 1000
    )
    done = who.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    report = json.loads(done.stdout)
    assert (report["events"], report["lost"], report["rotated"]) == (
        summary["events"],
        summary["lost"],
        summary["rotated"],
    )
    if not list(directory.glob("*.zst")):
        seen, _ = ctf.read_events(directory)
        assert sum(seen.values()) == summary["events"]
    assert not (directory / "iprobe/journal").exists()
    return info


@pytest.mark.parametrize("threads,pieces,size", [(1, 2, MIB), (3, 4, MIB), (8, 8, 2 * MIB)])
def test_everything_is_accounted_for(actor, programs, threads, pieces, size):
    directory = actor.dir() / "trace"
    done = actor.iprobe(
        "run",
        "--json",
        "--rotate",
        pieces,
        "--max-size",
        size,
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-t",
        threads,
        "-n",
        600000 // threads,
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["rotated"] > 0
    check(actor, directory, summary, own_counts(done.stdout)[1], size, pieces)
    text = actor.iprobe("info", directory).stdout
    assert (
        "before them rotated away" in text
        and "everything is there that happened later than" in text
    )
    assert "before them rotated away" in actor.iprobe("report", directory).stdout


def test_compressed(me, programs):
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "--rotate",
        2,
        "--max-size",
        "512K",
        "--compress",
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-t",
        2,
        "-n",
        2000000,
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["rotated"] > 0
    check(me, directory, summary, own_counts(done.stdout)[1], MIB // 2, 2)


def test_nothing_goes_where_all_fits(me, programs):
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "--rotate",
        5,
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-t",
        2,
        "-n",
        2000,
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    calls, total = own_counts(done.stdout)
    assert (summary["rotated"], summary["rotated_packets"], summary["kept_from_ns"]) == (0, 0, 0)
    check(me, directory, summary, total, 1 << 30, 5)
    assert pieces_of(directory) == {0}
    report = json.loads(me.iprobe("report", "--json", directory).stdout)
    assert {f["function"]: f["calls"] for f in report["functions"]} == {
        f: n for f, n in calls.items() if n
    }


def test_it_is_the_newest_that_stays(me, programs):
    """One thread: the events are the last ones of the same program's whole trace."""
    said = []
    for options in [], ["--rotate", 3, "--max-size", "768K"]:
        directory = me.dir() / "trace"
        done = me.iprobe(
            "run", "--json", *options, "-o", directory, "--", programs.simple("count"), "-n", 100000
        )
        assert done.returncode == 0 and done.summary()["lost"] == 0, repr(done)
        dump = me.iprobe("dump", "--json", directory)
        assert dump.returncode == 0, repr(dump)
        said.append(
            [
                (e["event"], e["function"], e["ts"])
                for e in map(json.loads, dump.stdout.splitlines())
            ]
        )
    everything, newest = said
    summary = done.summary()
    assert len(newest) == summary["events"] and len(everything) == len(newest) + summary["rotated"]
    assert [e[:2] for e in newest] == [e[:2] for e in everything[-len(newest) :]]
    # nothing that happened later has gone: the first event that is there is not far from that
    # moment
    assert newest[0][2] <= summary["kept_from_ns"] * 1.001 + 1000


def test_what_readers_make_of_it(me, programs):
    """Calls that go over the border of two pieces are whole; all commands read a trace in
    pieces.
    """
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "--rotate",
        8,
        "--max-size",
        "2M",
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-t",
        2,
        "-n",
        150000,
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert len(pieces_of(directory)) > 4
    report = json.loads(me.iprobe("report", "--json", directory).stdout)
    # an exit for each entry, but for those whose entry has gone, a stack of them at most
    assert abs(2 * sum(f["calls"] for f in report["functions"]) - summary["events"]) <= 100
    for command in (["graph"], ["dump"], ["export", "--format", "folded"]):
        done = me.iprobe(*command, directory)
        assert done.returncode == 0 and done.stdout and not done.stderr, repr(done)
    copy = me.dir() / "copy"
    assert me.iprobe("trim", "-o", copy, directory).returncode == 0
    again = json.loads(me.iprobe("report", "--json", copy).stdout)
    assert again["functions"] == report["functions"] and again["rotated"] == summary["rotated"]
    parts = me.dir() / "part"
    assert me.iprobe("split", "--size", "256K", "-o", parts, directory).returncode == 0
    made = [info_of(me, part) for part in parts.parent.glob("part*")]
    assert len(made) > 2 and sum(part["events"] for part in made) == summary["events"]


def test_threads_that_have_ended(me, programs, targets):
    """Others have their streams: the packets of hundreds of threads go with their pieces."""
    target = targets.start(
        me, [programs.simple("churn", placement="fentry", extra=["-lrt"]), "lives", 1200, 500]
    )
    directory = me.dir() / "trace"
    proc = me.start_iprobe(
        "attach", target.pid, "--json", "--rotate", 4, "--max-size", "2M", "-o", directory
    )
    memory.wait_until_live(target.pid, proc)
    target.say()
    calls = counts_of(target)
    target.say()
    target.finish()
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["rotated"] > 0
    check(me, directory, summary, calls, 2 * MIB, 4)


def test_readers_while_it_goes_on(me, programs, targets):
    """They see a trace, or say in one line that what they read has gone."""
    target = targets.steady(me, programs.simple("steady"))
    directory = me.dir() / "trace"
    session = me.start_iprobe(
        "attach", target.pid, "--json", "--rotate", 4, "--max-size", "1M", "-o", directory
    )
    memory.wait_until_live(target.pid, session)
    memory.wait_for(
        "nothing is rotated away",
        lambda: (directory / "iprobe/pieces").stat().st_size > 8 * 256,
        60,
    )
    good = 0
    for _ in range(8):
        done = me.iprobe("info", "--json", directory)
        if done.returncode == 0:
            found = json.loads(done.stdout)
            assert found["events"] > 0 and found["rotated"] > 0 and not found["ended"]
            good += 1
        else:
            assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, repr(done)
            assert (
                "rotated away" in done.stderr or "changed while it was being read" in done.stderr
            ), repr(done)
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert info_of(me, directory)["rotated"] == done.summary()["rotated"]
    memory.assert_untouched(target.pid)
    target.finish()


def test_killed_in_a_rotation(me, programs, targets):
    """Before the table says that there is a new piece, before anything is removed, and in the
    middle of that: one after the other, in one recording.
    """
    target, directory, proc = begin(
        me, programs, targets, 200000, "--rotate", "3", "--max-size", "768K"
    )
    target.say()
    kill(proc)
    early = 0
    for call, when in (
        ("pwrite64", 2),
        ("unlinkat", 1),
        ("unlinkat", 2),
        ("pwrite64", 1),
        ("unlinkat", 5),
    ):
        # the table is written by pwrite64; files are removed by unlinkat, and by nothing else while
        # it records
        table = ["-P", directory / "iprobe/pieces"] if call == "pwrite64" else []
        strace = [
            "strace",
            "-o",
            "/dev/null",
            *table,
            f"--trace={call}",
            f"--inject={call}:signal=SIGKILL:when={when}",
        ]
        proc = me.popen(
            [*strace, me.iprobe_path, "attach", "--resume", target.pid, "-o", directory]
        )
        done = memory.wait_for(
            "nothing is rotated away", lambda: proc.poll() is not None or counted(target), 60
        )
        if done == "counted":
            break
        early += 1
        memory.wait_for("its iprobe does not end", lambda: not kill(proc), 30)
        # what is left over does not count, for readers that come now either
        found = info_of(me, directory)
        assert not found["ended"] and not found["damaged"]
        assert found["events"] * 8 <= 768 << 10
    assert early >= 2 and found["rotated"] > 0
    kill(proc)
    summary, total = finish(me, target, directory)
    assert summary["rotated"] >= found["rotated"]
    check_resumed(me, target, directory, summary, total)
    check(me, directory, summary, total, 768 << 10, 3)


def test_resumed_with_another_size(me, programs, targets):
    target, directory, proc = begin(
        me, programs, targets, 200000, "--rotate", "3", "--max-size", "2M"
    )
    target.say()
    memory.wait_for(
        "nothing is rotated away",
        lambda: (directory / "iprobe/pieces").stat().st_size >= 5 * 256,
        60,
    )
    kill(proc)
    done = me.iprobe("attach", "--resume", "--max-size", "100K", target.pid, "-o", directory)
    assert done.returncode == 1 and "256 KiB" in done.stderr, repr(done)
    proc = me.start_iprobe(
        "attach", "--resume", "--max-size", "768K", "--json", target.pid, "-o", directory
    )
    total = counts_of(target)
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    check(me, directory, done.summary(), total, 768 << 10, 3)


def test_notes_of_coarse_time_go_too(me, programs):
    """What is noted of its stamps is one line for all that was removed; events that are there
    have theirs.
    """
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "--time",
        "coarse",
        "--rotate",
        3,
        "--max-size",
        "768K",
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-t",
        2,
        "-r",
        400000,
        "-s",
        2,
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["rotated_pieces"] > 4
    check(me, directory, summary, own_counts(done.stdout)[1], 768 << 10, 3)
    runs = runs_of(directory)
    began = {
        int(line.split()[1]): int(line.split()[3])
        for line in (directory / "iprobe/pieces").read_text().splitlines()
    }
    early = began[summary["rotated_pieces"] - 1]
    assert runs[0][0] <= began[0] + (early - began[0]) // 10 and runs[1][1] >= early, (
        runs[:2],
        began,
    )
    begins = [run[0] for run in runs]
    for stream in directory.glob("stream-*"):
        for stamp, _, _ in records(stream):
            begin, end, _width = runs[bisect.bisect(begins, stamp) - 1]
            assert begin <= stamp <= end
    assert not list((directory / "iprobe").glob("*.new"))


@pytest.mark.parametrize(
    "options,why",
    [
        (["--rotate", "0"], "from 2 to 64"),
        (["--rotate", "1"], "from 2 to 64"),
        (["--rotate", "65"], "from 2 to 64"),
        (["--rotate", "-3"], "from 2 to 64"),
        (["--rotate", "4x"], "from 2 to 64"),
        (["--rotate", ""], "from 2 to 64"),
        (["--rotate"], "--rotate"),
        (["--rotate", "4", "--overwrite"], "one of them"),
        (["--rotate", "4", "--max-size", "1023K"], "256K"),
        (["--rotate", "4", "--resume"], "as it was begun"),
    ],
)
def test_usage(me, options, why):
    done = me.iprobe("attach", "1", *options)
    assert done.returncode == 2 and why in done.stderr, repr(done)


def test_a_damaged_table(me, programs):
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--rotate",
        2,
        "--max-size",
        "512K",
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-n",
        60000,
    )
    assert done.returncode == 0, repr(done)
    table = directory / "iprobe/pieces"
    text = table.read_bytes()
    for bad in (
        b"",
        b"x" * 256,
        text.replace(b"piece", b"price"),
        text[:256],
        b"\0" * 4096,
        text[256:],
    ):
        table.write_bytes(bad)
        done = me.iprobe("info", directory)
        assert done.returncode in (0, 1), repr(done)
        if done.returncode:
            assert len(done.stderr.splitlines()) == 1 and "iprobe/pieces" in done.stderr, repr(done)
    table.unlink()
    assert info_of(me, directory)["rotated"] > 0
