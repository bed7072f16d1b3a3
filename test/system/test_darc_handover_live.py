# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc PID --handover: the search of a live process goes on in the threads that serve, and
finds what that of a recording finds. test/programs/handover.c plants where the time goes.
"""

import json
import os

import pytest

from iptest import memory
from test_darc_handover import PLANTED, RELAYED, RULE, SECOND, SLOW, most_frequent
from test_darc_live import is_as_on_disk
from test_wait import skip_without_events


@pytest.fixture(name="place")
def fixture_place(root):
    """Where the traces lie: nothing may be left there."""
    path = root.dir()
    yield {"TMPDIR": str(path)}
    memory.wait_for("a directory of iprobe darc is left", lambda: not list(path.iterdir()))


@pytest.fixture(name="target")
def fixture_target(root, programs):
    """Starts the program, which goes on for ever; ends it."""
    started = []

    def start(mode):
        program = programs.simple("handover", placement="fentry")
        started.append(root.popen(["nice", "-n", "-10", program, mode, -1]))
        pid = started[-1].pid
        memory.wait_for("it serves nothing", lambda: len(os.listdir(f"/proc/{pid}/task")) == 3)
        return pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def searched(actor, place, pid, *options):
    done = actor.iprobe(
        *("darc", "-f", "serve", "--json", *SLOW, *options, pid), env=place, timeout=240
    )
    assert done.returncode == 0, repr(done)
    assert is_as_on_disk(actor, pid)
    return json.loads(done.stdout), done.stderr


# a function that is not called while it is live has no calls: work() was there before
LIVE = {
    **{mode: [name for name in PLANTED[mode] if name != "work"] for mode in PLANTED},
    **RELAYED,
}


# On a busy machine only events of the kernel tell work from a wait for a CPU.
@pytest.mark.parametrize(
    "mode,kernel",
    [*((mode, True) for mode in LIVE if mode != "apart"), ("asked", False)],
)
def test_planted(root, target, place, mode, kernel):
    if kernel:
        skip_without_events(root)
    rules = [*RULE, *(SECOND if mode in RELAYED else [])]
    pid = target(mode)
    document, told = searched(root, place, pid, *rules, *(["--kernel"] if kernel else []))
    found, (node,) = most_frequent(document)
    assert found["path"] == LIVE[mode], (document["paths"], told)
    assert node["longest_ns"] > 15_000_000 and document["state"] == "root cause found"
    # who hands over and who serves are live from the first step on
    first = next(line for line in told.splitlines() if ": level 0: " in line)
    assert first.endswith(f"level 0: {1 + len(rules)} functions live"), told


def test_points(root, programs, place):
    """Points tell what is handed over: no function has it as a parameter. The one that serves lies
    in a function that never returns.
    """
    skip_without_events(root)
    program = programs.simple("handover_points", placement="fentry")
    process = root.popen(["nice", "-n", "-10", program])
    rule = ("--handover", "pushed(job)=taken(job)", "--kernel")
    try:
        memory.wait_for("no worker", lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 2)
        document, _ = searched(root, place, process.pid, *rule)
        document_of_one, _ = searched(root, place, process.pid, *rule, "--max-functions", 1)
        wrong = root.iprobe(
            *("darc", "-f", "serve", "-q", "--handover", "pushed(job)=take(job)", process.pid),
            env=place,
        )
    finally:
        process.kill()
        process.wait()
    for found, _ in map(most_frequent, (document, document_of_one)):
        assert found["path"] == ["serve", "wait_for", "taken", "run", "look_up"], found
    assert wrong.returncode == 1 and "no point of that name" in wrong.stderr, repr(wrong)


def test_who_serves_is_live_only_where_that_is_wanted(root, target, place):
    """Without the rule the search ends at the wait."""
    document, _ = searched(root, place, target("served"))
    found, _ = most_frequent(document)
    assert found["path"] == ["serve", "wait_for"], found


def test_a_command(root, programs, place):
    program = programs.simple("handover", placement="fentry")
    done = root.iprobe(
        *("darc", "-f", "serve", "--json", *SLOW, *RULE, "--", "nice", "-n", "-15"),
        *(program, "served", 4000),
        env=place,
        timeout=240,
    )
    assert done.returncode == 0, repr(done)
    document = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])[0]
    found, _ = most_frequent(document)
    assert found["path"] == LIVE["served"], document["paths"]


def test_refusals(root, target, place):
    pid = target("served")
    for rule, words in [
        ("push(job)=nothing(job)", "no function with probes"),
        ("p*(job)=run_job(job)", "several functions"),
        ("push(nothing)=run_job(job)", "nothing"),
    ]:
        done = root.iprobe("darc", "-f", "serve", "-q", "--handover", rule, pid, env=place)
        assert done.returncode == 1 and words in done.stderr, (rule, done)
        assert not done.stdout and len(done.stderr.splitlines()) == 1, done
        assert is_as_on_disk(root, pid)


def test_what_is_not_handed_over_is_told(root, target, place):
    """A rule that fits no call of the process is no answer."""
    rule = ("--handover", "forward(job)=write_out(job)")
    _, told = searched(root, place, target("served"), *rule)
    assert "no call of forward(job) was seen with that value" in told, told
