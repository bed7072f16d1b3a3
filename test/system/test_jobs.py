# SPDX-License-Identifier: Apache-2.0
"""Views with -j: what they say does not depend on how many threads read, also of traces that are
damaged.
"""

import json
import os
import shutil

import pytest

from iptest.actor import one_line
from test_wait import skip_without_events

VIEWS = [
    ["report"],
    ["report", "--json"],
    ["report", "--csv"],
    ["report", "--by", "module"],
    ["graph", "--json"],
    ["graph", "--by", "thread"],
    ["graph", "--fold"],
    ["graph", "--bottom-up"],
    ["hist", "--json"],
    ["hist", "--over-time"],
    ["export", "--format", "folded"],
    ["export", "--format", "callgrind"],
    ["export", "--format", "html", "-o", "-"],
]
# most views are made of the same sums: of damaged traces these tell all
FEW = [["report", "--json"], ["graph", "--json"], ["hist", "--json"]]


@pytest.fixture(scope="module", params=["plain", "compressed"])
def good_trace(request, top, builddir, programs):
    """Each thread has a stream with more bytes than a part of a trace has at least."""
    from conftest import make_actor

    who = make_actor("root" if os.getuid() == 0 else "user", top, builddir)
    directory = who.dir() / "trace"
    options = ["--compress"] if request.param == "compressed" else []
    program = programs.simple("count")
    done = who.iprobe(
        "run",
        *options,
        "-o",
        directory,
        "--",
        program,
        "-b",
        "-t",
        "5",
        "-n",
        "100000",
        timeout=120
    )
    assert done.returncode == 0, repr(done)
    yield directory
    who.cleanup()


def say_the_same(me, trace, views):
    """Returns what the last view says."""
    for view in views:
        first = me.iprobe(*view, "-j", "1", trace, timeout=120)
        assert first.stdout, first
        for jobs in (["-j", "7"], []):
            done = me.iprobe(*view, *jobs, trace, timeout=120)
            assert done.returncode == first.returncode, (view, done)
            assert done.stdout == first.stdout and done.stderr == first.stderr, view
    return first


def test_any_number_of_threads(me, good_trace):
    assert len(list(good_trace.glob("stream-*"))) >= 5
    # 8 bytes each: a part of a trace has a megabyte at least
    assert json.loads(me.iprobe("info", "--json", good_trace).stdout)["events"] > 1 << 18
    assert say_the_same(me, good_trace, VIEWS).returncode == 0


@pytest.mark.parametrize("damage", ["cut", "word", "packet", "gone"])
def test_damaged(me, good_trace, damage):
    trace = me.dir() / "trace"
    shutil.copytree(good_trace, trace)
    streams = sorted(trace.glob("stream-*"))
    for place, stream in enumerate(streams[1:4]):
        bytes_ = bytearray(stream.read_bytes())
        middle = len(bytes_) // (2 + place) // 8 * 8
        if damage == "cut":
            bytes_ = bytes_[: middle + 5]
        elif damage == "word":
            bytes_[middle : middle + 8] = b"\x05\xff\xff\xff\xff\xff\xff\xff"
        elif damage == "packet":
            bytes_[middle : middle + 4096] = bytes(4096)
        stream.write_bytes(bytes_)
        if damage == "gone":
            stream.unlink()
    assert say_the_same(me, trace, FEW).returncode == 0


def test_failure_of_one(me, good_trace):
    """What one thread finds ends the command, as one line."""
    trace = me.dir() / "trace"
    shutil.copytree(good_trace, trace)
    stream = sorted(trace.glob("stream-*"))[2]
    stream.write_bytes(b"no stream of iprobe at all" * 8)
    for jobs in ("1", "4"):
        assert stream.name in one_line(me.iprobe("report", "-j", jobs, trace))


# what these say of events of the kernel
KERNEL_VIEWS = [
    ["wait", "--json"],
    ["wait", "--tree"],
    ["wait", "--locks", "--json"],
    ["wait", "--of", "graph_run", "--json"],
    ["wait", "--by", "client", "--json"],
    ["syscalls", "--json"],
    ["syscalls", "--list"],
    ["syscalls", "--by", "function", "--json"],
    ["export", "--format", "html", "-o", "-"],
    ["export", "--format", "folded", "--off-cpu", "-o", "-"],
]


def test_events_of_the_kernel(root, programs):
    skip_without_events(root)
    trace = root.dir() / "trace"
    program = programs.simple("wait_graph", placement="fentry")
    record = ["run", "-q", "--kernel", "--kernel-buffer", "64M", "-o", trace, "--"]
    done = root.iprobe(*record, program, "3", "10", root.dir() / "log", timeout=60)
    assert done.returncode == 0, repr(done)
    assert len(list((trace / "kernel").glob("all_*"))) > 1 or os.cpu_count() == 1
    assert say_the_same(root, trace, KERNEL_VIEWS).returncode == 0
    stream = max((trace / "kernel").glob("target_*"), key=lambda path: path.stat().st_size)
    os.truncate(stream, stream.stat().st_size - 9)
    done = say_the_same(root, trace, [["syscalls", "--json"]])
    assert stream.name in done.stderr and "is cut off" in done.stderr, repr(done)


@pytest.mark.parametrize("jobs", ["0", "-1", "x", "2x", ""])
def test_no_number(me, jobs):
    done = me.iprobe("report", "-j", jobs)
    assert done.returncode == 2 and "no number of threads" in done.stderr, repr(done)
    assert "all are shown" not in done.stderr
