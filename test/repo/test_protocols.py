# SPDX-License-Identifier: Apache-2.0
"""docs/protocols: each page has its sections, and names files and tests that exist."""

import re

import pytest

PAGES = ["patching", "no-stop", "plt", "injection", "rings", "fperf-statistics", "daemon"]
CODE = "Where it stands in the code"
SECTIONS = [
    "What must hold",
    "Parties",
    "Steps",
    "Why each step is safe",
    CODE,
    "Tests",
    "What it follows",
]
TEST = re.compile(r"((?:system|unit|compilers|repo)/[\w./-]+)::(\w+)")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?")
WIDTH = 100


def text_of(root, page):
    return (root / "docs" / "protocols" / f"{page}.md").read_text(encoding="utf-8")


def quoted(text):
    """What stands in backticks, outside of blocks of code."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^```.*?^```", "", text))


def section(text, heading):
    return re.search(rf"(?ms)^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text)[1]


def test_the_index_has_a_line_for_each_page(root):
    text = text_of(root, "README")
    assert re.findall(r"(?m)^- \[([\w-]+)\.md\]\(\1\.md\): \S", text) == PAGES
    assert {path.stem for path in (root / "docs" / "protocols").glob("*.md")} == {"README", *PAGES}


@pytest.mark.parametrize("page", PAGES)
def test_each_page_has_its_sections(root, page):
    text = text_of(root, page)
    assert re.findall(r"(?m)^## (.+)$", text) == SECTIONS
    for heading in SECTIONS:
        assert section(text, heading).strip(), heading
    for heading in ("What must hold", "Steps"):
        assert re.search(r"(?m)^1\. ", section(text, heading)), f"{heading}: nothing is numbered"


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_short(root, page):
    assert not [line for line in text_of(root, page).splitlines() if len(line) > WIDTH]


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(root, page):
    text = text_of(root, page)
    names = [name for name in quoted(text) if PATH.fullmatch(name)]
    assert not [name for name in names if not (root / name).exists()]
    bare = [name for name in quoted(text) if re.fullmatch(r"[\w-]+\.(?:c|h|S|py|cc|ld)", name)]
    assert not bare, "without their folders"
    assert len([name for name in quoted(section(text, CODE)) if PATH.fullmatch(name)]) >= 5


@pytest.mark.parametrize("page", PAGES)
def test_tests_exist(root, page):
    text = text_of(root, page)
    named = [name for name in quoted(text) if "::" in name]
    assert len(named) >= 5
    for name in named:
        match = TEST.fullmatch(name)
        assert match, f"{name} is no FILE::TEST"
        path, test = match.groups()
        assert (root / "test" / path).exists(), f"there is no test/{path}"
        source = (root / "test" / path).read_text(encoding="utf-8")
        defined = re.search(rf"^\s*(?:def|static void) {test}\(", source, re.M)
        assert defined, f"{path} has no {test}"


def test_pages_are_installed(root):
    text = (root / "docs" / "meson.build").read_text(encoding="utf-8")
    for page in ["README", *PAGES]:
        assert f"'{page}'" in text, page
