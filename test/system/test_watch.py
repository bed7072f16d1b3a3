# SPDX-License-Identifier: Apache-2.0
"""
Live sites that somebody else changes while they are recorded: uprobes that come and go, hit and
not, at entries, exits and points. The target is never harmed, what they leave is repaired, and
the trace says what is missing.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.uprobe import TRAP, Site, Uprobe

FUNCTIONS = "step_11,step_12,step_13"


class Session:
    """`iprobe attach` at work."""

    def __init__(self, who, target, functions, *more):
        self.who, self.directory = who, who.dir() / "trace"
        self.proc = who.start_iprobe(
            "attach", target.pid, "-f", functions, "--json", "-o", self.directory, *more
        )
        memory.wait_until_live(target.pid, self.proc)

    def end(self):
        self.proc.send_signal(signal.SIGINT)
        done = actors.last_words(self.proc)
        assert done.returncode == 0, repr(done)
        return done

    def report(self):
        done = self.who.iprobe("report", "--json", self.directory)
        assert done.returncode == 0, repr(done)
        return json.loads(done.stdout)


def assert_missing(session, done, function):
    """Told at once, in the summary, and in the trace: from when to when."""
    assert done.summary()["disturbed"] == 1, repr(done)
    assert [
        line
        for line in done.stderr.splitlines()
        if "somebody else changed" in line and function in line
    ], repr(done)
    report = session.report()
    for missing in report["missing"]:
        assert missing["function"] == function
        assert 0 < missing["from_ns"] < missing["to_ns"]
    text = session.who.iprobe("report", session.directory).stdout
    assert re.search(rf"Calls are missing.*\n +{function} from ", text), text
    info = (session.directory / "iprobe" / "session").read_text()
    assert ("\nstop\trepair\t" in info) == (len(done.stops()) > 2)


@pytest.fixture
def fentry(root, programs, targets):
    target = targets.steady(root, programs.simple("steady", placement="fentry"), "-n")
    yield target
    memory.thaw(target.pid)
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize("kind", ["entry", "exit"])
def test_it_comes_and_goes_and_is_hit(root, programs, fentry, kind):
    site = Site(root, fentry, "step_11", kind)
    session = Session(root, fentry, FUNCTIONS)
    live = site.bytes()
    uprobe = Uprobe(root, programs, fentry, site)
    uprobe.toggle()
    other = Site(root, fentry, "step_11", "exit" if kind == "entry" else "entry")
    memory.wait_for("the function is not put to rest", lambda: other.is_idle())
    fentry.wait_for_progress()
    assert site.bytes() != live and not site.is_idle()  # theirs, all the time
    assert Site(root, fentry, "step_12").is_live()
    uprobe.toggle()
    memory.wait_for("the function is not recorded again", lambda: site.bytes() == live)
    assert other.is_live()
    fentry.wait_for_progress()
    assert_missing(session, session.end(), "step_11")


@pytest.mark.parametrize("kind", ["entry", "exit"])
def test_it_comes_and_stays_unhit(root, programs, fentry, kind):
    """All that is ours below it becomes idle; when it goes it leaves a NOP; then the function is
    live again.
    """
    site = Site(root, fentry, "step_11", kind)
    session = Session(root, fentry, FUNCTIONS)
    live = site.bytes()
    memory.freeze(fentry.pid)
    uprobe = Uprobe(root, programs, fentry, site)
    uprobe.toggle()
    memory.wait_for(
        "our bytes are left below it", lambda: site.bytes() == bytes([TRAP]) + site.idle[1:]
    )
    uprobe.toggle()
    assert site.is_idle()
    memory.thaw(fentry.pid)
    memory.wait_for("the function is not recorded again", lambda: site.bytes() == live)
    fentry.wait_for_progress()
    assert_missing(session, session.end(), "step_11")


@pytest.mark.parametrize("kind", ["entry", "exit"])
def test_it_came_and_went_unhit(root, programs, fentry, kind):
    """What it leaves is mostly an invalid instruction: repaired before anybody gets there, in a
    target that stands still.
    """
    site = Site(root, fentry, "step_11", kind)
    session = Session(root, fentry, FUNCTIONS)
    live = site.bytes()
    memory.freeze(fentry.pid)
    uprobe = Uprobe(root, programs, fentry, site)
    # as the kernel leaves it, also where the watch has looked between the two
    uprobe.toggle()
    uprobe.toggle()
    if site.bytes() == site.idle[:1] + live[1:]:
        memory.wait_for("not repaired", lambda: site.bytes() == live)
    else:
        site.write(site.idle[:1] + live[1:])
    memory.wait_for("not repaired", lambda: site.bytes() == live)
    memory.thaw(fentry.pid)
    fentry.wait_for_progress()
    done = session.end()
    assert done.summary()["disturbed"] == 1
    assert "left behind" in done.stderr or "breakpoint" in done.stderr, done.stderr


@pytest.mark.parametrize("hit", [True, False], ids=["hit", "unhit"])
def test_it_is_there_when_we_end(root, programs, targets, hit):
    """It works on after us, and leaves the NOP."""
    target = targets.steady(root, programs.simple("steady", placement="fentry"), "-n")
    site = Site(root, target, "step_11")
    session = Session(root, target, FUNCTIONS)
    if not hit:
        memory.freeze(target.pid)
    uprobe = Uprobe(root, programs, target, site)
    uprobe.toggle()
    if hit:
        target.wait_for_progress()
    session.end()
    assert not site.is_idle() and (hit or site.bytes() == bytes([TRAP]) + site.idle[1:])
    uprobe.toggle()
    assert site.is_idle()
    memory.thaw(target.pid)
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize(
    "placement",
    [
        "fentry",
        pytest.param("inline", marks=pytest.mark.slow),
        pytest.param("instrument", marks=pytest.mark.slow),
    ],
)
def test_they_come_and_go_all_the_time(root, programs, targets, placement):
    """At sites that are being hit, for some seconds: nothing breaks, and in the end every byte
    is back.
    """
    target = targets.steady(root, programs.simple("steady", placement=placement), "-n")
    sites = [
        Site(root, target, name, kind)
        for name in ("step_11", "step_12")
        for kind in ("entry", "exit")
    ]
    sites = [site for site in sites if site.length == 5]
    session = Session(root, target, FUNCTIONS)
    uprobes = [Uprobe(root, programs, target, site) for site in sites]
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        for uprobe in uprobes:
            uprobe.toggle()
            time.sleep(0.02)
        assert target.alive()
    for uprobe in uprobes:
        uprobe.end()
    target.wait_for_progress()
    done = session.end()
    assert done.summary()["disturbed"] >= 1
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


def test_looking_costs_little(me, programs, targets):
    """All sites of a program are live and quiet: what iprobe itself does then is about nothing."""
    target = targets.start(me, [programs.simple("finish"), "idle"], wait=False)
    memory.wait_for(
        "not loaded", lambda: any("libiprobe-rt" in m.path for m in memory.mappings(target.pid))
    )
    time.sleep(0.3)
    session = Session(me, target, "*")
    ticks = []
    for _ in range(2):
        with open(f"/proc/{session.proc.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        ticks.append(int(fields[11]) + int(fields[12]))
        time.sleep(2)
    share = (ticks[1] - ticks[0]) / os.sysconf("SC_CLK_TCK") / 2
    session.end()
    target.finish()
    assert (
        share
        < 0.10
        # the loop looks at the rings a thousand times a second; the watch is 1 % of it at most
    ), share


def ask(target, line):
    target.say(line)
    return target.proc.stdout.readline().strip()


class Library:
    """libplug1.so, which dlclose may take away, live in a target that loads it."""

    def __init__(self, root, programs, targets, functions="plug*,own"):
        self.target = targets.start(root, programs.plugins())
        self.path = programs.plugins()[1]
        self.root = root
        assert ask(self.target, "load 1") == "loaded"
        self.session = Session(root, self.target, functions)
        self.entry, self.exit = self.site("plug"), self.site("plug", "exit")
        memory.wait_for(
            "the library does not go live", lambda: self.entry.is_live() and self.exit.is_live()
        )
        self.live = self.entry.bytes(), self.exit.bytes()

    def site(self, function, kind="entry"):
        return Site(self.root, self.target, function, kind, self.path)

    def is_live(self):
        return (self.entry.bytes(), self.exit.bytes()) == self.live

    def call(self, count=10):
        assert ask(self.target, f"call 1 {count}") == "called"

    def end(self):
        memory.assert_untouched(self.target.pid)
        self.call()
        self.target.finish()


@pytest.mark.parametrize("functions", ["plug*,own", "plug"])
def test_a_librarys_site_is_taken_and_given_back(root, programs, targets, functions):
    """
    A uprobe comes, is hit, and goes: what is left to us goes idle, and is live again by the
    update that follows the loader. Also where nothing else of the library is live meanwhile.
    """
    library = Library(root, programs, targets, functions)
    uprobe = Uprobe(root, programs, library.target, library.entry)
    uprobe.toggle()
    memory.wait_for("the function is not put to rest", lambda: library.exit.is_idle())
    library.call()
    assert library.site("plug_inner").is_live() == (functions != "plug")
    uprobe.toggle()
    memory.wait_for("the function is not recorded again", library.is_live)
    library.call(30)
    done = library.session.end()
    assert_missing(library.session, done, "plug")
    calls = {f["function"]: f["calls"] for f in library.session.report()["functions"]}
    assert calls.get("plug_inner", 80) == 80 and 30 <= calls["plug"] <= 40
    library.end()


@pytest.mark.parametrize("kind", ["entry", "exit"])
def test_what_is_left_behind_in_a_library(root, programs, targets, kind):
    """Unhit, in a target that stands still: what a uprobe leaves is repaired before anybody runs
    into it.
    """
    library = Library(root, programs, targets)
    site = library.entry if kind == "entry" else library.exit
    live = site.bytes()
    memory.freeze(library.target.pid)
    uprobe = Uprobe(root, programs, library.target, site)
    uprobe.toggle()
    uprobe.toggle()
    if site.bytes() != site.idle[:1] + live[1:]:
        memory.wait_for("not repaired", lambda: site.bytes() == live)
        site.write(site.idle[:1] + live[1:])
    memory.wait_for("not repaired", lambda: site.bytes() == live)
    # and one that stays
    uprobe.toggle()
    memory.wait_for(
        "our bytes are left below it", lambda: site.bytes() == bytes([TRAP]) + site.idle[1:]
    )
    uprobe.toggle()
    assert site.is_idle()
    memory.thaw(library.target.pid)
    memory.wait_for("the function is not recorded again", library.is_live)
    library.call()
    done = library.session.end()
    assert done.summary()["disturbed"] == 1
    library.end()


def test_a_library_goes_with_a_uprobe_in_it(root, programs, targets):
    """It is unloaded, another one takes its place, and it comes back: nobody's text is touched,
    and its end is the end of what is missing.
    """
    library = Library(root, programs, targets)
    target = library.target
    uprobe = Uprobe(root, programs, target, library.entry)
    uprobe.toggle()
    memory.wait_for("the function is not put to rest", lambda: library.exit.is_idle())
    place = ask(target, "place 1")
    assert ask(target, "close 1") == "closed"
    assert ask(target, "load 2") == "loaded" and ask(target, "place 2") == place
    assert ask(target, "call 2 10") == "called"
    time.sleep(1.5)  # the function would be live again by now, in its own library
    assert ask(target, "call 2 10") == "called"
    assert ask(target, "close 2") == "closed"
    uprobe.toggle()
    assert ask(target, "load 1") == "loaded"
    memory.wait_for(
        "the library does not go live",
        lambda: library.site("plug").is_live() and library.site("plug", "exit").is_live(),
    )
    library.call()
    done = library.session.end()
    assert_missing(library.session, done, "plug")
    assert all(missing["function"] == "plug" for missing in library.session.report()["missing"])
    library.end()


def test_libraries_that_only_come_and_go_are_not_disturbed(root, programs, targets):
    """Loaded and unloaded for a while, with nobody else's hand in them: nothing is told, and
    nothing missing.
    """
    library = Library(root, programs, targets)
    assert ask(library.target, "close 1") == "closed"
    assert ask(library.target, "storm 2500").startswith("loads ")
    assert ask(library.target, "load 1") == "loaded"
    done = library.session.end()
    assert done.summary()["disturbed"] == 0 and "somebody else" not in done.stderr, repr(done)
    assert "missing" not in (library.session.directory / "iprobe" / "session").read_text()
    library.end()


def test_uprobes_in_libraries_that_come_and_go(root, programs, targets):
    """All at once, for some seconds: every result is right, and in the end every byte is back."""
    library = Library(root, programs, targets)
    uprobes = [
        Uprobe(root, programs, library.target, library.site(name, kind))
        for name in ("plug", "plug_inner")
        for kind in ("entry", "exit")
    ]
    assert ask(library.target, "close 1") == "closed"
    library.target.say("storm 2500")
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        for uprobe in uprobes:
            uprobe.toggle()
            time.sleep(0.02)
        assert library.target.alive()
    for uprobe in uprobes:
        uprobe.end()
    assert library.target.proc.stdout.readline().startswith("loads ")
    library.session.end()
    assert ask(library.target, "load 1") == "loaded"
    library.end()


def bpftrace(root, script, target):
    """bpftrace at work; its probes are set a moment later."""
    if not shutil.which("bpftrace"):
        pytest.skip("no bpftrace")
    proc = root.popen(
        ["bpftrace", "--unsafe", "-p", target.pid, "-e", script], stderr=subprocess.STDOUT
    )
    said = []
    while not said or said[-1] and "Attaching" not in said[-1]:
        said.append(proc.stdout.readline())
    if not said[-1]:
        pytest.skip(f"bpftrace cannot work here: {said}")
    return proc


def hits(proc):
    """What it counted, when it has ended by itself."""
    match = re.search(r"@: (\d+)", actors.last_words(proc).stdout)
    return int(match[1]) if match else 0


def test_bpftrace_in_a_library(root, programs, targets):
    """It counts what it is asked for, and the function is recorded again when it has ended."""
    library = Library(root, programs, targets)
    proc = bpftrace(
        root,
        f"uprobe:{library.path}:plug {{ @ = count(); }} interval:s:2 {{ exit(); }}",
        library.target,
    )
    memory.wait_for(
        "bpftrace sets no probe",
        lambda: library.entry.bytes() != library.live[0] or proc.poll() is not None,
    )
    library.call(50)
    assert hits(proc) in (0, 50)  # 0: a busy machine, and it had ended
    memory.wait_for("the function is not recorded again", library.is_live)
    library.call(20)
    done = library.session.end()
    assert_missing(library.session, done, "plug")
    library.end()


def test_bpftrace_before_and_during(root, programs, targets):
    """Its probe works before, during and after a session; it may come before or in the middle."""
    target = targets.steady(root, programs.simple("steady", placement="fentry"), "-t", "2", "-n")
    site = Site(root, target, "step_11")
    counts = f"uprobe:{target.program}:step_11 {{ @ = count(); }} interval:s:2 {{ exit(); }}"
    proc = bpftrace(root, counts, target)
    memory.wait_for("bpftrace sets no probe", lambda: not site.is_idle())
    done = root.iprobe(
        "attach",
        target.pid,
        "-f",
        FUNCTIONS,
        "--duration",
        "200ms",
        "--json",
        "-o",
        root.dir() / "trace",
    )
    assert done.returncode == 0, repr(done)
    if proc.poll() is None:
        assert done.summary()["foreign"] == 1 and done.summary()["functions"] == 2
    assert hits(proc) > 100
    memory.wait_for("bpftrace leaves its probe", lambda: site.is_idle())
    # and now the other way round
    session = Session(root, target, FUNCTIONS)
    assert hits(bpftrace(root, counts, target)) > 100
    memory.wait_for("the function is not recorded again", site.is_live)
    target.wait_for_progress()
    assert_missing(session, session.end(), "step_11")
    memory.assert_untouched(target.pid)
    target.finish()
