# SPDX-License-Identifier: Apache-2.0
"""A disk that is full: the recording ends, says so, what does not fit is counted, and the
process does not notice.
"""

import json
import re
import subprocess

import pytest

from iptest import ctf, memory
from iptest.actor import last_words


@pytest.fixture
def small_disk(actor):
    """A file system of 1 MiB."""
    if not actor.is_root:
        pytest.skip("needs root, for mount")
    place = actor.dir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1M,mode=1777", "tmpfs", place],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted: {done.stderr}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def check_early(actor, directory, done, limit_by):
    """Who ends before his time says so first, and says how large the limit was and whose."""
    assert done.summary()["ended_early"] is True
    said = [line for line in done.stderr.splitlines() if line.startswith("iprobe: ended early: ")]
    assert len(said) == 1, done.stderr
    info = json.loads(actor.iprobe("info", "--json", directory).stdout)
    assert info["ended_early"] is True and info["end"] == done.summary()["end"]
    assert actor.iprobe("report", directory).stdout.startswith("ended early: ")
    assert re.search("^end +ended early: ", actor.iprobe("info", directory).stdout, re.M)
    assert json.loads(actor.iprobe("report", "--json", directory).stdout)["ended_early"] is True
    if limit_by:
        assert done.summary()["limit_by"] == info["limit_by"] == limit_by and limit_by in said[0]
        assert done.summary()["limit_bytes"] == info["limit_bytes"] > 0 and re.search(
            "size limit of [0-9.]+ [KMG]iB", said[0]
        )


def test_the_limit_that_was_asked_for(me, programs):
    """The text's first words say it, too; and a recording that ended as it was to says no such
    thing.
    """
    directory = me.dir() / "trace"
    program = [programs.simple("count"), "-t", "1", "-n", "100000"]
    done = me.iprobe("run", "--max-size", "300K", "-o", directory, "--", *program)
    assert done.returncode == 0 and "size limit of 300.0 KiB (--max-size;" in done.stderr, repr(
        done
    )
    assert done.stderr.splitlines()[-1].startswith("iprobe: ended early: "), done.stderr
    info = json.loads(me.iprobe("info", "--json", directory).stdout)
    assert info["limit_bytes"] == 300 << 10 and info["limit_by"] == "--max-size"
    whole = me.dir() / "whole"
    done = me.iprobe(
        "run", "-o", whole, "-f", "leaf", "--", programs.simple("count"), "-t", "1", "-n", "1000"
    )
    assert done.returncode == 0 and "early" not in done.stderr, repr(done)
    info = json.loads(me.iprobe("info", "--json", whole).stdout)
    assert info["ended_early"] is False and "limit_bytes" not in info
    assert "early" not in me.iprobe("report", whole).stdout


@pytest.mark.parametrize(
    "max_size,compress", [("1G", []), (None, []), ("1G", ["--compress"]), ("1G", ["--rotate", "2"])]
)
def test_disk_full(actor, programs, targets, small_disk, max_size, compress):
    """Without --max-size a tenth of the free space is the limit, so that the disk does not fill
    up.
    """
    target = targets.start(
        actor,
        [
            programs.simple("count", opt="-O0"),
            "-w",
            "-t",
            "2",
            "-n",
            "4000000" if compress else "300000",
        ],
    )
    directory = small_disk / "trace"
    options = compress + (["--max-size", max_size] if max_size else [])
    proc = actor.start_iprobe("attach", target.pid, "--json", *options, "-o", directory)

    def patched():
        done = actor.iprobe("status", target.pid, "--json")
        return done.returncode == 0 and json.loads(done.stdout)["patched"] > 0

    memory.wait_for("the probes do not go live", patched, 60)
    target.say()
    done = last_words(proc)  # it ends by itself
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["end"] == ("no space left" if max_size else "size limit reached")
    assert ("no space left" in done.stderr) == bool(max_size), done.stderr
    assert summary["lost"] > 0 and summary["events"] > 0
    check_early(actor, directory, done, None if max_size else "a tenth of the space that was free")
    readable = directory
    if compress:
        readable = actor.dir() / "plain"
        assert actor.iprobe("trim", "-o", readable, directory).returncode == 0
    seen, _ = ctf.read_events(readable)
    assert sum(seen.values()) == summary["events"]
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    assert json.loads(done.stdout)["events"] == summary["events"]
    assert not (directory / "iprobe/journal").exists()
    memory.assert_untouched(target.pid)
    for line in target.proc.stdout:
        if line.startswith("calls "):
            break
    target.say()
    target.finish()
