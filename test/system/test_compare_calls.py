# SPDX-License-Identifier: Apache-2.0
"""
iprobe compare-calls: a slow call beside a usual one, in programs that know why it was slow.
"""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest import actor as actors  # noqa: E402
from test_darc import made, recorded  # noqa: E402
from test_wait import skip_without_events  # noqa: E402

SLEEPS, QUEUE, ITERATIONS = 5, 59, 4  # seeds, by what is planted


@pytest.fixture(name="trace", scope="module")
def fixture_trace(top, builddir, programs):
    """(what is planted, a trace of it with events of the kernel)."""
    actor = actors.Actor("root", 0, top, builddir)
    skip_without_events(actor)
    program, path = made(programs, SLEEPS)
    return program, recorded(actor, path, "--kernel")


def compared(actor, trace, *options):
    done = actor.iprobe("compare-calls", "--of", "serve", "--json", *options, trace, timeout=120)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def test_the_differences_are_all_of_it(root, trace):
    program, where = trace
    document, planted = compared(root, where, "--slowest", 5), 0
    calls = json.loads(root.iprobe("report", "--json", "-f", "serve", where).stdout)
    (row,) = calls["functions"]
    assert document["calls"] == row["calls"] == program.operations
    assert len(document["comparisons"]) == 5
    durations = [c["slow"]["duration_ns"] for c in document["comparisons"]]
    assert durations == sorted(durations, reverse=True)
    assert durations[0] == pytest.approx(row["max_ns"], abs=2)
    assert document["usual"]["duration_ns"] == pytest.approx(row["p50_ns"], rel=0.03)
    for comparison in document["comparisons"]:
        nodes, count = comparison["nodes"], len(comparison["nodes"])
        for key, call in (("slow_ns", comparison["slow"]), ("usual_ns", document["usual"])):
            assert sum(n[key] for n in nodes) == pytest.approx(call["duration_ns"], abs=count)
        sizes = [abs(n["difference_ns"]) for n in nodes]
        assert all(a >= b - 1 for a, b in zip(sizes, sizes[1:])), sizes
        # what it did is all of its time
        for node in nodes:
            for key in ("slow_ns", "usual_ns"):
                parts = sum(p[key] for p in node["parts"])
                assert parts == pytest.approx(node[key], abs=2 + len(node["parts"])), node
        object_ = nodes[0]["parts"][0]["object"]
        planted += nodes[0]["path"] == program.path and object_ == "timer:clock_nanosleep"
    # on a busy machine the slowest call may be one that had to wait for a CPU
    assert planted >= 3, document["comparisons"]


def test_other_causes(root, programs):
    """A loop that goes on for longer; another thread that serves."""
    skip_without_events(root)
    for seed in (ITERATIONS, QUEUE):
        program, path = made(programs, seed)
        document = compared(root, recorded(root, path, "--kernel"), "--slowest", 5)
        largest = [comparison["nodes"][0] for comparison in document["comparisons"]]
        if seed == ITERATIONS:
            found = [
                n
                for n in largest
                if n["path"][:-1] == program.path and n["slow_calls"] > 10 * n["usual_calls"] > 0
            ]
        else:
            parts = [n["parts"][0] for n in largest if n["path"] == program.path]
            found = [
                p for p in parts if p["kind"] == "blocked" and p["thread"] == "order-server"
            ]
        # the others may have had to wait for a CPU
        assert len(found) >= 3, largest


def test_for_people(root, trace):
    program, where = trace
    options = ("--of", "serve", "-n", 1, "--slowest", 5)
    lines = root.iprobe("compare-calls", *options, where).stdout.splitlines()
    assert any(line.endswith(" > ".join(program.path)) for line in lines), lines
    assert any("blocked on timer clock_nanosleep" in line for line in lines), lines
    assert sum(" > " in line for line in lines) == 5, lines


def test_refusals(root, trace):
    _, where = trace
    for options, code, words in [
        ((), 2, "--of names the function"),
        (("--of", "serve", "--slowest", "0"), 2, "from 1 to 1000"),
        (("--of", "serve", "--depth", "1001"), 2, "1000 at most"),
        (("--of", "*"), 1, "name one"),
        (("--of", "serv"), 1, "serve"),
    ]:
        done = root.iprobe("compare-calls", *options, where)
        assert done.returncode == code and words in done.stderr, (options, done)
        assert not done.stdout and len(done.stderr.splitlines()) == 1, done


def test_values_of_the_calls(me, programs):
    """What the slow one was given, and returned, and what the usual one."""
    trace = me.dir() / "trace"
    program = programs.simple("slow_requests", placement="fentry")
    options = ("-q", "--args", "--retval", "-f", "handle_request,compact", "-o", trace)
    done = me.iprobe("run", *options, "--", program, "3", input="\n")
    assert done.returncode == 0, repr(done)
    done = me.iprobe("compare-calls", "--of", "handle_request", "--json", "--slowest", "2", trace)
    document = json.loads(done.stdout)
    for comparison in document["comparisons"]:
        slow = comparison["slow"]
        assert slow["args"] == {"uri": "/b", "id": 2} and slow["retval"] == 503, slow
    usual = document["usual"]
    assert usual["args"]["uri"] in ("/a", "/c") and usual["retval"] == 200, usual
    text = me.iprobe("compare-calls", "--of", "handle_request", trace).stdout
    first, second = text.splitlines()[0], text.splitlines()[2]
    assert second.startswith('handle_request(uri="/b", id=2) = 503 in thread '), text
    assert 'the usual one: handle_request(uri="/' in first and " = 200, " in first, text
    # without values the lines are as they were
    bare = me.dir() / "bare"
    options = ("-q", "-f", "handle_request", "-o", bare)
    done = me.iprobe("run", *options, "--", program, "3", input="\n")
    assert done.returncode == 0, repr(done)
    text = me.iprobe("compare-calls", "--of", "handle_request", bare).stdout
    assert text.splitlines()[2].startswith("handle_request in thread "), text
    assert "handle_request(" not in text, text


@pytest.fixture(name="sized", scope="module")
def fixture_sized(top, builddir, programs):
    """A trace of test/programs/sized_reads.c with all values."""
    actor = actors.Actor("root", 0, top, builddir)
    trace = actor.dir() / "trace"
    program = programs.simple("sized_reads", placement="fentry")
    done = actor.iprobe("run", "-q", "--args", "--retval", "-o", trace, "--", program, "400")
    assert done.returncode == 0, repr(done)
    return trace


def test_values_of_call_paths(me, sized):
    """What a call path was given in the slow call, and what usually; of its longest call. What is
    the same, and what only one of the two calls has, is not told.
    """
    (comparison,) = compared(me, sized)["comparisons"]
    told = {n["path"][-1]: n.get("values") for n in comparison["nodes"]}
    assert set(told) == {"serve", "look_up", "step", "read_block", "refill"}, told
    assert told["read_block"] == [
        {"name": "name", "of": "args", "slow": "large", "usual": "small"},
        {"name": "len", "of": "args", "slow": 65536, "usual": 16},
        {"name": "bytes", "of": "point", "point": "fetched", "slow": 65536, "usual": 16},
        {"name": None, "of": "retval", "slow": -1, "usual": 16},
    ]
    assert told["step"] == [
        {"name": "number", "of": "args", "slow": 9, "usual": 2},
        {"name": "us", "of": "args", "slow": 8000, "usual": 300},
    ]
    assert told["look_up"] is None and told["refill"] is None, told
    assert [(v["name"], v["of"]) for v in told["serve"]] == [("id", "args"), (None, "retval")]
    lines = me.iprobe("compare-calls", "--of", "serve", sized).stdout.splitlines()
    below = {
        line.split(" > ")[-1]: below.strip()
        for line, below in zip(lines, lines[1:])
        if " > " in line
    }
    assert below["read_block"] == (
        'name "small" -> "large", len 16 -> 65536, fetched: bytes 16 -> 65536, returned 16 -> -1'
    )
    assert below["step"] == "number 2 -> 9, us 300 -> 8000 (of the longest call)", lines


def test_values_at_a_depth(me, sized):
    """What is deeper has no line, and its values are not those of another one."""
    done = me.iprobe("compare-calls", "--of", "read_block", "--json", "--depth", "1", sized)
    (comparison,) = json.loads(done.stdout)["comparisons"]
    assert [n["path"] for n in comparison["nodes"]] == [["read_block"], ["read_block", "refill"]]
    assert [v["slow"] for v in comparison["nodes"][0]["values"]] == ["large", 65536, 65536, -1]


def two_calls(me, payloads):
    """A trace of a usual call of serve() and a slow one, each of a callee f0, f1, ... for each
    payload; the trace, and payloads as (signature text, words) of both.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    thread = trace.thread()
    for slow in (0, 1):
        thread.call("serve")
        for k, both in enumerate(payloads):
            text, words = both[slow]
            thread.call(f"f{k}", values=(trace.signature(text), 0, words))
            thread.advance(100 + 10_000 * slow)
            thread.ret()
        thread.ret()
        thread.advance(10)
    return trace.write(me.dir() / "trace")


def test_values_that_do_not_fit(me):
    """Another signature is another function's; words that do not fit it are none."""
    trace = two_calls(
        me,
        [
            (("i4:a", [1]), ("i4:a", [2])),
            (("i4:a", [1]), ("i4:b", [2])),
            (("i4:a", [1]), ("i4:a i4:b", [2, 3])),
            (("s:text", [1, 0x41]), ("s:text", [5000, 0x41])),
            (("i4:a", [1]), ("i4:a", [])),
            (("i4:a", [1]), ("nonsense", [2])),
        ],
    )
    done = me.iprobe("compare-calls", "--of", "serve", "--json", trace)
    assert done.returncode == 0, repr(done)
    (comparison,) = json.loads(done.stdout)["comparisons"]
    told = {n["path"][-1]: n.get("values") for n in comparison["nodes"]}
    assert told.pop("f0") == [{"name": "a", "of": "args", "slow": 2, "usual": 1}]
    assert set(told.values()) == {None} and len(told) == 6, told


def test_values_are_bounded(me):
    large = list(range(1000))
    trace = two_calls(me, [(("i4:a", [1]), ("i4:a", [2]))] + 1200 * [2 * (("i8:n", large),)])
    done = me.iprobe("compare-calls", "--of", "serve", "--json", trace)
    assert done.returncode == 0, repr(done)
    (comparison,) = json.loads(done.stdout)["comparisons"]
    assert comparison["values_left_out"] is True, comparison
    (first,) = [n for n in comparison["nodes"] if n["path"][-1] == "f0"]
    assert first["slow_calls"] == 1


def test_points_are_bounded(me):
    """Of 20 different points in a call the first 16 are told, each with its last values; a point
    outside of the function is none of it.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    thread = trace.thread()
    signature = trace.signature("i4:n")
    for slow in (0, 1):
        thread.point("outside", values=(signature, 0, [slow]))
        thread.call("serve")
        thread.call("work")
        for n in (7 * slow, 3 + 100 * slow):
            for k in range(20):
                thread.point(f"p{k}", values=(signature, 0, [n + k]))
        thread.advance(1000 + 100_000 * slow)
        thread.ret()
        thread.point("behind", values=(signature, 0, [5 + slow]))
        thread.ret()
        thread.advance(10)
    done = me.iprobe(
        "compare-calls", "--of", "serve", "--json", trace.write(me.dir() / "trace")
    )
    (comparison,) = json.loads(done.stdout)["comparisons"]
    told = {n["path"][-1]: n["values"] for n in comparison["nodes"]}
    assert told["work"] == [
        {"name": "n", "of": "point", "point": f"p{k}", "slow": 103 + k, "usual": 3 + k}
        for k in range(16)
    ]
    assert told["serve"] == [
        {"name": "n", "of": "point", "point": "behind", "slow": 6, "usual": 5}
    ]
