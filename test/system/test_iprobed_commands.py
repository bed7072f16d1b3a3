# SPDX-License-Identifier: Apache-2.0
"""Commands by iprobed: status, top, fperf and counters of the kernel."""

import json
import os
import signal

import pytest

from iptest import memory
from iptest.actor import last_words, one_line
from iptest.daemon_fixtures import (  # noqa: F401
    daemon,
    idle,
    is_live,
    member,
    other,
    program,
    pytestmark,
    target,
    wait_until_idle,
    wait_until_live,
)


def test_status_by_iprobed(daemon, user, other, target):
    done = user.iprobe("status", "--json", target.pid, env=daemon.env)
    assert done.returncode == 0 and json.loads(done.stdout)["patched"] == 0, repr(done)
    proc = daemon.start_attach(user, target.pid, cwd=user.dir())
    wait_until_live(target.pid)
    done = user.iprobe("status", "--json", target.pid, env=daemon.env)
    assert done.returncode == 0 and json.loads(done.stdout)["patched"] > 0, repr(done)
    assert "iprobed refuses: " in one_line(other.iprobe("status", target.pid, env=daemon.env))
    # looking on is noted nowhere, and ends nobody's session
    assert len(list(daemon.state.iterdir())) == 1
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0


def test_left_over_by_iprobed(daemon, user, target):
    """Said to iprobed as it is said to us."""
    done = user.iprobe("detach", "--left-over", target.pid, env=daemon.env)
    assert done.returncode == 0 and "with --left-over" in daemon.log(), repr(done)


@pytest.mark.parametrize("who", ["user", "member"])
def test_top_by_iprobed(daemon, user, member, target, who):
    """A member's worker has nobody's real ids: its files are looked at by the effective ones."""
    who = user if who == "user" else member
    done = who.iprobe(
        "top",
        "--json",
        "-n",
        "2",
        "-d",
        "100ms",
        "-s",
        "calls",
        target.pid,
        env=daemon.env,
        cwd=who.dir(),
    )
    assert done.returncode == 0, repr(done)
    pictures = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(pictures) == 2 and "work" in {
        f["function"] for f in pictures[-1]["functions"]
    }, pictures
    assert idle(target.pid) and not list(daemon.state.iterdir())
    # iprobed has no events of the kernel: the rest is shown
    words = ("--kernel", "--kernel-buffer", "1M", "-b", "-n", "1", "-d", "100ms", target.pid)
    done = who.iprobe("top", *words, env=daemon.env)
    assert done.returncode == 0 and "work" in done.stdout and "%WAIT" not in done.stdout
    assert done.stderr.count("no waits are shown") == 1, repr(done)
    proc = who.start_iprobe("top", "-b", "-f", "work", target.pid, env=daemon.env)
    wait_until_live(target.pid)
    proc.kill()
    wait_until_idle(target.pid)
    memory.wait_for("its note stays", lambda: not list(daemon.state.iterdir()), 30)


def test_fperf_by_iprobed(daemon, user, other, target):
    directory = user.dir()
    fperf = user.builddir / "cli" / "fperf"
    # of an older, longer file nothing stays
    (directory / "counts").write_text("old " * 100000)
    os.chown(directory / "counts", user.uid, -1)
    done = user.run(
        [fperf, "-p", target.pid, "--json", "--duration", "500ms", "-n", "5", "-o", "counts", "-q"],
        env=daemon.env,
        cwd=directory,
    )
    assert done.returncode == 0, repr(done)
    assert (directory / "counts").stat().st_uid == user.uid
    assert json.loads((directory / "counts").read_text())["functions"]
    assert idle(target.pid) and not list(daemon.state.iterdir())
    # a profile is the caller's, not iprobed's
    (directory / "own.yaml").write_text(
        "profiles: {mine: {events: 'perf::PAGE-FAULTS', functions: 'wor*', budget: 1%, duration: "
        "300ms}}\n"
    )
    done = user.run(
        [fperf, "-p", target.pid, "--json", "--profile", "mine", "--exclusive", "-q"],
        cwd=directory,
        env={**daemon.env, "IPROBE_PROBES_D": str(directory)},
    )
    assert done.returncode == 0, repr(done)
    result = json.loads(done.stdout)
    assert (
        result["exclusive"]
        and result["events"] == ["perf::PAGE-FAULTS"]
        and result["budget"] == 0.01
        and result["selected"] == 1
    ), result
    kept = other.dir()
    (kept / "counts").write_text("earlier results")
    os.chown(kept / "counts", other.uid, -1)
    done = other.run(
        [fperf, "-p", target.pid, "--duration", "100ms", "-o", "counts"], env=daemon.env, cwd=kept
    )
    assert done.returncode == 1 and "iprobed refuses: " in done.stderr, repr(done)
    assert (kept / "counts").read_text() == "earlier results"
    done = other.run(
        [fperf, "-p", target.pid, "--duration", "100ms", "-o", "new"], env=daemon.env, cwd=kept
    )
    assert done.returncode == 1 and not (kept / "new").exists(), repr(done)


def count_by_iprobed(daemon, who, target, *options):
    """What fperf counts in a paging target's work, asked of iprobed."""
    proc = who.popen(
        [
            who.builddir / "cli" / "fperf",
            "-q",
            "--json",
            "--budget",
            "none",
            *options,
            "-p",
            target.pid,
        ],
        env=daemon.env,
    )
    memory.wait_for(
        "fperf does not go live", lambda: proc.poll() is not None or is_live(target.pid), 60
    )
    assert proc.poll() is None, repr(last_words(proc))
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


COUNTERS = [
    "perf::PERF_COUNT_SW_PAGE_FAULTS,perf::ALIGNMENT-FAULTS",
    "perf::PERF_COUNT_SW_PAGE_FAULTS,perf::PERF_COUNT_SW_TASK_CLOCK",
    "perf::PAGE-FAULTS,perf::TASK-CLOCK,perf::CONTEXT-SWITCHES,tsc::CYCLES",
    "page-faults,task-clock,context-switches",
]


@pytest.mark.parametrize(
    "events", COUNTERS, ids=["group", "single", "no descriptors", "short names"]
)
@pytest.mark.parametrize(
    "options", [[], ["--exclusive"], ["--multiplex"]], ids=["inclusive", "exclusive", "turns"]
)
def test_counters_by_iprobed(daemon, user, targets, programs, events, options):
    """Threads of the target open them, with what the target may: the worker needs no right to
    count.
    """
    if any("perf_event" in e["why_not"] for e in listed(user, events)):
        pytest.skip("the kernel counts nothing for a user here")
    # long enough: exclusive samples are not taken before all is live and the account is open, a
    # little later than the first site is live
    target = targets.start(
        user, [programs.simple("paging", placement="fentry"), "-s", 300], preload=False
    )
    result = count_by_iprobed(daemon, user, target, "-e", events, *options)
    functions = {f["function"]: f for f in result["functions"]}
    faults = result["events"][0]
    for name, pages in {
        "none": 0,
        "three": 3,
        "eleven": 11,
        "outer": 0 if "--exclusive" in options else 6,
    }.items():
        counter = functions[name]["counters"][faults]
        assert functions[name]["samples"] >= 100, functions[name]
        assert abs(counter["per_call"] - pages) <= (counter["ci95"] or 0) + 0.05, functions[name]
    assert idle(target.pid) and not list(daemon.state.iterdir())
    assert not [
        fd
        for fd in os.listdir(f"/proc/{target.pid}/fd")
        if "perf_event" in os.readlink(f"/proc/{target.pid}/fd/{fd}")
    ]
    target.say()
    target.finish()


def listed(who, events):
    done = who.run([who.builddir / "cli" / "fperf", "list-events", "--json"])
    assert done.returncode == 0, repr(done)
    return [
        e
        for e in json.loads(done.stdout)["events"]
        if e["name"] in events.split(",") and not e["counts"]
    ]


def test_counters_that_the_target_may_not_have(daemon, root, user, targets, programs):
    """What happens in the kernel a user's process may not count, whoever asks; one of root's
    may, and its user may ask.
    """
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        if int(file.read()) < 2:
            pytest.skip("kernel.perf_event_paranoid keeps nobody out")
    fperf = user.builddir / "cli" / "fperf"
    target = targets.start(
        user, [programs.simple("paging", placement="fentry"), "-n", 1], preload=False
    )
    for who in (user, root):
        line = one_line(
            who.run([fperf, "-q", "-e", "perf::CPU-MIGRATIONS", "-p", target.pid], env=daemon.env)
        )
        assert "perf_event_paranoid" in line and "MIGRATIONS" in line, line
    assert idle(target.pid) and not list(daemon.state.iterdir())
    for _ in range(2):
        target.say()
    target.finish()
