# SPDX-License-Identifier: Apache-2.0
"""Rules of probes.d, an iprobed that watches for them, and a server to watch."""

import json
import os
import pathlib
import re

import pytest

from . import memory
from .daemon import Daemon

pytestmark = pytest.mark.skipif(
    "ASAN_OPTIONS" in os.environ,
    reason="a sanitizer's runtime makes calls that the filter of the socket's side forbids",
)
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
