# SPDX-License-Identifier: Apache-2.0
"""
Choosing what gets probes when a program is built: IPROBE_EXCLUDE, coldpatch --exclude,
no_instrument_function. What is left out is in no list, and with placement fentry not in the code
either.
"""

import json
import os
import re
import subprocess

import pytest

ONE = """
#include <stdio.h>
__attribute__((noinline)) int hot_one(int i) { __asm__ volatile("" : "+r"(i)); return i + 1; }
__attribute__((noinline)) int hot_two(int i) { __asm__ volatile("" : "+r"(i)); return hot_one(i) + 2; }
__attribute__((noinline, no_instrument_function)) int marked(int i) { __asm__ volatile("" : "+r"(i)); return i + 3; }
int other(int);
int main(void) { printf("%d\\n", hot_one(1) + hot_two(2) + marked(3) + other(4)); return 0; }
"""
TWO = """
__attribute__((noinline)) static int helper(int i) { __asm__ volatile("" : "+r"(i)); return i * 2; }
int other(int i) { return helper(i) + helper(i + 1); }
"""
ALL = {"hot_one", "hot_two", "main", "other", "helper"}
SYMBOL = r"^(\w+) (\w+) ([tT]) (\w+)$"
ENTRY_BYTES, RETURN_BYTES = 5, 4  # what each entry, and each return, adds to the code


def build(where, builddir, placement, exclude=None, flags=("-O2",)):
    """Compiles and links in separate steps, as make does; the program, and what the compiler
    said.
    """
    (where / "one.c").write_text(ONE, encoding="ascii")
    (where / "two.c").write_text(TWO, encoding="ascii")
    env = {**os.environ, "IPROBE_PLACEMENT": placement, "IPROBE_CC": "gcc"}
    if exclude is not None:
        env["IPROBE_EXCLUDE"] = str(exclude)
    cc = [builddir / "coldpatch" / "iprobe-cc", *flags]
    said = ""
    for command in (
        [*cc, "-c", "one.c"],
        [*cc, "-c", "two.c"],
        [*cc, "one.o", "two.o", "-o", "program"],
    ):
        done = subprocess.run(
            command, cwd=where, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        said += done.stderr
        if done.returncode != 0:
            return None, said
    return where / "program", said


def listed(builddir, program):
    done = subprocess.run(
        [builddir / "cli" / "iprobe", "list", "--json", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    modules = json.loads(done.stdout)["modules"] if done.returncode == 0 else []
    return {probe["function"] for module in modules for probe in module["probes"]}


def sizes(program):
    """Bytes of code, by function."""
    text = subprocess.run(
        ["nm", "-S", program], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    return {name: int(size, 16) for _, size, _, name in re.findall(SYMBOL, text, re.M)}


@pytest.mark.parametrize("exclude", ["/no/such/file", "./absent", "../absent/too"])
def test_a_file_that_is_not_there_is_an_error(exclude, tmp_path, builddir):
    program, said = build(tmp_path, builddir, "fentry", exclude)
    assert program is None and not (tmp_path / "one.o").exists()
    assert said == f"iprobe-cc: IPROBE_EXCLUDE: {exclude}: No such file or directory\n"
    done = subprocess.run(
        [builddir / "coldpatch" / "coldpatch", "--exclude", exclude, "absent"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1 and exclude in done.stderr


@pytest.mark.parametrize(
    "exclude, gone",
    [
        ("hot_*", {"hot_one", "hot_two"}),
        ("hot_*,!hot_two", {"hot_one"}),
        ("file:two.c", {"other", "helper"}),
        ("!hot_one", ALL - {"hot_one"}),
        ("", set()),
    ],
)
def test_fentry_leaves_nothing_behind(tmp_path, builddir, exclude, gone):
    (tmp_path / "all").mkdir()
    (tmp_path / "some").mkdir()
    everything, _ = build(tmp_path / "all", builddir, "fentry")
    program, said = build(tmp_path / "some", builddir, "fentry", exclude)
    assert said == ""
    assert listed(builddir, everything) == ALL
    assert listed(builddir, program) == ALL - gone
    assert (
        subprocess.run([program], capture_output=True, text=True, timeout=60, check=True).stdout
        == "31\n"
    )
    # each of these functions has an entry and one return; the others are the same
    with_all, with_some = sizes(everything), sizes(program)
    assert {f for f in ALL if with_all[f] != with_some[f]} == gone
    assert all(with_all[f] - with_some[f] == ENTRY_BYTES + RETURN_BYTES for f in gone)


@pytest.mark.parametrize("placement", ["inline", "instrument"])
@pytest.mark.parametrize(
    "exclude, gone", [("hot_*", {"hot_one", "hot_two"}), ("file:two.c", {"other", "helper"})]
)
def test_other_placements(tmp_path, builddir, placement, exclude, gone):
    program, said = build(tmp_path, builddir, placement, exclude, ("-O2", "-g"))
    assert said == ""
    assert listed(builddir, program) == ALL - gone
    assert (
        subprocess.run([program], capture_output=True, text=True, timeout=60, check=True).stdout
        == "31\n"
    )


def test_a_file_names_them(tmp_path, builddir):
    path = tmp_path / "exclude"
    path.write_text("# too often called\nhot_*\nfile:two.c\n", encoding="ascii")
    for i, text in enumerate((path, f"@{path}")):
        (tmp_path / str(i)).mkdir()
        program, _ = build(tmp_path / str(i), builddir, "fentry", text)
        assert listed(builddir, program) == {"main"}


def test_what_is_wrong_with_it_is_said_once(tmp_path, builddir):
    program, said = build(tmp_path, builddir, "fentry", "hot_*,,other")
    assert program is None
    assert said.startswith("iprobe-cc: IPROBE_EXCLUDE: ") and said.count("\n") == 1


def test_coldpatch_excludes(tmp_path, builddir):
    """On a program that others built with -finstrument-functions; all calls become NOPs all the
    same.
    """
    (tmp_path / "one.c").write_text(ONE, encoding="ascii")
    (tmp_path / "two.c").write_text(TWO, encoding="ascii")
    subprocess.run(
        [
            "gcc",
            "-O2",
            "-g",
            "-finstrument-functions",
            "one.c",
            "two.c",
            "-Wl,--build-id",
            "-o",
            "program",
        ],
        cwd=tmp_path,
        timeout=120,
        check=True,
    )
    coldpatch = builddir / "coldpatch" / "coldpatch"
    done = subprocess.run(
        [coldpatch, "--json", "--exclude", "hot_*", "program"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["modules"][0]["excluded"] == 4
    assert listed(builddir, tmp_path / "program") == ALL - {"hot_one", "hot_two"}
    assert (
        "cyg_profile"
        not in subprocess.run(
            ["objdump", "-d", "-j", ".text", "program"],
            cwd=tmp_path,
            timeout=60,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    again = subprocess.run(
        [coldpatch, "program"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert "already patched" in again.stdout
    bad = subprocess.run(
        [coldpatch, "--exclude", "file:", "program"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (
        bad.returncode == 1
        and bad.stderr.startswith("coldpatch: --exclude: ")
        and bad.stderr.count("\n") == 1
    )
