# SPDX-License-Identifier: Apache-2.0
"""
--within: a thread records what functions call that are named, and nothing else: held against the
log of programs that leave functions in all ways.
"""

import collections
import json

import pytest

from iptest import ctf, trees
from iptest.programs import compilers
from test_trees import record, unlogged

PROGRAMS = [
    "tree_calls",
    "tree_signals",
    "tree_jumps",
    "tree_threads",
    "tree_start",
    "tree_throw",
]


@pytest.fixture(
    params=[("gcc", "fentry"), ("gcc", "inline")]
    + [(compiler, "instrument") for compiler in compilers()],
    ids="-".join,
)
def way(request):
    return request.param


def part_within(steps, names):
    """The steps from entries of these functions to their exits."""
    kept, base = [], None
    for step in steps:
        if base is None and step.event == "entry" and step.name in names:
            base = step.depth
        if base is None:
            continue
        kept.append(step._replace(depth=step.depth - base))
        if step.event == "exit" and step.depth == base:
            base = None
    return kept


def callers(logs):
    """Functions that call others, most called first; each was called without itself around it."""
    found = collections.Counter()
    for steps in logs.values():
        for step, then in zip(steps, steps[1:]):
            if step.event == then.event == "entry" and then.depth == step.depth + 1:
                found[step.name] += 1
    return [name for name, _ in found.most_common() if name != "main"]


def qualified(name):
    """A selection of all functions that the log calls so, whatever their arguments are."""
    return f"{name},{name}<*>"


def check_within(actor, command, names, *options):
    """Runs it, and holds each thread against its log. The summary."""
    directory, logs, dumps = record(
        actor, command, ["--within", ",".join(map(qualified, names)), *options]
    )
    for (_, _, tid), steps in logs.items():
        wanted = part_within(steps, names)
        shown = trees.without(dumps.pop(tid, []), unlogged)
        where = f"thread {tid}, within {names}"
        trees.assert_consistent(shown, where)
        trees.compare(wanted, shown, where)
    assert not dumps
    info = json.loads(actor.iprobe("info", "--json", directory).stdout)
    assert any(text.startswith("within ") for text in info["filters"]), info
    return directory


@pytest.mark.parametrize("program", PROGRAMS)
def test_calls_within(me, programs, way, program):
    compiler, placement = way
    command = [programs.trees(compiler, "-O2", placement) / program]
    _, logs, _ = record(me, command)
    some = callers(logs)
    assert some
    for name in some[:4]:
        check_within(me, command, [name])
    check_within(me, command, some[:2])


def test_nothing_is_within(me, programs):
    """Such a session counts what it leaves out, and says so."""
    program = programs.simple("filtered", placement="fentry")
    directory = me.dir() / "trace"
    done = me.iprobe("run", "--json", "-o", directory, "--within", "nowhere", "--", program)
    assert done.returncode == 1 and "--within nowhere" in done.stderr, repr(done)
    done = me.iprobe("run", "-o", directory, "--within", "", "--", program)
    assert done.returncode == 2 and "name of a function" in done.stderr, repr(done)


@pytest.mark.parametrize("options", [(), ("--callsite",), ("--depth", "2"), ("--args",)])
def test_with_other_filters(me, programs, options):
    """What is left out is counted: recorded + filtered is what happened."""
    program = programs.simple("filtered", placement="fentry")
    counts = []
    for within in ((), ("--within", "level2")):
        directory = me.dir() / "trace"
        done = me.iprobe(
            *("run", "--json", "-q", "-o", directory, *options, *within, "--", program)
        )
        assert done.returncode == 0, repr(done)
        summary = done.summary()
        assert summary["lost"] == 0
        counts.append(summary["events"] + summary.get("filtered", 0))
        seen, _ = ctf.read_events(directory)
        functions = {f for (_, _, f) in seen}
    assert counts[0] == counts[1], (options, counts)
    assert "level2" in functions and "level1" not in functions, functions
    assert ("level4" in functions) == ("--depth" not in options), functions


LIBRARY = """
__attribute__((noinline)) long inner(long n) { __asm__ volatile(""); return n + 1; }
long of_library(long n) { long r = inner(n) + inner(n); __asm__ volatile(""); return r; }
"""
PROGRAM = """
#include <stdlib.h>
long of_library(long n);
__attribute__((noinline)) long jumps(long n) { __asm__ volatile(""); return of_library(n); }
__attribute__((noinline)) long outside(long n) { long r = of_library(n); __asm__ volatile("");
	return r; }
int main(void)
{
	long sum = 0;
	for (long i = 0; i < 100; i++) sum += jumps(i) + outside(i);
	return sum != 2 * 10100;
}
"""


@pytest.fixture
def with_library(me):
    """The program, whose library has probes, too."""
    where = me.dir()
    (where / "library.c").write_text(LIBRARY)
    (where / "program.c").write_text(PROGRAM)
    compiler = me.builddir / "coldpatch" / "iprobe-cc"
    for words in (
        ("-shared", "-fPIC", "library.c", "-o", "liblibrary.so"),
        ("program.c", "-L.", "-llibrary", f"-Wl,-rpath,{where}", "-o", "program"),
    ):
        done = me.run([compiler, "-O2", *words], cwd=where, env={"IPROBE_PLACEMENT": "fentry"})
        assert done.returncode == 0, repr(done)
    return where / "program"


def calls_of(me, program, *options):
    directory = me.dir() / "trace"
    done = me.iprobe("run", "-q", *options, "-o", directory, "--", program)
    assert done.returncode == 0, repr(done)
    found = json.loads(me.iprobe("report", "--json", directory).stdout)["functions"]
    return {f["function"]: f["calls"] for f in found}


@pytest.mark.parametrize("plt", [(), ("--plt",)])
def test_a_tail_call_into_a_library(me, with_library, plt):
    """The call goes on there, also where an entry of the PLT is on the way."""
    calls = calls_of(me, with_library, *plt, "--within", "jumps")
    calls = {name: n for name, n in calls.items() if not name.endswith("@plt")}
    assert calls == {"jumps": 100, "of_library": 100, "inner": 200}, calls


def test_what_has_no_exit(me, programs):
    """Nothing would tell when such a call is over."""
    program = programs.simple("filtered", placement="fentry")
    words = ("run", "-o", me.dir() / "trace", "--plt", "--within", "clock_gettime", "--", program)
    done = me.iprobe(*words)
    assert done.returncode == 1 and "its exits are not recorded" in done.stderr, repr(done)


def test_a_call_by_the_plt_counts_once(me, with_library):
    """Of a function that has probes, too."""
    calls = calls_of(me, with_library, "--plt", "--stop-on", "of_library:10")
    assert calls["of_library"] == 10, calls
