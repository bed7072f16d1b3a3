# SPDX-License-Identifier: Apache-2.0
"""iprobe tui: what the function at the cursor waits for is what iprobe wait tells."""

import pytest
from test_tui import PLAIN, press_and_wait, quit_it
from test_wait import blocked
from test_wait_export import ROUNDS, turns, waits  # noqa: F401

from iptest.terminal import Terminal


@pytest.fixture
def terminal():
    made = []

    def start(actor, *args, **size):
        made.append(Terminal(actor, "tui", *args, env=PLAIN, **{"columns": 100, **size}))
        made[0].wait_text("? help")
        made[0].settle()
        return made[0]

    yield start
    for one in made:
        one.close()


def ns(text, unit):
    return float(text) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]


def test_waits_of_a_function(turns, terminal):  # noqa: F811
    actor, trace = turns
    known = waits(turns)["await_turn"]
    assert known["idle_ns"] > 0  # it waits for work
    screen = terminal(actor, "-f", "await_turn", trace)
    press_and_wait(screen, "w", "any key: back")
    rows = [row.split() for row in screen.rows if row.strip()]
    assert [f"await_turn: {ROUNDS} calls, with what they call"] == [
        " ".join(row) for row in rows if row[0] == "await_turn:"
    ]
    shown = {" ".join(row[:-4]): ns(*row[-4:-2]) for row in rows if row[-1] == "%"}
    for name, wanted in {
        "elapsed": known["elapsed_ns"],
        "on a CPU": known["cpu_ns"],
        "run queue": known["runqueue_ns"],
        "blocked": blocked(known) - known["idle_ns"],
        "idle": known["idle_ns"],
        "not known": known["unknown_ns"],
    }.items():
        assert abs(shown[name] - wanted) <= 0.01 * wanted, (name, shown, known)
    objects = [row for row in rows if row[-1] == "futex:&turn"]
    assert len(objects) == 1 and objects[0][-2] == str(ROUNDS), rows
    press_and_wait(screen, "x", "? help")  # back, and nothing else
    assert any("await_turn" in row for row in screen.rows)
    quit_it(screen)


def test_few_lines(turns, terminal):  # noqa: F811
    actor, trace = turns
    screen = terminal(actor, "-f", "await_turn", trace, lines=8, columns=40)
    press_and_wait(screen, "w", "any key: back")
    assert "elapsed" in screen.text() and "not known" not in screen.text()
    press_and_wait(screen, "w", "? help")
    quit_it(screen)


def test_without_events_of_the_kernel(me, programs, terminal):
    trace = me.dir() / "trace"
    program = programs.simple("take_turns", placement="fentry")
    assert me.iprobe("run", "-q", "-o", trace, "--", program, "1").returncode == 0
    screen = terminal(me, trace)
    press_and_wait(screen, "w", "has no events of")  # behind a path that may be long
    quit_it(screen)
