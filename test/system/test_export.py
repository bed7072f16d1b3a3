# SPDX-License-Identifier: Apache-2.0
"""iprobe export: what other viewers get, against the same trace's dump and graph, and read by
the viewers' own tools.
"""

import collections
import gzip
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest.actor import one_line  # noqa: E402

SEEDS = [1, 2]
TRACES = pytest.mark.parametrize(
    "made",
    [{"seed": seed} for seed in SEEDS] + [{"seed": 1, "skews": tracegen.SKEWS}],
    ids=["1", "2", "clocks"],
)


def export(me, directory, form, *options):
    done = me.iprobe("export", "--format", form, *options, directory)
    assert done.returncode == 0, repr(done)
    return done.stdout


TAIL_MARK = " [until its tail call]"


def marked(row):
    """The name in formats that have no other place for what else is known of the function."""
    return row["function"] + (TAIL_MARK if row.get("until_tail_call") else "")


def dump(me, directory):
    return [json.loads(line) for line in me.iprobe("dump", "--json", directory).stdout.splitlines()]


@TRACES
def test_chrome_has_every_event(me, made):
    directory = tracegen.random_trace(**made).write(me.dir() / "trace")
    document = json.loads(export(me, directory, "chrome"))
    events = [e for e in document["traceEvents"] if e["ph"] != "M"]
    threads = {
        e["tid"]: e["args"]["name"]
        for e in document["traceEvents"]
        if e.get("name") == "thread_name"
    }
    assert threads == {1000: "demo main"} and document["otherData"]["command"] == "./demo --now"
    shown, stacks, ends = (
        collections.Counter(),
        collections.defaultdict(list),
        collections.Counter(),
    )
    for e in events:
        if e["ph"] == "B":
            stacks[e["tid"]].append(e["name"])
            shown[e["tid"], round(e["ts"] * 1000), e["name"], len(stacks[e["tid"]]) - 1] += 1
            assert e["cat"] == "demo"
        elif e["ph"] == "E":
            assert e["name"] == stacks[e["tid"]][-1]
            ends[e["tid"], stacks[e["tid"]].pop()] += 1
    assert not any(stacks.values()), "a frame is open at the end"
    lines = dump(me, directory)
    assert shown == collections.Counter(
        (l["tid"], l["ts"], l["function"], l["depth"]) for l in lines if l["event"] == "entry"
    )
    for tid in stacks:  # over all threads: but for what is open when a thread ends
        times = [e["ts"] for e in events if e["tid"] == tid]
        assert times == sorted(times)
    exits = collections.Counter((l["tid"], l["function"]) for l in lines if l["event"] == "exit")
    assert not exits - ends  # and those that were open at the end


def test_chrome_points_values_and_choice(me):
    trace = tracegen.Trace()
    t = trace.thread()
    t.call("main")
    t.point("tick")
    t.ret()
    directory = trace.write(me.dir() / "trace")
    events = [
        e for e in json.loads(export(me, directory, "chrome"))["traceEvents"] if e["ph"] != "M"
    ]
    assert [(e["ph"], e.get("name")) for e in events] == [
        ("B", "main"),
        ("i", "tick"),
        ("E", "main"),
    ]
    assert events[1]["s"] == "t"
    events = json.loads(export(me, directory, "chrome", "-f", "tick"))["traceEvents"]
    assert [e["name"] for e in events if e["ph"] != "M"] == ["tick"]


@TRACES
def test_folded_is_the_tree(me, made):
    directory = tracegen.random_trace(**made).write(me.dir() / "trace")
    nodes = {
        n["id"]: n for n in json.loads(me.iprobe("graph", "--json", directory).stdout)["nodes"]
    }

    def way(n):
        return (way(nodes[n["parent"]]) if n["parent"] else ()) + (marked(n).replace(";", ":"),)

    lines = [line.rpartition(" ") for line in export(me, directory, "folded").splitlines()]
    assert {tuple(l[0].split(";")): int(l[2]) for l in lines} == {
        way(n): n["self_ns"] for n in nodes.values() if n["self_ns"]
    }
    assert len(lines) > 100


def read_callgrind(text):
    """({(object, file, function): own}, {(caller, callee): (calls, inclusive)})"""
    names = collections.defaultdict(dict)
    own, arcs = collections.Counter(), {}
    where, callee, pending = {}, {}, None
    for line in text.splitlines():
        spec = re.match(r"(c?)(ob|fl|fn|fi)=\((\d+)\)(?: (.*))?$", line)
        calls = re.match(r"calls=(\d+) (\d+)$", line)
        cost = re.match(r"(\d+) (\d+)$", line)
        if spec:
            called, kind, number, name = spec.groups()
            kind = "fl" if kind == "fi" else kind
            if name is not None:
                assert names[kind].setdefault(number, name) == name
            (callee if called else where)[kind] = names[kind][number]
        elif calls:
            pending = int(calls[1])
        elif cost and pending is not None:
            arcs[where["fn"], callee["fn"]] = pending, int(cost[2])
            pending = None
        elif cost:
            own[where["ob"], where["fl"], where["fn"]] += int(cost[2])
    return own, arcs


@TRACES
def test_callgrind(me, made):
    directory = tracegen.random_trace(**made).write(me.dir() / "trace")
    text = export(me, directory, "callgrind")
    own, arcs = read_callgrind(text)
    report = json.loads(me.iprobe("report", "--json", directory).stdout)["functions"]
    assert own == {("/usr/bin/demo", "/src/demo.c", marked(f)): f["self_ns"] for f in report}
    calls = collections.Counter()
    for (_, callee), (n, _) in arcs.items():
        calls[callee] += n
    roots = {f["function"]: f["calls"] - calls[marked(f)] for f in report}
    assert roots.pop("main") > 0 and not any(roots.values())
    if not shutil.which("callgrind_annotate"):
        return
    (me.dir() / "callgrind.out").write_text("")
    path = me.dir() / "callgrind.out.1"
    assert me.iprobe("export", "--format", "callgrind", "-o", path, directory).returncode == 0
    done = subprocess.run(["callgrind_annotate", path], capture_output=True, text=True, check=True)
    total = sum(f["self_ns"] for f in report)
    (shown,) = re.findall(r"^([\d,]+) \(100\.0%\)  PROGRAM TOTALS", done.stdout, re.M)
    assert abs(int(shown.replace(",", "")) - total) <= len(report)


def test_output_is_whole_or_not_there(me):
    directory = tracegen.random_trace(1).write(me.dir() / "trace")
    folder = me.dir()
    path = folder / "trace.json"
    path.write_text("older")
    assert me.iprobe("export", "--format", "chrome", "-o", path, directory).returncode == 0
    assert (
        path.read_text() == export(me, directory, "chrome") and path.stat().st_mode & 0o777 == 0o600
    )
    one_line(me.iprobe("export", "--format", "folded", "-o", folder / "no" / "where", directory))
    assert "cannot write" in one_line(
        me.iprobe("export", "--format", "chrome", "-o", "/dev/full", directory)
    )
    one_line(me.iprobe("export", "--format", "chrome", "-o", path, folder))
    assert [p.name for p in folder.iterdir()] == ["trace.json"], "a file is left"


def test_a_large_file_is_announced(me):
    """By the headers of packets, before an event is read: of this one 600 MB of records, which
    are none, are a hole in a file.
    """
    trace = tracegen.Trace()
    for stream in (0, 1):
        thread = trace.thread(stream)
        thread.call("main")
        thread.ret()
    directory = trace.write(me.dir() / "trace")
    path = directory / "stream-0"
    size = tracegen.HEADER.size + 600_000_000
    with open(path, "ab") as file:
        file.write(
            tracegen.HEADER.pack(
                tracegen.MAGIC,
                trace.uuid,
                0,
                trace.now,
                trace.now,
                8 * size,
                8 * size,
                1,
                0,
                1000,
                1000,
            )
        )
        file.truncate(file.tell() + 600_000_000)
    for form, told in (
        ("chrome", "5.3 GiB"),
        ("perfetto", "1.4 GiB"),
        ("folded", None),
        ("html", None),
    ):
        done = me.iprobe("export", "--format", form, "-o", "/dev/null", directory)
        lines = [line for line in done.stderr.splitlines() if "has every event" in line]
        assert done.returncode == 0 and len(lines) == bool(told), repr(done)
        assert not told or (
            f"{form} has every event" in lines[0] and told in lines[0] and "iprobe trim" in lines[0]
        ), lines
    assert (
        "has every event"
        not in me.iprobe(
            "export", "--format", "chrome", "-o", "/dev/null", "--tid", 1001, directory
        ).stderr
    )


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--format", "nonsense"],
        ["--format", "chrome", "-o", ""],
        ["--format", "chrome", "a", "b"],
        ["-o", "x.gz"],
        ["-o", "x.txt"],
        ["-o", ".json"],
        ["-o", "json"],
    ],
    ids=" ".join,
)
def test_wrong_usage(me, args):
    assert me.iprobe("export", *args).returncode == 2


def test_a_format_that_is_none_is_answered(me):
    """Those that people ask for by the name of another tool."""
    for name, said in (
        ("ctf", "a trace is CTF as it is"),
        ("flamegraph", "html has a flame graph"),
    ):
        done = me.iprobe("export", "--format", name)
        assert done.returncode == 2 and said in done.stderr, repr(done)
    done = me.iprobe("report", "-n", "0")
    assert done.returncode == 2 and "without the option all are shown" in done.stderr, repr(done)


@pytest.mark.parametrize(
    "name,named",
    [
        ("x.html", "html"),
        ("x.json", "chrome"),
        ("x.JSON", "chrome"),
        ("a.b/x.pftrace", "perfetto"),
        ("x.folded", "folded"),
        ("x.callgrind", "callgrind"),
        ("x.pb.gz", "pprof"),
    ],
)
def test_the_name_tells_the_format(me, name, named):
    """And which one is written is said."""
    here = me.dir()
    (here / "a.b").mkdir()
    made = tracegen.random_trace(1).write(here / "trace")
    done = me.iprobe("export", "-o", name, made, cwd=here)
    assert done.returncode == 0 and f"(--format {named}): {name}" in done.stderr, repr(done)
    told = me.iprobe("export", "--format", named, "-o", "y.json", made, cwd=here)
    assert told.returncode == 0 and "iprobe: writes" not in told.stderr, repr(told)
    if named not in ("html", "pprof"):  # which have the time at which they were written
        assert (here / name).read_bytes() == (here / "y.json").read_bytes()


def test_a_name_that_tells_no_format(me):
    done = me.iprobe("export", "-o", "x.gz")
    for name in ("html", "chrome", "perfetto", "folded", "callgrind", "pprof"):
        assert name in done.stderr, repr(done)


def fields(data):
    """(number, value) of each field of a Protocol Buffers message; values: numbers or bytes."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value

    found = []
    while at < len(data):
        key = number()
        assert key & 7 in (0, 2), key
        value = number()
        if key & 7 == 2:
            assert at + value <= len(data)
            at, value = at + value, data[at : at + value]
        found.append((key >> 3, value))
    return found


def numbers(data):
    """A packed list."""
    return [
        value
        for _, value in fields(
            b"".join(b"\x08" + n for n in re.findall(rb"[\x80-\xff]*[\x00-\x7f]", data))
        )
    ]


@TRACES
def test_pprof_is_the_folded_stacks_with_calls(me, made):
    directory = tracegen.random_trace(**made).write(me.dir() / "trace")
    out = me.dir() / "profile.pb.gz"
    export(me, directory, "pprof", "-o", out)
    profile = fields(gzip.decompress(out.read_bytes()))
    strings = [value.decode() for field, value in profile if field == 6]
    assert strings[0] == "" and len(set(strings)) == len(strings)
    types = [[strings[value] for _, value in fields(v)] for field, v in profile if field == 1]
    assert types == [["calls", "count"], ["time", "nanoseconds"]]
    names = {dict(fields(v))[1]: strings[dict(fields(v))[2]] for field, v in profile if field == 5}
    modules = {
        dict(fields(v))[1]: strings[dict(fields(v))[5]] for field, v in profile if field == 3
    }
    places = {}
    for field, v in profile:
        if field == 4:
            location = dict(fields(v))
            places[location[1]] = names[dict(fields(location[4]))[1]]
            assert modules[location[2]].endswith("demo")
    shown, calls = collections.Counter(), collections.Counter()
    for field, v in profile:
        if field == 2:
            sample = dict(fields(v))
            way = [places[n] for n in reversed(numbers(sample[1]))]
            count, ns = numbers(sample[2])
            calls[way[-1]] += count
            if ns:
                shown[";".join(name.replace(";", ":") for name in way)] += ns
    folded = collections.Counter()
    for line in export(me, directory, "folded").splitlines():
        way, ns = line.rsplit(" ", 1)
        folded[way] += int(ns)
    assert shown == folded and shown
    report = json.loads(me.iprobe("report", "--json", directory).stdout)
    assert calls == collections.Counter(
        {marked(f): f["calls"] for f in report["functions"] if f["calls"]}
    )


def test_a_deep_recursion_stays_small(me):
    """Ways beyond 512 calls keep the innermost ones, and are one where these are the same:
    folded, pprof.
    """
    trace = tracegen.Trace()
    t = trace.thread()
    depth = 5001
    t.call("main")
    for i in range(depth - 1):
        t.advance(10)
        t.call("even" if i % 2 else "odd")
    for _ in range(depth):
        t.advance(5)
        t.ret()
    directory = trace.write(me.dir() / "trace")
    out = me.dir() / "profile.pb.gz"
    export(me, directory, "pprof", "-o", out)
    data = gzip.decompress(out.read_bytes())
    assert len(data) < 1_000_000
    profile = fields(data)
    strings = [value.decode() for field, value in profile if field == 6]
    names = {dict(fields(v))[1]: strings[dict(fields(v))[2]] for field, v in profile if field == 5}
    samples = [
        ([names[n] for n in numbers(dict(fields(v))[1])], numbers(dict(fields(v))[2]))
        for field, v in profile
        if field == 2
    ]
    assert len(samples) == 514 and sum(calls for _, (calls, _) in samples) == depth
    cut = [(way, values) for way, values in samples if way[-1] == "[...]"]
    assert {(way[0], len(way)) for way, _ in cut} == {("odd", 513), ("even", 513)}
    assert sum(calls for _, (calls, _) in cut) == depth - 512
    assert all(way[-1] == "main" for way, _ in samples if way[-1] != "[...]")
    own = (trace.now - trace.start) * 1_000_000_000 / trace.hz
    assert abs(sum(ns for _, (_, ns) in samples) - own) < len(samples)
    ways = {
        way: int(ns)
        for way, ns in (
            line.rsplit(" ", 1) for line in export(me, directory, "folded").splitlines()
        )
    }
    assert ways == {";".join(way[::-1]): ns for way, (_, ns) in samples if ns} and len(ways) > 500


def test_deep_recursions_of_two_threads(me):
    """By thread a way that is cut belongs to its thread still, in folded and in pprof's labels."""
    trace = tracegen.Trace()
    depth, times = 700, (10, 30)
    threads = [trace.thread(stream=i) for i in range(2)]
    for thread, time in zip(threads, times):
        for _ in range(depth):
            thread.call("same")
        for _ in range(depth):
            thread.advance(time)
            thread.ret()
    directory = trace.write(me.dir() / "trace")
    lines = export(me, directory, "folded", "--by", "thread").splitlines()
    for thread in threads:
        own = [line for line in lines if line.startswith(f"thread {thread.tid}")]
        cut = [line for line in own if ";[...];" in line]
        assert len(cut) == 1 and cut[0].count(";same") == 512
        assert len(own) == 513 and cut[0].split(";")[1] == "[...]"
    assert len(lines) == 2 * 513
    whole = export(me, directory, "folded").splitlines()
    total = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
    assert len(whole) == 513
    assert abs(total - sum(int(line.rsplit(" ", 1)[1]) for line in whole)) <= len(lines)

    out = me.dir() / "profile.pb.gz"
    export(me, directory, "pprof", "--by", "thread", "-o", out)
    profile = fields(gzip.decompress(out.read_bytes()))
    strings = [value.decode() for field, value in profile if field == 6]
    calls = collections.Counter()
    for sample in [fields(value) for field, value in profile if field == 2]:
        labels = [dict(fields(value)) for field, value in sample if field == 3]
        named = {strings[label[1]]: label.get(3) for label in labels}
        assert {"thread", "tid", "pid"} <= named.keys()
        calls[named["tid"]] += numbers(dict(sample)[2])[0]
    assert calls == {thread.tid: depth for thread in threads}


def perfetto(me, directory, *options):
    """(threads {track: (pid, tid, name)}, [(time, track, type, name, category, annotations)])"""
    out = me.dir() / "trace.pftrace"
    export(me, directory, "perfetto", "-o", out, *options)
    threads, events, names, categories = {}, [], {}, {}
    packets = [fields(v) for field, v in fields(out.read_bytes()) if field == 1]
    assert dict(packets[0])[13] == 1  # nothing of what was before counts
    for packet in packets:
        one = dict(packet)
        assert one[10] == 1
        for field, v in fields(one.get(12, b"")):
            entry = dict(fields(v))
            (names if field == 2 else categories)[entry[1]] = entry[2].decode()
        if 60 in one:
            track = dict(fields(one[60]))
            if 4 in track:
                thread = dict(fields(track[4]))
                threads[track[1]] = thread[1], thread[2], thread.get(5, b"").decode()
        if 11 in one:
            assert one[13] == 2
            event = dict(fields(one[11]))
            found = [dict(fields(v)) for f, v in fields(one[11]) if f == 4]
            annotations = {
                a[10].decode(): json.loads(a[9]) if 9 in a else bool(a[2]) for a in found
            }
            events.append(
                (
                    one.get(8, 0),
                    event[11],
                    event[9],
                    names.get(event.get(10)),
                    categories.get(event.get(3)),
                    annotations,
                )
            )
    return threads, events


@TRACES
def test_perfetto_is_chrome(me, made):
    directory = tracegen.random_trace(**made).write(me.dir() / "trace")
    document = json.loads(export(me, directory, "chrome"))
    threads, events = perfetto(me, directory)
    chrome = [e for e in document["traceEvents"] if e["ph"] != "M"]
    kinds = {1: "B", 2: "E", 3: "i"}
    assert [
        (threads[track][:2], ts, kinds[kind], name, category)
        for ts, track, kind, name, category, _ in events
    ] == [
        (
            (e["pid"], e["tid"]),
            round(e["ts"] * 1000),
            e["ph"],
            e["name"] if e["ph"] != "E" else None,
            e.get("cat"),
        )
        for e in chrome
    ]
    ends = [
        (a.get("until_tail_call", False), e.get("args", {}).get("until_tail_call", False))
        for (*_, a), e in zip(events, chrome)
    ]
    assert all(a == b for a, b in ends) and any(a for a, _ in ends)
    tid = chrome[0]["tid"]
    _, some = perfetto(me, directory, "--tid", tid)
    assert len(some) == sum(e["tid"] == tid for e in chrome)


def test_perfetto_names_threads_and_marks_points(me):
    trace = tracegen.Trace()
    t = trace.thread()
    t.call("main")
    t.point("tick")
    t.ret()
    threads, events = perfetto(me, trace.write(me.dir() / "trace"))
    assert [thread[1:] for thread in threads.values()] == [(1000, "demo main")]
    assert [(kind, name) for _, _, kind, name, _, _ in events] == [
        (1, "main"),
        (3, "tick"),
        (2, None),
    ]
