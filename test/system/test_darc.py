# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc: the call path that is the cause of slow calls, in programs where it is planted
(iptest/slow_paths.py), and in programs where none is.
"""

import json
import subprocess
import sys

import pytest

from iptest.slow_paths import Program
from test_wait import skip_without_events

# of each kind of cause and of call one or more; 200 were tried by hand
PLANTED = [0, 3, 4, 22, 59, 61]
PLAIN = [1000, 1001, 1002]


# has its CPU for 8 ms of each 28
HOG = """
import time
while True:
    end = time.monotonic() + 0.008
    while time.monotonic() < end:
        pass
    time.sleep(0.02)
"""


def made(programs, seed, planted=True):
    """(what is planted, the program)."""
    program = Program(seed, planted)
    path = programs.generated(
        f"slow_path_{seed}_{planted}",
        program.write,
        str(seed),
        ("-O2", "-g", "-pthread"),
        suffix="cc",
    )
    return program, path


def recorded(actor, path, *options):
    trace = actor.dir() / "trace"
    # what else this machine does is not to be the cause
    done = actor.iprobe(
        *("run", "-q", *options, "-o", trace, "--", "nice", "-n", "-10", path), timeout=120
    )
    assert done.returncode == 0, repr(done)
    return trace


def searched(actor, trace, *options):
    done = actor.iprobe("darc", "-f", "serve", "--json", *options, trace, timeout=120)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def causes(document):
    """Those of the program itself: others may have had the CPU."""
    outside = ("preempted", "interrupt")
    return [path for path in document["paths"] if path["cause"]["kind"] not in outside]


@pytest.mark.parametrize("seed", PLANTED)
def test_planted(root, programs, seed):
    """The path is found, exactly, and nothing else; and what the time went to."""
    skip_without_events(root)
    program, path = made(programs, seed)
    # on a busy machine the rightmost peak may be that of calls that had no CPU
    slow = ("--slower-than", f"{program.long_ms * 800}us")
    document = searched(root, recorded(root, path, "--kernel"), *slow)
    assert document["state"] == "root cause found" and document["kernel"], document
    (found,) = causes(document)
    assert found["path"] == program.path, document["paths"]
    cause = found["cause"]
    if program.cause == "sleep":
        assert (cause["kind"], cause["object"]) == ("blocked", "timer:clock_nanosleep"), cause
    elif program.cause == "queue":
        assert cause["kind"] == "blocked" and cause["object"].startswith("futex:"), cause
        assert cause["thread"] == "order-server", cause
    else:
        assert cause["kind"] == "self", cause
        assert cause["loop"]["calls"] > 10 * cause["loop"]["usual_calls"], cause


@pytest.mark.parametrize("seed", PLAIN)
def test_plain(root, programs, seed):
    skip_without_events(root)
    _, path = made(programs, seed, planted=False)
    document = searched(root, recorded(root, path, "--kernel"))
    # what takes the CPU away or slows all of it down is no path of the program
    told = [path for path in causes(document) if path["cause"]["kind"] != "spread"]
    assert not told, document["paths"]


@pytest.fixture(name="trace", scope="module")
def fixture_trace(request, top, builddir, programs):
    """(what is planted, a trace of it without events of the kernel)."""
    from iptest import actor as actors

    actor = actors.Actor("root", 0, top, builddir)
    program, path = made(programs, 5)
    return program, recorded(actor, path, "--callsite")


def test_the_figures_agree(root, trace):
    program, where = trace
    document = searched(root, where)
    calls = json.loads(root.iprobe("report", "--json", "-f", "serve", where).stdout)
    (row,) = calls["functions"]
    assert document["calls"] == row["calls"] == program.operations, document["calls"]
    assert sum(b["calls"] for b in document["buckets"]) == document["calls"]
    assert sum(p["count"] for p in document["peaks"]) == document["calls"]
    assert document["total_ns"] == pytest.approx(row["total_ns"], rel=1e-3)
    first = document["ftree"][0]
    assert (first["parent"], first["function"], first["depth"]) == (None, "serve", 0), first
    for node in document["ftree"][1:]:
        assert node["parent"] < node["node"] and node["call_site"], node
        assert node["longest_ns"] <= node["sum_ns"] + 1 and node["maxcount"] <= node["looked_at"]
    assert not document["kernel"] and "parts" not in document["paths"][0]
    nodes = {node["node"]: node for node in document["ftree"]}
    for path in document["paths"]:
        names, node = [], path["node"]
        while node is not None:
            names.insert(0, nodes[node]["function"])
            assert nodes[node]["root_cause"]
            node = nodes[node]["parent"]
        assert names == path["path"]


def test_choices(root, trace):
    """The same calls, chosen in other ways, have the same cause; depth ends the search."""
    program, where = trace
    document = searched(root, where)
    number, threshold = document["peak"], document["searched"]["from_ns"]
    for options in [
        ("--peak", number),
        ("--slower-than", f"{threshold}ns"),
        ("--decision-ops", 25),
        ("--percentile", "p90"),
    ]:
        other = searched(root, where, *options)
        assert other["paths"][0]["path"] == program.path, (options, other["paths"])
        assert other["searched"]["looked_at"] <= 1000
    assert searched(root, where, "--decision-ops", 25)["searched"]["looked_at"] == 25
    cut = searched(root, where, "--depth", 1)
    assert cut["state"] == "maximum depth reached", cut["state"]
    assert cut["paths"][0]["path"] == program.path[:2]
    few = searched(root, where, "--start-ops", 1000000)
    assert few["state"] == "no peak" and "1000000 are needed" in few["reason"], few
    assert not few["paths"]
    none = searched(root, where, "--slower-than", "1h")
    assert none["state"] == "no peak" and "at least 20" in none["reason"], none


def test_variance(root, trace):
    program, where = trace
    document = searched(root, where, "--by", "variance")
    assert document["nodes"][0]["path"] == program.path, document["nodes"][0]
    assert document["nodes"][0]["share"] > 0.5
    assert sum(node["share"] for node in document["nodes"]) == pytest.approx(1, abs=0.01)


def test_for_people(root, trace):
    program, where = trace
    lines = root.iprobe("darc", "-f", "serve", where).stdout.splitlines()
    assert any("which is searched" in line for line in lines), lines
    shown = [line.split() for line in lines]
    for name in program.path:
        assert any(name in words for words in shown), (name, lines)
    text = root.iprobe("darc", "-f", "serve", "--by", "variance", where).stdout
    assert " > ".join(program.path) in text, text


def test_output(root, trace):
    """The document is in the file, and the line says the same."""
    program, where = trace
    output = root.dir() / "darc.json"
    done = root.iprobe("darc", "-f", "serve", "-o", output, where)
    assert done.returncode == 0 and not done.stderr, repr(done)
    document = json.loads(output.read_text())
    assert document == searched(root, where)
    (found,) = document["paths"]
    (line,) = done.stdout.splitlines()
    path = " > ".join(program.path)
    assert line.startswith(f"root cause found: {100 * found['share']:.0f} % {path} ("), line
    assert line.endswith(f"; of {document['searched']['looked_at']} calls looked at"), line
    summary = searched(root, where, "-o", output)
    assert summary == {
        "function": "serve",
        "state": "root cause found",
        "causes": 1,
        "kernel": False,
        "said": line,
    }
    assert output.stat().st_mode & 0o777 == 0o600
    done = root.iprobe("darc", "-f", "serve", "--by", "variance", "-o", output, where)
    assert done.stdout.startswith("latency varies: ") and path in done.stdout, repr(done)
    assert json.loads(output.read_text())["nodes"][0]["path"] == program.path


def test_refusals(root, trace):
    _, where = trace
    for options, code, words in [
        ((), 2, "-f names the function"),
        (("-f", "serve", "--peak", "1", "--percentile", "p99"), 2, "one of them"),
        (("-f", "serve", "--percentile", "p100"), 2, "not 'p100'"),
        (("-f", "serve", "--peak", "0"), 2, "a number above 0"),
        (("-f", "serve", "--depth", "1001"), 2, "1000 at most"),
        (("-f", "serve", "--by", "time"), 2, "not 'time'"),
        (("-f", "serve", "--by", "variance", "--peak", "1"), 2, "does not go with"),
        (("-f", "serve", "--maxcount-percentage", "101"), 2, "0 to 100"),
        (("-f", "serve", "-o", ""), 2, "-o needs the name of a file"),
        (("-f", "serve", "-o", where), 1, "name a file with -o"),
        (("-f", "serve", "-o", where / "none" / "x"), 1, "none"),
        (("-f", "serve", "--memory", "1M"), 2, "--memory goes with a PID or a command"),
        (("-f", "*"), 1, "name one"),
        (("-f", "serv"), 1, "serve"),
    ]:
        done = root.iprobe("darc", *options, where)
        assert done.returncode == code and words in done.stderr, (options, done)
        assert not done.stdout and len(done.stderr.splitlines()) == 1, done


def test_preempted(root, programs):
    """A CPU that others take: the cause is not looked for in the function that this hits."""
    skip_without_events(root)
    _, path = made(programs, 1003, planted=False)
    trace = root.dir() / "trace"
    hog = subprocess.Popen(["chrt", "-f", "5", "taskset", "-c", "0", sys.executable, "-c", HOG])
    command = ("taskset", "-c", "0", path, "12000")
    try:
        done = root.iprobe("run", "-q", "--kernel=sched", "-o", trace, "--", *command, timeout=120)
    finally:
        hog.kill()
        hog.wait()
    assert done.returncode == 0, repr(done)
    document = searched(root, trace)
    assert document["state"] == "root cause found", document
    assert document["paths"][0]["cause"]["kind"] == "preempted", document["paths"]
    assert document["paths"][0]["path"] == ["serve"]
    assert document["paths"][0]["share"] > 0.8, document["paths"]
