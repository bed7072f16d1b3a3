# SPDX-License-Identifier: Apache-2.0
"""
Root's coldpatch in a directory of somebody else's, who exchanges files, links and directories at
an exact step: nothing of anybody else's is replaced, and nothing is written elsewhere.
"""

import os
import pathlib
import shlex
import shutil
import stat
import subprocess

import pytest

from iptest.actor import OTHER_UID
from iptest.coldpatching import Tool, coldpatch, compile_, only_file, shop, small  # noqa: F401

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"


@pytest.fixture(scope="module", autouse=True)
def needs_root():
    if os.getuid():
        pytest.skip("not root")


@pytest.fixture(scope="module")
def at_name(tmp_path_factory):
    path = tmp_path_factory.mktemp("at") / "at_name.so"
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-o", path, PROGRAMS / "at_name.c", "-ldl"], check=True
    )
    return path


@pytest.fixture
def world(small, tmp_path):
    """his/bin/program is the other user's; theirs/program is root's, as are the names around it."""
    his, theirs = tmp_path / "his", tmp_path / "theirs"
    (his / "bin").mkdir(parents=True)
    theirs.mkdir()
    shutil.copy(small, his / "bin" / "program")
    shutil.copy(small, theirs / "program")
    for path in (his, his / "bin", his / "bin" / "program"):
        os.chown(path, OTHER_UID, OTHER_UID)
    return tmp_path


def state(folder):
    return {
        p.name: (p.lstat().st_ino, p.lstat().st_uid, p.lstat().st_mode, p.read_bytes())
        for p in folder.iterdir()
    }


def at(step, preload, *commands):
    """The environment in which these are run at the step."""
    env = {
        "LD_PRELOAD": str(preload),
        "AT_NAME": step,
        "AT_DO": " && ".join(shlex.join(map(str, c)) for c in commands),
    }
    if "libasan" in os.environ.get("LD_PRELOAD", "") or "ASAN_OPTIONS" in os.environ:
        pytest.skip("a sanitizer's runtime comes before all others")
    return {**os.environ, **env}


@pytest.mark.parametrize("step", ["fchmod", "linkat", "rename"])
def test_a_directory_becomes_a_link(coldpatch, world, at_name, step):
    """Another directory, with a file of the same name, stands where the first was."""
    his, theirs = world / "his", world / "theirs"
    before = state(theirs)
    done = coldpatch(
        his / "bin" / "program",
        env=at(step, at_name, ["mv", his / "bin", his / "away"], ["ln", "-s", theirs, his / "bin"]),
    )
    assert (his / "bin").is_symlink(), "the step was not met"
    assert state(theirs) == before, repr(done)
    assert [p.name for p in (his / "away").iterdir()] == ["program"]


@pytest.mark.parametrize("step", ["fchmod", "linkat", "rename"])
@pytest.mark.parametrize("what", ["file", "link"])
def test_another_file_stands_there(coldpatch, world, at_name, step, what):
    """What was read has been moved away; what has its name now is kept."""
    his, theirs = world / "his" / "bin", world / "theirs"
    put = (
        ["ln", "-s", theirs / "program", his / "program"]
        if what == "link"
        else ["mv", his / "other", his / "program"]
    )
    (his / "other").write_text("precious")
    before = state(theirs)
    refused = coldpatch.refuses(
        his / "program", env=at(step, at_name, ["mv", his / "program", his / "away"], put)
    )
    assert "meanwhile" in refused
    assert state(theirs) == before
    assert (
        (his / "program").is_symlink()
        if what == "link"
        else (his / "program").read_text() == "precious"
    )
    assert (his / "away").read_bytes() == before["program"][3]
    only_file(his, "away", "program", *(["other"] if what == "link" else []))


@pytest.mark.parametrize("option", ["-o", "--list"])
def test_somebody_makes_what_was_not_there(coldpatch, world, at_name, option):
    his, theirs = world / "his" / "bin", world / "theirs"
    (his / "other").write_text("precious")
    assert "meanwhile" in coldpatch.refuses(
        option,
        his / "new",
        theirs / "program",
        env=at("linkat", at_name, ["mv", his / "other", his / "new"]),
    )
    assert (his / "new").read_text() == "precious"
    only_file(his, "new", "program")


def test_outputs_that_are_anothers(coldpatch, world):
    """His file, his link to one of ours, and what is no file at all."""
    his, theirs = world / "his" / "bin", world / "theirs"
    before = state(theirs), state(his)
    assert f"user {OTHER_UID}'s" in coldpatch.refuses("-o", his / "program", theirs / "program")
    assert (state(theirs), state(his)) == before
    (his / "link").symlink_to(theirs / "kept")
    shutil.copy(theirs / "program", theirs / "kept")
    os.chown(his / "link", OTHER_UID, OTHER_UID, follow_symlinks=False)
    before = state(theirs)
    assert f"user {OTHER_UID}'s" in coldpatch.refuses("-o", his / "link", theirs / "program")
    assert f"user {OTHER_UID}'s" in coldpatch.refuses(his / "link")
    assert state(theirs) == before
    os.mkfifo(his / "fifo")
    assert "no plain file" in coldpatch.refuses("-o", his / "fifo", theirs / "program")
    assert stat.S_ISFIFO((his / "fifo").stat().st_mode)
    # a link of his to a file of his leads nowhere else
    (his / "own").symlink_to("program")
    os.chown(his / "own", OTHER_UID, OTHER_UID, follow_symlinks=False)
    coldpatch.ok(his / "own")
    assert (his / "own").is_symlink() and (his / "program").stat().st_uid == OTHER_UID


def test_links_where_lists_go(coldpatch, world):
    """Folders on the way to a list are made one by one: a link among them is not followed."""
    his, theirs = world / "his", world / "theirs"
    (his / ".build-id").symlink_to(theirs)
    before = state(theirs)
    assert "no directory" in coldpatch.refuses("--list", f"{his}/", theirs / "program")
    assert state(theirs) == before
    (his / ".build-id").unlink()
    coldpatch.ok("--list", f"{his}/new/er/", theirs / "program")
    assert len([p for p in his.rglob("*.probes") if p.is_file()]) == 1


def test_on_layers(coldpatch, world):
    """An overlay of two file systems, as a container's root is: a file gets another inode when
    it is first changed.
    """
    theirs = world / "theirs"
    script = """
        set -e
        mount -t tmpfs lower "$1/low"; mount -t tmpfs upper "$1/up"
        mkdir "$1/up/upper" "$1/up/work"; cp "$1/theirs/program" "$1/low/program"
        mount -t overlay over -o "lowerdir=$1/low,upperdir=$1/up/upper,workdir=$1/up/work" "$1/over" || exit 77
        "$2" "$1/over/program"; ls -A "$1/over"; "$2" "$1/over/program"
    """
    for name in ("low", "up", "over"):
        (world / name).mkdir()
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", world, coldpatch.path],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("no overlay here: " + done.stderr.strip())
    lines = done.stdout.splitlines()
    assert (
        done.returncode == 0
        and "patched" in lines[0]
        and lines[1] == "program"
        and "already" in lines[2]
    ), repr(done)
    assert theirs.exists()
