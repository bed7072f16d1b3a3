# SPDX-License-Identifier: Apache-2.0
"""coldpatch and files: what it writes, where, with which attributes, and what is left when that
fails.
"""

import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import time

import pytest

from iptest.coldpatching import Tool, coldpatch, compile_, only_file, shop, small


def test_second_run_changes_nothing(coldpatch, small):
    coldpatch.ok(small)
    before, state = small.read_bytes(), small.stat()
    done = coldpatch.ok(small)
    assert "already" in done.stdout
    assert small.read_bytes() == before and small.stat().st_ino == state.st_ino
    assert small.stat().st_mtime_ns == state.st_mtime_ns


def test_attributes_are_kept(coldpatch, small):
    os.chmod(small, 0o4751 if os.getuid() else 0o2751)
    os.utime(small, ns=(1_234_567_890_123_456_789, 1_111_111_111_222_222_222))
    if os.getuid() == 0:
        os.chown(small, 1234, 2345)
        os.chmod(small, 0o6751)
    try:
        os.setxattr(small, "user.iprobe", b"value")
        xattr = True
    except OSError:
        xattr = False
    before = small.stat()
    coldpatch.ok(small)
    after = small.stat()
    for field in ("st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_nlink"):
        assert getattr(after, field) == getattr(before, field), field
    assert not xattr or os.getxattr(small, "user.iprobe") == b"value"
    only_file(small.parent, "small")


def test_a_capability_is_kept(coldpatch, small, tmp_path):
    if os.getuid():
        pytest.skip("root only")
    capability = bytes.fromhex(
        "0100000200040000000000000000000000000000"
    )  # cap_net_bind_service+ep
    os.setxattr(small, "security.capability", capability)
    before = os.getxattr(small, "security.capability")
    coldpatch.ok(small)
    assert os.getxattr(small, "security.capability") == before


def test_another_owners_setuid_bit_is_not_handed_on(coldpatch, small, tmp_path):
    if os.getuid():
        pytest.skip("root only")
    os.chown(small, 1234, 2345)
    os.chmod(small, 0o6755)
    coldpatch.ok("-o", tmp_path / "out", small)
    after = (tmp_path / "out").stat()
    assert (stat.S_IMODE(after.st_mode), after.st_uid) == (0o755, 0)
    os.chown(small, 0, 0)
    os.chmod(small, 0o4755)
    coldpatch.ok("-o", tmp_path / "own", small)
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o4755


def test_symbolic_links_are_followed(coldpatch, small, tmp_path):
    (tmp_path / "dir").mkdir()
    link = tmp_path / "dir" / "link"
    link.symlink_to("../small")
    coldpatch.ok(link)
    assert link.is_symlink() and os.readlink(link) == "../small"
    assert coldpatch.json(small)[0]["status"] == "already"
    only_file(tmp_path / "dir", "link")


def test_hard_links_keep_the_old_file(coldpatch, small, tmp_path):
    other = tmp_path / "other"
    os.link(small, other)
    before = other.read_bytes()
    assert "hard link" in coldpatch.ok(small).stdout
    assert other.read_bytes() == before


def test_a_running_program_is_not_disturbed(coldpatch, tmp_path):
    program = compile_(
        tmp_path / "program",
        ["-x", "c", "-"],
        stdin="""
        #include <stdio.h>
        #include <unistd.h>
        static int twice(int n) { return n * 2; }
        int main(void) { int c; puts("ready"); fflush(stdout); while ((c = getchar()) != EOF) twice(c); puts("done");
        return 0; }""",
    )
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    coldpatch.ok(program)
    output, _ = process.communicate("some text", timeout=30)
    assert (output, process.returncode) == ("done\n", 0)


def test_output_and_dry_run_leave_the_input(coldpatch, small, tmp_path):
    before, state = small.read_bytes(), small.stat()
    done = coldpatch.ok("--dry-run", "--list", tmp_path / "list", small)
    assert "would be patched" in done.stdout
    only_file(tmp_path, "small")
    coldpatch.ok("-o", tmp_path / "out", small)
    assert small.read_bytes() == before and small.stat().st_mtime_ns == state.st_mtime_ns
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == stat.S_IMODE(state.st_mode)
    # from a patched file -o makes a copy
    coldpatch.ok("-o", tmp_path / "copy", tmp_path / "out")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "out").read_bytes()


def test_relative_paths(coldpatch, small, tmp_path):
    coldpatch.ok("-o", "out", "--list", "list", "small", cwd=tmp_path)
    only_file(tmp_path, "small", "out", "list")
    coldpatch.ok("small", cwd=tmp_path)
    assert (tmp_path / "small").read_bytes() == (tmp_path / "out").read_bytes()


def test_many_at_once_and_one_refused(coldpatch, shop, tmp_path):
    for name in "abc":
        shutil.copy(shop / "small", tmp_path / name)
    (tmp_path / "b").write_bytes(b"no ELF")
    done = coldpatch("--json", *(tmp_path / n for n in "abc"))
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    modules = json.loads(done.stdout)["modules"]
    assert [os.path.basename(m["path"]) for m in modules] == ["a", "c"]
    assert all(m["status"] == "patched" for m in modules)


def test_quiet(coldpatch, small):
    assert coldpatch.ok("-q", small).stdout == ""


def test_same_input_same_output(coldpatch, shop, tmp_path):
    for name in "ab":
        shutil.copy(shop / "small", tmp_path / name)
        coldpatch.ok(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [[], ["--nonsense", "x"], ["-o"], ["-o", "x", "a", "b"], ["--list", "x", "a", "b"], ["-q"]],
)
def test_usage(coldpatch, arguments, tmp_path):
    done = coldpatch(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("coldpatch: ")
    only_file(tmp_path)


def test_help_and_version(coldpatch):
    assert coldpatch.ok("--help").stdout.startswith("usage: coldpatch")
    assert re.fullmatch(r"coldpatch \d+\.\d+\.\d+\n", coldpatch.ok("--version").stdout)


def as_nobody():
    os.setgid(65534)
    os.setuid(65534)


def needs_root():
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")


@pytest.fixture
def open_folder(top):
    """A folder that every user may enter."""
    path = top / f"open-{time.monotonic_ns()}"
    path.mkdir(mode=0o755)
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_without_permission(coldpatch, shop, open_folder, top):
    needs_root()
    tool = open_folder / "coldpatch"
    shutil.copy(coldpatch.path, tool)
    other = Tool(pathlib.Path("/nonexistent"))
    other.path = str(tool)
    if other("--version", preexec_fn=as_nobody).returncode:
        pytest.skip("the test folder is closed to ordinary users")
    path = open_folder / "program"
    shutil.copy(shop / "small", path)
    before = path.read_bytes()
    # a folder that one may not write to
    assert "Permission denied" in other.refuses(path, preexec_fn=as_nobody)
    # a file that one may not read
    path.chmod(0o700)
    assert "Permission denied" in other.refuses(path, preexec_fn=as_nobody)
    # a file of somebody else in a folder of one's own: it would change hands
    path.chmod(0o755)
    open_folder.chmod(0o777)
    assert "owner" in other.refuses(path, preexec_fn=as_nobody)
    assert path.read_bytes() == before
    only_file(open_folder, "coldpatch", "program")
    # an output elsewhere is one's own
    done = other("-o", open_folder / "out", path, preexec_fn=as_nobody)
    assert done.returncode == 0 and (open_folder / "out").stat().st_uid == 65534


def test_no_room(coldpatch, small, tmp_path):
    """As on a full disk: the limit on file size makes the write fail."""
    before = small.read_bytes()

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, len(before) // 2))

    assert "File too large" in coldpatch.refuses(small, preexec_fn=limit)
    assert small.read_bytes() == before
    only_file(tmp_path, "small")


def test_full_device(coldpatch, small):
    done = subprocess.run(
        f"'{coldpatch.path}' --json '{small}' > /dev/full",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1


def test_unwritable_list_changes_nothing(coldpatch, small):
    before = small.read_bytes()
    coldpatch.refuses("--list", small.parent / "absent" / "list", small)
    assert small.read_bytes() == before
    only_file(small.parent, "small")


def test_killed_at_any_moment(coldpatch, shop, tmp_path):
    """Either the old file or the new one; never half a file, also not beside it (a complete one
    with a name of its own exists for the microseconds before the rename).
    """
    path = tmp_path / "program"
    old = (shop / "small").read_bytes()
    coldpatch.ok("-o", tmp_path / "new", shop / "small")
    new = (tmp_path / "new").read_bytes()
    (tmp_path / "new").unlink()
    chance = random.Random(11)
    seen = set()
    for _ in range(100):
        path.write_bytes(old)
        path.chmod(0o755)
        process = subprocess.Popen([coldpatch.path, "-q", path])
        time.sleep(chance.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        process.wait()
        data = path.read_bytes()
        assert data in (old, new)
        seen.add(data == new)
        for left in set(os.listdir(tmp_path)) - {"program"}:
            assert left.startswith(".coldpatch.") and (tmp_path / left).read_bytes() in (old, new)
            (tmp_path / left).unlink()
    assert seen == {False, True}
