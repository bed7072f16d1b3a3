# SPDX-License-Identifier: Apache-2.0
"""A disk that is full: the recording ends, says so, what does not fit is counted, and the process does not notice."""

import json
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
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M,mode=1777", "tmpfs", place], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted: {done.stderr}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("max_size,compress", [("1G", []), (None, []), ("1G", ["--compress"]), ("1G", ["--rotate", "2"])])
def test_disk_full(actor, programs, targets, small_disk, max_size, compress):
    """Without --max-size a tenth of the free space is the limit, so that the disk does not fill up."""
    target = targets.start(actor, [programs.simple("count", opt="-O0"), "-w", "-t", "2", "-n", "4000000" if compress else "300000"])
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
