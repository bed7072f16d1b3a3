# SPDX-License-Identifier: Apache-2.0
"""report, graph and hist of a long trace on a terminal: a view at once, which grows, and in the
end what they say without it. Ctrl-C shows what has been read.
"""

import os
import re
import shutil
import signal

import pytest

from iptest import memory
from iptest.terminal import Terminal

XTERM, DUMB = {"TERM": "xterm"}, {"TERM": "dumb"}
LONG = 2 << 30  # bytes of a trace that takes some seconds of CPU time to read
VIEWS = [["report", "-j2"], ["graph", "--bottom-up", "-j1"], ["hist", "-j2"], ["report", "-j3"]]


def links(directory, times):
    """A trace whose streams are those of another one, again and again."""
    long = directory.with_name(f"{directory.name}-{times}")
    shutil.copytree(directory, long, ignore=shutil.ignore_patterns("stream-*"))
    streams = sorted(directory.glob("stream-*"))
    for i in range(times * len(streams)):
        os.link(streams[i % len(streams)], long / f"stream-{i}")
    return long


@pytest.fixture(scope="module")
def traces(top, builddir, programs):
    """(an ordinary trace, one that takes seconds to read)"""
    from conftest import make_actor

    who = make_actor("root" if os.getuid() == 0 else "user", top, builddir)
    short = who.dir() / "trace"
    args = ["-q", "--memory", "256M", "-o", short, "--", programs.simple("count")]
    done = who.iprobe("run", *args, "-t", "5", "-n", "100000", timeout=120)
    assert done.returncode == 0, repr(done)
    size = sum(stream.stat().st_size for stream in short.glob("stream-*"))
    assert size > 4 << 20
    yield short, links(short, LONG // size)
    who.cleanup()


READING = re.compile(
    r"reading: +\d+ %, [\d.]+ \w+ of [\d.]+ \w+, [\d.]+ \w+/s(, \S+ left)?"
)


def start(me, args, trace, env=XTERM, lines=40):
    return Terminal(me, *args, trace, env=env, lines=lines, columns=120)


def wait_for_table(t):
    t.wait("no table", lambda t: t.rows[-1].startswith("reading:") and any(t.rows[:3]))
    assert t.alternate
    t.settle()


def percent(t):
    return int(re.match(r"reading: +(\d+) %", t.rows[-1])[1])


@pytest.mark.parametrize("view", VIEWS, ids=" ".join)
def test_it_grows_and_is_the_same_in_the_end(me, traces, view):
    t = start(me, view, traces[1])
    wait_for_table(t)
    assert re.search(r"chain_outer|count_down", t.text()), t.text()
    views, seen, whole = {}, 0, 0
    while t.proc.poll() is None:
        if t.alternate and t.rows[-1].startswith("reading:"):
            seen += 1
            # else it is being drawn
            if READING.match(t.rows[-1]):
                whole += 1
                views[percent(t)] = "\n".join(t.rows[:-1])
        t.read(0.05)
    assert len(set(views.values())) > 1, views
    assert whole > seen / 2, (whole, seen)
    code, said = t.wait_end()
    plain = me.iprobe(*view, traces[1], env=XTERM, timeout=120)
    assert (code, t.scrolled(), said) == (0, plain.stdout, plain.stderr)
    assert t.is_restored() and "\x1b" not in plain.stdout


def test_nothing_else_changes(me, traces):
    short, long = traces
    for args, env in (["report", "-j2", "--json"], XTERM), (["report", "-j2"], DUMB):
        t = start(me, args, long, env=env)
        assert t.wait_end()[0] == 0
        assert t.raw and b"\x1b" not in t.raw, args

    def flashes(view):
        t = start(me, [view], short)
        assert t.wait_end()[0] == 0
        return b"\x1b" in t.raw

    for view in "report", "graph", "hist":
        # what is over soon is not shown, but a busy machine may take long
        assert not all(flashes(view) for _ in range(5)), view


def events(text):
    return int(re.search(r"(?m)^ *([\d,]+) events", text)[1].replace(",", ""))


@pytest.mark.parametrize("view", [["report", "-j2"], ["graph", "-j2"]], ids=" ".join)
def test_interrupted(me, traces, view):
    t = start(me, view, traces[1])
    wait_for_table(t)
    t.press(b"\x03")
    code, said = t.wait_end()
    assert t.is_restored()
    # setsid(1) says how it ended: by the signal
    assert code != 0 and "did not exit normally" in said, said
    share = float(re.search(r"interrupted: ([\d.]+) % of it was read", said)[1])
    assert 0 < share < 100
    if view[0] == "report":
        plain = me.iprobe("report", traces[1], timeout=120).stdout
        assert events(t.scrolled()) / events(plain) == pytest.approx(share / 100, abs=0.01)
    else:
        assert "chain_outer" in t.scrolled() and "reading:" not in t.scrolled()


def test_window_size(me, traces):
    t = start(me, ["report", "-j2"], traces[1])
    wait_for_table(t)
    t.resize(12, 70)
    t.wait("no line at the new end", lambda t: t.rows[11].startswith("reading:"))
    assert all(len(row) <= 70 for row in t.rows[:12])
    t.press(b"\x03")
    t.wait_end()
    assert t.is_restored()


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGSEGV, "killed twice"], ids=str)
def test_the_page_is_given_back(me, traces, way):
    t = start(me, ["hist", "-j2"], traces[1])
    wait_for_table(t)
    if way == "killed twice":
        t.press(b"\x03")
        t.press(b"\x03")
    else:
        os.kill(t.pid, way)
    code, _ = t.wait_end()
    assert code != 0 and t.is_restored()


def test_to_the_shell_and_back(me, traces):
    t = start(me, ["report", "-j2"], traces[1])
    wait_for_table(t)
    pid = t.pid
    t.press(b"\x1a")
    t.wait("does not stop", lambda t: memory.status_field(pid, "State")[0] == "T")
    t.wait("the page is not given back", lambda t: not t.alternate)
    os.kill(pid, signal.SIGCONT)
    t.wait("does not come back", lambda t: t.alternate and t.rows[-1].startswith("reading:"))
    t.press(b"\x03")
    t.wait_end()
    assert t.is_restored()


def test_background_jobs_leave_the_page_alone(me, traces):
    job = ["sh", "-c", 'set -m; "$@" & wait', "sh"]
    t = Terminal(me, "report", "-j2", traces[1], env=XTERM, under=job)
    assert t.wait_end()[0] == 0
    assert b"chain_outer" in t.raw and b"\x1b" not in t.raw
