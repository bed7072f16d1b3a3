# SPDX-License-Identifier: Apache-2.0
"""`iprobe run`: the command behaves as if we were not there."""

import contextlib
import json
import os
import signal
import subprocess
import time

import pytest

from iptest.actor import last_words, one_line
from iptest import memory


def finish(programs):
    return programs.simple("finish")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 77, 126, 127, 128, 200, 255])
def test_exit_code_is_passed_on(actor, programs, code):
    done = actor.iprobe("run", "-o", actor.dir() / "trace", "--", finish(programs), "exit", code)
    assert done.returncode == code, repr(done)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGUSR1, signal.SIGABRT]
)
def test_signal_is_passed_on_as_a_shell_does(actor, programs, number):
    done = actor.iprobe(
        "run", "-o", actor.dir() / "trace", "--", finish(programs), "signal", int(number)
    )
    assert done.returncode == 128 + number, repr(done)


def test_own_failures_are_told_from_the_program_s(me, programs):
    """By --fail-with, by the end of the line on stderr, and by --json."""
    shell = "exit 3"
    for command, code, signal_number, words, more in (
        ([finish(programs), "exit", 1], 1, None, None, []),
        ([finish(programs), "signal", 6], None, 6, None, []),
        (["/nonexistent/program"], None, None, "was not started", []),
        ([programs.simple("finish", prepared=False), "exit", 3], None, None, "not started", []),
        (["/bin/sh", "-c", shell], 3, None, "the command ran, and exited with 3", []),
        (["/bin/sh", "-c", "kill -9 $$"], None, 9, "the command was ended by signal 9", []),
        ([finish(programs), "exit", 3], None, None, "the command was not started", ["-f", "no"]),
    ):
        options = ["run", *more, "-o", me.dir() / "trace", "--fail-with", 125]
        own = code if code is not None else 128 + (signal_number or 0)
        done = me.iprobe(*options, "--", *command)
        assert done.returncode == (125 if words else own), repr(done)
        assert words is None or done.stderr.rstrip().endswith(words), repr(done)
        done = me.iprobe(*options, "--json", "--", *command)
        assert done.returncode == (125 if words else own), repr(done)
        summary = json.loads(done.stdout.splitlines()[-1])
        told = (summary["program_exit"], summary["program_signal"])
        assert told == (code, signal_number), repr(done)
        assert summary["started"] == any(one is not None for one in told), repr(done)
        if words:
            assert done.stderr.startswith(f"iprobe: {summary['error']}; the command "), repr(done)
            assert summary.keys() == {"error", "started", "program_exit", "program_signal"}
        else:
            assert summary["error"] is None and summary["events"] > 0, repr(done)
        if words:
            done = me.iprobe("run", *more, "-o", me.dir() / "trace", "--", *command)
            assert done.returncode == 1, repr(done)


def test_a_command_that_is_ended(me, programs):
    """A shell runs, and then executes a program that does not have what was selected."""
    out = me.dir()
    done = me.iprobe(
        *("run", "--json", "-f", "nothing_here", "-o", out / "trace", "--"),
        *("/bin/sh", "-c", f"echo begun; exec {finish(programs)} loop 3"),
    )
    begun, summary = done.stdout.splitlines()
    assert begun == "begun" and done.returncode == 1, repr(done)
    assert done.stderr.rstrip().endswith("; the command was ended"), repr(done)
    summary = json.loads(summary)
    assert summary["started"] and summary["program_exit"] is None, repr(done)


@pytest.mark.parametrize("code", ["0", "256", "-1", "x", "1x", ""])
def test_no_such_exit_code(me, code):
    done = me.iprobe("run", f"--fail-with={code}", "--", "/bin/true")
    assert done.returncode == 2 and "from 1 to 255" in done.stderr, repr(done)


def test_streams_are_left_alone(actor, programs):
    text = "".join(f"line {i}\n" for i in range(2000))
    done = actor.iprobe(
        "run",
        "-o",
        actor.dir() / "trace",
        "--",
        finish(programs),
        "echo",
        "to stderr\n",
        input=text,
    )
    assert done.returncode == 0, repr(done)
    assert done.stdout == text
    assert "to stderr\n" in done.stderr


def test_json_is_the_last_line_of_stdout(actor, programs):
    directory = actor.dir() / "trace"
    done = actor.iprobe(
        "run", "--json", "-o", directory, "--", finish(programs), "echo", "", input="in\n"
    )
    assert done.returncode == 0, repr(done)  # a run that is refused prints neither
    lines = done.stdout.splitlines()
    assert lines[:-1] == ["in"], repr(done)
    summary = json.loads(lines[-1])
    assert set(summary) >= {
        "pid",
        "sites",
        "functions",
        "threads",
        "pages",
        "stop_us",
        "events",
        "lost",
        "dir",
    }
    assert os.path.realpath(summary["dir"]) == os.path.realpath(directory)
    # main, finish_step and finish_echo, in and out.
    assert summary["events"] == 6 and summary["lost"] == 0 and summary["threads"] == 1


def test_arguments_and_environment_reach_the_command(me, programs):
    """The program's own options are not ours, with `--` or without."""
    done = me.iprobe(
        "run", "-o", me.dir() / "trace", "--", programs.simple("count"), "-t", "2", "-n", "100"
    )
    assert done.returncode == 0 and "calls " in done.stdout, repr(done)


def test_an_old_directory_is_kept(actor, programs):
    where = actor.dir()
    command = ["run", "-o", "trace", "--", finish(programs), "loop"]
    for rounds in (10, 20, 30):
        assert actor.iprobe(*command, rounds, cwd=where).returncode == 0
    assert sorted(os.listdir(where)) == ["trace", "trace.old"]
    for name, rounds in (("trace", 30), ("trace.old", 20)):
        report = json.loads(actor.iprobe("report", "--json", where / name).stdout)
        calls = {f["function"]: f["calls"] for f in report["functions"]}
        assert calls["finish_step"] == rounds + 1


def test_the_directory_is_iprobe_data_if_left_out(actor, programs):
    where = actor.dir()
    assert actor.iprobe("run", "--", finish(programs), "exit", 0, cwd=where).returncode == 0
    assert os.listdir(where) == ["iprobe.data"]
    assert actor.iprobe("report", cwd=where).returncode in (0, 2)
    assert actor.iprobe("report", "iprobe.data", cwd=where).returncode == 0


def test_a_directory_of_someone_elses_files_is_not_lost(me, programs):
    """What is there is kept as DIR.old, whatever it is; and is not taken for a trace of ours to
    be thrown away.
    """
    where = me.dir()
    (where / "trace").mkdir()
    (where / "trace" / "thesis.tex").write_text("years of work")
    done = me.iprobe("run", "-o", "trace", "--", finish(programs), "exit", 0, cwd=where)
    kept = list(where.rglob("thesis.tex"))
    assert len(kept) == 1 and kept[0].read_text() == "years of work", repr(done)
    if done.returncode != 0:
        one_line(done)


def size_of(directory):
    return sum(p.stat().st_size for p in directory.rglob("*") if p.is_file())


def test_max_size_stops_the_recording_only(actor, programs):
    directory = actor.dir() / "trace"
    done = actor.iprobe(
        "run",
        "--json",
        "--max-size",
        "1M",
        "-o",
        directory,
        "--",
        finish(programs),
        "loop",
        2000000,
    )
    assert done.returncode == 0, repr(done)
    assert done.stdout.splitlines()[0] == "done"
    summary = done.summary()
    assert "max-size" in done.stderr or "1.0 MiB" in done.stderr or "limit" in done.stderr, repr(
        done
    )
    assert 0 < summary["events"] <= 1024 * 1024 / 8
    assert size_of(directory) <= 1.2 * 1024 * 1024
    report = json.loads(actor.iprobe("report", "--json", directory).stdout)
    assert report["events"] == summary["events"]


def test_a_limit_that_nothing_fits_into(actor, programs):
    """The limit is named, not the rings, though it is met only by what is drained last; what is
    misspelt is told too.
    """
    done = actor.iprobe(
        "run",
        "--max-size",
        "100",
        "-f",
        "main,nobody",
        "-o",
        actor.dir() / "trace",
        "--",
        finish(programs),
        "exit",
        0,
    )
    assert done.returncode == 0, repr(done)
    assert "--max-size" in done.stderr and "rings" not in done.stderr, repr(done)
    assert "nothing matches nobody\n" in done.stderr, repr(done)


def test_interrupting_run_ends_the_command_not_the_trace(actor, programs):
    """Ctrl-C goes to both; the command dies of it, the trace is finished."""
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe("run", "--json", "-o", directory, "--", finish(programs), "idle")
    memory.wait_for("no trace", lambda: (directory / "metadata").exists() and has_child(proc.pid))
    time.sleep(0.3)
    os.killpg(proc.pid, signal.SIGINT)
    done = last_words(proc)
    assert done.returncode in (0, 128 + signal.SIGINT), repr(done)
    report = actor.iprobe("report", "--json", directory)
    assert report.returncode == 0, repr(report)
    assert {f["function"] for f in json.loads(report.stdout)["functions"]} >= {"main"}


def test_ignored_signals_stay_ignored(actor, programs):
    """nohup iprobe run CMD: what the command would have inherited from the shell it inherits
    from us.
    """
    proc = actor.popen(
        [
            "sh",
            "-c",
            'trap "" HUP INT PIPE USR1; exec "$@"',
            "sh",
            actor.iprobe_path,
            "run",
            "-o",
            actor.dir() / "trace",
            "--",
            finish(programs),
            "idle",
        ]
    )
    (child,) = memory.wait_for("no command", lambda: has_child(proc.pid))
    memory.wait_for(
        "no exec", lambda: os.path.basename(os.readlink(f"/proc/{child}/exe")) == "finish"
    )
    ignored = int(memory.status_field(child, "SigIgn"), 16)
    blocked = int(memory.status_field(child, "SigBlk"), 16)
    assert last_words(proc).returncode == 0
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGUSR1):
        assert ignored >> (number - 1) & 1, f"{signal.Signals(number).name} is no longer ignored"
    assert not ignored >> (signal.SIGTERM - 1) & 1 and not blocked


def test_the_command_has_our_descriptors_only(actor, programs):
    """Nothing of iprobe's own leaks into the command: descriptors, working directory, niceness,
    parent.
    """
    where = actor.dir()
    proc = actor.start_iprobe("run", "-o", "trace", "--", finish(programs), "idle", cwd=where)
    (child,) = memory.wait_for("no command", lambda: has_child(proc.pid))
    # Before it becomes the command it waits on a pipe, too, with descriptors of iprobe's.
    memory.wait_for(
        "not the command",
        lambda: os.readlink(f"/proc/{child}/exe") == os.path.realpath(finish(programs)),
    )
    memory.wait_for(
        "not idle", lambda: "pipe" in open(f"/proc/{child}/wchan", encoding="ascii").read()
    )
    opened = {fd: os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd")}
    assert os.readlink(f"/proc/{child}/cwd") == str(where)
    assert os.sched_getscheduler(int(child)) == os.SCHED_OTHER
    assert last_words(proc).returncode == 0
    # The runtime keeps a name of its memory for an ordinary user's attach, where children have no
    # privilege to lose; nothing else.
    assert {fd for fd, what in opened.items() if "memfd" not in what} == {"0", "1", "2"}, opened
    ours = [int(fd) for fd, what in opened.items() if "memfd" in what]
    assert (
        ours == [] if actor.is_root else len(ours) == 1 and ours[0] >= 900
    ), "out of the way of low numbers"


def test_few_descriptors(actor, programs):
    """Where the limit is low the runtime's descriptor is out of the way of the lowest ones all
    the same.
    """
    proc = actor.popen(
        [
            "prlimit",
            "--nofile=64:",
            actor.iprobe_path,
            "run",
            "-o",
            actor.dir() / "trace",
            "--",
            finish(programs),
            "idle",
        ]
    )
    (child,) = memory.wait_for("no command", lambda: has_child(proc.pid))
    memory.wait_for(
        "not the command",
        lambda: os.readlink(f"/proc/{child}/exe") == os.path.realpath(finish(programs)),
    )
    memory.wait_for(
        "not idle", lambda: "pipe" in open(f"/proc/{child}/wchan", encoding="ascii").read()
    )
    opened = {
        int(fd): os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd")
    }
    ours = [fd for fd, what in opened.items() if "memfd" in what]
    assert ours == [] if actor.is_root else len(ours) == 1 and ours[0] >= 28, opened
    assert last_words(proc).returncode == 0


def has_child(pid):
    """The command, once it is there: not iprobe's guard, which has iprobe's own executable."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        children = f.read().split()
    found = []
    for child in children:
        with contextlib.suppress(OSError):  # one that has ended meanwhile
            if os.path.basename(os.readlink(f"/proc/{child}/exe")) != "iprobe":
                found.append(child)
    return found


def test_duration_ends_the_recording_not_the_command(actor, programs):
    """What runs on afterwards is not recorded; the exit code is the command's all the same."""
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe(
        "run", "--duration", "200ms", "--json", "-o", directory, "--", finish(programs), "idle"
    )
    (child,) = memory.wait_for("no command", lambda: has_child(proc.pid))
    memory.wait_until_live(child, proc)
    memory.wait_for("never idle again", lambda: memory.text_differences(child) == [])
    memory.assert_untouched(child)
    proc.stdin.write("1000 calls that come too late\n" * 40)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    # main, finish_step, and finish_idle: entered before the end, left after it
    assert done.summary()["events"] == 4, repr(done)


def test_an_inherited_runtime_is_no_obstacle(me, programs):
    """The user preloads the runtime already."""
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--json",
        "-o",
        directory,
        "--",
        finish(programs),
        "loop",
        5,
        env={"LD_PRELOAD": str(me.runtime_path)},
    )
    assert done.returncode == 0, repr(done)
    assert done.summary()["events"] == 2 * (5 + 1 + 2)


def test_run_in_run(me, programs):
    """A recorded iprobe records nothing of ours into the other's trace."""
    inner, outer = me.dir() / "trace", me.dir() / "trace"
    done = me.iprobe(
        "run",
        "-o",
        outer,
        "--",
        "/bin/sh",
        "-c",
        f"exec {me.iprobe_path} run --json -o {inner} -- {finish(programs)} loop 7",
    )
    if done.returncode == 0:
        assert done.summary()["events"] == 2 * (7 + 1 + 2), repr(done)
    else:
        one_line(done)


def test_dry_run_starts_nothing(me, programs):
    where = me.dir()
    done = me.iprobe("run", "--dry-run", "-o", where / "trace", "--", finish(programs), "loop", 3)
    assert "done" not in done.stdout
    assert os.listdir(where) == []
    assert done.returncode in (0, 2), repr(done)


def test_a_program_that_is_not_prepared(actor, programs):
    """Refused before it runs, in one line that says what to do."""
    plain = programs.simple("finish", prepared=False)
    done = actor.iprobe("run", "-o", actor.dir() / "trace", "--", plain, "loop", 3)
    line = one_line(done)
    assert "done" not in done.stdout
    assert "iprobe-cc" in line, line


def test_a_program_that_is_not_there(actor):
    done = actor.iprobe("run", "-o", actor.dir() / "trace", "--", "/nonexistent/program")
    assert "/nonexistent/program" in one_line(done)


def test_an_empty_selection_names_the_nearest(actor, programs):
    done = actor.iprobe(
        "run", "-f", "finish_stap", "-o", actor.dir() / "trace", "--", finish(programs), "loop", 3
    )
    assert "finish_step" in one_line(done)
    assert "done" not in done.stdout


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_an_address_sanitizer_comes_first(me, builddir, compiler):
    """gcc's library of AddressSanitizer ends the program unless it is the first to be loaded."""
    where = me.dir()
    (where / "p.c").write_text(
        "#include <stdlib.h>\n"
        "__attribute__((noinline)) static int f(char *p) { p[1] = 1; return p[1]; }\n"
        "int main(void) { char *p = malloc(2); int r = f(p); free(p); return r; }\n",
        encoding="ascii",
    )
    done = subprocess.run(
        [builddir / "coldpatch" / "iprobe-cc", "-g", "-O1", "-fsanitize=address", "p.c", "-o", "p"],
        cwd=where,
        env={**os.environ, "IPROBE_CC": compiler},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == "", repr(done)
    done = me.iprobe("run", "--json", "-o", where / "trace", "--", where / "p")
    assert done.returncode == 1, repr(done)
    assert done.summary()["events"] == 4, repr(done)
