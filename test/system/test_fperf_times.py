# SPDX-License-Identifier: Apache-2.0
"""
What fperf says of functions that take next to nothing, against what they take while nobody
counts: the cost of reading is no part of it.
"""

import json
import signal
import time

import pytest

from iptest import actor as actors
from iptest import memory

TRIES = 30
CALLS, PAUSE_US = 100, 300
OFF_NS, NESTED_NS = (
    100,
    250,
)  # a time may be off by so much; of twice(), which calls another one two times
CLOCK, TICKS = "perf::TASK-CLOCK", "tsc::CYCLES"


def patched(actor, pid):
    done = actor.iprobe("status", "--json", pid)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)["patched"]


def measure(actor, targets, program, options):
    """(functions as fperf has them, ns that they take as the program has it, ticks a
    nanosecond).
    """
    target = targets.start(actor, [program, "-n", CALLS, "-s", PAUSE_US])
    proc = actor.popen(
        [
            actor.builddir / "cli" / "fperf",
            "-q",
            "--json",
            "--budget",
            "none",
            *options,
            "-p",
            target.pid,
        ],
        env={"TMPDIR": str(actor.top)},
    )
    memory.wait_for(
        "fperf does not go live",
        lambda: proc.poll() is not None or patched(actor, target.pid) > 0,
        60,
        0.05,
    )
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0, repr(said)
    target.say()
    own = [line.split() for line in target.finish().stdout.splitlines()]
    rate = next(float(w[1]) for w in own if w[0] == "ticks") / 1000
    functions = {f["function"]: f for f in json.loads(said.stdout)["functions"]}
    return functions, {w[1]: float(w[2]) / rate for w in own if w[0] == "function"}, rate


def off_by(functions, truth, rate, exclusive):
    """ns that a time is off, of each event and of the functions that tell most."""
    off = {}
    for name in ("nothing", "link_200", "twice"):
        own = truth[name] - (2 * truth["link_50"] if exclusive and name == "twice" else 0)
        counters = functions[name]["counters"]
        # the first calls may come before all functions have their probes
        assert functions[name]["samples"] >= CALLS / 2, functions[name]
        for event, unit in ((CLOCK, 1), (TICKS, rate)):
            # each call was measured: what is left is what times may be off by; not known where the
            # machine had no time for calls and looks between them
            assert counters[event]["ci95"] is None or counters[event]["ci95"] / unit > 1, (
                name,
                counters,
            )
            off[name, event] = counters[event]["per_call"] / unit - own
    return off


@pytest.mark.parametrize("exclusive", [False, True], ids=["inclusive", "exclusive"])
def test_short_functions_of_a_process_that_sleeps(me, programs, targets, exclusive):
    """Caches are cold after each sleep, and the calls of the kernel that read the clock take longer
    than when that was learnt. Others' work makes all of it longer, so the least of some runs is
    what counts.
    """
    if time.clock_getres(time.CLOCK_THREAD_CPUTIME_ID) > 1e-8:
        pytest.skip("the clock of a thread goes in steps that are longer than these functions")
    program = programs.simple("brief", placement="fentry")
    least = {}
    for _ in range(TRIES):
        off = off_by(
            *measure(me, targets, program, ["--exclusive"] if exclusive else []), exclusive
        )
        print({f"{n} {e}": round(ns) for (n, e), ns in off.items()})
        for key, ns in off.items():
            least[key] = ns if key not in least or abs(ns) < abs(least[key]) else least[key]
        if all(
            abs(ns) <= (NESTED_NS if name == "twice" else OFF_NS) for (name, _), ns in least.items()
        ):
            return
    far = {
        k: round(ns)
        for k, ns in least.items()
        if abs(ns) > (NESTED_NS if k[0] == "twice" else OFF_NS)
    }
    pytest.fail(f"off by so many ns, at best of {TRIES} runs: {far}")
