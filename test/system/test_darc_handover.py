# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc --handover: a search that goes on in the thread that serves what the slow call waits
for. test/programs/handover.c plants where the time goes.
"""

import json

import pytest

from conftest import make_actor
from test_wait import skip_without_events

RULE = ("--handover", "push(job)=run_job(job)")
VALUES = ("--args", "push(job)", "--args", "run_job(job)")
# work that is handed over in turn
SECOND = ("--handover", "forward(job)=write_out(job)")
SECOND_VALUES = ("--args", "forward(job)", "--args", "write_out(job)")
# 30 ms of a CPU are planted; on a busy machine the rightmost peak may be that of calls that had
# none
SLOW = ("--slower-than", "15ms")


@pytest.fixture(name="me", scope="module")
def fixture_me(top, builddir):
    who = make_actor("root", top, builddir)
    yield who
    who.cleanup()


def recorded(actor, programs, mode, *options):
    trace = actor.dir() / "trace"
    program = programs.simple("handover", placement="fentry")
    done = actor.iprobe(
        *("run", "-q", *options, *VALUES, "-o", trace, "--"),
        *("nice", "-n", "-15", program, mode, 300),
    )
    assert done.returncode == 0, repr(done)
    return trace


def searched(actor, trace, *options):
    done = actor.iprobe("darc", "-f", "serve", "--json", *SLOW, *options, trace)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


def most_frequent(document):
    """Of the program's own causes: others may have had the CPU. And its node in the ftree."""
    outside = ("preempted", "interrupt")
    found = [path for path in document["paths"] if path["cause"]["kind"] not in outside]
    assert found, document
    path = max(found, key=lambda path: path["share"])
    return path, [node for node in document["ftree"] if node["node"] == path["node"]]


PLANTED = {
    "served": ["serve", "wait_for", "run_job", "look_up", "spin"],
    # what the thread that serves does first
    "queued": ["serve", "wait_for", "run_job", "work", "clean_up", "spin"],
    "own": ["serve", "spin"],
    "apart": ["serve", "spin"],
}


# On a busy machine only events of the kernel tell work from a wait beside it.
@pytest.mark.parametrize(
    "mode,kernel",
    [(mode, kernel) for mode in PLANTED for kernel in (False, True) if kernel or mode != "apart"],
)
def test_planted(root, programs, mode, kernel):
    if kernel:
        skip_without_events(root)
    trace = recorded(root, programs, mode, *(["--kernel"] if kernel else []))
    document = searched(root, trace, *RULE)
    found, (node,) = most_frequent(document)
    assert found["path"] == PLANTED[mode], document["paths"]
    assert found["cause"]["kind"] == "self", found
    assert node["longest_ns"] > 15_000_000, node
    nodes = {n["node"]: n for n in document["ftree"]}
    if mode in ("served", "queued"):
        there = node
        while "handover" not in there:
            there = nodes[there["parent"]]
        assert (there["function"], there["handover"]) == ("run_job", mode)
        # what was waited for is a part of the wait
        wait = nodes[there["parent"]]
        assert wait["own_ns"] < wait["longest_ns"] / 2, (wait, there)
        # without the rule the search ends at the wait
        alone, _ = most_frequent(searched(root, trace))
        assert alone["path"] == ["serve", "wait_for"], alone


RELAYED = {
    # serve() waits for both workers, one after the other
    "relayed": ["serve", "wait_for", "write_out", "format", "spin"],
    # the first one waits for the second one
    "asked": ["serve", "wait_for", "run_job", "wait_again", "write_out", "format", "spin"],
}


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("mode", RELAYED)
def test_planted_in_turn(root, programs, mode, kernel):
    if kernel:
        skip_without_events(root)
    trace = recorded(root, programs, mode, *SECOND_VALUES, *(["--kernel"] if kernel else []))
    found, (node,) = most_frequent(searched(root, trace, *RULE, *SECOND))
    assert found["path"] == RELAYED[mode], found
    assert found["cause"]["kind"] == "self" and node["longest_ns"] > 15_000_000, (found, node)


@pytest.fixture(name="trace", scope="module")
def fixture_trace(me, programs):
    return recorded(me, programs, "served")


def test_for_people(me, trace):
    done = me.iprobe("darc", "-f", "serve", *SLOW, *RULE, trace)
    assert done.returncode == 0, repr(done)
    assert "run_job, in the thread that serves it  (largest in" in done.stdout
    page = me.dir() / "page.html"
    done = me.iprobe("darc", "-f", "serve", *SLOW, *RULE, "--html", page, trace)
    assert done.returncode == 0 and '"handover":"served"' in page.read_text(), repr(done)
    done = me.iprobe("darc", "-f", "serve", "--by", "variance", *RULE, trace)
    assert done.returncode == 0, repr(done)
    first = next(line for line in done.stdout.splitlines() if "serve > " in line)
    assert "wait_for > run_job, in the thread that serves it > look_up > spin" in first


def test_refusals(me, trace):
    def rule(text):
        return ("darc", "-f", "serve", "--handover", text, trace)

    for command, code, words in [
        (rule("push=run_job"), 2, "two functions with a value each"),
        (rule("push(job)"), 2, "two functions with a value each"),
        (rule("push()=run_job(job)"), 2, "two functions with a value each"),
        (rule("(job)=run_job(job)"), 2, "two functions with a value each"),
        (rule("push(job)=run_job(job) "), 2, "two functions with a value each"),
        (rule("pull(job)=run_job(job)"), 1, "nearest are: push"),
        (rule("p*(job)=run_job(job)"), 1, "name one"),
        (rule("push(jo)=run_job(job)"), 1, "job"),
        (rule("push(job)=look_up(job)"), 1, "--args 'look_up(job)'"),
        (("darc", "-f", "serve", *17 * RULE, trace), 2, "16 at most"),
        (("darc", "-f", "serve", *RULE, "--budget", "2%", "1"), 2, "not go with --budget"),
        (("darc", "-f", "serve", *RULE, "--resume", "file", "1"), 2, "not go with --resume"),
    ]:
        done = me.iprobe(*command)
        assert done.returncode == code and words in done.stderr, (command, done)
        assert not done.stdout and len(done.stderr.splitlines()) == 1, done
