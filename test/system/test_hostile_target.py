# SPDX-License-Identifier: Apache-2.0
"""
A target that does at random what is hard on a tracer (test/programs/hostile.c), while sessions of
root, and of an ordinary user through iprobed, come and go. Whoever watches is neither of them:
nothing gains a privilege, no file but those of traces changes, the target's own arithmetic is
right, no stop is longer than it may be, nothing stays stopped, traced or changed.

IPROBE_TEST_HOSTILE is for how many seconds (default 40; IPROBE_TEST_FULL=1: 3600),
IPROBE_TEST_SEED what is drawn.
"""

import os
import pathlib
import shutil
import time
from random import Random

import pytest

from iptest import actor as actors
from iptest import memory, time_scale
from iptest.daemon import Daemon

# Without iprobed: a sanitizer's runtime makes calls that the filter of its socket's side forbids.
# And without limits of time.
SANITIZED = "ASAN_OPTIONS" in os.environ
FULL = os.environ.get("IPROBE_TEST_FULL") == "1"
SECONDS = float(os.environ.get("IPROBE_TEST_HOSTILE", "3600" if FULL else "40"))
SEED = int(os.environ.get("IPROBE_TEST_SEED", "1"))
LIFE = 6  # seconds of one target
MAX_STOP_MS = 100


def contents(folder):
    """Of files that nobody has to touch."""
    return {
        path: (
            path.lstat().st_mtime_ns,
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def treasure(root):
    """Files of root's beside everything else, which a tool that is led astray would change."""
    folder = root.dir() / "treasure"
    (folder / "deep").mkdir(parents=True)
    for name in ("secret", "deep/metadata", "deep/stream-0-0"):
        (folder / name).write_text("root's alone\n")
        (folder / name).chmod(0o600)
    return folder


RULES = """
profiles: {{p: {{events: perf::PAGE-FAULTS, functions: step}}}}
rules:
  traces: {{match: {{exe: {program}}}, when: {{every: 2s}}, do: trace, for: 100ms}}
  counts: {{match: {{exe: {program}}}, when: {{every: 3s}}, do: {{fperf: p}}, for: 200ms}}
  watches: {{match: {{exe: {program}}}, when: {{latency: {{functions: step, p99: '> 1us', over: 1s}}}}, do: snapshot, for: 50ms}}
"""


@pytest.fixture
def program(programs):
    return programs.simple("hostile", placement="fentry")


@pytest.fixture
def daemon(root, program):
    """With rules for that program. None on a sanitized build."""
    if SANITIZED:
        yield None
        return
    path = root.dir()
    path.chmod(0o755)
    (path / "probes.d").mkdir()
    (path / "probes.d" / "rules.yaml").write_text(RULES.format(program=program))
    made = Daemon(root, path).start("--probes-d", path / "probes.d", "--traces", path / "traces")
    yield made
    made.end()
    left = [p.name for p in made.state.iterdir() if p.name != "sock"]
    assert not left, (left, made.log())


class Storm:
    """One target, and what is done to it until it has ended."""

    def __init__(self, rng, targets, owner, callers, program, victim):
        self.rng, self.owner, self.callers = rng, owner, callers
        self.target = targets.start(
            owner, [program, rng.randrange(1 << 30), LIFE, victim], preload=rng.random() < 0.3
        )
        self.done = []

    def command(self, who, env):
        """The arguments of some command, and how long it is let go on before it gets a signal;
        None: to its end.
        """
        pid, rng = self.target.pid, self.rng
        self.trace = trace = who.dir() / "trace"
        stop = ["--max-stop", time_scale.milliseconds(MAX_STOP_MS)]
        record = [
            "-o",
            trace,
            "--json",
            "--duration",
            f"{rng.randrange(20, 600)}ms",
            "--memory",
            "1M",
            *stop,
        ]
        commands = [
            ["attach", pid, *record],
            ["attach", pid, *record, "--follow-fork"],
            ["attach", pid, *record, "--overwrite"],
            ["attach", pid, *record, "--time", "coarse"],
            ["attach", pid, *record, "--payload", "hist"],
            ["attach", pid, *record, "--no-stop"],
            ["attach", pid, *record, "-f", "step"],
            ["top", "--json", "--duration", f"{rng.randrange(200, 900)}ms", pid],
            ["fperf", "-q", "--json", "--duration", f"{rng.randrange(100, 900)}ms", "-p", pid],
            [
                "fperf",
                "-q",
                "--exclusive",
                "-e",
                "perf::PAGE-FAULTS",
                "--duration",
                "300ms",
                "-p",
                pid,
            ],
            ["status", pid, "--json"],
            ["snapshot", pid],
            ["detach", pid],
        ]
        return rng.choice(commands), rng.choice([None, None, None, 2, 15, 9])

    def one(self):
        who, env = self.rng.choice(self.callers)
        command, number = self.command(who, env)
        tool = who.builddir / "cli" / ("fperf" if command[0] == "fperf" else "iprobe")
        proc = who.popen([tool, *command[command[0] == "fperf" :]], env=env)
        if number is not None:
            time.sleep(self.rng.random() * 0.4)
            if proc.poll() is None:
                os.kill(proc.pid, number)
        done = actors.last_words(proc)
        self.done.append(done)
        assert done.returncode in ((0, 1) if number != 9 else (0, 1, -9)) or (
            number and done.returncode == -number
        ), repr(done)
        assert done.returncode != 1 or done.stderr.strip(), repr(done)
        assert "AddressSanitizer" not in done.stderr and "runtime error:" not in done.stderr, repr(
            done
        )
        if done.returncode == 0 and command[0] == "attach" and done.stdout.strip():
            self.check_summary(done)
        # an hour of them would fill the disk
        shutil.rmtree(self.trace.parent)

    def check_summary(self, done):
        for stop in done.summary()["stops"]:
            # of one thread that stopped late it is known that it stood for no longer than since the
            # last look, which may be long ago where iprobe itself got no CPU
            late = stop.get("failed") and stop["threads"] == 1 and not stop["sites"]
            assert SANITIZED or stop["stop_us"] <= time_scale.scaled(MAX_STOP_MS * 1000) * (
                5 if late else 1.5
            ), repr(done)

    def finish(self):
        """The target's time is over: what it says of itself."""
        result = actors.last_words(self.target.proc, 60)
        assert result.returncode == 0 and result.stdout.splitlines()[-1].startswith(
            "good "
        ), f"{result!r}\nafter {self.done[-3:]!r}"
        return int(result.stdout.splitlines()[-1].split()[1])


def tracing(pid):
    """Threads of a process that somebody traces, or that stand."""
    found = []
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            if (
                memory.status_field(pid, "TracerPid", tid) != "0"
                or memory.status_field(pid, "State", tid)[0] in "Tt"
            ):
                found.append(tid)
    except (OSError, KeyError):
        pass
    return found


def wait_until_free(pid):
    """No thread stays stopped, or is traced, when no command is at work any more."""
    memory.wait_for(f"threads of {pid} stay stopped or traced", lambda: not tracing(pid), 20, 0.02)


@pytest.mark.slow
def test_nobody_gains_anything_and_nothing_breaks(
    root, user, daemon, treasure, targets, programs, program
):
    rng = Random(SEED)
    before = contents(treasure)
    victims = {}
    for who in (root, user):
        # set-user-ID root, where everybody can execute it
        victims[who] = pathlib.Path(treasure.parent) / f"victim-{who}"
        shutil.copy2(programs.simple("victim", prepared=False), victims[who])
        victims[who].chmod(0o4755 if who is user else 0o755)
    deadline = time.monotonic() + SECONDS
    rounds = sessions = events = 0
    while time.monotonic() < deadline:
        owner = rng.choice([root, user])
        callers = (
            [(root, None)]
            if owner is root
            else [(root, None), (user, daemon and daemon.env), (user, None)]
        )
        storm = Storm(rng, targets, owner, callers, program, victims[owner])
        ends = time.monotonic() + LIFE - 1
        while time.monotonic() < ends and storm.target.alive():
            storm.one()
            sessions += 1
            if rng.random() < 0.2:
                wait_until_free(storm.target.pid)
        if storm.target.alive():
            # killed ones may have left sites live; who may, puts them back
            done = root.iprobe("detach", storm.target.pid)
            assert done.returncode in (0, 1), repr(done)
        rounds += storm.finish()
        events += sum(
            d.summary().get("events", 0)
            for d in storm.done
            if d.returncode == 0 and d.stdout.rstrip().endswith("}") and '"stop_us"' in d.stdout
        )
    assert contents(treasure) == before
    assert sessions >= SECONDS / time_scale.scaled(4) and rounds > 0 and events > 0, (
        sessions,
        rounds,
        events,
    )
    if SANITIZED:
        return
    assert daemon.proc.poll() is None, daemon.log()
    log = daemon.log()
    assert "3 carried out" in log and "has recorded" in log, log
    assert "AddressSanitizer" not in log and "core dumped" not in log, log
