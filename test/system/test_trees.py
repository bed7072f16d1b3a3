# SPDX-License-Identifier: Apache-2.0
"""The recorded call tree of each thread is the one that the program logged by itself."""

import json
import os
import re

import pytest

from iptest import trees
from iptest.programs import compilers

# What a C++ program calls without having written it.
FULL = os.environ.get("IPROBE_TEST_FULL") == "1"
UNLOGGED = re.compile(
    r"^(std::|__gnu_cxx::|operator |_GLOBAL__|__static_init|__cxx_global|shop::Derived::~?Derived$)"
)


def unlogged(name):
    return bool(UNLOGGED.match(name))


@pytest.fixture(params=["-O0", "-O2"])
def opt(request):
    return request.param


@pytest.fixture(
    params=[(c, "instrument") for c in compilers()]
    + [("gcc", p) for p in ("fentry", "inline") if "gcc" in compilers()],
    ids="-".join,
)
def way(request):
    """(compiler, placement)"""
    return request.param


@pytest.fixture(params=["instrument", "fentry", "inline"])
def placement(request):
    return request.param


@pytest.fixture(params=compilers())
def compiler(request):
    return request.param


@pytest.fixture(
    params=[("me", c, o, "instrument") for c in compilers() for o in ("-O0", "-O2")]
    + [("me", "gcc", "-O2", p) for p in ("fentry", "inline") if "gcc" in compilers()]
    + [("user", "gcc", "-O2", "instrument")],
    ids="-".join,
)
def anyone(request):
    """(actor, compiler, options, placement): every compiler as whoever runs the tests, one as an
    ordinary user.
    """
    who, *rest = request.param
    return request.getfixturevalue(who), *rest


def record(actor, command, options=()):
    """(directory, logs, dumps) of one run; nothing may be lost."""
    logs, directory = actor.dir(), actor.dir() / "trace"
    done = actor.iprobe(
        "run",
        "--json",
        "--memory",
        "256M",
        *options,
        "-o",
        directory,
        "--",
        *command,
        env={"TREE_LOG": str(logs)},
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    print(
        summary
    )  # shown where a comparison fails: whether anything was counted as invalid or not served
    assert summary["lost"] == 0, summary
    dump = actor.iprobe("dump", "--json", directory)
    assert dump.returncode == 0, repr(dump)
    return directory, trees.read_log(logs), trees.read_dump(dump.stdout)


def logged_by_tid(logs):
    """Logs of one thread id put together: an exec keeps the id, a later thread may get one that
    was used.
    """
    by_tid = {}
    for key in sorted(logs):
        by_tid.setdefault(key[2], []).append((key[0], logs[key]))
    return by_tid


def check(actor, command, options=()):
    directory, logs, dumps = record(actor, command, options)
    by_tid = logged_by_tid(logs)
    assert set(dumps) == set(by_tid)
    for tid, parts in by_tid.items():
        assert len(parts) == 1, "a thread id was used twice"
        shown = trees.without(dumps[tid], unlogged)
        trees.assert_consistent(dumps[tid], f"thread {tid}")
        trees.compare(parts[0][1], shown, f"thread {tid}")
    check_report(actor, directory, logs.values())
    return logs


def check_report(actor, directory, logs):
    """The report counts each call once, whatever way it ended."""
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    reported = {}
    for function in json.loads(done.stdout)["functions"]:
        name = trees.without_arguments(function["function"])
        if not unlogged(name):
            reported[name] = reported.get(name, 0) + function["calls"]
        if (
            function["min_ns"] is None
        ):  # no call of it has ended: main() where the first thread ends by pthread_exit()
            assert function["avg_ns"] is None and function["max_ns"] is None, function
            continue
        assert function["min_ns"] <= function["avg_ns"] <= function["max_ns"], function
        assert function["p50_ns"] <= function["p99_ns"] <= function["max_ns"], function
        assert 0 <= function["self_ns"] <= function["total_ns"] or function["calls"] > 1, function
    assert reported == dict(trees.count_entries(logs))


@pytest.mark.parametrize(
    "program",
    [
        "tree_calls",
        "tree_signals",
        "tree_jumps",
        "tree_threads",
        "tree_start",
        "tree_throw",
        "tree_stacks",
    ],
)
def test_tree(me, programs, way, opt, program):
    compiler, placement = way
    check(me, [programs.trees(compiler, opt, placement) / program])


@pytest.mark.parametrize(
    "program",
    ["tree_calls", "tree_signals", "tree_jumps", "tree_threads", "tree_start", "tree_throw"],
)
def test_tree_as_user(user, programs, program):
    check(user, [programs.trees("gcc", "-O2") / program])


def test_end_in_the_middle(me, programs, way, opt):
    """_exit leaves all frames open."""
    compiler, placement = way
    logs = check(me, [programs.trees(compiler, opt, placement) / "tree_stacks", "quit"])
    (steps,) = logs.values()
    assert [s.depth for s in steps if s.name == "quit" and s.event == "entry"] == [1, 2, 3, 4, 5]


def test_tail_calls(me, programs, opt, placement):
    """A call that ends by a jump lasts until the function returns that it jumps to, which stands
    inside of it; but where a pointer leads nobody knows: it ends there, and says so.
    """
    program = programs.simple(
        "tails",
        "gcc",
        opt,
        extra=["-fno-optimize-sibling-calls"] if opt == "-O0" else [],
        placement=placement,
    )
    plain = me.run([program])
    directory = me.dir() / "trace"
    done = me.iprobe("run", "--json", "-o", directory, "--", program)
    assert done.returncode == 0 and done.summary()["lost"] == 0, repr(done)
    assert done.stdout.startswith(plain.stdout)
    (steps,) = trees.read_dump(me.iprobe("dump", "--json", directory).stdout).values()
    trees.assert_consistent(steps)
    wanted = []

    def enter(name, depth):
        wanted.append(("entry", name, depth))

    def leave(name, depth):
        wanted.append(("exit", name, depth))

    # where the hook comes behind the call, no call is the last thing
    jumps = opt == "-O2" and placement == "fentry"
    enter("main", 0)
    for i in range(50):
        depth = 0
        for _ in range(i % 4 + 1):
            depth += 1
            enter("unwind", depth)
        chain = []

        def go_on(name):
            enter(name, depth + len(chain) + (not jumps))
            chain.append(name)

        go_on("unwind" if jumps else "first")
        if jumps:
            wanted.pop()  # it is open
            go_on("first")
            while chain:  # calls through a pointer
                leave(chain.pop(), depth + len(chain))
        go_on("second")
        enter("last", depth + len(chain) + (not jumps))
        leave("last", depth + len(chain) + (not jumps))
        go_on("third")
        go_on("last")
        while chain:
            leave(chain.pop(), depth + len(chain) + (not jumps))
        for level in range(depth - jumps, 0, -1):
            leave("unwind", level)
    leave("main", 0)
    assert [s[:3] for s in steps] == wanted
    # and says so
    lines = [
        json.loads(line) for line in me.iprobe("dump", "--json", directory).stdout.splitlines()
    ]
    assert {line["function"] for line in lines if line.get("tail")} == (
        {"unwind", "first", "second", "third"} if jumps else set()
    )
    assert {line["function"] for line in lines if line.get("until_tail_call")} == (
        {"unwind", "first"} if jumps else set()
    )
    functions = json.loads(me.iprobe("report", "--json", directory).stdout)["functions"]
    counts = {f["function"]: f["tail_exits"] for f in functions}
    assert counts == {
        "main": 0,
        "last": 0,
        "second": 50 * jumps,
        "first": 50 * jumps,
        "third": 50 * jumps,
        "unwind": 50 * jumps,
    }
    assert {f["function"]: f["until_tail_call"] for f in functions if f["until_tail_call"]} == (
        {"unwind": 50, "first": 50} if jumps else {}
    )
    text = me.iprobe("dump", directory).stdout
    assert ("(tail call)" in text) == ("(until its tail call)" in text) == jumps


def test_exit_from_a_deep_frame(me, programs, way, opt):
    """Destructors run on top of frames that never return."""
    compiler, placement = way
    logs = check(me, [programs.trees(compiler, opt, placement) / "tree_start", "deep"])
    (steps,) = logs.values()
    assert [s.depth for s in steps if s.name == "end_last" and s.event == "entry"] == [7]


def test_constructors_of_a_library_come_first(me, programs):
    """The case is what it is meant to be: the library's constructor, the program's by priority,
    main, destructors.
    """
    logs = check(me, [programs.trees("gcc", "-O2") / "tree_start"])
    (steps,) = logs.values()
    top = [s.name for s in steps if s.event == "entry" and s.depth == 0]
    assert top == [
        "lib_begin",
        "begin_first",
        "begin_second",
        "main",
        "at_exit_handler",
        "end_first",
        "end_last",
        "lib_end",
    ]


def test_children_of_fork_are_silent(anyone, programs):
    actor, compiler, opt, placement = anyone
    program = programs.trees(compiler, opt, placement) / "tree_fork"
    directory, logs, dumps = record(actor, [program])
    by_tid = logged_by_tid(logs)
    assert {key[1] for key in logs} == {min(key[1] for key in logs)}, "only the parent logs"
    assert set(dumps) == set(by_tid)
    for tid, parts in by_tid.items():
        trees.compare(parts[0][1], dumps[tid], f"thread {tid}")
    shown = {step.name for steps in dumps.values() for step in steps}
    assert "work" in shown and "child" not in shown and "child_only" not in shown
    check_report(actor, directory, logs.values())


@pytest.mark.parametrize("by", ["first thread", "other thread"])
def test_exec_goes_on_with_the_next_program(anyone, programs, by):
    """The same process becomes another prepared program: one trace, both trees, each from its
    own top.
    """
    actor, compiler, opt, placement = anyone
    folder = programs.trees(compiler, opt, placement)
    command = [
        folder / "tree_exec",
        *(["-t"] if by == "other thread" else []),
        folder / "tree_jumps",
    ]
    directory, logs, dumps = record(actor, command)
    by_tid = logged_by_tid(logs)
    assert {key[0] for key in logs} == {"tree_exec", "tree_jumps"}
    assert set(dumps) == set(by_tid)
    for tid, parts in by_tid.items():
        steps = [step for _, part in sorted(parts) for step in part]  # tree_exec, then tree_jumps
        trees.compare(steps, dumps[tid], f"thread {tid}")
    check_report(actor, directory, logs.values())


@pytest.mark.parametrize(
    "rounds", [1500, pytest.param(20000 if FULL else 10000, marks=pytest.mark.slow)]
)
def test_handlers_at_any_moment(anyone, programs, rounds):
    """Two timers at a high rate, one on an alternate stack, handlers that raise and call."""
    actor, compiler, opt, placement = anyone
    program = programs.trees(compiler, opt, placement) / "tree_timers"
    _, logs, dumps = record(actor, [program, rounds])
    ((key, log),) = logs.items()
    assert set(dumps) == {key[2]}
    trees.assert_consistent(dumps[key[2]])
    trees.compare_with_handlers(
        log, dumps[key[2]], lambda name: name.startswith("on_"), f"{rounds} rounds"
    )
    assert (
        sum(s.name.startswith("on_t") and s.event == "entry" for s in log) >= 5
    ), "hardly a signal came"


def deepest(steps):
    """How many calls of on_tick() stand on top of each other at most."""
    stack, most = [], 0
    for step in steps:
        del stack[step.depth :]
        if step.event == "entry":
            stack.append(step.name == "on_tick")
            most = max(most, sum(stack))
    return most


@pytest.mark.parametrize(
    "rounds", [2500, pytest.param(25000 if FULL else 10000, marks=pytest.mark.slow)]
)
def test_jumps_out_of_handlers_at_any_moment(anyone, programs, rounds):
    """
    Each handler leaves by siglongjmp, sometimes out of a hook: at most that one event is missing
    (counted as lost), and the tree is in order again at once. Some handlers come on top of one
    that is about to leave.
    """
    actor, compiler, opt, placement = anyone
    program = programs.trees(compiler, opt, placement) / "tree_timers"
    logs, directory = actor.dir(), actor.dir() / "trace"
    done = actor.iprobe(
        "run",
        "--json",
        "--memory",
        "256M",
        "-o",
        directory,
        "--",
        program,
        rounds,
        "jump",
        env={"TREE_LOG": str(logs)},
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    ((key, log),) = trees.read_log(logs).items()
    jumps = sum(s.name == "on_tick" and s.event == "entry" for s in log)
    assert jumps >= 5
    assert summary["lost"] <= jumps
    dump = actor.iprobe("dump", "--json", directory)
    assert dump.returncode == 0, repr(dump)
    steps = trees.read_dump(dump.stdout)[key[2]]
    trees.assert_consistent(steps)
    # Rounds and handlers stand where they belong, from the first to the last.
    assert steps[0][:3] == ("entry", "main", 0)
    assert steps[-1].name == "main"
    shown = [s for s in steps if s.event == "entry" and s.name == "branch" and s.depth == 1]
    logged = [s for s in log if s.event == "entry" and s.name == "branch" and s.depth == 1]
    assert abs(len(shown) - len(logged)) <= jumps
    # One function may have run its hook and not logged yet, or the other way round.
    assert max(s.depth for s in steps) <= max(s.depth for s in log) + 1
    assert deepest(log) >= 3, "no handler came on top of one that leaves"
    handlers = sum(s.name == "on_tick" and s.event == "entry" for s in steps)
    assert jumps - summary["lost"] <= handlers <= jumps


def test_selection_keeps_the_tree(me, programs):
    """With functions left out, what is left nests as before."""
    folder = programs.trees("gcc", "-O2")
    _, logs, dumps = record(
        me, [folder / "tree_calls"], ["-f", "!fibonacci,!compare,!small_inline,!helper"]
    )
    ((key, log),) = logs.items()
    left_out = {"fibonacci", "compare", "small_inline"}
    assert not left_out & {s.name for s in dumps[key[2]]}
    trees.compare(trees.without(log, left_out.__contains__), dumps[key[2]])
