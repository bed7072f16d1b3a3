# SPDX-License-Identifier: Apache-2.0
"""
Rules that find out why calls are slow (do: darc): a program with a planted cause, a rule that sees
its latency pass a limit, and what the log and the files say then. However it ends, every byte is
back and nothing is left.
"""

import contextlib
import copy
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from iptest import memory
from iptest.rules import (  # noqa: F401
    WAIT,
    idle,
    pytestmark,
    rule,
    rules,
    wait_until_idle,
    wait_until_live,
)
from iptest.slow_paths import Program
from test_darc import made
from test_darc_hostile import built  # noqa: F401
from test_rules_kernel import WITHOUT, traced  # noqa: F401
from test_rules_kernel import start as start_rules

SEED = 0
FOREVER = "darc: {function: serve, decision_ops: 1000000}"  # no search ends with so many


@pytest.fixture
def planted():
    return Program(SEED)


@pytest.fixture
def program(programs):
    return made(programs, SEED)[1]


@pytest.fixture
def start(me):
    """Starts programs that go on for ever; ends them."""
    started = []

    def begin(path):
        started.append(me.popen([path, "-1"]))
        memory.wait_for(
            "the program does not start",
            lambda: os.readlink(f"/proc/{started[-1].pid}/exe") == str(path),
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def slow(start, program):
    return start(program)


def when(planted, functions="serve"):
    return f"{{latency: {{functions: '{functions}', max: '> {planted.long_ms * 800}us'}}}}"


def children(pid):
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in found.stdout.split()]


def searching(rules):
    """(the iprobe darc of the rules, the process of its session), once functions are live."""

    def pids():
        for pid in children(rules.rules_pid()):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
                    if "\0darc\0" in f.read() and children(pid):
                        return pid, children(pid)[0]
        return None

    return memory.wait_for("no search goes on", pids, WAIT)


def only_directory(rules, name="r"):
    (path,) = (rules.traces / name).iterdir()
    return path


@pytest.mark.parametrize("kernel", [False, True])
def test_it_finds_the_cause(request, rules, slow, planted, me, kernel):
    """The latency passes the limit; the log names the path; the document agrees, and so does the
    page. Then the process is watched again.
    """
    if kernel:
        request.getfixturevalue("traced")
    more = "every: 1s\n    for: 40s" + ("\n    kernel: [sched, required]" if kernel else "")
    rules.start(rule(when(planted), do="{darc: {html: true}}", more=more))
    (path,) = rules.recorded("r")[:1]
    line = rules.wait_log("has searched: ", str(path))
    document = json.loads((path / "darc.json").read_text())
    assert (document["function"], document["state"]) == ("serve", "root cause found"), document
    assert document["searched"]["from_ns"] == planted.long_ms * 800000, document["searched"]
    assert document["kernel"] == kernel
    outside = ("preempted", "interrupt")
    found = [p for p in document["paths"] if p["cause"]["kind"] not in outside]
    assert found and {tuple(p["path"]) for p in found} == {tuple(planted.path)}, document["paths"]
    said = line.split("has searched: ")[1].split("; in /")[0]
    for cause in found[:3]:
        assert f"{100 * cause['share']:.0f} % {' > '.join(cause['path'])} (" in said, said
    assert said.endswith(f"of {document['searched']['looked_at']} calls looked at"), said
    assert said in (path / "why.txt").read_text().splitlines()
    assert "max of serve was" in (path / "why.txt").read_text()
    assert b"</html>" in (path / "darc.html").read_bytes()[-100:]
    assert sorted(p.name for p in path.iterdir()) == ["darc.html", "darc.json", "why.txt"]
    for p in path.iterdir():
        assert (p.stat().st_mode & 0o777, p.stat().st_uid) == (0o600, me.uid), p
    # it comes back to watching, and finds it again
    assert len(rules.recorded("r", 2)) >= 2
    status = json.loads(me.iprobe("status", "--json", slow.pid).stdout)
    assert all(m["foreign"] == 0 for m in status["modules"]), status
    assert rules.listed()["r"]["does"] == "darc" and rules.listed()["r"]["last_recorded"]


def test_the_function_that_was_slow(rules, slow, planted):
    """A rule that watches several functions searches the one whose latency has fired it."""
    functions = f"serve,{planted.path[1]}"
    rules.start(rule(when(planted, functions), do="darc", more="for: 40s\n    every: 1h"))
    (path,) = rules.recorded("r")
    fired = re.search(r"fires: max of (\S+) was", rules.log())[1]
    document = json.loads((path / "darc.json").read_text())
    assert document["function"] == fired, rules.log()
    assert document["paths"][0]["path"] == planted.path[planted.path.index(fired) :], document


def test_by_request(rules, slow, planted):
    """Without a function that was slow, one must be meant: nothing is searched, and the log says
    why; a rule that names one searches it.
    """
    rules.start(
        rule("request", do="{darc: 's*,*'}", name="many")
        + rule("request", do="{darc: {function: serve, percentile: p99}}", name="one").split(
            "\n", 1
        )[1]
    )
    assert rules.command("--fire", "many").returncode == 0
    rules.wait_log("rule many: ", "nothing is searched: ", "name one")
    memory.wait_for("a directory is left", lambda: not list((rules.traces / "many").iterdir()))
    assert rules.command("--fire", "one").returncode == 0
    (path,) = rules.recorded("one")
    document = json.loads((path / "darc.json").read_text())
    assert document["searched"]["from_ns"] > 0 and document["function"] == "serve", document
    wait_until_idle(slow.pid)


def test_what_finds_no_cause(rules, start, programs):
    """That is an answer, too."""
    path = made(programs, 1000, planted=False)[1]
    target = start(path)
    rules.program = path
    rules.start(rule("request", do="{darc: {function: serve, peak: 9}}", more="for: 5s"))
    assert rules.command("--fire", "r").returncode == 0
    (found,) = rules.recorded("r")
    document = json.loads((found / "darc.json").read_text())
    assert document["state"] in ("no peak", "in progress"), document
    over = document["state"] != "in progress"
    rules.wait_log(f"has searched: {'no peak' if over else 'ended before it was over; so far'}: ")
    wait_until_idle(target.pid)


def test_options(rules, slow, planted):
    """What the rule says is what iprobe darc is told."""
    place, cli = rules.path / "build", rules.actor.builddir / "cli"
    (place / "cli").mkdir(parents=True)
    shutil.copy(cli / "iprobed", place / "cli")
    (place / "cli" / "iprobe").write_text(
        f"""#!/bin/sh
if [ "$1" = darc ]; then
    echo "$TMPDIR $*" >>{place}/commands
    echo 'iprobe: not now' >&2
    exit 1
fi
exec {cli}/iprobe "$@"
"""
    )
    (place / "commands").touch()
    for p in (place, place / "cli", place / "cli" / "iprobe", place / "commands"):
        p.chmod(0o777 if p.name == "commands" else 0o755)
    rules.daemon.actor = copy.copy(rules.actor)
    rules.daemon.actor.builddir = place
    more = "for: 5s\n    kernel: [sched, required]\n    overhead: 3%"
    options = (
        "decision_ops: 30, start_ops: 200, depth: 8, max_functions: 50, maxcount_percentage: 10, "
        "memory: 8M, budget: 2%, html: true"
    )
    rules.start(
        rule(when(planted), do=f"{{darc: {{{options}}}}}", more=more)
        + rule("request", do="{darc: {function: 'a,b', peak: 2}}", name="q").split("\n", 1)[1]
    )
    rules.wait_log("rule r: ", "nothing is searched: iprobe: not now")
    assert rules.command("--fire", "q").returncode == 0
    rules.wait_log("rule q: ", "nothing is searched: iprobe: not now")
    first, second = (place / "commands").read_text().splitlines()[:2]
    pid = slow.pid
    assert first == (
        ". darc --json -q -o darc.json --html darc.html "
        f"--slower-than {planted.long_ms * 800000}ns --start-ops 200 --decision-ops 30 "
        "--max-functions 50 --depth 8 --maxcount-percentage 10 --duration 5000000000ns "
        f"--memory 8388608 --budget 2% --kernel=sched -f _Z5servev {pid}"
    )
    assert second == (
        ". darc --json -q -o darc.json --peak 2 --duration 60000000000ns --memory 67108864 "
        f"-f a,b {pid}"
    )
    assert not list((rules.traces / "r").iterdir())


def test_without_events_of_the_kernel(traced, rules, slow, planted):  # noqa: F811
    """Where they cannot be had the rule searches without, and says so."""
    start_rules(
        rules, rule(when(planted), do="darc", more="kernel: true\n    every: 1h"), WITHOUT
    )
    (path,) = rules.recorded("r")
    assert "tracefs" in rules.wait_log("it is searched without events of the kernel: ")
    assert "without events of the kernel" in (path / "why.txt").read_text().splitlines()
    assert not json.loads((path / "darc.json").read_text())["kernel"]


@pytest.mark.parametrize("who", ["search", "session"])
def test_kills(rules, slow, who):
    rules.start(rule("request", do=f"{{{FOREVER}}}", more="for: 10m"))
    assert rules.command("--fire", "r").returncode == 0
    search, session = searching(rules)
    wait_until_live(slow.pid)
    if who == "session":  # of which something is known by then
        memory.wait_for("no level is reached", lambda: level(rules, slow.pid), WAIT)
    os.kill(search if who == "search" else session, signal.SIGKILL)
    if who == "search":
        rules.wait_log("nothing is searched: its session was killed")
        rules.wait_log("its session was killed: what is live is put back")
        memory.wait_for("something is left", lambda: not list((rules.traces / "r").iterdir()), WAIT)
    else:  # what was known by then is told
        rules.wait_log("the process of the session was killed (signal 9)")
        path = rules.recorded("r")[0]
        assert sorted(p.name for p in path.iterdir()) == ["darc.json", "why.txt"]
    wait_until_idle(slow.pid)
    assert slow.poll() is None
    # the rule can go on
    assert rules.command("--fire", "r").returncode == 0
    searching(rules)


@pytest.mark.parametrize("how", ["reload", "end", "killed"])
def test_iprobed_ends(rules, slow, how):
    """What is known by then is kept, and every byte is back."""
    rules.start(rule("request", do=f"{{{FOREVER}}}", more="for: 10m"))
    assert rules.command("--fire", "r").returncode == 0
    searching(rules)
    wait_until_live(slow.pid)
    memory.wait_for("no level is reached", lambda: level(rules, slow.pid), WAIT)
    if how == "reload":
        rules.write(rule("request", do="hist"))
        os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    elif how == "end":
        assert rules.daemon.end() == 0
    else:
        os.kill(rules.rules_pid(), signal.SIGKILL)
    if how == "killed":
        rules.wait_log("the process for rules has ended")
    else:
        rules.wait_log("has searched: ended before it was over")
    wait_until_idle(slow.pid)
    path = only_directory(rules)
    # the search ends behind who has started it
    memory.wait_for("it writes nothing", lambda: (path / "darc.json").exists(), WAIT)
    assert json.loads((path / "darc.json").read_text())["state"] == "in progress"
    memory.wait_for(
        "recordings are left",
        lambda: sorted(p.name for p in path.iterdir()) == ["darc.json", "why.txt"],
        WAIT,
    )
    assert slow.poll() is None
    if how == "killed":  # the next rules process puts its notes in order
        os.kill(rules.daemon.proc.pid, signal.SIGHUP)
        memory.wait_for("no rules again", lambda: rules.carried_out() == 2, WAIT)


def level(rules, pid):
    """Whether the search has looked at F0."""
    done = rules.actor.iprobe("darc", "--status", "--json", pid)
    return done.returncode == 0 and json.loads(done.stdout)["level"] > 0


def test_the_process_ends(rules, slow):
    rules.start(rule("request", do=f"{{{FOREVER}}}", more="for: 10m"))
    assert rules.command("--fire", "r").returncode == 0
    searching(rules)
    wait_until_live(slow.pid)
    memory.wait_for("no level is reached", lambda: level(rules, slow.pid), WAIT)
    slow.kill()
    rules.wait_log("has searched: ended before it was over")
    path = only_directory(rules)
    assert json.loads((path / "darc.json").read_text())["state"] == "in progress"
    memory.wait_for("it stays a target", lambda: not rules.listed()["r"]["processes"], WAIT)


def test_another_session(rules, slow, me):
    """A recording that goes on already is not disturbed; the log says whose it is."""
    session = me.start_iprobe("attach", "-q", "-f", "serve", "-o", me.dir() / "t", slow.pid)
    wait_until_live(slow.pid)
    rules.start(rule("request", do="{darc: serve}"))
    assert rules.command("--fire", "r").returncode == 0
    rules.wait_log("nothing is searched: ", f"{session.pid}")
    assert not list((rules.traces / "r").iterdir())
    session.send_signal(signal.SIGINT)
    assert session.wait() == 0


def test_a_function_that_is_called_like_a_file(rules, built, start):  # noqa: F811
    """Its name means that function alone: not the file, which is a FIFO that nobody writes to."""
    fifo = rules.actor.dir() / "fifo"
    os.mkfifo(fifo)
    name = f"@{fifo}"
    path = built("Q" * len(name))
    path.write_bytes(path.read_bytes().replace(b"Q" * len(name), name.encode()))
    rules.program = path
    start(path)
    latency = "{latency: {functions: '*,!serve,!main', max: '> 5ms'}}"
    rules.start(rule(latency, do="darc", more="for: 40s\n    every: 1h"))
    (found,) = rules.recorded("r")
    assert f"fires: max of {name} was" in rules.log()
    document = json.loads((found / "darc.json").read_text())
    assert document["function"] == name, document
    rules.wait_log("has searched: ", f" {name} (")


@pytest.mark.parametrize(
    "do, more, words",
    [
        ("darc", "", "darc of which function?"),
        ("{darc: {function: serve, peak: 1, slower_than: 1ms}}", "", "one of them"),
        ("{darc: {function: serve, decision_ops: many}}", "", "decision_ops is a number"),
        ("{darc: {function: serve, kernel: true}}", "", "unknown key 'kernel'; darc has"),
        ("{darc: serve}", "record: service", "darc searches one process"),
        ("{darc: serve}", "disk: 10M", "more than half of disk"),
    ],
)
def test_refused(rules, do, more, words):
    """One line, with the place."""
    rules.write(rule("request", do=do, more=more))
    done = rules.actor.run(
        [rules.actor.builddir / "cli" / "iprobed", "--check", "--probes-d", rules.files]
        + ["--policy", rules.path / "none"]
    )
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and words in line, repr(done)
    assert re.match(rf"iprobed: {rules.files}/rules.yaml:\d+:\d+: ", line), line
