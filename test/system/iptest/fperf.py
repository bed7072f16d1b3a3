# SPDX-License-Identifier: Apache-2.0
"""fperf on a target, and what a target knows of its own calls."""

import csv
import io
import json
import signal

from . import actor as actors
from . import memory

FAULTS = "perf::PAGE-FAULTS"
EXACT = {"none": 0, "three": 3, "eleven": 11, "outer": 6}


def fperf_path(actor):
    return actor.builddir / "cli" / "fperf"


def own_counts(stdout):
    """(calls, pages) by function, as the program printed them."""
    return {
        w[1]: (int(w[2]), int(w[3]))
        for w in map(str.split, stdout.splitlines())
        if w[:1] == ["function"]
    }


def rows_of_command(actor, command, *options):
    """Counts a command to its end; what it printed, and the rows of the CSV by function."""
    output = actor.top / "out.csv"
    done = actor.run(
        [fperf_path(actor), "-q", "--csv", "-o", output, *options, "--", *command], input="\n\n"
    )
    assert done.returncode == 0, repr(done)
    rows = csv.DictReader(io.StringIO(output.read_text(encoding="utf-8")))
    return done.stdout, {row["function"]: row for row in rows}


def patched(actor, pid):
    done = actor.iprobe("status", "--json", pid)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)["patched"]


def start_fperf(actor, target, *options, env=None):
    # one that is killed cannot remove its directory
    proc = actor.popen(
        [fperf_path(actor), "-q", "--json", *options, "-p", target.pid],
        env={"TMPDIR": str(actor.top), **(env or {})},
    )
    memory.wait_for(
        "fperf does not go live",
        lambda: proc.poll() is not None or patched(actor, target.pid) > 0,
        60,
        0.05,
    )
    assert proc.poll() is None, repr(actors.last_words(proc))
    return proc


def count_around_the_work(actor, targets, program, args, options, env=None):
    """(what fperf says, what the program says)."""
    target = targets.start(actor, [program, *args])
    proc = start_fperf(actor, target, *options, env=env)
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0, repr(said)
    assert patched(actor, target.pid) == 0
    target.say()
    return json.loads(said.stdout), own_counts(target.finish().stdout)


def by_name(result):
    return {f["function"]: f for f in result["functions"]}


def check_exact(functions, own, exact_calls=True):
    for name, pages in EXACT.items():
        f = functions[name]
        counter = f["counters"][FAULTS]
        assert f["samples"] >= 2, f
        assert abs(counter["per_call"] - pages) <= counter["ci95"] + 1e-9 + 2 / f["samples"], f
        if exact_calls:
            assert f["calls"] == own[name][0], f
