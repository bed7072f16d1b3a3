# SPDX-License-Identifier: Apache-2.0
"""iprobed --check and iprobe list --check: what rules name and their programs do not have."""

import json
import shutil

import pytest

RULES = """\
selections: {both: [handle, relpy]}
rules:
  slow:
    match: {exe: FOLDER/serv*}
    when:
      latency: {functions: handel, p99: '> 10ms', over: 1s}
    do: {trace: {functions: 'handle,lib:libfoo*'}}
  values:
    match: {exe: FOLDER/members}
    when: request
    do: {trace: {functions: handle, args: 'handle(indx)', when: 'handle: index > 5'}}
  named:
    match: {exe: FOLDER/serving}
    when: request
    do: {hist: '@both'}
  gone:
    match: {exe: FOLDER/nothing}
    when: request
    do: {trace: handle}
  off:
    enabled: false
    match: {exe: FOLDER/nothing}
    when: request
    do: {trace: handle}
"""


@pytest.fixture
def folder(me, programs):
    path = me.dir()
    for name, source in (("serving", "serving"), ("members", "value_members")):
        shutil.copy(programs.simple(source, placement="fentry"), path / name)
    (path / "rules").mkdir()
    (path / "rules" / "rules.yaml").write_text(RULES.replace("FOLDER", str(path)))
    return path


def check(me, folder):
    """What is told of each rule."""
    done = me.run(
        [me.builddir / "cli" / "iprobed", "--check", "--probes-d", folder / "rules"]
        + ["--policy", folder / "none"]
    )
    assert done.returncode == 0 and "  rule slow: trace\n" in done.stdout, repr(done)
    told = {}
    for line in done.stderr.splitlines():
        place, name, text = line.removeprefix("iprobed: ").split(": ", 2)
        assert place.startswith(f"{folder}/rules/rules.yaml:"), line
        told.setdefault(name.removeprefix("rule "), []).append(text.replace(f"{folder}/", ""))
    return told


def test_files(me, folder):
    libraries = "; the libraries that it loads were not looked at"
    assert check(me, folder) == {
        "slow": [f"serving: nothing matches handel (nearest: handle){libraries}"],
        "values": [
            "members: --args handle(indx): handle: 'indx': there is no parameter 'indx'; the "
            "function has request, index"
        ],
        "named": [f"serving: nothing matches relpy (nearest: reply){libraries}"],
        "gone": [
            "no process of it runs, and match.exe is the path of no file: its functions are "
            "not compared with a program"
        ],
    }


def test_a_process(me, folder, targets):
    """Its libraries are known, so lib: is told, too."""
    target = targets.start(me, [folder / "serving"], preload=False)
    told = check(me, folder)
    head = f"serving, pid {target.pid}: nothing matches "
    assert told["slow"] == [head + "handel (nearest: handle)", head + "lib:libfoo*"], told
    assert told["named"] == [head + "relpy (nearest: reply)"], told


def test_a_file_without_debug_information(me, folder):
    """What only it would say is not told; the functions are known without it."""
    for name in ("serving", "members"):
        assert me.run(["strip", folder / name]).returncode == 0
    assert set(check(me, folder)) == {"slow", "named", "gone"}


def test_a_list_is_checked(me, folder):
    program = folder / "members"

    def listed(*options):
        return me.iprobe("list", "--check", *options, program)

    for good in (
        [],
        ["-f", "handle", "--args", "handle(request->uri.data)", "--when", "index > 5"],
        ["--retval", "small(retval.x)", "-f", "!handle"],
        ["-f", "lib:elsewhere*,handle"],
    ):
        done = listed(*good)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (good, done)
    for bad, words in (
        (["-f", "!*"], "takes away all"),
        (["--args", "handel(index)"], "nearest: handle"),
        (["--args", "handle(request->uri.dta)"], "struct text has no member 'dta'"),
        (["--when", "handle: idx > 5"], "there is no parameter 'idx'"),
        (["-f", "chase", "--args", "handle(index)"], "is called handle"),
    ):
        done = listed(*bad)
        assert done.returncode == 1 and not done.stderr, (bad, done)
        assert len(done.stdout.splitlines()) == 1 and words in done.stdout, (bad, done)
    for options, words in (
        (["--args", "f(x)"], "goes with --check"),
        (["--check", "--by-function"], "lists nothing"),
        (["--check", "--args", "f(x"], "--args"),
    ):
        done = me.iprobe("list", *options, program)
        assert done.returncode == 2 and words in done.stderr, (options, done)


def test_a_check_as_json(me, folder, targets):
    """The same lines as without --json, each with its option, and the same exit code."""
    program = folder / "members"

    def read(where, *options):
        text = me.iprobe("list", "--check", *options, where)
        done = me.iprobe("list", "--check", "--json", *options, where)
        assert done.returncode == text.returncode and not done.stderr, repr(done)
        found = json.loads(done.stdout)
        assert found["ok"] == (done.returncode == 0) == (not found["problems"])
        assert [p["text"] for p in found["problems"]] == [
            line.split(": ", 1)[1] for line in text.stdout.splitlines()
        ]
        return found

    functions = json.loads(me.iprobe("list", "--json", "--by-function", program).stdout)
    n = len(functions["modules"][0]["functions"])
    good = read(program, "-f", "handle", "--args", "handle(index)")
    assert good == {
        "checked": str(program),
        "functions": n,
        "selected": 1,
        "problems": [],
        "ok": True,
    }
    bad = read(program, "-f", "handle,handel", "--args", "handle(indx)", "--when", "handle: no > 1")
    assert [p["option"] for p in bad["problems"]] == ["-f", "--args", "--when"]
    assert "nearest: handle" in bad["problems"][0]["text"]
    assert read(program, "-f", "!*")["problems"][0]["option"] == "-f"

    target = targets.start(me, [folder / "serving"], preload=False)
    found = read(target.pid, "-f", "lib:nowhere*")
    assert found["pid"] == target.pid and found["checked"] == f"pid {target.pid}"
    assert [p["text"] for p in found["problems"]] == ["nothing matches lib:nowhere*"]
    done = me.iprobe("list", "--check", "--json", folder / "nowhere")
    assert (done.returncode, done.stdout) == (1, "") and "no such file" in done.stderr


def test_another_placement_has_no_values(me, programs):
    program = programs.simple("value_members", placement="instrument")
    done = me.iprobe("list", "--check", "--args", "handle(index)", program)
    assert done.returncode == 1 and "IPROBE_PLACEMENT=fentry" in done.stdout, repr(done)
