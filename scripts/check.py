# SPDX-License-Identifier: Apache-2.0
"""Builds iprobe and runs every test there is, stage by stage.

A stage is one program (a build, a test runner, a benchmark in its brief form); what it
prints is passed on, indented. Results are counted from the runners' JUnit files where
they write one, else the stage counts as one test by its exit code (77: skipped).

Nothing may outlive a stage: this process is the "child subreaper", so that whatever a
test forgot becomes its child, is named, ended and counted as a failure; the same for
mounts in the folders of ours. Temporary files live in a folder of their own, removed at the end.

A test that fails is given a second try, by itself: two cores that others use as well delay anything
for seconds. What passes only then counts as passed, is named as unsteady before the last line, and
has a cause that must be found: test/UNSTEADY.md lists each that was ever seen. More than
MOST_UNSTEADY of them in one run are a failure, and with --strict there is no second try at all.
What fails twice has failed. Each of both is named with the end of what it said, since this output
may be all that there is to look at.

Compilers run in the CPU time that tests of live processes leave (spare_time.py).

What is skipped was not tested: where that is more than MOST_SKIPPED of a whole run, the run has
failed.

The last line is exactly "N passed, N failed, N skipped"; exit code 0 only if nothing failed.
"""

import argparse
import collections
import ctypes
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import check_leftovers
import spare_time
from check_leftovers import end_leftovers, mounts, reap
from check_results import (
    SAID_LINES,
    Result,
    count_exit,
    end_of,
    judge_skipped,
    judge_unsteady,
    read_junit,
    slowest_files,
)
from check_stages import ROOT, be_strict, plan

HEARTBEAT_S = 30
MOST_AGAIN = 10  # where more tests fail, nothing is unsteady
MOST_SAID = 20  # tests whose words are shown
GRACE_S = 30  # from being interrupted to being killed
PR_SET_CHILD_SUBREAPER = 36


def say(text):
    print(text, flush=True)


def run(stage, command, env):
    """Runs a program of a stage, passes its output on; (exit code, or None on timeout; the end
    of its output).
    """
    # Started in the background by a shell we were given SIGINT ignored, and children would be too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**env, **stage.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    os.set_blocking(process.stdout.fileno(), False)
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    start = last = time.monotonic()
    pending = b""
    said = collections.deque(maxlen=2 * SAID_LINES)
    timed_out = False
    while True:
        # A process that the stage left behind may hold the pipe open: its end is not the stage's
        # end.
        ended = process.poll() is not None
        reap(process.pid)
        if selector.select(timeout=0.1):
            data = process.stdout.read(65536)
            if data == b"":
                break
            *lines, pending = (pending + (data or b"")).split(b"\n")
            for line in lines:
                said.append(line.decode(errors="replace").rstrip("\r"))
                say("    " + said[-1])
            last = time.monotonic()
        elif ended:
            break
        now = time.monotonic()
        if now - last > HEARTBEAT_S:
            at = pending.decode(errors="replace").strip()
            say(f"    ... {stage.name}: {now - start:.0f} s{', at ' + at if at else ''}")
            last = now
        if now - start > stage.timeout and not ended:
            if not timed_out:
                # A test runner that is interrupted still writes what it knows and lets its tests
                # clean up.
                os.kill(process.pid, signal.SIGINT)
                timed_out = True
            elif now - start > stage.timeout + GRACE_S:
                os.killpg(process.pid, signal.SIGKILL)
                break
    if pending:
        said.append(pending.decode(errors="replace"))
        say("    " + said[-1])
    process.stdout.close()
    code = process.wait()
    return None if timed_out else code, end_of("\n".join(said))


def finish_early(stage):
    """The same as run() for a stage that has begun beside others."""
    last = 0

    def beat(seconds):
        nonlocal last
        reap()
        if seconds - last > HEARTBEAT_S:
            say(f"    ... {stage.name}: {seconds:.0f} s")
            last = seconds

    code, text = check_leftovers.beside.finish(stage, beat)
    for line in text.splitlines():
        say("    " + line)
    return code, end_of(text)


def try_again(stage, env, first):
    """Runs the tests that failed by themselves; the result of both runs."""
    say(f"== {stage.name}: {first.failed} failed: second try")
    # A test that fails, and then leaves something behind, is told of twice.
    failed = list(dict.fromkeys(note for note in first.notes if note.startswith("FAILED")))
    second = Result()
    names = [first.names[note] for note in failed]
    whole = stage.breaks and names == [None]  # it had no results
    if whole:
        command = stage.command
    else:
        command = stage.again(names) if callable(stage.again) else stage.again
    if stage.junit and not whole:
        os.unlink(stage.junit)
    code, said = run(stage, command, env)
    if not stage.junit:
        count_exit(stage, code, said, second)
    elif code is None or not read_junit(stage.junit, stage.name, second):
        return first
    # What was skipped or passed in the first run is not run again.
    if not whole and second.passed + second.failed + second.skipped != len(failed):
        return first
    result = Result()
    result.passed = first.passed + second.passed
    result.failed = second.failed
    result.skipped = first.skipped + second.skipped
    still = {note for note in second.notes if note.startswith("FAILED")}
    result.notes = [note for note in first.notes if not note.startswith("FAILED")] + second.notes
    result.said = second.said
    for note in failed:
        if note not in still and ((stage.junit and not whole) or not second.failed):
            result.notes.append(note.replace("FAILED  ", "unsteady "))
            result.said[result.notes[-1]] = first.said[note]
    return result


def perform(stage, env):
    result = Result()
    say(f"== {stage.name}")
    early = check_leftovers.beside.has(stage)
    if stage.junit and os.path.exists(stage.junit) and not early:
        os.unlink(stage.junit)
    mounted = mounts(env)
    start = time.monotonic()
    code, said = finish_early(stage) if early else run(stage, stage.command, env)
    cases = stage.junit and read_junit(stage.junit, stage.name, result)
    if cases:
        for line in slowest_files(stage.junit):
            say("    " + line)
    by_itself = result.failed > 0  # what failed can be run by itself
    if stage.junit and not cases and code == 0:
        result.fail(f"{stage.name}: no results", said)
    elif not cases or code is None or (code != 0 and not result.failed):
        count_exit(stage, code, said, result)
        by_itself = result.failed > 0 and (not stage.junit or (stage.breaks and not cases))
    if stage.again and by_itself and code is not None and result.failed <= MOST_AGAIN:
        result = try_again(stage, env, result)
    end_leftovers(result, stage.name)
    for path in mounts(env) - mounted:
        result.fail(f"{stage.name}: left {path} mounted")
        subprocess.run(["umount", "-l", path], check=False)
    say(
        f"== {stage.name}: {result.passed} passed, {result.failed} failed, {result.skipped} "
        f"skipped, "
        f"{time.monotonic() - start:.0f} s"
    )
    return result


def main():
    parser = argparse.ArgumentParser(
        prog="check",
        description="Builds iprobe and runs every test there is.",
        epilog="Exit code 0: nothing failed.",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--quick",
        action="store_const",
        const="quick",
        dest="mode",
        help="plain build, unit tests, system tests without the slow ones",
    )
    group.add_argument(
        "--full",
        action="store_const",
        const="full",
        dest="mode",
        help="everything, with long fuzzing, and slow tests under sanitizers, too",
    )
    parser.add_argument("--strict", action="store_true", help="give no test a second try")
    parser.add_argument(
        "--stage",
        action="append",
        default=[],
        metavar="NAME",
        help="only the stages whose name starts with NAME (the builds they need are up to you)",
    )
    parser.add_argument(
        "--list", action="store_true", help="print the names of the stages and stop"
    )
    parser.set_defaults(mode="normal")
    args = parser.parse_args()

    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    scratch = tempfile.mkdtemp(prefix="iprobe-check-")
    os.chmod(scratch, 0o1777)  # tests that drop to an ordinary user work in it, too
    env = {**os.environ, "TMPDIR": scratch, "PYTHONDONTWRITEBYTECODE": "1"}
    total = Result()
    times = []
    start = time.monotonic()
    try:
        stages = plan(args.mode, scratch)
        if args.strict:
            be_strict(stages)
        if args.list:
            say("\n".join(stage.name for stage in stages))
            return 0
        if args.stage:
            stages = [s for s in stages if any(s.name.startswith(name) for name in args.stage)]
            if not stages:
                parser.error("no such stage; --list prints their names")
        hopeless = []
        for index, stage in enumerate(stages):
            if not check_leftovers.beside.started and not stage.early and stage.vital != "":
                check_leftovers.beside = spare_time.SpareTime(
                    [later for later in stages[index:] if later.early], env, scratch, ROOT
                )
            if any(stage.name.startswith(name) for name in hopeless):
                total.skip(f"{stage.name}: what it needs has failed")
                continue
            began = time.monotonic()
            result = perform(stage, env)
            total.add(result)
            times.append((stage.name, time.monotonic() - began))
            if stage.vital is not None and result.failed:
                hopeless.append(stage.vital)
    except KeyboardInterrupt:
        total.fail("interrupted")
    finally:
        check_leftovers.beside.stop()
        if not args.list:
            end_leftovers(total, "check")
            judge_unsteady(total)
            if args.mode != "quick" and not args.stage:
                judge_skipped(total)
        subprocess.run(["chmod", "-R", "u+rwx", scratch], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(scratch, ignore_errors=True)

    say("")
    for name, seconds in times:
        say(f"{seconds:7.1f} s  {name}")
    say(f"{time.monotonic() - start:7.1f} s  in all")
    shown = 0
    for note in total.notes:
        say(note)
        words = total.said.pop(
            note, ""
        )  # one that failed, and left something behind, is named twice
        if words and shown < MOST_SAID:
            say(textwrap.indent(words, "    | "))
            shown += 1
    say(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
