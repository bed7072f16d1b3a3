# SPDX-License-Identifier: Apache-2.0
"""
fperf's counters of the kernel (perf_event_open in the target's threads): right, whatever the
target does to descriptors, and gone at the end. What needs a PMU is not run here; the kernel's
software events take the same way.
"""

import csv
import json
import os
import re
import signal
import subprocess

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.fperf import (
    EXACT,
    by_name,
    count_around_the_work,
    fperf_path,
    own_counts,
    patched,
    rows_of_command,
    start_fperf,
)

FAULTS = "perf::PERF_COUNT_SW_PAGE_FAULTS"
CLOCK = "perf::PERF_COUNT_SW_TASK_CLOCK"  # has each counter read by itself
SPLITS = "perf::ALIGNMENT-FAULTS"  # has them read as a group
MIGRATIONS = "perf::CPU-MIGRATIONS"


def paranoia():
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        return int(file.read())


@pytest.fixture(autouse=True)
def _kernel_counts(me):
    events = {e["name"]: e for e in list_events(me)}
    if not events[FAULTS]["counts"]:
        pytest.skip(f"no counters of the kernel here: {events[FAULTS]['why_not']}")


def list_events(actor, *options):
    done = actor.run([fperf_path(actor), "list-events", "--json", *options])
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)["events"]


def held(pid):
    """Descriptors and pages of counters that the process has: ({number: flags}, pages)."""
    descriptors = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            if "perf_event" in os.readlink(f"/proc/{pid}/fd/{number}"):
                with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as file:
                    descriptors[int(number)] = int(re.search(r"flags:\s*(\d+)", file.read())[1], 8)
        except FileNotFoundError:
            pass
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return descriptors, sum("perf_event" in line for line in file)


def check(functions, name, pages):
    counter = functions[name]["counters"][FAULTS]
    assert functions[name]["samples"] - counter["missing"] >= 2, functions[name]
    assert counter["scaled"] == 0
    # the first call of a function finds its stack or code not there; the bound is one of a mean,
    # beyond which one in twenty lies
    assert (
        abs(counter["per_call"] - pages)
        <= 2 * counter["ci95"] + 1e-9 + 2 / functions[name]["samples"]
    ), functions[name]


@pytest.mark.parametrize(
    "options", [[SPLITS], [CLOCK], [SPLITS, "--multiplex"]], ids=["group", "single", "turns"]
)
def test_known_page_faults(actor, programs, targets, options):
    result, own = count_around_the_work(
        actor,
        targets,
        programs.simple("paging"),
        ["-n", 200],
        ["--budget", "none", "-e", f"{FAULTS},{options[0]}", *options[1:]],
    )
    functions = by_name(result)
    for name, pages in EXACT.items():
        check(functions, name, pages)
        assert functions[name]["samples"] == own[name][0]
        other = functions[name]["counters"][options[0]]
        assert other["per_call"] > 0 if options[0] == CLOCK else other["per_call"] == 0, functions[
            name
        ]
    assert result["missing"] == result["scaled"] == result["reopened"] == 0


@pytest.mark.parametrize(
    "extra",
    [["-t", 4], ["-c"], ["-t", 4, "-c"], ["-j"], ["-f"], ["-e", 20]],
    ids=[
        "threads",
        "closes descriptors",
        "threads that close descriptors",
        "longjmp",
        "forks",
        "threads end inside",
    ],
)
def test_what_targets_do(me, programs, targets, extra):
    result, _ = count_around_the_work(
        me,
        targets,
        programs.simple("paging"),
        ["-n", 200, *extra],
        ["-e", f"{FAULTS},{CLOCK}", "--budget", "none"],
    )
    functions = by_name(result)
    for name, pages in EXACT.items():
        check(functions, name, pages)
    assert (result["reopened"] > 0) == ("-c" in extra)
    if "-e" in extra:
        assert (
            functions["ended"]["calls"] == functions["ended"]["cut"] == 20
            and functions["ended"]["samples"] == 0
        ), functions["ended"]


@pytest.mark.parametrize("second", [SPLITS, CLOCK], ids=["group", "single"])
def test_others_in_the_place_of_ours(me, programs, targets, second):
    """Descriptors that have become those of a pipe are not read, and counting goes on with new
    ones.
    """
    target = targets.start(me, [programs.simple("stealing"), "-n", 100, "-s"])
    proc = start_fperf(me, target, "--budget", "none", "-e", f"{FAULTS},{second}")
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    result = json.loads(actors.last_words(proc).stdout)
    target.say()
    stdout = target.finish().stdout
    assert "intact" in stdout.split(), stdout
    assert int(re.search(r"taken (\d+)", stdout)[1]) >= 10
    assert result["reopened"] >= 9
    two = by_name(result)["two"]
    assert two["calls"] == own_counts(stdout)["two"][0]
    check(by_name(result), "two", 2)


def test_nothing_stays(actor, programs, targets):
    """High numbers, closed by exec; of threads that have ended, too, all are closed at the end."""
    target = targets.start(actor, [programs.simple("paging"), "-n", 50, "-t", 8])
    before = set(os.listdir(f"/proc/{target.pid}/fd"))
    proc = start_fperf(actor, target, "--budget", "none", "-e", f"{FAULTS},{CLOCK}")
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    descriptors, _ = held(target.pid)
    assert 2 <= len(descriptors) <= 2 * 9, descriptors
    assert all(flags & os.O_CLOEXEC for flags in descriptors.values()), descriptors
    assert min(descriptors) >= 256, descriptors
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0, repr(said)
    assert held(target.pid) == ({}, 0), said.stderr
    assert set(os.listdir(f"/proc/{target.pid}/fd")) == before
    target.say()
    target.finish()


def kill_one_that_counts(me, target):
    """It leaves a counter open."""
    proc = start_fperf(me, target, "-e", FAULTS)
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGKILL)
    proc.wait()
    assert len(held(target.pid)[0]) == 1


def test_detach_closes_what_a_killed_one_has_left(me, programs, targets):
    target = targets.start(me, [programs.simple("paging"), "-n", 50])
    kill_one_that_counts(me, target)
    done = me.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    assert held(target.pid) == ({}, 0), repr(done)
    assert patched(me, target.pid) == 0
    target.say()
    target.finish()


def test_the_next_one_closes_what_a_killed_one_has_left(me, programs, targets):
    target = targets.start(me, [programs.simple("stealing"), "-n", 50])
    kill_one_that_counts(me, target)
    done = me.run([fperf_path(me), "-q", "--json", "--duration", "100ms", "-p", target.pid])
    assert done.returncode == 0, repr(done)
    assert held(target.pid) == ({}, 0), repr(done)
    target.say()
    target.finish()


def test_another_program_in_the_process(me, programs, targets):
    """exec closes what is held, and fperf has nothing to complain about."""
    target = targets.start(me, [programs.simple("exec_next")])
    proc = start_fperf(me, target, "--budget", "none", "-e", FAULTS)
    memory.wait_for("no counter is opened", lambda: held(target.pid)[0], 60, 0.05)
    target.say()
    assert target.proc.stdout.readline() == "ready\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0 and not said.stderr, repr(said)
    assert by_name(json.loads(said.stdout))["step"]["samples"] > 0
    assert held(target.pid) == ({}, 0)


def test_no_room_for_descriptors(me, programs, targets):
    """The program keeps what it may open; fperf says what was in the way."""
    target = targets.start(me, ["prlimit", "--nofile=14:14", programs.simple("paging"), "-n", 20])
    names = ",".join(
        [
            FAULTS,
            CLOCK,
            "perf::ALIGNMENT-FAULTS",
            "perf::EMULATION-FAULTS",
            "perf::PAGE-FAULTS:u",
            "perf::TASK-CLOCK:u",
        ]
    )
    names = (
        names
        if has_papi(me)
        else ",".join([FAULTS, CLOCK, "perf::ALIGNMENT-FAULTS", "perf::EMULATION-FAULTS"])
    )
    proc = start_fperf(me, target, "-e", names)
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    if has_papi(me):  # six of 7 to 11
        assert (
            said.returncode == 1
            and "descriptors" in said.stderr
            and len(said.stderr.splitlines()) == 1
        ), repr(said)
    else:
        assert said.returncode == 0, repr(said)
    assert held(target.pid) == ({}, 0)
    target.say()
    assert own_counts(target.finish().stdout)["three"][0] == 60


def test_migrations(root, programs, targets):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: nothing moves")
    if by_event(root)[MIGRATIONS]["why_not"]:
        pytest.skip(by_event(root)[MIGRATIONS]["why_not"])
    result, own = count_around_the_work(
        root,
        targets,
        programs.simple("stealing"),
        ["-n", 50],
        ["--budget", "none", "-e", MIGRATIONS],
    )
    functions = by_name(result)
    moved = functions["moved"]
    assert moved["samples"] == own["moved"][0]
    assert moved["counters"][MIGRATIONS]["per_call"] == 1, moved
    assert functions["stayed"]["counters"][MIGRATIONS]["per_call"] == 0


def test_who_may_not(root, user, programs, targets):
    """Migrations happen in the kernel: a process that may not look there is refused at once,
    whoever asks.
    """
    if paranoia() < 2:
        pytest.skip("kernel.perf_event_paranoid keeps nobody out")
    target = targets.start(user, [programs.simple("paging"), "-n", 1])
    for who in (root, user):
        line = actors.one_line(who.run([fperf_path(who), "-q", "-e", MIGRATIONS, "-p", target.pid]))
        assert "perf_event_paranoid" in line and MIGRATIONS in line
    assert patched(root, target.pid) == 0
    for _ in range(2):
        target.say()
    target.finish()


def by_event(actor, *options):
    return {e["name"]: e for e in list_events(actor, *options)}


def has_papi(actor):
    return (actor.builddir / "cli" / "libiprobe-papi.so").exists()


@pytest.fixture(name="papi")
def _papi(me):
    if not has_papi(me):
        pytest.skip("built without PAPI")


def test_events_of_papi(me, papi):
    presets = {n: e for n, e in by_event(me).items() if n.startswith("PAPI_")}
    assert len(presets) > 50 and all(e["what"] for e in presets.values())
    assert all(e["counts"] or e["why_not"] for e in presets.values())
    natives = by_event(me, "--native")
    assert natives["perf::PERF_COUNT_SW_PAGE_FAULTS"]["counts"], natives
    done = me.run([fperf_path(me), "-e", "PAPI_NONSENSE", "-p", 1])
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, repr(done)


@pytest.mark.parametrize("processor, instructions", [("amd64_fam19h_zen3", 0xC0), ("skl", 0xC0)])
def test_presets_of_processors(me, papi, processor, instructions):
    """What PAPI makes presets of on processors that are not here: numbers as their vendors'
    manuals have them.
    """
    done = me.run([fperf_path(me), "list-events", "--json"], env={"LIBPFM_FORCE_PMU": processor})
    assert done.returncode == 0, repr(done)
    events = {e["name"]: e for e in json.loads(done.stdout)["events"]}
    counters = events["PAPI_TOT_INS"]["counters"]
    assert [c["config"] & 0xFFFF for c in counters] == [instructions], counters
    assert events["PAPI_TOT_CYC"]["counters"] and events["PAPI_BR_MSP"]["counters"]
    several = [e for e in events.values() if len(e["counters"]) > 1]
    assert several, "no preset is made of several events"


def test_names_of_libpfm4(me, papi, programs, targets):
    """A name that only libpfm4 knows: its numbers count in the target."""
    name = "perf::PAGE-FAULTS:u"
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-n", 100], ["--budget", "none", "-e", name]
    )
    counter = by_name(result)["eleven"]["counters"][name]
    assert abs(counter["per_call"] - 11) <= counter["ci95"] + 1e-9 + 2 / own["eleven"][0], counter


@pytest.mark.parametrize("processor", ["skl", "snb"])
def test_operations_of_processors(me, papi, processor):
    """PAPI's formulas count an instruction for as many operations as it does: a number of double
    precision is 8 bytes of a vector.
    """
    done = me.run([fperf_path(me), "list-events", "--json"], env={"LIBPFM_FORCE_PMU": processor})
    assert done.returncode == 0, repr(done)
    events = {e["name"]: e for e in json.loads(done.stdout)["events"]}
    for name, operations in {"PAPI_DP_OPS": [1, 2, 4], "PAPI_SP_OPS": [1, 4, 8]}.items():
        weights = sorted(c["weight"] for c in events[name]["counters"])
        assert weights[:3] == operations and events[name]["formula"], events[name]
    assert not [e["name"] for e in events.values() if "formula" in (e["why_not"] or "")]


FORMULAS = {
    "PAPI_L1_DCM": (
        "DERIVED_POSTFIX,N0|2|*|N1|+|",
        ["PAGE_FAULTS", "PAGE_FAULTS_MIN"],
        lambda pages: 3 * pages,
    ),
    "PAPI_L2_DCM": (
        "DERIVED_INFIX,N0/4+N1/2",
        ["PAGE_FAULTS", "PAGE_FAULTS_MIN"],
        lambda pages: 0.75 * pages,
    ),
    "PAPI_L3_DCM": ("DERIVED_POSTFIX,N0|3|*|", ["PAGE_FAULTS"], lambda pages: 3 * pages),
    "PAPI_L1_ICM": ("DERIVED_ADD", ["PAGE_FAULTS", "PAGE_FAULTS_MIN"], lambda pages: 2 * pages),
    "PAPI_L2_ICM": ("DERIVED_SUB", ["PAGE_FAULTS", "PAGE_FAULTS_MAJ"], lambda pages: pages),
    "PAPI_L1_TCM": ("DERIVED_CMPD", ["PAGE_FAULTS", "PAGE_FAULTS_MAJ"], lambda pages: pages),
    "PAPI_L2_TCM": (
        "DERIVED_POSTFIX,N0|N0|N1|+|/|",
        ["PAGE_FAULTS", "PAGE_FAULTS_MIN"],
        lambda pages: 0.5,
    ),
    "PAPI_L3_TCM": ("DERIVED_PS", ["PAGE_FAULTS", "PAGE_FAULTS_MIN"], None),
}


@pytest.mark.parametrize(
    "names",
    [
        ["PAPI_L1_DCM", "PAPI_L2_DCM", "PAPI_L3_DCM", "PAPI_L1_ICM"],
        ["PAPI_L2_ICM", "PAPI_L1_TCM", "PAPI_L3_TCM"],
        ["PAPI_L2_TCM"],
    ],
    ids=["sums", "others", "quotient"],
)
def test_formulas(me, papi, programs, targets, top, names):
    """Every way in which PAPI derives a preset, of counters that count here, by presets of our
    own.
    """
    table = me.top / "presets.csv"
    rows = [
        f"PRESET,{name},{way},{','.join('PERF_COUNT_SW_' + part for part in parts)}"
        for name, (way, parts, _) in FORMULAS.items()
    ]
    table.write_text("CPU,perf\n" + "\n".join(rows) + "\n", encoding="utf-8")
    result, own = count_around_the_work(
        me,
        targets,
        programs.simple("paging"),
        ["-n", 100],
        ["--budget", "none", "-e", ",".join(names)],
        env={"LD_PRELOAD": str(promoted(programs, top)), "PAPI_CSV_EVENT_FILE": str(table)},
    )
    assert [e for e in result["events"] if e in names] == names, result["events"]
    for name in names:
        _, parts, expected = FORMULAS[name]
        for function in ("three", "eleven", "outer"):
            counters = by_name(result)[function]["counters"]
            counter = counters[name]
            if expected:
                pages = expected(EXACT[function])
                assert (
                    abs(counter["per_call"] - pages)
                    <= counter["ci95"] + 1e-9 + 2 * max(1, pages) / own[function][0]
                ), counters
            else:  # a second's worth of cycles, since both count the same
                assert counter["per_call"] >= 1e8 and counter["ci95"] is not None, counters
        if name == "PAPI_L2_TCM":
            assert all(f"PERF_COUNT_SW_{part}" in result["events"] for part in parts), result[
                "events"
            ]
            # nothing by nothing
            assert by_name(result)["none"]["counters"][name]["per_call"] is None


def promoted(programs, top):
    """PAPI comes up with it where there is no PMU."""
    shim = top / "promote.so"
    built = subprocess.run(
        [
            "cc",
            "-shared",
            "-fPIC",
            "-O2",
            "-Wl,--no-as-needed",
            "-o",
            shim,
            programs.source / "papi_promote.c",
            "-lpfm",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return shim


def test_papi_itself(me, papi, programs, top):
    """PAPI_start and PAPI_read count what our hooks' code counts. Without a PMU it comes up only
    where libpfm4 is told of one.
    """
    done = me.run([fperf_path(me), "self-test"], env={"LD_PRELOAD": str(promoted(programs, top))})
    assert done.returncode == 0, repr(done)
    words = next(
        line.split()
        for line in done.stdout.splitlines()
        if line.startswith("PAPI: perf::PAGE-FAULTS")
    )
    assert words[2] == "ok", done.stdout


def test_self_test(me):
    done = me.run([fperf_path(me), "self-test"])
    assert done.returncode == 0, repr(done)
    assert len(re.findall(r"^counters, .* ok ", done.stdout, re.M)) == 2, done.stdout
    assert len(re.findall(r"one was closed +ok ", done.stdout)) == 2, done.stdout


def test_metrics(me, programs, targets):
    """The share of a call's time in which its thread had a CPU: next to none where it sleeps."""
    result, _ = count_around_the_work(
        me,
        targets,
        programs.simple("stealing"),
        ["-n", 30],
        ["--budget", "none", "-e", "perf::TASK-CLOCK,tsc::CYCLES"],
    )
    functions = by_name(result)
    assert (
        functions["slept"]["derived"]["CPU"] < 0.5 and 0 < functions["two"]["derived"]["CPU"] <= 2
    ), functions
    command = [programs.simple("paging"), "-n", 20]
    _, rows = rows_of_command(me, command, "-e", "tsc::CYCLES,perf::TASK-CLOCK")
    assert 0 < float(rows["eleven"]["CPU"]) <= 2, rows
    done = me.run(
        [fperf_path(me), "-e", "perf::TASK-CLOCK", "--", programs.simple("paging"), "-n", 2],
        input="\n\n",
    )
    assert done.returncode == 0 and "CPU" not in done.stdout.splitlines()[1].split(), repr(done)


def test_exclusive(me, programs, targets):
    """What called functions count is not in, by the kernel's counters either."""
    result, own = count_around_the_work(
        me,
        targets,
        programs.simple("paging"),
        ["-n", 100],
        ["--budget", "none", "--exclusive", "-e", f"{FAULTS},{SPLITS}"],
    )
    functions = by_name(result)
    for name, pages in {**EXACT, "outer": 0}.items():
        check(functions, name, pages)
        assert functions[name]["samples"] == own[name][0]


def test_csv_tells_of_what_is_missing_and_scaled(me, programs):
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--csv",
            "-o",
            me.top / "losses.csv",
            "-e",
            f"{CLOCK},perf::PAGE-FAULTS",
            "-f",
            "three",
            "--",
            programs.simple("paging"),
            "-n",
            20,
        ],
        input="\n\n",
    )
    assert done.returncode == 0, repr(done)
    with open(me.top / "losses.csv", encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row[f"{CLOCK} missing"] == row[f"{CLOCK} scaled"] == "0" and float(row[CLOCK]) > 0
    # getrusage has always a value
    assert not [
        name
        for name in row
        if name.startswith("perf::PAGE-FAULTS ") and name != "perf::PAGE-FAULTS ci95"
    ], row
