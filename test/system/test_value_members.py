# SPDX-License-Identifier: Apache-2.0
"""--args, --retval and --when with expressions: members behind pointers are those that the program
knows of itself, and no pointer makes a hook fault.
"""

import json
import re
import subprocess

import pytest

from iptest import memory
from iptest.actor import last_words, one_line
from iptest.programs import compilers

HANDLE = (
    "handle(request->uri.data:string(request->uri.len), fd=request->connection->fd, "
    "request->connection->flags.low, request->connection->flags.sign, "
    "request->connection->flags.wide, request->connection->flags.odd, "
    "request->connection->flags.last, request->connection->inner, "
    "request->connection->as.number, request->connection->as.letters, "
    "request->connection->state, request->table[index], "
    "request->texts[2].data:string, request->name, request->next->id, (*request).weight)"
)
OTHERS = [
    "--args=small(pair.x, pair.y, pair.z)",
    "--args=mixed(mixed.d, mixed.n)",
    "--args=large(large.words[6], large.text.data:string(large.text.len))",
    "--retval=small(retval.x, retval.y, retval.z)",
    "--retval=mixed(retval.d, retval.n)",
    "--retval=large(retval.words[0], retval.text.data:string(retval.text.len))",
    "--retval=find(retval->id, $retval->connection->fd)",
]


def record(actor, program, *options, check=True):
    directory = actor.dir() / "trace"
    done = actor.iprobe("run", "-o", directory, "--json", *options, "--", program)
    if check:
        assert done.returncode == 0, repr(done)
    return done, directory


def dump(actor, directory):
    done = actor.iprobe("dump", "--json", directory)
    assert done.returncode == 0, repr(done)
    return [json.loads(line) for line in done.stdout.splitlines()]


def said_by(done):
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"f"')]
    assert len(said) > 5
    return said


def calls_of(events):
    calls, open_calls = [], []
    for event in events:
        if event["event"] == "entry":
            open_calls.append([event, None])
            calls.append(open_calls[-1])
        elif event["event"] == "exit":
            open_calls.pop()[1] = event
    return calls


FLAGS = ["-O2", "-O0", "-O2 -gdwarf-4", "-O3 -flto", "-O2 -gdwarf-3", "-O2 -fdebug-types-section"]


@pytest.mark.parametrize("flags", FLAGS)
def test_members_are_what_the_program_says(me, programs, flags):
    opt, *extra = flags.split()
    check_c(me, programs.simple("value_members", opt=opt, extra=extra, placement="fentry"))


def test_members_with_clang(me, programs):
    if "clang" not in compilers():
        pytest.skip("no clang here")
    check_c(me, programs.simple("value_members", compiler="clang", placement="fentry"))


def check_c(me, program):
    names = "handle,small,mixed,large,find"
    done, directory = record(me, program, "-f", names, f"--args={HANDLE}", *OTHERS)
    said, calls = said_by(done), calls_of(dump(me, directory))
    assert [call[0]["function"] for call in calls] == [s["f"] for s in said]
    bad = {}
    for (entry, leave), expected in zip(calls, said):
        if "bad" in expected:
            bad[expected["bad"]] = entry["args"]
            continue
        assert entry.get("args", {}) == expected.get("args", {})
        assert leave.get("retval", {}) == expected.get("ret", {})
    for why in ("null", "low", "not canonical", "kernel", "unmapped"):
        left = {name: value for name, value in bad[why].items() if value is not None}
        # the address of an array is known, its bytes are not
        assert all(isinstance(value, dict) for value in left.values()), (why, bad[why])
    broken = bad["connection"]
    assert broken["fd"] is None and broken["request->connection->state"] is None
    assert broken["request->uri.data"] == "/index.html" and broken["request->name"] == "first"
    end = bad["end of page"]
    assert end["fd"] is None and end["(*request).weight"] is None
    text = subprocess.run(
        ["babeltrace2", str(directory)], capture_output=True, text=True, check=True
    )
    assert text.stderr == "" and text.stdout.count("signature = ") > len(said)


@pytest.mark.parametrize("flags", FLAGS)
def test_casts(me, programs, flags):
    opt, *extra = flags.split()
    program = programs.simple("value_members", opt=opt, extra=extra, placement="fentry")
    pairs = {
        "request->id": "*(long *)request",
        "request->connection->fd": "(*(struct connection **)&request->connection).fd",
        "request->name": "(char *)&request->name",
        "request->texts[2].data:string": "((const struct text *)&request->texts[1])[1].data:string",
        "request->texts[2].len": "((unsigned long *)&request->texts[2])[0]",
        "request->connection->as.number": "((struct connection*)request->connection)->as.number",
    }
    values = [f"a{i}={plain}, b{i}={cast}" for i, (plain, cast) in enumerate(pairs.items())]
    _, directory = record(me, program, "-f", "handle", f"--args=handle({', '.join(values)})")
    entries = [e["args"] for e in dump(me, directory) if e["event"] == "entry"]
    assert len(entries) == 13
    for args in entries:
        for i, pair in enumerate(pairs.items()):
            if args[f"a{i}"] is not None and not isinstance(args[f"a{i}"], dict):
                assert args[f"a{i}"] == args[f"b{i}"], (pair, args)
    assert sum(args["a0"] is not None for args in entries) > 5
    for wrong, message in (
        ("((struct conection *)request)->fd", "there is no type 'struct conection'"),
        ("((void *)request)->fd", "there is no type 'void'"),
        ("((struct connection *)request)->id", "struct connection has no member 'id'"),
        ("((struct hidden *)request->connection)->id", "struct hidden has no member 'id'"),
    ):
        done, _ = record(me, program, f"--args=handle({wrong})", check=False)
        assert done.returncode == 1 and message in one_line(done), repr(done)


@pytest.mark.parametrize("flags", ["-O2", "-O0", "-O2 -gdwarf-4", "-O2 -std=c++20"])
def test_members_of_classes(me, programs, flags):
    opt, *extra = flags.split()
    program = programs.simple(
        "value_members_cxx", opt=opt, extra=extra, placement="fentry", suffix="cc"
    )
    done, directory = record(
        me,
        program,
        "-f",
        "web::*",
        "--args",
        "web::Request::handle(this->uri, view, this->base, other, state, text, part, peer.base, "
        "peer.uri, next->uri, own->other, (*shared).base, shared, *numbers[1], *place)",
        "--args",
        "web::make(n)",
        "--retval=web::make(retval)",
        "--retval",
    )
    said = said_by(done)
    calls = [
        call
        for call in calls_of(dump(me, directory))
        if call[0]["function"].split("[")[0] in ("web::Request::handle", "web::make")
    ]
    assert len(calls) == len(said)
    for (entry, leave), expected in zip(calls, said):
        assert (
            entry["function"].split("[")[0] == expected["f"] and entry["args"] == expected["args"]
        )
        assert leave["retval"] == expected["ret"]


def test_which_classes_stand_for_pointers(me, programs):
    """Not one that could return either of two pointers; and its own members can be named."""
    program = programs.simple("value_members_cxx", placement="fentry", suffix="cc")
    for wrong, message in (
        ("choice->other", "struct Choice has no member 'other'; the nearest: one, two"),
        ("*choice", "struct Choice is no pointer"),
        ("choice[0]", "struct Choice is no pointer"),
        ("own->othr", "struct Other has no member 'othr'; the nearest: other"),
        ("own.other", "has no member 'other'"),
    ):
        done, _ = record(me, program, f"--args=web::Request::handle({wrong})", check=False)
        assert done.returncode == 1 and message in one_line(done), repr(done)


def test_structures_as_results(me, programs):
    """--retval alone has the members of what is returned, and a std::string as a string."""
    done, directory = record(
        me, programs.simple("value_members", placement="fentry"), "-f", "small,mixed", "--retval"
    )
    said = [s for s in said_by(done) if s["f"] in ("small", "mixed")]
    leaves = [leave for _, leave in calls_of(dump(me, directory))]
    assert len(leaves) == len(said)
    for leave, expected in zip(leaves, said):
        names = {f"retval.{name}": value for name, value in leave["retval"].items()}
        assert names == expected["ret"]
    program = programs.simple("value_members_cxx", placement="fentry", suffix="cc")
    _, directory = record(me, program, "-f", "web::make*", "--retval")
    leaves = [leave["retval"] for _, leave in calls_of(dump(me, directory))]
    assert leaves == ["x" * n for n in range(0, 40, 13)]


def test_strings_as_parameters(me, programs):
    """--args alone has a std::string and a std::string_view as strings, by reference as well, and
    all other parameters as they are.
    """
    program = programs.simple("value_members_cxx", placement="fentry", suffix="cc")
    done, directory = record(me, program, "-f", "web::Request::handle", "--args")
    said = [s["args"] for s in said_by(done) if s["f"] == "web::Request::handle"]
    entries = [entry["args"] for entry, _ in calls_of(dump(me, directory))]
    assert len(entries) == len(said) > 2
    for entry, expected in zip(entries, said):
        assert list(entry) == ["this", "text", "part", "peer"], entry
        assert (entry["text"], entry["part"]) == (expected["text"], expected["part"])
        assert entry["this"].startswith("0x7ff") and entry["peer"].startswith("0x7ff"), entry


def test_text_output(me, programs):
    program = programs.simple("value_members", placement="fentry")
    _, directory = record(
        me,
        program,
        "-f",
        "handle,small",
        "--args=handle(uri=request->uri.data:string(4), id=request->id:hex, "
        "&request->id, request->name:3, request->yes, -request->small, request->big + 1)",
        "--retval=small(retval.x)",
    )
    text = me.iprobe("dump", directory).stdout
    assert re.search(
        r'handle\(uri="/ind", id=0xb, &request->id=0x[0-9a-f]+, request->name="fir"\.\.\., '
        r"request->yes=true, -request->small=5, request->big\+1=251\) \{",
        text,
    ), text
    assert "} small = retval.x=100 " in text


@pytest.mark.parametrize(
    "option,message",
    [
        (
            "--args=handle(request->urii.len)",
            "handle: 'request->urii.len': struct request has no member 'urii'; the nearest: uri",
        ),
        (
            "--args=handle(requst)",
            "there is no parameter 'requst'; the function has request, index",
        ),
        ("--args=handle(index->x)", "handle: 'index->x': '->x': int is no pointer"),
        ("--args=handle(request->uri)", "struct text is no single value: name a member: len, data"),
        ("--args=hundle(index)", "called hundle"),
        ("--retval=handle(index)", "at a return, only retval can be named"),
        ("--when=handle: request->name > 1.5", None),
        ("--args=handle(request->)", None),
        ("--args=handle(request->id", None),
        ("--when=index ==", None),
        ("--args=handle(request->weight + 1)", "whole numbers"),
    ],
)
def test_what_does_not_fit_is_said(me, programs, option, message):
    program = programs.simple("value_members", placement="fentry")
    done, _ = record(me, program, "-f", "handle,small", option, check=False)
    if message:
        assert done.returncode == 1 and message in one_line(done), repr(done)
    else:
        assert done.returncode == 2 and option[2:6] in done.stderr, repr(done)


@pytest.mark.parametrize(
    "conditions,chosen",
    [
        (["handle: index > 2"], lambda i: i > 2),
        (["index & 1 == 0"], lambda i: i % 2 == 0),
        (["handle: index >= 2 && (index != 4 || request->id < 0)"], lambda i: i in (2, 3, 5)),
        (["handle: request->connection->state == BUSY"], lambda i: i & 1),
        (["handle: request->connection->flags.sign < -3"], lambda i: i > 3),
        (["handle: index > 1", "handle: index < 4"], lambda i: i in (2, 3)),
        (['handle: request->name == "first" && index == 1'], lambda i: i == 1),
        (['handle: request->uri.data:string(request->uri.len) =^ "/index" && index == 0'], None),
        (['handle: request->name != "first"'], lambda i: False),
        (["handle: !(request->table[index] < 0)"], lambda i: i % 2 == 0),
        (["handle: request->weight"], "floating"),
    ],
)
def test_conditions(me, programs, conditions, chosen):
    """A call whose condition is not true leaves no event, and its exit none either."""
    program = programs.simple("value_members", placement="fentry")
    options = [f"--when={condition}" for condition in conditions]
    done, directory = record(
        me, program, "-f", "handle,small", "--args=handle(index)", *options, check=False
    )
    if chosen == "floating":
        assert done.returncode == 1 and "whole numbers" in one_line(done)
        return
    chosen = chosen or (lambda i: i == 0)
    assert done.returncode == 0, repr(done)
    summary = json.loads(done.stdout.splitlines()[-1])
    calls = calls_of(dump(me, directory))
    got = [
        entry["args"]["index"]
        for entry, leave in calls
        if entry["function"] == "handle" and leave["function"] == "handle"
    ]
    listed = [i for i in range(6) if chosen(i)]
    # the calls with bad pointers come last; a condition on index alone can be true there
    assert got[: len(listed)] == listed, got
    if conditions[0].startswith("handle: request"):
        assert set(got[len(listed) :]) <= {0, 5}, got
    # of small, only the first condition above names nothing that it has
    assert len([c for c in calls if c[0]["function"] == "small"]) == 3
    assert summary["events"] == 2 * len(calls)
    assert summary["filtered"] == 2 * (13 + 3) - summary["events"]


def test_race(me, programs, targets):
    """Other threads unmap what the pointers lead to, while hooks follow them: each value is right or
    missing, and the program lives.
    """
    rounds = 20000
    target = targets.start(
        me, [programs.simple("value_members", placement="fentry"), "race", rounds]
    )
    directory = me.dir() / "trace"
    proc = me.start_iprobe(
        "attach",
        target.pid,
        "--json",
        "-f",
        "chased",
        "--args=chased(number, request->connection->fd, request->id)",
        "--when=number >= 0",
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
    events = [event for event in dump(me, directory) if event["event"] == "entry"]
    seen = set()
    for event in events:
        args = event["args"]
        seen.add((args["request->connection->fd"], args["request->id"]))
    assert seen <= {(fd, i) for fd in (None, 0, 4711) for i in (None, 0, 815)}, seen
    assert (4711, 815) in seen and (None, None) in seen
    if not done.summary()["lost"]:
        assert len(events) == 2 * rounds


def test_separate_debug_information(me, programs):
    whole = programs.simple("value_members", placement="fentry")
    where = me.dir()
    stripped, debug = where / "value_members", where / "value_members.debug"
    subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
    subprocess.run(["objcopy", "--strip-debug", whole, stripped], check=True)
    done, _ = record(me, stripped, "-f", "handle", "--args=handle(request->id)", check=False)
    assert "debug information" in one_line(done)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", stripped], check=True)
    check_c(me, stripped)
