# SPDX-License-Identifier: Apache-2.0
"""
The XML analysis for Trace Compass: what it names is what our metadata has, and run here over
what babeltrace2 reads of a recording, as Trace Compass would, it says the same as iprobe dump.
Trace Compass itself is in no package.
"""

import collections
import json
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest

ANALYSIS = pathlib.Path(__file__).resolve().parents[2] / "analysis" / "export" / "tracecompass.xml"


@pytest.fixture
def recording(me, programs):
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run", "-q", "-o", directory, "--", programs.simple("count"), "-t", 2, "-n", 300
    )
    assert done.returncode == 0, repr(done)
    return directory


class Analysis:
    """The parts of the language that ours is written in; anything else is an error."""

    def __init__(self):
        self.root = xml.parse(ANALYSIS).getroot()
        self.locations = {l.get("id"): list(l) for l in self.root.iter("location")}
        self.actions = {a.get("id"): list(a) for a in self.root.iter("action")}
        (self.fsm,) = self.root.iter("fsm")
        (state,) = self.fsm
        assert self.fsm.get("initial") == state.get("id") and self.fsm.get("multiple") == "false"
        (handler,) = self.root.iter("patternHandler")
        assert handler.get("initial") == self.fsm.get("id")
        self.transitions = {t.get("event"): t.get("action") for t in state}
        assert {t.get("target") for t in state} == {state.get("id")}
        self.values, self.stacks, self.scripts = {}, collections.defaultdict(list), 0

    def path(self, attributes, event):
        way = ()
        for attribute in attributes:
            kind, value = attribute.get("type"), attribute.get("value")
            if kind == "location":
                way += self.path(self.locations[value], event)
            else:
                way += ({"constant": lambda v: v, "eventField": lambda v: event[v]}[kind](value),)
        return way

    def value(self, element, event):
        kind = element.get("type")
        if kind == "query":
            return self.values.get(self.path(element, event))
        if kind == "script":
            (part,) = element
            assert (
                element.get("value") == f"String({part.get('id')})"
                and part.get("type") == "eventField"
            )
            self.scripts += 1
            return str(event[part.get("value")])
        assert kind == "null"
        return None

    def change(self, element, event):
        if element.find("if") is not None:
            (condition,) = element.find("if")
            attribute, wanted = condition
            if self.values.get(self.path([attribute], event)) == self.value(wanted, event):
                self.change(element.find("then"), event)
            return
        *attributes, value = element
        way = self.path(attributes, event)
        if value.get("stack") == "push":
            self.stacks[way].append(self.value(value, event))
        elif value.get("stack") == "pop":
            self.stacks[way].pop()
        else:
            assert value.get("stack") is None
            self.values[way] = self.value(value, event)

    def feed(self, event):
        for change in self.actions.get(self.transitions.get(event["name"]), []):
            self.change(change, event)


def test_names_are_those_of_the_metadata(recording):
    text = (recording / "metadata").read_text()
    analysis = Analysis()
    assert (
        set(analysis.transitions) <= set(re.findall(r'event \{ name = "(\w+)"', text))
        and len(analysis.transitions) == 2
    )
    context = re.search(r"event\.context := struct \{ (.*?) \};", text)[1]
    fields = {
        f"context.{declared.split()[-1]}" for declared in context.split(";") if declared.strip()
    }
    used = {e.get("value") for e in analysis.root.iter() if e.get("type") == "eventField"}
    assert (
        used == {"Channel", "context.probe"} and used - {"Channel"} <= fields
    )  # Channel: the stream's file, a column of Trace Compass's own
    assert "enum probe probe;" in context


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="babeltrace2 is not installed")
def test_stacks_are_those_of_dump(me, recording):
    """Each stream by itself: its lines are in order, and its name is what Trace Compass has as
    the channel.
    """
    analysis, seen = Analysis(), collections.Counter()
    for stream in sorted(recording.glob("stream-*")):
        alone = me.dir() / "alone"
        alone.mkdir()
        for path in (recording / "metadata", stream):
            shutil.copy(path, alone / path.name)
        done = subprocess.run(
            ["babeltrace2", "--fields=trace:vpid", alone],
            capture_output=True,
            text=True,
            check=True,
        )
        for line in done.stdout.splitlines():
            name, label = re.search(r" (\w+): .*?\bprobe = \( \"([^\"]*)\"", line).groups()
            analysis.feed({"name": name, "Channel": stream.name, "context.probe": label})
            stack = analysis.stacks["threads", stream.name, "CallStack"]
            if name == "func_entry":
                assert stack[-1] == label
                seen[len(stack) - 1, label.rsplit(":", 1)[1]] += 1
    lines = [
        json.loads(line) for line in me.iprobe("dump", "--json", recording).stdout.splitlines()
    ]
    assert (
        seen
        == collections.Counter((l["depth"], l["function"]) for l in lines if l["event"] == "entry")
        and seen
    )
    assert analysis.scripts == len({function for _, function in seen}), "once for each function"
