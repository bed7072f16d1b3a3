# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc --handover where who serves hands work over in turn: what of a wait belongs to which
hop, to the tick, in traces that are made up.
"""

import json

import pytest
from iptest import memory
from test_darc_handover_times import Times, fixture_me, nodes_of, us  # noqa: F401

FIRST = "push(job)=run_job(job)"
SECOND = "forward(job)=write_out(job)"


def rules(*texts):
    return [word for text in texts for word in ("--handover", text)]


class Hops(Times):
    """With a thread that serves what the first one that serves hands over."""

    def __init__(self):
        super().__init__()
        self.third = self.trace.thread(2)

    def forward(self, n, thread=None):
        thread = thread or self.other
        thread.call("forward", values=self.value(n))
        self.trace.now += 2
        thread.ret()

    def searched(self, me, *options):
        directory = self.trace.write(me.dir() / "trace")
        done = me.iprobe(
            "darc", "-f", "serve", "--slower-than", "1ms", "--json", *options, directory
        )
        assert done.returncode == 0 and not done.stderr, repr(done)
        return json.loads(done.stdout)


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("other_object", [False, True])
def test_served_one_after_the_other(me, other_object, goes_on):
    """The first one hands over and does something else, which nobody waits for."""
    t = Hops()

    def one(number, slow):
        second = number % 4 + (100 if other_object else 0)
        t.push(number % 4)
        t.ours.call("wait_for")
        t.trace.now += 38
        t.other.call("run_job", values=t.value(number % 4))
        t.trace.now += 10
        t.forward(second)
        t.other.call("rest")
        t.trace.now += 15
        if not goes_on:
            t.other.ret()
            t.other.ret()
        t.trace.now += 5
        t.third.call("write_out", values=t.value(second))
        t.third.call("write")
        t.trace.now += 2980 if slow else 80
        t.third.ret()
        t.trace.now += 20
        t.third.ret()
        t.trace.now += 7
        t.ours.ret()

    for number in range(300):
        t.ours.call("serve")
        one(number, number % 10 == 3)
        t.ours.ret()
        t.trace.now += 5000
        if goes_on:
            t.other.ret()
            t.other.ret()
    document = t.searched(me, *rules(FIRST, SECOND))
    nodes = nodes_of(document)
    wait = nodes["serve wait_for"]
    assert (us(wait), us(wait, "own_ns")) == (38 + 12 + 20 + 3000 + 7, 7)
    assert us(nodes["serve wait_for ?run_job"]) == 38
    assert us(nodes["serve wait_for !run_job"]) == 12
    assert "serve wait_for !run_job rest" not in nodes
    assert us(nodes["serve wait_for ?write_out"]) == 20
    second = nodes["serve wait_for !write_out"]
    assert (us(second), us(second, "own_ns")) == (3000, 20)
    (path,) = document["paths"]
    assert path["path"] == ["serve", "wait_for", "write_out", "write"]


def test_slow_before_it_is_handed_over(me):
    t = Hops()

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        t.other.call("run_job", values=t.value(number))
        t.other.call("parse")
        t.trace.now += 2500 if slow else 30
        t.other.ret()
        t.forward(number)
        t.other.ret()
        t.third.call("write_out", values=t.value(number))
        t.trace.now += 40
        t.third.ret()
        t.ours.ret()

    t.requests(one)
    (path,) = t.searched(me, *rules(FIRST, SECOND))["paths"]
    assert path["path"] == ["serve", "wait_for", "run_job", "parse"]


@pytest.mark.parametrize("slow_part", ["queued", "served"])
def test_who_serves_waits(me, slow_part):
    """The wait within the serving is told apart as that of F0 is."""
    t = Hops()

    def one(number, slow):
        t.push(number % 4)
        t.ours.call("wait_for")
        t.trace.now += 4
        t.other.call("run_job", values=t.value(number % 4))
        t.trace.now += 10
        t.forward(number % 4)
        t.other.call("wait_again")
        t.third.call("chore")
        t.trace.now += 2000 if slow and slow_part == "queued" else 11
        t.third.ret()
        t.third.call("write_out", values=t.value(number % 4))
        t.third.call("write")
        t.trace.now += 2000 if slow and slow_part == "served" else 33
        t.third.ret()
        t.third.ret()
        t.trace.now += 5
        t.other.ret()
        t.trace.now += 6
        t.other.ret()
        t.trace.now += 7
        t.ours.ret()

    t.requests(one)
    document = t.searched(me, *rules(FIRST, SECOND))
    nodes = nodes_of(document)
    queued, served = (2000, 33) if slow_part == "queued" else (11, 2000)
    first = nodes["serve wait_for !run_job"]
    assert us(first) == 10 + 2 + queued + served + 5 + 6
    again = nodes["serve wait_for !run_job wait_again"]
    assert (us(again), us(again, "own_ns")) == (queued + served + 5, 5)
    assert us(nodes["serve wait_for !run_job wait_again ?write_out"]) == queued
    assert us(nodes["serve wait_for !run_job wait_again !write_out"]) == served
    assert not [path for path in nodes if path.startswith("serve wait_for !write_out")]
    (path,) = document["paths"]
    assert path["path"] == ["serve", "wait_for", "run_job", "wait_again", "write_out"] + (
        ["chore"] if slow_part == "queued" else ["write"]
    )


def test_four_hops(me):
    """Each thread waits for the next one; the search goes on in all of them."""
    t = Hops()
    threads = [t.ours, t.other, t.third, t.trace.thread(3), t.trace.thread(4)]

    def one(number, slow):
        for i, thread in enumerate(threads[:-1]):
            thread.call(f"push_{i}", values=t.value(number))
            t.trace.now += 1
            thread.ret()
            thread.call(f"wait_{i}")
            t.trace.now += 3
            threads[i + 1].call(f"run_{i}", values=t.value(number))
            t.trace.now += 2
        threads[-1].call("look_up")
        t.trace.now += 3000 if slow else 100
        threads[-1].ret()
        for i, thread in reversed(list(enumerate(threads[:-1]))):
            threads[i + 1].ret()
            t.trace.now += 1
            thread.ret()

    t.requests(one)
    options = rules(*(f"push_{i}(job)=run_{i}(job)" for i in range(4)))
    document = t.searched(me, *options)
    nodes, path = nodes_of(document), "serve"
    length = 3000 + 4 * (1 + 1 + 3 + 2) + 6
    for i in range(4):
        path += f" wait_{i}"
        length -= 1 if i else 7
        assert us(nodes[f"{path} ?run_{i}"]) == 3
        assert us(nodes[path], "own_ns") == 1
        path += f" !run_{i}"
        assert us(nodes[path]) == us(nodes[path[: path.rindex(" ")]]) - 4
    assert us(nodes[f"{path} look_up"]) == 3000
    (found,) = document["paths"]
    assert found["path"][-2:] == ["run_3", "look_up"] and len(found["path"]) == 10
    # the last rule is missing: there it ends
    (found,) = t.searched(me, *options[:-2])["paths"]
    assert found["path"][-2:] == ["run_2", "wait_3"], found


def test_the_call_that_serves_hands_over(me):
    """When it does so is not known: at its end, or when that is served."""
    t = Hops()

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        t.other.call("run_job", values=t.value(number))
        t.trace.now += 9
        if number % 2:
            t.other.ret()
            t.trace.now += 6
        t.third.call("write_out", values=t.value(number))
        t.trace.now += 3000 if slow else 100
        if not number % 2:
            t.other.ret()
        t.third.ret()
        t.ours.ret()

    t.requests(one)
    document = t.searched(me, *rules(FIRST, "run_job(job)=write_out(job)"))
    nodes = nodes_of(document)
    assert us(nodes["serve wait_for !run_job"]) == 9
    assert us(nodes["serve wait_for !write_out"]) == 3000
    assert us(nodes["serve wait_for"], "own_ns") == 0
    # all slow ones are odd
    assert us(nodes["serve wait_for ?write_out"]) == 6


def test_handed_over_behind_the_call(me):
    """As a worker's loop does, with the same object."""
    t = Hops()

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        t.other.call("run_job", values=t.value(number))
        t.trace.now += 20
        t.other.ret()
        t.trace.now += 4
        t.forward(number)
        t.trace.now += 8
        t.third.call("write_out", values=t.value(number))
        t.trace.now += 3000 if slow else 100
        t.third.ret()
        t.ours.ret()

    t.requests(one)
    nodes = nodes_of(t.searched(me, *rules(FIRST, SECOND)))
    assert us(nodes["serve wait_for !run_job"]) == 20
    # from the begin of the call that hands over
    assert us(nodes["serve wait_for ?write_out"]) == 2 + 8
    assert us(nodes["serve wait_for !write_out"]) == 3000
    assert us(nodes["serve wait_for"], "own_ns") == 4


def test_one_thread_serves_both(me):
    """A pool of one: it goes on with something else before it takes what it has handed over."""
    t = Hops()

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        t.other.call("run_job", values=t.value(number))
        t.forward(number)
        t.other.call("rest")
        t.trace.now += 2000 if slow else 20
        t.other.ret()
        t.other.ret()
        t.other.call("write_out", values=t.value(number))
        t.trace.now += 90
        t.other.ret()
        t.ours.ret()

    t.requests(one)
    document = t.searched(me, *rules(FIRST, SECOND))
    nodes = nodes_of(document)
    assert us(nodes["serve wait_for !write_out"]) == 90
    assert us(nodes["serve wait_for !run_job"]) == 2
    assert us(nodes["serve wait_for ?write_out run_job rest"]) == 2000
    (path,) = document["paths"]
    assert path["path"] == ["serve", "wait_for", "write_out", "run_job", "rest"]


def test_two_objects_of_one_serving(me):
    """What was handed over later could not be served earlier, whatever else was."""
    t = Hops()
    fourth = t.trace.thread(3)

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        t.other.call("run_job", values=t.value(number))
        t.trace.now += 10
        t.forward(1000 + number)
        t.third.call("write_out", values=t.value(1000 + number))
        t.trace.now += 30
        t.third.ret()
        t.other.call("slow_part")
        t.trace.now += 2000 if slow else 20
        t.other.ret()
        t.forward(2000 + number)
        t.other.ret()
        t.trace.now += 8
        fourth.call("write_out", values=t.value(2000 + number))
        t.trace.now += 50
        fourth.ret()
        t.ours.ret()

    t.requests(one)
    nodes = nodes_of(t.searched(me, *rules(FIRST, SECOND)))
    first, second = nodes["serve wait_for !run_job"], nodes["serve wait_for !write_out"]
    assert us(first) == 10 + 2 + 30 + 2000 + 2
    assert us(nodes["serve wait_for ?write_out"]) == 8
    assert (us(second), second["calls"]) == (50, 1)
    assert us(nodes["serve wait_for"], "own_ns") == 0


def test_who_serves_waits_for_another_request(me):
    """An object waits while the thread that serves waits for what another thread has asked for."""
    t = Hops()
    fourth = t.trace.thread(3)

    def one(number, slow):
        fourth.call("push", values=t.value(500))
        t.trace.now += 1
        fourth.ret()
        t.push(number)
        t.ours.call("wait_for")
        t.trace.now += 2
        t.other.call("run_job", values=t.value(500))
        t.trace.now += 3
        t.forward(500)
        t.other.call("wait_again")
        t.third.call("write_out", values=t.value(500))
        t.trace.now += 2000 if slow else 30
        t.third.ret()
        t.other.ret()
        t.other.ret()
        t.trace.now += 4
        t.other.call("run_job", values=t.value(number))
        t.trace.now += 60
        t.other.ret()
        t.ours.ret()

    t.requests(one)
    document = t.searched(me, *rules(FIRST, SECOND))
    nodes = nodes_of(document)
    assert us(nodes["serve wait_for ?run_job"]) == 2 + 3 + 2 + 2000 + 4
    assert us(nodes["serve wait_for ?run_job run_job wait_again !write_out"]) == 2000
    (path,) = document["paths"]
    assert path["path"] == ["serve", "wait_for", "run_job", "run_job", "wait_again", "write_out"]


def test_only_the_part_that_is_waited_for(me):
    """Who serves waits for long before F0's thread does."""
    t = Hops()

    def one(number, slow):
        t.push(number)
        t.other.call("run_job", values=t.value(number))
        t.forward(number)
        t.other.call("wait_again")
        t.third.call("write_out", values=t.value(number))
        t.third.call("early")
        t.trace.now += 300
        t.third.ret()
        t.third.call("write")
        t.trace.now += 50
        t.ours.call("wait_for")
        t.trace.now += 2000 if slow else 70
        t.third.ret()
        t.third.ret()
        t.other.ret()
        t.other.ret()
        t.ours.ret()

    t.requests(one)
    nodes = nodes_of(t.searched(me, *rules(FIRST, SECOND)))
    path = "serve wait_for !run_job wait_again !write_out"
    assert us(nodes["serve wait_for"]) == us(nodes[path]) == us(nodes[f"{path} write"]) == 2000
    assert f"{path} early" not in nodes
    assert not [path for path in nodes if "?" in path]


@pytest.mark.parametrize("around", [True, False])
def test_points_in_a_loop(me, around):
    """Each one ends what the one before it in the same call has served; also where that call began
    before the recording.
    """
    t = Hops()
    if around:
        t.other.call("work")
    t.trace.now += 1

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        t.trace.now += 10
        t.other.point("taken", values=t.value(number))
        t.other.call("look_up")
        t.trace.now += 2000 if slow else 20
        t.other.ret()
        t.ours.ret()

    t.requests(one)
    document = t.searched(me, *rules("push(job)=taken(job)"))
    nodes = nodes_of(document)
    assert us(nodes["serve wait_for ?taken"]) == 10
    assert us(nodes["serve wait_for !taken look_up"]) == 2000
    assert nodes["serve wait_for !taken"]["calls"] == 1


def test_a_point_in_a_call_that_is_not_known(me):
    """The recording begins within the first call around the point. What is served ends where the
    point comes again, though there it has a call around it.
    """
    t = Hops()

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        t.trace.now += 10
        if number:
            t.other.call("take")
        t.other.point("taken", values=t.value(number))
        if number:
            t.other.ret()
        t.forward(number)
        t.trace.now += 5
        t.third.call("write_out", values=t.value(number))
        t.trace.now += 2000 if slow else 20
        t.third.ret()
        t.ours.ret()

    t.requests(one)
    nodes = nodes_of(t.searched(me, *rules("push(job)=taken(job)", SECOND)))
    # take() had served it, in no time, when it was handed over
    assert us(nodes["serve wait_for ?write_out"]) == 2 + 5
    assert not [path for path in nodes if path.endswith("!taken")], nodes


def test_no_end_of_hops(me):
    """Two threads that serve one another at the same time, by what the trace says."""
    t = Hops()

    def one(number, slow):
        t.push(number)
        t.ours.call("wait_for")
        t.other.call("run_job", values=t.value(number))
        for _ in range(3):
            t.other.call("there", values=t.value(7))
            t.third.call("back", values=t.value(7))
        t.other.call("hold")
        t.third.call("hold")
        t.trace.now += 2000 if slow else 20
        for _ in range(4):
            t.other.ret()
            t.third.ret()
            t.trace.now += 1 if number % 2 else 0
        t.other.ret()
        t.ours.ret()

    t.requests(one)
    document = t.searched(
        me, *rules(FIRST, "there(job)=back(job)", "back(job)=there(job)")
    )
    nodes = nodes_of(document)
    assert us(nodes["serve wait_for !run_job"]) >= 2000
    # no thread serves one that it waits for
    assert not [path for path in nodes if path.count("!there") > 1 or path.count("!back") > 1]


def test_what_nobody_waits_for_takes_no_memory(me):
    """Each operation's object is handed on twice, and served when the operations are over; and one
    thread waits for long in what nobody waits for.
    """
    t = Hops()
    t.third.call("write_out", values=t.value(1))
    for number in range(2500):
        t.ours.call("serve")
        t.push(number)
        t.other.call("run_job", values=t.value(number))
        t.forward(number)
        t.other.ret()
        t.trace.now += 2000 if number % 10 == 3 else 20
        t.ours.ret()
        t.trace.now += 5
    t.third.ret()
    for number in range(2500):
        t.third.call("write_out", values=t.value(number))
        for _ in range(20):
            t.third.call("write")
            t.trace.now += 1
            t.third.ret()
        t.third.ret()
    directory = t.trace.write(me.dir() / "trace")
    said, kilobytes = memory.peak_of(
        me,
        [
            *(me.iprobe_path, "darc", "-f", "serve", "--slower-than", "1ms", "--json"),
            *(*rules(FIRST, SECOND), directory),
        ],
    )
    document = json.loads(said)
    assert document["state"] == "root cause found"
    assert not [n for n in document["ftree"] if "handover" in n]
    assert kilobytes < 100 << 10, kilobytes


def test_one_long_serving_for_many(me):
    """What lasts as long as 2500 operations that wait for parts of it is kept once, as far as each
    waits.
    """
    t = Hops()
    t.push(1)
    t.other.call("run_job", values=t.value(1))
    for number in range(2500):
        t.ours.call("serve")
        t.ours.call("wait_for")
        for _ in range(20):
            t.other.call("step")
            t.trace.now += 100 if number % 10 == 3 else 2
            t.other.ret()
        t.ours.ret()
        t.ours.ret()
        t.trace.now += 5
    t.other.ret()
    directory = t.trace.write(me.dir() / "trace")
    _, kilobytes = memory.peak_of(
        me,
        [
            *(me.iprobe_path, "darc", "-f", "serve", "--slower-than", "1ms", "--json"),
            *(*rules(FIRST), directory),
        ],
    )
    assert kilobytes < 100 << 10, kilobytes
