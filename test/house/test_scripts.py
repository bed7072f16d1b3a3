# SPDX-License-Identifier: Apache-2.0
"""The scripts that newcomers and machines run."""

import os
import subprocess
import sys
import textwrap
import time

import pytest


def test_install_deps_lists_and_refuses(root, sh):
    names = sh(root / "scripts" / "install-deps", "--list").stdout.split()
    assert names == sorted(set(names)) and {"gcc", "libelf-dev", "python3-pytest"} <= set(names)
    assert set(sh(root / "scripts" / "install-deps", "--list", "build").stdout.split()) < set(names)
    done = sh(root / "scripts" / "install-deps", "everything", code=2)
    assert done.stderr.count("\n") == 1


def test_install_deps_needs_no_network_when_all_is_there(root, sh):
    if os.getuid() != 0:
        pytest.skip("a network namespace needs root")
    start = time.monotonic()
    done = sh("unshare", "--net", root / "scripts" / "install-deps")
    assert done.stdout == "" and done.stderr == ""
    assert time.monotonic() - start < 5


def test_fetch_source_refuses_in_one_line(root, sh, tmp_path):
    script = root / "scripts" / "fetch-source"
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    sh(script, code=2)
    for package, folder in (("../etc", tmp_path / "new"), ("hello", tmp_path)):
        done = sh(script, package, folder, code=1, env=env)
        assert done.stderr.startswith("fetch-source: ") and done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def perform(root, command, junit=None, timeout=10, again=None):
    """Lets scripts/check.py perform a stage; its counts and notes."""
    program = f"""
        import ctypes, os, sys
        sys.path.insert(0, {str(root / "scripts")!r})
        import check
        ctypes.CDLL(None).prctl(check.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        result = check.perform(check.Stage("it", {command!r}, {timeout}, junit={junit!r}, again={again!r}), dict(os.environ))
        print("RESULT", result.passed, result.failed, result.skipped, *result.notes)
    """
    out = subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60,
                         check=True).stdout
    return out[out.index("RESULT"):].split(maxsplit=4)[1:]


def test_check_counts_exit_codes(root):
    assert perform(root, ["true"]) == ["1", "0", "0"]
    assert perform(root, ["false"])[:3] == ["0", "1", "0"]
    assert perform(root, ["sh", "-c", "exit 77"])[:3] == ["0", "0", "1"]


def test_check_counts_junit(root, tmp_path):
    sample = tmp_path / "sample.xml"
    sample.write_text("<testsuites><testsuite><testcase name='a'/><testcase name='b'><failure message='no'/></testcase>"
                      "<testcase name='c'><skipped message='not here'/></testcase></testsuite></testsuites>")
    results = tmp_path / "results.xml"
    counts = perform(root, ["cp", str(sample), str(results)], str(results))
    assert counts[:3] == ["1", "1", "1"] and "not here" in counts[3]
    assert perform(root, ["true"], str(tmp_path / "none.xml"))[:3] == ["0", "1", "0"]
    # Results of an earlier run do not count.
    assert perform(root, ["true"], str(results))[:3] == ["0", "1", "0"]


def test_check_gives_a_second_try(root, tmp_path):
    """A test that failed and left something behind stands there twice; it is run again once."""
    case = "<testcase name='b'>{}</testcase>"
    first = tmp_path / "first.xml"
    first.write_text("<testsuite><testcase name='a'/>" + case.format("<failure message='no'/>") +
                     case.format("<error message='left behind'/>") + "</testsuite>")
    second = tmp_path / "second.xml"
    results = tmp_path / "results.xml"
    for outcome, counts in (("", ["2", "0", "0"]), ("<failure message='no'/>", ["1", "1", "0"])):
        second.write_text("<testsuite>" + case.format(outcome) + "</testsuite>")
        found = perform(root, ["cp", str(first), str(results)], str(results), again=["cp", str(second), str(results)])
        assert found[:3] == counts, found
        assert ("unsteady" in found[3]) == (not outcome)


def test_check_ends_and_counts_what_a_stage_leaves_running(root):
    counts = perform(root, ["sh", "-c", "sleep 61 & echo $!"])
    assert counts[:3] == ["1", "1", "0"] and "(sleep)" in counts[3]


def test_check_interrupts_what_takes_too_long(root, tmp_path):
    results = tmp_path / "results.xml"
    script = f"trap 'echo \"<testsuite><testcase name=\\\"a\\\"/></testsuite>\" >{results}; exit 2' INT; sleep 60 & wait"
    counts = perform(root, ["sh", "-c", script], str(results), timeout=1)
    assert counts[:3] == ["1", "2", "0"] and "no end after 1 s" in counts[3] and "(sleep)" in counts[3]


def test_check_takes_note_of_the_end_of_orphans(root):
    """A process whose parent is gone and that ends must vanish, as it would under init."""
    script = "pid=$(sh -c 'sleep 0.5 >/dev/null & echo $!'); sleep 2; ! test -e /proc/$pid"
    assert perform(root, ["sh", "-c", script]) == ["1", "0", "0"]
