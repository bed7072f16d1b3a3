# SPDX-License-Identifier: Apache-2.0
"""
iprobe compare-calls: a slow call beside a usual one, in programs that know why it was slow.
"""

import json

import pytest

from iptest import actor as actors
from test_darc import made, recorded
from test_wait import skip_without_events

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
    document = compared(root, where, "--slowest", 5)
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
        assert nodes[0]["path"] == program.path, nodes[0]
        # what it did is all of its time
        for node in nodes:
            for key in ("slow_ns", "usual_ns"):
                parts = sum(p[key] for p in node["parts"])
                assert parts == pytest.approx(node[key], abs=2 + len(node["parts"])), node
        assert nodes[0]["parts"][0]["object"] == "timer:clock_nanosleep", nodes[0]


def test_other_causes(root, programs):
    """A loop that goes on for longer; another thread that serves."""
    skip_without_events(root)
    for seed in (ITERATIONS, QUEUE):
        program, path = made(programs, seed)
        (comparison,) = compared(root, recorded(root, path, "--kernel"))["comparisons"]
        first = comparison["nodes"][0]
        if seed == ITERATIONS:
            assert first["path"][:-1] == program.path, first
            assert first["slow_calls"] > 10 * first["usual_calls"] > 0, first
        else:
            assert first["path"] == program.path, first
            part = first["parts"][0]
            assert part["kind"] == "blocked" and part["thread"] == "order-server", first


def test_for_people(root, trace):
    program, where = trace
    lines = root.iprobe("compare-calls", "--of", "serve", "-n", 1, where).stdout.splitlines()
    assert any(line.endswith(" > ".join(program.path)) for line in lines), lines
    assert any("blocked on timer clock_nanosleep" in line for line in lines), lines
    assert sum(" > " in line for line in lines) == 1, lines


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
