# SPDX-License-Identifier: Apache-2.0
"""iprobe trim and split: a part of a trace says what the whole says about that part."""

import collections
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest.actor import one_line  # noqa: E402

SEEDS = [1, 2, 3]


@pytest.fixture
def folder(me):
    return me.dir()


def write(folder, seed, **how):
    trace = tracegen.random_trace(seed, **how)
    return trace, trace.write(folder / "trace")


def events(me, directory, *options):
    """What each thread did. Lines that were made up where a frame is gone (unwound) depend on
    what is seen of the rest.
    """
    lines = [
        json.loads(line)
        for line in me.iprobe("dump", "--json", *options, directory).stdout.splitlines()
    ]
    return [(l["tid"], l["ts"], l["event"], l["function"]) for l in lines if not l.get("unwound")]


def part(me, directory, command, *options):
    done = me.iprobe(command, "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)["parts"]


def size_of(directory):
    return sum(path.stat().st_size for path in pathlib.Path(directory).glob("stream-*"))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", [{}, {"skews": tracegen.SKEWS}], ids=["", "clocks"])
def test_all_of_it_is_the_same(me, folder, seed, how):
    trace, directory = write(folder, seed, **how)
    (whole,) = part(me, directory, "trim", "-o", folder / "part")
    assert whole["events"] == trace.events and whole["lost"] == trace.lost
    for command in ("dump", "report", "graph"):
        before, after = (json.loads(line) for line in ("{}", "{}"))
        before = me.iprobe(command, "--json", directory).stdout
        after = me.iprobe(command, "--json", folder / "part").stdout
        assert before and before == after, command


@pytest.mark.parametrize("seed", SEEDS)
def test_time(me, folder, seed):
    trace, directory = write(folder, seed)
    everything = events(me, directory)
    times = sorted(ts for _, ts, _, _ in everything)
    low, high = times[len(times) // 3], times[len(times) // 2]
    (some,) = part(
        me, directory, "trim", "--from", f"{low}ns", "--to", f"{high}ns", "-o", folder / "part"
    )
    wanted = [e for e in everything if low <= e[1] <= high]
    assert 0 < len(wanted) == some["events"] < len(everything)
    assert collections.Counter(events(me, folder / "part")) == collections.Counter(wanted)
    info = json.loads(me.iprobe("info", "--json", folder / "part").stdout)
    assert info["events"] == len(wanted)
    # once more, of the part
    middle = (low + high) // 2
    part(me, folder / "part", "trim", "--from", f"{middle}ns", "-o", folder / "smaller")
    assert collections.Counter(events(me, folder / "smaller")) == collections.Counter(
        e for e in wanted if e[1] >= middle
    )


def test_thread_function_depth(me, folder):
    trace, directory = write(folder, 4)
    everything = events(me, directory)
    tid = collections.Counter(e[0] for e in everything).most_common()[-1][0]
    part(me, directory, "trim", "--tid", tid, "-o", folder / "thread")
    assert events(me, folder / "thread") == [e for e in everything if e[0] == tid]
    name = collections.Counter(e[3] for e in everything).most_common(1)[0][0]
    part(me, directory, "trim", "-f", name, "-o", folder / "function")
    assert collections.Counter(events(me, folder / "function")) == collections.Counter(
        e for e in everything if e[3] == name
    )
    part(me, directory, "trim", "--depth", 2, "-o", folder / "depth")
    shallow = collections.Counter(events(me, directory, "--depth", 2))
    assert collections.Counter(events(me, folder / "depth")) == shallow and 0 < sum(
        shallow.values()
    ) < len(everything)


@pytest.mark.parametrize("newest", [[], ["--newest"]])
def test_size(me, folder, newest):
    trace, directory = write(folder, 5)
    everything = sorted(e[1] for e in events(me, directory))
    wanted = size_of(directory) // 2
    (some,) = part(me, directory, "trim", "--size", wanted, *newest, "-o", folder / "part")
    assert wanted // 2 < some["bytes"] == size_of(folder / "part") <= wanted
    times = sorted(e[1] for e in events(me, folder / "part"))
    assert times == (everything[-len(times) :] if newest else everything[: len(times)])


@pytest.mark.parametrize(
    "how",
    [["--every", "5us"], ["--size", "20k"], ["--by", "thread"], ["--by", "process"]],
    ids=lambda how: "".join(how),
)
def test_split(me, folder, how):
    trace, directory = write(folder, 6)
    if how[0] == "--every":  # some parts of it
        how = ["--every", f"{(events(me, directory)[-1][1]) // 7}ns"]
    elif how[0] == "--size":
        how = ["--size", str(size_of(directory) // 4)]
    parts = part(me, directory, "split", *how, "-o", folder / "p")
    assert len(parts) > (0 if how[1] == "process" else 2), parts
    assert (
        sum(p["events"] for p in parts) == trace.events
        and sum(p["lost"] for p in parts) >= trace.lost
    )
    together = collections.Counter()
    for p in parts:
        assert size_of(p["dir"]) == p["bytes"]
        if how[0] == "--size":
            assert p["bytes"] <= int(how[1])
        together += collections.Counter(events(me, p["dir"]))
    assert together == collections.Counter(events(me, directory))


def test_values_stay(me, folder):
    trace = tracegen.Trace()
    t = trace.thread()
    t.call("main")
    for i in range(3000):
        t.advance(50)
        t.call("leaf")
        t.advance(5)
        t.ret()
    directory = trace.write(folder / "trace")
    part(me, directory, "trim", "--from", "10us", "-o", folder / "part")
    assert events(me, folder / "part") == [e for e in events(me, directory) if e[1] >= 10000]


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="babeltrace2 is not installed")
def test_babeltrace2_reads_a_part_of_a_recording(me, folder, programs):
    program = programs.simple("count")
    done = me.iprobe("run", "-q", "-o", folder / "trace", "--", program, "-t", 2, "-n", 20000)
    assert done.returncode == 0, repr(done)
    count = len(events(me, folder / "trace"))
    (some,) = part(
        me,
        folder / "trace",
        "trim",
        "--size",
        size_of(folder / "trace") // 2,
        "-o",
        folder / "part",
    )
    assert 0 < some["events"] < count
    done = subprocess.run(
        ["babeltrace2", folder / "part"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == some["events"]


def test_what_is_there_stays(me, folder):
    trace, directory = write(folder, 1)
    (folder / "part").mkdir()
    done = me.iprobe("trim", "-o", folder / "part", directory)
    assert done.returncode == 1 and one_line(done) and "exists" in done.stderr
    assert not list((folder / "part").iterdir())
    (folder / "p.3").write_text("mine")
    done = me.iprobe("split", "--size", size_of(directory) // 4, "-o", folder / "p", directory)
    assert done.returncode == 1 and one_line(done), repr(done)
    assert (
        (folder / "p.3").read_text() == "mine"
        and not (folder / "p.1").exists()
        and not (folder / "p.2").exists()
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["trim", "--newest"],
        ["trim", "--from", "2s", "--to", "1s"],
        ["trim", "--depth", "0"],
        ["split"],
        ["split", "--every", "1s", "--size", "1M"],
        ["split", "--by", "function"],
        ["trim", "--size", "0"],
    ],
)
def test_usage(me, arguments):
    done = me.iprobe(*arguments)
    assert done.returncode == 2 and len(done.stderr.splitlines()) <= 2, repr(done)


def test_parts_stay_when_stdout_fails(me, folder):
    """They are whole; what could not be told about them is another matter."""
    directory = tracegen.random_trace(6).write(folder / "trace")
    done = me.run(
        [
            "sh",
            "-c",
            f"{me.iprobe_path} split --json --by thread -o {folder}/p {directory} > /dev/full",
        ]
    )
    assert done.returncode == 1 and "stdout" in done.stderr, repr(done)
    parts = list(folder.glob("p.*"))
    assert len(parts) == 4 and all(me.iprobe("info", p).returncode == 0 for p in parts)


def test_dense_moments_do_not_cost_readings(me, folder):
    """Many bursts, days apart: the trace is read a few times, not once for each of them."""
    trace = tracegen.Trace()
    t = trace.thread(capacity=4095)
    t.call("main")
    for _ in range(60):
        for _ in range(400):
            t.call("work")
            t.advance(3)
            t.ret()
        t.advance(trace.hz * 3600)
    t.ret()
    directory = trace.write(folder / "trace")
    size = size_of(directory) // 150
    log = folder / "strace"
    done = me.run(
        [
            "strace",
            "-f",
            "-e",
            "trace=openat",
            "-o",
            log,
            me.iprobe_path,
            "split",
            "--json",
            "--size",
            size,
            "-o",
            folder / "p",
            directory,
        ]
    )
    assert done.returncode == 0, repr(done)
    parts = json.loads(done.stdout)["parts"]
    assert all(p["bytes"] <= size for p in parts) and len(parts) >= 150
    assert sum(p["events"] for p in parts) == trace.events
    # a part takes one, for the trace's name; 128 of them are written in one
    readings = sum('/trace/stream-0"' in line for line in log.read_text().splitlines())
    assert readings <= len(parts) + 20, (readings, len(parts))
