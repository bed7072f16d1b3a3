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
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import xml.etree.ElementTree as ElementTree

import spare_time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
BUILD_SAN = os.path.join(ROOT, "build-san")
BUILD_CLANG = os.path.join(ROOT, "build-clang")
HEARTBEAT_S = 30
MOST_AGAIN = 10  # where more tests fail, nothing is unsteady
EMULATED = 8  # times slower a machine is that qemu emulates, at least
SPARE = 5  # times slower is what runs in the CPU time that others leave, at most
MOST_UNSTEADY = 3  # tests that pass only at their second try, in one run
MOST_SKIPPED = 0.02  # of all tests of a whole run
UNSTEADY_LIST = os.path.join(ROOT, "test", "UNSTEADY.md")
SAID_LINES, SAID_COLUMNS = 15, 240  # of what a failed test said
MOST_SAID = 20  # tests whose words are shown
GRACE_S = 30  # from being interrupted to being killed
PR_SET_CHILD_SUBREAPER = 36

SANITIZER_ENV = {
    # LeakSanitizer stops its own process by ptrace, which does not go together with a tool that
    # ptraces; leaks are looked for in the unit tests only. The order of libraries is wrong by
    # intention where a tool inherits our runtime by LD_PRELOAD.
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=1"
    ":verify_asan_link_order=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


# The files of test/system that ./check runs on the sanitized build; ./check --full runs them all.
SANITIZED = (
    "test_attach",
    "test_bad_input",
    "test_damaged_traces",
    "test_exclude",
    "test_foreign",
    "test_m32",
    "test_points",
    "test_readers",
    "test_relocations",
    "test_run",
    "test_static",
    "test_strip",
    "test_values",
    "test_wrapper",
)


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


class Stage:
    """One program to run.

    junit: file the program writes its results to; None: the exit code is the result.
    again: the program that runs what failed once more, writing to the same file, or a function that
    makes it of the names of what failed; None: there is no second try.
    vital: where it fails, later stages whose names begin so make no sense; "" is all of them.
    early: it needs nothing of the stages before it, and no quiet machine: it may run beside them.
    """

    def __init__(
        self, name, command, timeout, env=None, junit=None, vital=None, again=None, early=False
    ):
        self.name = name
        self.command = command
        self.timeout = timeout
        self.env = env or {}
        self.junit = junit
        self.vital = vital
        self.again = again
        self.early = early


def say(text):
    print(text, flush=True)


EARLY = spare_time.SpareTime([], {}, None, None)  # what runs beside the stages


def is_early(pid):
    """Whether a process is of what runs beside the stages: its orphans are our children, too."""
    try:
        return pid == EARLY.pid() or (EARLY.pid() and os.getsid(pid) == EARLY.pid())
    except ProcessLookupError:
        return False


def children():
    """Processes whose parent we are, without what runs beside the stages: pid -> name."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                text = stat.read()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 :].rsplit(")", 1)
        state, parent = rest.split()[:2]
        if int(parent) == os.getpid() and state != "Z" and not is_early(int(entry)):
            found[int(entry)] = name
    return found


def reap(spare=None):
    """Takes note of the end of adopted processes, as init would, and of what runs beside the
    stages; spare: a child that somebody else waits for.
    """
    EARLY.poll()
    try:
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in (spare, EARLY.pid()):
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
    except ChildProcessError:
        pass


def end_leftovers(result, stage):
    """Ends what a stage left running; each such process is a failure."""
    deadline = time.monotonic() + 3
    while children() and time.monotonic() < deadline:
        reap()
        time.sleep(0.05)
    left = children()
    for pid, name in left.items():
        result.fail(f"{stage}: left process {pid} ({name}) running")
    while left:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.1)
        reap()
        left = children()  # their children are ours now
    reap()


def mounts(env):
    """Of ours: what is mounted elsewhere meanwhile is somebody else's."""
    ours = tuple(os.path.realpath(folder) + "/" for folder in (ROOT, env.get("TMPDIR", ROOT)))
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as info:
        return {path for path in (line.split()[4] for line in info) if path.startswith(ours)}


def end_of(text):
    """The last lines of it that are not empty, none of them endless."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(line[:SAID_COLUMNS] for line in lines[-SAID_LINES:])


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

    code, text = EARLY.finish(stage, beat)
    for line in text.splitlines():
        say("    " + line)
    return code, end_of(text)


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


def try_again(stage, env, first):
    """Runs the tests that failed by themselves; the result of both runs."""
    say(f"== {stage.name}: {first.failed} failed: second try")
    # A test that fails, and then leaves something behind, is told of twice.
    failed = list(dict.fromkeys(note for note in first.notes if note.startswith("FAILED")))
    second = Result()
    command = (
        stage.again([first.names[note] for note in failed])
        if callable(stage.again)
        else stage.again
    )
    if stage.junit:
        os.unlink(stage.junit)
    code, said = run(stage, command, env)
    if not stage.junit:
        count_exit(stage, code, said, second)
    elif code is None or not read_junit(stage.junit, stage.name, second):
        return first
    # What was skipped or passed in the first run is not run again.
    if second.passed + second.failed + second.skipped != len(failed):
        return first
    result = Result()
    result.passed = first.passed + second.passed
    result.failed = second.failed
    result.skipped = first.skipped + second.skipped
    still = {note for note in second.notes if note.startswith("FAILED")}
    result.notes = [note for note in first.notes if not note.startswith("FAILED")] + second.notes
    result.said = second.said
    for note in failed:
        if note not in still and (stage.junit or not second.failed):
            result.notes.append(note.replace("FAILED  ", "unsteady "))
            result.said[result.notes[-1]] = first.said[note]
    return result


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


def perform(stage, env):
    result = Result()
    say(f"== {stage.name}")
    early = EARLY.has(stage)
    if stage.junit and os.path.exists(stage.junit) and not early:
        os.unlink(stage.junit)
    mounted = mounts(env)
    start = time.monotonic()
    code, said = finish_early(stage) if early else run(stage, stage.command, env)
    cases = stage.junit and read_junit(stage.junit, stage.name, result)
    by_itself = result.failed > 0  # what failed can be run by itself
    if stage.junit and not cases and code == 0:
        result.fail(f"{stage.name}: no results", said)
    elif not cases or code is None or (code != 0 and not result.failed):
        count_exit(stage, code, said, result)
        by_itself = not stage.junit and result.failed > 0
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


def meson_build(name, folder, options, env=None, vital=None, early=False):
    """Stages that configure (once) and compile a build folder."""
    stages = []
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        stages.append(
            Stage(
                name + " setup",
                ["meson", "setup", folder, *options],
                120,
                env,
                vital=name if vital is None else vital,
                early=early,
            )
        )
    stages.append(Stage(name, ["ninja", "-C", folder], 600, env, vital=vital, early=early))
    return stages


def unit(name, folder, env=None):
    command = [
        "meson",
        "test",
        "-C",
        folder,
        "--no-rebuild",
        "--print-errorlogs",
        "--num-processes",
    ]
    return Stage(
        name,
        command + ["2"],
        300,
        env,
        os.path.join(folder, "meson-logs", "testlog.junit.xml"),
        again=lambda failed: command + ["1", *failed],
    )


def pytest(
    name,
    folder,
    build,
    timeout,
    scratch,
    env=None,
    arguments=(),
    parallel="loadfile",
    files=(),
    early=False,
):
    """files: of the folder, by name; none: all."""
    slug = name.replace(" ", "-")
    junit = os.path.join(scratch, slug + ".xml")
    command = [
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-v",
        "--no-header",
        "--tb=short",
        "--durations=5",
        "--basetemp",
        os.path.join(scratch, slug),
        "-o",
        "cache_dir=" + os.path.join(scratch, slug + ".cache"),
        "-o",
        "junit_family=xunit2",
        "--junitxml",
        junit,
        *arguments,
        *([os.path.join("test", folder, f"{file}.py") for file in files] or [f"test/{folder}"]),
    ]
    # Two files, or two tests of any, at a time; a second try has the machine to itself.
    return Stage(
        name,
        command + ["-n", "2", "--dist", parallel],
        timeout,
        {"IPROBE_BUILD": build, **(env or {})},
        junit,
        again=command + ["--last-failed", "--last-failed-no-failures=none"],
        early=early,
    )


def other_kernel(name, scratch, whole):
    """System tests on Debian 12's own kernel, in an emulator. The programs that they need have
    been compiled here.
    """
    out = os.path.join(scratch, "other-kernel")
    begin = [
        os.path.join("scripts", "in-kernel"),
        "--timeout",
        "7000" if whole else "800",
        "--out",
        out,
        "--env",
        f"IPROBE_TEST_PATIENCE={EMULATED}",
        "--env",
        f"IPROBE_TEST_PROGRAMS={os.path.join(scratch, 'programs')}",
        "--env",
        f"IPROBE_CHECK=other-kernel{'-whole' if whole else ''}",
        "--env",
        f"IPROBE_BUILD={BUILD}",
    ]
    tests = [
        "--",
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-v",
        "--no-header",
        "--tb=short",
        "--durations=5",
        "-p",
        "no:cacheprovider",
        "-o",
        "junit_family=xunit2",
        "--junitxml",
        "/out/results.xml",
        "-n",
        "2",
        "--dist",
        "loadfile",
        os.path.join("test", "system"),
    ]
    return Stage(
        name,
        begin + tests,
        7200 if whole else 900,
        junit=os.path.join(out, "results.xml"),
        again=lambda failed: begin + ["--env", "IPROBE_TEST_ONLY=" + " ".join(failed)] + tests,
    )


def plan(mode, scratch):
    """The stages of a mode, in order: what fails soonest and tells most comes first."""
    quick = mode == "quick"
    programs = {"IPROBE_TEST_PROGRAMS": os.path.join(scratch, "programs")}
    stages = meson_build("build", BUILD, ["-Dwerror=true"], vital="")
    stages += [
        unit("unit", BUILD),
        pytest(
            "repo",
            "repo",
            BUILD,
            600,
            scratch,
            arguments=["-m", "not slow"] if quick else [],
        ),
        pytest(
            "system",
            "system",
            BUILD,
            2700,
            scratch,
            programs,
            arguments=["-m", "not slow"] if quick else [],
        ),
    ]
    if quick:
        return stages
    stages.append(other_kernel("kernel-6.1", scratch, mode == "full"))
    stages += meson_build(
        "sanitizers build",
        BUILD_SAN,
        ["-Dwerror=true", "-Dman=disabled", "-Db_sanitize=address,undefined", "-Db_lundef=false"],
        vital="sanitizers",
        early=True,
    )
    stages += meson_build(
        "clang build",
        BUILD_CLANG,
        ["-Dwerror=true", "-Dman=disabled"],
        {"CC": "clang", "CXX": "clang++"},
        early=True,
    )
    stages.append(
        pytest(
            "compilers",
            "compilers",
            BUILD,
            5 * 3600 if mode == "full" else 1500,
            scratch,
            {
                "IPROBE_TEST_PATIENCE": str(SPARE),
                **({"IPROBE_TEST_FULL": "1"} if mode == "full" else {}),
            },
            parallel="load",
            early=True,
        )
    )
    # Those that watch a server need a quiet machine.
    stages.append(
        pytest(
            "third-party builds",
            "thirdparty",
            BUILD,
            900,
            scratch,
            {"IPROBE_TEST_PATIENCE": str(SPARE)},
            files=["test_thirdparty"],
            early=True,
        )
    )
    benchmarks = os.path.join(ROOT, "benchmarks")
    for name in sorted(os.listdir(benchmarks)):
        path = os.path.join(benchmarks, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            command = [path, "--brief"]
            stages.append(
                Stage("benchmark " + name, command, 300, {"IPROBE_BUILD": BUILD}, again=command)
            )
    stages += [
        Stage("demo", ["./demo"], 300, again=["./demo"]),
        pytest(
            "third-party",
            "thirdparty",
            BUILD,
            3600 if mode == "full" else 900,
            scratch,
            arguments=[
                *("--ignore", "test/thirdparty/test_thirdparty.py"),
                *([] if mode == "full" else ["-m", "not slow"]),
            ],
        ),
    ]
    stages += [
        unit(
            "sanitizers unit",
            BUILD_SAN,
            {
                **SANITIZER_ENV,
                "ASAN_OPTIONS": SANITIZER_ENV["ASAN_OPTIONS"].replace("leaks=0", "leaks=1"),
            },
        ),
        # Errors of memory show in few rounds, and in the tests of the tools more than in those of
        # compilers and targets.
        pytest(
            "sanitizers system",
            "system",
            BUILD_SAN,
            900,
            scratch,
            SANITIZER_ENV,
            [] if mode == "full" else ["-m", "not slow", "-k", " or ".join(SANITIZED)],
        ),
    ]
    stages.append(
        Stage(
            "fuzz",
            ["test/fuzz/run", "600" if mode == "full" else "30"],
            3600 if mode == "full" else 600,
        )
    )
    return stages


def be_strict(stages):
    """What fails at its first try has failed."""
    for stage in stages:
        stage.again = None


def main():
    global EARLY
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
            if not EARLY.started and not stage.early and stage.vital != "":
                EARLY = spare_time.SpareTime(
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
        EARLY.stop()
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
