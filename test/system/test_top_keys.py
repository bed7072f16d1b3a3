# SPDX-License-Identifier: Apache-2.0
"""iprobe top on a terminal: what its keys do to the picture and to the process, and that the
terminal is as before on every way out.
"""

import json
import os
import signal

import pytest

from iptest import memory
from iptest.actor import last_words
from iptest.terminal import Terminal

from test_top import finish

DOWN = b"\x1b[B"
LONG = "a_function_whose_name_is_longer_than_any_terminal_of_anybody_is_wide_so_that_it_has_to_be_cut_somewhere"


@pytest.fixture
def screen(actor):
    """Starts iprobe top on a terminal."""
    made, place = [], actor.dir()

    def start(pid, *args, **size):
        terminal = Terminal(
            actor, "top", "-d", "100ms", *args, pid, env={"TMPDIR": str(place)}, **size
        )
        made.append(terminal)
        return terminal

    yield start
    for terminal in made:
        terminal.close()
    memory.wait_for("a directory of iprobe top is left", lambda: not list(place.iterdir()))


@pytest.fixture
def target(actor, programs, targets):
    made = targets.start(actor, [programs.simple("busy", placement="fentry")])
    made.say()
    return made


def rows(terminal):
    """Names of functions, as they stand below each other."""
    return [line.split()[-1] for line in terminal.rows[4:-1] if line.strip()]


def quit_and_check(terminal, target):
    terminal.press("q")
    code, said = terminal.wait_end()
    assert code == 0 and "every byte is back" in said, said
    assert terminal.is_restored()
    memory.assert_untouched(target.pid)


def test_sort_filter_pause_help(screen, target):
    t = screen(target.pid)
    t.wait("no rows", lambda t: {"outer", "inner", "tiny"} <= set(rows(t)))
    assert t.alternate and rows(t)[0] in ("outer", "inner")
    assert "*SELF" in t.rows[3]
    t.press("s")
    t.wait_text("*TOTAL" if "*TOTAL" in t.text() else "%TOTAL")
    t.press("SSS")  # total, self, calls, rate
    t.wait_text("*RATE/s")
    t.wait("not sorted", lambda t: rows(t)[0] == "tiny")
    t.press("r")
    t.wait_text("reversed")
    t.wait("not sorted", lambda t: rows(t)[-1] == "tiny")
    t.press("/inn")
    t.wait_text("show only: inn_")
    t.press(b"\x7f\x7f")
    t.wait_text("show only: i_")
    t.press("nner\r")
    t.wait("not filtered", lambda t: rows(t) == ["inner"])
    t.press("/\r")
    t.wait("filtered still", lambda t: len(rows(t)) > 3)
    t.press("/never_heard\r")
    t.wait("not filtered", lambda t: rows(t) == [])
    t.press("/\r")
    t.press("p")
    t.wait_text("PAUSED")
    sums = t.rows[1]
    for _ in range(10):
        t.read(0.05)
    assert t.rows[1] == sums
    t.press(" ")
    t.wait("goes not on", lambda t: t.rows[1] != sums and "PAUSED" not in t.text())
    t.press("t")
    t.wait_text("since its beginning")
    t.press("?")
    t.wait_text("Ctrl-Z    to the shell")
    t.press("?")
    t.wait("no rows", lambda t: "tiny" in rows(t))
    quit_and_check(t, target)


def test_threads(screen, target):
    """T shows threads, whose rows no key takes for functions."""
    t = screen(target.pid)
    t.wait("no rows", lambda t: "tiny" in rows(t))
    t.press("/tiny\rT")
    t.wait("no threads", lambda t: "THREAD" in t.rows[3] and "AVG" not in t.rows[3])
    t.wait("no threads", lambda t: len([row for row in t.rows[4:-1] if row.strip()]) == 1)
    assert f" {target.pid} " in t.rows[4] and "functions in 1 thread in" in t.rows[1]
    for key in "dc":
        t.press(key)
        t.wait_text("a thread is chosen: T goes back to the functions")
        t.press("s")
        t.wait("told still", lambda t: "is chosen" not in t.text())
    t.press(f"/{target.pid}\r")
    t.wait_text(f"only {target.pid}")
    t.press("/never heard\r")
    t.wait("not filtered", lambda t: not any(row.strip() for row in t.rows[4:-1]))
    t.press("T")
    t.wait("no functions", lambda t: {"outer", "inner", "tiny"} <= set(rows(t)))
    quit_and_check(t, target)


def test_drop(actor, screen, programs, targets):
    """The function's sites are NOPs again; of the others every call is counted, before, during
    and after.
    """
    target = targets.start(actor, [programs.simple("busy", placement="fentry")])
    directory = actor.dir() / "trace"
    session = actor.start_iprobe(
        "attach", target.pid, "--json", "--payload", "hist", "-o", directory
    )
    memory.wait_until_live(target.pid, session)
    target.say()
    t = screen(target.pid)
    t.wait_text("a session that was there")
    t.wait("no rows", lambda t: "tiny" in rows(t))
    before = len(memory.text_differences(target.pid))
    t.press("/tiny\r")
    t.wait("not filtered", lambda t: rows(t) == ["tiny"])
    t.press(DOWN)
    t.press("d")
    t.wait_text("are NOPs again")
    left = len(memory.text_differences(target.pid))
    assert left < before
    assert actor.iprobe("status", target.pid).returncode == 0
    t.press("d")
    t.wait(
        "dropped twice", lambda t: "no function is chosen" in t.text() or "so already" in t.text()
    )
    t.press("/\r")
    t.wait("goes not on", lambda t: "inner" in rows(t) and "tiny" not in rows(t))
    t.press("q")
    code, said = t.wait_end()
    assert code == 0 and said == "" and t.is_restored()
    assert len(memory.text_differences(target.pid)) == left  # it is not top's session
    calls = finish(target)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    report = json.loads(actor.iprobe("report", "--json", directory).stdout)
    counted = {f["function"]: f["calls"] for f in report["functions"]}
    assert {name: counted[name] for name in ("outer", "inner", "aside")} == {
        name: calls[name] for name in ("outer", "inner", "aside")
    }
    assert 0 < counted["tiny"] < calls["tiny"]


def test_add(screen, target):
    """Its direct callees; what is called through a pointer by its name."""
    t = screen(target.pid, "-f", "outer")
    t.wait("no rows", lambda t: rows(t) == ["outer"])
    t.press("c")
    t.wait_text("callees of outer: 2 functions")
    t.wait("they are not there", lambda t: set(rows(t)) == {"outer", "inner", "aside"})
    t.press("c")
    t.wait_text("it is so already")
    t.press("ahidden\r")
    t.wait_text("hidden: 1 function")
    t.wait("it is not there", lambda t: "hidden" in rows(t))
    t.press("anever_heard\r")
    t.wait("no error", lambda t: "matches none of its" in t.rows[2])
    t.press("/aside\r")
    t.wait("not filtered", lambda t: rows(t) == ["aside"])
    t.press(DOWN)
    t.press("c")
    t.wait_text("aside: calls no function with probes directly")
    quit_and_check(t, target)


LIBRARY = """
import ctypes, select, sys
library = ctypes.CDLL(sys.argv[1])
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    library.outer()
"""


def test_add_through_the_linkers_stubs(actor, screen, programs, targets):
    """In a library they call each other by these."""
    target = targets.start(
        actor, ["/usr/bin/python3", "-c", LIBRARY, programs.library("busy", placement="fentry")]
    )
    t = screen(target.pid, "-f", "outer")
    t.wait("no rows", lambda t: rows(t) == ["outer"])
    t.press("c")
    t.wait_text("callees of outer: 2 functions")
    t.wait("they are not there", lambda t: set(rows(t)) == {"outer", "inner", "aside"})
    t.press("q")
    code, said = t.wait_end()
    assert code == 0, said


def test_sizes(screen, target):
    t = screen(target.pid, lines=24, columns=200)
    t.wait("no rows", lambda t: LONG in t.text())
    assert "P50" in t.rows[3] and t.rows[23].startswith("q quit")
    t.resize(12, 50)
    t.wait("not drawn anew", lambda t: "*SELF" not in t.rows[3] and t.rows[11].startswith("q quit"))
    t.wait(
        "the name is not cut",
        lambda t: any(
            "..." in line and line.rstrip().endswith(LONG[-10:]) for line in t.rows[4:11]
        ),
    )
    assert "RATE/s" in t.rows[3] and "P50" not in t.rows[3]
    assert all(len(line) <= 50 for line in t.rows)
    t.resize(3, 10)
    for _ in range(5):
        t.read(0.1)
    t.resize(24, 80)
    t.wait("not drawn anew", lambda t: t.rows[23].startswith("q quit") and "inner" in rows(t))
    quit_and_check(t, target)


def test_to_the_shell_and_back(screen, target):
    t = screen(target.pid)
    t.wait("no rows", lambda t: "inner" in rows(t))
    pid = t.pid
    t.press(b"\x1a")
    t.wait("does not stop", lambda t: memory.status_field(pid, "State")[0] == "T")
    t.wait("the terminal is not restored", lambda t: t.is_restored())
    assert memory.text_differences(target.pid)
    os.kill(pid, signal.SIGCONT)
    t.wait("does not come back", lambda t: t.alternate and "inner" in rows(t))
    quit_and_check(t, target)


@pytest.mark.parametrize("way", ["Ctrl-C", signal.SIGTERM, signal.SIGSEGV, "target"], ids=str)
def test_ways_out(screen, target, way):
    t = screen(target.pid)
    t.wait("no rows", lambda t: "inner" in rows(t))
    if way == "Ctrl-C":
        t.press(b"\x03")
    elif way == "target":
        target.proc.stdin.close()
    else:
        os.kill(t.pid, way)
    code, said = t.wait_end()
    assert t.is_restored()
    if way == signal.SIGSEGV:
        assert code
        memory.wait_for("sites are live", lambda: not memory.text_differences(target.pid))
        return
    assert code == 0 and ("every byte is back" in said or way == "target"), said
    if way != "target":
        memory.assert_untouched(target.pid)
