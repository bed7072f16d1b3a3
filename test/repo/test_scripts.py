# SPDX-License-Identifier: Apache-2.0
"""The scripts that newcomers and machines run."""

import ast
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
    assert "--upstream leaves Debian's patches out" in sh(script, "--help").stdout
    for package, folder in (("../etc", tmp_path / "new"), ("hello", tmp_path)):
        done = sh(script, package, folder, code=1, env=env)
        assert done.stderr.startswith("fetch-source: ") and done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def perform(root, command, junit=None, timeout=10, again=None, said=None, breaks=False):
    """Lets scripts/check.py perform a stage; its counts and notes. said: a list for the words of
    those that failed.
    """
    program = f"""
        import ctypes, os, sys
        sys.path.insert(0, {str(root / "scripts")!r})
        import check, check_stages
        ctypes.CDLL(None).prctl(check.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        stage = check_stages.Stage("it", {command!r}, {timeout}, junit={junit!r}, again={again!r},
                                   breaks={breaks!r})
        result = check.perform(stage, dict(os.environ))
        print("SAID", list(result.said.values()))
        print("RESULT", result.passed, result.failed, result.skipped, *result.notes)
    """
    out = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    if said is not None:
        said[:] = ast.literal_eval(out[out.rindex("\nSAID") + 5 : out.rindex("\nRESULT")].strip())
    return out[out.index("RESULT") :].split(maxsplit=4)[1:]


def test_check_counts_exit_codes(root):
    assert perform(root, ["true"]) == ["1", "0", "0"]
    assert perform(root, ["false"])[:3] == ["0", "1", "0"]
    assert perform(root, ["sh", "-c", "exit 77"])[:3] == ["0", "0", "1"]


def test_check_counts_junit(root, tmp_path):
    sample = tmp_path / "sample.xml"
    sample.write_text(
        "<testsuites><testsuite><testcase name='a'/><testcase name='b'><failure "
        "message='no'/></testcase>"
        "<testcase name='c'><skipped message='not here'/></testcase></testsuite></testsuites>"
    )
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
    first.write_text(
        "<testsuite><testcase name='a'/>"
        + case.format("<failure message='no'/>")
        + case.format("<error message='left behind'/>")
        + "</testsuite>"
    )
    second = tmp_path / "second.xml"
    results = tmp_path / "results.xml"
    for outcome, counts in (("", ["2", "0", "0"]), ("<failure message='no'/>", ["1", "1", "0"])):
        second.write_text("<testsuite>" + case.format(outcome) + "</testsuite>")
        found = perform(
            root,
            ["cp", str(first), str(results)],
            str(results),
            again=["cp", str(second), str(results)],
        )
        assert found[:3] == counts, found
        assert ("unsteady" in found[3]) == (not outcome)


def test_check_begins_a_machine_that_broke_off_once_more(root, tmp_path):
    """Without results there is nothing that could be run by itself."""
    sample, results, flag = (tmp_path / name for name in ("sample.xml", "results.xml", "flag"))
    sample.write_text("<testsuite><testcase name='a'/><testcase name='b'/></testsuite>")
    once = f"echo why; test -e {flag} && cp {sample} {results} || {{ touch {flag}; exit 1; }}"
    said = []
    command = ["sh", "-c", once]
    found = perform(root, command, str(results), again=["false"], said=said, breaks=True)
    assert found[:3] == ["2", "0", "0"] and "unsteady it: exit code 1" in found[3], found
    assert said == ["why"]
    for file in (results, flag):
        file.unlink()
    assert perform(root, command, str(results), again=["true"])[:3] == ["0", "1", "0"]
    command = ["sh", "-c", "exit 3"]
    found = perform(root, command, str(results), again=["true"], breaks=True)
    assert found[:3] == ["0", "1", "0"] and "FAILED" in found[3], found


def test_check_tells_what_failed_tests_said(root, tmp_path):
    """The end of it: CI's output may be all that there is to look at."""
    lines = "\n".join(f"line {n}" for n in range(40))
    first = tmp_path / "first.xml"
    first.write_text(
        f"<testsuite><testcase name='b'><failure message='no'>{lines}\nE   assert 1 == "
        f"{'2' * 400}</failure></testcase>"
        "</testsuite>"
    )
    second = tmp_path / "second.xml"
    second.write_text("<testsuite><testcase name='b'/></testsuite>")
    results, said = tmp_path / "results.xml", []
    for again in (None, ["cp", str(second), str(results)]):
        found = perform(
            root, ["cp", str(first), str(results)], str(results), again=again, said=said
        )
        assert found[:3] == (["1", "0", "0"] if again else ["0", "1", "0"])
        assert found[3].split() == ["unsteady" if again else "FAILED", "it:", "b"]
        words = said[0].splitlines()
        assert len(said) == 1 and len(words) == 15 and words[0] == "line 26"
        assert words[-1].startswith("E   assert 1 == 22") and len(words[-1]) == 240
    # a program that is one test by itself
    flag = tmp_path / "flag"
    script = ["sh", "-c", f"echo why; test -e {flag} || {{ touch {flag}; exit 1; }}"]
    assert perform(root, script, again=script, said=said)[:3] == ["1", "0", "0"] and said == ["why"]
    found = perform(
        root, ["sh", "-c", "echo why; exit 3"], again=["sh", "-c", "echo again; exit 1"], said=said
    )
    assert found == ["0", "1", "0", "FAILED  it: exit code 1\n"] and said == ["again"]


def test_check_counts_unit_tests_that_time_out(root, tmp_path):
    """meson's JUnit file tells of them as if they had passed. The second try runs those alone
    that failed.
    """
    source, build, log = tmp_path / "source", tmp_path / "build", tmp_path / "log"
    source.mkdir()
    (source / "meson.build").write_text(
        f"""
        project('p')
        sh = find_program('sh')
        test('slow', sh, args: ['-c', 'echo slow >>{log}; echo begun; exec sleep 30'], timeout: 1)
        test('good', sh, args: ['-c', 'echo good >>{log}'])
        test('late', sh, args: ['-c', 'echo late >>{log}; test $(grep -c late {log}) = 2'])
    """
    )
    subprocess.run(["meson", "setup", build, source], check=True, capture_output=True, timeout=60)
    program = f"""
        import os, sys
        sys.path.insert(0, {str(root / "scripts")!r})
        import check, check_stages
        result = check.perform(check_stages.unit("it", {str(build)!r}), dict(os.environ))
        counts = result.passed, result.failed, result.skipped
        print("RESULT", *counts, sorted(result.notes), sorted(result.said.items()))
    """
    out = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert out[out.index("RESULT") :].split(maxsplit=4)[1:4] == ["2", "1", "0"], out
    assert (
        "['FAILED  it: p.slow', 'unsteady it: p.late']" in out and "begun\\n(TIMEOUT)" in out
    ), out
    assert sorted(log.read_text().split()) == ["good", "late", "late", "slow", "slow"]


def test_check_names_the_slowest_files(root, tmp_path):
    results = tmp_path / "results.xml"
    cases = [("test.system.test_a", 1.5), ("test.system.test_b.TestIt", 2), ("test_a", 2.25)]
    cases.append(("", 9))
    text = "".join(f'<testcase classname="{name}" name="t" time="{s}"/>' for name, s in cases)
    results.write_text(f"<testsuite>{text}</testsuite>", encoding="utf-8")
    program = (
        f"import sys; sys.path.insert(0, {str(root / 'scripts')!r}); import check_results; "
        f"print(*check_results.slowest_files({str(results)!r}), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True
    )
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["3.8", "s", "2", "tests", "test_a"],
        ["2.0", "s", "1", "tests", "test_b"],
    ]


def test_check_ends_and_counts_what_a_stage_leaves_running(root):
    counts = perform(root, ["sh", "-c", "sleep 61 & echo $!"])
    assert counts[:3] == ["1", "1", "0"] and "(sleep)" in counts[3]


def test_check_interrupts_what_takes_too_long(root, tmp_path):
    results = tmp_path / "results.xml"
    script = (
        f'trap \'echo "<testsuite><testcase name=\\"a\\"/></testsuite>" >{results}; exit 2\' INT; '
        "sleep 60 & wait"
    )
    counts = perform(root, ["sh", "-c", script], str(results), timeout=1)
    assert (
        counts[:3] == ["1", "2", "0"] and "no end after 1 s" in counts[3] and "(sleep)" in counts[3]
    )


def test_check_takes_note_of_the_end_of_orphans(root):
    """A process whose parent is gone and that ends must vanish, as it would under init."""
    script = "pid=$(sh -c 'sleep 0.5 >/dev/null & echo $!'); sleep 2; ! test -e /proc/$pid"
    assert perform(root, ["sh", "-c", script]) == ["1", "0", "0"]


def test_check_takes_down_no_mounts_of_others(root, tmp_path, monkeypatch):
    """What a stage leaves mounted in the folders of ours is a failure; what comes elsewhere
    meanwhile is not looked at.
    """
    ours, theirs = tmp_path / "ours" / "place", tmp_path / "theirs"
    ours.mkdir(parents=True)
    theirs.mkdir()
    mount = ["mount", "-t", "tmpfs", "tmpfs"]
    if subprocess.run([*mount, str(theirs)], capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted")
    subprocess.run(["umount", str(theirs)], check=True)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "ours"))
    counts = perform(root, [*mount, str(ours)])
    assert (
        counts[:3] == ["1", "1", "0"]
        and f"left {ours} mounted" in counts[3]
        and not ours.is_mount()
    )
    counts = perform(root, [*mount, str(theirs)])
    there = theirs.is_mount()
    subprocess.run(["umount", "-l", str(theirs)], check=False)
    assert counts == ["1", "0", "0"] and there


def judged(root, notes, counts=(0, 0, 0), unsteady_list="", tmp_path=None):
    """What check.py makes of the notes of a whole run: its notes afterwards, its number of
    failures.
    """
    listed = tmp_path / "UNSTEADY.md"
    listed.write_text(unsteady_list, encoding="utf-8")
    code = (
        f"import sys; sys.path.insert(0, {str(root / 'scripts')!r}); import check_results; "
        f"check_results.UNSTEADY_LIST = {str(listed)!r}\n"
        f"result = check_results.Result(); result.notes = {notes!r}; result.passed, result.failed, "
        f"result.skipped = {counts!r}\n"
        "check_results.judge_unsteady(result); check_results.judge_skipped(result)\n"
        "print([result.notes, result.failed])"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True
    )
    return ast.literal_eval(done.stdout)


def test_check_forgives_few_that_are_unsteady(root, tmp_path):
    """And names those whose cause nobody has written down."""
    few = [
        "unsteady system: test_stop.test_a[user]",
        "unsteady system: test_stop.test_b",
        "unsteady unit: clock",
    ]
    notes, failed = judged(
        root, few, unsteady_list="- `test_stop.py::test_a`: why\n- `unit clock`", tmp_path=tmp_path
    )
    assert failed == 0
    assert [note for note in notes if note.startswith("new ")] == [
        "new     system: test_stop.test_b: find its cause, and add it to test/UNSTEADY.md"
    ]
    many = few + [f"unsteady system: test_stop.test_{i}" for i in range(6)]
    notes, failed = judged(root, many, tmp_path=tmp_path)
    assert failed == 1 and any(
        note.startswith("FAILED  9 tests passed at their second try only") for note in notes
    )


@pytest.mark.parametrize("skipped, failed", [(2, 0), (3, 1)])
def test_check_refuses_to_skip_much(root, tmp_path, skipped, failed):
    notes, found = judged(root, [], (100 - skipped, 0, skipped), tmp_path=tmp_path)
    assert found == failed and len(notes) == failed


def test_check_strict_gives_no_second_try(root):
    """Every stage that would be given one has none."""
    code = (
        f"import sys; sys.path.insert(0, {str(root / 'scripts')!r}); import check_stages\n"
        "stages = check_stages.plan('normal', '/nonexistent')\n"
        "print(any(s.again for s in stages))\n"
        "check_stages.be_strict(stages); print(any(s.again for s in stages))"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]
