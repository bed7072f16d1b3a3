# SPDX-License-Identifier: Apache-2.0
"""A directory with the traces of several processes: as one it says what they say one by one."""

import collections
import gzip
import json
import os
import pathlib
import shutil
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest import ctf, memory  # noqa: E402
from iptest.actor import last_words, one_line  # noqa: E402
from test_export import fields as protobuf  # noqa: E402
from test_export import numbers  # noqa: E402
from test_html import document as html_document  # noqa: E402

TIMES = ("ts", "duration_ns", "pid")
SUMS = ("calls", "total_ns", "self_ns", "unwound", "unfinished", "tail_exits")


def list_members(directory, members, service="--name demo"):
    (directory / "iprobe").mkdir(parents=True, exist_ok=True)
    lines = ["iprobe-members\t1", f"service\t{service}"]
    lines += [f"member\t{pid}\t{name}" for name, pid in members]
    (directory / "iprobe" / "members").write_text("\n".join(lines) + "\n")


class Several:
    """Traces of three processes with numbers of their own for the same functions."""

    PIDS = (101, 102, 4000)

    def __init__(self, directory):
        self.directory = directory
        self.traces = []
        for i, pid in enumerate(self.PIDS):
            trace = tracegen.random_trace(
                10 + i,
                streams=i + 1,
                steps=1200,
                before=[f"only_{k}" for k in range(5 * i)],
                start=7_000_000 * i,
            )
            # in their pid namespaces all have one number, and so have their threads
            trace.write(directory / f"demo-{pid}")
            self.traces.append(trace)
        list_members(directory, self.members)

    @property
    def members(self):
        return [(f"demo-{pid}", pid) for pid in self.PIDS]

    @property
    def parts(self):
        return [self.directory / name for name, _ in self.members]


@pytest.fixture
def several(me):
    return Several(me.dir() / "all")


def read(me, command, directory, *options):
    done = me.iprobe(command, "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def by_name(rows, key="function"):
    return {row[key]: row for row in rows}


def summed(reports):
    """The rows of several reports as one. Each time was rounded by itself."""
    found = collections.defaultdict(lambda: collections.Counter({key: 0 for key in SUMS}))
    for report in reports:
        for row in report["functions"]:
            for key in SUMS:
                found[row["function"]][key] += row[key]
    return found


def test_report_is_the_sum(me, several):
    whole = read(me, "report", several.directory)
    parts = [read(me, "report", part) for part in several.parts]
    for key in ("events", "lost", "threads", "unwound", "unfinished", "orphan_exits"):
        assert whole[key] == sum(part[key] for part in parts) > -1, key
    assert whole["events"] == sum(trace.events for trace in several.traces)
    rows, sums = by_name(whole["functions"]), summed(parts)
    assert rows.keys() == sums.keys() and len(rows) >= 8
    for name, row in rows.items():
        alone = [by_name(part["functions"])[name] for part in parts]
        for key in SUMS:
            assert abs(row[key] - sums[name][key]) <= (3 if key.endswith("_ns") else 0), (name, key)
        assert row["min_ns"] == min(one["min_ns"] for one in alone)
        assert row["max_ns"] == max(one["max_ns"] for one in alone)
        assert row["threads"] == sum(one["threads"] for one in alone)
    first = min(trace.start for trace in several.traces)
    last = max(trace.now for trace in several.traces)
    assert abs(whole["duration_ns"] - (last - first) / 2.6) <= 1
    assert [p["pid"] for p in whole["processes"]] == list(several.PIDS)
    for process, part, trace in zip(whole["processes"], parts, several.traces):
        assert process["events"] == trace.events and process["lost"] == part["lost"]
        assert process["name"] == "demo" and process["command"] == "./demo --now"
        assert process["threads"] == part["threads"] and process["stops"] == 1


def test_by_process(me, several):
    rows = read(me, "report", several.directory, "--by", "process")
    assert rows["by"] == "process" and "per_process" not in rows
    parts = [read(me, "report", part) for part in several.parts]
    for row in rows["rows"]:
        part = parts[several.PIDS.index(row["pid"])]
        assert row["process"] == "demo"
        assert row["calls"] == sum(f["calls"] for f in part["functions"])
        # self times of all functions are the time in the process's calls
        assert abs(row["self_ns"] - sum(f["self_ns"] for f in part["functions"])) <= 20
    assert len(rows["rows"]) == 3
    text = me.iprobe("report", "--by", "process", several.directory)
    assert all(f"  {pid} demo" in text.stdout for pid in several.PIDS), repr(text)


@pytest.mark.parametrize("by", ["function", "caller", "thread", "module", "file"])
def test_by_process_and_something_else(me, several, by):
    """Each process has the rows that its own trace has."""
    whole = read(me, "report", several.directory, "--by", f"{by},process")
    again = read(me, "report", several.directory, "--by", f"process,{by}")
    assert whole == again and whole["per_process"] is True
    for pid, part in zip(several.PIDS, several.parts):
        alone = read(me, "report", part, *(["--by", by] if by != "function" else []))
        names = ("function", "caller", "caller_from", "tid", "module", "file")
        drop = ("pid", "process", "payload", "name", "linker_name", "line")

        def rows_of(report, rows):
            return sorted(
                json.dumps({k: v for k, v in row.items() if k not in drop}, sort_keys=True)
                for row in report[rows]
                if row.get("pid", pid) == pid or rows == "functions" or report is alone
            )

        assert rows_of(whole, "rows") == rows_of(
            alone, "functions" if by == "function" else "rows"
        ), (pid, names)


def events_of(me, directory, pid, *options):
    done = me.iprobe("dump", "--json", *options, directory)
    assert done.returncode == 0, repr(done)
    return [
        (pid or e["pid"], e["tid"], e["ts"], e["event"], e["function"], e["depth"])
        for e in map(json.loads, done.stdout.splitlines())
    ]


def test_dump_has_the_events_of_all_in_order(me, several):
    whole = events_of(me, several.directory, 0)
    parts = []
    for pid, part in zip(several.PIDS, several.parts):
        parts += events_of(me, part, pid)
    strip = lambda events: collections.Counter((e[0], e[1], *e[3:]) for e in events)
    assert strip(whole) == strip(parts)
    times = [e[2] for e in whole]
    assert times == sorted(times), "not in the order of time"
    # each one's events are shifted by the begin of its recording, to a nanosecond
    for pid, part, trace in zip(several.PIDS, several.parts, several.traces):
        shift = (trace.start - several.traces[0].start) / 2.6
        mine = sorted(e[2] for e in whole if e[0] == pid)
        own = sorted(e[2] for e in events_of(me, part, pid))
        assert all(abs(a - b - shift) <= 1.5 for a, b in zip(mine, own, strict=True))
    text = me.iprobe("dump", several.directory).stdout.splitlines()
    assert len(text) == len(whole)
    assert {int(line.split()[1]) for line in text} == set(several.PIDS)


@pytest.mark.parametrize("choice", ["102", "dem?", "*"])
def test_process_chooses(me, several, choice):
    chosen = [102] if choice == "102" else list(several.PIDS)
    events = events_of(me, several.directory, 0, "--process", choice)
    assert {e[0] for e in events} == set(chosen)
    report = read(me, "report", several.directory, "--process", choice)
    traces = [t for pid, t in zip(several.PIDS, several.traces) if pid in chosen]
    assert report["events"] == sum(trace.events for trace in traces)
    assert report["lost"] == sum(trace.lost for trace in traces)
    assert [p["pid"] for p in report["processes"]] == chosen
    graph = read(me, "graph", several.directory, "--process", choice)
    assert graph["threads"] == report["threads"]
    # and with a thread: in whichever of them
    tids = {e[1] for e in events}
    tid = max(tids)
    one = events_of(me, several.directory, 0, "--process", choice, "--tid", tid)
    assert one == [e for e in events if e[1] == tid] and one


def test_process_that_is_not_there(me, several):
    for command in ("report", "graph", "dump", "hist", "trim"):
        done = me.iprobe(command, "--process", "103", several.directory)
        assert done.returncode == 1, repr(done)
        assert "no process '103'" in one_line(done) and "demo (102)" in one_line(done)
    assert me.iprobe("report", "--process", "", several.directory).returncode == 2
    assert me.iprobe("report", "--by", "process,process", several.directory).returncode == 2
    assert me.iprobe("report", "--by", "thread,module", several.directory).returncode == 2


def paths_of(graph):
    """path of names -> (calls, own time)"""
    nodes = {node["id"]: node for node in graph["nodes"]}

    def path(node):
        above = path(nodes[node["parent"]]) if node["parent"] in nodes else ()
        return (*above, node["function"])

    return {path(node): (node["calls"], node["self_ns"]) for node in graph["nodes"]}


def test_graph_is_the_sum(me, several):
    whole = paths_of(read(me, "graph", several.directory))
    sums = collections.defaultdict(lambda: [0, 0])
    for part in several.parts:
        for path, (calls, own) in paths_of(read(me, "graph", part)).items():
            sums[path][0] += calls
            sums[path][1] += own
    assert whole.keys() == sums.keys() and len(whole) > 50
    for path, (calls, own) in whole.items():
        assert calls == sums[path][0] and abs(own - sums[path][1]) <= 3, path


def test_hist_is_the_sum(me, several):
    def buckets(directory):
        return {
            f["function"]: collections.Counter({b["from_ns"]: b["calls"] for b in f["buckets"]})
            for f in read(me, "hist", directory)["functions"]
        }

    sums = collections.defaultdict(collections.Counter)
    for part in several.parts:
        for name, counts in buckets(part).items():
            sums[name] += counts
    assert {k: +v for k, v in buckets(several.directory).items()} == dict(sums)


def exported(me, directory, form, *options):
    out = me.dir() / "out"
    done = me.iprobe("export", "--format", form, *options, "-o", out, directory)
    assert done.returncode == 0, repr(done)
    return out.read_bytes()


def test_exports(me, several):
    events = json.loads(exported(me, several.directory, "chrome"))["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {pid: "./demo --now" for pid in several.PIDS}
    kinds = collections.Counter((e["pid"], e["tid"], e["ph"]) for e in events if e["ph"] in "BEi")
    alone = collections.Counter()
    for pid, part in zip(several.PIDS, several.parts):
        for e in json.loads(exported(me, part, "chrome"))["traceEvents"]:
            if e["ph"] in "BEi":
                alone[pid, e["tid"], e["ph"]] += 1
    assert kinds == alone

    def folded(directory):
        lines = exported(me, directory, "folded").decode().splitlines()
        return collections.Counter({l.rpartition(" ")[0]: int(l.rpartition(" ")[2]) for l in lines})

    whole, sums = folded(several.directory), sum(map(folded, several.parts), collections.Counter())
    assert set(whole) >= set(sums) and all(abs(whole[k] - sums[k]) <= 3 for k in whole)
    page = exported(me, several.directory, "html").decode()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    lanes = {(row["pid"], row["tid"], row.get("process")) for row in data["timeline"]["rows"]}
    assert {pid for pid, _, _ in lanes} == set(several.PIDS)
    assert {process for _, _, process in lanes} == {"demo"}
    for form in ("perfetto", "pprof", "callgrind"):
        assert len(exported(me, several.directory, form)) > max(
            len(exported(me, part, form)) for part in several.parts[:1]
        )
    only = exported(me, several.directory, "perfetto", "--process", "101")
    assert len(only) < len(exported(me, several.directory, "perfetto"))


def test_info_lists_the_members(me, several):
    info = read(me, "info", several.directory)
    assert info["service"] == "--name demo" and not info["damaged"]
    assert [p["dir"] for p in info["processes"]] == [name for name, _ in several.members]
    assert [p["stops"] for p in info["processes"]] == [1, 1, 1]
    assert [s["pid"] for s in info["stops"]] == list(several.PIDS)
    text = me.iprobe("info", several.directory).stdout
    assert "processes  --name demo\n" in text and "stop       attach in 4000 after" in text
    assert text.count("module     /usr/bin/demo\n") == 1


def test_trim_is_the_part_of_each(me, several):
    out = me.dir() / "out"
    options = ["--from", "1ms", "--to", "4ms", "-f", "leaf,parse"]
    made = read(me, "trim", several.directory, *options, "-o", out)["parts"][0]
    whole = events_of(me, several.directory, 0, "-f", "leaf,parse")
    part = events_of(me, out, 0)
    wanted = [e for e in whole if 1_000_000 <= e[2] <= 4_000_000]
    unmarked = lambda events: collections.Counter((e[0], e[1], e[4]) for e in events)
    assert made["events"] > 100 and unmarked(part).keys() <= unmarked(wanted).keys()
    assert json.loads(me.iprobe("info", "--json", out).stdout)["events"] == made["events"]
    # all of it is the same in every view
    copy = me.dir() / "copy"
    read(me, "trim", several.directory, "-o", copy)
    for command in ("report", "graph", "hist"):
        assert read(me, command, copy) == read(me, command, several.directory), command
    chosen = me.dir() / "chosen"
    read(me, "trim", several.directory, "--process", "4000", "-o", chosen)
    assert {p.name for p in chosen.iterdir()} == {"iprobe", "demo-4000"}
    assert events_of(me, chosen, 4000) == events_of(me, several.parts[2], 4000)
    # what is there stays
    done = me.iprobe("trim", several.directory, "-o", copy)
    assert done.returncode == 1 and "exists" in one_line(done)
    assert {p.name for p in out.parent.iterdir()} == {"out"}


def test_split(me, several):
    folder = me.dir()
    parts = read(me, "split", several.directory, "--by", "process", "-o", folder / "p")["parts"]
    assert [pathlib.Path(p["dir"]).name for p in parts] == [f"p.{pid}" for pid in several.PIDS]
    for made, part in zip(parts, several.parts):
        # a trace of that process alone
        assert not (pathlib.Path(made["dir"]) / "iprobe" / "members").exists()
        assert read(me, "report", made["dir"]) == read(me, "report", part)
    for how in (["--every", "400ms"], ["--size", "20K"], ["--by", "thread"]):
        parts = read(me, "split", several.directory, *how, "-o", folder / how[0])["parts"]
        assert len(parts) > 2
        if how[0] == "--by":
            # threads of one number are not put together
            tids = {(p["pid"], p["tid"]) for p in parts}
            assert len(tids) == len(parts) == sum(len(t.threads) for t in several.traces)
            for part in parts:
                shared = sum(tid == part["tid"] for _, tid in tids) > 1
                name = f'{part["pid"]}.{part["tid"]}' if shared else str(part["tid"])
                assert pathlib.Path(part["dir"]).name == f"--by.{name}"
                rows = read(me, "report", part["dir"], "--by", "thread")["rows"]
                assert [row["tid"] for row in rows] == [part["tid"]]
        assert sum(p["events"] for p in parts) == sum(t.events for t in several.traces)
        assert sum(read(me, "report", p["dir"])["events"] for p in parts) == sum(
            t.events for t in several.traces
        )


def test_a_failed_split_leaves_nothing(me, several):
    folder = me.dir()
    (folder / "p.2").mkdir()
    done = me.iprobe("split", several.directory, "--every", "2ms", "-o", folder / "p")
    assert done.returncode == 1 and "exists" in one_line(done)
    assert [p.name for p in folder.iterdir()] == ["p.2"]


def test_members_that_are_not_there(me, several):
    """One that has just been announced is no damage. One that is damaged is told; the others are
    shown."""
    list_members(several.directory, [*several.members, ("new-5000", 5000)])
    done = me.iprobe("report", "--json", several.directory)
    assert json.loads(done.stdout)["damaged"] is False and done.stderr == ""
    shutil.rmtree(several.parts[1] / "iprobe")
    done = me.iprobe("report", "--json", several.directory)
    assert "demo-102: not a trace of iprobe" in done.stderr, repr(done)
    assert "it is left out" in done.stderr and done.stderr.count("\n") == 1, repr(done)
    report = json.loads(done.stdout)
    assert report["damaged"] is True
    assert [p["pid"] for p in report["processes"]] == [101, 4000]
    (several.parts[2] / "stream-1").write_bytes(b"x" * 400)
    (several.parts[0] / "stream-0").write_bytes((several.parts[0] / "stream-0").read_bytes()[:-100])
    done = me.iprobe("report", "--json", several.directory)
    assert "demo-4000/stream-1: not a stream" in done.stderr, repr(done)
    assert "it is left out" in done.stderr and "cut off" in done.stderr, repr(done)
    assert [p["pid"] for p in json.loads(done.stdout)["processes"]] == [101]
    shutil.rmtree(several.parts[0])
    shutil.rmtree(several.parts[2])
    shutil.rmtree(several.parts[1])
    done = me.iprobe("report", several.directory)
    assert done.returncode == 1 and "no process of it has been recorded yet" in one_line(done)


@pytest.mark.parametrize(
    "line, why",
    [
        ("boot\tother", "another machine"),
        ("host\telsewhere", "host elsewhere"),
        ("clock\tmonotonic", "CLOCK_MONOTONIC_RAW"),
        ("tsc_hz\t3000000000", "3000.000 MHz"),
    ],
)
def test_a_clock_that_cannot_be_compared(me, several, line, why):
    for part in several.parts:
        session = part / "iprobe" / "session"
        mine = line if part == several.parts[1] else "boot\tthis" if "boot" in line else "-\t"
        session.write_text(session.read_text().replace("\nends\t", f"\n{mine}\nends\t"))
    done = me.iprobe("report", "--json", several.directory)
    assert done.returncode == 0 and "it is left out" in done.stderr, repr(done)
    assert f"{several.parts[1]}: " in done.stderr and why in done.stderr
    assert [p["pid"] for p in json.loads(done.stdout)["processes"]] == [101, 4000]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "iprobe-members\t1\nmember\t1\t../../etc\n",
        "iprobe-members\t1\nmember\t1\t/etc\n",
        "iprobe-members\t1\nmember\t1\t\x1b[2Jx\n",
        "iprobe-members\t1\nmember\t1\tdemo-101\nmember\t2\tdemo-101\n",
        "iprobe-members\t9\nmember\t1\tdemo-101\n",
        "iprobe-members\t1\n" + "".join(f"member\t{i}\tdemo-{i}\n" for i in range(1, 4098)),
        "x" * 2_000_000,
    ],
    ids=["empty", "above", "absolute", "escape", "twice", "version", "many", "large"],
)
def test_hostile_lists(me, several, text):
    (several.directory / "iprobe" / "members").write_text(text)
    for command in ("report", "info", "dump"):
        done = me.iprobe(command, several.directory)
        assert done.returncode == 1 and "iprobe/members" in one_line(done), repr(done)
        assert "\x1b" not in done.stderr


def test_a_link_is_no_member(me, several):
    secret = me.dir() / "secret"
    shutil.move(several.parts[1], secret)
    several.parts[1].symlink_to(secret)
    done = me.iprobe("report", "--json", several.directory)
    assert "demo-102: " in done.stderr and "it is left out" in done.stderr, repr(done)
    assert len(json.loads(done.stdout)["processes"]) == 2


def small_trace(directory, pid, names, calls, hidden=(), numbers=1):
    """A trace of one thread that calls functions. hidden: those that its session does not tell."""
    trace = tracegen.Trace()
    for i, name in enumerate(names):
        trace.add(name, number=numbers + i)
    for own_pid in pid if isinstance(pid, tuple) else (pid,):
        thread = trace.thread(len(trace.streams), tid=own_pid, pid=own_pid)
        for name in calls:
            trace.now += 100
            thread.call(name)
            thread.advance(50)
            thread.ret()
        thread.flush()
    trace.order = [f for f in trace.order if f.name not in hidden]
    return trace.write(directory)


def test_unknown_numbers_stay_unknown(me):
    """A number that a process's session does not tell is no number of another process."""
    directory = me.dir() / "all"
    first = [f"f{i}" for i in range(9)]
    small_trace(directory / "a-1", 1, first, first, hidden=first[4:])
    small_trace(directory / "b-2", 2, ["g0", "g1", *first], first)
    small_trace(directory / "c-3", 3, ["g0"], ["g0"], numbers=700)
    list_members(directory, [("a-1", 1), ("b-2", 2), ("c-3", 3)])
    rows = by_name(read(me, "report", directory)["functions"])
    assert rows.pop("[unknown]")["calls"] == 5
    assert rows.pop("g0")["calls"] == 1
    assert {name: row["calls"] for name, row in rows.items()} == {
        name: 1 + (i < 4) for i, name in enumerate(first)
    }


def test_pids_of_namespaces(me):
    """Processes of two pid namespaces have the same numbers there: they are told apart."""
    directory = me.dir() / "all"
    small_trace(directory / "box-101", (1, 7), ["f"], ["f"])
    small_trace(directory / "box-102", (1, 7), ["f"], ["f", "f"])
    small_trace(directory / "here-7", 7, ["f"], ["f", "f", "f"])
    list_members(directory, [("box-101", 101), ("box-102", 102), ("here-7", 7)])
    rows = read(me, "report", directory, "--by", "process")["rows"]
    assert len({row["pid"] for row in rows}) == 5
    assert {row["pid"] for row in rows} >= {7, 101, 102}
    assert sum(row["pid"] > 4194303 for row in rows) == 2
    assert sorted(row["calls"] for row in rows) == [1, 1, 2, 2, 3]
    assert {row["pid"]: row["calls"] for row in rows if row["pid"] in (101, 102)} == {
        101: 1,
        102: 2,
    }
    assert len(read(me, "report", directory, "--by", "thread")["rows"]) == 5
    assert read(me, "report", directory)["threads"] == 5


def test_a_parent_that_has_recorded_nothing(me):
    """The session of a master knows its children's calls alone: they stay theirs."""
    directory = me.dir() / "all"
    for master, workers in ((5, (8, 9)), (6, (10,))):
        member = small_trace(directory / f"master-{master}", workers, ["f"], ["f"] * master)
        with open(member / "iprobe" / "session", "a", encoding="ascii") as session:
            session.write(f"thread\t{master}\tmaster\t1000\n")
    list_members(directory, [("master-5", 5), ("master-6", 6)])
    rows = read(me, "report", directory, "--by", "process")["rows"]
    assert {row["pid"]: row["calls"] for row in rows} == {8: 5, 9: 5, 10: 6}
    events = map(json.loads, me.iprobe("dump", "--json", directory).stdout.splitlines())
    assert {event["pid"] for event in events} == {8, 9, 10}


def own_counts(text):
    lines = [line.split() for line in text.splitlines()]
    return collections.Counter({l[1]: int(l[2]) for l in lines if l[0] == "function"})


def test_three_recorded_processes(me, programs, targets):
    """Recorded at the same time: every call that the programs count of themselves is in the report
    of all, and in that of its process."""
    program = programs.simple("count")
    running = [
        targets.start(me, [program, "-w", "-t", i + 1, "-n", 5000 + 1000 * i]) for i in range(3)
    ]
    directory = me.dir() / "trace"
    directory.mkdir()
    # one process counts instead of logging: its counts are added
    options = [["--callsite"], ["--callsite"], ["--payload", "log", "--payload", "count:leaf"]]
    sessions = [
        me.start_iprobe("attach", t.pid, "--json", "-o", directory / f"count-{t.pid}", *more)
        for t, more in zip(running, options)
    ]
    for target, session in zip(running, sessions):
        memory.wait_until_live(target.pid, session)
    list_members(directory, [(f"count-{t.pid}", t.pid) for t in running])
    truth = []
    for target in running:
        target.say()
        lines = [target.proc.stdout.readline()]
        while not lines[-1].startswith("calls "):
            lines.append(target.proc.stdout.readline())
        truth.append(own_counts("".join(lines)))
    # while they are still being recorded
    live = me.iprobe("report", "--json", directory)
    assert live.returncode == 0 and json.loads(live.stdout)["ended"] is False
    for session in sessions:
        session.send_signal(signal.SIGINT)
    summaries = [last_words(session) for session in sessions]
    for target in running:
        target.say()
        target.finish()
    assert all(done.returncode == 0 for done in summaries), summaries
    report = read(me, "report", directory)
    assert report["events"] == sum(done.summary()["events"] for done in summaries)
    assert report["lost"] == 0 and report["ended"]
    assert {f["function"]: f["calls"] for f in report["functions"]} == dict(
        sum(truth, collections.Counter())
    )
    leaf = by_name(report["functions"])["leaf"]
    assert leaf["payload"] == "log+count"
    for target, own in zip(running, truth):
        mine = read(me, "report", directory, "--process", target.pid)
        assert {f["function"]: f["calls"] for f in mine["functions"]} == dict(own)
        assert mine["processes"][0]["name"] == "count"
    # callers by address: the same in all, though the program lies elsewhere in each
    for by in ("caller", "callsite"):
        rows = read(me, "report", directory, "--by", by, "-f", "chain_inner")["rows"]
        sites = [r for r in rows if r["caller_from"] == "call site"]
        assert {r["caller"] for r in sites} == {"chain_middle"}, rows
        assert len(sites) == 1 and sites[0]["calls"] == sum(t["chain_inner"] for t in truth[:2])
    seen, warnings = ctf.read_events(directory)
    assert sum(seen.values()) == report["events"] and not warnings
    boots = {
        line.partition("\t")[2]
        for t in running
        for line in (directory / f"count-{t.pid}/iprobe/session").read_text().splitlines()
        if line.startswith("boot\t")
    }
    assert boots == {pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()}


def test_values_of_each(me, programs):
    """Signatures have numbers of their own in each process, too."""
    program = programs.simple("values", placement="fentry")
    directory = me.dir() / "trace"
    directory.mkdir()
    members = []
    for i, options in enumerate((["--args", "--retval"], ["--retval"], ["--args", "-f", "*s*"])):
        done = me.iprobe("run", "-o", directory / f"values-{i + 1}", *options, "--", program)
        assert done.returncode == 0, repr(done)
        members.append((f"values-{i + 1}", i + 1))
    list_members(directory, members)

    def lines(*args):
        out = me.iprobe("dump", "--json", *args).stdout.splitlines()
        return [
            {key: value for key, value in json.loads(line).items() if key not in TIMES}
            for line in out
        ]

    for name, pid in members:
        pids = [p["pid"] for p in read(me, "report", directory)["processes"]]
        alone = lines(directory / name)
        assert alone == lines("--process", pids[pid - 1], directory) and len(alone) > 20
        assert any("args" in line or "retval" in line for line in alone)


def test_forked_processes_of_one_trace(me, programs, targets):
    """--follow-fork writes one trace: its processes are told apart in the same way."""
    directory = me.dir() / "trace"
    target = targets.start(me, [programs.simple("steady"), "-n"])
    session = me.start_iprobe(
        "attach", target.pid, "--follow-fork", "--json", "-o", directory, "-f", "by_*"
    )
    memory.wait_until_live(target.pid, session)
    target.say("f")
    child = int(target.proc.stdout.readline().split()[1])
    memory.wait_for("the child records", lambda: True, 0.1)
    os.sync()
    session.send_signal(signal.SIGINT)
    assert last_words(session).returncode == 0
    report = read(me, "report", directory)
    assert {target.pid} <= {p["pid"] for p in report["processes"]} <= {target.pid, child}
    rows = read(me, "report", directory, "--by", "process")["rows"]
    for row in rows:
        mine = read(me, "report", directory, "--process", row["pid"])
        assert row["calls"] == sum(f["calls"] for f in mine["functions"])
        assert mine["events"] == mine["processes"][0]["events"] < report["events"] or len(rows) == 1


def test_exports_by_process(me, several):
    """Each way of calls begins at its process, with the times that the process has by itself."""

    def ways(directory, *options):
        text = me.iprobe("export", "--format", "folded", *options, directory).stdout
        return {way: int(ns) for way, ns in (line.rsplit(" ", 1) for line in text.splitlines())}

    whole = ways(several.directory, "--by", "process")
    sums = {}
    for pid, part in zip(several.PIDS, several.parts):
        sums[pid] = sum(ways(part).values())
        mine = {way: ns for way, ns in whole.items() if way.startswith(f"process {pid} demo;")}
        assert mine and abs(sum(mine.values()) - sums[pid]) <= len(mine)
        assert ways(several.directory, "--by", "process", "--process", str(pid)) == mine
    assert len({way.split(";")[0] for way in whole}) == len(several.PIDS)

    text = me.iprobe("export", "--format", "callgrind", "--by", "process", several.directory).stdout
    assert all(f" process {pid} demo\n" in text for pid in several.PIDS)

    out = me.dir() / "page.html"
    done = me.iprobe(
        *("export", "--format", "html", "--by", "process", "-o", out, several.directory)
    )
    assert done.returncode == 0, repr(done)
    named = {f["name"] for f in html_document(out)["functions"]}
    assert {f"process {pid} demo" for pid in several.PIDS} <= named

    done = me.iprobe(
        *("export", "--format", "pprof", "--by", "process", "-o", out, several.directory)
    )
    assert done.returncode == 0, repr(done)
    profile = protobuf(gzip.decompress(out.read_bytes()))
    strings = [value.decode() for field, value in profile if field == 6]
    found = collections.Counter()
    for sample in [protobuf(value) for field, value in profile if field == 2]:
        labels = [dict(protobuf(value)) for field, value in sample if field == 3]
        named = {strings[label[1]]: label.get(3) for label in labels}
        assert named.keys() == {"pid", "process"}
        found[named["pid"]] += numbers(dict(sample)[2])[1]
    for pid in several.PIDS:
        assert abs(found[pid] - sums[pid]) <= len(whole)

    for format, more, words in (
        ("chrome", [], "a track of its own"),
        ("html", ["--diff", several.parts[0]], "does not go with --diff"),
        ("folded", ["--tid", "1000"], "not with --by process"),
    ):
        done = me.iprobe(
            *("export", "--format", format, "-o", out, "--by", "process"),
            *(*more, several.directory),
        )
        assert done.returncode == 2 and words in done.stderr, repr(done)


def test_threads_of_equal_ids_and_names(me, several):
    """Each of the processes has a thread of one id, with one name."""
    tid = several.traces[0].threads[0].tid
    for part in several.parts:
        session = part / "iprobe" / "session"
        named = f"thread\t{tid}\tdemo main\n"
        session.write_text(session.read_text().replace("thread\t1000\tdemo main\n", named))
    report = read(me, "report", several.directory, "--by", "thread")["rows"]
    mains = [row for row in report if row["tid"] == tid]
    assert sorted(row["pid"] for row in mains) == list(several.PIDS)
    assert {row["thread"] for row in mains} == {"demo main"} == {row["name"] for row in mains}

    tree = read(me, "graph", several.directory, "--by", "thread")["nodes"]
    roots = {(n["pid"], n["tid"]): n for n in tree if not n["parent"]}
    assert roots.keys() == {(row["pid"], row["tid"]) for row in report}
    for pid, part in zip(several.PIDS, several.parts):
        alone = read(me, "graph", part, "--by", "thread")["nodes"]
        for node in alone:
            if not node["parent"]:
                total = roots[pid, node["tid"]]["total_ns"]
                assert abs(total - node["total_ns"]) <= 1 and node["process"] == "demo"
    only = read(me, "graph", several.directory, "--tid", str(tid))["only"]
    assert [t["pid"] for t in only] == list(several.PIDS)
    assert {t["thread"] for t in only} == {"demo main"}

    text = me.iprobe("graph", several.directory, "--by", "thread", "--min-percent", "0").stdout
    folded = me.iprobe("export", several.directory, "--by", "thread", "--format", "folded").stdout
    for pid in several.PIDS:
        assert f" thread {pid}/{tid} demo main\n" in text
        assert f"thread {pid}/{tid} demo main;" in folded
    chosen = me.iprobe("graph", several.directory, "--tid", str(tid), "--process", "102").stdout
    assert f"\nonly thread {tid} demo main\n" in chosen
