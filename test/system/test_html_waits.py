# SPDX-License-Identifier: Apache-2.0
"""
What the page of iprobe export --format html tells by the kernel's events: held against iprobe wait
and what the program does, and in a browser.
"""

import pytest
from test_html import browser, document, export  # noqa: F401
from test_html_browser import AXIS, HEAD, ROW, View
from test_wait import blocked, skip_without_events
from test_wait_export import ROUNDS, off_cpu, turns, waits  # noqa: F401

RUNNING, RUNNABLE, BLOCKED = 1, 2, 3
CALLS, STRIP = 15, 10  # as in waits.js
NAP = 2e6  # ns, of test/programs/take_turns.c


@pytest.fixture(scope="module")
def page_of(turns):  # noqa: F811
    actor, trace = turns
    # consume() waits for work: without the option that is set aside (test_wait_idle.py)
    return export(actor, trace, "--idle")


def bars(lane, kind, columns):
    """[(from, length, ...)]"""
    flat, made, at = lane[kind], [], 0
    for i in range(0, len(flat), 2 + columns):
        at += flat[i]
        made.append((at, *flat[i + 1 : i + 2 + columns]))
    return made


def two_threads(data):
    """The lanes of the one that waits, and of the one that wakes it."""
    lanes = sorted(data["waits"]["threads"], key=lambda lane: lane["tid"] != lane["pid"])
    waiter, waker = lanes
    return waiter, waker


def test_states_and_system_calls(page_of):
    data = document(page_of)
    said, (waiter, waker) = data["waits"], two_threads(data)
    states = bars(waiter, "states", 4)
    for one, following in zip(states, states[1:]):
        assert one[0] + one[1] == following[0], (one, following)
    found = [
        (said["objects"][thing], by) for _, _, state, thing, by, _ in states if state == BLOCKED
    ]
    assert found.count(("futex:&turn", waker["tid"])) == ROUNDS, found
    naps = [ns for _, ns, n in bars(waker, "calls", 1) if said["call_names"][str(n)] in SLEEPS]
    assert len(naps) == ROUNDS and min(naps) > 0.99 * NAP, naps
    assert said["interrupt_names"] and all(
        str(one[2]) in said["interrupt_names"] for one in bars(waiter, "interrupts", 2)
    )


SLEEPS = ("clock_nanosleep", "nanosleep")


def test_waits_of_functions(turns, page_of):  # noqa: F811
    data, known = document(page_of), waits(turns)
    flat, names, found = data["waits"]["functions"], data["waits"]["objects"], {}
    i = 0
    while i < len(flat):
        name, (calls, elapsed, cpu, runqueue, unknown) = (
            data["functions"][flat[i]]["name"],
            flat[i + 1 : i + 6],
        )
        assert calls == known[name]["calls"] and unknown == known[name]["unknown_ns"]
        for mine, key in ((elapsed, "elapsed_ns"), (cpu, "cpu_ns"), (runqueue, "runqueue_ns")):
            assert abs(mine - known[name][key]) <= 1  # they are rounded
        i += 6
        found[name] = {}
        while flat[i] != -1:
            found[name][names[flat[i]]] = flat[i + 1]
            i += 3
        i += 1
    assert found.keys() == known.keys()
    for name, objects in found.items():
        assert abs(sum(objects.values()) - blocked(known[name])) <= len(objects)
    assert set(found["await_turn"]) == {"futex:&turn"}


def test_the_tree_of_waits(turns, page_of):  # noqa: F811
    data, known = document(page_of), waits(turns)
    nodes, width, ways, totals = data["waits"]["tree"]["nodes"], 5, [()], {}
    for i in range(0, len(nodes), width):
        name = (
            data["functions"][nodes[i]]["name"]
            if nodes[i] >= 0
            else data["waits"]["objects"][-1 - nodes[i]]
        )
        ways.append((*ways[nodes[i + 1]], name))
        totals[ways[-1]] = nodes[i + 3]
    assert totals[("consume", "await_turn", "futex:&turn")] > 0
    for name in ("consume", "produce"):
        assert abs(totals[(name,)] - off_cpu(known[name])) < 1000


def test_names_of_many_wakers(root, programs):
    """Each thread that a bar mentions has its name, however many there are."""
    skip_without_events(root)
    directory = root.dir()
    done = root.iprobe(
        *("run", "-q", "--kernel", "--kernel-buffer", "64M", "-o", directory / "trace", "--"),
        *(programs.simple("wakers", placement="fentry"), "7000"),
    )
    assert done.returncode == 0, repr(done)
    data = document(export(root, directory / "trace"))["waits"]
    woken = {
        by
        for lane in data["threads"]
        for _, _, state, _, by, _ in bars(lane, "states", 4)
        if state == BLOCKED and by > 0
    }
    named = {name for tid, name in data["names"].items() if int(tid) in woken}
    assert len(woken) > 6500 and woken <= {int(tid) for tid in data["names"]}
    assert len({name for name in named if name.startswith("waker-")}) > 6000


def test_a_trace_without_events_of_the_kernel(me, programs):
    trace = me.dir() / "trace"
    program = programs.simple("take_turns", placement="fentry")
    assert me.iprobe("run", "-q", "-o", trace, "--", program, "1").returncode == 0
    assert "waits" not in document(export(me, trace))


def test_names_of_objects_end_no_script(turns, programs):  # noqa: F811
    actor, _ = turns
    folder = actor.dir() / "x<"
    (folder / "script>").mkdir(parents=True)
    lock = folder / "script><!--<script>"
    program = programs.simple("wait_kinds", placement="fentry")
    run = ["run", "-q", "--kernel", "-o", actor.dir() / "trace", "--", program, "1", lock]
    assert actor.iprobe(*run, input="\n").returncode == 0
    page = export(actor, run[4])
    # document() finds one script of data, and no other end of it
    assert f"file:{lock}" in document(page)["waits"]["objects"]
    assert "<!--" not in page.read_text(encoding="utf-8").partition('id="data"')[2]


@pytest.mark.slow
def test_in_a_browser(page_of, browser):  # noqa: F811
    view = View(browser, page_of)
    assert view.find("#states").is_displayed() and "run queue" in view.find("#states").text
    # a call tells what its thread did meanwhile
    view.press("l")
    assert view.get("selected") == "consume"
    assert "blocked" in view.find("#details").text and "futex:&turn" in view.find("#details").text
    # by keys to a wait, and to that time: few wake-ups are visible
    view.press("b")
    assert view.get("selected") == "blocked: futex:&turn"
    assert "woken by grant;er" in view.find("#details").text
    view.press("\ue007")
    assert int(view.get("arrows")) >= 1
    # its system call, and its state, by mouse
    width = view.find("#timeline canvas").size["width"]
    below = AXIS + HEAD + 2 * ROW
    view.click("#timeline canvas", width // 2, below + 7)
    assert view.get("selected") == "futex"
    view.click("#timeline canvas", width // 2, below + CALLS + STRIP - 2)
    assert view.get("selected") == "blocked: futex:&turn"
    view.press("0")
    # as a table
    view.press("t")
    rows = view.find("#timeline .as-table").text.splitlines()
    assert rows[1].endswith("waits for")
    assert any("consume" in row and "futex:&turn (5 times)" in row for row in rows), rows
    view.press("t")
    # the tab: what waits longest comes first; a function leads to its waits
    view.press("5")
    assert view.get("tab") == "waiting"
    text = view.find("#waiting tbody").text
    assert "futex:&turn (5 times)" in text and "timer:clock_nanosleep (5 times)" in text
    for button in browser.find_elements("css selector", "#waiting tbody button"):
        if button.text == "await_turn":
            button.click()
            break
    assert (view.get("tab"), view.get("of"), view.get("focus")) == (
        "flame",
        "off-cpu",
        "await_turn",
    )
    view.until(lambda: "of=off-cpu" in view.address() and "node=" in view.address())
    link = "#" + view.address()
    # a search finds objects, too
    view.press("/")
    view.press("futex:&turn")
    assert view.find("#found").text == "1 object of waits"
    view.clean()
    again = View(browser, page_of, link)
    assert (again.get("of"), again.get("focus")) == ("off-cpu", "await_turn")
    # printed it stands below the other views
    again.run(
        """addEventListener("beforeprint", () => { window.printed =
        document.querySelectorAll("#waiting tbody tr").length; })"""
    )
    browser.print_page()
    assert again.run("return window.printed") == 5
    again.clean()


@pytest.mark.slow
def test_in_a_browser_without_events_of_the_kernel(me, browser, programs):  # noqa: F811
    trace = me.dir() / "trace"
    program = programs.simple("take_turns", placement="fentry")
    assert me.iprobe("run", "-q", "-o", trace, "--", program, "1").returncode == 0
    view = View(browser, export(me, trace), "#waiting")
    assert view.get("tab") == "timeline"
    assert browser.find_elements("css selector", "#waiting, #tab-waiting, #states") == []
    view.press("5")
    assert view.get("tab") == "timeline"
    view.press("b")
    view.clean()
