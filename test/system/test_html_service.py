# SPDX-License-Identifier: Apache-2.0
"""What the page of iprobe export --format html tells of a service: of each process, not of one."""

import json
import pathlib
import sys

import pytest
from test_html import Page, browser, document, export  # noqa: F401
from test_members import list_members

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402

COMMANDS = ["./demo --now", "./worker <1>"]


@pytest.fixture
def directory(me):
    """The traces of two processes: 100, whose second function is called once, and 200, whose first
    is called twice.
    """
    directory = me.dir() / "trace"
    for pid, calls, command in zip((100, 200), (["b"], ["a", "a"]), COMMANDS):
        trace = tracegen.Trace(hz=1_000_000_000)
        trace.add("a")
        trace.add("b")
        trace.add("never")
        trace.now += 250_000_000
        thread = trace.thread(tid=pid, pid=pid)
        for name in calls:
            thread.call(name)
            thread.advance(125_000_000)
            thread.ret()
        part = trace.write(directory / f"demo-{pid}")
        session = part / "iprobe" / "session"
        text = session.read_text()
        assert "command\t./demo --now\npid\t1000\n" in text
        text = text.replace(
            "command\t./demo --now\npid\t1000\n", f"command\t{command}\npid\t{pid}\n"
        )
        session.write_text(text.replace("thread\t1000", f"thread\t{pid}"))
    list_members(directory, [(f"demo-{pid}", pid) for pid in (100, 200)], "--unit demo.service")
    return directory


def test_the_document(me, directory):
    page = export(me, directory)
    assert "<1>" not in page.read_text(encoding="utf-8")
    data = document(page)
    meta = data["meta"]
    assert (meta["processes"], meta["service"]) == (2, "--unit demo.service")
    assert (meta["probed"], len(data["functions"])) == (3, 2)
    report = json.loads(me.iprobe("report", "--json", directory).stdout)
    assert meta["recorded"] == report["duration_ns"] == 500_000_000
    assert (meta["begin"], meta["duration"]) == (250_000_000, 250_000_000)
    wanted = {p["pid"]: p for p in report["processes"]}
    assert [p["pid"] for p in data["processes"]] == [100, 200]
    for process, command, events in zip(data["processes"], COMMANDS, (2, 4)):
        assert process["command"] == command
        for key in ("name", "threads", "events", "lost", "stops"):
            assert process[key] == wanted[process["pid"]][key], key
        assert process["events"] == events
        assert (process["stops"], process["longest"], process["sites"]) == (1, 345_678, 42)


def test_a_chosen_process(me, directory):
    """It is as if the others had not been recorded."""
    data = document(export(me, directory, "--process", "200"))
    assert [(p["pid"], p["events"]) for p in data["processes"]] == [(200, 4)]
    assert data["meta"]["processes"] == 1


def test_the_list_is_bounded(me):
    directory = me.dir() / "trace"
    for pid in range(1, 211):
        trace = tracegen.Trace(hz=1_000_000_000)
        thread = trace.thread(tid=pid, pid=pid)
        thread.call("main")
        thread.ret()
        trace.write(directory / f"demo-{pid}")
    list_members(directory, [(f"demo-{pid}", pid) for pid in range(1, 211)])
    data = document(export(me, directory))
    assert (data["meta"]["processes"], len(data["processes"])) == (210, 200)


@pytest.mark.slow
def test_the_head(me, browser, directory):  # noqa: F811
    page = Page(browser, export(me, directory))
    assert page.find("#title").text == "demo (--unit demo.service)"
    facts = page.find("#facts").text.split(" · ")
    assert facts[:2] == ["on test host", "chosen by --unit demo.service"]
    assert facts[3:] == [
        "recorded for 500 ms, first event after 250 ms",
        "6 events",
        "2 threads",
        "2 functions of 3",
        "2 stops, none longer than 346 µs",
    ]
    assert page.find("#processes summary").text == "2 processes: demo 100, demo 200"
    page.find("#processes summary").click()
    rows = [
        [cell.text for cell in row.find_elements("css selector", "td")]
        for row in browser.find_elements("css selector", "#processes tbody tr")
    ]
    assert rows == [
        ["100 demo", "1", "2", "0", "42", "1", "346 µs", COMMANDS[0]],
        ["200 demo", "1", "4", "0", "42", "1", "346 µs", COMMANDS[1]],
    ]
    # a single process is told as before, and has no list
    page = Page(browser, export(me, directory / "demo-100"))
    assert page.find("#title").text == COMMANDS[0]
    assert "process 100" in page.find("#facts").text.split(" · ")
    assert not page.find("#processes").is_displayed()
    assert browser.get_log("browser") == []
