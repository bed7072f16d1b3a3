# SPDX-License-Identifier: Apache-2.0
"""
How sources look: C as clang-format makes it, and no line of more than 100 columns. Two windows of
100 columns stand side by side on a screen.
"""

import re
import shutil
import subprocess
import tokenize

import pytest

VERSION = "14"  # Debian 12's; other versions break some lines in other places
COLUMNS = 100  # with tabs to 8, as .clang-format has them
LONG_WORD = 60  # an URL, a mangled name: nothing can be broken there
UNCHECKED = (
    # a maintainer's line and an override are one line by Debian's formats
    "debian/changelog",
    ".lintian-overrides",
)


def tracked(root, *patterns):
    done = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("no git repository: which files are tracked is not known")
    return [name for name in done.stdout.split("\0") if name and not (root / name).is_symlink()]


def lines_of_strings(text):
    """The lines of Python's strings that span several: another language's text in a test."""
    found, begun = set(), []
    for token in tokenize.generate_tokens(iter(text.splitlines(True)).__next__):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            first = token.start[0]
        elif kind == "FSTRING_START":
            begun.append(token.start[0])
            continue
        elif kind == "FSTRING_END":
            first = begun.pop()
        else:
            continue
        if first != token.end[0]:
            found.update(range(first, token.end[0] + 1))
    return found


def lines_of_tables(text):
    """The lines of Markdown's tables, code blocks and pictures (a picture is one line)."""
    found, code = set(), False
    for number, line in enumerate(text.split("\n"), 1):
        fence = line.lstrip().startswith("```")
        if code or fence or line.lstrip().startswith(("|", "![")):
            found.add(number)
        code ^= fence
    return found


def too_long(name, text):
    """Lines of a file that have more columns than they may, and that could be broken."""
    excepted = set()
    if name.startswith("test/") and name.endswith(".py"):
        excepted = lines_of_strings(text)
    elif name.endswith(".md"):
        excepted = lines_of_tables(text)
    return [
        f"{name}:{number}"
        for number, line in enumerate(text.split("\n"), 1)
        if len(line.expandtabs(8)) > COLUMNS
        and not any(len(word) >= LONG_WORD for word in line.split())
        and number not in excepted
    ]


def test_no_line_is_too_long(root):
    names = [name for name in tracked(root) if not name.endswith(UNCHECKED)]
    found = []
    for name in names:
        data = (root / name).read_bytes()
        if b"\0" not in data:
            found += too_long(name, data.decode("utf-8", "replace"))
    assert len(names) > 500 and not found


def test_a_line_that_is_too_long_is_found():
    words = "word " * 21
    assert too_long("common/a.c", f"\n/* {words}*/\n") == ["common/a.c:2"]
    assert too_long("scripts/a", "\t" * 12 + "four\n" + "\t" * 12 + "fives") == ["scripts/a:2"]
    assert too_long("a.md", f"```\n\n```\n{words}\n") == ["a.md:4"]
    assert too_long("common/a.py", f'x = """\n{words}\n"""\n') == ["common/a.py:2"]
    assert too_long("test/a.py", f"# {words}\nx = 1\n") == ["test/a.py:1"]
    assert too_long("test/a.py", f'x = "{words}"\n') == ["test/a.py:1"]


def test_what_cannot_be_broken_may_be_long():
    words = "word " * 21
    assert not too_long("a.md", f"| {words} |\n```\n{words}\n```\n")
    assert not too_long("common/a.c", f"\t * https://{'a' * 120}\n")
    assert not too_long("test/a.py", f'x = """\n{words}\n"""\n')
    assert not too_long("test/a.py", f'x = f"""{{1}}\n{words}\n"""\n')


def clang_format():
    program = shutil.which("clang-format") or shutil.which(f"clang-format-{VERSION}")
    if not program:
        pytest.skip("no clang-format is installed")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    if not re.search(rf"version {VERSION}\.", done.stdout):
        pytest.skip(f"{done.stdout.strip()} is not version {VERSION}")
    return program


def misformatted(program, root, names):
    done = subprocess.run(
        [program, "--dry-run", "--style=file", *names],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(set(re.findall(r"(?m)^([^:\s]+):\d+:\d+: warning", done.stderr)))


def test_c_is_formatted(root):
    program = clang_format()
    names = tracked(root, "*.c", "*.h")
    assert len(names) > 400 and not misformatted(program, root, names)


def test_c_that_is_not_formatted_is_found(root, tmp_path):
    program = clang_format()
    shutil.copy(root / ".clang-format", tmp_path)
    (tmp_path / "good.c").write_text("int f(int n)\n{\n\treturn n;\n}\n")
    (tmp_path / "bad.c").write_text("int f(int n) {\n  return n;\n}\n")
    assert misformatted(program, tmp_path, ["good.c", "bad.c"]) == ["bad.c"]


COUNTED = (
    "sites|functions|probes|events|threads|pages|processes|stops|samples|times|modules|files|calls"
    "|words|packets|pieces|records|entries|values"
)
# a number, by its conversion or by ip_format_count(), and behind it what it counts
PLURAL = re.compile(rf"%(?:-?\d*)(?:l|ll|z)?[ud] (?:{COUNTED})\b(?!/)")
# what is a limit, or cannot be one
PLURAL_MAY = re.compile(
    r"at most|more than|none of the|from [12] to|of %u pages touched|BAD\(|strerror|# payload"
)


def test_one_of_something_is_no_plural(root):
    """Messages and tables take ip_plural(): "1 function", not "1 functions"."""
    found, folders = [], ("cli", "session", "iprobed", "hotpatcher/plan", "collector", "coldpatch")
    for name in tracked(root, "*.c"):
        if not name.startswith(tuple(folder + "/" for folder in folders)):
            continue
        lines = (root / name).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            around = " ".join(lines[max(0, number - 2) : number + 1])
            if PLURAL.search(line) and not PLURAL_MAY.search(around):
                found.append(f"{name}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


GUARD = re.compile(r"(?m)^#ifndef (\w+_H)\n#define \1$")


def guards_that_clash(texts):
    """{guard: files}: of two headers with one guard the second is empty where both are included."""
    found = {}
    for name, text in texts:
        for guard in GUARD.findall(text)[:1]:
            found.setdefault(guard, []).append(name)
    return {guard: names for guard, names in found.items() if len(names) > 1}


def test_each_header_has_a_guard_of_its_own(root):
    names = tracked(root, "*.h")
    texts = [(name, (root / name).read_text(encoding="utf-8")) for name in names]
    assert len(texts) > 200 and not guards_that_clash(texts)
    assert guards_that_clash(
        [("a/x.h", "#ifndef X_H\n#define X_H\n"), *texts, ("b/x.h", "#ifndef X_H\n#define X_H\n")]
    )
