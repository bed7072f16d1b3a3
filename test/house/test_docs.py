# SPDX-License-Identifier: Apache-2.0
"""The documents say what the tools do: each option of --help is in the man page, and the other way round."""

import re

import pytest

COMMANDS = ["list", "run", "attach", "detach", "status", "report", "graph", "dump", "hist", "export", "info", "doctor", "snapshot", "trim",
            "split"]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def page(root, name):
    return (root / "docs" / "man" / f"{name}.1.rst").read_text(encoding="utf-8")


def documented(text):
    """The options that a man page explains: at the beginning of a line, and not indented."""
    lines = (line for line in text.splitlines() if re.match(r"-{1,2}[a-zA-Z]", line))
    return {option for line in lines for option in OPTION.findall(line)}


def helped(text):
    """The options that --help names."""
    return set(OPTION.findall(text)) - {"--help", "--version"}


@pytest.mark.parametrize("command", COMMANDS)
def test_man_page_of_each_command_has_its_options(root, builddir, sh, command):
    text = sh(builddir / "cli" / "iprobe", command, "--help").stdout
    assert documented(page(root, f"iprobe-{command}")) == helped(text)


def test_man_page_of_coldpatch_has_its_options(root, builddir, sh):
    text = sh(builddir / "coldpatch" / "coldpatch", "--help").stdout
    assert documented(page(root, "coldpatch")) == helped(text)


def test_help_names_exactly_the_commands_that_have_pages(root, builddir, sh):
    text = sh(builddir / "cli" / "iprobe", "--help").stdout
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", text), f"iprobe --help does not name {command}"
    pages = {p.name.removesuffix(".1.rst") for p in (root / "docs" / "man").glob("*.1.rst")}
    assert pages == {f"iprobe-{c}" for c in COMMANDS} | {"iprobe", "iprobe-cc", "iprobe-c++", "coldpatch"}


def test_every_man_page_is_built(root):
    text = (root / "docs" / "meson.build").read_text(encoding="utf-8")
    for path in (root / "docs" / "man").iterdir():
        assert f"'{path.name.removesuffix('.rst')}'" in text


def test_links_lead_somewhere(root):
    for document in [*root.glob("*.md"), *root.glob("docs/*.md")]:
        for link in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
            assert link.startswith("http") or (document.parent / link).exists(), f"{document.name}: {link}"
