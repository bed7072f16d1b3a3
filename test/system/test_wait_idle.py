# SPDX-License-Identifier: Apache-2.0
"""
Idle waits: what a quiet server does not do must not hide what it does, in iprobe wait and graph.
"""

import json
import os
import re
import subprocess
import time

import pytest

from iptest import actor as actors
from test_wait import skip_without_events
from test_wait_export import pprof_sums

REQUESTS, DISK_MS, COMPUTE_MS = 8, 20, 5  # of test/programs/idle_server.c
QUIET = 0.15  # s before each request
IDLE = {"poll_events", "pool_worker", "maintain", "disk"}  # where threads wait for work
BUSY = {"handle", "ask_disk", "compute", "tidy", "slow_read"}


def record(top, builddir, programs, pause):
    """Has the server serve requests with pauses between them, in s."""
    if os.getuid() != 0:
        pytest.skip("not root")
    actor = actors.Actor("root", 0, top, builddir)
    skip_without_events(actor)
    trace = actor.dir() / "trace"
    proc = actor.popen(
        [
            actor.iprobe_path,
            *("run", "-q", "--kernel", "--kernel-buffer", "64M", "-o", trace, "--"),
            programs.simple("idle_server", placement="fentry"),
        ],
        stdin=subprocess.PIPE,
    )
    assert proc.stdout.readline() == "ready\n"
    for _ in range(REQUESTS):
        time.sleep(pause)
        proc.stdin.write("r")
        proc.stdin.flush()
    time.sleep(pause)
    proc.stdin.close()
    proc.stdin = None
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    return actor, lambda command, *a: actor.iprobe(command, *a, trace)


@pytest.fixture(scope="module")
def quiet(top, builddir, programs):
    """A trace of the server: what an iprobe says that reads it."""
    actor, run = record(top, builddir, programs, QUIET)
    yield run
    actor.cleanup()


@pytest.fixture
def hurried(top, builddir, programs):
    """The same where all requests are there at once."""
    actor, run = record(top, builddir, programs, 0)
    yield run
    actor.cleanup()


def said(quiet, command, *options):
    done = quiet(command, "--json", *options)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def names(table):
    """Of the functions of a table, in order."""
    lines = [line for line in table.splitlines() if line[:1] == " " and line[:10].strip().isdigit()]
    return [line.split()[-1] for line in lines]


def test_idle_waits_are_told_apart(quiet):
    document = said(quiet, "wait")
    functions = {f["function"]: f for f in document["functions"]}
    for name in IDLE:  # the CPU of a busy machine may be waited for besides
        f = functions[name]
        rest = f["cpu_ns"] + f["runqueue_ns"]
        assert f["idle_ns"] > 0.5 * (f["elapsed_ns"] - rest) > 100e6, f
    for name in ("poll_events", "pool_worker"):
        f = functions[name]
        assert f["elapsed_ns"] - f["idle_ns"] - f["cpu_ns"] - f["runqueue_ns"] < 1e6, f
    for name in BUSY:
        assert functions[name]["idle_ns"] == 0, functions[name]
    disk = next(b for b in functions["ask_disk"]["blocked"] if b["kind"] == "pipe")
    assert disk["idle_ns"] == 0 and disk["ns"] > REQUESTS * DISK_MS * 1e6 * 0.99, disk
    # what the loop does is in it, beside what is idle
    loop = functions["event_loop"]
    assert loop["idle_ns"] == functions["poll_events"]["idle_ns"]
    assert loop["elapsed_ns"] - loop["idle_ns"] > REQUESTS * (DISK_MS + COMPUTE_MS) * 1e6 * 0.99
    for f in functions.values():
        parts = f["cpu_ns"] + f["runqueue_ns"] + f["unknown_ns"]
        parts += sum(b["ns"] for b in f["blocked"])
        assert abs(f["elapsed_ns"] - parts) <= max(1000, f["elapsed_ns"] / 1000), f
        assert abs(f["idle_ns"] - sum(b["idle_ns"] for b in f["blocked"])) < 10, f
    threads = ("event_loop", "pool_worker", "maintain", "disk")
    outer = sum(functions[name]["idle_ns"] for name in threads)
    assert abs(document["idle_ns"] - outer) < 10, document


def test_the_table_goes_by_the_rest(quiet):
    text = quiet("wait").stdout
    assert "# idle: for " in text and "(--idle: a part of BLOCKED)" in text, text
    head = next(line for line in text.splitlines() if "FUNCTION" in line)
    assert head.split()[-2:] == ["IDLE", "FUNCTION"], head
    order = names(text)
    assert order.index("ask_disk") < order.index("pool_worker"), text
    assert text.count("idle: waiting for work (") == 5, text
    with_idle = quiet("wait", "--idle").stdout
    assert "idle:" not in with_idle and "IDLE" not in with_idle, with_idle
    assert names(with_idle).index("pool_worker") < names(with_idle).index("ask_disk"), with_idle
    document = said(quiet, "wait", "--idle")
    assert document["idle_ns"] == 0, document
    old, new = ({f["function"]: f for f in d["functions"]} for d in (document, said(quiet, "wait")))
    for name, f in old.items():
        assert {k: f[k] for k in f if k not in ("idle_ns", "blocked")} == {
            k: new[name][k] for k in f if k not in ("idle_ns", "blocked")
        }
        assert sum(b["ns"] for b in f["blocked"]) == sum(b["ns"] for b in new[name]["blocked"])


def test_the_tree_goes_by_the_rest(quiet):
    """What is idle alone is below the least share."""
    text = quiet("wait", "--tree", "--min-percent", "4").stdout
    assert "# idle: for " in text and "pool_worker" not in text, text
    assert {"event_loop", "handle", "ask_disk"} <= set(names(text)), text
    assert "pool_worker" in quiet("wait", "--tree", "--min-percent", "4", "--idle").stdout
    nodes = said(quiet, "wait", "--tree")["nodes"]
    for node in nodes:
        parts = node["cpu_ns"] + node["runqueue_ns"] + node["unknown_ns"] + node["blocked_ns"]
        assert abs(node["elapsed_ns"] - parts) < 10, node
        assert node["idle_ns"] <= node["blocked_ns"] + 10, node
        assert (node["idle_ns"] > 0) == (node["function"] in IDLE | {"event_loop"}), node


def test_a_selection_within_a_request(quiet):
    """The wait for the disk is no idle one because nothing around it is shown."""
    (ask,) = said(quiet, "wait", "-f", "ask_disk")["functions"]
    assert ask["idle_ns"] == 0 and ask["elapsed_ns"] > REQUESTS * DISK_MS * 1e6 * 0.99


def test_the_graph_goes_by_the_rest(quiet):
    """Percentages are of the time that was not idle."""
    text = quiet("graph").stdout
    assert re.search(r"^idle: for \S+ m?s threads waited for new work", text, re.M), text
    share = {  # a busy machine lets an idle thread wait for its CPU, too
        line.split()[-1]: float(line.split()[2]) for line in text.splitlines() if "  1  " in line
    }
    assert share.get("pool_worker", 0) < 15 < share["event_loop"], text
    document, wait = said(quiet, "graph"), said(quiet, "wait")
    idle = {f["function"]: f["idle_ns"] for f in wait["functions"]}
    for node in document["nodes"]:
        assert abs(node["idle_ns"] - idle[node["function"]]) < 10, node
        assert node["self_idle_ns"] == (node["idle_ns"] if node["function"] in IDLE else 0), node
    assert abs(document["idle_ns"] - wait["idle_ns"]) < 10
    roots = [node for node in document["nodes"] if not node["parent"]]
    assert abs(sum(node["total_ns"] for node in roots) - document["total_ns"]) < 10
    with_idle = quiet("graph", "--idle").stdout
    assert "idle:" not in with_idle and "pool_worker" in with_idle, with_idle
    for options in (("--bottom-up",), ("--of", "pool_worker"), ("--by", "thread"), ("--fold",)):
        own, all_of_it = (quiet("graph", *options, *o).stdout for o in ((), ("--idle",)))
        assert "idle: for" in own and "idle: for" not in all_of_it, own
        assert own != all_of_it
    inverted = said(quiet, "graph", "--bottom-up")
    assert abs(inverted["idle_ns"] - document["idle_ns"]) < 10
    (row,) = [n for n in inverted["nodes"] if n["function"] == "pool_worker"]
    assert row["self_idle_ns"] > 0.9 * row["self_ns"] - 1e6 * REQUESTS, row


def test_a_graph_without_kernel_events(quiet, top, builddir, programs):
    """It is told that it might have been idle."""
    actor = actors.Actor("root", 0, top, builddir)
    steady = actor.dir() / "trace"
    program = programs.simple("idle_server", placement="fentry")
    command = f"{actor.iprobe_path} run -q -o {steady} -f poll_events -- {program}"
    done = actor.run(["sh", "-c", f"sleep 1 | {command}"])
    assert done.returncode == 0, repr(done)
    text = actor.iprobe("graph", steady).stdout
    assert "poll_events itself has most of it" in text and "(--kernel)" in text, text
    assert json.loads(actor.iprobe("graph", "--json", steady).stdout).get("idle_ns") is None
    actor.cleanup()


def page_of(quiet, *options):
    done = quiet("export", "--format", "html", *options)
    assert done.returncode == 0, repr(done)
    return done.stdout, json.loads(re.search(r'id="data">(.*?)</script>', done.stdout, re.S)[1])


def flame(data):
    """Times of the flame graph's call paths, by the function that they end with."""
    nodes, width = data["tree"]["nodes"], data["tree"]["width"]
    sums = {}
    for i in range(0, len(nodes), width):
        name = data["functions"][nodes[i]]["name"]
        sums[name] = sums.get(name, 0) + nodes[i + 3]
    return sums


def test_the_page_goes_by_the_rest(quiet):
    """Flame graphs and tab Waiting, with a column for what is set aside."""
    (_, own), (_, whole) = page_of(quiet), page_of(quiet, "--idle")
    idle = {f["function"]: f["idle_ns"] for f in said(quiet, "wait")["functions"]}
    less, all_of_it = flame(own), flame(whole)
    for name in BUSY | IDLE | {"event_loop"}:
        assert abs(all_of_it[name] - less.get(name, 0) - idle[name]) < 100, name
    assert abs(own["waits"]["idle"] - said(quiet, "wait")["idle_ns"]) < 100
    assert whole["waits"]["idle"] == 0 and not any(whole["waits"]["functions_idle"])
    assert sum(1 for ns in own["waits"]["functions_idle"] if ns) == len(IDLE) + 1
    blocked = own["waits"]["tree"]["nodes"], whole["waits"]["tree"]["nodes"]
    roots = [sum(n[i + 3] for i in range(0, len(n), 5) if not n[i + 1]) for n in blocked]
    assert abs(roots[1] - roots[0] - own["waits"]["idle"]) < 1000, roots
    done = quiet("export", "--format", "folded", "--idle")
    assert done.returncode == 2 and "--idle goes with --format html, pprof" in done.stderr


def test_off_cpu_stacks_and_pprof(quiet, tmp_path):
    """Neither has what is idle, unless that is asked for."""
    idle = {f["function"]: f["idle_ns"] for f in said(quiet, "wait")["functions"]}
    outer = said(quiet, "wait")["idle_ns"]
    own, whole = (
        quiet("export", "--format", "folded", "--off-cpu", *more) for more in ((), ("--idle",))
    )
    told = r"^iprobe: idle: for [\d.]+ s threads waited for new work: that is left out \(--idle"
    assert re.search(told, own.stderr, re.M), own.stderr
    assert "idle" not in whole.stderr
    us = [
        sum(int(line.rpartition(" ")[2]) for line in done.stdout.splitlines())
        for done in (own, whole)
    ]
    # each line is rounded, and those that are less than half of a microsecond are not there
    assert abs(us[1] - us[0] - outer / 1e3) < len(whole.stdout.splitlines()), us
    sums = []
    for more in ((), ("--idle",)):
        path = tmp_path / f"{len(sums)}.pb.gz"
        done = quiet("export", "--format", "pprof", "-o", path, *more)
        assert done.returncode == 0 and bool(re.search(told, done.stderr, re.M)) == (not more)
        sums.append(pprof_sums(path)[0])
    for name in BUSY | IDLE | {"event_loop"}:
        for kind in ("time", "off_cpu"):
            less = sums[1][name][kind] - sums[0][name][kind]
            assert abs(less - idle[name]) < 1000, (name, kind)


def test_usage(quiet):
    for options in (("--of", "handle"), ("--locks",), ("--by", "client")):
        done = quiet("wait", "--idle", *options)
        assert done.returncode == 2 and "--idle is of functions and of --tree" in done.stderr


def test_a_server_that_has_work_is_not_idle(hurried):
    """The loop asks for work and is never blocked in it: the wait for the disk is the outermost one
    that blocks, and still no idle one.
    """
    functions = {f["function"]: f for f in said(hurried, "wait")["functions"]}
    assert functions["ask_disk"]["idle_ns"] == functions["handle"]["idle_ns"] == 0, functions
    assert functions["ask_disk"]["elapsed_ns"] > REQUESTS * DISK_MS * 1e6 * 0.99, functions
    assert functions["pool_worker"]["idle_ns"] > 0, functions
