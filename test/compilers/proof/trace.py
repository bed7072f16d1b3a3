# SPDX-License-Identifier: Apache-2.0
"""A trace held against what its program knows of itself (programs/calls.h)."""

import collections
import json

from iptest import trees

Calls = collections.namedtuple("Calls", "exact count left")


def qualified(name):
    """A demangled name without argument lists, template arguments and return type."""
    out, depth = [], 0
    for c in name.replace("operator()", "operator-call").replace(
        "(anonymous namespace)", "anonymous"
    ):
        if c in "(<[":
            depth += 1
        elif c in ")>]":
            depth -= 1
        elif depth == 0:
            out.append(c)
    name = "".join(out).split(" const")[0].split(" clone")[0].strip()
    return name.split(" ")[-1]


def is_thunk(name):
    """A function of the compiler's, called like the one that it leads to."""
    return " thunk to " in name


def short(name):
    """The last part of it; what compilers append to the names of nested and cloned functions is
    gone.
    """
    return qualified(name).rsplit("::", 1)[-1].split(".")[0]


def of_library(name):
    """No function that a program of ours counts."""
    return is_thunk(name) or qualified(name).startswith(("std::", "__gnu_cxx::", "operator"))


def program_calls(output):
    """{name: Calls} of the lines that calls_print() printed; functions of one name count
    together.
    """
    found = {}
    for line in output.splitlines():
        if line.startswith("calls "):
            _, how, name, count, left = line.split()
            name = short(name)
            old = found.get(name, Calls(True, 0, 0))
            found[name] = Calls(
                old.exact and how == "exactly", old.count + int(count), old.left + int(left)
            )
    return found


def comparable(output):
    """A program's output: its counts come in the order of first calls, which threads make at
    random.
    """
    lines = output.splitlines()
    return (
        [line for line in lines if not line.startswith("calls ")],
        sorted(line for line in lines if line.startswith("calls ")),
    )


class Trace:
    """missing: linker names of functions that have a site which is never live; they are not
    looked at.
    """

    def __init__(self, dump, missing=()):
        self.entries, self.exits = collections.Counter(), collections.Counter()
        self.again = collections.Counter()
        self.threads = {}
        self.missing = set()
        for line in dump.splitlines():
            event = json.loads(line)
            assert event["event"] in ("entry", "exit"), line
            name = event["function"]
            if event.get("linker_name", name) in missing:
                self.missing.add(name)
            self.threads.setdefault(event["tid"], []).append(
                trees.Step(event["event"], name, event["depth"])
            )
            (self.entries if event["event"] == "entry" else self.exits)[name] += 1
            if event.get("again"):
                assert event["event"] == "entry" and self.entries[name] > self.again[name] + 1, line
                self.again[name] += 1

    def counted(self, counter):
        found = collections.Counter()
        for name, n in counter.items():
            if not of_library(name):
                found[short(name)] += n
        return found

    def check_balance(self, calls, quiet_unwinding):
        """
        Each exit closes the frame on top; an entry without an exit was left by a jump or an
        exception, ended the process, or is one "again": a jump within a chain of tail calls back
        to a member of it, whose call ends with it. quiet_unwinding: the placement has no exits
        while an exception unwinds, so frames of libraries, too, may be left like that.
        """
        for tid, steps in self.threads.items():
            if not self.missing:
                trees.assert_consistent(steps, f"thread {tid}")
        entries, exits = self.counted(self.entries - self.again), self.counted(self.exits)
        known = {short(name) for name in self.missing}
        for name in (entries | exits).keys() - known:
            left = calls[name].left if name in calls else 0
            assert 0 <= entries[name] - exits[name] <= left, (
                f"{name}: {entries[name]} entries, {exits[name]} exits, "
                f"the program left it {left} times"
            )
        for name in (self.entries | self.exits).keys() - self.missing:
            if of_library(name):
                entered, ended = self.entries[name] - self.again[name], self.exits[name]
                assert ended == entered or (
                    quiet_unwinding and ended < entered
                ), f"{name}: {entered} entries, {ended} exits"

    def check_calls(self, calls, sees_inlined, unnamed=()):
        """The trace has as many entries of each function as the program counted, but for names
        that are not told apart.
        """
        entries = self.counted(self.entries)
        for name, want in calls.items():
            have = entries[name]
            if name in unnamed or name in {short(n) for n in self.missing}:
                continue
            if want.exact or sees_inlined:
                assert (
                    have == want.count
                ), f"{name}: {have} entries recorded, {want.count} calls counted"
            else:
                assert (
                    have <= want.count
                ), f"{name}: {have} entries recorded, {want.count} calls counted"
