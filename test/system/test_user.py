# SPDX-License-Identifier: Apache-2.0
"""
--payload user:FILE: a shared object of the user's is called instead of logging. What it counts
is what the program has done, the program computes what it computes without it, and what cannot
serve is refused.
"""

import json
import pathlib
import signal
import subprocess

import pytest

from iptest import memory
from iptest.actor import last_words, one_line
from test_counting import own_counts

ROOT = pathlib.Path(__file__).resolve().parents[2]


def build(source, out, *flags, compiler="cc"):
    done = subprocess.run(
        [
            compiler,
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            f"-I{ROOT / 'include'}",
            "-shared",
            "-fPIC",
            *flags,
            "-o",
            str(out),
            str(source),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def objects(top):
    """Objects that every user may load."""
    folder = top / "user-payloads"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    (folder / "none.c").write_text("int nothing;\n")
    return {
        "payload": build(
            ROOT / "test" / "programs" / "payload.c", folder / "payload.so", "-Wl,-z,nodelete"
        ),
        "may_go": build(ROOT / "test" / "programs" / "payload.c", folder / "may_go.so"),
        "callers": build(ROOT / "examples" / "callers.c", folder / "callers.so", "-Wl,-z,nodelete"),
        "none": build(folder / "none.c", folder / "none.so"),
    }


def results(directory):
    """{function: {field: value}}"""
    lines = (directory / "iprobe" / "payload.txt").read_text().splitlines()
    assert lines[0].startswith("# payload /")
    names = lines[1].split("\t")
    assert names[:2] == ["function", "module"]
    return {(f := line.split("\t"))[0]: dict(zip(names[2:], map(int, f[2:]))) for line in lines[2:]}


def check(found, calls):
    for name, row in found.items():
        assert row["entries"] == row["exits"] == calls[name], (name, row)
        assert row["wrong"] == 0 and row["longest_name"] == len(name), (name, row)


@pytest.mark.parametrize("placement", ["fentry", "instrument"])
@pytest.mark.parametrize("threads", [1, 8])
def test_run(actor, programs, objects, placement, threads):
    directory = actor.dir() / "trace"
    # what gcc makes a loop of, or inlines, has fewer entries in placement fentry than the program
    # counts
    names = ["leaf", "half", "chain_inner", "chain_middle", "chain_outer", "mix"]
    done = actor.iprobe(
        "run",
        "--json",
        "--payload",
        f"user:{objects['payload']}:{','.join(names)}",
        "-o",
        directory,
        "--",
        programs.simple("count", placement=placement),
        "-t",
        threads,
        "-n",
        20000,
    )
    assert done.returncode == 0, repr(done)
    calls, _ = own_counts(done.stdout)
    found = results(directory)
    assert set(found) == set(names)
    check(found, calls)
    assert all(row["lowest_thread"] >= done.summary()["pid"] for row in found.values())
    if placement == "fentry":
        assert all(row["callers"] == row["entries"] for row in found.values()), found
    assert done.summary()["events"] == 0
    report = json.loads(actor.iprobe("info", "--json", directory).stdout)
    assert report["events"] == 0


def test_beside_other_payloads(me, programs, objects):
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "--payload",
        f"user:{objects['payload']}:half",
        "--payload",
        "hist:chain_*",
        "--payload",
        "log:leaf",
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-t",
        2,
        "-n",
        20000,
    )
    assert done.returncode == 0, repr(done)
    calls, _ = own_counts(done.stdout)
    found = results(directory)
    assert set(found) == {"half"}
    check(found, calls)
    assert done.summary()["events"] == 2 * calls["leaf"]
    assert done.summary()["counted"] == sum(calls[f] for f in calls if f.startswith("chain_"))


def test_registers_and_state_survive(me, programs, objects):
    """Sites of every form with all registers filled, x87 and vector state included, and a
    payload that spoils what it can.
    """
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "-f",
        "!main,!check,!wrong,!random64,!fill_vectors",
        "--payload",
        f"user:{objects['payload']}",
        "-o",
        directory,
        "--",
        programs.simple("registers", placement="fentry"),
        1000,
    )
    assert done.returncode == 0 and "1000 rounds" in done.stdout, repr(done)
    found = results(directory)
    assert sum(row["entries"] + row["exits"] for row in found.values()) >= 8 * 1000, found
    assert all(row["wrong"] == 0 for row in found.values()), found


def test_attach(actor, programs, targets, objects):
    target = targets.start(
        actor,
        [
            "env",
            f"LD_PRELOAD={objects['payload']}",
            programs.simple("count"),
            "-w",
            "-t",
            "2",
            "-n",
            "20000",
        ],
        preload=False,
    )
    directory = actor.dir() / "trace"
    session = actor.start_iprobe(
        "attach", target.pid, "--json", "--payload", f"user:{objects['payload']}", "-o", directory
    )
    memory.wait_until_live(target.pid, session)
    target.say()
    lines = []
    while not lines or not lines[-1].startswith("calls "):
        lines.append(target.proc.stdout.readline())
        assert lines[-1], "the target ended early"
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    calls, _ = own_counts("".join(lines))
    check(results(directory), calls)
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def test_the_example(me, programs, objects):
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--payload",
        f"user:{objects['callers']}",
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-n",
        1500,
    )
    assert done.returncode == 0, repr(done)
    calls, _ = own_counts(done.stdout)
    found = results(directory)
    assert {f: row["calls"] for f, row in found.items()} == {f: n for f, n in calls.items() if n}
    assert found["count_down"]["deepest"] == 5 and found["leaf"]["deepest"] == 1


CXX = """
#include <iprobe/payload.h>
struct cell { uint64_t entries; };
static const iprobe_field fields[] = {{"entries", offsetof(cell, entries), IPROBE_SUM}};
static void on_call(const iprobe_call *call)
{
        static_cast<cell *>(call->cell)->entries += call->event == IPROBE_ENTRY && !call->scratch;
}
IPROBE_PAYLOAD(on_call, sizeof(cell), 0, fields);
"""


def test_in_cxx(me, programs):
    """A constant of C++ is not seen outside by itself. One that asks for no scratch gets none."""
    folder = me.dir()
    (folder / "payload.cc").write_text(CXX)
    out = build(
        folder / "payload.cc",
        folder / "payload.so",
        "-Wpedantic",
        "-Wl,-z,nodelete",
        compiler="c++",
    )
    directory = folder / "trace"
    done = me.iprobe(
        "run",
        "--payload",
        f"user:{out}:half",
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-n",
        1500,
    )
    assert done.returncode == 0, repr(done)
    calls, _ = own_counts(done.stdout)
    assert results(directory) == {"half": {"entries": calls["half"]}}


def test_a_payload_with_probes_of_its_own(me, programs):
    """It is not entered again by what it calls: that would go on for ever."""
    out = me.dir() / "probed.so"
    done = me.run(
        [
            me.builddir / "coldpatch" / "iprobe-cc",
            "-O2",
            "-w",
            f"-I{ROOT / 'include'}",
            "-shared",
            "-fPIC",
            "-Wl,-z,nodelete",
            "-o",
            out,
            ROOT / "test" / "programs" / "payload.c",
        ],
        env={"IPROBE_PLACEMENT": "instrument"},
    )
    assert done.returncode == 0, repr(done)
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--payload",
        f"user:{out}",
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-n",
        1500,
    )
    assert done.returncode == 0, repr(done)
    calls, total = own_counts(done.stdout)
    found = results(directory)
    assert {"on_call", "spoil"} <= set(found) and all(
        found[f]["entries"] == found[f]["exits"] == 0 for f in ("on_call", "spoil")
    )
    check({f: row for f, row in found.items() if f in calls}, calls)
    left_out = int((directory / "iprobe" / "payload.txt").read_text().split(", ")[1].split()[0])
    # entries and exits of three functions, at each entry and exit of the program's
    assert left_out >= 2 * total * 4


@pytest.mark.parametrize(
    "preload,words", [(None, "has not loaded"), ("may_go", "link it with -Wl,-z,nodelete")]
)
def test_attach_refuses(me, programs, targets, objects, preload, words):
    env = ["env", f"LD_PRELOAD={objects[preload]}"] if preload else []
    target = targets.start(me, [*env, programs.simple("count"), "-w", "-n", "10"], preload=False)
    name = preload or "payload"
    done = me.iprobe(
        "attach", target.pid, "--payload", f"user:{objects[name]}", "-o", me.dir() / "trace"
    )
    assert words in one_line(done)
    target.say()
    target.say()
    target.finish()


def test_mistakes(me, programs, objects):
    for payload, words in [
        ("user:", "needs a shared object"),
        ("user:/nowhere.so", "No such file"),
        (f"user:{objects['none']}", "has no payload in it"),
        ("user:/etc/passwd", "/etc/passwd"),
    ]:
        done = me.iprobe("run", "--payload", payload, "--", programs.simple("count"), "-n", 10)
        assert done.returncode == 2 and words in done.stderr, repr(done)
    done = me.iprobe(
        "run",
        "--payload",
        f"user:{objects['payload']}:leaf",
        "--payload",
        f"user:{objects['callers']}:half",
        "--",
        programs.simple("count"),
        "-n",
        10,
    )
    assert done.returncode == 2 and "a session takes one object" in done.stderr, repr(done)
    done = me.iprobe(
        "run",
        "--payload",
        f"user:{objects['payload']}:leaf",
        "--depth",
        3,
        "--",
        programs.simple("count"),
        "-n",
        10,
    )
    assert done.returncode == 2 and "do not go with filters" in done.stderr, repr(done)
