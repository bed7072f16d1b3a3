# SPDX-License-Identifier: Apache-2.0
"""
Functions that gcc splits and copies: a part (.part.0) is the same call where its function goes
on in it, and a row of its own where others call it; copies (.isra, .constprop) are the function.
test/programs/split.c knows what it calls.
"""

import json

import pytest

N = 200
# in the program's words: the function through a pointer; the part, by direct() and by a recursion
WORK, PART = 3 * N, 3 * N
OTHERS = {"direct": N, "kept": N, "taken": N, "rare": N, "complain": N // 5, "main": 1}
LINKS = {"jump": [], "call": ["-fno-optimize-sibling-calls"]}


@pytest.fixture(params=LINKS)
def split(request, programs):
    """How the function goes on in its part: by a jump, or by a call."""
    return programs.simple("split", placement="fentry", extra=LINKS[request.param])


def record(actor, program, *options):
    directory = actor.dir() / "trace"
    done = actor.iprobe("run", "-q", *options, "-o", directory, "--", program, N)
    assert done.returncode == 0, repr(done)
    return directory


def rows(actor, *command):
    done = actor.iprobe(*command)
    assert done.returncode == 0, repr(done)
    return {f["function"]: f for f in json.loads(done.stdout)["functions"]}


def test_list_tells(me, split):
    done = me.iprobe("list", "--json", split)
    probes = json.loads(done.stdout)["modules"][0]["probes"]
    kinds = {(p["function"], p["clone"]) for p in probes}
    assert {
        ("work", None),
        ("work [part]", "part"),
        ("kept", "constprop"),
        ("rare", None),
    } <= kinds, kinds
    assert ("taken", "isra") in kinds or ("taken", "constprop") in kinds, kinds
    assert all(p["clone"] is None or p["linker_name"] != p["function"] for p in probes)
    text = me.iprobe("list", "-f", "work", split).stdout
    assert any(
        "work [part]" in line and line.endswith("(split off: work.part.0)")
        for line in text.splitlines()
    )
    assert (
        len([line for line in text.splitlines() if " entry " in line]) == 2
    ), "the name means the part, too"
    text = me.iprobe("list", "-f", "kept", split).stdout
    assert any(
        " kept " in line and line.endswith("(copy kept.constprop.0)") for line in text.splitlines()
    )


def test_a_call_is_one_call(me, split):
    trace = record(me, split)
    functions = rows(me, "report", "--json", trace)
    assert {name: f["calls"] for name, f in functions.items()} == {
        "work": WORK,
        "work [part]": PART,
        **OTHERS,
    }
    # the function's time is until it returns: a third of its calls return at once, all others take
    # their part's time at least
    work, part = functions["work"], functions["work [part]"]
    assert work["p50_ns"] >= part["min_ns"] and work["min_ns"] < part["min_ns"]
    assert work["total_ns"] > 0.5 * (work["calls"] / 3) * part["min_ns"]
    # once in the events, too, and what the function calls from its part is its callee
    depths, opened, ends = [], 0, 0
    for line in me.iprobe("dump", "--json", trace).stdout.splitlines():
        event = json.loads(line)
        if event["event"] == "entry":
            if event["function"] == "work [part]":
                depths.append(event["depth"])
            opened += event["function"] == "work"
        ends += event["event"] == "exit" and event["function"] == "work"
    assert (opened, ends) == (WORK, WORK)
    # from main -> direct -> part, or main -> work -> part
    assert depths == PART * [2]
    tree = rows(me, "hist", "--json", trace)
    assert {name: f["calls"] for name, f in tree.items()} == {
        name: f["calls"] for name, f in functions.items()
    }
    folded = me.dir() / "folded"
    assert me.iprobe("export", "--format", "folded", "-o", folded, trace).returncode == 0
    assert {
        line.rpartition(" ")[0] for line in folded.read_text().splitlines() if "work" in line
    } == {"main;work", "main;direct;work [part]", "main;work;work [part]"}


@pytest.mark.parametrize(
    "selection,wanted",
    [
        ("work", {"work": WORK, "work [part]": PART}),
        ("work.part*", {"work [part]": WORK * 2 // 3 + PART}),
    ],
)
def test_selected(me, split, selection, wanted):
    """A part that is recorded without its function: nobody knows whose it is, and all its calls
    are its own.
    """
    trace = record(me, split, "-f", selection)
    assert {name: f["calls"] for name, f in rows(me, "report", "--json", trace).items()} == wanted


@pytest.mark.parametrize("payload", ["count", "hist"])
def test_counted(me, split, payload):
    """Nobody asks who calls: what the part was called is told as such, and mixed with nothing."""
    trace = record(me, split, "--payload", payload)
    functions = rows(me, "report", "--json", trace)
    assert {name: f["calls"] for name, f in functions.items()} == {
        "work": WORK,
        "work [part]": WORK * 2 // 3 + PART,
        **OTHERS,
    }


def test_fperf(me, split):
    done = me.run(
        [
            me.builddir / "cli" / "fperf",
            "--json",
            "--budget",
            "none",
            "-e",
            "tsc::CYCLES",
            "--",
            split,
            20000,
        ]
    )
    assert done.returncode == 0, repr(done)
    names = {
        f["function"] for f in json.loads(done.stdout.rstrip().rpartition("\n")[2])["functions"]
    }
    assert {"work", "work [part]"} <= names, names


def test_no_split_elsewhere(me, programs):
    """The other placements have no probes where a part begins: each call is one anyhow."""
    for placement in ("inline", "instrument"):
        trace = record(me, programs.simple("split", placement=placement))
        calls = {name: f["calls"] for name, f in rows(me, "report", "--json", trace).items()}
        assert calls["work"] == WORK + PART and "work [part]" not in calls, (placement, calls)
