# SPDX-License-Identifier: Apache-2.0
"""Stages of scripts/check.py that run in the CPU time that others leave."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

START = """
    import os, sys, time
    sys.path.insert(0, {scripts!r})
    import check, check_leftovers, check_stages, spare_time
    env = dict(os.environ)

    def stage(name, *command, **more):
        seconds = more.pop("timeout", 30)
        return check_stages.Stage(name, ["sh", "-c", *command], seconds, early=True, **more)

    def begin(*stages):
        check_leftovers.beside = spare_time.SpareTime(stages, env, {folder!r}, {folder!r})

    def told(result):
        print("RESULT", result.passed, result.failed, result.skipped, *result.notes)

    def other(command):
        return check_stages.Stage("other", ["sh", "-c", command], 30)
"""


def tried(root, folder, program):
    """What a program says that has the parts of check.py at hand."""
    start = START.format(scripts=str(root / "scripts"), folder=str(folder))
    done = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(start) + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def results(text):
    return [line.split(None, 1)[1] for line in text.splitlines() if line.startswith("RESULT")]


def test_they_run_beside_others_one_by_one(root, tmp_path):
    """And are neither taken for what a stage left behind nor reaped by it."""
    text = tried(
        root,
        tmp_path,
        """
        first = stage("first", "sleep 1; echo one; date +%s.%N >first")
        second = stage("second", "test -e first && echo two && date +%s.%N >second; exit 3")
        begin(first, second)
        wait = "while test ! -s {0}/second; do sleep 0.05; done"
        told(check.perform(other(wait + "; date +%s.%N >{0}/between"), env))
        told(check.perform(first, env))
        told(check.perform(second, env))
        """.replace(
            "{0}", str(tmp_path)
        ),
    )
    assert results(text) == ["1 0 0", "1 0 0", "0 1 0 FAILED  second: exit code 3"], text
    at = [float((tmp_path / name).read_text()) for name in ("first", "second", "between")]
    assert at[0] < at[1] < at[2]
    lines = [line.strip() for line in text.splitlines()]
    # what they printed stands where they count
    assert lines.index("== first") < lines.index("one") < lines.index("== second")
    assert lines.index("== second") < lines.index("two")


def test_their_turn_is_waited_for(root, tmp_path):
    text = tried(
        root,
        tmp_path,
        """
        late, hangs = stage("late", "sleep 1"), stage("hangs", "exec sleep 50", timeout=1)
        begin(late, hangs)
        told(check.perform(other("true"), env))
        told(check.perform(late, env))
        told(check.perform(hangs, env))
        """,
    )
    assert results(text)[:2] == ["1 0 0", "1 0 0"], text
    assert results(text)[2] == "0 1 0 FAILED  hangs: no end after 1 s", text


def test_they_give_way_until_their_turn(root, tmp_path):
    """Everybody else has the CPU first; where the caller may, no longer than that."""
    policy = f"{sys.executable} -c 'import os; print(os.sched_getscheduler(0))'"
    text = tried(
        root,
        tmp_path,
        f"""
        polite = stage("polite", '''{policy} >new; cat /proc/self/autogroup >>new; mv new before
        while test ! -e go; do sleep 0.05; done; {policy} >after''')
        begin(polite)
        told(check.perform(other("while test ! -e {tmp_path}/before; do sleep 0.05; done"), env))
        spare_time.take_turn(check_leftovers.beside.pid())
        open({str(tmp_path / 'go')!r}, "w").close()
        told(check.perform(polite, env))
        """,
    )
    assert results(text) == ["1 0 0", "1 0 0"], text
    before = (tmp_path / "before").read_text().splitlines()
    assert int(before[0]) == os.SCHED_IDLE
    assert all("nice 19" in line for line in before[1:2]), before  # a kernel may have none
    if os.getuid() == 0:
        assert int((tmp_path / "after").read_text()) == os.SCHED_OTHER


def test_nothing_of_them_is_left(root, tmp_path):
    """A run that is interrupted ends them, with all that they started."""
    pids = tmp_path / "pids"
    tried(
        root,
        tmp_path,
        f"""
        begin(stage("endless", "sleep 70 & echo $$ $! >{pids}; wait"))
        told(check.perform(other("while test ! -s {pids}; do sleep 0.05; done"), env))
        check_leftovers.beside.stop()
        """,
    )
    deadline = time.monotonic() + 10
    left = pids.read_text().split()
    while any(os.path.exists(f"/proc/{pid}") for pid in left) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in left if os.path.exists(f"/proc/{pid}")]


@pytest.mark.parametrize("mode", ["normal", "full"])
def test_what_needs_a_build_comes_after_it(root, tmp_path, mode):
    text = tried(
        root,
        tmp_path,
        f"""
        stages = check_stages.plan({mode!r}, "/nonexistent")
        print(*[s.name for s in stages if s.early], sep=",")
        print(*[s.name for s in stages], sep=",")
        """,
    )
    early, all_stages = (line.split(",") for line in text.splitlines())
    assert {
        "sanitizers build",
        "clang build",
        "compilers",
        "packages",
        "third-party builds",
        "fuzz build",
    } <= set(early)
    for build, user in (
        ("sanitizers build", "sanitizers unit"),
        ("sanitizers build", "sanitizers system"),
        ("fuzz build", "fuzz"),
    ):
        assert all_stages.index(build) < all_stages.index(user)
    # nobody else works beside what is watched
    assert max(map(all_stages.index, early)) < all_stages.index("third-party")
