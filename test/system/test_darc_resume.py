# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc --resume and --status: a search whose state outlives it, its target and its machine, and
that tells what it does while it is under way.
"""

import json
import os
import re
import signal
import time

import pytest

from iptest import memory
from iptest.actor import last_words, one_line
from test_darc import causes
from test_darc_live import is_as_on_disk, place  # noqa: F401

# Each tenth call of serve() sleeps, or as many as are asked for, four functions below it.
SOURCE = """
#include <stdlib.h>
#include <time.h>

#define FUNC __attribute__((noinline))

static struct timespec slow;

FUNC void sleep_now(int now)
{
	if (now)
		nanosleep(&slow, NULL);
	__asm__ volatile("");
}
FUNC void read_page(int now) { sleep_now(now); __asm__ volatile(""); }
FUNC void look_up(int now) { read_page(now); __asm__ volatile(""); }
/* what usual calls take is to be the same on a busy machine, too: a profile that has changed ends a
 * search that goes on */
FUNC void parse(int now)
{
	struct timespec begin, t;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &t);
	while ((t.tv_sec - begin.tv_sec) * 1000000000 + t.tv_nsec - begin.tv_nsec < 30000);
	__asm__ volatile("");
}
FUNC void handle(int now) { parse(now); look_up(now); __asm__ volatile(""); }
FUNC void serve(int now) { handle(now); __asm__ volatile(""); }

int main(int argc, char **argv)
{
	slow.tv_nsec = atoi(argv[1]) * 1000000;
	for (int i = BUILD; argc == 3 || i < atoi(argv[3]); i++) {
		serve(i % atoi(argv[2]) == 0);
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
}
"""
PATH = ["serve", "handle", "look_up", "read_page", "sleep_now"]


@pytest.fixture
def built(root):
    """Builds it; its path."""

    def build(number=0, folder=None):
        folder = folder or root.dir()
        (folder / "chain.c").write_text(SOURCE.replace("BUILD", str(number)))
        done = root.run(
            [
                root.builddir / "coldpatch" / "iprobe-cc",
                *("-O2", "-fno-ipa-icf", folder / "chain.c", "-o", folder / "chain"),
            ]
        )
        assert done.returncode == 0, repr(done)
        return folder / "chain"

    return build


@pytest.fixture
def started(root):
    """Starts it with calls that sleep for so long; its pid."""
    running = []

    def start(path, milliseconds=8, each=10, actor=None):
        # what else this machine does is not to make peaks
        before = [] if actor else ["nice", "-n", "-10"]
        command = [*before, path, str(milliseconds), str(each)]
        running.append((actor or root).popen(command))
        pid = running[-1].pid
        memory.wait_for("no start", lambda: os.readlink(f"/proc/{pid}/exe") == str(path))
        return pid

    yield start
    for process in running:
        process.kill()
        process.wait()


def search(actor, file, pid, place, *options, words=("--json",), timeout=120):
    return actor.iprobe(
        *("darc", "-f", "serve", *words, "--resume", file, *options, pid),
        env=place,
        timeout=timeout,
    )


def begin(actor, pid, place, *options):
    """A search that is under way."""
    return actor.popen(
        [actor.iprobe_path, "darc", "-f", "serve", "--json", *map(str, options), str(pid)],
        env=place,
    )


def until_level(process, level):
    while f"level {level}:" not in process.stderr.readline():
        assert process.poll() is None


def found(done):
    assert done.returncode == 0, repr(done)
    document = json.loads(done.stdout)
    assert document["state"] == "root cause found", document
    return {tuple(cause["path"]) for cause in causes(document)}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ended_and_resumed(root, built, started, place, how):
    """The search goes on, in another process of the program, where it was."""
    path, file = built(), root.dir() / "search.json"
    pid = started(path)
    process = begin(root, pid, place, "--resume", file)
    until_level(process, 3)
    process.send_signal(how)
    last_words(process)
    memory.wait_for("sites are left", lambda: is_as_on_disk(root, pid))
    document = json.loads(file.read_text())
    assert document["state"] == "in progress" and document["level"] == 3, document
    # functions by name, modules by build-id
    assert document["below"] == ["look_up"] and set(document["path"]) == set(PATH[:3]), document
    (module,) = document["modules"]
    assert module["path"] == str(path) and module["build_id"], module
    os.kill(pid, signal.SIGKILL)
    done = search(root, file, started(path), place)
    assert found(done) == {tuple(PATH)}, done
    levels = [line for line in done.stderr.splitlines() if ": level " in line]
    assert levels[0].endswith("level 0: 1 function live"), levels
    assert not [line for line in levels if "level 1:" in line or "level 2:" in line], levels
    assert "the search goes on at level 3" in done.stderr, done.stderr
    assert json.loads(file.read_text())["state"] == "root cause found"
    # the file alone, and nobody else may read it
    assert os.listdir(file.parent) == ["search.json"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_over_and_resumed(root, built, started, place):
    """What was over is found again, with one step; what ends before tells what was kept."""
    file = root.dir() / "search.json"
    pid = started(built())
    assert found(search(root, file, pid, place)) == {tuple(PATH)}
    done = search(root, file, pid, place)
    assert found(done) == {tuple(PATH)}
    assert "level 1:" not in done.stderr, done.stderr
    for words in (("--json",), ("-q",)):
        before = file.read_bytes()
        done = search(root, file, pid, place, "--duration", "100ms", words=words)
        assert done.returncode == 0, repr(done)
        if words == ("--json",):
            document = json.loads(done.stdout)
            assert document["state"] == "in progress", document
            assert document["kept"]["state"] == "root cause found", document
            assert document["kept"]["paths"][0]["path"] == PATH, document
        else:
            assert " > ".join(PATH) in done.stdout and not done.stderr, done
        assert file.read_bytes() == before


def test_command(root, built, place):
    """A command is started, and the search goes on in it."""
    path, file = built(), root.dir() / "search.json"
    for _ in range(2):
        process = root.popen(
            [
                # both: what else this machine does is neither to make peaks nor to take too long
                *("nice", "-n", "-10", root.iprobe_path, "darc", "-f", "serve", "--json"),
                *("--resume", file, "--", path, "8", "10", "6000"),
            ],
            env=place,
        )
        done = last_words(process)
        assert found(done) == {tuple(PATH)}
    assert "the search goes on at level" in done.stderr, done


@pytest.mark.parametrize(
    "milliseconds, each, how",
    [
        (8, 2, "Earth Mover's Distance"),
        (60, 10, "Earth Mover's Distance|slow calls are far more frequent, or rarer"),
    ],
)
def test_changed(root, built, started, place, milliseconds, each, how):
    """Other calls are not searched through: that is the answer. Of few calls the distance does not
    tell; then those of the peak do.
    """
    path, file = built(), root.dir() / "search.json"
    assert found(search(root, file, started(path), place)) == {tuple(PATH)}
    before = file.read_bytes()
    pid = started(path, milliseconds, each)
    done = search(root, file, pid, place)
    assert done.returncode == 0, repr(done)
    document = json.loads(done.stdout)
    assert document["state"] == "profile changed", document
    assert re.search(how, document["reason"]), document
    assert not document["paths"] and document["calls"] >= 20, document
    assert "level 1:" not in done.stderr, done.stderr
    done = search(root, file, pid, place, words=("-q",))
    assert done.returncode == 0 and "The profile has changed: " in done.stdout, repr(done)
    assert file.read_bytes() == before
    assert is_as_on_disk(root, pid)


def refused(root, done, pid, *words):
    assert done.returncode == 1 and not done.stdout, repr(done)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert is_as_on_disk(root, pid)


def test_of_something_else(root, built, started, place):
    """Another build, another function, other options, another program: each is told."""
    path, file = built(), root.dir() / "search.json"
    pid = started(path)
    assert found(search(root, file, pid, place)) == {tuple(PATH)}
    before = file.read_bytes()
    for options, words in [
        (("--depth", "5"), ("--depth 64",)),
        (("--slower-than", "1ms"), ("none of --peak",)),
        (("--tid", pid), ("no --tid",)),
        (("--decision-ops", "21"), ("--decision-ops 20",)),
        (("--start-ops", "101"), ("--start-ops 100",)),
        (("--maxcount-percentage", "21"), ("--maxcount-percentage 20",)),
    ]:
        done = search(root, file, pid, place, *options, words=("-q",))
        refused(root, done, pid, "search.json", *words)
    done = root.iprobe("darc", "-q", "-f", "handle", "--resume", file, pid, env=place)
    refused(root, done, pid, "a search of serve, not of handle")
    other = started(built(1))
    done = search(root, file, other, place, words=("-q",))
    (module,) = json.loads(before)["modules"]
    refused(root, done, other, "another build of chain", module["build_id"])
    sleep = root.popen(["sleep", "1000"])
    done = search(root, file, sleep.pid, place, words=("-q",))
    assert done.returncode == 1 and "a program with chain" in done.stderr, repr(done)
    sleep.kill()
    assert file.read_bytes() == before


def test_hostile_files(root, built, started, place):
    """A file that is damaged, or made up, is one line; nothing has gone live by then."""
    path, file = built(), root.dir() / "search.json"
    pid = started(path)
    assert found(search(root, file, pid, place)) == {tuple(PATH)}
    good = json.loads(file.read_text())

    def changed(**members):
        return json.dumps({**good, **members}).encode()

    for content, words in [
        (b"", "no state of a search"),
        (b"{", "search.json:"),
        (b"\0" * 100, "search.json"),
        (b"[" * 100000, "search.json"),
        (b" " * (2 << 20), "too large"),
        (file.read_bytes()[:-200], "search.json:"),
        (b'{"format": "another"}', "no state of a search"),
        (changed(version=99), "version 99"),
        (changed(level=100000), "level"),
        (changed(level=0), "no profile"),
        (changed(below=["system"]), "system is no function with probes"),
        (changed(path=["@/etc/shadow"]), "@/etc/shadow is no function"),
        (changed(callees=["x" * 5000]), "callees"),
        (changed(bins=[[300, 1]]), "bins"),
        (changed(bins=[[40, 1 << 60]]), "bins"),
        (changed(latencies=[]), "latencies"),
        (changed(searched={"from_ns": 0, "to_ns": 1}), "searched"),
        (changed(ftree=[{"node": 1}]), "search.json:"),
        (changed(modules=[{"path": "x", "build_id": "../../x"}]), "build_id"),
    ]:
        file.write_bytes(content)
        refused(root, search(root, file, pid, place, words=("-q",)), pid, words)
        assert file.read_bytes() == content
    file.unlink()
    os.mkfifo(file)
    refused(root, search(root, file, pid, place, words=("-q",)), pid, "search.json")
    file.unlink()
    file.symlink_to("/etc/passwd")
    refused(root, search(root, file, pid, place, words=("-q",)), pid, "search.json")
    no_folder = root.dir() / "none" / "search.json"
    refused(root, search(root, no_folder, pid, place, words=("-q",)), pid, "none")


def test_cannot_be_kept(root, built, started, place):
    """The search goes on, and says so; the exit code tells it, too."""
    folder = root.dir()
    pid = started(built())
    process = begin(root, pid, place, "--resume", folder / "sub" / "search.json")
    assert last_words(process).returncode == 1
    (folder / "sub").mkdir()
    process = begin(root, pid, place, "--resume", folder / "sub" / "search.json")
    until_level(process, 0)
    (folder / "sub").rmdir()
    done = last_words(process)
    assert done.returncode == 1, repr(done)
    assert done.stderr.count("cannot be kept") == 1, done.stderr
    assert json.loads(done.stdout)["state"] == "root cause found"


def test_status(root, built, started, place):
    """What a search does is told at any time, and the search finds the same."""
    pid = started(built())
    process = begin(root, pid, place)
    asked = []
    while process.poll() is None:
        done = root.iprobe("darc", "--status", "--json", pid)
        if done.returncode == 0:
            asked.append(json.loads(done.stdout))
        else:
            # it is about to begin, or has ended
            assert one_line(done), done
        time.sleep(0.02)
    assert found(last_words(process)) == {tuple(PATH)}
    levels = [document["level"] for document in asked]
    assert levels == sorted(levels) and {0, 1, 2, 3} <= set(levels), levels
    looked = [document for document in asked if document["ftree"]]
    for document in looked:
        assert document["state"] in ("in progress", "root cause found")
        assert document["function"] == "serve" and document["peak"] >= 2, document
        assert document["searched"]["from_ns"] >= 1000000, document
        assert "serve" in document["live"] and len(document["live"]) >= 2, document
        assert document["ftree"][0]["maxcount"] == document["ftree"][0]["looked_at"], document
        assert document["options"]["max_functions"] == 200, document
    assert looked


def test_status_as_text(root, built, started, place):
    pid = started(built())
    process = begin(root, pid, place, "--decision-ops", "1000000")
    until_level(process, 1)
    memory.wait_for(
        "nothing is looked at",
        lambda: "MAXCOUNT" in root.iprobe("darc", "--status", pid).stdout,
    )
    done = root.iprobe("darc", "--status", pid)
    assert done.returncode == 0 and not done.stderr, repr(done)
    for line in (
        f"pid {pid} is searched by iprobe pid ",
        ", which is searched\n",
        "State: in progress, level 1 of 64 at most",
        "Live: 2 functions, 200 at most beside those of the path: handle, serve",
    ):
        assert line in done.stdout, done.stdout
    process.send_signal(signal.SIGINT)
    assert last_words(process).returncode == 0


def test_status_of_no_search(root, user, built, started, place):
    """A process without a session, one that is recorded, and the search of another user."""
    pid = started(built())
    done = root.iprobe("darc", "--status", pid)
    assert done.returncode == 1 and "begins a search" in done.stderr and one_line(done), done
    trace = root.dir() / "trace"
    other = root.start_iprobe("attach", "-q", "-f", "serve", "-o", trace, pid)
    memory.wait_for("it is not recorded", lambda: not is_as_on_disk(root, pid))
    done = root.iprobe("darc", "--status", pid)
    assert done.returncode == 1 and "is none of a search" in done.stderr and one_line(done), done
    other.send_signal(signal.SIGINT)
    assert last_words(other).returncode == 0
    theirs = started(built(folder=user.dir()), actor=user)
    process = begin(root, theirs, place, "--decision-ops", "1000000")
    until_level(process, 1)
    done = user.iprobe("darc", "--status", theirs)
    assert done.returncode == 1 and not done.stdout and one_line(done), done
    assert root.iprobe("darc", "--status", theirs).returncode == 0
    process.send_signal(signal.SIGINT)
    assert last_words(process).returncode == 0
    for words in (("-f", "serve", "--status", pid), ("--status",), ("--status", trace)):
        assert root.iprobe("darc", *words).returncode == 2, words
