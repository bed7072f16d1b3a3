# SPDX-License-Identifier: Apache-2.0
"""--clock: where the TSC cannot be trusted, times are those of the kernel's clock, by a system
call.
"""

import json
import signal
import subprocess
import time

import pytest

from iptest import ctf, memory
from iptest.actor import last_words, one_line
from test_resume import listens


def run(who, programs, *options, placement="fentry", extra=()):
    directory = who.dir() / "trace"
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    done = who.iprobe(
        "run",
        "--json",
        *options,
        "-o",
        directory,
        "--",
        programs.simple("count", opt="-O0", placement=placement, extra=extra),
        "-t",
        "3",
        "-n",
        "20000",
    )
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    assert done.returncode == 0, repr(done)
    calls = int(
        next(line for line in done.stdout.splitlines() if line.startswith("calls ")).split()[1]
    )
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["events"] + summary["lost"] == 2 * calls
    return directory, summary, after - before


def info(who, directory):
    return json.loads(who.iprobe("info", "--json", directory).stdout)


@pytest.mark.parametrize(
    "options",
    [[], ["--time", "coarse"], ["--depth", "20"], ["--overwrite"]],
    ids=["plain", "coarse", "filtered", "overwriting"],
)
def test_monotonic(me, programs, options):
    directory, summary, took = run(me, programs, "--clock", "monotonic", *options)
    found = info(me, directory)
    assert found["clock"] == "monotonic" and found["tsc_hz"] == 10**9
    assert found["events"] == summary["events"] and not found["damaged"]
    assert 0 < found["duration_ns"] <= took
    assert "CLOCK_MONOTONIC_RAW" in me.iprobe("info", directory).stdout
    done = me.run(
        [me.builddir / "test" / "soak" / "soak-order", *sorted(directory.glob("stream-*"))]
    )
    assert done.returncode == 0, repr(done)
    seen, _ = ctf.read_events(directory)
    assert sum(seen.values()) == summary["events"]


def test_stamps_are_the_kernels(me, programs):
    """Between what we read before and after."""
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    directory, _, _ = run(me, programs, "--clock", "monotonic")
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    found = info(me, directory)
    assert before <= found["tsc_start"] <= found["tsc_start"] + found["duration_ns"] <= after


def test_children_are_not_followed(me, programs):
    """They might be ended for the call where nobody looks."""
    program = programs.simple("count", opt="-O0", placement="fentry")
    done = me.iprobe(
        "run",
        "--clock",
        "monotonic",
        "--follow-fork",
        "-o",
        me.dir() / "trace",
        "--",
        program,
        "-t",
        "1",
        "-n",
        "10",
    )
    assert "--follow-fork" in one_line(done) and "calls " not in done.stdout
    done = me.iprobe(
        "run",
        "--clock",
        "monotonic",
        "--time",
        "coarse",
        "--follow-fork",
        "-o",
        me.dir() / "trace",
        "--",
        program,
        "-t",
        "1",
        "-n",
        "10",
    )
    assert done.returncode == 0, repr(done)


def test_values(me, programs):
    directory, summary, _ = run(me, programs, "--clock", "monotonic", "--args", "--retval")
    assert info(me, directory)["events"] == summary["events"]


def test_32_bits(me, programs):
    if not (me.builddir / "runtime" / "32" / "libiprobe-rt.so").exists():
        pytest.skip("built without the runtime for 32 bits")
    directory, summary, _ = run(
        me, programs, "--clock", "monotonic", placement="instrument", extra=("-m32",)
    )
    found = info(me, directory)
    assert found["clock"] == "monotonic" and found["events"] == summary["events"]


def test_chosen(me, programs):
    directory, _, _ = run(me, programs, "--clock", "tsc")
    assert info(me, directory)["clock"] == "tsc"


def bind(path, onto):
    """A command line that runs the rest with another file in that place."""
    return ["unshare", "--mount", "sh", "-c", f'mount --bind "{path}" "{onto}" && exec "$@"', "sh"]


def test_falls_back(actor, programs):
    """The processor does not promise a constant rate: it is said, and the kernel's clock is
    taken.
    """
    if not actor.is_root:
        pytest.skip("needs root, for a mount namespace")
    place = actor.dir()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        (place / "cpuinfo").write_text(file.read().replace("nonstop_tsc", ""))
    wrapper = bind(place / "cpuinfo", "/proc/cpuinfo")
    if subprocess.run(
        [*wrapper, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    ).returncode:
        pytest.skip("no file can be mounted over /proc/cpuinfo")
    program = programs.simple("count", opt="-O0")
    for option, clock in ([], "monotonic"), (["--clock", "tsc"], "tsc"):
        directory = actor.dir() / "trace"
        done = actor.run(
            [
                *wrapper,
                actor.iprobe_path,
                "run",
                *option,
                "-o",
                directory,
                "--",
                program,
                "-n",
                "1000",
            ]
        )
        assert done.returncode == 0, repr(done)
        assert ("nonstop_tsc" in done.stderr and "clock_gettime" in done.stderr) == (
            clock == "monotonic"
        ), done.stderr
        assert info(actor, directory)["clock"] == clock
    done = actor.run([*wrapper, actor.iprobe_path, "doctor"])
    assert "clock_gettime" in done.stdout


def test_resumed(me, programs, targets):
    """The session's clock is the one that goes on."""
    program = programs.simple("count", opt="-O0")
    target = targets.start(me, [program, "-w", "-t", "2", "-n", "30000"])
    directory = me.dir() / "trace"
    proc = me.start_iprobe("attach", target.pid, "--clock", "monotonic", "-o", directory)

    def patched():
        done = me.iprobe("status", target.pid, "--json")
        return done.returncode == 0 and json.loads(done.stdout)["patched"] > 0

    memory.wait_for("the probes do not go live", patched, 60)
    proc.kill()
    proc.wait()
    target.say()
    calls = int(next(line for line in target.proc.stdout if line.startswith("calls ")).split()[1])
    proc = me.start_iprobe("attach", "--resume", target.pid, "--json", "-o", directory)
    memory.wait_for("iprobe does not catch SIGINT", lambda: listens(proc), 30, 0.01)
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    target.say()
    target.finish()
    assert done.returncode == 0, repr(done)
    assert done.summary()["events"] + done.summary()["lost"] == 2 * calls
    found = info(me, directory)
    assert found["clock"] == "monotonic" and found["events"] == done.summary()["events"]


def ask(target, what):
    target.proc.stdin.write(f"{what}\n")
    target.proc.stdin.flush()
    answer = target.proc.stdout.readline()
    assert answer, f"the target died: {target.proc.wait()}"
    return answer.strip()


@pytest.mark.parametrize("how", ["kill", "errno"])
def test_seccomp_that_comes_meanwhile(me, programs, targets, how):
    """The process comes under a filter that refuses the clock: the recording ends, says why, and
    nothing happens to the process. Where the call fails instead of ending it, and it goes on
    calling, time stands still.
    """
    target = targets.start(me, [programs.simple("confining"), how])
    directory = me.dir() / "trace"
    proc = me.start_iprobe(
        "attach", target.pid, "--clock", "monotonic", "--json", "-f", "step", "-o", directory
    )
    memory.wait_until_live(target.pid, proc)
    assert ask(target, "call") == "called"
    assert ask(target, "confine") == "confined"
    calls = 1000
    while how == "errno" and proc.poll() is None:
        assert ask(target, "call") == "called"
        calls += 1000
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert "under seccomp" in summary["end"]
    assert 2000 <= summary["events"] + summary["lost"] <= 2 * calls
    if how == "kill":
        assert (summary["events"], summary["lost"]) == (2000, 0)
    found = info(me, directory)
    assert (
        found["clock"] == "monotonic"
        and found["events"] == summary["events"]
        and not found["damaged"]
    )
    done = me.run(
        [me.builddir / "test" / "soak" / "soak-order", *sorted(directory.glob("stream-*"))]
    )
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    assert ask(target, "call") == "called"
    target.finish()


def test_usage(me):
    done = me.iprobe("attach", "--clock", "sundial", "1")
    assert done.returncode == 2 and "sundial" in done.stderr
    done = me.iprobe("attach", "--clock", "monotonic", "--payload", "hist", "1")
    assert done.returncode == 2
