# SPDX-License-Identifier: Apache-2.0
"""
iprobe syscalls: which paths system calls were given, also those that failed.
"""

import re
import signal
import subprocess

import pytest

from iptest import actor as actors
from iptest import memory
from test_syscall_live import start
from test_syscall_report import json_lines, play
from test_wait import skip_without_events, source, traced  # noqa: F401

MANY = 3000
NUMBERED = re.compile(r'mkdir\("/nonexistent/(?:one|two)/(\d+)", (0[0-7]*)\)')


def begin(actor, programs, many, *before):
    folder = actor.dir()
    program = programs.simple("path_calls", placement="fentry")
    proc = actor.popen(
        [*before, program, folder, str(many)],
        stdin=subprocess.PIPE,
    )
    assert proc.stdout.readline() == "ready\n"
    return proc, folder


def end(proc):
    play(proc)
    assert proc.wait(timeout=60) == 0, proc.stderr.read()


def run(actor, programs, many, trace, *options):
    proc, folder = begin(
        actor,
        programs,
        many,
        *(actor.iprobe_path, "run", "-q", "--kernel-buffer", "64M", *options, "-o", trace, "--"),
    )
    end(proc)
    return folder


def listed(actor, trace, *words):
    done = actor.iprobe("syscalls", "--list", "--json", *words, trace)
    assert done.returncode == 0 and "LOST" not in done.stderr, repr(done)
    return json_lines(done.stdout)


def numbers(calls):
    """Of calls whose mode is the number in their path: how many have one, and it is the right one.
    """
    shown = [call["text"] for call in calls if call["name"] == "mkdir"]
    with_path = [NUMBERED.fullmatch(text) for text in shown if '"' in text]
    assert all(with_path), [text for text in shown if '"' in text][:3]
    for found in with_path:
        assert int(found[1]) == int(found[2], 8), found[0]
    return len(with_path), len(shown)


def check_files(calls, folder):
    """What use_files() and execute() have made."""
    texts = [call["text"] for call in calls]
    renamed = f"{folder}/renamed"
    for text in (
        'openat(AT_FDCWD, "/nonexistent/file", O_RDONLY|O_CLOEXEC)',
        f'openat(AT_FDCWD, "{folder}/none", O_WRONLY|O_CLOEXEC)',
        f'rename("{folder}/made", "{renamed}")',
        f'unlink("{renamed}")',
        f'access("{folder}/a \\"quoted\\" \\\\ name?", R_OK)',
        "chdir(0x8)",
    ):
        assert text in texts, (text, texts[-20:])
    stats = [text for text in texts if text.startswith("newfstatat(")]
    assert any(text.startswith(f'newfstatat(AT_FDCWD, "{renamed}", 0x') for text in stats), stats
    assert any(re.match(r'newfstatat\(0.*, "", 0x', text) for text in stats), stats
    (long,) = [text for text in texts if text.startswith("truncate(")]
    assert re.fullmatch(r'truncate\("[/a]{4000}", 1\)', long), len(long)
    # what has become another program is not looked at: its memory is another one
    executed = [call for call in calls if call["name"] == "execve" and call["result"] < 0]
    assert [call["text"].split(",")[0] for call in executed] == ['execve("/nonexistent/program"']
    # what has succeeded does not get the path of the next one, which stood in the same memory
    made = [call for call in calls if call["name"] == "openat" and call["result"] > 0]
    assert made and all(re.match(r"openat\(AT_FDCWD, 0x", m["text"]) for m in made), made


def test_recorded(traced, programs, source):  # noqa: F811
    trace = traced.dir() / "trace"
    folder = run(traced, programs, MANY, trace, "--kernel")
    calls = listed(traced, trace)
    assert numbers(calls) == (2 * MANY, 2 * MANY)
    check_files(calls, folder)
    (failed,) = listed(traced, trace, "-f", "fail_open", "--failed")
    assert failed["error"] == "ENOENT" and '"/nonexistent/file"' in failed["text"], failed
    # they are no descriptors
    done = traced.iprobe("wait", trace)
    assert done.returncode == 0 and not done.stderr, repr(done)


def test_listed_live(traced, programs, source):  # noqa: F811
    proc, folder = begin(traced, programs, MANY)
    lister = start(traced, "syscalls", "--list", "--json", str(proc.pid))
    end(proc)
    done = actors.last_words(lister)
    assert done.returncode == 0 and not done.stderr, repr(done)
    calls = json_lines(done.stdout)
    assert numbers(calls) == (2 * MANY, 2 * MANY)
    check_files(calls, folder)


# its function waits for half of 100 ms until another process gives up its lease of the file
CUT = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

__attribute__((noinline)) static void cut(const char *path)
{
	if (truncate(path, 1) < 0)
		_exit(2);
}

int main(int argc, char **argv)
{
	const char *path = argv[1];
	int fd = open(path, O_RDWR | O_CREAT, 0600), taken[2], n;
	sigset_t broken;
	char byte;

	sigemptyset(&broken);
	sigaddset(&broken, SIGIO);
	sigprocmask(SIG_BLOCK, &broken, NULL);
	if (pipe(taken) < 0)
		return 3;
	if (fork() == 0) {
		if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0 || write(taken[1], "x", 1) != 1)
			_exit(4);
		sigwait(&broken, &n);
		usleep(50000);
		_exit(fcntl(fd, F_SETLEASE, F_UNLCK) < 0);
	}
	close(fd);
	close(taken[1]);
	if (read(taken[0], &byte, 1) != 1)
		return 5;
	cut(path);
	return 0;
}
"""


def test_paths_of_waits(traced, source):  # noqa: F811
    """Each view names the file that a call without a descriptor waited for."""
    folder = traced.dir()
    text, program, leased = folder / "cut.c", folder / "cut", folder / "leased file"
    text.write_text(CUT)
    cc = traced.builddir / "coldpatch" / "iprobe-cc"
    done = traced.run([cc, "-O2", text, "-o", program])
    assert done.returncode == 0, repr(done)
    done = traced.iprobe(
        *("run", "-q", "--kernel", "-o", folder / "trace", "--", program, leased)
    )
    assert done.returncode == 0, repr(done)
    for words in ((), ("--json",), ("--of", "cut")):
        done = traced.iprobe("wait", *words, folder / "trace")
        assert done.returncode == 0 and str(leased) in done.stdout, (words, repr(done))
    page = folder / "page.html"
    done = traced.iprobe("export", "--format", "html", "-o", page, folder / "trace")
    assert done.returncode == 0 and str(leased) in page.read_text(), repr(done)


@pytest.mark.parametrize("options", [("--rotate", "2"), ("--overwrite",)])
def test_the_newest(traced, programs, options):  # noqa: F811
    """Segments have the paths of their calls."""
    trace = traced.dir() / "trace"
    size = ("--max-size", "2M")
    folder = run(traced, programs, MANY, trace, "--kernel=syscalls", *size, *options)
    calls = listed(traced, trace)
    assert any(f'unlink("{folder}/renamed")' in call["text"] for call in calls), calls[-5:]
    with_path, shown = numbers(calls)
    assert with_path == shown > 0


def test_gaps(traced, programs):  # noqa: F811
    """While iprobe does not get to read them, more come than there is room for: such calls have no
    path, and none has that of another one.
    """
    many = 30000
    trace = traced.dir() / "trace"
    proc, _ = begin(traced, programs, many)
    tracer = traced.start_iprobe(
        *("attach", str(proc.pid), "-q", "--kernel=syscalls", "--kernel-buffer", "64M"),
        *("-o", trace),
    )
    memory.wait_until_live(proc.pid, tracer)
    tracer.send_signal(signal.SIGSTOP)
    proc.stdin.write("\n")
    proc.stdin.flush()
    assert proc.stdout.readline() == "done\n"
    tracer.send_signal(signal.SIGCONT)
    proc.stdin.close()
    assert proc.wait(timeout=60) == 0
    done = actors.last_words(tracer)
    assert done.returncode == 0, repr(done)
    with_path, shown = numbers(listed(traced, trace))
    assert with_path < shown == 2 * many, (with_path, shown)
    lines = (trace / "iprobe" / "descriptors").read_text().splitlines()
    assert any(line.split("\t")[1:4] == ["0", "0", "path"] for line in lines), len(lines)
