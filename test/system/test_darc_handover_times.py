# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc --handover: what of a wait belongs to which call of the other thread, to the tick, in
traces that are made up.
"""

import json
import pathlib
import sys

import pytest

from conftest import make_actor
from iptest import memory

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tracegen  # noqa: E402

RULE = ("--handover", "push(job)=run_job(job)")


@pytest.fixture(name="me", scope="module")
def fixture_me(top, builddir):
    who = make_actor("root", top, builddir)
    yield who
    who.cleanup()


class Times:
    """300 calls of serve, of which one in ten is slow; 1 tick is 1 us. Two threads take turns in
    one time.
    """

    def __init__(self, other_first=False):
        self.trace = tracegen.Trace(hz=1_000_000)
        threads = self.trace.thread(), self.trace.thread(1)
        self.ours, self.other = reversed(threads) if other_first else threads
        self.job = self.trace.signature("p:job")

    def value(self, n):
        return (self.job, 0, [0x1000 + n])

    def push(self, n, thread=None):
        thread = thread or self.ours
        thread.call("push", values=self.value(n))
        self.trace.now += 2
        thread.ret()

    def requests(self, one):
        """one(number, slow): from behind the call of serve to before its return."""
        for i in range(300):
            self.ours.call("serve")
            self.trace.now += 5
            one(i, i % 10 == 3)
            self.trace.now += 1
            self.ours.ret()
            self.trace.now += 50

    def searched(self, me, *options):
        directory = self.trace.write(me.dir() / "trace")
        done = me.iprobe(
            "darc", "-f", "serve", "--slower-than", "1ms", "--json", *RULE, *options, directory
        )
        assert done.returncode == 0, repr(done)
        return json.loads(done.stdout)


def nodes_of(document):
    """{path: node}, where what is in another thread has a mark."""
    nodes, paths = {n["node"]: n for n in document["ftree"]}, {}
    for n in document["ftree"]:
        path, at = [], n
        while at:
            mark = {"queued": "?", "served": "!"}.get(at.get("handover"), "")
            path.insert(0, mark + at["function"])
            at = nodes.get(at["parent"])
        paths[" ".join(path)] = n
    return paths


def us(n, key="longest_ns"):
    return n[key] / 1000


def test_queued_and_served(me):
    """It waits for 40, is served for 3000 or 100, and its thread wakes up 7 later."""
    t = Times()

    def one(number, slow):
        t.push(number % 4)
        t.ours.call("wait_for")
        t.trace.now += 38
        t.other.call("run_job", values=t.value(number % 4))
        t.trace.now += 10
        t.other.call("look_up")
        t.trace.now += 2980 if slow else 80
        t.other.ret()
        t.trace.now += 10
        t.other.ret()
        t.trace.now += 7
        t.ours.ret()

    t.requests(one)
    nodes = nodes_of(t.searched(me))
    assert us(nodes["serve"]) == 5 + 2 + 38 + 3000 + 7 + 1
    wait = nodes["serve wait_for"]
    assert (us(wait), us(wait, "own_ns")) == (3045, 7)
    # push began 2 before the wait: that is no part of it
    assert us(nodes["serve wait_for ?run_job"]) == 38
    assert us(nodes["serve wait_for !run_job"]) == 3000
    assert us(nodes["serve wait_for !run_job"], "own_ns") == 20
    look_up = nodes["serve wait_for !run_job look_up"]
    assert (us(look_up), us(look_up, "usual_longest_ns")) == (2980, 80)
    assert look_up["root_cause"] and look_up["maxcount"] == 30


def test_begun_before_the_wait_and_not_over_behind_it(me):
    """Only what lies in the wait counts, in each call of the other thread."""
    t = Times()

    def one(number, slow):
        t.push(number % 4)
        t.other.call("run_job", values=t.value(number % 4))
        t.trace.now += 3
        t.other.call("early")
        t.trace.now += 4
        t.other.ret()
        t.other.call("look_up")
        t.trace.now += 6
        t.ours.call("wait_for")
        t.trace.now += 2000 if slow else 50
        t.other.ret()
        t.other.call("late")
        t.trace.now += 30
        t.ours.ret()  # it was woken by then
        t.trace.now += 20
        t.other.ret()
        t.other.ret()

    t.requests(one)
    nodes = nodes_of(t.searched(me))
    assert us(nodes["serve wait_for"]) == us(nodes["serve wait_for !run_job"]) == 2030
    assert us(nodes["serve wait_for"], "own_ns") == 0
    assert us(nodes["serve wait_for !run_job look_up"]) == 2000
    assert us(nodes["serve wait_for !run_job late"]) == 30
    assert "serve wait_for !run_job early" not in nodes
    assert "serve wait_for ?run_job" not in nodes


def test_several_objects(me):
    """All are waited for in one call, and values come again in other requests."""
    t = Times()

    def one(number, slow):
        for n in range(3):
            t.push(n)
        t.ours.call("wait_for")
        for n in range(3):
            t.other.call("run_job", values=t.value(n))
            t.other.call(f"step_{n}")
            t.trace.now += 1000 if slow and n == 1 else 500 if slow else 20
            t.other.ret()
            t.other.ret()
        t.ours.ret()

    t.requests(one)
    document = t.searched(me)
    nodes = nodes_of(document)
    run_job = nodes["serve wait_for !run_job"]
    assert (run_job["calls"], us(run_job), us(run_job, "sum_ns")) == (3, 1000, 2000)
    assert "serve wait_for ?run_job" not in nodes and us(nodes["serve wait_for"], "own_ns") == 0
    (path,) = document["paths"]
    assert path["path"] == ["serve", "wait_for", "run_job", "step_1"]


def test_several_objects_at_once(me):
    """Two threads serve: what is served while another one is, that ends later, is not waited for.
    The second thread is in another's job at first.
    """
    t = Times()
    third = t.trace.thread(2)

    def one(number, slow):
        t.push(0)
        t.push(1)
        third.call("run_job", values=t.value(99))
        t.ours.call("wait_for")
        t.other.call("run_job", values=t.value(0))
        t.other.call("early")
        t.trace.now += 300
        third.ret()
        t.trace.now += 5
        third.call("run_job", values=t.value(1))
        third.call("late")
        t.trace.now += 400
        t.other.ret()
        t.other.ret()
        t.trace.now += 3000 if slow else 10
        third.ret()
        third.ret()
        t.ours.ret()

    t.requests(one)
    nodes = nodes_of(t.searched(me))
    assert us(nodes["serve wait_for"]) == 3705
    assert us(nodes["serve wait_for !run_job"]) == 3400
    # "early" is waited for until "late" has begun
    assert us(nodes["serve wait_for !run_job"], "sum_ns") == 3705
    assert us(nodes["serve wait_for"], "own_ns") == 0
    assert us(nodes["serve wait_for !run_job late"]) == 3400


@pytest.mark.parametrize("first", [False, True], ids=["ours first", "other first"])
def test_queued_while_nothing_is_served(me, first):
    """The thread that serves wakes up late, or does what was not recorded; and a call of it was
    open before.
    """
    t = Times(first)
    t.other.call("work")

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        t.trace.now += 2000 if slow else 20
        t.other.call("run_job", values=t.value(number))
        t.trace.now += 30
        t.other.ret()
        t.ours.ret()

    t.requests(one)
    document = t.searched(me)
    nodes = nodes_of(document)
    assert us(nodes["serve wait_for ?run_job"]) == 2000
    assert us(nodes["serve wait_for ?run_job work"]) == 2000
    assert us(nodes["serve wait_for ?run_job work"], "own_ns") == 2000
    (path,) = document["paths"]
    assert path["path"] == ["serve", "wait_for", "run_job", "work"]


def test_queued_without_a_call(me):
    t = Times()

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        t.trace.now += 2000 if slow else 20
        t.other.call("run_job", values=t.value(number))
        t.trace.now += 30
        t.other.ret()
        t.ours.ret()

    t.requests(one)
    (path,) = t.searched(me)["paths"]
    assert path["path"] == ["serve", "wait_for", "run_job"] and path["cause"]["kind"] == "queued"


@pytest.mark.parametrize("what", ["in the same thread", "not waited for", "of another value"])
def test_what_is_none(me, what):
    t = Times()
    # so that each function has its value
    t.other.call("run_job", values=t.value(77))
    t.trace.now += 1
    t.other.ret()

    def one(number, slow):
        length = 3000 if slow else 100
        if what == "of another value":
            t.push(number)
            t.ours.call("wait_for")
            t.other.call("run_job", values=t.value(number + 1000))
            t.trace.now += length
            t.other.ret()
            t.ours.ret()
            return
        t.push(1)
        thread = t.ours if what == "in the same thread" else t.other
        thread.call("run_job", values=t.value(1))
        t.ours.call("wait_for")
        t.trace.now += length
        if what == "in the same thread":
            t.ours.ret()
            t.ours.ret()
            return
        # the other thread takes far longer: that is not what this one waits for
        t.ours.ret()
        t.trace.now += 1
        t.ours.call("rest")
        t.trace.now += 2
        t.ours.ret()

    if what == "not waited for":
        for i in range(300):
            t.ours.call("serve")
            one(i, i % 10 == 3)
            t.ours.ret()
            t.trace.now += 9000
            t.other.ret()
    else:
        t.requests(one)
    document = t.searched(me)
    assert document["state"] == "root cause found"
    assert not [n for n in document["ftree"] if "handover" in n], document["ftree"]


def test_given_before_the_operation(me):
    """What a thread has handed over before, it waits for in a call that only waits."""
    t = Times()
    for number in range(300):
        slow = number % 10 == 3
        t.push(number % 4)
        t.trace.now += 10
        t.other.call("run_job", values=t.value(number % 4))
        t.trace.now += 5
        t.ours.call("serve")
        t.ours.call("wait_for")
        t.other.call("look_up")
        t.trace.now += 3000 if slow else 100
        t.other.ret()
        t.other.ret()
        t.ours.ret()
        t.trace.now += 3
        t.ours.ret()
        t.trace.now += 50
    document = t.searched(me)
    nodes = nodes_of(document)
    assert us(nodes["serve wait_for !run_job"]) == us(nodes["serve wait_for"]) == 3000
    (path,) = document["paths"]
    assert path["path"] == ["serve", "wait_for", "run_job", "look_up"]


def test_what_nobody_waits_for_takes_no_memory(me):
    """Each operation hands an object over that is served far later, when they are all over."""
    t = Times()
    for number in range(2500):
        t.ours.call("serve")
        t.push(number)
        t.trace.now += 2000 if number % 10 == 3 else 20
        t.ours.ret()
        t.trace.now += 5
    for number in range(2500):
        t.other.call("run_job", values=t.value(number))
        t.trace.now += 1
        t.other.ret()
    directory = t.trace.write(me.dir() / "trace")
    said, kilobytes = memory.peak_of(
        me,
        [me.iprobe_path, "darc", "-f", "serve", "--slower-than", "1ms", "--json", *RULE, directory],
    )
    document = json.loads(said)
    assert document["state"] == "root cause found"
    assert not [n for n in document["ftree"] if "handover" in n]
    assert kilobytes < 100 << 10, kilobytes


def test_served_by_a_coroutine(me):
    """It is left while another one runs, and goes on: its calls behind that are its own."""
    t = Times()

    def one(number, slow):
        t.push(number % 4)
        t.ours.call("wait_for")
        t.other.call("run_job", values=t.value(number % 4))
        t.other.call("begin")
        t.trace.now += 10
        t.other.ret()
        t.other.switch("second", top=0x7F0000100000)
        t.other.call("others")
        t.trace.now += 20
        t.other.ret()
        t.other.switch("main")
        t.other.call("look_up")
        t.trace.now += 3000 if slow else 100
        t.other.ret()
        t.other.ret()
        t.ours.ret()

    t.requests(one)
    (path,) = t.searched(me)["paths"]
    assert path["path"][-1] == "look_up", path


def test_served_by_a_call_that_has_no_end(me):
    """The thread ends in it."""
    t = Times()

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        other = t.trace.thread(10 + number)
        other.call("run_job", values=t.value(number))
        other.call("look_up")
        t.trace.now += 3000 if slow else 100
        other.die()
        t.ours.ret()

    t.requests(one)
    nodes = nodes_of(t.searched(me))
    assert us(nodes["serve wait_for !run_job look_up"]) == pytest.approx(3000, abs=2)
