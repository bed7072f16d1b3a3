# SPDX-License-Identifier: Apache-2.0
"""What iprobe dump leaves out, on traces whose calls are known (test/tracegen.py)."""

import json
import os
import pathlib
import pty
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest.actor import one_line  # noqa: E402


def dump(me, directory, *options):
    done = me.iprobe("dump", "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def trace(me):
    return tracegen.random_trace(4).write(me.dir() / "trace")


def paired(lines):
    """{index of a line: duration of its call in ns, None where it did not end}"""
    durations, stacks = {}, {}
    for i, line in enumerate(lines):
        stack = stacks.setdefault(line["tid"], [])
        if line["event"] == "entry":
            del stack[line["depth"] :]
            stack.append(i)
            durations[i] = None
        elif line["event"] == "exit" and not line.get("orphan"):
            durations[stack.pop()] = durations[i] = line["duration_ns"]
            del stack[line["depth"] :]
    return durations


def test_time_and_depth(me, trace):
    lines = dump(me, trace)
    middle = lines[len(lines) // 2]["ts"]
    assert dump(me, trace, "--from", f"{middle}ns") == [l for l in lines if l["ts"] >= middle]
    assert dump(me, trace, "--to", f"{middle}ns") == [l for l in lines if l["ts"] <= middle]
    assert dump(me, trace, "--depth", "2") == [l for l in lines if l["depth"] < 2]
    some = dump(
        me,
        trace,
        "--from",
        f"{middle // 2}ns",
        "--to",
        f"{middle}ns",
        "--depth",
        "3",
        "-f",
        "!leaf",
    )
    assert some == [
        l
        for l in lines
        if middle // 2 <= l["ts"] <= middle and l["depth"] < 3 and l["function"] != "leaf"
    ]


def test_calls_that_last(me, trace):
    lines = dump(me, trace)
    durations = paired(lines)
    shown = dump(me, trace, "--min-duration", "20us")
    assert 10 < len(shown) < len(lines)
    # a call that had not ended lasts until the thread does: longer than all that is asked for here,
    # or not
    ended = [
        l for i, l in enumerate(lines) if durations.get(i) is not None and durations[i] >= 20_000
    ]
    open_calls = [l for i, l in enumerate(lines) if i in durations and durations[i] is None]
    assert [l for l in shown if l not in open_calls] == ended


def test_around_slow_calls(me):
    """A call of one thread is slow now and then: what both threads did meanwhile is shown, and
    nothing else.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    a, b = trace.thread(0), trace.thread(1, stack=tracegen.STACK - (1 << 24))
    a.call("serve")
    b.call("compact")
    for i in range(30):
        a.call("query")
        trace.now += 50_000
        if i in (7, 21):
            b.call("rewrite")
            trace.now += 12_000_000
            b.ret()
        a.ret()
        trace.now += 5_000_000
    a.ret()
    b.ret()
    directory = trace.write(me.dir() / "trace")
    lines = dump(me, directory)
    shown = dump(me, directory, "--around", "query", "--slower-than", "10ms", "--margin", "1us")
    assert [(l["tid"], l["event"], l["function"], l.get("slow")) for l in shown] == 2 * [
        (1000, "entry", "query", True),
        (1001, "entry", "rewrite", None),
        (1001, "exit", "rewrite", None),
        (1000, "exit", "query", True),
    ]
    assert [{k: v for k, v in l.items() if k != "slow"} for l in shown] == [
        l
        for l in lines
        if l["function"] == "rewrite"
        or l["function"] == "query"
        and any(abs(l["ts"] - r["ts"]) < 100_000 for r in lines if r["function"] == "rewrite")
    ]
    # the margin takes in the calls next to them
    wider = dump(me, directory, "--around", "que*", "--slower-than", "10ms", "--margin", "6ms")
    assert (
        len([l for l in wider if l["function"] == "query"]) == 2 * 2 * 3
        and len(wider) == len(shown) + 8
    )
    done = me.iprobe("dump", "--around", "query", "--slower-than", "10ms", directory)
    assert (
        done.returncode == 0 and done.stderr == "iprobe: 2 calls slower than 10.0 ms, in 2 places\n"
    )
    text = done.stdout
    assert (
        text.count("\n--\n") == 1
        and text.count("(slow)") == 2
        and "} query  12.1 ms  (slow)\n" in text
    )
    assert "lasts longer than 1.00 s" in one_line(
        me.iprobe("dump", "--around", "query", "--slower-than", "1s", directory)
    )
    one_line(me.iprobe("dump", "--around", "nothing", "--slower-than", "1s", directory))


@pytest.mark.parametrize(
    "args",
    [
        ["--around", "x"],
        ["--slower-than", "1ms"],
        ["--depth", "0"],
        ["--from", "soon"],
        ["--around", "", "--slower-than", "1ms"],
    ],
    ids=" ".join,
)
def test_wrong_usage(me, args):
    assert me.iprobe("dump", *args).returncode == 2


# time, thread and its name, which has a column of its own where several threads have names
HEAD = r"^ *\d+\.\d{9} +(?:\d+ +)?(\d+)(?: .{15})?  "
PRETTY = re.compile(HEAD + r"((?:\| )*)(\S.*)$")
PLAIN = re.compile(HEAD + r"( *)(\S.*)$")


def pretty_lines(text):
    """[(tid, depth, text)] of what stands on a terminal."""
    found = [PRETTY.match(line) for line in text.splitlines()]
    assert all(found), text[:2000]
    return [(int(m[1]), len(m[2]) // 2, m[3]) for m in found]


@pytest.fixture
def calls(me):
    """A trace without jumps over frames."""
    return tracegen.random_trace(5, jumps=False).write(me.dir() / "trace")


def test_a_line_for_each_event(me, calls):
    """What scripts read does not change: in a pipe, and with --plain."""
    done = me.iprobe("dump", calls)
    assert done.returncode == 0 and done.stdout == me.iprobe("dump", "--plain", calls).stdout
    lines, events = done.stdout.splitlines(), dump(me, calls)
    assert len(lines) == len(events) > 100
    for line, event in zip(lines, events):
        parts = PLAIN.match(line)
        assert parts and event["function"] in line and int(parts[1]) == event["tid"], line
        assert parts[3].startswith("} ") == (event["event"] == "exit"), line
        assert line.endswith(" {") == (event["event"] == "entry"), line
        assert len(parts[2]) == 2 * event["depth"], line


def test_pretty_lines(me, calls):
    """A call in which nothing is shown is one line; the others have guides."""
    events = dump(me, calls)
    done = me.iprobe("dump", "--pretty", calls)
    assert done.returncode == 0, repr(done)
    lines = pretty_lines(done.stdout)
    assert "\x1b" not in done.stdout
    wanted, last = [], {}
    for event in events:
        tid, depth, name = event["tid"], event["depth"], event["function"]
        if event["event"] == "entry":
            wanted.append([tid, depth, f"{name}() {{"])
            last[tid] = (wanted[-1], depth)
        elif event["event"] == "exit":
            opened = last.pop(tid, None)
            if opened and opened[1] == depth and not event.get("orphan"):
                opened[0][2] = f"{name}();  "
            else:
                wanted.append([tid, depth, f"}} {name}"])
        else:
            last.pop(tid, None)
            wanted.append([tid, depth, name])
    assert len(lines) == len(wanted) < len(events)
    leaves = 0
    for (tid, depth, text), (wanted_tid, wanted_depth, start) in zip(lines, wanted):
        assert (tid, depth) == (wanted_tid, wanted_depth) and text.startswith(start), text
        leaves += ";  " in start
    assert leaves > 10


def test_a_long_call_is_two_lines(me):
    """More happens in other threads before its end than waits to be printed."""
    recorded = tracegen.Trace(hz=1_000_000_000)
    a, b = recorded.thread(0), recorded.thread(1, stack=tracegen.STACK - (1 << 24))
    a.call("long")
    for _ in range(2000):
        b.call("leaf")
        recorded.now += 100
        b.ret()
        recorded.now += 100
    a.ret()
    done = me.iprobe("dump", "--pretty", recorded.write(me.dir() / "trace"))
    texts = [text for _, _, text in pretty_lines(done.stdout)]
    assert texts[0] == "long() {" and texts[-1].startswith("} long  ")
    assert sum(text.startswith("leaf();  ") for text in texts) == 2000 == len(texts) - 2


def test_on_a_terminal(me, calls):
    """Pretty and dim there, unless --plain or NO_COLOR is given."""
    plain = me.iprobe("dump", calls).stdout
    for options, env, dim in [([], {}, True), ([], {"NO_COLOR": "1"}, False), (["--plain"], {}, 0)]:
        mine, other = pty.openpty()
        with me.popen([me.iprobe_path, "dump", *options, calls], stdout=other, env=env) as proc:
            os.close(other)
            said = b""
            while part := read(mine):
                said += part
            assert proc.wait() == 0
        os.close(mine)
        text = said.decode().replace("\r\n", "\n")
        assert (b"\x1b[2m| " in said) == bool(dim) and (b"\x1b" in said) == bool(dim)
        assert (text == plain) == (options == ["--plain"])
        assert ("();  " in text) == (not options)


def read(fd):
    try:
        return os.read(fd, 65536)
    except OSError:  # the other end is closed
        return b""
