# SPDX-License-Identifier: Apache-2.0
"""What the tests of ./check came to: counts, what failed ones said, and what to make of the whole.

Results are read from the JUnit files of test runners. A stage without one is one test.
"""

import json
import os
import re
import xml.etree.ElementTree as ElementTree

MOST_UNSTEADY = 3  # tests that pass only at their second try, in one run
MOST_SKIPPED = 0.02  # of all tests of a whole run
UNSTEADY_LIST = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "test", "UNSTEADY.md"
)
SAID_LINES, SAID_COLUMNS = 15, 240  # of what a failed test said
SLOWEST = 15  # files of tests that are named


class Result:
    """notes: what is to be told of tests; said: the end of what a failed one said, by its note;
    names: its name alone.
    """

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.notes = []
        self.said = {}
        self.names = {}

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.notes += other.notes
        self.said.update(other.said)

    def fail(self, note, said="", name=None):
        self.failed += 1
        note = "FAILED  " + note
        self.notes.append(note)
        self.said[note] = "\n".join(filter(None, [self.said.get(note), said]))
        self.names[note] = name

    def skip(self, note):
        self.skipped += 1
        self.notes.append("skipped " + note)


def end_of(text):
    """The last lines of it that are not empty, none of them endless."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(line[:SAID_COLUMNS] for line in lines[-SAID_LINES:])


def unmarked_failures(path):
    """What meson's other file knows: a test that timed out stands in the JUnit file as if it had
    passed. Name -> what became of it.
    """
    found = {}
    if path.endswith(".junit.xml"):
        try:
            with open(
                path.replace(".junit.xml", ".json"), encoding="utf-8", errors="replace"
            ) as log:
                for line in log:
                    test = json.loads(line)
                    if test["result"] not in ("OK", "EXPECTEDFAIL", "SKIP"):
                        found[test["name"]] = test["result"]
        except (OSError, ValueError, KeyError):
            pass
    return found


def words_of(case, marks):
    """What a test case that failed said: the runner's account of it, else its output."""
    texts = [mark.text or mark.get("message") or "" for mark in marks]
    if not any(texts):
        texts += [case.findtext("system-out") or "", case.findtext("system-err") or ""]
    return end_of("\n".join(texts))


def read_junit(path, stage, result):
    """Counts the test cases of a JUnit file; False where it cannot be read or is empty."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return False
    cases = list(root.iter("testcase"))
    unmarked = unmarked_failures(path)
    for case in cases:
        name = f"{stage}: {case.get('classname', '')}.{case.get('name', '')}".replace(": .", ": ")
        skipped = case.find("skipped")
        marks = case.findall("failure") + case.findall("error")
        became = unmarked.get(case.get("name")) if not marks else None
        if marks or became:
            said = words_of(case, marks)
            result.fail(name, end_of(f"{said}\n({became})") if became else said, case.get("name"))
        elif skipped is not None:
            result.skip(f"{name}: {skipped.get('message') or skipped.text or 'no reason given'}")
        else:
            result.passed += 1
    return bool(cases)


def slowest_files(path):
    """Lines of the files of tests that took longest: seconds, tests, file."""
    took = {}
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return []
    for case in cases:
        parts = case.get("classname", "").split(".")
        file = next((part for part in reversed(parts) if part.startswith("test_")), None)
        if file:
            seconds, tests = took.get(file, (0, 0))
            took[file] = (seconds + float(case.get("time") or 0), tests + 1)
    slowest = sorted(took.items(), key=lambda item: -item[1][0])[:SLOWEST]
    return [f"{seconds:7.1f} s  {tests:4} tests  {file}" for file, (seconds, tests) in slowest]


def count_exit(stage, code, said, result):
    """A stage that is one test."""
    if code == 0:
        result.passed += 1
    elif code == 77:
        result.skip(f"{stage.name}: see its output")
    elif code is None:
        result.fail(f"{stage.name}: no end after {stage.timeout} s", said)
    else:
        result.fail(f"{stage.name}: exit code {code}", said)


def base_name(note):
    """Of the test that a note is of, without its module and its parameters: what UNSTEADY.md
    names.
    """
    return note.split(": ", 1)[-1].split("[")[0].rsplit(".", 1)[-1]


def judge_unsteady(result):
    """Whoever passes at a second try only must be known, and such tests must be few."""
    unsteady = [note for note in result.notes if note.startswith("unsteady ")]
    try:
        with open(UNSTEADY_LIST, encoding="utf-8") as file:
            known = set(re.findall(r"`[^`]*?(\w+)`", file.read()))
    except OSError:
        known = set()
    for note in unsteady:
        if base_name(note) not in known:
            result.notes.append(
                f"new     {note.removeprefix('unsteady ')}: find its cause, and add it to "
                f"test/UNSTEADY.md"
            )
    if len(unsteady) > MOST_UNSTEADY:
        result.fail(
            f"{len(unsteady)} tests passed at their second try only (more than {MOST_UNSTEADY})"
        )


def judge_skipped(result):
    """A run that leaves out much proves little."""
    tests = result.passed + result.failed + result.skipped
    if result.skipped > MOST_SKIPPED * tests:
        result.fail(
            f"{result.skipped} of {tests} tests were skipped (more than {MOST_SKIPPED:.0%})"
        )
