# SPDX-License-Identifier: Apache-2.0
"""What fperf prints: the table, on a terminal too, files, and JSON."""

import contextlib
import fcntl
import json
import os
import re
import signal
import struct
import termios

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.fperf import FAULTS, by_name, fperf_path, patched


def test_table(me, programs):
    done = me.run([fperf_path(me), "--", programs.simple("paging"), "-n", 20], input="\n\n")
    assert done.returncode == 0 and "PAGE-FAULTS" in done.stdout, repr(done)
    assert "samples in" in done.stderr


def test_output(me, programs, targets):
    """Where results cannot go nothing is counted for them, and what was there stays until there
    are new ones.
    """
    target = targets.start(me, [programs.simple("paging"), "-n", 10])
    kept = me.dir() / "kept"
    kept.write_text("earlier results, longer than what comes " * 1000, encoding="utf-8")
    if me.uid != os.getuid():
        os.chown(kept, me.uid, -1)
    run = [fperf_path(me), "-q", "--json", "--duration", "300ms", "-e", FAULTS]
    assert "/nowhere/at/all" in actors.one_line(
        me.run([*run, "-o", "/nowhere/at/all", "-p", target.pid])
    )
    assert "no such process" in actors.one_line(me.run([*run, "-o", kept, "-p", 2**22]))
    assert kept.read_text(encoding="utf-8").startswith("earlier")
    assert "no such process" in actors.one_line(
        me.run([*run, "-o", kept.parent / "new", "-p", 2**22])
    )
    assert not (kept.parent / "new").exists()
    assert "TMPDIR" in actors.one_line(
        me.run([*run, "-p", target.pid], env={"TMPDIR": "/nowhere/at/all"})
    )
    done = me.run([*run, "-o", kept, "-p", target.pid])
    assert (
        done.returncode == 0 and json.loads(kept.read_text(encoding="utf-8"))["functions"] == []
    ), repr(done)


def on_terminal(actor, columns, rows, args):
    """All that a command writes to a terminal of that size."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    proc = actor.popen(args, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    with contextlib.suppress(OSError):  # the other end is closed: it has ended
        while data := os.read(ours, 65536):
            written += data
    os.close(ours)
    assert proc.wait(60) == 0, written
    return written.decode().replace("\r\n", "\n")


def test_table_on_a_terminal(me, programs, targets):
    """The table while it counts goes back over just the lines that it has written: none is
    broken at the edge, none is scrolled away.
    """
    target = targets.start(me, [programs.simple("paging"), "-n", 20000, "-l"])
    proc = me.popen([fperf_path(me), "-q", "-p", target.pid, "-o", "/dev/null"])
    memory.wait_for(
        "fperf does not go live",
        lambda: proc.poll() is not None or patched(me, target.pid) > 0,
        60,
        0.05,
    )
    proc.send_signal(signal.SIGINT)
    assert actors.last_words(proc).returncode == 0
    target.say()
    written = on_terminal(me, 60, 7, [fperf_path(me), "-p", target.pid, "--duration", "2500ms"])
    pictures = [part.split("\033[") for part in written.split("\033[J")[1:-1]]
    assert pictures, written
    for text, back in pictures:
        lines = text.splitlines()
        assert len(lines) < 7 and max(map(len, lines)) < 60 and back == f"{len(lines)}F", (
            lines,
            back,
        )
    assert pictures[-1][0].splitlines()[1].startswith("function ")
    # one without room for a single function
    written = on_terminal(me, 60, 4, [fperf_path(me), "-p", target.pid, "--duration", "1500ms"])
    assert not re.search("\033\\[[0-9]+F", written) and "samples in" in written, written


def test_long_names(me, programs):
    """Each is told from the others, in a table whose columns stand below each other."""
    done = me.run([fperf_path(me), "-q", "--", programs.simple("long_names"), "100"])
    head, *rows = done.stdout.splitlines()
    assert done.returncode == 0 and len(rows) >= 3, repr(done)
    names = {row.split()[0] for row in rows}
    assert {
        "a_name_of_which_the_beginning_says_nothing_at_all_one",
        "a_name_of_which_the_beginning_says_nothing_at_all_two",
    } <= names, done.stdout
    assert len({len(row) for row in (head, *rows) if not row.startswith("---")}) == 1, done.stdout


UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
LINE = re.compile(
    r"--- (\d+) functions? with too few samples to tell \(wider than \+-50 %\): fewer functions "
    r"\(-f\), more \(--budget\), "
    r"or longer \(--duration\) ---"
)


def is_known(row, half=0.5):
    """Of a line of the table whose first event is a time: calls, and time per call. half: what the
    interval may be at most, as a share. The table rounds, so it is known to a hundredth only.
    """
    calls, times = re.fullmatch(
        r"\S+ +\d+ +(\S+(?: \+-\S+)?) +(-|\S+ [num]?s \+-(?:\?|\S+ [num]?s))", row
    ).groups()
    if calls.startswith("~") and (
        calls.endswith("?")
        or number(calls.split(" +-")[1]) > half * number(calls.split(" +-")[0][1:])
    ):
        return False
    if times == "-" or times.endswith("?"):
        return False
    mean, width = (float(word.split()[0]) * UNITS[word.split()[1]] for word in times.split(" +-"))
    return width <= max(half * mean, 200)  # as good as the clock is


def number(text):
    units = {"k": 1e3, "M": 1e6, "G": 1e9}
    return float(text.rstrip("kMG")) * units.get(text[-1], 1)


@pytest.mark.parametrize(
    "limit, guesses",
    [([], 10), (["-n", "0"], 100), (["-n", "12"], 100)],
    ids=["default", "all", "12 rows"],
)
def test_guesses_stand_below_a_line(me, programs, limit, guesses):
    """What few samples say of functions whose calls differ by a thousand is no more than that,
    however long they seem to take.
    """
    command = [
        fperf_path(me),
        "-q",
        "--budget",
        "0.05%",
        "-e",
        "perf::TASK-CLOCK",
        *limit,
        "--",
        programs.simple("wide"),
        200,
    ]
    done = me.run(command)
    assert done.returncode == 0, repr(done)
    _, *rows = done.stdout.splitlines()
    lines = [i for i, row in enumerate(rows) if row.startswith("---")]
    assert len(lines) == 1 and LINE.fullmatch(rows[lines[0]]), done.stdout
    few = int(LINE.fullmatch(rows[lines[0]]).group(1))
    known, below = rows[: lines[0]], rows[lines[0] + 1 :]
    more = int(below.pop().split()[0][1:]) if below[-1].startswith("(") else 0
    assert all(is_known(row, 0.51) for row in known), done.stdout
    assert not any(is_known(row, 0.49) for row in below), done.stdout
    most = int(limit[1]) if limit and limit[1] != "0" else 100
    assert (
        len(below) == min(few, guesses, most - len(known)) and len(known) + len(below) + more == 26
    ), done.stdout
    assert few >= 15, done.stdout


def test_json_says_what_is_known(me, programs):
    """All rows are in it, whatever -n says."""
    output = me.top / "known.json"
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--json",
            "-n",
            1,
            "-o",
            output,
            "--budget",
            "0.05%",
            "-e",
            FAULTS,
            "--",
            programs.simple("wide"),
            200,
        ]
    )
    functions = by_name(json.loads(output.read_text(encoding="utf-8")))
    assert done.returncode == 0 and len(functions) == 26, repr(done)
    for f in functions.values():
        counter = f["counters"].get(FAULTS)
        within = (
            counter
            and counter["ci95"] is not None
            and counter["ci95"] <= 0.5 * max(counter["per_call"], 1)
        )
        assert f["known"] == bool(
            within and f["calls_ci95"] is not None and f["calls_ci95"] <= 0.5 * f["calls"]
        ), f
    assert not functions["main"]["known"] and functions["main"]["samples"] == 0
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--json",
            "-o",
            output,
            "--budget",
            "none",
            "-e",
            FAULTS,
            "--",
            programs.simple("wide"),
            20,
        ]
    )
    functions = by_name(json.loads(output.read_text(encoding="utf-8")))
    assert done.returncode == 0 and {name for name, f in functions.items() if not f["known"]} == {
        "main"
    }, functions


def test_what_is_not_known_is_explained(me, programs):
    """A count of one sample has no interval; where each has one, nothing is said."""
    for calls, unsure in (("1", True), ("3000", False)):
        done = me.run(
            [
                *(fperf_path(me), "-f", "a_name*", "--budget", "none"),
                *("--", programs.simple("long_names"), calls),
            ]
        )
        assert done.returncode == 0 and ("+-?" in done.stdout) == unsure, repr(done)
        assert ("counts with +-? have too few samples" in done.stderr) == unsure, repr(done)
