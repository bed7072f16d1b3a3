# SPDX-License-Identifier: Apache-2.0
"""
Rules of probes.d, carried out by iprobed: each condition and each action, their limits, and what
is left when parts of it die.
"""

import contextlib
import copy
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from iptest import memory, time_scale
from iptest.actor import ORDINARY_UID, end, last_words, one_line
from iptest.daemon import Daemon

pytestmark = pytest.mark.skipif(
    "ASAN_OPTIONS" in os.environ,
    reason="a sanitizer's runtime makes calls that the filter of the socket's side forbids",
)

SHIPPED = pathlib.Path(__file__).resolve().parents[2] / "probes.d"
WAIT = 90  # seconds, on a machine that has other things to do


class Rules:
    """An iprobed with rules. PROGRAM in their text is the program's whole path: others may run
    one of that name.
    """

    def __init__(self, actor, path, program):
        self.actor, self.path, self.program = actor, path, program
        self.files = path / "probes.d"
        self.files.mkdir()
        self.traces = path / "traces"
        self.daemon = Daemon(actor, path)

    def write(self, text):
        (self.files / "rules.yaml").write_text(text.replace("PROGRAM", str(self.program)))
        for p in (self.files, self.files / "rules.yaml"):
            p.chmod(0o755)

    def start(self, text=None, *options):
        if text:
            self.write(text)
        before = self.carried_out()
        self.daemon.start("--probes-d", self.files, "--traces", self.traces, *options)
        memory.wait_for("the rules are not taken", lambda: self.carried_out() > before, WAIT)
        return self

    def carried_out(self):
        """How often rules have been read, also those that are not carried out."""
        return (
            len(re.findall(" carried out(?:, of |: )", self.log()))
            if self.daemon.log_path.exists()
            else 0
        )

    def command(self, *args):
        return self.actor.run(
            [self.actor.builddir / "cli" / "iprobed", "--state", self.daemon.state, *args]
        )

    def log(self):
        return self.daemon.log()

    def wait_log(self, *words, timeout=WAIT):
        """Until a line has all of the words; the line."""

        def line():
            return next(
                (text for text in self.log().splitlines() if all(w in text for w in words)), None
            )

        try:
            return memory.wait_for(f"the log does not say {words}", line, timeout)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.log()}") from None

    def recorded(self, rule, n=1):
        """The directories of a rule, once there are so many that are complete."""

        def complete():
            found = [
                text.split("; in ")[1]
                for text in self.log().splitlines()
                if f"rule {rule}: " in text and "; in " in text
            ]
            return found if len(found) >= n else None

        try:
            return [
                pathlib.Path(p)
                for p in memory.wait_for(f"the rule {rule} records nothing", complete, WAIT)
            ]
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.log()}") from None

    def listed(self):
        done = self.command("--rules", "--json")
        assert done.returncode == 0, f"{done!r}\n{self.log()}"
        return {r["name"]: r for r in json.loads(done.stdout)["rules"]}

    def rules_pid(self):
        return next(pid for pid, name in self.daemon.children().items() if name == "iprobed-rules")


@pytest.fixture
def rules(me, program):
    made = Rules(me, me.dir(), program)
    yield made
    if made.daemon.proc:
        assert made.daemon.end() == 0, made.log()
        assert not [
            p.name for p in made.daemon.state.iterdir() if p.name not in ("sock",)
        ], made.log()


@pytest.fixture
def program(programs):
    return programs.simple("serving", placement="fentry")


@pytest.fixture
def serving(targets, me, program):
    return targets.start(me, [program], preload=False)


def idle(pid):
    return not memory.text_differences(pid)


def wait_until_idle(pid):
    memory.wait_for("sites stay live", lambda: idle(pid), WAIT)


def wait_until_live(pid):
    memory.wait_for(
        "nothing goes live", lambda: any(any(d[3]) for d in memory.text_differences(pid)), WAIT
    )


def rule(when, do="trace", name="r", match="{exe: PROGRAM}", more=""):
    return f"rules:\n  {name}:\n    match: {match}\n    when: {when}\n    do: {do}\n    {more}\n"


def report(me, path, name="trace"):
    done = me.iprobe("report", "--json", path / name)
    assert done.returncode == 0, repr(done)
    return {f["function"]: f for f in json.loads(done.stdout)["functions"]}


def recorded_functions(rules, me, name, wanted):
    """Lets a rule fire by request until what it records has the functions: where a machine is
    busy the server may have no CPU for a while.
    """
    for i in range(1, 20):
        done = rules.command("--fire", name)
        assert (done.returncode, done.stdout) == (
            0,
            f"the rule '{name.split(':')[0]}' fires for 1 process\n",
        ), repr(done)
        functions = report(me, rules.recorded(name.split(":")[0], i)[i - 1])
        if wanted <= set(functions):
            return functions
    raise AssertionError(f"{wanted} not in {functions}\n{rules.log()}")


LATENCY = "{latency: {functions: handle, p99: '> 10ms', over: 1s}}"


# Conditions


def test_latency_finds_the_culprit(rules, serving, me):
    rules.start(rule(LATENCY, more="for: 1s\n    at_most: 1 per 1h"))
    rules.wait_log("is watched: p99>10ms/1s:handle")
    wait_until_live(serving.pid)
    time.sleep(1.5)
    assert "fires" not in rules.log()
    os.kill(serving.pid, signal.SIGUSR1)
    assert "p99 of handle was " in rules.wait_log("fires: ")
    (path,) = rules.recorded("r")
    functions = report(me, path)
    assert {"handle", "parse", "look_up", "reply"} <= set(functions)
    self_ns = {name: f["self_ns"] for name, f in functions.items() if name != "main"}
    assert max(self_ns, key=self_ns.get) == "look_up"
    assert functions["look_up"]["p50_ns"] > 10e6
    why = (path / "why.txt").read_text()
    assert (
        f"pid      {serving.pid}\n" in why
        and "why      p99 of handle was " in why
        and "rule     r\n" in why
    )
    wait_until_idle(serving.pid)
    time.sleep(2)  # once in an hour: it is not watched any more
    assert rules.log().count("fires") == 1 and idle(serving.pid) and serving.alive()


def test_one_slow_call(rules, serving):
    """A rule is not fired by what comes first, but by a single call."""
    rules.start(
        rule("{latency: {functions: handle, max: '> 400ms'}}", "{hist: handle}", more="for: 100ms")
    )
    rules.wait_log("is watched: max>400ms/1s:handle")
    wait_until_live(serving.pid)
    time.sleep(0.5)
    assert "fires" not in rules.log()
    os.kill(serving.pid, signal.SIGHUP)
    assert "max of handle was " in rules.wait_log("fires: ")


def test_of_two_limits_the_one_that_is_passed(rules, serving):
    """Two rules with a latency watch by one session."""
    rules.start(
        "rules:\n"
        "  never: {match: {exe: PROGRAM}, when: {latency: {functions: 'parse,reply', mean: '> "
        "10s'}}, do: trace}\n"
        "  calls: {match: {exe: PROGRAM}, when: {latency: {functions: handle, calls: '> 20'}}, do: "
        "{hist: handle}, for: 300ms}\n"
    )
    assert "handle was called " in rules.wait_log("rule calls:", "fires: ")
    assert "waits" not in rules.log() and "rule never: fires" not in rules.log()
    path = rules.recorded("calls")[0]
    assert (path / "trace" / "iprobe" / "counts").exists()


def test_cpu(rules, serving):
    much = round(time_scale.FACTOR * 4)  # per cent: what it takes at rest is more on a slow machine
    rules.start(rule(f"{{cpu: '> {much}% for 1s'}}", more="for: 100ms\n    at_most: 1 per 1h"))
    rules.wait_log("1 carried out")
    time.sleep(2)
    assert "fires" not in rules.log()
    os.kill(serving.pid, signal.SIGUSR2)
    line = rules.wait_log("fires: it takes ")
    assert float(line.split("it takes ")[1].split()[0]) >= much
    rules.recorded("r")


def test_memory_and_every(rules, targets, me, program):
    big, small = (targets.start(me, [program, "grow", n], preload=False) for n in (64, 1))
    rules.start(
        "rules:\n"
        "  big: {match: {exe: PROGRAM}, when: {memory: '> 40M'}, do: trace, for: 50ms, at_most: 1 "
        "per 1h}\n"
        f"  often: {{match: {{cmdline: 'PROGRAM grow 1'}}, when: {{every: 1s}}, do: {{trace: "
        f"handle}}, for: 50ms}}\n"
    )
    assert f" pid {big.pid} " in rules.wait_log("rule big:", "fires: it has ", "more than 40.0 MiB")
    rules.recorded("often", 3)
    assert all(
        f" pid {small.pid} " in line
        for line in rules.log().splitlines()
        if "rule often:" in line and "fires" in line
    )
    assert rules.log().count("rule big:") >= 1 and f"rule big: pid {small.pid}" not in rules.log()


@pytest.fixture
def cgroup(root):
    """A cgroup of version 2 with a test's own process in it that is held up for the CPU, where
    that can be had.
    """
    mounts = [
        line.split()[1]
        for line in open("/proc/self/mounts", encoding="utf-8")
        if line.split()[2] == "cgroup2"
    ]
    if not mounts or not os.path.exists("/proc/pressure/cpu"):
        pytest.skip("no cgroup of version 2 with pressure here")
    path = pathlib.Path(mounts[0]) / f"iprobe-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as e:
        pytest.skip(f"no cgroup can be made: {e}")
    if not (path / "cpu.pressure").exists():
        path.rmdir()
        pytest.skip("this kernel tells no pressure of cgroups")
    yield path
    memory.wait_for(
        "the cgroup stays", lambda: not (path / "cgroup.procs").read_text().strip(), WAIT
    )
    path.rmdir()


def test_pressure(root, targets, program, cgroup):
    """Six that compute on one CPU."""
    rules = Rules(root, root.dir(), program)
    several = [
        targets.start(root, ["taskset", "-c", "0", program], preload=False) for _ in range(6)
    ]
    for t in several:
        (cgroup / "cgroup.procs").write_text(str(t.pid))
        os.kill(t.pid, signal.SIGUSR2)
    rules.start(
        rule(
            "{pressure: {cpu: '> 20% for 1s'}}",
            match=f"{{cgroup: '/{cgroup.name}', unit: {cgroup.name}}}",
            do="{trace: handle}",
            more="for: 50ms\n    at_most: 1 per 1h",
        )
    )
    rules.wait_log("fires: its cgroup has waited for cpu in ")
    rules.recorded("r")
    assert rules.daemon.end() == 0
    for t in several:
        t.proc.terminate()


def test_start_and_signal(rules, targets, me, program):
    before = targets.start(me, [program], preload=False)
    rules.start(rule("{start: true, signal: USR1}", more="for: 100ms"))
    rules.wait_log("1 carried out")
    memory.wait_for("the process is not found", lambda: rules.listed()["r"]["processes"], WAIT)
    later = targets.start(me, [program], preload=False)
    assert f" pid {later.pid} " in rules.wait_log("fires: it has started")
    rules.recorded("r")
    assert f"pid {before.pid} ({program}): fires" not in rules.log()
    os.kill(rules.daemon.proc.pid, signal.SIGUSR2)  # somebody else's
    os.kill(rules.daemon.proc.pid, signal.SIGUSR1)
    rules.wait_log(f"pid {before.pid} ", "fires: signal USR1 to iprobed")
    rules.wait_log(f"pid {later.pid} ", "fires: signal USR1 to iprobed")
    rules.recorded("r", 3)
    assert rules.log().count("USR2") == 0


def test_request_for_what_has_just_started(rules, targets, me, program):
    """Processes are looked at from time to time; a request does not wait for that."""
    rules.start(rule("request", more="for: 100ms"))
    for n in range(1, 4):
        target = targets.start(me, [program], preload=False)
        done = rules.command("--fire", f"r:{target.pid}")
        assert done.returncode == 0, repr(done)
        rules.recorded("r", n)


def test_request(rules, serving, me):
    rules.start(
        rule("request", more="for: 100ms\n    enabled: yes")
        + "  off:\n    match: {exe: PROGRAM}\n    when: request\n    do: trace\n    enabled: no\n"
    )
    memory.wait_for(
        "the process is not found", lambda: rules.listed().get("r", {}).get("processes"), WAIT
    )
    assert "no rule 'off'" in one_line(rules.command("--fire", "off"))
    assert "no rule 'none'" in one_line(rules.command("--fire", "none"))
    assert "is not for pid 1" in one_line(rules.command("--fire", "r:1"))
    assert "iprobed: " in one_line(rules.command("--fire", "r:x"))
    recorded_functions(rules, me, f"r:{serving.pid}", {"handle"})
    fired = rules.listed()["r"]["fired"]
    text = rules.command("--rules").stdout
    assert (
        fired
        and text.startswith(f"r: trace, fired {fired} time{'' if fired == 1 else 's'}")
        and f"  pid {serving.pid}  nothing  " in text
    )
    assert "off" not in text


def test_names_that_terminals_obey(rules, targets, me, program):
    """And that do not fit into one packet."""
    name = rules.path / "a\x1b]0;title\x07\nok\u00e4"
    shutil.copy(program, name)
    t = targets.start(me, [name], preload=False)
    long = "r" * 60
    rules.start(
        "rules:\n"
        + "".join(
            f"  {long}{i}: {{match: {{exe: '{rules.path}/a*'}}, when: request, do: trace}}\n"
            for i in range(1000)
        )
    )
    memory.wait_for(
        "the process is not found", lambda: rules.listed()[f"{long}999"]["processes"], WAIT
    )
    assert len(rules.listed()) == 1000 and rules.listed()[f"{long}1"]["processes"][0][
        "program"
    ] == str(name)
    text = rules.command("--rules").stdout
    assert (
        f"  pid {t.pid}  nothing  {rules.path}/a\\x1b]0;title\\x07\\x0aok\\xc3\\xa4\n" in text
        and len(text) > 2**17
    )
    assert text.isascii() and min(set(text) - {"\n"}) >= " "


def test_requests_are_for_the_same_user(root, user, serving, program):
    rules = Rules(root, root.dir(), program).start(rule("request"))
    rules.wait_log("1 carried out")
    rules.actor = user
    assert "Permission denied" in one_line(rules.command("--fire", "r"))
    assert rules.daemon.end() == 0


# Actions


def test_snapshot_of_the_flight_recorder(rules, serving, me):
    """What was before the moment is there, and what came after it."""
    rules.start(rule("request", do="{snapshot: {functions: '*', memory: 2M}}", more="for: 300ms"))
    rules.wait_log("is recorded in a ring")
    wait_until_live(serving.pid)
    time.sleep(1)
    assert rules.command("--fire", "r").returncode == 0
    (path,) = rules.recorded("r")
    info = json.loads(me.iprobe("info", "--json", path / "trace").stdout)
    assert report(me, path)["handle"]["calls"] >= 10, info
    rules.command("--fire", "r")  # it goes on
    rules.recorded("r", 2)
    assert not idle(serving.pid)


def replies(me, path):
    """The numbers of the replies in a trace, of which each has one."""
    done = me.iprobe("dump", "--json", path / "trace")
    assert done.returncode == 0, repr(done)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    entries = [e for e in events if e.get("function") == "reply" and e["event"] == "entry"]
    return [e["args"]["number"] for e in entries]


@pytest.mark.parametrize("when", ["request", "{latency: {functions: reply, calls: '> 5'}}"])
def test_snapshot_with_values(rules, serving, me, when):
    """The flight recorder has the values that the rule asks for, also of the function whose
    latency it watches.
    """
    values = "args: 'reply(number)', retval: true"
    rules.start(
        rule(when, do=f"{{snapshot: {{functions: reply, memory: 2M, {values}}}}}", more="for: 50ms")
    )
    wait_until_live(serving.pid)
    time.sleep(0.2)
    if when == "request":
        assert rules.command("--fire", "r").returncode == 0
    numbers = replies(me, rules.recorded("r")[0])
    assert len(numbers) > 5, numbers
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers


def test_a_wait_for_a_session_is_told_once(rules, serving, me):
    """A recording that was there before keeps a rule from watching: the log says whose it is, not
    which options the watch has; and the watch begins soon after it.
    """
    session = me.start_iprobe("attach", "-q", "-f", "parse", "-o", me.dir() / "t", serving.pid)
    wait_until_live(serving.pid)
    rules.start(
        "rules:\n"
        "  ring: {match: {exe: PROGRAM}, when: request, do: {snapshot: {functions: handle}}}\n"
        "  one: {match: {exe: PROGRAM}, when: request, do: trace, for: 1s}\n"
    )
    waits = f"pid {serving.pid} ({rules.program}): waits until its session of iprobe"
    rules.wait_log("rule ring:", f"{waits} {session.pid} has ended")
    assert rules.command("--fire", "one").returncode == 0
    rules.wait_log("rule one:", f"nothing is recorded: it has a session of iprobe {session.pid}")
    time.sleep(2.5)  # it has been tried again
    assert rules.log().count("waits until its session") == 1
    assert "--" not in rules.log().split("waits until")[1], rules.log()
    done = me.iprobe("attach", "--json", "--duration", "1s", serving.pid)
    assert done.returncode == 1 and "--duration is for a new one" in done.stderr, repr(done)
    assert json.loads(done.stdout) == {"pid": serving.pid, "taken_by": session.pid}
    assert me.iprobe("detach", serving.pid).returncode == 0
    assert last_words(session).returncode == 0
    wait_until_live(serving.pid)
    assert rules.command("--fire", "ring").returncode == 0
    assert "handle" in report(me, rules.recorded("ring")[0])


def test_snapshot_of_a_slow_moment(rules, serving, me):
    """A latency, and a flight recorder: the function that is watched is recorded, too, from before
    the moment on; then it may not again, and the recorder goes on without watching.
    """
    rules.start(
        rule(
            LATENCY,
            do="{snapshot: {functions: 'look_*', memory: 2M}}",
            more="for: 300ms\n    at_most: 1 per 1h",
        )
    )
    rules.wait_log("is recorded in a ring: p99>10ms/1s:handle")
    wait_until_live(serving.pid)
    time.sleep(1)
    assert "fires" not in rules.log()
    os.kill(serving.pid, signal.SIGUSR1)
    assert "p99 of handle was " in rules.wait_log("fires: ")
    (path,) = rules.recorded("r")
    functions = report(me, path)
    assert set(functions) == {"handle", "look_up"}
    # fast ones, from before, and slow ones
    assert functions["look_up"]["min_ns"] < 8e6 < 10e6 < functions["look_up"]["max_ns"], functions
    assert functions["handle"]["max_ns"] >= functions["look_up"]["max_ns"]
    info = json.loads(me.iprobe("info", "--json", path / "trace").stdout)
    assert "why      p99 of handle was " in (path / "why.txt").read_text(), info
    wait_until_live(serving.pid)
    assert rules.command("--fire", "r").returncode == 0  # by request it may
    assert "look_up" in report(me, rules.recorded("r", 2)[1])
    assert rules.log().count("fires: p99") == 1
    os.kill(serving.pid, signal.SIGUSR1)
    assert sorted(
        p.name.split("-")[0] for p in (rules.traces / "r").iterdir() if p.name.startswith(".")
    ) in ([], [".recorder"])
    rules.daemon.end()
    assert not [p for p in (rules.traces / "r").iterdir() if p.name.startswith(".")]
    wait_until_idle(serving.pid)


def test_a_slow_moment_that_comes_again(rules, serving, me):
    """The recorder is begun anew behind each; when the rule may not fire any more, and then may
    again, it watches again.
    """
    rules.start(
        rule(LATENCY, do="{snapshot: {memory: 2M}}", more="for: 50ms\n    at_most: 1 per 3s")
    )
    rules.wait_log("is recorded in a ring")
    wait_until_live(serving.pid)
    os.kill(serving.pid, signal.SIGUSR1)
    first, second = rules.recorded("r", 2)[:2]
    assert first != second and {"handle", "look_up"} <= set(report(me, second))
    assert serving.alive()


def test_fperf(rules, serving):
    rules.start(
        "profiles: {p: {events: TASK-CLOCK, functions: handle}}\n"
        + rule("request", do="{fperf: p}", more="for: 500ms\n    overhead: 2%")
    )
    memory.wait_for(
        "the process is not found", lambda: rules.listed().get("r", {}).get("processes"), WAIT
    )
    assert rules.command("--fire", "r").returncode == 0
    (path,) = rules.recorded("r")
    result = json.loads((path / "fperf.json").read_text())
    assert "handle" in {f["function"] for f in result["functions"]}
    assert result["budget"] in (0.02, 2), result["budget"]


def test_values_and_selection(rules, serving, me):
    rules.start(
        "selections: {some: [parse, reply]}\n"
        + rule(
            "request",
            do="{trace: {functions: '@some', args: true, retval: true, memory: 4M}}",
            more="for: 100ms",
        )
    )
    memory.wait_for(
        "the process is not found", lambda: rules.listed().get("r", {}).get("processes"), WAIT
    )
    assert set(recorded_functions(rules, me, "r", {"parse", "reply"})) == {"parse", "reply"}


# Limits


def test_two_rules_one_process(rules, serving, me):
    """One session at a time: what fires ends what watches, the others wait for each other."""
    rules.start(
        "rules:\n"
        "  watch: {match: {exe: PROGRAM}, when: {latency: {functions: handle, p99: '> 10s'}}, do: "
        "trace}\n"
        "  ring: {match: {exe: PROGRAM}, when: request, do: snapshot}\n"
        "  one: {match: {exe: PROGRAM}, when: request, do: trace, for: 1s}\n"
        "  two: {match: {exe: PROGRAM}, when: request, do: {hist: '*'}, for: 300ms}\n"
    )
    rules.wait_log(
        "rule ring:",
        "waits: the process has one session at a time, and the rule 'watch' watches it",
    )
    wait_until_live(serving.pid)
    for name in ("one", "two", "ring"):
        assert rules.command("--fire", name).returncode == 0
    rules.wait_log("rule ring:", "its flight recorder does not run just now")
    (one,) = rules.recorded("one")
    (two,) = rules.recorded("two")
    assert report(me, one)["handle"]["calls"] and two.exists()
    info = json.loads(me.iprobe("info", "--json", one / "trace").stdout)
    assert (
        info["end"] == "duration over" and info["duration_ns"] > 5e8
    ), info  # for: 1s; a busy machine may have held its threads up
    wait_until_live(serving.pid)  # it is watched again
    assert "tried again" not in rules.log()


@pytest.mark.parametrize("how", ["histogram", "flight-recorder"])
def test_a_watch_makes_way(rules, root, user, targets, program, me, how):
    """Whoever may trace a process records it while a rule watches it, with all that a recording of
    its own may have; the watch begins again behind it.
    """
    watched = "{latency: {functions: handle, p99: '> 100s'}}"
    rules.start(
        rule(watched)
        if how == "histogram"
        else rule("request", do="{snapshot: {functions: handle, memory: 1M}}")
    )
    for actor in (user, root) if how == "histogram" else (user,):
        target = targets.start(actor, [program], preload=False)
        wait_until_live(target.pid)
        out = actor.dir() / "own"
        done = actor.iprobe("attach", "--dry-run", "-f", "handle", target.pid)
        assert done.returncode == 0 and "nothing was changed" in done.stdout, repr(done)
        done = actor.iprobe(
            *("attach", "-f", "handle", "--duration", "500ms", "--json", "-o", out, target.pid)
        )
        assert done.returncode == 0 and done.summary()["events"] > 0, repr(done)
        assert "watches it for a rule of iprobed: the watch ends for this recording" in done.stderr
        assert set(report(me, out.parent, "own")) == {"handle"}
        rules.wait_log("is watched no longer: another iprobe has attached")
        wait_until_live(target.pid)
        target.say("")
        end(target.proc)


def test_what_does_not_make_way_names_the_way(me, user, targets, program):
    """A session that is no watch stays; the refusal tells the command that ends it."""
    target = targets.start(user, [program], preload=False)
    session = me.start_iprobe("attach", "-q", "-f", "handle", "-o", me.dir() / "t", target.pid)
    wait_until_live(target.pid)
    done = me.iprobe("attach", "--duration", "1s", target.pid)
    assert f"end it first (iprobe detach {target.pid})" in one_line(done)
    if me.is_root:
        done = user.iprobe("attach", "-f", "handle", target.pid)
        assert "iprobe detach ends it" in one_line(done)
    assert user.iprobe("detach", target.pid).returncode == 0
    assert last_words(session).returncode == 0


def test_overhead_of_a_watch(rules, serving):
    """3333 calls a second are 0.01 % by 30 ns each."""
    os.kill(serving.pid, signal.SIGUSR2)
    rules.start(rule("{latency: {functions: handle, p99: '> 10s'}}", more="overhead: 0.01%"))
    rules.wait_log("to watch it takes more than 0.01 % (overhead): handle was called ")
    wait_until_idle(serving.pid)


def test_overhead_of_a_trace_is_paid_back(rules, serving):
    os.kill(serving.pid, signal.SIGUSR2)
    rules.start(rule("{every: 1s}", more="for: 1s\n    overhead: 0.01%"))
    rules.recorded("r")
    time.sleep(1.5)
    assert rules.log().count("fires") == 1, rules.log()


def test_disk(rules, serving):
    """Two MiB, of which the oldest go."""
    os.kill(serving.pid, signal.SIGUSR2)
    rules.start(rule("{every: 1s}", more="for: 300ms\n    disk: 2M"))
    rules.recorded("r", 4)
    rules.wait_log(
        "oldest of what it has recorded are removed, so that it has no more than 2.0 MiB (disk)"
    )
    used = sum(p.lstat().st_blocks * 512 for p in (rules.traces / "r").rglob("*"))
    assert used < 2.5 * 2**20


def test_at_most_outlives_a_restart(rules, serving):
    text = rule("{every: 1s}", more="for: 50ms\n    at_most: 2 per 1h")
    rules.start(text)
    rules.recorded("r", 2)
    rules.wait_log("would fire, and has 2 times in ")
    rules.daemon.end()
    rules.start(text)
    memory.wait_for(
        "it does not say so again",
        lambda: rules.log().count("would fire, and has 2 times") == 2,
        WAIT,
    )
    assert rules.log().count("fires: ") == 2


def test_a_service_is_recorded_once_in_a_while(rules, targets, me, program):
    """Workers of a service share a cool-down, which outlives a restart; another program has its
    own; a request is not kept waiting.
    """
    other = me.dir() / "other"
    shutil.copy(program, other)
    other.chmod(0o755)
    for path in (program, program, other):
        targets.start(me, [path], preload=False)
    text = rule(
        "{every: 1s, request: true}",
        match=f"{{exe: [PROGRAM, {other}]}}",
        more="for: 50ms\n    every: 1h\n    at_most: 2 per 1h",
    )
    rules.start(text)
    said = [p / "why.txt" for p in rules.recorded("r", 2)]
    services = {re.search(r"^service  (\S+)", p.read_text(), re.M)[1] for p in said}
    assert services == {str(program), str(other)}, services
    rules.wait_log("ago for its service (every 3600 s): not now")
    for _ in range(2):
        # one worker, and the other program, some seconds later
        memory.wait_for(
            "they do not wait", lambda: rules.log().count("for its service (every") >= 2, WAIT
        )
        assert rules.log().count("fires: ") == 2, rules.log()
        rules.daemon.end()
        rules.start(text)
        time.sleep(1.2)
    assert rules.command("--fire", "r").stdout == "the rule 'r' fires for 3 processes\n"
    rules.recorded("r", 5)


def test_users(rules, me, serving):
    """By number; another user's process is left alone."""
    rules.start(
        rule("request", match=f"{{exe: PROGRAM, user: {me.uid + 1}}}", name="others")
        + f"  mine: {{match: {{user: {me.uid}, exe: PROGRAM}}, when: request, do: trace, for: "
        f"50ms}}\n"
    )
    memory.wait_for(
        "the process is not found", lambda: rules.listed().get("mine", {}).get("processes"), WAIT
    )
    assert not rules.listed()["others"]["processes"]
    assert "is for no process that runs" in one_line(rules.command("--fire", "others"))


# Survival


def test_rules_are_read_again(rules, serving):
    rules.start(rule(LATENCY, name="old"))
    wait_until_live(serving.pid)
    rules.write("rules: {a: b}\n")
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    rules.wait_log("all stays as it was: ", "rules.yaml:1:12: a rule is written as")
    assert not idle(serving.pid) and set(rules.listed()) == {"old"}
    rules.write(rule("request", name="new"))
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    memory.wait_for(
        "the new rule is not there", lambda: rules.log().count("1 carried out") == 2, WAIT
    )
    assert set(rules.listed()) == {"new"}
    wait_until_idle(serving.pid)


def test_files_of_others(rules, serving):
    rules.write(rule("request"))
    (rules.files / "rules.yaml").chmod(0o666)
    rules.start()
    rules.wait_log(
        "none are carried out: ", "rules.yaml can be written by others", "rules are made of it"
    )
    assert "nobody listens" in one_line(rules.command("--rules"))


def test_files_of_others_that_rules_use(rules, serving):
    rules.write(rule("request", do="{trace: '@some'}"))
    (rules.files / "some.yaml").write_text("selections: {some: handle}\n")
    (rules.files / "some.yaml").chmod(0o664)
    rules.start()
    rules.wait_log(
        "none are carried out: ", "some.yaml can be written by others", "rules are made of it"
    )


def test_an_error_changes_nothing(rules, serving):
    """Also where the file can be read."""
    rules.start(rule(LATENCY), "--rule", "r")
    wait_until_live(serving.pid)
    rules.write(rule("request", name="other"))
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    rules.wait_log("all stays as it was: no rule 'r' in ")
    rules.write(rule("request"))
    (rules.files / "rules.yaml").chmod(0o666)
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    rules.wait_log("all stays as it was: ", "rules.yaml can be written by others")
    assert rules.listed()["r"]["processes"] and rules.carried_out() == 1 and not idle(serving.pid)


def test_a_long_action_holds_nobody_up(rules, serving, me):
    """It ends when the files are read again, with what it has."""
    rules.start(rule("request", more="for: 30m"))
    memory.wait_for("the process is not found", lambda: rules.listed()["r"]["processes"], WAIT)
    assert rules.command("--fire", "r").returncode == 0
    wait_until_live(serving.pid)
    rules.write(rule("request", name="new"))
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    memory.wait_for("the new rule is not there", lambda: rules.carried_out() == 2, WAIT)
    (path,) = rules.recorded("r")
    assert "handle" in report(me, path) and set(rules.listed()) == {"new"}
    memory.wait_for(
        "the process is not found again", lambda: rules.listed()["new"]["processes"], WAIT
    )
    assert idle(serving.pid)


def test_places_are_taken_again(rules, targets, me, program):
    several = {t.pid: t for t in (targets.start(me, [program], preload=False) for _ in range(2))}
    rules.start(rule("request", more="processes: 1"))
    rules.wait_log("is for 1 process at the same time at most (processes)")
    (first,) = memory.wait_for(
        "the process is not found", lambda: rules.listed()["r"]["processes"], WAIT
    )
    several.pop(first["pid"]).proc.kill()
    (other,) = several
    memory.wait_for(
        "the other one does not take its place",
        lambda: [p["pid"] for p in rules.listed()["r"]["processes"]] == [other],
        WAIT,
    )


def test_places_are_shared_by_users(root, user, targets, program):
    """Who has the fewer gets one, of the newest of who has most; with as many each nothing
    changes any more.
    """
    rules = Rules(root, root.dir(), program)
    many = [targets.start(root, [program], preload=False).pid for _ in range(4)]
    rules.start(rule("{latency: {functions: handle, p99: '> 10s'}}", more="processes: 3"))

    def holders():
        return {p["pid"] for p in rules.listed()["r"]["processes"]}

    memory.wait_for("not three of them are found", lambda: len(holders()) == 3, WAIT)
    assert holders() < set(many)
    few = [targets.start(user, [program], preload=False).pid for _ in range(2)]
    memory.wait_for(
        "the user gets no place",
        lambda: len(holders() & set(few)) == 1 and len(holders()) == 3,
        WAIT,
    )
    line = rules.wait_log("its place is another user's now, who has fewer of them (processes)")
    loser = int(line.split(" pid ")[1].split()[0])
    assert loser in many
    wait_until_idle(loser)
    (other,), lucky = set(few) - holders(), holders() & set(few)
    for pid in holders():
        wait_until_live(pid)
    assert idle(other) and lucky <= holders() and rules.log().count("its place is another") == 1
    # a free place is for whoever waits
    os.kill(lucky.pop(), signal.SIGKILL)
    memory.wait_for("the place stays free", lambda: len(holders()) == 3, WAIT)
    assert rules.daemon.end() == 0


def test_another_program(rules, targets, me, program):
    """A process that is watched executes another one, which is watched then; and each time there
    is one session and one note.
    """
    names = [rules.path / name for name in ("one-serving", "two-serving")]
    for name in names:
        shutil.copy(program, name)
    t = targets.start(me, [names[0], "become", names[1]], preload=False)
    rules.start(
        rule(
            "{latency: {functions: handle, p99: '> 10s'}, request: true}",
            match="{exe: '*-serving'}",
            more="for: 100ms",
        )
    )
    wait_until_live(t.pid)
    os.kill(t.pid, signal.SIGUSR2)
    memory.wait_for(
        "the other program is not found",
        lambda: [(p["pid"], p["program"], p["doing"]) for p in rules.listed()["r"]["processes"]]
        == [(t.pid, str(names[1]), "watch")],
        WAIT,
    )
    wait_until_live(t.pid)
    recorded_functions(rules, me, "r", {"handle"})
    assert (
        len(list(rules.daemon.state.glob("rule-*"))) <= 1 and "failed" not in rules.log()
    ), rules.log()


def test_who_changes_the_user(root):
    rules = Rules(root, root.dir(), "none")
    word = f"test-{os.getpid()}"
    proc = root.popen(
        [
            sys.executable,
            "-c",
            f"import os; input(); os.setresuid({ORDINARY_UID}, {ORDINARY_UID}, {ORDINARY_UID}); "
            f"input()",
            word,
        ],
        stdin=subprocess.PIPE,
        text=True,
    )
    rules.start(
        rule("request", match=f"{{cmdline: '*{word}', user: {ORDINARY_UID}}}")
        + f"  before: {{match: {{cmdline: '*{word}', user: 0}}, when: request, do: trace}}\n"
    )
    memory.wait_for("the process is not found", lambda: rules.listed()["before"]["processes"], WAIT)
    assert not rules.listed()["r"]["processes"]
    proc.stdin.write("\n")
    proc.stdin.flush()
    memory.wait_for("it is not found again", lambda: rules.listed()["r"]["processes"], WAIT)
    assert not rules.listed()["before"]["processes"]
    assert rules.daemon.end() == 0


def test_who_starts_and_changes_the_user(root):
    """Each rule sees a start once, also where another one had the process; some tries, since
    three seconds later it is no start any more.
    """
    rules = Rules(root, root.dir(), "none")
    word = f"test-start-{os.getpid()}"
    rules.start(
        rule(
            "start",
            match=f"{{cmdline: '*{word}', user: {ORDINARY_UID}}}",
            more="at_most: 100 per 1h",
        )
        + f"  before: {{match: {{cmdline: '*{word}'}}, when: start, do: trace, at_most: 100 per "
        f"1h}}\n"
    )
    memory.wait_for("no look at all processes", lambda: rules.listed(), WAIT)
    ids = f"{ORDINARY_UID}, {ORDINARY_UID}, {ORDINARY_UID}"
    code = f"import os, time; input(); os.setresuid({ids}); time.sleep(600)"
    for _ in range(10):
        proc = root.popen([sys.executable, "-c", code, word], stdin=subprocess.PIPE, text=True)

        def starts(name, pid=proc.pid):
            return sum(
                f"rule {name}: pid {pid} " in line and "fires: it has started" in line
                for line in rules.log().splitlines()
            )

        with contextlib.suppress(AssertionError):
            memory.wait_for("it has been met too late", lambda: starts("before"), 10)
        proc.stdin.write("\n")
        proc.stdin.flush()
        memory.wait_for(
            "it is not found",
            lambda pid=proc.pid: pid in {p["pid"] for p in rules.listed()["r"]["processes"]},
            WAIT,
        )
        counts = starts("before"), starts("r")
        assert max(counts) <= 1, rules.log()
        if counts == (1, 1):
            break
    assert counts == (1, 1), rules.log()
    assert rules.daemon.end() == 0


def test_targets_that_vanish(rules, targets, me, program):
    rules.start(rule(LATENCY))
    for _ in range(3):
        t = targets.start(me, [program], preload=False)
        wait_until_live(t.pid)
        t.proc.kill()
    memory.wait_for("they stay in the list", lambda: not rules.listed()["r"]["processes"], WAIT)
    memory.wait_for("notes stay", lambda: not list(rules.daemon.state.glob("rule-*")), WAIT)


def test_programs_that_are_not_prepared(rules, targets, me):
    seconds = 100_000 + os.getpid()  # nobody else's
    t = targets.start(me, ["sleep", seconds], preload=False, wait=False)
    rules.start(rule(LATENCY, match=f"{{exe: sleep, cmdline: 'sleep {seconds}'}}"))
    rules.wait_log(f"pid {t.pid} ", "it is tried again in 1.00 s, and then less and less often")
    time.sleep(4)
    assert rules.log().count("it is tried again") == 1 and t.alive()


@pytest.mark.parametrize("who", ["session", "rules", "iprobed", "all"])
def test_kills(rules, serving, who):
    rules.start(rule(LATENCY))
    wait_until_live(serving.pid)
    process = rules.rules_pid()
    sessions = [
        int(p)
        for p in subprocess.run(
            ["pgrep", "-P", str(process)], capture_output=True, text=True, check=False
        ).stdout.split()
    ]
    assert sessions
    if who == "session":
        os.kill(sessions[0], signal.SIGKILL)
        rules.wait_log("its session was killed: what is live is put back")
        memory.wait_for(
            "it is not watched again",
            lambda: rules.log().count("is watched") == 1 and not idle(serving.pid),
            WAIT,
        )
    else:
        pids = {
            "rules": [process],
            "iprobed": [rules.daemon.proc.pid],
            "all": [rules.daemon.proc.pid, process, *sessions],
        }[who]
        for pid in pids if who == "all" else []:  # none is to see how another goes
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            with contextlib.suppress(
                ProcessLookupError
            ):  # a session that was stopped is killed by who has seen it
                os.kill(pid, signal.SIGKILL)
        if who != "all":  # sessions are told by the kernel, and put everything back by themselves
            wait_until_idle(serving.pid)
        if who == "rules":
            rules.wait_log("the process for rules has ended")
        else:
            rules.daemon.proc.wait()
        if who == "rules":
            os.kill(rules.daemon.proc.pid, signal.SIGHUP)
        else:
            rules.start()
        memory.wait_for(
            "no rules are carried out", lambda: rules.log().count("1 carried out") == 2, WAIT
        )
        if who == "all":
            rules.wait_log("rules before these have left a session: what is live is put back")
        wait_until_live(serving.pid)
    with open(f"/proc/{serving.pid}/status", encoding="utf-8") as f:
        assert "State:\tT" not in f.read()
    rules.daemon.end()
    wait_until_idle(serving.pid)
    assert serving.alive()


def test_what_cannot_be_put_back_yet(rules, serving):
    """An iprobe whose detach does not work before there is a file: it is tried again, by the
    next iprobed too, and nothing else is begun.
    """
    place, cli = rules.path / "build", rules.actor.builddir / "cli"
    (place / "cli").mkdir(parents=True)
    shutil.copy(cli / "iprobed", place / "cli")
    (place / "cli" / "iprobe").write_text(
        f"""#!/bin/sh
if [ "$1" = detach ] && [ ! -e {place}/works ]; then
    echo try >>{place}/tries
    echo 'iprobe: not now' >&2
    exit 1
fi
exec {cli}/iprobe "$@"
"""
    )
    for p in (place, place / "cli", place / "cli" / "iprobe"):
        p.chmod(0o755)
    (place / "tries").touch()
    (place / "tries").chmod(0o666)
    rules.daemon.actor = copy.copy(rules.actor)
    rules.daemon.actor.builddir = place
    rules.start(rule(LATENCY))
    wait_until_live(serving.pid)
    process = rules.rules_pid()
    (session,) = subprocess.run(
        ["pgrep", "-P", str(process)], capture_output=True, text=True, check=False
    ).stdout.split()
    os.kill(int(session), signal.SIGKILL)
    rules.wait_log(
        f"pid {serving.pid} ",
        "cannot be put back, and no rule is carried out on it before: iprobe: not now; it is tried "
        "again in ",
    )
    memory.wait_for(
        "it is not tried again", lambda: (place / "tries").read_text().count("try") >= 2, WAIT
    )
    note = rules.daemon.state / f"rule-{serving.pid}"
    assert (
        [p["doing"] for p in rules.listed()["r"]["processes"]] == ["clean"]
        and note.exists()
        and not idle(serving.pid)
    )
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    memory.wait_for("files are not read again", lambda: rules.carried_out() == 2, WAIT)
    assert note.exists() and rules.daemon.end() == 0
    assert note.exists() and not idle(serving.pid)
    (place / "works").touch()
    rules.start()
    rules.wait_log("rules before these have left a session: what is live is put back")
    memory.wait_for(
        "it is not watched again",
        lambda: [p["doing"] for p in rules.listed()["r"]["processes"]] == ["watch"],
        WAIT,
    )
    wait_until_live(serving.pid)
    assert rules.daemon.end() == 0
    wait_until_idle(serving.pid)


def test_left_over(serving, me):
    """What rules clean up with: a session whose iprobe is alive is none of its business."""
    session = me.start_iprobe("attach", "-q", "-o", me.dir() / "trace", serving.pid)
    wait_until_live(serving.pid)
    for _ in range(2):
        done = me.iprobe("detach", "--left-over", serving.pid)
        assert done.returncode == 0 and not done.stderr, repr(done)
        assert session.poll() is None and not idle(serving.pid)
    session.kill()
    session.wait()
    assert me.iprobe("detach", "--left-over", serving.pid).returncode == 0
    assert idle(serving.pid)


def test_a_full_disk(rules, serving, small_disk):
    """Nothing is recorded, and the log says why; the process is as it was."""
    rules.traces = small_disk / "traces"
    filler = small_disk / "full"
    fd = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(fd, bytes(4096))
    except OSError:
        os.close(fd)
    rules.start(rule("{every: 1s}", more="for: 50ms"))
    rules.wait_log("nothing is recorded: ")
    wait_until_idle(serving.pid)
    filler.unlink()
    rules.wait_log("has recorded: ")
    assert serving.alive()


# What is shipped


def test_shipped_rules(rules, serving, me, program):
    """As they are: those by request do what they say; one of the others is carried out by its
    name.
    """
    for name in ("examples.yaml", "rules.yaml"):
        shutil.copy(SHIPPED / name, rules.files / name)
        (rules.files / name).chmod(0o644)
    rules.files.chmod(0o755)
    check = me.run(
        [
            me.builddir / "cli" / "iprobed",
            "--check",
            "--probes-d",
            rules.files,
            "--policy",
            rules.path / "none",
        ]
    )
    assert (
        check.returncode == 0
        and "rule look: " in check.stdout
        and "rule slow-redis (not enabled): " in check.stdout
    ), repr(check)
    rules.start()
    memory.wait_for(
        "the process is not found",
        lambda: serving.pid
        in {p["pid"] for p in rules.listed().get("look", {"processes": []})["processes"]},
        WAIT,
    )
    assert set(rules.listed()) == {"look", "where"}
    assert idle(serving.pid)  # before somebody asks
    recorded_functions(rules, me, f"look:{serving.pid}", {"handle", "parse", "look_up", "reply"})


def test_shipped_rules_by_name(rules, targets, me, program):
    """What is not enabled: the program has the name that the rule is for."""
    for name in ("examples.yaml", "rules.yaml"):
        shutil.copy(SHIPPED / name, rules.files / name)
        (rules.files / name).chmod(0o644)
    rules.files.chmod(0o755)
    (rules.path / "my-service").symlink_to(program)
    shutil.copy(program, rules.path / "copy")
    os.rename(rules.path / "copy", rules.path / "my-service")
    rules.start(None, "--rule", "starting")
    rules.wait_log("1 carried out")
    memory.wait_for("no look at all processes", lambda: rules.listed(), WAIT)
    time.sleep(1)
    t = targets.start(me, [rules.path / "my-service"], preload=False)
    assert f" pid {t.pid} " in rules.wait_log("rule starting:", "fires: it has started")
    (path,) = rules.recorded("starting")
    assert "handle" in report(me, path)


def test_usage(me):
    for args, words in (
        (["--json"], "--json goes with --rules"),
        (["--fire", "a", "--rules"], "--fire or --rules"),
        (["--rule", "a", "--no-rules"], "--rule or --no-rules"),
    ):
        done = me.run([me.builddir / "cli" / "iprobed", *args])
        assert done.returncode == 2 and words in done.stderr, repr(done)


def test_nobody_else_can_read(rules, serving, me):
    """What rules keep, their notes, lock and socket: while a session goes on and afterwards,
    with a umask that forbids nothing.
    """
    text = (
        "profiles: {p: {events: page-faults, functions: handle}}\n"
        + rule("request", more="for: 2s")
        + "".join(
            r.split("\n", 1)[1]
            for r in (
                rule("request", do="{fperf: p}", name="f", more="for: 1s"),
                rule(LATENCY, name="w"),
            )
        )
    )
    rules.write(text)
    rules.daemon.start(
        "--probes-d",
        rules.files,
        "--traces",
        rules.traces,
        before=["sh", "-c", 'umask 0; exec "$@"', "sh"],
    )
    memory.wait_for("the rules are not taken", rules.carried_out, WAIT)
    assert "3 carried out" in rules.log()
    seen = set()

    def check():
        for top in (rules.traces, rules.daemon.state):
            for path in [rules.traces, *top.rglob("*")]:
                with contextlib.suppress(FileNotFoundError):  # it has just gone
                    st = path.lstat()
                    if (
                        path != rules.daemon.state / "sock"
                    ):  # which members of the group may connect to
                        assert not st.st_mode & 0o077, (path, oct(st.st_mode))
                    seen.add(re.sub(r"[0-9T.Z-]{4,}", "-", path.name))

    def done(name):
        check()
        return any(
            f"rule {name}: " in line and "has recorded" in line for line in rules.log().splitlines()
        )

    wait_until_live(serving.pid)
    for name in ("r", "f"):
        assert rules.command("--fire", name).returncode == 0
        memory.wait_for(f"{name} records nothing", lambda name=name: done(name), WAIT)
    assert {
        "why.txt",
        "trace",
        "fperf.json",
        "rules.lock",
        "rules.sock",
        "r",
        "f",
        "metadata",
    } <= seen, seen
    assert {"rule", "watch"} <= {name.split("-")[0] for name in seen}, seen


def test_memory_of_all_sessions(rules, serving, targets, me, program):
    """What is beyond the bound waits, and what never fits is not begun."""
    targets.start(me, [program], preload=False)
    rules.start(
        rule("request", more="for: 1s")
        + rule("request", do="{trace: {functions: handle, memory: 300M}}", name="large").split(
            "\n", 1
        )[1],
        "--memory-of-rules",
        "150M",
    )
    memory.wait_for(
        "the processes are not found", lambda: len(rules.listed()["r"]["processes"]) == 2, WAIT
    )
    assert rules.command("--fire", "r").returncode == 0
    rules.wait_log("rule r: ", "waits until there is memory for it")
    assert len(rules.recorded("r", 2)) == 2
    begun = [line for line in rules.log().splitlines() if "has recorded" in line]
    assert len(begun) == 2
    assert rules.command("--fire", "large").returncode == 0
    rules.wait_log(
        "rule large: ",
        "nothing is recorded: its session needs 332.0 MiB of memory, and all those of rules have "
        "150.0 MiB",
    )
    assert idle(serving.pid)
