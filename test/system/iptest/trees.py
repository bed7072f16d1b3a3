# SPDX-License-Identifier: Apache-2.0
"""
Call trees: what a program logged about itself (test/programs/tree_log.h) against what `iprobe dump
--json` shows.

Both become a list of Step(event, name, depth). Exits of frames that ended without returning
(longjmp, an exception, exec, exit) are optional: a tool may show them where the frame was seen
to be gone, or not at all.
"""

import collections
import functools
import json
import pathlib
import struct

Step = collections.namedtuple("Step", "event name depth optional", defaults=(False,))

RECORD = struct.Struct("<c31s")


@functools.lru_cache(maxsize=None)
def without_arguments(name):
    """Drops the argument list and template arguments of a demangled name:
    shop::largest<int>(...) -> shop::largest.
    """
    out, depth = [], 0
    if name.startswith("operator"):
        return name
    for c in name:
        if c in "(<[":
            depth += 1
        elif c in ")>]":
            depth -= 1
        elif depth == 0:
            out.append(c)
    name = "".join(out).strip()
    for suffix in (" const", " clone"):
        name = name.removesuffix(suffix)
    # A template's demangled name starts with its return type.
    return name.split(" ")[-1]


def read_log(directory):
    """{(program, pid, tid): [Step]} of all threads that logged."""
    logs = {}
    for path in pathlib.Path(directory).iterdir():
        program, pid, tid = path.name.rsplit(".", 2)
        logs[program, int(pid), int(tid)] = log_steps(used_part(path))
    return logs


def used_part(path):
    """The file is sparse and far longer than what was written; a jump may have left a single
    record empty.
    """
    data = bytearray()
    with open(path, "rb") as f:
        while (chunk := f.read(1 << 16)) and chunk.strip(b"\0"):
            data += chunk
    return bytes(data)


def log_steps(data):
    steps, stack = [], []

    def close(to):
        while len(stack) > to:
            steps.append(Step("exit", stack.pop(), len(stack), True))

    for kind, name in RECORD.iter_unpack(data):
        text = name.rstrip(b"\0").decode()
        if kind == b"E":
            steps.append(Step("entry", text, len(stack)))
            stack.append(text)
        elif kind == b"L":
            assert (
                stack and stack[-1] == text
            ), f"the program's own log is wrong: {text} left, {stack[-3:]} open"
            stack.pop()
            steps.append(Step("exit", text, len(stack)))
        elif kind == b"U":
            close(int(text) + 1)
    close(0)
    return steps


def read_dump(text):
    """{tid: [Step]} in the order of the lines; also checks each line's form and that time does
    not run back.
    """
    threads, last = {}, {}
    for line in text.splitlines():
        event = json.loads(line)
        tid = event["tid"]
        assert event["event"] in ("entry", "exit"), line
        assert event["module"], line
        assert event["ts"] >= last.get(tid, 0), f"time runs back: {line}"
        last[tid] = event["ts"]
        threads.setdefault(tid, []).append(
            Step(event["event"], without_arguments(event["function"]), event["depth"])
        )
    return threads


def without(steps, unlogged):
    """Takes functions out whose names the program cannot log (a library's templates); what they
    called moves up.
    """
    kept, hidden = [], []
    for step in steps:
        while hidden and (
            step.depth < hidden[-1] or (step.depth == hidden[-1] and step.event == "entry")
        ):
            hidden.pop()
        if unlogged(step.name):
            if step.event == "entry":
                hidden.append(step.depth)
            elif hidden and hidden[-1] == step.depth:
                hidden.pop()
            continue
        kept.append(step._replace(depth=step.depth - len(hidden)))
    return kept


def compare(log, dump, where=""):
    """The dump shows what was logged: every step, in order, at its depth; optional exits may be
    missing.
    """
    i = 0
    for n, seen in enumerate(dump):
        while i < len(log) and log[i].optional and log[i][:3] != seen[:3]:
            i += 1
        if i == len(log) or log[i][:3] != seen[:3]:
            raise AssertionError(
                f"{where}: step {n} differs\n  shown  {seen[:3]}\n  logged "
                f"{log[i][:3] if i < len(log) else 'nothing'}"
                f"\n  before it, shown:\n{outline(dump[max(0, n - 12):n + 4])}"
                f"\n  before it, logged:\n{outline(log[max(0, i - 12):i + 4])}"
            )
        i += 1
    missing = [step for step in log[i:] if not step.optional]
    assert not missing, f"{where}: {len(missing)} steps are not shown, first {missing[0][:3]}"


def outline(steps):
    return "\n".join(
        f"    {'  ' * s.depth}{'>' if s.event == 'entry' else '<'} {s.name}"
        f"{' (gone)' if s.optional else ''}"
        for s in steps
    )


def take_handlers_out(steps, is_handler):
    """
    (main, handlers): the steps outside signal handlers, and for each handler [position in main,
    its own steps from depth 0 on].
    """
    main, handlers, current, base = [], [], None, 0
    for step in steps:
        if current is None and step.event == "entry" and is_handler(step.name):
            current, base = [], step.depth
            handlers.append([len(main), current])
        if current is None:
            main.append(step)
            continue
        current.append(step._replace(depth=step.depth - base))
        if step.event == "exit" and step.depth == base:
            current = None
    return main, handlers


def compare_with_handlers(log, dump, is_handler, where=""):
    """
    As compare(), where handlers came at any moment: one that came between a hook and the
    program's own note of it stands one step away.
    """
    log_main, log_handlers = take_handlers_out(log, is_handler)
    dump_main, dump_handlers = take_handlers_out(dump, is_handler)
    compare(log_main, dump_main, where)
    assert len(log_handlers) == len(dump_handlers), where
    for n, ((log_at, log_own), (dump_at, dump_own)) in enumerate(zip(log_handlers, dump_handlers)):
        compare(log_own, dump_own, f"{where}, handler {n}")
        assert (
            abs(log_at - dump_at) <= 1
        ), f"{where}: handler {n} shown at step {dump_at}, logged at {log_at}"


def assert_consistent(steps, where=""):
    """A dump by itself: each depth is the number of open frames, each exit closes the frame on
    top.
    """
    stack = []
    for n, step in enumerate(steps):
        if step.event == "entry":
            assert step.depth <= len(stack), f"{where}: step {n} {step} skips a level: {stack[-3:]}"
            del stack[step.depth :]
            stack.append(step.name)
        else:
            assert (
                step.depth < len(stack) and stack[step.depth] == step.name
            ), f"{where}: step {n} {step}: {stack[-3:]}"
            del stack[step.depth :]


def count_entries(steps_by_thread):
    """Calls by function name."""
    return collections.Counter(
        s.name for steps in steps_by_thread for s in steps if s.event == "entry"
    )
