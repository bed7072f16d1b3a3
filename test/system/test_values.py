# SPDX-License-Identifier: Apache-2.0
"""--args and --retval: values in a trace are those that the program knows of itself."""

import collections
import json
import os
import pathlib
import re
import subprocess

import pytest

from iptest import memory
from iptest.actor import last_words, one_line
from iptest.programs import compilers

LIMIT = 64


def record(actor, program, *options, directory=None):
    """Runs a program; (its own lines of JSON, the trace's directory, what iprobe said)."""
    directory = directory or actor.dir() / "trace"
    done = actor.iprobe("run", "-o", directory, "--args", "--retval", *options, "--", program)
    assert done.returncode == 0, repr(done)
    return (
        [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")],
        directory,
        done,
    )


def dump(actor, directory):
    done = actor.iprobe("dump", "--json", directory)
    assert done.returncode == 0, repr(done)
    return [json.loads(line) for line in done.stdout.splitlines()]


def calls_of(events):
    """The calls of one thread in the order of their entries: (entry, exit)."""
    calls, open_calls = [], []
    for event in events:
        if event["event"] == "entry":
            call = [event, None]
            calls.append(call)
            open_calls.append(call)
        elif event["event"] == "exit":
            open_calls.pop()[1] = event
    return calls


def same(got, expected):
    if isinstance(expected, float) or isinstance(got, float):
        return (
            isinstance(got, (int, float)) and isinstance(expected, (int, float)) and got == expected
        )
    return got == expected and isinstance(got, bool) == isinstance(expected, bool)


def check(call, expected):
    """A call in the trace against what the program says of it."""
    entry, leave = call
    for name, value in {**expected.get("args", {}), **expected.get("more", {})}.items():
        assert same(entry["args"][name], value), f"{name}: {entry} is not {expected}"
    for name, value in expected.get("might", {}).items():
        got = entry.get("args", {}).get(name)
        assert got is None or same(got, value), f"{name}: {entry} is not {expected}"
    if "values" in expected:
        assert list(entry["args"].values()) == expected["values"], entry
    if "full" in expected:
        full = expected["full"]
        assert entry["args"]["a"] == full[:LIMIT] and entry.get("cut", False) == (len(full) > LIMIT)
        assert leave["retval"] == full[:LIMIT] and leave.get("cut", False) == (len(full) > LIMIT)
    if "ret" in expected and "retval" in leave:
        assert same(leave["retval"], expected["ret"]), f"{leave} is not {expected}"


def check_all(actor, program):
    said, directory, done = record(actor, program)
    calls = [
        c for c in calls_of(dump(actor, directory)) if c[0]["function"] in {s["f"] for s in said}
    ]
    assert [c[0]["function"] for c in calls] == [s["f"] for s in said]
    for call, expected in zip(calls, said):
        check(call, expected)
    assert "without values" not in done.stderr
    return calls, directory, said


@pytest.mark.parametrize(
    "flags",
    [
        "-O0",
        "-O2",
        "-O3",
        "-Os",
        "-Og -gdwarf-4",
        "-O2 -gdwarf-3 -fno-var-tracking",
        "-O2 -flto",
        "-O2 -gsplit-dwarf",
        "-O2 -fcf-protection=full -gz",
        "-O1 -no-pie",
    ],
)
def test_values_are_what_the_program_says(me, programs, flags):
    """Every class of types, strings of every length and at every kind of end, in every register and
    on the stack; told by each kind of debug information.
    """
    opt, *extra = flags.split()
    calls, directory, said = check_all(
        me, programs.simple("values", opt=opt, extra=extra, placement="fentry")
    )
    # nothing that should be there has been left out: results of all that return one in a register,
    # but for tail calls
    by_name = collections.defaultdict(list)
    for entry, leave in calls:
        by_name[entry["function"]].append(leave)
    for name in (
        "integers",
        "floats",
        "extended",
        "single",
        "enums",
        "pointers",
        "wide",
        "variadic",
        "characters",
    ):
        assert all("retval" in leave for leave in by_name[name]), name
    for name in ("hidden", "nothing"):
        assert all("retval" not in leave for leave in by_name[name]), name
    # an independent reader sees the same events
    text = subprocess.run(
        ["babeltrace2", str(directory)], capture_output=True, text=True, check=True
    )
    assert text.stderr == ""
    lines = text.stdout.splitlines()
    assert len(lines) == len(dump(me, directory))
    assert sum("signature = " in line for line in lines) >= len(said)


CLONED = """
#define NOINLINE static __attribute__((noinline))
#define KEEP(n) __asm__ volatile("" : "+r"(n))
NOINLINE long cloned(const long *p, int mode, long count, int flag)
{ long t = mode == 3 ? p[1] : 0; for (long i = 0; i < count; i++) { t += i * flag; KEEP(t); } return t + mode; }
NOINLINE long middle(int a, int b, int c, int d) { KEEP(a); KEEP(c); return a * 1000 + c * b + d; }
NOINLINE long unused(int never, long kept) { (void)never; KEEP(kept); return kept; }
int main(int argc, char **argv)
{
    long v[] = {argc, 2}, r = cloned(v, 3, argc + 4, argc) + cloned(v, 3, argc + 9, argc + 1) + unused(argc, 40 + argc);
    (void)argv;
    r += middle(argc, 7, argc + 1, 5) + middle(argc + 3, 7, argc + 2, 5);
    return r == 0;
}
"""


def test_clones_keep_the_order_of_their_parameters(me, builddir):
    """gcc's clones: parameters that it took away (constants, unused ones) are told of behind the
    others.
    """
    folder = me.dir()
    (folder / "cloned.c").write_text(CLONED)
    subprocess.run(
        [builddir / "coldpatch" / "iprobe-cc", "-O2", "-g", "cloned.c", "-o", "cloned"],
        cwd=folder,
        check=True,
        env={**os.environ, "IPROBE_CC": "gcc", "IPROBE_PLACEMENT": "fentry"},
        timeout=120,
    )
    symbols = subprocess.run(
        ["nm", folder / "cloned"], capture_output=True, text=True, check=True
    ).stdout
    if " middle.constprop" not in symbols or " cloned.constprop" not in symbols:
        pytest.skip("this gcc does not clone them")
    _, directory, _ = record(me, folder / "cloned")
    found = collections.defaultdict(list)
    for entry, _ in calls_of(dump(me, directory)):
        found[entry["function"]].append(entry["args"])
    assert [list(args) for args in found["cloned"]] == [["p", "mode", "count", "flag"]] * 2
    assert [[args[name] for name in ("mode", "count", "flag")] for args in found["cloned"]] == [
        [3, 5, 1],
        [3, 10, 2],
    ]
    assert [list(args.items()) for args in found["middle"]] == [
        [("a", 1), ("b", 7), ("c", 2), ("d", 5)],
        [("a", 4), ("b", 7), ("c", 3), ("d", 5)],
    ]
    assert list(found["unused"][0])[-1] == "kept" and found["unused"][0]["kept"] == 41


@pytest.mark.parametrize("flags", ["-O0", "-O2 -std=c++20", "-O2 -gdwarf-4"])
def test_values_in_cxx(me, programs, flags):
    """this, references, classes by value and by invisible reference, overloads, lambdas, methods
    of templates.
    """
    opt, *extra = flags.split()
    check_all(
        me, programs.simple("values_cxx", opt=opt, extra=extra, placement="fentry", suffix="cc")
    )


@pytest.mark.parametrize(
    "placement,opt",
    [("fentry", "-O0"), ("fentry", "-O2"), ("inline", "-O2"), ("instrument", "-O3")],
)
def test_arguments_of_points(me, programs, placement, opt):
    include = pathlib.Path(__file__).resolve().parents[2] / "include"
    program = programs.simple(
        "values_points", opt=opt, placement=placement, extra=(f"-I{include}",)
    )
    said, directory, _ = record(me, program)
    events = [event for event in dump(me, directory) if event["event"] == "point"]
    assert [event["function"] for event in events] == [s["f"] for s in said]
    for event, expected in zip(events, said):
        assert list(event.get("args", {}).values()) == expected.get("list", []), event
    assert list(events[4]["args"]) == [
        *("p", "&global", "bytes", "bytes#2", "(void*)(uintptr_t)i", "(short)-1-i")
    ]


@pytest.mark.parametrize("how", ["-static", "-static-pie"])
def test_values_in_static_programs(me, programs, how):
    check_all(me, programs.simple("values", placement="fentry", extra=(how,)))


def test_values_with_clang(me, programs):
    """Entries and returns by XRay's sleds."""
    if "clang" not in compilers():
        pytest.skip("no clang here")
    check_all(me, programs.simple("values", compiler="clang", placement="fentry"))


def test_text_output(me, programs):
    """As people read it: a signal of life of each form."""
    _, directory, _ = record(me, programs.simple("values", placement="fentry"))
    text = me.iprobe("dump", directory).stdout
    for line in (
        "integers(a=-128, b=255, c=-32768, d=65535, e=-2147483648, f=4294967295, "
        "g=-9000000000000000000, "
        "h=18000000000000000000, i=-7) {",
        "characters(a='x' (120), b=90, c=true, d=false) {",
        "} characters = 'x' (120) ",
        "enums(a=BLUE, b=MINUS, c=ONE) {",
        "} enums = GREEN ",
        "floats(a=inf, b=-inf, c=nan, d=0, ",
        "b={...}, c={...}, d={...}, e=11, ",
        'c="é\\t\\"\\\\"',
        "b=0x8 (unreadable)",
        'variadic(format="%d", n=2) {',
        'z"..., b=NULL, c=NULL, d=NULL, e=NULL, f=NULL) {',
    ):
        assert line in text, line


def test_string_limit(me, programs):
    program = programs.simple("values", placement="fentry")
    for limit in (1, 8, 100, 1024):
        said, directory, _ = record(me, program, "--string-limit", limit, "-f", "strings")
        calls = calls_of(dump(me, directory))
        for (entry, _), expected in zip(calls, said and [s for s in said if s["f"] == "strings"]):
            if "full" in expected:
                # long ones share the room that a record has
                got = entry["args"]["a"]
                assert got == expected["full"][: len(got)]
                assert len(got) == min(len(expected["full"]), limit)
                assert entry.get("cut", False) == (len(expected["full"]) > limit)
    for bad in ("0", "1025", "x", "-1"):
        done = me.iprobe("run", "--args", "--string-limit", bad, "--", program)
        assert done.returncode == 2, repr(done)


def test_only_what_is_asked_for(me, programs):
    program = programs.simple("values", placement="fentry")
    for option, key in (("--args", "args"), ("--retval", "retval")):
        directory = me.dir() / "trace"
        assert me.iprobe("run", "-o", directory, option, "--", program).returncode == 0
        keys = {k for event in dump(me, directory) for k in event}
        assert key in keys and not {"args", "retval"} - {key} & keys
    directory = me.dir() / "trace"
    assert me.iprobe("run", "-o", directory, "--", program).returncode == 0
    assert not {"args", "retval"} & {k for event in dump(me, directory) for k in event}


def test_race(me, programs, targets):
    """Threads and signal handlers on top of hooks, strings that change and go away while they are
    read: nothing is torn, lost or mixed up, errno is left alone, and the program lives.
    """
    rounds = 20000
    target = targets.start(me, [programs.simple("values", placement="fentry"), "race", rounds])
    directory = me.dir() / "trace"
    proc = me.start_iprobe(
        "attach",
        target.pid,
        "--json",
        "-f",
        "consistent",
        "--args",
        "--retval",
        "--memory",
        "128M",
        "--max-stop",
        "5s",
        "-o",
        directory,
    )
    memory.wait_until_live(target.pid, proc)
    target.say()
    assert target.proc.stdout.readline() == "done\n", target.proc.stderr.read()
    target.finish()
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    events = dump(me, directory)
    assert summary["lost"] or len(events) == summary["events"]
    seen = collections.Counter()
    unreadable = 0
    for event in events:
        if event["event"] != "entry":
            continue
        args = event["args"]
        a = args["a"]
        seen[a] += 1
        assert args["b"] == a * 3 and args["text"] == str(a) and args["c"] == a / 2, event
        changing = args["changing"]
        if isinstance(changing, dict):
            unreadable += 1
        else:
            letters = re.fullmatch(r"[A-Z\0]*|g*", changing)
            assert letters, event
    if not summary["lost"]:
        work = [a for a in seen if a < 10**12]
        assert len(work) == 4 * rounds and all(seen[a] == 1 for a in work)
        assert max(seen) >= 10**12, "no signal handler was recorded"
        by_thread = collections.defaultdict(list)
        for event in events:
            stack = by_thread[event["tid"]]
            if event["event"] == "entry":
                stack.append(event["args"]["a"])
            else:
                a = stack.pop()
                assert event["retval"] == a ^ a * 3, event
    memory_text = subprocess.run(
        ["babeltrace2", str(directory)], capture_output=True, text=True, check=True
    ).stdout
    assert memory_text.count("\n") == len(events)


def test_sessions_one_after_the_other(me, programs, targets):
    """Other options, other programs behind the same stubs; at last without values."""
    target = targets.start(me, [programs.simple("values", placement="fentry"), "race", 1])
    for options in (
        ["--args"],
        ["--retval"],
        ["--args", "--retval", "--string-limit", "8"],
        [],
        ["--args"],
    ):
        done = me.iprobe(
            "attach",
            target.pid,
            "--json",
            "--duration",
            "20ms",
            "--max-stop",
            "5s",
            "-o",
            me.dir() / "trace",
            *options,
        )
        assert done.returncode == 0, repr(done)
        memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def test_without_debug_information(me, programs):
    """Values need it; the events are there without. A file of its own, found by build-id or
    debuglink, will do.
    """
    where = me.dir()
    whole = programs.simple("values", placement="fentry")
    stripped = where / "values"
    debug = me.dir() / "values.debug"
    subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
    subprocess.run(["objcopy", "--strip-debug", whole, stripped], check=True)
    directory = where / "trace"
    done = me.iprobe("run", "-o", directory, "--args", "--", stripped)
    assert done.returncode == 0 and re.search(
        r"iprobe: \d+ functions recorded without values: no debug information", done.stderr
    ), repr(done)
    events = dump(me, directory)
    assert len(events) > 300 and not any("args" in event for event in events)
    # all by number, the first ones by name
    assert re.search(r"or install it\): \w+, \w+, \w+, \.\.\.$", done.stderr, re.M), repr(done)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", stripped], check=True)
    debug.rename(where / "values.debug")
    check_all(me, stripped)


def test_a_trace_reads_without_the_program(me, programs):
    program = me.dir() / "gone"
    program.write_bytes(programs.simple("values", placement="fentry").read_bytes())
    program.chmod(0o755)
    _, directory, _ = record(me, program)
    before = dump(me, directory)
    program.unlink()
    assert dump(me, directory) == before and any("args" in event for event in before)


@pytest.mark.parametrize("placement", ["instrument", "inline"])
def test_other_placements_are_refused(me, programs, placement):
    program = programs.simple("finish", placement=placement)
    done = me.iprobe("run", "--args", "-o", me.dir() / "trace", "--", program, "exit", 0)
    assert "need placement fentry" in one_line(done)


def test_seccomp(me, programs, targets):
    """Under seccomp strings are not read: the call would end the process."""
    target = targets.start(me, [programs.simple("values", placement="fentry"), "sandbox"])
    target.say()
    assert target.proc.stdout.readline() == "called 6\n"
    directory = me.dir() / "trace"
    proc = me.start_iprobe(
        "attach",
        target.pid,
        "--args",
        "--retval",
        "-f",
        "named",
        "--max-stop",
        "5s",
        "-o",
        directory,
    )
    memory.wait_until_live(target.pid, proc)
    for _ in range(10):
        target.say()
        assert target.proc.stdout.readline() == "called 6\n"
    target.finish()
    done = last_words(proc)
    assert (
        done.returncode == 0
        and "strings were not read: the process is under seccomp" in done.stderr
    ), repr(done)
    events = dump(me, directory)
    names = [event["args"]["name"] for event in events if event["event"] == "entry"]
    assert len(names) == 10 and all(set(name) == {"unreadable"} for name in names)
    assert all(event["retval"] == 6 for event in events if event["event"] == "exit")
