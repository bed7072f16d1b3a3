# SPDX-License-Identifier: Apache-2.0
"""fperf: page faults of functions of which they are known, the budget, and what targets do."""

import json
import os
import signal
import time

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.fperf import (
    EXACT,
    FAULTS,
    by_name,
    check_exact,
    count_around_the_work,
    fperf_path,
    patched,
    start_fperf,
)  # noqa: F401


@pytest.mark.parametrize("placement", ["fentry", "instrument"])
def test_known_page_faults(actor, programs, targets, placement):
    """Without a budget each call is a sample."""
    result, own = count_around_the_work(
        actor,
        targets,
        programs.simple("paging", placement=placement),
        ["-n", 300],
        ["--budget", "none"],
    )
    functions = by_name(result)
    assert result["budget"] is None and FAULTS in result["events"]
    check_exact(functions, own)
    for name in EXACT:
        assert functions[name]["samples"] == own[name][0]
    some = functions["some"]
    assert abs(some["counters"][FAULTS]["per_call"] * some["samples"] - own["some"][1]) <= 2


@pytest.mark.parametrize(
    "extra",
    [["-t", 4], ["-c"], ["-t", 4, "-c"], ["-j"], ["-f"]],
    ids=["threads", "closes descriptors", "threads that close descriptors", "longjmp", "forks"],
)
def test_what_targets_do(me, programs, targets, extra):
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-n", 200, *extra], []
    )
    functions = by_name(result)
    check_exact(functions, own, exact_calls=False)
    if "-j" in extra:
        assert functions["jumped"]["samples"] == 0 and functions["jumped"]["calls"] > 0


def test_calls_of_a_forked_child_are_not_ours(me, programs, targets):
    # With a budget, calls are an estimate where other processes make FPerf take probes away.
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-n", 200, "-f"], ["--budget", "none"]
    )
    check_exact(by_name(result), own)


def test_budget(me, programs, targets):
    """A function that takes all of the time there is; what the advance allows comes on top."""
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-s", 3000, "-l"], ["--budget", "2%"]
    )
    functions = by_name(result)
    assert result["overhead"] <= 0.02 + 0.05 / result["run_s"], {
        k: v for k, v in result.items() if k != "functions"
    }
    assert (result["changes_failed"] == 0) == (result["change_failure"] is None), result
    check_exact(functions, own, exact_calls=False)
    hot = functions["hot"]
    assert hot["samples"] >= 2 and hot["live"] < 0.9, hot
    assert hot["counted"] <= own["hot"][0]
    # hooks are most of what it does while it has probes: no interval is claimed, and nothing that
    # is wildly wrong
    assert hot["calls_ci95"] is None, hot
    assert 0.1 < hot["calls"] / own["hot"][0] < 5, (hot, own)
    # an empty function: a sample that was open when its probes went must not end with the exit of a
    # later call
    assert hot["counters"][FAULTS]["per_call"] < 0.5
    assert hot["counters"]["perf::TASK-CLOCK"]["per_call"] < 20000, hot


def test_a_process_that_sleeps(me, programs, targets):
    """Stops take nothing away from who would not have run: they are no overhead of a hundred
    times its run time.
    """
    target = targets.start(
        me, [programs.simple("standing", placement="fentry"), "idle"], preload=False
    )
    time.sleep(1)  # of a process that has just begun nobody knows that it sleeps
    done = me.run([fperf_path(me), "-q", "--json", "--duration", "300ms", "-p", target.pid])
    assert done.returncode == 0, repr(done)
    result = json.loads(done.stdout)
    assert result["overhead"] is None or result["overhead"] < 20, result
    short = me.run([fperf_path(me), "--max-stop", "1us", "-p", target.pid])
    assert short.returncode == 2 and "200us" in short.stderr, repr(short)


def test_alternate(me, programs, targets):
    """Windows with and without: in those without, no function that was ever called has a probe."""
    target = targets.start(me, [programs.simple("serving", placement="fentry")], preload=False)
    proc = start_fperf(me, target, "--budget", "5%", "--alternate", "300ms", "--duration", "60s")

    def live():
        return len(memory.text_differences(target.pid))

    # main is never called: its sites may stay as they are
    most = live()
    memory.wait_for("there is no window without probes", lambda: live() <= 2, 60, 0.02)
    memory.wait_for("they do not come again", lambda: live() >= max(most, 8), 60, 0.02)
    memory.wait_for("nor go again", lambda: live() <= 2, 60, 0.02)
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0, repr(said)
    assert not memory.text_differences(target.pid)
    windows = [line.split("\t") for line in said.stderr.splitlines() if line.startswith("window\t")]
    assert len(windows) >= 3, repr(said)
    assert [w[1] for w in windows] == [
        "on" if i % 2 == 0 else "off" for i in range(len(windows))
    ], repr(said)
    assert by_name(json.loads(said.stdout))["handle"]["samples"] >= 2


def test_changes_that_fail(me, programs, targets):
    """A thread that nobody can stop: hot() keeps its probes, and the user is told how often that
    was tried, and why it failed.
    """
    target = targets.start(me, [programs.simple("paging"), "-s", 3000, "-l", "-v", 3000])
    output = me.top / "failing.json"
    proc = me.popen([fperf_path(me), "--json", "-o", output, "--max-stop", "5ms", "-p", target.pid])
    memory.wait_for(
        "fperf does not go live",
        lambda: proc.poll() is not None or patched(me, target.pid) > 0,
        60,
        0.05,
    )
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    result = json.loads(output.read_text(encoding="utf-8"))
    assert said.returncode == 0 and result["changes_failed"] >= 1, (said, result)
    assert (
        str(target.pid) in result["change_failure"] and "vfork" in result["change_failure"]
    ), result
    assert (
        f"{result['changes_failed']} change" in said.stderr
        and result["change_failure"] in said.stderr
    ), said.stderr
    assert patched(me, target.pid) == 0
    target.say()
    target.finish()


def test_samples_a_second(me, programs, targets):
    """Those of functions that have turns are among them."""
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-s", 2000, "-l"], ["--budget", "50/s"]
    )
    functions = by_name(result)
    # two of each are free, and the interval that had begun
    assert result["samples"] <= 50 * result["duration_s"] + 5 + 2 * len(functions) + 10, result
    check_exact(functions, own, exact_calls=False)


def runs():
    return 200 if os.environ.get("IPROBE_TEST_FULL") == "1" else 5


@pytest.mark.parametrize("name, flags", [("some", ["-n", 3000]), ("phased", ["-p", "-n", 6000])])
def test_intervals_hold_the_truth(me, programs, targets, capsys, name, flags):
    """As often as they say: 95 of 100; of few runs, most. phased() is called often in one phase of
    the program, and faults rarely, and the other way round in the next: samples that are taken
    for all alike are off by far.
    """
    program, held, n = programs.simple("paging"), 0, runs()
    off, plain = [], []
    for seed in range(n):
        result, own = count_around_the_work(
            me, targets, program, ["-r", seed, *flags], ["--budget", "1%"]
        )
        function = by_name(result)[name]
        calls, pages = own[name]
        counter = function["counters"][FAULTS]
        held += abs(counter["per_call"] - pages / calls) <= counter["ci95"]
        off.append(counter["per_call"] / (pages / calls) - 1)
        plain.append(counter["ci95"] / (pages / calls))
    with capsys.disabled():
        print(
            f"\n{name}: {held} of {n} intervals hold the truth ({100 * held / n:.1f} %), off by "
            f"{100 * sum(off) / n:+.2f} % on average, "
            f"half as wide as {100 * sum(plain) / n:.2f} % of the mean"
        )
    assert held >= (0.9 if n >= 100 else 0.4) * n, f"{held} of {n}"


@pytest.mark.parametrize("placement", ["fentry", "instrument"])
def test_exclusive(me, programs, targets, placement):
    """outer() does nothing but call three() twice; without three() among the selected these
    calls are its own.
    """
    program = programs.simple("paging", placement=placement)
    result, own = count_around_the_work(
        me, targets, program, ["-n", 300], ["--budget", "none", "--exclusive"]
    )
    functions = by_name(result)
    assert result["exclusive"] and functions["outer"]["samples"] == own["outer"][0]
    for name, pages in {**EXACT, "outer": 0}.items():
        assert abs(functions[name]["counters"][FAULTS]["per_call"] - pages) < 0.05, functions[name]
    result, _ = count_around_the_work(
        me, targets, program, ["-n", 300], ["--budget", "none", "--exclusive", "-f", "outer,some"]
    )
    assert abs(by_name(result)["outer"]["counters"][FAULTS]["per_call"] - 6) < 0.05


def test_exclusive_within_a_budget(me, programs, targets):
    """Samples are of windows in which all have probes: hot() would take all that the budget
    allows.
    """
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-s", 3000, "-l", "-j"], ["--exclusive"]
    )
    functions = by_name(result)
    for name, pages in {**EXACT, "outer": 0}.items():
        f = functions[name]
        if f["samples"]:  # where others have the CPU there may be none
            assert abs(f["counters"][FAULTS]["per_call"] - pages) <= 2 / f["samples"], f
        assert f["calls"] > 0 and f["counted"] <= own[name][0]
    assert functions["hot"]["live"] < 0.9


def test_threads_that_end_inside(me, programs, targets):
    """A sample that will never end is told as cut, and counts as open no more."""
    result, own = count_around_the_work(
        me, targets, programs.simple("paging"), ["-n", 200, "-e", 20], ["--budget", "none"]
    )
    ended = by_name(result)["ended"]
    assert (
        ended["calls"] == own["ended"][0] == 20 and ended["samples"] == 0 and ended["cut"] == 20
    ), ended
    check_exact(by_name(result), own)


def bytes_read(pid):
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def test_windows_tell_what_was_done_in_them(me, programs, targets):
    """What the process had read and written before is no window's."""
    target = targets.start(me, [programs.simple("paging"), "-s", 3000, "-l"])
    before = bytes_read(target.pid)
    assert before > 0
    target.say()
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--alternate",
            "100ms",
            "--duration",
            "1s",
            "-o",
            "/dev/null",
            "-p",
            target.pid,
        ]
    )
    windows = [line.split("\t") for line in done.stderr.splitlines() if line.startswith("window\t")]
    assert done.returncode == 0 and windows, repr(done)
    assert windows[0][1] == "on" and all(int(w[2]) > 0 for w in windows), windows
    assert sum(int(w[4]) for w in windows) <= bytes_read(target.pid) - before, windows
