# SPDX-License-Identifier: Apache-2.0
"""
The names of recorded threads, as they change, in each view of a trace.
"""

import gzip
import json
import os
import pathlib
import re
import struct
import subprocess
import time

import pytest

from iptest import actor as actors
from iptest import area, memory
from iptest.actor import one_line

WORKERS = [f"mc-worker-{i}" for i in range(4)]
HOSTILE = b'\x1b[2J\t\n\\"\xe2\x82'
UTF8 = "grüß dich"
SETTLED = 0.9  # seconds: a new name is noticed within half a second


def in_json(name):
    """What JSON says in place of bytes that are no UTF-8: a character for each."""
    return re.sub("[\udc80-\udcff]", "\ufffd", name.decode("utf-8", "surrogateescape"))


NAMES = {*WORKERS, "late", in_json(HOSTILE), UTF8}


class Recorded:
    """The program's run under iprobe run: its trace, and what it said of its threads."""

    def __init__(self, actor, program, *args, options=()):
        self.actor, self.dir = actor, actor.dir() / "trace"
        proc = actor.popen(
            [actor.iprobe_path, "run", "-q", "-o", self.dir, *options, "--", program, *args],
            env={"LANG": "C.UTF-8"},
        )
        assert proc.stdout.readline() == "ready\n" and proc.stdout.readline() == "late\n"
        time.sleep(SETTLED)
        done = actors.last_words(proc)
        assert done.returncode == 0, repr(done)
        lines = [line.split() for line in done.stdout.splitlines()]
        self.threads = {int(tid): bytes.fromhex(name) for _, tid, name in lines}
        assert len(self.threads) == 7

    def json(self, *args):
        done = self.actor.iprobe(*args, self.dir)
        assert done.returncode == 0, repr(done)
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def recorded(top, builddir, programs):
    """One run for all views, of whoever runs the tests."""
    actor = actors.Actor("root" if os.getuid() == 0 else "user", os.getuid(), top, builddir)
    yield Recorded(actor, programs.simple("named"))
    actor.cleanup()


def test_info_tells_all_names_with_their_times(recorded):
    said = recorded.json("info", "--json")["thread_names"]
    last = {t["tid"]: t["name"] for t in said if t["tid"] in recorded.threads}
    assert last == {tid: in_json(name) for tid, name in recorded.threads.items()}
    late = next(tid for tid, name in recorded.threads.items() if name == b"late")
    names = [t["name"] for t in said if t["tid"] == late]
    assert names[-2:] == ["early", "late"], names
    times = [t["from_ns"] / 1e9 for t in said if t["tid"] == late]
    # noticed within half a second, and never before
    assert 0.69 < times[-1] - times[0] < 1.5, times
    assert any(t["name"] == "brief" for t in said)
    text = recorded.actor.iprobe("info", recorded.dir).stdout
    assert re.search(rf"^thread +{late} late \(from .* on\)$", text, re.M), text
    assert "\x1b" not in text and UTF8 in text


def test_report(recorded):
    rows = recorded.json("report", "--json", "--by", "thread")["rows"]
    named = {row["tid"]: row["name"] for row in rows}
    assert {named[tid] for tid in recorded.threads} == NAMES
    text = recorded.actor.iprobe("report", "--by", "thread", recorded.dir).stdout
    for tid, name in recorded.threads.items():
        if name != HOSTILE:
            assert re.search(rf" {tid} {name.decode()}$", text, re.M), text
    assert "\x1b" not in text


def test_dump(recorded):
    dump = recorded.actor.iprobe("dump", "--json", recorded.dir).stdout
    lines = [json.loads(line) for line in dump.splitlines()]
    names = {}
    for line in lines:
        seen = names.setdefault(line["tid"], [])
        if not seen or seen[-1] != line.get("thread"):
            seen.append(line.get("thread"))
    for tid, name in recorded.threads.items():
        assert names[tid][-1] == in_json(name)
        if name == b"late":
            assert names[tid][-2] == "early", names[tid]
    text = recorded.actor.iprobe("dump", recorded.dir).stdout.splitlines()
    tid = next(tid for tid, name in recorded.threads.items() if name == UTF8.encode())
    # the columns behind the name stand below each other
    columns = {re.search(r"(} )?work( {|  \d)", line).start() for line in text}
    assert len(columns) == 1, columns
    assert any(re.match(rf" +\d+\.\d+ +{tid} {UTF8} +work {{$", line) for line in text)
    assert not any("\x1b" in line or "\t" in line for line in text)


def test_exports(recorded):
    made = {}
    for form in ("chrome", "html"):
        made[form] = recorded.dir.parent / f"out.{form}"
        done = recorded.actor.iprobe("export", "--format", form, "-o", made[form], recorded.dir)
        assert done.returncode == 0, repr(done)
    events = json.loads(made["chrome"].read_text())["traceEvents"]
    chrome = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert NAMES <= set(chrome.values())
    assert {pid for pid, _ in chrome} == {e["pid"] for e in events if e["ph"] == "B"}
    html = made["html"].read_text()
    assert "mc-worker-3" in html and UTF8 in html and '"late"' in html


def test_ctf(recorded):
    """The environment is where the format has room for them; other readers stay content."""
    metadata = (recorded.dir / "metadata").read_bytes()
    for tid, name in recorded.threads.items():
        if name != HOSTILE:
            assert b'thread_%d = "%s";' % (tid, name) in metadata
    assert b"\x1b" not in metadata
    read = subprocess.run(["babeltrace2", recorded.dir], capture_output=True, check=True)
    assert not read.stderr, read.stderr
    events = recorded.json("info", "--json")["events"]
    assert len(read.stdout.splitlines()) == events


def test_followed_children(me, programs):
    recorded = Recorded(me, programs.simple("named"), "-c", options=["--follow-fork"])
    rows = recorded.json("report", "--json", "--by", "thread")["rows"]
    named = {row["tid"]: row["name"] for row in rows}
    assert {named[tid] for tid in recorded.threads} == NAMES
    chrome = recorded.actor.iprobe("export", "--format", "chrome", recorded.dir)
    events = json.loads(chrome.stdout)["traceEvents"]
    pids = {e["pid"] for e in events if e["name"] == "thread_name"}
    assert recorded.json("info", "--json")["pid"] not in pids and len(pids) == 1


def test_attached(me, programs, targets):
    """Threads that began before the recording have their names from its start on, also in a
    snapshot."""
    target = targets.start(me, [programs.simple("named")], env={"LANG": "C.UTF-8"})
    assert target.proc.stdout.readline() == "late\n"
    iprobe = me.start_iprobe("attach", target.pid, "--overwrite", "-q", "-o", me.dir() / "trace")
    time.sleep(0.5)
    shot = me.dir() / "shot"
    done = me.iprobe("snapshot", target.pid, "-o", shot)
    assert done.returncode == 0, repr(done)
    iprobe.terminate()
    actors.last_words(iprobe)
    lines = me.iprobe("dump", "--json", shot).stdout.splitlines()
    assert NAMES <= {json.loads(line).get("thread") for line in lines}
    assert "early" not in {json.loads(line).get("thread") for line in lines}
    target.proc.stdin.close()
    assert target.proc.wait(timeout=60) == 0


def test_slots_that_lie(me, programs, targets):
    """The target may write what it likes into its slots: no name of a process that is not
    recorded comes into the trace, nor of a thread that there cannot be, and little time goes there.
    """
    target = targets.start(me, [programs.simple("named")], env={"LANG": "C.UTF-8"})
    stranger = targets.start(me, [programs.simple("waits"), "read"])
    out, at = me.dir() / "trace", area.offsets()
    iprobe = me.start_iprobe("attach", target.pid, "--json", "-o", out)
    memory.wait_until_live(target.pid, iprobe)
    shared = area.mapped(target.pid)
    for i, (pid, tid) in enumerate(
        [
            (stranger.pid, stranger.pid),
            (target.pid, stranger.pid),
            (1, 1),
            (0, 0),
            (2**32 - 1,) * 2,
        ]
    ):
        slot = at["SLOTS"] + 128 * (100 + i)
        for field, value in (("pid", pid), ("tid", tid), ("state", 1)):
            struct.pack_into("<I", shared, slot + at[f"slot.{field}"], value)
        struct.pack_into("<Q", shared, slot + at["slot.claimed"], 2**64 - 1 if i % 2 else 1)
    struct.pack_into("<I", shared, at["area.slots_used"], 0xFFFFFFFF)
    time.sleep(1)
    with open(f"/proc/{iprobe.pid}/stat", encoding="ascii") as f:
        used = sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    assert used < 0.5, f"{used} s of CPU time"
    iprobe.terminate()
    done = actors.last_words(iprobe)
    assert done.returncode == 0, repr(done)
    names = json.loads(me.iprobe("info", "--json", out).stdout)["thread_names"]
    # in the second slot the thread is one of the other process: this process has no such thread
    assert not [t for t in names if t["tid"] in (1, 0, 2**32 - 1)], names
    assert "waits" not in {t["name"] for t in names} and len(names) < 100
    target.proc.stdin.close()
    stranger.proc.stdin.close()


def shown(thread, name):
    """A thread's text in lines that have no escapes: '?' for what no terminal is to get."""
    text = name.decode("utf-8", "surrogateescape")
    return f"thread {thread} " + re.sub("[\x00-\x1f\x7f\udc80-\udcff]", "?", text)


def test_graph_by_thread(recorded):
    whole = recorded.json("graph", "--json")
    tree = recorded.json("graph", "--json", "--by", "thread")
    assert tree["by"] == "thread" and tree["total_ns"] == whole["total_ns"]
    roots = {n["id"]: n for n in tree["nodes"] if not n["parent"]}
    assert all(n["function"] is None and not n["calls"] for n in roots.values())
    named = {n["tid"]: n["thread"] for n in roots.values()}
    assert {named[tid] for tid in recorded.threads} == NAMES and len(named) == len(roots)
    assert {n["process"] for n in roots.values()} == {"named"}
    calls = [n for n in tree["nodes"] if n["parent"] in roots]
    assert all(n["total_ns"] == roots[n["parent"]]["total_ns"] for n in calls)
    assert sum(n["calls"] for n in calls) == whole["nodes"][0]["calls"]

    inverted = recorded.json("graph", "--json", "--by", "thread", "--bottom-up")["nodes"]
    assert inverted[0]["function"] == "work" and not inverted[0]["parent"]
    callers = {n["tid"]: n["thread"] for n in inverted[1:]}
    assert callers == named and {n["parent"] for n in inverted[1:]} == {1}
    assert sum(n["calls"] for n in inverted[1:]) == inverted[0]["calls"]

    lines = recorded.actor.iprobe("graph", "--by", "thread", "--depth", "1", recorded.dir).stdout
    of = recorded.actor.iprobe("graph", "--by", "thread", "--of", "work", recorded.dir).stdout
    dot = recorded.actor.iprobe("graph", "--by", "thread", "--dot", recorded.dir).stdout
    for tid, name in recorded.threads.items():
        assert re.search(rf"^[^|]*\d {{20,}}{re.escape(shown(tid, name))}$", lines, re.M), lines
        if name != HOSTILE:
            assert re.search(rf"^ .*    {shown(tid, name)}$", of, re.M), of
            node = re.search(rf'(f\d+) \[label="{shown(tid, name)}" .*shape=ellipse', dot)
            assert re.search(rf"{node[1]} -> f\d+ \[", dot), dot
    # a call of --depth 1 lies below its thread
    assert lines.count(" work\n") >= 7
    assert not set("\x1b\t") & set(lines + of + dot.replace("\t", ""))


def test_graph_of_one_thread(recorded):
    tid = next(tid for tid, name in recorded.threads.items() if name == b"late")
    tree = recorded.json("graph", "--json", "--tid", str(tid))
    assert tree["tid"] == tid and [t["thread"] for t in tree["only"]] == ["late"]
    text = recorded.actor.iprobe("graph", "--tid", str(tid), recorded.dir).stdout
    assert f"\nonly thread {tid} late\n" in text and "all threads together" not in text


def test_exports_by_thread(recorded):
    def export(form, *options):
        out = recorded.dir.parent / f"out.{form}"
        done = recorded.actor.iprobe("export", "--format", form, "-o", out, *options, recorded.dir)
        return out, done

    folded = export("folded", "--by", "thread")[0].read_text().splitlines()
    calls = export("callgrind", "--by", "thread")[0].read_text()
    for tid, name in recorded.threads.items():
        assert any(line.startswith(f"{shown(tid, name)};work ") for line in folded), folded
        assert re.search(rf"^fn=\(\d+\) {re.escape(shown(tid, name))}$", calls, re.M)
    whole = export("folded")[0].read_text().splitlines()
    assert len(whole) == 1
    times = sum(int(line.rsplit(" ", 1)[1]) for line in folded)
    assert abs(times - int(whole[0].split()[1])) <= len(folded)

    profile = gzip.decompress(export("pprof", "--by", "thread")[0].read_bytes())
    assert all(key in profile for key in (b"thread", b"tid", b"process", b"mc-worker-3"))
    assert b"\x1b[2J" not in profile
    html = export("html", "--by", "thread")[0].read_text()
    assert re.search(r'{"name":"thread \d+ mc-worker-3"}', html)
    for form in ("chrome", "perfetto"):
        refused = export(form, "--by", "thread")[1]
        assert refused.returncode == 2 and "--by thread does not go with" in refused.stderr


def test_top_by_thread(me, programs, targets):
    """Two processes have threads of the same names, which change while iprobe top looks."""
    named = [
        targets.start(me, [programs.simple("named")], env={"LANG": "C.UTF-8"}) for _ in range(2)
    ]
    pids = [target.pid for target in named]
    done = me.iprobe("top", "--by", "thread", "--json", "-d", "300ms", "-n", "7", *pids)
    assert done.returncode == 0, repr(done)
    pictures = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(pictures) == 7
    for picture in pictures:
        rows = picture["threads"]
        assert "functions" not in picture
        assert sum(row["calls"] for row in rows) == picture["calls"] > 100
        assert len({(row["pid"], row["tid"]) for row in rows}) == len(rows)
        for pid in pids:
            names = [row["thread"] for row in rows if row["pid"] == pid]
            assert {*NAMES} - {"late"} < {*names}, names
            tids = {row["tid"] for row in rows if row["pid"] == pid}
            tasks = {int(task) for task in os.listdir(f"/proc/{pid}/task")}
            # all but those that are brief are there still
            assert len(tids & tasks) >= 7 and pid not in tids
    for pid in pids:
        assert "late" in {r["thread"] for r in pictures[-1]["threads"] if r["pid"] == pid}
        one = next(r for r in pictures[-1]["threads"] if r["pid"] == pid and r["thread"] == "late")
        assert one["all_calls"] > one["calls"] > 0 and one["self_ns"] > 0 and one["rate"] > 100

    text = me.iprobe("top", "--by", "thread", "--batch", "-d", "400ms", "-n", "1", *pids).stdout
    lines = text.splitlines()
    assert "function in" in lines[0] and "threads in" in lines[0]
    assert lines[1].split() == ["RATE/s", "CALLS", "%SELF", "*SELF", "THREAD"]
    for pid in pids:
        assert re.search(rf"^ .* {pid}/\d+ mc-worker-3$", text, re.M)
    alone = me.iprobe("top", "--by", "thread", "-b", "-d", "400ms", "-n", "1", pids[0]).stdout
    assert re.search(r"^ .*  \d+ mc-worker-3$", alone, re.M) and "/" not in alone.splitlines()[3]
    assert "\x1b" not in text + alone and UTF8 in text
    for target in named:
        target.proc.stdin.close()
        assert target.proc.wait(timeout=60) == 0


def test_hist_of_one_thread(recorded):
    tid = next(tid for tid, name in recorded.threads.items() if name == HOSTILE)
    hist = recorded.json("hist", "--json", "--tid", str(tid))
    assert hist["tid"] == tid and [t["thread"] for t in hist["only"]] == [in_json(HOSTILE)]
    assert "only" not in recorded.json("hist", "--json")
    text = recorded.actor.iprobe("hist", "--tid", str(tid), recorded.dir).stdout
    assert text.startswith(f"only thread {tid} \\x1b[2J\\x09\\x0a") and "\x1b" not in text


def test_messages_name_the_thread(me, programs, targets):
    """A name is no more than a part of the line."""
    target = targets.start(me, [programs.simple("named")], env={"LANG": "C.UTF-8"})
    tasks = pathlib.Path(f"/proc/{target.pid}/task")
    memory.wait_for(
        "no thread with that name",
        lambda: any((task / "comm").read_bytes().startswith(b"\x1b") for task in tasks.iterdir()),
    )
    tid = next(
        int(task.name) for task in tasks.iterdir() if (task / "comm").read_bytes()[:1] == b"\x1b"
    )
    with subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-p", str(tid)]) as tracer:
        status = tasks / str(tid) / "status"
        memory.wait_for(
            "not traced", lambda: f"TracerPid:\t{tracer.pid}\n" in status.read_text("latin-1")
        )
        said = one_line(me.iprobe("attach", target.pid, "-o", me.dir() / "trace"))
        tracer.terminate()
    assert f'thread {tid} (\\x1b[2J\\x09\\x0a\\"\\xe2\\x82) is already traced by' in said, said
    target.proc.stdin.close()
    assert target.proc.wait(timeout=60) == 0


def test_parts_keep_names(recorded):
    """Those that threads had before, too; split says whose a part is."""
    late = next(tid for tid, name in recorded.threads.items() if name == b"late")
    told = {t["from_ns"]: t["thread"] for t in names_of(recorded, recorded.dir, late)}
    changed = max(told)
    part = recorded.dir.parent / "trimmed"
    times = f"{changed - 100_000_000}ns", f"{changed + 100_000_000}ns"
    done = recorded.actor.iprobe(
        "trim", "--from", times[0], "--to", times[1], "-o", part, recorded.dir
    )
    assert done.returncode == 0, repr(done)
    assert {t["from_ns"]: t["thread"] for t in names_of(recorded, part, late)} == told
    lines = recorded.actor.iprobe("dump", "--json", "--tid", str(late), part).stdout.splitlines()
    seen = [json.loads(line)["thread"] for line in lines]
    assert seen[0] == "early" and seen[-1] == "late"

    parts = recorded.json("split", "--json", "--by", "thread", "-o", recorded.dir.parent / "part")
    by_tid = {p["tid"]: p["thread"] for p in parts["parts"]}
    assert {by_tid[tid] for tid in recorded.threads} == NAMES
    done = recorded.actor.iprobe(
        "split", "--by", "thread", "-o", recorded.dir.parent / "again", recorded.dir
    )
    assert f"again.{late}: " in done.stderr and " (late)\n" in done.stderr
    assert "\x1b" not in done.stderr


def names_of(recorded, directory, tid):
    told = json.loads(recorded.actor.iprobe("info", "--json", directory).stdout)["thread_names"]
    return [t for t in told if t["tid"] == tid]


def test_top_with_slots_that_lie(me, programs, targets):
    """A thread in two slots is one row; blocks and processes that there are not have none."""
    target = targets.start(me, [programs.simple("named")], env={"LANG": "C.UTF-8"})
    at = area.offsets()
    top = me.start_iprobe("top", "--by", "thread", "--json", "-d", "300ms", "-n", "5", target.pid)
    memory.wait_until_live(target.pid, top)
    shared = area.mapped(target.pid)

    def put(slot, field, value):
        form = "<Q" if field == "claimed" else "<I"
        struct.pack_into(form, shared, at["SLOTS"] + 128 * slot + at[f"slot.{field}"], value)

    def get(slot, field):
        return struct.unpack_from("<I", shared, at["SLOTS"] + 128 * slot + at[f"slot.{field}"])[0]

    def stays(slot):
        """A "brief" thread may end meanwhile, and then its slot is another's."""
        comm = pathlib.Path(f"/proc/{target.pid}/task/{get(slot, 'tid')}/comm")
        try:
            name = comm.read_bytes()
        except OSError:
            return False
        return get(slot, "state") == 1 and get(slot, "block") and name.startswith(b"mc-worker")

    memory.wait_for("too few slots", lambda: sum(map(bool, map(stays, range(10)))) == 4)
    used, other = [i for i in range(10) if stays(i)][:2]
    for i, (pid, tid, block) in enumerate(
        [
            (target.pid, get(used, "tid"), get(used, "block")),
            (1, 1, get(other, "block")),
            (2**32 - 1, 2**32 - 1, 2**32 - 1),
            (target.pid, 0, get(other, "block")),
        ]
    ):
        for field, value in (("pid", pid), ("tid", tid), ("block", block), ("state", 1)):
            put(100 + i, field, value)
        claimed = struct.unpack_from("<Q", shared, at["SLOTS"] + 128 * used + at["slot.claimed"])
        put(100 + i, "claimed", claimed[0])
    struct.pack_into("<I", shared, at["area.slots_used"], 0xFFFFFFFF)
    done = actors.last_words(top)
    assert done.returncode == 0, repr(done)
    last = json.loads(done.stdout.splitlines()[-1])["threads"]
    ids = [(row["pid"], row["tid"]) for row in last]
    assert len(ids) == len(set(ids)) and (target.pid, get(used, "tid")) in ids, ids
    assert not {0, 2**32 - 1} & {tid for _, tid in ids}
    # of the other process nothing is known, its name least of all
    assert all(row["thread"] is None for row in last if row["tid"] == 1)
    target.proc.stdin.close()
