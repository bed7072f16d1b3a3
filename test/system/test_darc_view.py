# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc --live: the screen shows what the search does and finds, its keys choose another peak,
and whatever ends it gives the terminal back and every byte to the process.
"""

import json
import os
import pathlib
import re
import signal

import pytest

from iptest import memory
from iptest.terminal import Terminal
from test_darc_live import is_as_on_disk, started

XTERM = {**os.environ, "TERM": "xterm"}


@pytest.fixture
def serving(root, programs):
    target = started(root, programs.simple("three_ways"))
    yield target
    target.kill()
    target.wait()


@pytest.fixture
def view(root, serving):
    place = root.dir()
    t = Terminal(
        root,
        *("darc", "-f", "serve", "--live", serving.pid),
        env={**XTERM, "TMPDIR": str(place)},
        lines=50,
        columns=120,
    )
    yield t
    t.close()
    memory.wait_for("a directory of iprobe darc is left", lambda: not list(place.iterdir()))


def found(t, function):
    """The search is over, and this function is the cause."""
    t.wait(
        f"{function} is not found",
        lambda t: "the search is over" in t.rows[0]
        and f"    {function}" in t.text()
        and "Root cause of" in t.text(),
    )
    t.settle()
    others = {"read_index", "read_page"} - {function}
    assert not any(re.search(rf"\b{other}\b", t.text()) for other in others), t.text()


def peaks(t):
    """Their numbers; the last two are those of the slow ways."""
    numbers = [int(n) for n in re.findall(r"< peak (\d+)", t.text())]
    assert len(numbers) >= 3 and numbers == list(range(1, len(numbers) + 1)), t.text()
    return numbers


def end(t, root, serving, function):
    """It ends with what was found last on the page that was there before."""
    code, said = t.wait_end()
    assert code == 0 and not said, (code, said)
    assert t.is_restored()
    words = t.scrolled()
    assert words.startswith("serve: ") and f"    {function}" in words, words
    assert "Root cause of" in words and "The process was stopped " in words, words
    if serving.poll() is None:
        assert is_as_on_disk(root, serving.pid)


def test_peaks_by_keys(root, serving, view):
    view.wait_text("searching")
    # the rightmost peak is searched first
    found(view, "read_page")
    numbers = peaks(view)
    assert f"< peak {numbers[-1]}, which is searched" in view.text(), view.text()
    # meanwhile F0 alone is live: its entry and its exit; another iprobe is told the same
    told = json.loads(root.iprobe("darc", "--status", "--json", serving.pid).stdout)
    assert told["live"] == ["serve"] and told["state"] == "root cause found", told
    status = json.loads(root.iprobe("status", "--json", serving.pid).stdout)
    assert status["patched"] == 2, status
    view.press(str(numbers[-2]))
    found(view, "read_index")
    assert f"< peak {numbers[-2]}, which is searched" in view.text(), view.text()
    assert peaks(view) == numbers, view.text()
    # a key that means nothing changes nothing, and the reason is told
    view.press("9")
    view.wait_text(f"There are {len(numbers)} peaks.")
    view.press(str(numbers[-2]))
    view.wait_text("That is the peak that is searched.")
    view.press("r")
    found(view, "read_page")
    view.press("?")
    view.wait_text("search the calls of the rightmost peak")
    view.press("x")
    view.press("q")
    end(view, root, serving, "read_page")


def test_key_while_it_searches(root, serving):
    """The step that is under way is left: it would take hours."""
    t = Terminal(
        root,
        *("darc", "-f", "serve", "--live", "--decision-ops", 10**9, serving.pid),
        env=XTERM,
        lines=50,
        columns=120,
    )
    try:
        t.wait("no step", lambda t: "level 1 of" in t.text() and "which is searched" in t.text())
        number = peaks(t)[-2]
        t.press(str(number))
        t.wait_text(f"< peak {number}, which is searched")
        t.press("q")
        code, said = t.wait_end()
        assert code == 0 and not said, (code, said)
        assert t.is_restored() and "was ended before it was over" in t.scrolled()
        assert is_as_on_disk(root, serving.pid)
    finally:
        t.close()


@pytest.mark.parametrize("how", ["interrupt", "term", "process"])
def test_other_ends(root, serving, view, how):
    found(view, "read_page")
    if how == "interrupt":
        view.press("\x03")
    elif how == "term":
        os.kill(view.pid, signal.SIGTERM)
    else:
        serving.kill()
        serving.wait()
    end(view, root, serving, "read_page")


def test_scrolls(root, serving):
    t = Terminal(root, "darc", "-f", "serve", "--live", serving.pid, env=XTERM, lines=10)
    try:
        t.wait_text("the search is over")
        t.settle()
        assert t.rows[2].startswith("serve: ") and "q leave" in t.rows[-1], t.text()
        t.press("j")
        t.wait("no line down", lambda t: t.rows[2].lstrip().startswith("from"))
        t.press("\x1b[F")
        t.wait("not the end", lambda t: "serve: " not in t.text() and "kernel" in t.text())
        t.press("\x1b[H")
        t.wait("not the begin", lambda t: t.rows[2].startswith("serve: "))
        t.resize(40, 100)
        os.kill(t.pid, signal.SIGWINCH)
        t.wait_text("Root cause of")
        t.press("q")
        assert t.wait_end()[0] == 0 and t.is_restored()
    finally:
        t.close()


@pytest.mark.parametrize(
    "options, said",
    [
        ([], "needs a terminal"),
        (["--resume", "state.json"], "--live does not go with --resume"),
    ],
)
def test_refused(root, serving, options, said):
    done = root.iprobe("darc", "-f", "serve", "--live", *options, serving.pid)
    assert done.returncode in (1, 2) and said in done.stderr, repr(done)
    assert len(done.stderr.splitlines()) <= 2 and not done.stdout
    # nothing was done to it
    assert "memfd:iprobe" not in pathlib.Path(f"/proc/{serving.pid}/maps").read_text()


def test_no_view_of_a_trace(root):
    done = root.iprobe("darc", "-f", "serve", "--live", ".")
    assert done.returncode == 2 and "--live goes with a PID" in done.stderr, repr(done)
    done = root.iprobe("darc", "-f", "serve", "--live", "--", "true")
    assert done.returncode == 2 and "--live does not go with a command" in done.stderr, repr(done)
