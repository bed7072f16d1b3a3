# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc: in which stretch between its calls a function takes the time that is a root cause, in a
program that knows it, and in traces whose calls are known.
"""

import json
import os
import pathlib
import re

import pytest
from test_darc import made, recorded
from test_html import browser, document  # noqa: F401
from test_html_browser import View

from iptest import memory

import tracegen

MOST = 1024  # as in stretches.h
LONG_NS = 4e6  # of test/programs/stretches.c
ITERATIONS = 4  # a seed: a callee is called more often


def searched(actor, trace, *options):
    done = actor.iprobe("darc", "-f", "serve", "--json", *options, trace, timeout=120)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def own(document_):
    """The root causes that are functions themselves."""
    return [p for p in document_["paths"] if p["cause"]["kind"] == "self"]


def marked_lines():
    """{mark: line} of the program."""
    folder = pathlib.Path(__file__).resolve().parents[1] / "programs"
    text = (folder / "stretches.c").read_text(encoding="utf-8")
    return {
        m[1]: number
        for number, line in enumerate(text.splitlines(), 1)
        if (m := re.search(r"/\* @(\w+) \*/", line))
    }


def end_of(end, lines):
    """(function, mark of its line) of one end of a stretch."""
    if end is None:
        return None
    number = int(end["call_site"].rsplit(":", 1)[1])
    (mark,) = [mark for mark, line in lines.items() if line == number]
    return end["function"], mark


def check_first(data, where, wanted):
    """The first stretch of the cause is the one that takes long. The cause."""
    path = ["serve", "handle", "leaf"] if where == 4 else ["serve", "handle"]
    (cause,) = [p for p in own(data) if p["path"] == path]
    first, lines = cause["stretches"][0], marked_lines()
    assert (end_of(first["from"], lines), end_of(first["to"], lines)) == wanted
    assert 0.8 * LONG_NS < first["ns"] < 10 * LONG_NS and first["usual_ns"] < LONG_NS / 20
    assert first["times"] == pytest.approx(7 if where == 2 else 1)
    return cause


STRETCHES = [
    (0, (None, ("parse", "parse"))),
    (1, (("load", "load"), ("load", "again"))),
    (2, (("store", "store"), ("store", "store"))),
    (3, (("leaf", "leaf"), None)),
    (4, (None, None)),
]


@pytest.mark.parametrize("where, wanted", STRETCHES)
def test_where_a_live_program_takes_long(root, programs, where, wanted):
    """The callees of the cause are live in the last step of a live search, too."""
    program = programs.simple("stretches", placement="fentry")
    target = root.popen(["nice", "-n", "-10", program, str(where), "live"])
    try:
        memory.wait_for(
            "the program does not start",
            lambda: os.readlink(f"/proc/{target.pid}/exe") == str(program),
        )
        options = ("--slower-than", "3500us", target.pid)
        done = root.iprobe("darc", "-f", "serve", "--json", *options, timeout=120)
        assert done.returncode == 0, repr(done)
        check_first(json.loads(done.stdout), where, wanted)
        few = root.iprobe(
            *("darc", "-f", "serve", "--json", "--max-functions", 1, *options), timeout=120
        )
    finally:
        target.kill()
        target.wait()
    # of callees that were idle in the last look nothing is known
    assert few.returncode == 0, repr(few)
    (cause,) = own(json.loads(few.stdout))
    assert ("stretches" in cause) == (where == 4), cause


@pytest.mark.parametrize("where, wanted", STRETCHES)
def test_where_a_program_takes_long(root, programs, where, wanted):
    program = programs.simple("stretches", placement="fentry")
    trace = root.dir() / "trace"
    done = root.iprobe(
        *("run", "-q", "--callsite", "-o", trace, "--", "nice", "-n", "-10", program, where)
    )
    assert done.returncode == 0, repr(done)
    slow = ("--slower-than", "3500us")
    data = searched(root, trace, *slow)
    cause, lines = check_first(data, where, wanted), marked_lines()
    text = root.iprobe("darc", "-f", "serve", *slow, trace).stdout
    if where == 4:
        assert len(cause["stretches"]) == 1
        assert "it calls nothing that was recorded: it cannot be narrowed down" in text, text
        return
    start, end = (f":{lines[one[1]]})" if one else one for one in wanted)
    name = "its entry (stretches.c:" if start is None else f"the end of {wanted[0][0]} (handle+0x"
    assert f"from {name}" in text and (start is None or f"{start} to " in text), text
    name = "to its exit" if end is None else f"to the call of {wanted[1][0]} (handle+0x"
    assert name in text and (end is None or end in text), text
    assert ("; 7 times" in text) == (where == 2), text
    assert "no call that was recorded lies in there" in text and "--callsite" not in text, text


def two_stretches(me, callees=("load", "store")):
    """Of 300 calls of serve 40 are slow between load and store, and 20 in store: 1 tick is 1 us."""
    trace = tracegen.Trace(hz=1_000_000)
    t = trace.thread()
    for i in range(300):
        first, second = i % 15 in (3, 7), i % 15 == 11
        t.call("serve")
        t.advance(5)
        t.call("handle")
        t.advance(3)
        for k, name in enumerate(callees):
            if k == len(callees) - 1:
                t.advance(20_000 if first else 7)
            t.call(name)
            t.advance(20_000 if second and k == len(callees) - 1 else 30)
            t.ret()
        t.advance(4)
        t.ret()
        t.advance(6)
        t.ret()
        t.advance(50)
    return trace.write(me.dir() / "trace")


def test_figures(me):
    data = searched(me, two_stretches(me))
    found = {p["path"][-1]: p for p in own(data)}
    assert set(found) == {"handle", "store"}
    stretches = [
        (s["from"] and s["from"]["function"], s["to"] and s["to"]["function"])
        + (s["ns"], s["usual_ns"], s["times"], s["usual_times"])
        for s in found["handle"]["stretches"]
    ]
    ticks = 1000  # ns; each event takes a tick
    assert stretches[0][:2] == ("load", "store")
    assert stretches[0][2] == pytest.approx(20_000_000, abs=3 * ticks)
    assert stretches[0][3] == pytest.approx(7000, abs=3 * ticks)
    assert {s[:2] for s in stretches} == {(None, "load"), ("load", "store"), ("store", None)}
    assert all(s[4:] == (1, 1) for s in stretches)
    node = next(n for n in data["ftree"] if n["node"] == found["handle"]["node"])
    known = {s[:2]: s for s in stretches}
    assert known[(None, "load")][2] == pytest.approx(3000, abs=3 * ticks)
    assert known[("store", None)][2] == pytest.approx(4000, abs=3 * ticks)
    # what is usual is what the function takes itself
    assert sum(s[3] for s in stretches) == pytest.approx(node["usual_own_ns"], abs=3)
    (alone,) = found["store"]["stretches"]
    assert (alone["from"], alone["to"]) == (None, None) and alone["ns"] > 19_000_000
    assert all(p["stretches_left_out"] == 0 for p in found.values())


def test_they_are_bounded(me):
    """Each function calls so many others that not all stretches have room."""
    data = searched(me, two_stretches(me, [f"f{i}" for i in range(MOST + 100)]))
    (handle,) = [p for p in own(data) if p["path"] == ["serve", "handle"]]
    assert len(handle["stretches"]) == MOST
    assert handle["stretches_left_out"] > 0


def test_other_causes_have_none(root, programs):
    """A loop takes the time, and no stretch: the text tells none."""
    program, path = made(programs, ITERATIONS)
    trace = recorded(root, path)
    slow = ("--slower-than", f"{program.long_ms * 800}us")
    text = root.iprobe("darc", "-f", "serve", *slow, trace, timeout=120).stdout
    assert "a loop: " in text and "lies in there" not in text, text


@pytest.mark.slow
def test_in_a_browser(me, browser):  # noqa: F811
    page = me.dir() / "page.html"
    done = me.iprobe("darc", "-f", "serve", "--html", page, two_stretches(me))
    assert done.returncode == 0, repr(done)
    assert document(page)["result"]["paths"][0]["stretches"]
    view = View(browser, page)
    text = view.find("#answer").text
    assert "(usually 7.00 µs) from the end of load to the call of store" in text, text
    assert "--callsite of a recording tells the places" in text
    assert "It calls nothing that was recorded" in text
    view.clean()
