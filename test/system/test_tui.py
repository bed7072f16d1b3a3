# SPDX-License-Identifier: Apache-2.0
"""iprobe tui: each of its views shows what report, graph and dump tell of the same trace; and the
terminal is as before on every way out.
"""

import collections
import json
import os
import pathlib
import random
import re
import shlex
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tracegen  # noqa: E402
from iptest import memory  # noqa: E402
from iptest.actor import one_line  # noqa: E402
from iptest.terminal import Terminal  # noqa: E402

from test_page_examples import commands_of  # noqa: E402

DOWN, UP, LEFT, RIGHT = b"\x1b[B", b"\x1b[A", b"\x1b[D", b"\x1b[C"
HOME, END, PAGE_DOWN = b"\x1b[H", b"\x1b[F", b"\x1b[6~"
BODY = 3  # line at which a view begins
PLAIN = {"LC_ALL": "C", "NO_COLOR": "1", "TERM": "xterm"}
COLUMNS = "calls total self min avg p50 p90 p99 p99.9 max stddev threads function".split()


def small_trace(directory, seed=1, steps=120, streams=2):
    """One tick is a nanosecond."""
    rng = random.Random(seed)
    trace = tracegen.Trace(hz=1_000_000_000)
    tracegen.declare(trace)
    for number in range(streams):
        thread = trace.thread(number, 2000 + number, stack=tracegen.STACK - number * 0x1000000)
        tracegen.play(trace, thread, rng, steps, depth_max=12)
        thread.flush()
    return trace.write(directory)


@pytest.fixture
def tui(me):
    """Starts iprobe tui on a terminal."""
    made = []

    def start(*args, env=None, **size):
        terminal = Terminal(
            me, "tui", *args, env={**PLAIN, **(env or {})}, **{"columns": 160, "lines": 50, **size}
        )
        made.append(terminal)
        terminal.wait_text("? help")
        terminal.settle()
        return terminal

    yield start
    for terminal in made:
        terminal.close()


def body(terminal):
    return [line for line in terminal.rows[BODY + 1 : -1] if line.strip()]


def press_and_wait(terminal, keys, text):
    """The keys change the screen to one with that text."""
    terminal.press(keys)
    terminal.wait_text(text)
    terminal.settle()


def quit_it(terminal):
    terminal.press("q")
    code, said = terminal.wait_end()
    assert code == 0 and terminal.is_restored(), said
    return said


def document(me, command, *args):
    done = me.iprobe(command, "--json", *args)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def dump(me, directory):
    return [json.loads(line) for line in me.iprobe("dump", "--json", directory).stdout.splitlines()]


def text_rows(me, *args):
    """Rows of a table that a command prints, without the space between columns."""
    out = me.iprobe(*args, env={"LC_ALL": "C"}).stdout
    return [" ".join(line.split()) for line in out.splitlines()]


def rows_of(terminal):
    return [" ".join(line.split()) for line in body(terminal)]


def test_examples_of_the_page(me):
    """As they stand there: each shows a screen."""
    place = me.dir()
    trace = tracegen.Trace()
    thread = trace.thread(0, 2000)
    for name in ("cache_get", "cache_put"):
        thread.call(name)
        thread.advance(100)
        thread.ret()
    for name in ("iprobe.data", "yesterday.data"):
        trace.write(place / name)
    commands = commands_of("iprobe-tui.1", "EXAMPLES")
    assert len(commands) >= 4
    for command in commands:
        program, tui_, *args = shlex.split(command)
        assert (program, tui_) == ("iprobe", "tui")
        t = Terminal(me, "tui", *args, env=PLAIN, cwd=place)
        t.wait_text("? help")
        assert "cache_get" in t.text()
        quit_it(t)
        t.close()


# ---- report ----


def names_of(terminal):
    """Functions of the report, from the top to the bottom; none where it is half drawn."""
    at = terminal.rows[BODY].rfind("function")
    if at < 0:
        return []
    return [re.split(r"  \(| \[tail", line[at:])[0].strip() for line in body(terminal)]


def test_report_is_report(me, tui):
    """All columns, sorted by each of them, and the other way round."""
    directory = small_trace(me.dir() / "trace")
    t = tui(directory, columns=240)
    t.wait_text("*total")
    assert t.alternate and "events, 2 threads" in t.rows[0] and "[1 report]" in t.rows[1]
    for _ in range(len(COLUMNS)):
        column = re.search(r"\*(\S+?)(?:,|\s|$)", t.rows[BODY])[1]
        want = text_rows(me, "report", "-s", column, "--columns", "all", directory)
        want = want[want.index(" ".join(COLUMNS)) + 1 :]
        want = want[: want.index("")] if "" in want else want
        assert rows_of(t) == want and len(want) > 5, column
        following = COLUMNS[(COLUMNS.index(column) + 1) % len(COLUMNS)]
        press_and_wait(t, "s", f"*{following}")
    forwards = rows_of(t)
    press_and_wait(t, "r", "reversed")
    assert rows_of(t) == forwards[::-1]
    figures = {(f["function"], f["calls"]) for f in document(me, "report", directory)["functions"]}
    at = t.rows[BODY].index("*function" if "*function" in t.rows[BODY] else "function")
    assert {
        (line[at:].split("  (")[0].strip(), int(line[:at].split()[0])) for line in body(t)
    } == figures
    assert quit_it(t) == ""


def test_report_search_and_functions(me, tui):
    directory = small_trace(me.dir() / "trace")
    t = tui(directory, "-f", "*,!main", "-s", "calls")
    t.wait_text("*calls")
    names = names_of(t)
    assert "main" not in names and "eval" in names
    press_and_wait(t, "/l", "search: l_")
    t.wait("not filtered", lambda t: all("l" in name for name in names_of(t)))
    assert len(body(t)) < len(names)
    press_and_wait(t, "ook", "search: look_")
    t.wait("not filtered", lambda t: names_of(t) == ["lookup"])
    t.press(b"\x1b")
    t.wait("still filtered", lambda t: names_of(t) == names)
    press_and_wait(t, "/s*,!sort\r", "only s*,!sort")
    assert names_of(t) == ["shop::Basket::total"]
    quit_it(t)


# ---- graph ----


def tree_rows(terminal):
    """(figures, depth, name) of all rows of the graph that are on the screen."""
    found = []
    for line in body(terminal):
        figures, rest = line[:40].split(), line[40:]
        name = rest.lstrip("|+- ")
        found.append((figures, (len(rest) - len(name)) // 2 - 1, name.rstrip()))
    return found


@pytest.mark.parametrize("direction", ["top-down", "bottom-up"])
def test_graph_is_graph(me, tui, direction):
    """Each node of the tree, in the order of its cost, once all have been opened by keys."""
    directory = small_trace(me.dir() / "trace", steps=40, streams=1)
    option = ["--bottom-up"] if direction == "bottom-up" else []
    nodes = {n["id"]: n for n in document(me, "graph", *option, directory)["nodes"]}
    want = text_rows(me, "graph", "--min-percent", "0", *option, directory)
    want = [" ".join(re.sub(r"[|`]-? ?", " ", line).split()) for line in want]
    want = want[next(i for i, line in enumerate(want) if "calls function" in line) + 1 :]

    t = tui(directory, "--view", "graph", lines=24 + 2 * len(nodes))
    t.wait_text("[2 graph]")
    if direction == "bottom-up":
        press_and_wait(t, "b", "below it its callers")
    t.press(HOME)
    for row in range(len(nodes)):  # each row is opened before the next one is reached
        t.press(RIGHT + DOWN)
        if row % 8 == 7:
            t.settle(0.02)
    t.wait("nodes are missing", lambda t: len(body(t)) == len(nodes))
    t.settle()
    shown = tree_rows(t)
    assert [" ".join([*figures, *name.split()]) for figures, _, name in shown] == want

    def path(node):
        return (path(nodes[node["parent"]]) if node["parent"] else ()) + (node["function"],)

    above, paths = [], []
    for _, depth, name in shown:
        above[depth:] = [name.split("  (")[0]]
        paths.append(tuple(above))
    assert sorted(paths) == sorted(path(node) for node in nodes.values())
    # and closed again
    t.press(HOME + LEFT)
    t.wait("nothing closes", lambda t: len(body(t)) < len(nodes))
    quit_it(t)


def test_graph_by_thread(me, tui):
    """Each thread with the name that its trace tells, however hostile; a search finds functions."""
    directory = small_trace(me.dir() / "trace", steps=40, streams=2)
    session = directory / "iprobe" / "session"
    nodes = [n for n in document(me, "graph", directory, "--by", "thread")["nodes"]]
    tids = [n["tid"] for n in nodes if not n["parent"]]
    assert len(tids) > 1
    lines = "".join(f"thread\t{tid}\tw-{tid}\\x1b[2J<b>\n" for tid in tids)
    session.write_text(session.read_text().replace("thread\t1000\tdemo main\n", lines))
    named = document(me, "graph", directory, "--by", "thread")["nodes"]
    names = {n["tid"]: n["thread"] for n in named if not n["parent"]}
    assert all(name.startswith(f"w-{tid}") for tid, name in names.items()), names
    t = tui(directory, "--view", "graph", lines=24 + 2 * len(nodes))
    t.wait_text("[2 graph]")
    press_and_wait(t, "t", "thread, below it what it calls")
    t.press(HOME)
    shown = tree_rows(t)
    assert len(shown) == len(tids) and all(len(figures) == 3 for figures, _, _ in shown)
    for tid in tids:
        assert any(f"thread {tid} w-{tid}" in name and "<b>" in name for _, _, name in shown), shown
    # no function is chosen there
    press_and_wait(t, "x", "no function is chosen")
    t.press("/main\r")
    t.wait("not found", lambda t: len(body(t)) > len(tids))
    press_and_wait(t, "t", "function, below it what it calls")
    quit_it(t)


def test_graph_search(me, tui):
    """Goes to each node of a function in turn, and from a row of the report to the first one."""
    directory = small_trace(me.dir() / "trace")
    nodes = [n for n in document(me, "graph", directory)["nodes"] if n["function"] == "parse"]
    t = tui(directory, lines=60)
    t.wait_text("*total")
    press_and_wait(t, "/parse\r", "only parse")
    press_and_wait(t, "g", "[2 graph]")

    def chosen(t):
        reversed_rows = {row for (row, _), style in t.styled.items() if 7 in style} - {1}
        return t.rows[min(reversed_rows)] if reversed_rows else ""

    seen = collections.Counter()
    for _ in nodes:
        t.wait("none is chosen", lambda t: "parse" in chosen(t))
        seen[int(chosen(t)[:40].split()[-1].replace(",", ""))] += 1
        before = chosen(t), t.text()
        t.press("n")
        if len(nodes) > 1:
            t.wait("it stays", lambda t, before=before: (chosen(t), t.text()) != before)
            t.settle()
    assert seen == collections.Counter(n["calls"] for n in nodes)
    press_and_wait(t, "/never_heard", "no call of it in the tree")
    press_and_wait(t, b"\x1b", "[2 graph]")
    quit_it(t)


# ---- callers ----


def test_callers_are_those_of_graph(me, tui):
    directory = small_trace(me.dir() / "trace")
    t = tui(directory)
    t.wait_text("*total")
    for function in ("eval", "sort", "leaf"):
        t.press("1/\r")
        press_and_wait(t, f"/{function}\r", f"only {function}")
        press_and_wait(t, "\r", "[4 callers]")
        want = text_rows(me, "graph", "--of", function, directory)
        want = want[want.index("total self calls function") + 1 :]
        t.wait("other rows", lambda t, want=want: rows_of(t) == want)
        itself = [line for line in body(t) if not line[33:].startswith("    ")]
        assert [line[33:].split()[0] for line in itself] == [function]
    press_and_wait(t, b"\x7f", "callers")
    want = text_rows(me, "graph", "--of", "sort", directory)
    t.wait(
        "not the one before",
        lambda t: rows_of(t) == want[want.index("total self calls function") + 1 :],
    )
    quit_it(t)


# ---- threads ----


def test_threads(me, tui):
    directory = tracegen.random_trace(3, steps=200).write(me.dir() / "trace")
    t = tui(directory, "--view", "threads")
    t.wait_text("[5 threads]")
    rows = [line.split() for line in body(t)]
    assert {int(row[1]) for row in rows} == {event["tid"] for event in dump(me, directory)}
    events = [int(row[2].replace(",", "")) for row in rows]
    assert sum(events) == document(me, "report", directory)["events"]
    assert events == sorted(events, reverse=True)
    press_and_wait(t, "/2010\r", "only 2010")
    press_and_wait(t, "\r", "thread 2010")
    quit_it(t)


# ---- timeline ----

DETAILS = re.compile(
    r"(?:begins|passed) at (\d+)\.(\d{9}) s(?:, lasts .*?\((\d+) ns\))?.*?, depth (\d+)"
)


def details(terminal):
    """(function, start, duration or None, depth) of the call under the cursor; None: there is
    none.
    """
    found = DETAILS.search(terminal.rows[-3])
    if not found:
        return None
    ns = int(found[1]) * 10**9 + int(found[2])
    name = re.sub(r"  \(the longest of .*", "", terminal.rows[-4]).strip()
    return name, ns, int(found[3]) if found[3] else None, int(found[4])


def calls_of(events, tid):
    """(function, start, end, depth) of all calls of a thread, as dump has them."""
    stack, calls = [], []
    for event in (e for e in events if e["tid"] == tid):
        if event["event"] == "entry":
            stack.append((event["function"], event["ts"], event["depth"]))
        elif event["event"] == "exit" and stack:
            name, start, depth = stack.pop()
            assert (name, depth) == (event["function"], event["depth"])
            calls.append((name, start, event["ts"], depth))
    return calls, stack


def test_timeline_goes_through_all_calls(me, tui):
    """By n to each call of a function, with the times that dump has; back by N."""
    directory = small_trace(me.dir() / "trace", streams=1)
    calls, still_open = calls_of(dump(me, directory), 2000)
    t = tui(directory, "--view", "timeline")
    t.wait_text("thread 2000")
    last = max(e["ts"] for e in dump(me, directory) if e["tid"] == 2000)
    calls += [(name, start, last, depth) for name, start, depth in still_open]
    wanted = sorted((s, name, e - s, d) for name, s, e, d in calls if name == "leaf")
    assert len(wanted) > 5
    t.press(HOME)
    t.press("/leaf\r")
    seen = []
    for _ in wanted:
        t.wait(
            "no call",
            lambda t: details(t)
            and details(t)[0] == "leaf"
            and details(t)[1] not in [s for s, *_ in seen],
        )
        t.settle(0.02)
        name, start, lasts, depth = details(t)
        seen.append((start, name, lasts, depth))
        t.press("n")
    assert seen == wanted
    t.wait_text("no call of it behind in this thread")
    t.press("N")
    t.wait("not back", lambda t: details(t) and details(t)[1] == wanted[-2][0])
    quit_it(t)


def test_timeline_draws_what_ran(me, tui):
    """Each column of each depth is drawn where, and only where, a call of that depth ran; zoomed,
    too.
    """
    directory = small_trace(me.dir() / "trace", streams=1, steps=60)
    calls, still_open = calls_of(dump(me, directory), 2000)
    last = max(e for _, _, e, _ in calls)
    calls += [(name, start, last, depth) for name, start, depth in still_open]
    begin = min(start for _, start, _, _ in calls)
    t = tui(directory, "--view", "timeline", columns=104, lines=30)
    t.wait_text("all calls")
    columns = 100

    def check(begin, end):
        def time(column):
            return begin + (end - begin) * column // columns

        for line in t.rows[BODY + 2 : -4]:
            if not line.strip():
                continue
            depth, drawn = int(line[:4]), line[4:].ljust(columns)
            for column in range(columns):
                low, high = time(column), time(column + 1)
                ran = [
                    name
                    for name, start, stop, at in calls
                    if at == depth and start < high and (stop > low or start == stop == low)
                ]
                assert (drawn[column] != " ") == bool(ran), (depth, column, ran, t.text())

    end = max(stop for _, _, stop, _ in calls)
    check(begin, end)
    assert any("[" in line and "main" in line for line in t.rows[BODY + 2 :])
    # to a call, by Enter: it takes nine tenths of the width
    press_and_wait(t, "x", "the slowest call of main" if not still_open else "")
    quit_it(t)


@pytest.mark.parametrize("function", ["eval", "leaf", "sort"])
def test_slowest_call_is_the_reports(me, tui, function):
    directory = tracegen.random_trace(5, steps=300).write(me.dir() / "trace")
    row = next(
        f for f in document(me, "report", directory)["functions"] if f["function"] == function
    )
    t = tui(directory)
    t.wait_text("*total")
    press_and_wait(t, f"/{function}\r", f"only {function}")
    press_and_wait(t, "x", f"the slowest call of {function}")
    t.wait("no times", lambda t: details(t) and details(t)[2] is not None)
    name, start, lasts, depth = details(t)
    assert (name, lasts) == (function, row["max_ns"])
    tid = int(re.search(r"thread (\d+)", t.rows[BODY])[1])
    assert any(
        e["tid"] == tid
        and e["event"] == "entry"
        and (e["function"], e["ts"], e["depth"]) == (function, start, depth)
        for e in dump(me, directory)
    )
    # and it fills the screen
    bar = next(line for line in t.rows[BODY + 2 : -4] if line.startswith(f"{depth:3} "))
    assert f"[{function}" in bar
    quit_it(t)


def test_zoom_reads_the_slice(me, tui):
    """Zoomed in around a call, the picture and the call under the cursor are dump's; then all of
    the thread again. Left and Right reach the calls beside it.
    """
    directory = small_trace(me.dir() / "trace", streams=1)
    calls, still_open = calls_of(dump(me, directory), 2000)
    last = max(e["ts"] for e in dump(me, directory) if e["tid"] == 2000)
    calls += [(name, start, last, depth) for name, start, depth in still_open]
    t = tui(directory, "--view", "timeline", columns=104, lines=30)
    whole = t.text()
    press_and_wait(t, "/parse\r", "parse")
    t.wait("no call", lambda t: details(t))
    for _ in range(6):
        before = t.rows[BODY]
        t.press("+")
        t.wait("no zoom", lambda t, before=before: t.rows[BODY] != before)
    t.settle()
    name, start, lasts, depth = details(t)
    assert (name, start, start + lasts, depth) in calls
    press_and_wait(t, "\r", "[parse")
    t.settle()
    found = set()
    for key in [LEFT] * 12 + [RIGHT] * 24:
        t.press(key)
        t.settle(0.02)
        if details(t) and details(t)[2] is not None:
            name, start, lasts, depth = details(t)
            found.add((name, start, start + lasts, depth))
    assert found and found <= set(calls)
    press_and_wait(t, "f", "all calls")
    t.settle()
    assert [line[4:] for line in t.rows[BODY + 2 : -4]] == [
        line[4:] for line in whole.split("\n")[BODY + 2 : -4]
    ]
    quit_it(t)


def test_timeline_tells_where_one_is(me, tui):
    """Which thread of how many, how much of its time, which depths, and the time at the cursor."""
    trace = tracegen.Trace(hz=1_000_000_000)
    threads = [trace.thread(i, 2000 + i, stack=tracegen.STACK - i * 0x1000000) for i in range(3)]
    for thread in threads[:2]:
        for _ in range(40 if thread is threads[0] else 2):
            thread.call("nested")
        thread.advance(1_000_000)
    for thread in threads[:2]:
        while thread.frames:
            thread.ret()
        thread.advance(3_000_000)
        thread.call("nested")
        thread.ret()
        thread.flush()
    t = tui(trace.write(me.dir() / "trace"), "--view", "timeline", columns=160, lines=24)
    t.wait_text("thread 2000")
    assert ", 1 of 2 ([ ] go to others): " in t.rows[BODY], t.text()
    found = re.search(r"depths 0 to (\d+) of 39", t.rows[BODY])
    assert found and 5 < int(found[1]) < 30, t.text()
    for _ in range(39):
        t.press("j")
    t.wait("the deepest row is not shown", lambda t: " to 39 of 39" in t.rows[BODY])
    press_and_wait(t, "]", "thread 2001")
    assert ", 2 of 2 ([ ] go to others): " in t.rows[BODY] and "depths" not in t.rows[BODY]
    length = re.search(r"others\): (\S+ \S+) of (\S+ \S+),", t.rows[BODY])
    assert length and length[1] == length[2], t.text()
    press_and_wait(t, "+", "of " + length[2])
    t.wait("not zoomed", lambda t: f": {length[1]} of " not in t.rows[BODY])
    press_and_wait(t, "f", f": {length[1]} of ")
    press_and_wait(t, END, "no call here")
    found = re.search(r"no call here\s+at (\d+)\.(\d{9}) s, depth 0", t.text())
    assert found and 0 < int(found[2]) < 20_000_000, t.text()
    quit_it(t)


def test_up_and_down_are_caller_and_callee(me, tui):
    trace = tracegen.Trace(hz=1_000_000_000)
    thread = trace.thread(0, 2000)
    for name in ("outer", "middle", "inner"):
        thread.call(name)
        thread.advance(1000)
    for _ in range(3):
        thread.advance(1000)
        thread.ret()
    directory = trace.write(me.dir() / "trace")
    t = tui(directory, "--view", "timeline")
    for key, name, depth in [
        (b"", "outer", 0),
        (DOWN, "middle", 1),
        (DOWN, "inner", 2),
        (DOWN, "inner", 2),
        (UP, "middle", 1),
    ]:
        t.press(key)
        t.wait(f"not {name}", lambda t, name=name: t.rows[-4].strip() == name)
        assert details(t)[3] == depth
    press_and_wait(t, "c", "[4 callers]")
    assert [line.split()[-1] for line in body(t)] == ["outer", "middle", "inner"]
    quit_it(t)


def test_values_of_the_call(me, tui, programs):
    """Arguments and results stand below the picture as dump prints them."""
    directory = me.dir() / "trace"
    program = programs.simple("values", placement="fentry")
    done = me.iprobe("run", "-o", directory, "--args", "--retval", "--", program, timeout=120)
    assert done.returncode == 0, repr(done)
    lines = me.iprobe("dump", directory).stdout.splitlines()
    entry = re.compile(r"(\d+)\.(\d{9}) +\d+ +([\w:]+)\((.+)\) \{$")
    wanted = {}
    for match in filter(None, map(entry.search, lines)):
        wanted.setdefault(match[3], []).append((match[1] + "." + match[2], match[4]))
    functions = [name for name, found in wanted.items() if len(found) < 5][:6]
    assert len(functions) > 3
    t = tui(directory, "--view", "timeline", columns=600)
    for name in functions:
        t.press(HOME + f"/{name},!*{name}?*\r".encode())
        for at, values in wanted[name][:2]:
            t.wait("not the call", lambda t, at=at: f"begins at {at} s" in t.rows[-3])
            t.settle(0.02)
            assert f"({values})" in t.rows[-2], (name, t.rows[-4:])
            t.press("n")
    quit_it(t)


def test_values_that_do_not_fit(me, tui):
    """The line is marked at the screen's edge, and v shows the rest of it."""
    trace = tracegen.Trace(hz=1_000_000_000)
    text = "".join(f"{i:03}-" for i in range(50))
    words = [int.from_bytes(text[i : i + 8].encode(), "little") for i in range(0, 200, 8)]
    signature = trace.signature("s:text i8:last")
    thread = trace.thread(0, 2000)
    thread.call("outer", values=(signature, 0, [200, *words, 4711]))
    thread.advance(1000)
    thread.ret()
    directory = trace.write(me.dir() / "trace")
    whole = f'(text="{text}", last=4711)'
    for columns in (80, 20):
        t = tui(directory, "--view", "timeline", columns=columns)
        mark = "...  (v: all)" if columns > 26 else "..."
        line = t.rows[-2].rstrip()
        assert line == whole[: columns - len(mark)] + mark, (columns, t.rows)
        t.press("v")
        t.wait("not all of it", lambda t: "any key" in t.rows[-1])
        shown = "".join(t.rows[BODY + 1 : -1])
        assert shown.strip() == whole, (columns, t.rows)
        t.press("v")
        t.wait("not back", lambda t, line=line: t.rows[-2].rstrip() == line)
        quit_it(t)
    t = tui(directory, "--view", "timeline", columns=300)
    assert t.rows[-2].strip() == whole, t.rows
    quit_it(t)


# ---- the terminal ----


def test_sizes(me, tui):
    directory = small_trace(me.dir() / "trace")
    t = tui(directory, lines=24, columns=80)
    assert any(line.endswith("main [tail] [open]") for line in body(t))
    assert "p99.9" not in t.rows[BODY] and "*total" in t.rows[BODY]
    assert t.rows[23].startswith("q quit")
    t.resize(60, 200)
    t.wait("not drawn anew", lambda t: "p99.9" in t.rows[BODY] and t.rows[59].startswith("q quit"))
    for view in "2345":
        t.press(view)
        t.wait("not drawn", lambda t, view=view: f"[{view} " in t.rows[1])
        for lines, columns in [(3, 10), (24, 80), (1, 1), (60, 200)]:
            t.resize(lines, columns)
            for _ in range(4):
                t.read(0.05)
        t.wait("not drawn anew", lambda t: t.rows[59].startswith("q quit"))
        t.settle()
        assert all(len(line) <= 200 for line in t.rows)
    press_and_wait(t, "?", "this")
    press_and_wait(t, "?", "Enter timeline")
    quit_it(t)


@pytest.mark.parametrize("locale, wanted", [("C", False), ("C.UTF-8", True)])
def test_characters_are_those_of_the_locale(me, tui, locale, wanted):
    directory = small_trace(me.dir() / "trace")
    t = tui(directory, "--view", "timeline", env={"LC_ALL": locale})
    assert (not t.text().isascii()) == wanted
    press_and_wait(t, "2", "what it calls")
    assert (not t.text().isascii()) == wanted
    quit_it(t)


@pytest.mark.parametrize(
    "env, wanted",
    [
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": "", "TERM": "vt100"}, False),
        ({"NO_COLOR": "", "TERM": "dumb"}, False),
        ({"NO_COLOR": "", "TERM": "xterm-256color"}, True),
    ],
)
def test_colours(me, tui, env, wanted):
    """They come on top: the characters are the same."""
    directory = small_trace(me.dir() / "trace")
    t = tui(directory, "--view", "timeline", env=env)
    assert any(30 in style for style in t.styled.values()) == wanted
    assert re.search(r"\[\w+=*[]>]", t.text())
    quit_it(t)


@pytest.mark.parametrize("way", ["Ctrl-C", signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV], ids=str)
def test_ways_out(me, tui, way):
    t = tui(small_trace(me.dir() / "trace"), "--view", "timeline")
    if way == "Ctrl-C":
        t.press(b"\x03")
    else:
        os.kill(t.pid, way)
    code, _ = t.wait_end()
    assert t.is_restored() and bool(code) == (way == signal.SIGSEGV)


def test_to_the_shell_and_back(me, tui):
    t = tui(small_trace(me.dir() / "trace"))
    pid = t.pid
    t.press(b"\x1a")
    t.wait("does not stop", lambda t: memory.status_field(pid, "State")[0] == "T")
    t.wait("the terminal is not restored", lambda t: t.is_restored())
    os.kill(pid, signal.SIGCONT)
    t.wait("does not come back", lambda t: t.alternate and "*total" in t.text())
    quit_it(t)


# ---- what it refuses, and bad traces ----


def test_refusals(me):
    directory = small_trace(me.dir() / "trace")
    done = me.iprobe("tui", directory)
    assert done.returncode == 1 and "needs a terminal" in one_line(done)
    for place in ("nothing-here", me.dir()):
        same = me.iprobe("report", place)
        done = me.iprobe("tui", place)
        assert (done.returncode, one_line(done)) == (1, one_line(same))
    for args in (["-s", "nothing"], ["--view", "page"], ["-f", ""], ["--nothing"], ["a", "b"]):
        assert me.iprobe("tui", *args).returncode == 2, args
    done = me.iprobe("tui", "-f", "never_heard", directory)
    assert done.returncode == 1


def test_a_selection_that_matches_nothing(me, tui):
    t = Terminal(me, "tui", "-f", "never_heard", small_trace(me.dir() / "trace"), env=PLAIN)
    code, said = t.wait_end()
    t.close()
    assert code == 1 and "no function of the trace is selected" in said


def test_the_default_directory(me):
    place = me.dir()
    small_trace(place / "iprobe.data")
    t = Terminal(me, "tui", env=PLAIN, cwd=place)
    t.wait_text("iprobe tui: iprobe.data")
    quit_it(t)
    t.close()


def test_damaged(me, tui):
    """What is good of it is shown; the warnings come at the end, as those of report."""
    directory = small_trace(me.dir() / "trace")
    stream = directory / "stream-0"
    stream.write_bytes(stream.read_bytes()[:-200] + b"\xff" * 192)
    want = me.iprobe("report", directory).stderr
    assert "stream-0" in want
    t = tui(directory)
    assert "DAMAGED" in t.rows[0]
    for view, text in [("2", "what it calls"), ("3", "thread 2"), ("4", "callers,"), ("5", "name")]:
        press_and_wait(t, view, text)
    for _ in range(3):
        t.press("3n+")
        t.settle()
    assert quit_it(t) == want


def test_a_trace_that_is_removed_meanwhile(me, tui):
    directory = small_trace(me.dir() / "trace")
    t = tui(directory)
    for stream in directory.glob("stream-*"):
        stream.unlink()
    press_and_wait(t, "3", "stream-")
    assert "[1 report]" in t.rows[1] and "No such file" in t.rows[2]
    quit_it(t)


def test_a_trace_without_events(me, tui):
    trace = tracegen.Trace()
    trace.add("main")
    trace.extra_lines.append("no_events\tnot_called\tnone of them was called")
    t = tui(trace.write(me.dir() / "trace"))
    assert "no events: none of them was called" in t.rows[2]
    for view in "3452":
        t.press(view)
        t.settle()
    t.press("/x\r\r\x7fgxcnN+-eb" + "1/x\rsSr\rxcg")
    t.settle()
    quit_it(t)


def test_names_of_cxx(me, tui):
    """Narrow columns and bars lose what tells least; the search takes what is shown."""
    trace = tracegen.Trace(hz=1_000_000_000)
    thread = trace.thread(0, 1001)
    trace.add("seek", linker_name="_ZN7leveldb12_GLOBAL__N_15Block4Iter4SeekEv")
    trace.add("insert", linker_name="_ZN7leveldb8SkipListIPKcNS_13KeyComparatorEE6InsertERKS2_")
    thread.call("main")
    for name, ticks in (("seek", 1000), ("insert", 1000), ("seek", 300)):
        thread.call(name)
        thread.advance(ticks)
        thread.ret()
    thread.ret()
    directory = trace.write(me.dir() / "trace")
    t = tui(directory, columns=80)
    shown = "leveldb::SkipList<...>::Insert"
    assert any(name.endswith("SkipList<...>::Insert") for name in names_of(t)), t.text()
    for search in (shown, shown.replace("...", ""), "skiplist<>", "leveldb::SkipList::Insert"):
        t.press(f"/{search}\r")
        t.wait("not filtered", lambda t: [n[-6:] for n in names_of(t)] == ["Insert"])
        t.press("/\r")
        t.wait("still filtered", lambda t: len(names_of(t)) == 3)
    quit_it(t)
    t = tui(directory, "--view", "timeline", columns=80)
    bars = [line for line in t.rows if line.startswith("  1 ")]
    assert len(bars) == 1 and bars[0].count("Seek") == 2 and "Insert" in bars[0], t.text()
    assert "leveldb" not in bars[0]
    quit_it(t)


def test_names_do_not_reach_the_terminal_raw(me, tui):
    """The terminal of the test fails at any sequence but those of the screen itself."""
    trace = tracegen.Trace(hz=1_000_000_000)
    thread = trace.thread(0, 1001)
    evil = "\\x1b]0;owned\\x07\\x1b[2Jx\\x0a\\x0dy\\xe2\\x80\\xae\\x9b1m"
    for number in range(3):
        trace.add(f"f{number}", linker_name=f"f{number}{evil}")
    trace.extra_lines.append(f"thread\t1001\t{evil}")
    for _ in range(4):
        for number in range(3):
            thread.call(f"f{number}")
            thread.advance(1000)
        for _ in range(3):
            thread.advance(1000)
            thread.ret()
    directory = trace.write(me.dir() / "trace")
    t = tui(directory)
    for view in "12345":
        t.press(view)
        t.settle()
        assert "owned" in t.text(), view
        for keys in ("j", "/f1\r", "n", "\r", view, "+", "x", "c", "g"):
            t.press(keys)
            t.settle(0.02)
            assert "\u202e" not in t.text() and t.alternate
    quit_it(t)


def test_keys_of_every_kind_do_no_harm(me, tui):
    """Random keys in all views and sizes: it goes on, and ends as it should."""
    rng = random.Random(7)
    directory = tracegen.random_trace(2, steps=150).write(me.dir() / "trace")
    t = tui(directory)
    keys = [*"12345sSr<>/ab*[]fneNgxcjk+-=?\t\r", b"\x7f", b"\x1b", UP, DOWN, LEFT, RIGHT, HOME]
    keys += [END, PAGE_DOWN, b"\x1b[5~", b"\x1b[99;5~", b"\xff", b"\xc3\xa9"]
    for round in range(60):
        pressed = b"".join(
            key if isinstance(key, bytes) else key.encode() for key in rng.choices(keys, k=8)
        )
        t.press(pressed)
        if round % 10 == 0:
            t.resize(rng.randrange(1, 60), rng.randrange(1, 200))
        t.read(0.02)
    t.resize(40, 120)
    t.settle(0.2)
    t.press(b"\x1b")
    t.settle(0.1)
    t.press("1")
    t.wait("no report", lambda t: "1 report" in t.rows[1])
    t.settle()
    if "any key" in t.rows[-1]:
        t.press("1")
    quit_it(t)
