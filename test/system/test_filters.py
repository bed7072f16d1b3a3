# SPDX-License-Identifier: Apache-2.0
"""
What is left out of a recording, held against a program that knows its calls: recorded + lost +
filtered is exactly what happened, what is kept is balanced, and an independent CTF reader finds
it too.
"""

import collections
import json

import pytest

from iptest import ctf

PLACEMENTS = ["fentry", "instrument"]


@pytest.fixture(params=PLACEMENTS)
def program(request, programs):
    return programs.simple("filtered", placement=request.param)


@pytest.fixture
def fentry(programs):
    return programs.simple("filtered", placement="fentry")


Recorded = collections.namedtuple("Recorded", "entries exits events summary own total said")

JUMPED = {"thrower"}  # left by longjmp: no exit


def record(me, program, *options, args=()):
    """Runs it; what is in the trace, after the checks that hold whatever is left out."""
    directory = me.dir() / "trace"
    done = me.iprobe("run", "--json", "-o", directory, *options, "--", program, *args)
    assert done.returncode == 0, repr(done)
    own, total = {}, None
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:1] == ["function"]:
            own[words[1]] = int(words[2])
        elif words[:1] == ["calls"]:
            total = int(words[1])
    summary = done.summary()
    seen, warnings = ctf.read_events(directory)
    entries = collections.Counter({f: n for (e, _, f), n in seen.items() if e == "func_entry"})
    exits = collections.Counter({f: n for (e, _, f), n in seen.items() if e == "func_exit"})
    assert summary["lost"] == 0 and "discarded" not in warnings.lower()
    assert summary["events"] == sum(entries.values()) + sum(exits.values())
    happened = 2 * total - own["thrower"]
    if summary["end"] != "stopped by --stop-on":
        if "-f" not in options:
            assert summary["events"] + summary["filtered"] == happened, (summary, own)
        for function in own:
            if function not in JUMPED:
                assert entries[function] == exits[function], function
    for function, n in entries.items():
        assert n <= own[function]
    events = [
        json.loads(line) for line in me.iprobe("dump", "--json", directory).stdout.splitlines()
    ]
    assert not [e for e in events if e.get("orphan")]
    report = json.loads(me.iprobe("report", "--json", directory).stdout)
    assert {f["function"]: f["calls"] for f in report["functions"]} == dict(entries)
    return Recorded(entries, exits, events, summary, own, total, done)


def test_depth(me, program):
    r = record(me, program, "--depth", "2", args=["-d", "2000"])
    assert r.entries["level1"] == r.entries["level2"] == 10
    assert "level3" not in r.entries and "level4" not in r.entries
    assert r.entries["down"] == 20 and r.own["down"] == 20000
    assert r.entries["thrower"] == 10  # of 30
    assert max(e["depth"] for e in r.events) == 1


def test_min_duration(me, program):
    r = record(me, program, "--min-duration", "1ms")
    # two milliseconds, and their callers; others only where the machine held them up for a
    # millisecond
    assert r.entries["slow"] == r.entries["outer"] == 10
    assert sum(n for f, n in r.entries.items() if f not in ("slow", "outer")) < 40
    spans = [e for e in r.events if e["event"] == "exit" and not e.get("unwound")]
    assert all(e["duration_ns"] >= 1000000 for e in spans)
    # in the order of time, and each inside of its caller
    assert [e["ts"] for e in r.events] == sorted(e["ts"] for e in r.events)
    assert all(e["depth"] == 1 for e in r.events if e["function"].startswith("slow"))


def test_sample(me, program):
    r = record(me, program, "--sample", "4")
    for function, n in r.own.items():
        assert r.entries[function] == (n + 3) // 4, function


@pytest.mark.parametrize(
    "options,filter_text,note",
    [
        (["--sample", "4"], "sample 4", "a part of all"),
        (["--depth", "2"], "depth 2", "deeper calls"),
        (["--min-duration", "1us"], "min-duration 1us", "shorter calls"),
        (["--thread", "*"], None, None),
    ],
)
def test_views_tell_what_filters_mean(me, fentry, options, filter_text, note):
    """The self time of a caller has that of callees which were not recorded."""
    directory = me.dir() / "trace"
    done = me.iprobe("run", "-o", directory, *options, "--", fentry)
    assert done.returncode == 0, repr(done)
    views = [me.iprobe(view, directory).stdout for view in ("report", "graph")]
    views.append(me.iprobe("export", "--format", "folded", directory).stderr)
    for text in views:
        lines = [line for line in text.splitlines() if "--" in line and "recorded" in line]
        assert len(lines) == (note is not None), text
        assert note is None or (f"--{filter_text}: " in lines[0] and note in lines[0]), text
    report = json.loads(me.iprobe("report", "--json", directory).stdout)
    assert not filter_text or report["filters"] == [filter_text]


def test_sample_of_some(me, fentry):
    r = record(me, fentry, "--sample", "5:level*", "--sample", "3:quick")
    for function, n in r.own.items():
        every = 5 if function.startswith("level") else 3 if function == "quick" else 1
        assert r.entries[function] == (n + every - 1) // every, function


def test_start_on(me, program):
    r = record(me, program, "--start-on", "level1:4")
    assert r.events[0]["function"].startswith("level1") and r.events[0]["event"] == "entry"
    assert r.entries["level1"] == 7 and r.entries["begin"] == 6 and r.entries["finish"] == 7


def test_stop_on(me, fentry):
    r = record(me, fentry, "--stop-on", "slow:3", args=["-n", "60"])
    assert r.summary["end"] == "stopped by --stop-on"
    assert r.entries["slow"] == 3 and r.exits["slow"] == 2 and r.entries["begin"] == 3
    assert r.own["slow"] == 60


def test_what_matches_nothing_is_told(me, fentry):
    """One line each; what matches goes unmentioned."""
    r = record(
        me,
        fentry,
        "--sample",
        "2:level4,leaf7nowhere",
        "--thread",
        "filt*,nob?dy",
        args=["-n", "4"],
    )
    said = r.said.stderr.splitlines()
    assert (
        sum("--sample" in line for line in said) == 1
        and sum("--thread" in line for line in said) == 1
    ), said
    assert any(
        "no function" in line and "leaf7nowhere" in line and "level4" not in line for line in said
    ), said
    assert any(
        "no thread" in line and "nob?dy" in line and "filt*" not in line for line in said
    ), said


def test_triggers_are_recorded_too(me, fentry):
    r = record(me, fentry, "-f", "level4", "--start-on", "begin:3")
    assert r.entries == {"begin": 8, "level4": 8}


def test_thread_by_name(me, fentry):
    r = record(me, fentry, "--thread", "oth*", args=["-t", "-n", "60"])
    tids = {e["tid"] for e in r.events}
    assert len(tids) == 1
    # from when its name was seen on; to the end
    assert 0 < r.entries["finish"] <= 60 and r.own["finish"] == 120


@pytest.mark.parametrize(
    "options",
    [
        ["--depth", "2", "--min-duration", "1ms"],
        ["--depth", "1", "--sample", "2"],
        ["--sample", "2", "--min-duration", "1ms"],
        ["--start-on", "begin:5", "--min-duration", "1ms"],
        ["--start-on", "begin:5", "--depth", "3"],
        ["--depth", "3", "--callsite"],
        ["--min-duration", "1ms", "--callsite"],
        ["--thread", "filtered", "--sample", "3"],
        ["--when", "x & 1"],
        ["--when", "level2: x & 1", "--args", "level3(x)"],
        ["--when", "x & 1", "--min-duration", "1ms"],
    ],
    ids=" ".join,
)
def test_pairs(me, fentry, options):
    r = record(me, fentry, *options, args=["-n", "30", "-t"])
    assert r.summary["events"] > 0 and r.summary["filtered"] > 0 or "--callsite" in options
    if "1ms" in options:
        assert all(
            e["duration_ns"] >= 1000000
            for e in r.events
            if e["event"] == "exit" and not e.get("unwound")
        )
    if "--depth" in options:
        assert max(e["depth"] for e in r.events) < int(
            options[1] if options[0] == "--depth" else options[3]
        )


@pytest.mark.parametrize(
    "options", [["--depth", "2"], ["--min-duration", "100us"], ["--sample", "3"]], ids=" ".join
)
def test_signals(me, program, options):
    r = record(me, program, *options, args=["-n", "100", "-s", "-t"])
    assert r.own["handled"] > 100
    assert [e["ts"] for e in r.events] == sorted(e["ts"] for e in r.events) or len(
        {e["tid"] for e in r.events}
    ) > 1


def test_signals_and_conditions(me, fentry):
    """A handler that comes while a hook works is queued with what its condition says."""
    r = record(me, fentry, "--when", "x & 1", args=["-n", "100", "-s", "-t"])
    assert r.own["handled"] > 100
    for name in ("level1", "level2", "level3", "level4"):
        assert r.entries[name] == r.exits[name] < r.own[name], name


def test_told(me, fentry):
    """The summary, the trace's info, and what is refused."""
    directory = me.dir() / "trace"
    done = me.iprobe("run", "-o", directory, "--depth", "1", "--", fentry)
    assert done.returncode == 0 and " events filtered" in done.stderr
    session = (directory / "iprobe" / "session").read_text()
    assert "filter\tdepth 1\n" in session and "\nfiltered\t" in session
    done = me.iprobe("info", directory)
    assert (
        "filter     depth 1\n" in done.stdout
        and "selection  all\n" in done.stdout
        and "\npayload" not in done.stdout
    )
    info = json.loads(me.iprobe("info", "--json", directory).stdout)
    assert (
        info["filters"] == ["depth 1"]
        and info["selections"] == [""]
        and info["payloads"]["log"] == info["functions"]
    )
    for options, what in (
        (["--depth", "0"], "--depth"),
        (["--sample", "x"], "--sample"),
        (["--tid", "1,b"], "--tid"),
        (["--start-on", ":3"], "name"),
        (["--min-duration", "1ms", "--args"], "--args"),
    ):
        done = me.iprobe("run", "-o", directory, *options, "--", fentry)
        assert done.returncode == 2 and what in done.stderr, repr(done)
    done = me.iprobe("run", "-o", directory, "--start-on", "nowhere", "--", fentry)
    assert done.returncode == 1 and "--start-on nowhere" in done.stderr
