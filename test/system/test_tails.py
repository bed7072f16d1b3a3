# SPDX-License-Identifier: Apache-2.0
"""Calls that end by jumping to another function: how long they last, by the program's own clock,
and what is said where that is not known.
"""

import collections
import csv
import gzip
import io
import json
import re
import signal
import time

import pytest
from iptest import memory
from iptest import programs as building
from iptest.actor import last_words

# Those that lead to functions with probes, and those that do not, or nobody knows where.
FOLLOWED = ["direct", "chain", "stacked", "variadic", "ping", "deep", "across", "catches", "left"]
UNWOUND = ["catches", "left"]
MEASURED = [name for name in FOLLOWED if name not in UNWOUND]
MARKED = {"indirect": 1, "nobody": 1, "half": 0.5}
ROUNDS = 20


@pytest.fixture(params=building.compilers())
def program(programs, request):
    return programs.tails(request.param)


def own_clock(stdout):
    """{name: what each call took by the program's own clock}"""
    return {
        words[0]: [int(w) for w in words[3:]]
        for words in map(str.split, stdout.splitlines())
        if len(words) > 2 and not words[0].startswith("{")  # the summary
    }


def record(me, program, *options):
    directory = me.dir() / "trace"
    done = me.iprobe("run", "--json", "-o", directory, *options, "--", program, str(ROUNDS), "300")
    assert done.returncode == 0, repr(done)
    assert done.summary()["lost"] == 0
    return own_clock(done.stdout), directory, done


def durations(me, directory):
    """{name: what each call took}"""
    found = {}
    for line in me.iprobe("dump", "--json", directory).stdout.splitlines():
        step = json.loads(line)
        if step["event"] == "exit":
            found.setdefault(step["function"], []).append(step["duration_ns"])
    return found


def assert_true_times(own, found, names):
    """Within 1 % or 100 ns; but between a probe and the program's look at its clock a thread may
    lose the processor, on a busy machine often enough. What it loses there makes our time the
    shorter one, never the longer.
    """
    for name in names:
        assert len(found[name]) == len(own[name]) == ROUNDS, name
        calls = list(zip(found[name], own[name]))
        # what an exception or longjmp ends ends with the next event
        assert name in UNWOUND or all(a <= b + max(100, 0.01 * b) for a, b in calls), (name, calls)
        assert sum(abs(a - b) <= max(100, 0.01 * b) for a, b in calls) >= 0.6 * ROUNDS, (
            name,
            calls,
        )


def report(me, directory):
    return {
        f["function"]: f
        for f in json.loads(me.iprobe("report", "--json", directory).stdout)["functions"]
    }


def test_times_of_all(me, program):
    own, directory, _ = record(me, program)
    found = durations(me, directory)
    assert_true_times(own, found, FOLLOWED)
    functions = report(me, directory)
    for name in FOLLOWED:
        assert functions[name]["until_tail_call"] == 0, name
        assert functions[name]["self_ns"] < 0.5 * functions[name]["total_ns"], name
    for name, share in MARKED.items():
        assert functions[name]["until_tail_call_share"] == share, name
    # each call of a loop of jumps counts; the time is that of the one call that began it
    assert functions["ping"]["calls"] > 1000 < functions["pong"]["calls"]
    assert functions["ping"]["total_ns"] == pytest.approx(sum(found["ping"]), rel=0.01)
    assert functions["ping"]["total_ns"] > 0.9 * functions["pong"]["total_ns"]
    marks = [
        line
        for line in me.iprobe("report", directory).stdout.splitlines()
        if "until its tail call" in line
    ]
    assert {line.split("  (")[0].split()[-1] for line in marks} == set(MARKED), marks
    assert "half  (until its tail call, in 50 % of the calls)" in "\n".join(marks)


JUMPS = """
__attribute__((noinline)) int target(int n) { __asm__ volatile(""); return n + 1; }
__attribute__((noinline)) int jumps(int n) { __asm__ volatile(""); return target(n); }
int main(void)
{
	int n = 0;

	while (n < 100)
		n = jumps(n);
	return 0;
}
"""


def test_marks_beside_callers_are_short(me, program):
    """One line below the table says what they mean."""
    _, directory, _ = record(me, program)
    said = "tail N %: of so many of these calls the time ends at their tail call"
    text = me.iprobe("report", "--by", "caller", directory).stdout
    assert "until its tail call" not in text and text.count(said) == 1, text
    marked = {line.split(" <- ")[0].split()[-1] for line in text.splitlines() if "(tail " in line}
    assert marked == set(MARKED), text
    assert re.search(r" half <- .*\(tail 50 %\)$", text, re.M), text
    text = me.iprobe("report", "--by", "caller", "-f", "main", directory).stdout
    assert "main" in text and "tail N" not in text, text


def test_who_is_only_jumped_to(me, targets):
    """It has no calls in the trace, and no table is empty without a reason."""
    source = me.dir() / "jumps.c"
    source.write_text(JUMPS)
    program = source.with_suffix("")
    env = {"IPROBE_PLACEMENT": "fentry"}
    compiler = me.builddir / "coldpatch" / "iprobe-cc"
    assert me.run([compiler, "-O2", "-o", program, source], env=env).returncode == 0
    directory = me.dir() / "trace"
    assert me.iprobe("run", "-q", "-f", "jumps", "-o", directory, program).returncode == 0
    for words in (["report"], ["graph"], ["report", "--slowest", 3], ["dump"]):
        done = me.iprobe(*words, "-f", "target", directory)
        assert done.returncode == 0, repr(done)
        (line,) = done.stderr.splitlines()
        assert "calls of target were not recorded" in line and "a tail call" in line, line
    done = me.iprobe("report", "-f", "jumps", directory)
    assert "jumps" in done.stdout and not done.stderr, repr(done)


# Alone those that are unwound have no next event in time.
@pytest.mark.parametrize("name", [name for name in FOLLOWED if name not in UNWOUND])
def test_times_of_one(me, program, name):
    """Whom it jumps to goes live too, and is not shown."""
    own, directory, done = record(me, program, "-f", name)
    found = durations(me, directory)
    assert set(found) == {name} and done.summary()["functions"] == 1
    assert_true_times(own, found, [name])
    functions = report(me, directory)
    assert set(functions) == {name}
    assert functions[name]["until_tail_call"] == 0
    if name == "ping":
        assert functions[name]["total_ns"] == pytest.approx(sum(found[name]), rel=0.01)
        assert functions[name]["calls"] > 1000


@pytest.mark.parametrize(
    "options", [(), ("--callsite",), ("--depth", "9"), ("--payload", "count")]
)
def test_selected_later(me, programs, options):
    """Whom it jumps to is live, and not shown. It is shown once it is selected: without a stop."""
    # serve() ends by jumping to handle()
    target = me.popen([programs.simple("stretches", placement="fentry"), "4", "live"])
    directory = me.dir() / "trace"
    try:
        session = me.popen(
            [
                *(me.iprobe_path, "attach", "--json", "-f", "serve", *options, "-o", directory),
                str(target.pid),
            ]
        )
        memory.wait_for(
            "nothing is live",
            lambda: json.loads(me.iprobe("status", "--json", target.pid).stdout)["patched"],
        )
        memory.wait_for("no session file", (directory / "iprobe" / "session").exists)
        change = ("attach", "--json", "-f", "handle", target.pid)
        memory.wait_for("no change", lambda: me.iprobe(*change, "--dry-run").returncode == 0)
        done = me.iprobe(*change)
        assert done.returncode == 0, repr(done)
        summary = done.summary()
        assert summary["functions_added"] == 1 and summary["sites_added"], summary
        # where calls are counted, the sites of whom it jumps to are idle until then
        assert bool(summary["stop_us"]) == ("count" in options), summary
        # there is nothing to add any more
        assert me.iprobe(*change).summary()["functions_added"] == 0
        time.sleep(0.3)
        session.send_signal(signal.SIGINT)
        done = last_words(session)
    finally:
        target.kill()
        target.wait()
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert (summary["functions"], summary["silent_functions"]) == (2, 0), summary
    assert summary["silent_sites"] == 0, summary
    functions = report(me, directory)
    assert set(functions) == {"serve", "handle"}, functions
    assert functions["handle"]["calls"] > 100


def test_events_that_are_not_shown_are_told(me, program, targets):
    """Those of functions that are live only since a selected one jumps to them."""
    _, directory, done = record(me, program, "-f", "chain")
    summary = done.summary()
    assert summary["silent_functions"] > 0 < summary["silent_sites"] < summary["sites"]
    shown = me.iprobe("dump", "--json", directory).stdout.count('"event":"e')
    silent = summary["events"] - shown
    assert silent > 0
    for command in ("report", "graph", "info"):
        document = json.loads(me.iprobe(command, "--json", directory).stdout)
        assert document["silent_events"] == silent, command
        assert document["silent_functions"] == summary["silent_functions"], command
        assert document["silent_names"] == summary["silent_names"], command
    live = json.loads(me.iprobe("list", "--json", program).stdout)["modules"][0]["probes"]
    names = summary["silent_names"]
    assert 0 < len(names) <= 3 and set(names) <= {p["function"] for p in live} - {"chain"}, names
    names = ", ".join(names) + (", ..." if summary["silent_functions"] > 3 else "")
    for command in ("report", "graph"):
        text = me.iprobe(command, directory).stdout
        assert f"\n{silent:,} of these events, of " in text and "IPROBE_SIBLING_CALLS=no" in text
        assert f"not shown:\n{names}\n(TAIL CALLS" in text, text
    info = me.iprobe("info", directory).stdout
    assert re.search(rf"^events .*, {silent:,} not shown$", info, re.M), info
    assert re.search(
        rf"^functions +\d+, {summary['silent_functions']} of them not shown \({names}\): ",
        info,
        re.M,
    )
    clause = "{silent_sites} of them in {silent_functions} more that these jump to".format(
        **summary
    )
    clause += f" ({names})"
    args = ("-f", "chain", "-o", me.dir() / "again")
    told = me.iprobe("run", *args, "--", program, str(ROUNDS), "300").stderr
    assert f"({summary['sites']} sites, {clause}, 1 thread)" in told
    target = targets.start(me, [program, 1, 300, 600])
    preview = me.iprobe("attach", "--dry-run", "-f", "chain", target.pid).stdout
    assert f"{summary['sites']} sites of 1 function on" in preview, preview
    assert "{silent_sites} of the sites are in {silent_functions} more".format(**summary) in preview
    assert f": {names}\n" in preview, preview
    top = ("top", "-n", "1", "-d", "300ms", "-f", "chain", target.pid)
    document = json.loads(me.iprobe(*top, "--json").stdout)
    assert document["silent"] == summary["silent_functions"] and document["logged"] == 0
    more = f"; {document['silent']} more that these jump to are not shown ({names})"
    assert more in me.iprobe(*top).stdout
    # where all are selected there is nothing to tell
    _, directory, done = record(me, program)
    assert done.summary()["silent_functions"] == 0
    assert "of these events" not in me.iprobe("report", directory).stdout


@pytest.mark.parametrize("name", MARKED)
def test_what_is_not_known_is_marked(me, program, name):
    _, directory, _ = record(me, program, "-f", name)
    share = MARKED[name]
    text = f"until its tail call, in {100 * share:.0f} % of the calls"
    assert report(me, directory)[name]["until_tail_call_share"] == share
    assert f"{name}  ({text})" in me.iprobe("report", directory).stdout
    assert text in me.iprobe("hist", directory).stdout
    (shown,) = json.loads(me.iprobe("hist", "--json", directory).stdout)["functions"]
    assert shown["until_tail_call_share"] == share and shown["until_tail_call"] == share * ROUNDS
    assert f"{name}  (until its tail call)" in me.iprobe("graph", directory).stdout
    nodes = json.loads(me.iprobe("graph", "--json", directory).stdout)["nodes"]
    assert [n.get("until_tail_call") for n in nodes] == [True]
    lines = [
        json.loads(line) for line in me.iprobe("dump", "--json", directory).stdout.splitlines()
    ]
    assert sum(line.get("until_tail_call", False) for line in lines) == share * ROUNDS
    page = me.iprobe("export", "--format", "html", directory).stdout
    assert f'"untilTail":{int(share * ROUNDS)}' in page


def assert_marked(text, marked, view):
    """These have the mark, long or short, and no others."""
    found = re.findall(
        r"(\w+)(?: <- \w+(?: \(around\))?|: [^(\n]+?|  [0-9.]+ [mun]?s)?  ?[\[(](?:before: |after: "
        r")?(?:until its tail call|tail \d)",
        text,
    )
    assert set(found) == set(marked), (view, text[:3000])
    return found


def test_every_view_has_the_mark(me, program):
    _, directory, _ = record(me, program)
    calls = {name: int(share * ROUNDS) for name, share in MARKED.items()}
    export = ["export", "--format"]
    for view in (
        ["report"],
        ["report", "--by", "caller"],
        ["report", "-f", "*", "--diff", directory],
        ["graph", "--min-percent", "0"],
        ["graph", "--bottom-up", "--min-percent", "0"],
        ["graph", "--of", "*"],
        ["graph", "--dot", "--min-percent", "0"],
        ["hist", "-f", "*"],
        ["hist", "-f", "*", "--over-time"],
        ["dump"],
        [*export, "folded"],
        [*export, "callgrind"],
    ):
        done = me.iprobe(*view, directory)
        assert done.returncode == 0, repr(done)
        assert_marked(done.stdout, MARKED, view)
    rows = csv.DictReader(io.StringIO(me.iprobe("report", "--csv", directory).stdout))
    assert {
        r["function"]: int(r["until_tail_call"]) for r in rows if r["until_tail_call"] != "0"
    } == calls
    rows = csv.DictReader(
        io.StringIO(me.iprobe("report", "--csv", "--diff", directory, directory).stdout)
    )
    assert {
        r["function"]: int(r["after_until_tail_call"])
        for r in rows
        if r["before_until_tail_call"] != "0"
    } == calls
    rows = json.loads(me.iprobe("report", "--json", "--diff", directory, directory).stdout)[
        "functions"
    ]
    assert {
        r["function"]: r["after"]["until_tail_call"] for r in rows if r["before"]["until_tail_call"]
    } == calls
    for view, key in (("report", "functions"), ("hist", "functions"), ("graph", "nodes")):
        rows = json.loads(me.iprobe(view, "--json", directory).stdout)[key]
        assert {r["function"] for r in rows if r.get("until_tail_call")} == set(MARKED), view
    page = me.iprobe(*export, "html", directory).stdout
    assert sorted(map(int, re.findall(r'"untilTail":([1-9]\d*)', page))) == sorted(calls.values())
    events = json.loads(me.iprobe(*export, "chrome", directory).stdout)["traceEvents"]
    ends = [
        e["name"] for e in events if e["ph"] == "E" and e.get("args", {}).get("until_tail_call")
    ]
    assert collections.Counter(ends) == calls
    files = {name: me.dir() / name for name in ("perfetto", "pprof")}
    for name, path in files.items():
        done = me.iprobe(*export, name, "-o", path, directory)
        assert done.returncode == 0, repr(done)
    assert files["perfetto"].read_bytes().count(b"until_tail_call") == sum(calls.values())
    names = gzip.decompress(files["pprof"].read_bytes()).decode(errors="replace")
    assert_marked(names, MARKED, "pprof")


def test_top_has_the_mark(me, targets, program):
    """Those whose jumps are followed have none."""
    target = targets.start(me, [program, 1, 300, 600])
    shown = ["-f", "direct,indirect,nobody", "-b", "-n", 3, "-d", "500ms", target.pid]
    done = me.iprobe("top", *shown)
    assert_marked(done.stdout, {"indirect", "nobody"}, "top")
    # the rows are marked; functions that are on no screen are not told of
    assert "tail call" not in done.stderr
    rows = [
        row
        for line in me.iprobe("top", "--json", *shown).stdout.splitlines()
        for row in json.loads(line)["functions"]
    ]
    assert {row["function"] for row in rows} == {"direct", "indirect", "nobody"}
    assert {row["function"] for row in rows if "until_tail_call" in row} == {"indirect", "nobody"}
    assert all(
        row["until_tail_call"] == MARKED[row["function"]] * row["calls"]
        for row in rows
        if row["function"] != "direct" and "avg_ns" in row
    )


@pytest.mark.parametrize(
    "options",
    [["--depth", "2"], ["--min-duration", "100us"], ["--sample", "1"]],
    ids=lambda o: o[0],
)
def test_filtered(me, program, options):
    """What a call is left out or kept by is how long it really lasts, and a jump is no deeper."""
    names = [name for name in FOLLOWED if name != "ping"]
    own, directory, _ = record(me, program, "-f", ",".join(["main", *names]), *options)
    assert_true_times(own, durations(me, directory), names)


def test_short_calls_are_left_out_whole(me, program):
    own, directory, done = record(me, program, "-f", "direct,ping,across", "--min-duration", "30s")
    assert report(me, directory) == {} and done.summary()["events"] == 0


def assert_measured(own, f, name):
    """As assert_true_times(), of what histograms keep: the shortest call and the sum."""
    assert f["until_tail_call_share"] == 0, f
    # calls of a loop that are in it already have no time of their own
    assert f["calls"] - f["unmeasured"] == ROUNDS and (f["calls"] > 1000) == (name == "ping"), f
    assert (
        (0.99 * 300_000 if name != "ping" else 10_000)
        < f["min_ns"]
        < min(own) + max(100, 0.01 * min(own))
    ), (f, own)
    # where its CPU was taken away between the program's clock and the hook only the program saw
    # that, once or twice
    least = sum(sorted(own)[:-2])
    assert 0.7 * least < f["total_ns"] < 1.01 * sum(own), (f, own)


def test_measured_times_of_all(me, program):
    """Histograms that the hooks make."""
    own, directory, done = record(me, program, "--payload", "hist")
    functions = report(me, directory)
    for name in MEASURED:
        assert_measured(own[name], functions[name], name)
        assert functions[name]["self_ns"] < 0.5 * functions[name]["total_ns"], name
    # what was left is not there; what is not known is said at once, and marked
    for name in UNWOUND:
        assert functions[name]["calls"] == functions[name]["unmeasured"] == ROUNDS, functions[name]
    assert (
        "may end by a tail call to where no probes are: what is measured ends there "
        "(IPROBE_SIBLING_CALLS=no builds without)" in done.stderr
    )
    mark = "until its tail call, in "
    marked = {
        line.split("  (")[0].split()[-1]
        for line in me.iprobe("report", directory).stdout.splitlines()
        if mark in line
    }
    assert marked == set(MARKED)
    shown = {
        f["function"]: f
        for f in json.loads(me.iprobe("hist", "--json", directory).stdout)["functions"]
    }
    for name, share in MARKED.items():
        for f in (functions[name], shown[name]):
            assert f["until_tail_call_share"] == share and f["until_tail_call"] == share * ROUNDS, f
    assert (
        "until its tail call, in 100 % of the calls"
        in me.iprobe("hist", "-f", "indirect", directory).stdout
    )
    assert shown["direct"]["until_tail_call"] == functions["direct"]["until_tail_call_share"] == 0
    rows = csv.DictReader(io.StringIO(me.iprobe("report", "--csv", directory).stdout))
    assert {
        row["function"]: float(row["until_tail_call"]) for row in rows if row["until_tail_call"]
    } == {name: share * ROUNDS for name, share in MARKED.items()}


def test_a_trace_that_does_not_tell_how_many(me, program):
    """Of an older version."""
    _, directory, _ = record(me, program, "--payload", "hist", "-f", "indirect")
    counts = directory / "iprobe" / "counts"
    counts.write_text(
        "".join(
            line
            for line in counts.read_text().splitlines(keepends=True)
            if not line.startswith("tailed\t")
        )
    )
    assert report(me, directory)["indirect"]["until_tail_call_share"] is None
    for view in ("report", "hist"):
        assert (
            "until its tail call, in some of the calls" in me.iprobe(view, directory).stdout
        ), view


@pytest.mark.parametrize("name", MEASURED)
def test_measured_times_of_one(me, program, name):
    """Whom it jumps to goes live too, without a histogram."""
    own, directory, done = record(me, program, "--payload", "hist", "-f", name)
    assert "tail call" not in done.stderr and done.summary()["functions"] == 1
    functions = report(me, directory)
    assert set(functions) == {name}
    assert_measured(own[name], functions[name], name)
    # the time of those that nobody has selected is its own
    assert functions[name]["self_ns"] == pytest.approx(functions[name]["total_ns"], rel=0.001)


@pytest.mark.parametrize("more", [[], ["--linger", "100ms"]], ids=["measured", "logged too"])
@pytest.mark.parametrize("selected", ["direct", "direct,work"])
def test_condition_on_a_function_that_jumps(me, program, selected, more):
    """--until waits for the time of the whole call; what is recorded besides is what it would be
    without.
    """
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "--until",
        "p50>250us/1s:direct",
        "-f",
        selected,
        *more,
        "-o",
        directory,
        "--",
        program,
        str(ROUNDS),
        "300",
        "3",
    )
    assert done.summary().get("until") == 1, repr(done)
    assert "tail call" not in done.stderr, done.stderr
    functions = report(me, directory)
    assert functions["direct"]["avg_ns"] > 250_000 and functions["direct"]["until_tail_call"] == 0
    assert set(functions) == set(selected.split(","))
    if "work" in functions:
        # of many calls by others, too
        assert functions["work"]["calls"] > 2 * functions["direct"]["calls"], functions
        assert functions["direct"]["self_ns"] < 0.2 * functions["direct"]["total_ns"], functions[
            "direct"
        ]


NO_SIBLINGS = [("IPROBE_SIBLING_CALLS", "no")]


@pytest.mark.parametrize("compiler", building.compilers())
def test_built_without(me, programs, compiler):
    """IPROBE_SIBLING_CALLS=no: the function that was called executes the return, wherever it
    would have jumped to.
    """
    own, directory, _ = record(me, programs.tails(compiler, variables=NO_SIBLINGS))
    # ping and pong are a recursion then
    assert_true_times(
        own, durations(me, directory), [name for name in [*MEASURED, *MARKED] if name != "ping"]
    )
    functions = report(me, directory)
    assert {f["tail_exits"] for f in functions.values()} == {0}
    assert "tail call" not in me.iprobe("report", directory).stdout
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--payload",
        "hist",
        "-o",
        directory,
        "--",
        programs.tails(compiler, variables=NO_SIBLINGS),
        1,
        300,
    )
    assert done.returncode == 0 and "tail call" not in done.stderr, repr(done)


def test_the_last_word(me, programs):
    """What the command line says counts more."""
    _, directory, _ = record(
        me,
        programs.tails(extra=["-foptimize-sibling-calls"], variables=NO_SIBLINGS),
        "-f",
        "indirect",
    )
    assert report(me, directory)["indirect"]["until_tail_call_share"] == 1


@pytest.mark.parametrize("compiler", building.compilers())
def test_a_hook_called_last_is_no_tail_call(me, programs, compiler):
    """Placement instrument: what the compiler calls by a jump at the end is the hook of the
    exit, which is a return for the function.
    """
    directory = me.dir() / "trace"
    program = programs.simple("hot", compiler)
    (module,) = json.loads(me.iprobe("list", "--json", program).stdout)["modules"]
    returns = {p["function"] for p in module["probes"] if p["kind"] == "tail-exit"}
    assert returns >= {"tiny", "middle", "large"}
    done = me.iprobe("run", "-o", directory, "-f", "middle,large", "--", program, "1")
    assert done.returncode == 0, repr(done)
    functions = report(me, directory)
    assert (
        {f["until_tail_call"] for f in functions.values()}
        == {f["tail_exits"] for f in functions.values()}
        == {0}
    )
    for view in (
        ["report"],
        ["graph", "--min-percent", "0"],
        ["hist"],
        ["dump"],
        ["export", "--format", "folded"],
        ["export", "--format", "chrome"],
    ):
        assert "tail call" not in me.iprobe(*view, directory).stdout.replace(
            "until_tail_call", "tail call"
        ), view


def fperf(me, program, *options, rounds=ROUNDS, seconds=None):
    """What fperf says of a run, as JSON, and what the program says itself."""
    out = me.dir() / "out"
    done = me.run(
        [
            me.builddir / "cli" / "fperf",
            "-q",
            "--json",
            "-o",
            out,
            *options,
            "--",
            program,
            rounds,
            300,
            *([seconds] if seconds else []),
        ]
    )
    assert done.returncode == 0, repr(done)
    return json.loads(out.read_text(encoding="utf-8")), own_clock(done.stdout)


# What is thrown or left by longjmp never sees an exit.
FPERF_ALL = ",".join([*MEASURED, *MARKED, "work", "wide", "hop", "inner", "many", "pong"])


@pytest.mark.parametrize("selected", ["all", *MEASURED])
def test_fperf_follows(me, program, selected):
    """A sample lasts until the call returns, whoever executes the return; what it goes on in is
    not shown unless somebody asks for it.
    """
    names = MEASURED if selected == "all" else [selected]
    said, own = fperf(
        me,
        program,
        "--budget",
        "none",
        "-e",
        "tsc",
        "-f",
        FPERF_ALL if selected == "all" else selected,
    )
    rows = {row["function"]: row for row in said["functions"]}
    shown = FPERF_ALL.split(",") if selected == "all" else [selected]
    assert {name.split("(")[0] for name in rows} == set(shown) and said["selected"] == len(rows)
    for name in names:
        row, times = rows[name], own[name]
        assert row["samples"] == ROUNDS and row["cut"] == row["until_tail_call"] == 0, row
        mean = row["counters"]["tsc::CYCLES"]["per_call"] * said["ns_per_tick"]
        # where another one takes the CPU away between the program's clock and a probe only the
        # program sees it
        assert (
            0.95 * sorted(times)[ROUNDS // 4] < mean < 1.01 * sum(times) / ROUNDS + 100
            or name == "ping"
        ), (mean, times)
    if "ping" in names:
        # each call of a loop of jumps is counted, one is a sample
        assert rows["ping"]["counted"] > 1000


@pytest.mark.parametrize("stops", [[], ["--stop"]], ids=["no-stop", "stops"])
@pytest.mark.parametrize("selected", ["*", "rare,over"])
def test_fperf_follows_into_what_comes_and_goes(me, targets, programs, selected, stops):
    """What is jumped to is called too often to have probes always; both have them together now
    and then.
    """
    target = targets.start(me, [programs.simple("tail_hot", placement="fentry"), 6, 2])
    out = me.dir() / "out"
    done = me.run(
        [
            me.builddir / "cli" / "fperf",
            "-q",
            "--json",
            "-o",
            out,
            *stops,
            "-e",
            "task-clock",
            "-f",
            selected,
            "-p",
            target.pid,
        ]
    )
    assert done.returncode == 0, repr(done)
    said, own = json.loads(out.read_text(encoding="utf-8")), target.finish().stdout.split("\n")
    rows = {row["function"]: row for row in said["functions"]}
    if selected != "*":
        assert set(rows) == {"rare", "over"}, rows
    assert said["changes"] > 2, said
    truth = {
        words[0]: int(words[2]) / int(words[1]) for words in map(str.split, own) if len(words) == 3
    }
    for name, mean in truth.items():
        row, counter = rows[name], rows[name]["counters"]["perf::TASK-CLOCK"]
        assert row["samples"] >= 6 and row["until_tail_call"] == 0, row
        # a sample that had ended at the jump would be of some ten nanoseconds
        assert abs(counter["per_call"] - mean) < 2 * counter["ci95"] + 0.05 * mean, (
            name,
            mean,
            row,
        )


@pytest.mark.parametrize("exclusive", [[], ["--exclusive"]], ids=["", "exclusive"])
def test_fperf_marks_what_ends_at_a_jump(me, program, exclusive):
    """Where nobody knows where a jump leads the sample ends there, and how many did is counted.
    One that is exclusive is whole then. Exclusive samples begin when fperf's loop does, some
    milliseconds, or rounds of the program, after its probes went live.
    """
    least = ROUNDS // 2 if exclusive else ROUNDS - 1
    out = me.dir() / "out"
    shares = {"direct": 0, "indirect": 1, "nobody": 1, "half": 0.5, "work": 0, "wide": 0}
    shares = dict.fromkeys(shares, 0) if exclusive else shares
    for form in ("--json", "--csv", "--limit=0"):
        done = me.run(
            [
                me.builddir / "cli" / "fperf",
                "-q",
                "--budget",
                "none",
                "-e",
                "task-clock",
                "-f",
                "direct,indirect,nobody,half,work,wide",
                *exclusive,
                form,
                "-o",
                out,
                "--",
                program,
                ROUNDS,
                300,
            ]
        )
        assert done.returncode == 0, repr(done)
        text = out.read_text(encoding="utf-8")
        if form == "--limit=0":
            assert_marked(
                re.sub(r"(?m)^(\w+) .*?(?=  \(until|$)", r"\1", text),
                {name for name in shares if shares[name]},
                "fperf",
            )
            continue
        rows = {
            row["function"]: row
            for row in (
                json.loads(text)["functions"]
                if form == "--json"
                else csv.DictReader(io.StringIO(text))
            )
        }
        for name, share in shares.items():
            row = rows[name]
            assert int(row["samples"]) >= least, row
            assert int(row["until_tail_call"]) == share * int(row["samples"]), row
            if form == "--json":
                assert row["until_tail_call_share"] == share
