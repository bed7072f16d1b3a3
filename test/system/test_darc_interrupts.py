# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc and compare-calls: slow calls whose CPU interrupts have had. Packets that others send
are handled on the CPU of a program that has nothing to do with them.
"""

import json
import os

import pytest

from conftest import make_actor
from test_html import browser, document  # noqa: F401
from test_html_browser import View
from test_wait import skip_without_events

NET_RX = "softirq NET_RX"
# A network of its own, whose packets are handled on the CPU of $1. What else this machine does is
# not to be the cause: a session is scheduled as a group, whatever the priority of its threads is.
SETUP = """
echo -15 2>/dev/null >/proc/self/autogroup
mount -t sysfs none /sys && mount -t tracefs none /sys/kernel/tracing &&
echo "$1" 2>/dev/null >/sys/class/net/lo/queues/rx-0/rps_cpus || exit 77
shift
exec nice -n -15 "$@"
"""


@pytest.fixture(scope="module", name="me")
def fixture_me(top, builddir):
    who = make_actor("root", top, builddir)
    yield who
    who.cleanup()


@pytest.fixture(scope="module", name="trace")
def fixture_trace(me, programs):
    skip_without_events(me)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU: packets are handled where they are sent")
    packets = programs.simple("packets", prepared=False)
    victim = programs.simple("interrupted")
    trace = me.dir() / "trace"
    done = me.run(
        ["setsid", "-w", "unshare", "-nm", "sh", "-c", SETUP, "sh", f"{1 << cpus[1]:x}"]
        + [packets, cpus[0], 60000]
        + [me.iprobe_path, "run", "-q", "--kernel", "-o", trace, "--"]
        + [victim, cpus[1], 8000],
        timeout=120,
    )
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip(f"no network whose packets are handled on another CPU: {done.stderr}")
    assert done.returncode == 0, repr(done)
    return trace


@pytest.fixture(scope="module", name="slow")
def fixture_slow(me, trace):
    """What darc says of calls that took twice as long as most."""
    (row,) = json.loads(me.iprobe("report", "--json", "-f", "serve", trace).stdout)[
        "functions"
    ]
    least = f"{row['p50_ns'] * 2}ns"
    done = me.iprobe("darc", "-f", "serve", "--slower-than", least, trace)
    assert done.returncode == 0, repr(done)
    document = json.loads(
        me.iprobe("darc", "-f", "serve", "--slower-than", least, "--json", trace).stdout
    )
    return document, done.stdout


def excess(path, kind):
    return sum(part["excess_ns"] for part in path["parts"] if part["kind"] == kind)


def test_they_are_the_cause(slow):
    """They hit any function of it: none of these is blamed."""
    document, _ = slow
    assert document["state"] == "root cause found", document
    (outside,) = [
        path for path in document["paths"] if path["cause"]["kind"] in ("interrupt", "preempted")
    ]
    # the machine below may take CPUs, too, of which nothing is told here
    assert outside["path"] == ["serve"] and outside["share"] > 0.15, document["paths"]
    parts = [part for part in outside["parts"] if part["object"] == NET_RX]
    assert [part["kind"] for part in parts] == ["interrupt"]
    assert parts[0]["excess_ns"] > 10000, parts
    # another program may have had the CPU for longer: the larger one names the cause
    largest = max(
        (part for part in outside["parts"] if part["kind"] in ("interrupt", "preempted")),
        key=lambda part: part["excess_ns"],
    )
    assert outside["cause"]["kind"] == largest["kind"], outside
    assert outside["cause"]["object"] == largest["object"], outside
    # what the code takes is the same, but for caches
    assert excess(outside, "interrupt") > excess(outside, "self") / 4, outside


def test_for_people(slow):
    document, text = slow
    assert f"interrupted: {NET_RX}" in text, text
    had = any(path["cause"]["kind"] == "interrupt" for path in document["paths"])
    why = "interrupts had the CPU of the thread" if had else "the thread had to wait for a CPU"
    assert f"{why}, wherever it was" in text, text


def test_of_one_call(me, trace):
    """The slowest one that was interrupted, beside a usual one."""
    done = me.iprobe("compare-calls", "--of", "serve", "--slowest", "300", "--json", trace)
    assert done.returncode == 0, repr(done)
    found = [
        part
        for comparison in json.loads(done.stdout)["comparisons"]
        for node in comparison["nodes"]
        for part in node["parts"]
        if part["object"] == NET_RX
    ]
    assert found and {part["kind"] for part in found} == {"interrupt"}, found
    assert max(part["slow_ns"] for part in found) > 20000, found


def page_of(me, trace, command, *options):
    page = me.dir() / "page.html"
    done = me.iprobe(command, *options, "--html", page, trace)
    assert done.returncode == 0, repr(done)
    return page


def test_timelines_have_them(me, trace):
    """As long as the parts of the call tell; a part is of one call path."""
    data = document(page_of(me, trace, "compare-calls", "--of", "serve", "--slowest", "300"))
    names = set()
    for comparison, timeline in zip(data["result"]["comparisons"], data["timelines"]):
        known = sum(
            part["slow_ns"]
            for node in comparison["nodes"]
            for part in node["parts"]
            if part["kind"] == "interrupt"
        )
        found = timeline["interrupts"]
        names.update(one["name"] for one in found)
        assert sum(one["ns"] for one in found) == pytest.approx(known, abs=10 + len(found))
    assert NET_RX in names, names


@pytest.mark.slow
def test_pages_in_a_browser(me, trace, slow, browser):  # noqa: F811
    page = page_of(me, trace, "compare-calls", "--of", "serve", "--slowest", "300")
    data = document(page)
    longest, number, one = max(
        (one["ns"], number, one["start"])
        for number, timeline in enumerate(data["timelines"][:-1])
        for one in timeline["interrupts"]
    )
    view = View(browser, page, f"#slow={number + 1}")
    assert "interrupts" in view.find("#states").text
    comparison = data["result"]["comparisons"][number]
    depths = max(len(node["path"]) for node in comparison["nodes"] if node["slow_calls"])
    all_ns = max(comparison["slow"]["duration_ns"], data["result"]["usual"]["duration_ns"])
    width = view.find("#view canvas").size["width"]
    view.click(
        "#view canvas", round((one + longest / 2) / all_ns * width), 26 + 22 + depths * 16 + 4
    )
    assert view.get("selected").startswith("interrupted: "), view.get("selected")
    view.clean()
    least = f"{slow[0]['searched']['from_ns']}ns"
    view = View(browser, page_of(me, trace, "darc", "-f", "serve", "--slower-than", least))
    assert f"interrupted: {NET_RX}" in view.find("#answer").text
    view.clean()
