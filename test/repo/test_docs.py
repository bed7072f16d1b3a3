# SPDX-License-Identifier: Apache-2.0
"""The documents say what the tools do: each option of --help is in the man page, and the other
way round.
"""

import re
import shlex
import shutil

import pytest

COMMANDS = [
    "list",
    "run",
    "attach",
    "detach",
    "status",
    "report",
    "graph",
    "dump",
    "last",
    "hist",
    "export",
    "info",
    "doctor",
    "follow",
    "snapshot",
    "trim",
    "split",
    "top",
    "tui",
    "wait",
    "syscalls",
    "darc",
    "compare-calls",
]
PROGRAMS = {
    "iprobe": "cli",
    "fperf": "cli",
    "coldpatch": "coldpatch",
}  # and the folder of the build that each is in
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
TITLE = "[A-Z][A-Z ]+[A-Z]"
INCLUDE = re.compile(r"(?m)^\.\. include:: (.+)$")
# the sections of a command's page, in this order; others stand between
SECTIONS = ["SYNOPSIS", "EXAMPLES", "OPTIONS", "EXIT STATUS", "FILES", "JSON", "NOTES", "SEE ALSO"]


def whole(path):
    """The text of a man page with the texts that it includes, as rst2man puts them together."""
    text = path.read_text(encoding="utf-8")
    return INCLUDE.sub(lambda found: whole(path.parent / found[1]), text)


def page(root, name, section=1):
    return whole(root / "docs" / "man" / f"{name}.{section}.rst")


def man_pages(root):
    return sorted((root / "docs" / "man").glob("*.rst"))


def sections(text):
    """The titles of a page's sections, in their order."""
    return re.findall(r"(?m)^(\S.*)\n=+$", re.sub(r"(?m)^=+\n.*\n=+\n", "", text, count=1))


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


@pytest.mark.parametrize("program", ["coldpatch", "fperf"])
def test_man_page_of_each_program_has_its_options(root, builddir, sh, program):
    text = sh(builddir / PROGRAMS[program] / program, "--help").stdout
    assert documented(page(root, program)) == helped(text)


def test_man_page_of_iprobed_has_its_options(root, builddir, sh):
    text = sh(builddir / "cli" / "iprobed", "--help").stdout
    assert documented(page(root, "iprobed", 8)) == helped(text)


def test_man_page_of_fperf_has_its_columns_and_keys(root):
    """What it prints as CSV and JSON."""
    folder, text = root / "cli" / "fperf", page(root, "fperf")
    source = "".join((folder / f"fperf_{form}.c").read_text("utf-8") for form in ("json", "csv"))
    keys = set(re.findall(r'ip_json_\w+\(&j, "(\w+)"', source))
    columns = set(re.findall(r'"(\w+)"', re.search(r"columns\[\] = \{(.*?)\}", source, re.S)[1]))
    assert len(keys) > 30 and len(columns) == 7
    assert not {key for key in keys | columns if not re.search(rf"\*({key}|NAME {key})\*", text)}


def test_an_option_is_explained_once(root):
    for path in man_pages(root):
        terms = [line for line in whole(path).splitlines() if re.match(r"-{1,2}[a-zA-Z]", line)]
        again = [term for term in set(terms) if terms.count(term) > 1]
        assert not again, f"{path.name}: {again}"


def commands_and_files(root):
    """The pages of all that one types or writes; section 7 has what these share."""
    return [path for path in man_pages(root) if not path.name.endswith(".7.rst")]


def test_pages_have_their_sections_in_order(root):
    """What a reader types comes first, and why it works that way last."""
    for path in commands_and_files(root):
        titles = sections(whole(path))
        found = [s for s in titles if s in SECTIONS]
        assert found == [s for s in SECTIONS if s in found], f"{path.name}: {found}"
        assert titles[:2] == ["SYNOPSIS", "EXAMPLES"] and titles[-1] == "SEE ALSO", path.name
        assert "NOTES" in titles and "DESCRIPTION" not in titles, path.name
        if not path.name.endswith((".3.rst", ".5.rst")):
            assert "EXIT STATUS" in titles, path.name


def examples(text):
    """[(what is said in front, block)] of a page's section EXAMPLES."""
    section = re.search(r"(?ms)^EXAMPLES\n=+\n(.*?)^\S[^\n]*\n=+\n", text)[1]
    return re.findall(r"(?m)((?:^\S.*\n)*^\S.*)::\n\n((?: {4}.*\n|\n(?= {4}))+)", section)


def test_each_example_says_what_it_does(root):
    """A few commands, below a line or two that tell what they do."""
    shown = 0
    for path in commands_and_files(root):
        found = examples(whole(path))
        assert len(found) >= 2, path.name
        for said, block in found:
            assert len(said.split()) >= 2 and len(said) <= 200, f"{path.name}: {said}"
            if not path.name.endswith((".3.rst", ".5.rst")):
                assert len(block.splitlines()) <= 2, f"{path.name}: {block}"
            shown += 1
    assert shown > 80


def test_options_are_grouped_by_task(root):
    """Where there are more than a few."""
    for path in commands_and_files(root):
        text = whole(path)
        section = re.search(r"(?ms)^OPTIONS\n=+\n(.*?)^\S[^\n]*\n=+\n", text)
        if section and len(documented(section[1])) > 4:
            titles = re.findall(r"(?m)^(\S.*)\n-+$", section[1])
            assert len(titles) >= 2, path.name
            assert re.match(r"\n\S.*\n-+\n", section[1]), f"{path.name}: options in no group"


def test_sections_that_pages_point_to_exist(root):
    """Where a page says STOPS in iprobe-concepts(7), that page has a section of this name."""
    reference = re.compile(rf"\b({TITLE}(?: and {TITLE})*) in \*\*([\w.-]+)\*\*\\\((\d)\)")
    shown = 0
    for path in man_pages(root):
        text = " ".join(whole(path).split())
        for titles, name, section in reference.findall(text):
            for title in titles.split(" and "):
                about = f"{path.name}: {title} in {name}({section})"
                assert title in sections(page(root, name, section)), about
                shown += 1
    assert shown > 60


def test_lines_of_man_pages_are_short(root):
    for path in (root / "docs" / "man").rglob("*.rst"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= 100, f"{path.relative_to(root)}:{number}: {len(line)} characters"


def test_help_names_exactly_the_commands_that_have_pages(root, builddir, sh):
    text = sh(builddir / "cli" / "iprobe", "--help").stdout
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", text), f"iprobe --help does not name {command}"
    pages = {p.name.removesuffix(".1.rst") for p in (root / "docs" / "man").glob("*.1.rst")}
    assert pages == {f"iprobe-{c}" for c in COMMANDS} | {"iprobe-cc", "iprobe-c++", *PROGRAMS}


def test_every_man_page_is_built(root):
    text = (root / "docs" / "meson.build").read_text(encoding="utf-8")
    for path in man_pages(root):
        assert f"'{path.name.removesuffix('.rst')}'" in text
    files = [path for path in (root / "docs" / "man").iterdir() if path.is_file()]
    assert sorted(files) == man_pages(root)


def test_what_pages_include_is_known_to_the_build(root):
    """A change of a shared text builds the pages anew; each shared text is one that a page has."""
    man = root / "docs" / "man"
    build = (root / "docs" / "meson.build").read_text(encoding="utf-8")
    included = set()
    for path in man.rglob("*.rst"):
        included |= set(INCLUDE.findall(path.read_text(encoding="utf-8")))
    assert included == set(re.findall(r"'man/([\w./+-]+\.rst)'", build))
    shared = {f"include/{path.name}" for path in (man / "include").iterdir()}
    assert shared == {name for name in included if "/" in name}


def test_pages_are_right_for_rst2man(root, sh):
    """Each with what it includes, without a warning; where rst2man is installed."""
    program = shutil.which("rst2man") or shutil.which("rst2man.py")
    if not program:
        pytest.skip("no rst2man")
    for path in man_pages(root):
        # iprobe-c++(1) is iprobe-cc(1)
        alias = re.search(r"(?m)^\.\. include:: ([^/\n]+)$", path.read_text(encoding="utf-8"))
        name, section = (alias[1] if alias else path.name).removesuffix(".rst").rsplit(".", 1)
        lines = sh(program, "--strict", path).stdout.splitlines()
        title = next(line for line in lines if line.startswith(".TH "))
        assert title.startswith(f'.TH "{name.upper()}" {section} '), path.name
        second = ".SH DESCRIPTION" if section == "7" else ".SH SYNOPSIS"
        assert {".SH NAME", second, ".SH SEE ALSO"} <= set(lines), path.name


def prose(text):
    """A document's lines without its blocks of code and output."""
    return re.sub(r"(?ms)^```.*?^```$", "", text)


def anchors(text):
    """The headings of a document of Markdown, as GitHub makes anchors of them."""
    words = (
        re.sub(r"[`*]", "", heading).lower()
        for heading in re.findall(r"(?m)^#+ +(.*?) *$", prose(text))
    )
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in words}


def broken_links(document):
    """The local links of a document that lead to no file, or to no heading of it."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(document.read_text(encoding="utf-8"))):
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if not link.startswith("http") and (
            not target.exists()
            or anchor
            and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            found.append(f"{document.name}: {link}")
    return found


def test_links_lead_somewhere(root):
    documents_ = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    assert len(documents_) > 10
    assert [link for document in documents_ for link in broken_links(document)] == []


def test_broken_links_are_found(tmp_path):
    """Those of the test above."""
    (tmp_path / "other.md").write_text("# One `two`: three\n```\n# none\n```\n", encoding="utf-8")
    page_ = tmp_path / "page.md"
    page_.write_text(
        "# A_b\n[a](other.md#one-two-three) [b](#a_b) [c](other.md) [d](https://example.org/x#y)\n"
        "[e](other.md#none) [f](#c) [g](gone.md)",
        encoding="utf-8",
    )
    assert broken_links(page_) == ["page.md: other.md#none", "page.md: #c", "page.md: gone.md"]


# What the README tells a newcomer, in this order. All else stands in docs/.
README_SECTIONS = [
    "Requirements",
    "Install",
    "Five minutes on a real program",
    "What you can do",
    "What it costs",
    "Limits",
    "Links",
]
PAGES = ["guide", "placements", "performance", "limits"]


def test_readme_is_short_and_in_order(root):
    text = (root / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 140 and len(text.split()) <= 1500
    assert re.findall(r"(?m)^## (.*)$", prose(text)) == README_SECTIONS
    head = text[: text.index("\n## ")]
    assert re.search(
        r"!\[[^]]+\]\(docs/pictures/\w+\.png\)", head
    ), "a picture comes before the first section"
    for name in PAGES:
        assert f"](docs/{name}.md" in text, f"no link to docs/{name}.md"
    for command in ("./demo", "./check"):
        assert (root / command).exists() and command in text


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{page}.md" for page in PAGES)])
def test_lines_are_short(root, name):
    """But for tables, pictures, and what is shown as it is."""
    lines = prose((root / name).read_text(encoding="utf-8")).splitlines()
    assert [line for line in lines if len(line) > 100 and not line.startswith(("|", "!["))] == []


def test_figures_of_the_readme_are_those_of_the_pages(root):
    """What it costs is a summary: each figure stands on the page that has them all."""
    section = re.search(
        r"(?ms)^## What it costs\n(.*?)^## ", (root / "README.md").read_text(encoding="utf-8")
    )[1]
    rows = [row for row in section.splitlines() if row.startswith("| ") and row != "| | |"]
    assert len(rows) == 5
    text = (root / "docs" / "performance.md").read_text(encoding="utf-8")
    for row in rows:
        for figure in re.findall(r"\d[\d.,]*\d|\d", row.replace("`", "")):
            assert re.search(
                rf"(?<![\d.,]){re.escape(figure)}(?![\d,]|\.\d)", text
            ), f"{figure} of: {row}"


def test_each_figure_has_its_command(root):
    """Each section of docs/performance.md names the benchmark or the test that measures it."""
    text = (root / "docs" / "performance.md").read_text(encoding="utf-8")
    sections = re.split(r"(?m)^## ", text)[1:]
    assert len(sections) > 8
    for section in sections:
        assert re.search(r"`benchmarks/\w+", section), section.splitlines()[0]
    for name in re.findall(r"benchmarks/(\w+)", text):
        assert (root / "benchmarks" / name).exists(), name


def test_options_of_the_guide_exist(root):
    """In a man page, in the text of a script of ours, or in a program of others that it runs."""
    pages = "\n".join(whole(path) for path in man_pages(root))
    scripts = "\n".join(
        (root / name).read_text(encoding="utf-8")
        for name in ("scripts/check.py", "scripts/install-deps", "scripts/fetch-source")
    )
    known = (
        documented(pages)
        | set(OPTION.findall(scripts))
        | {"--help", "--buildtype", "--cflags", "--now"}
    )
    named = set(OPTION.findall((root / "docs" / "guide.md").read_text(encoding="utf-8")))
    assert len(named) > 40
    assert named - known == set()


def commands(text):
    """[(program, words)] of the commands of ours that a document or script shows: in blocks of
    code, behind a prompt or not.
    """
    found = []
    for line in re.findall(
        r"(?m)^[ \t]*(?:\$ |show \"|quietly \")?(.*)$", text.replace("\\\n", " ")
    ):
        for match in re.finditer(
            r"(?<![\w./-])((?:iprobe|fperf|coldpatch)(?= [\w-])|benchmarks/\w+\b(?!\.))", line
        ):
            lexer = shlex.shlex(
                line[match.start() :].replace("\\$", "$").replace("`", " ; "),
                posix=True,
                punctuation_chars="|&;<>",
            )
            lexer.whitespace_split = True
            lexer.commenters = "#"
            words = []
            try:
                for word in lexer:
                    if word == "--" or set(word) <= set("|&;<>"):
                        break
                    words.append(word)
            except (
                ValueError
            ):  # a quotation mark that ends on another line, or belongs to the language around
                words = words or line[match.start() :].split()
            found.append((match[1], words[1:]))
    return found


def blocks(path):
    """What a document shows as commands: fenced blocks and `...` of Markdown, literal blocks of
    man pages, a script as it is.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return "\n".join(
            re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
            + re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
        )
    if path.suffix == ".rst":
        return "\n".join(re.findall(r"::\n\n((?:    .*\n|\n)+)", text))
    return text


def documents(root):
    walks = root / "docs" / "walks"
    return [
        *root.glob("*.md"),
        *(root / "docs").rglob("*.md"),
        *(root / "docs" / "man").rglob("*.rst"),
        root / "demo",
        *(walks / p.stem for p in walks.glob("*.md")),
    ]


def test_commands_in_documents_exist_with_their_options(root, builddir, sh):
    """Each command that a document shows is one that --help tells of, with its options."""
    helps, shown = {}, 0
    for document in documents(root):
        for program, words in commands(blocks(document)):
            about = f"{document.relative_to(root)}: {program} {' '.join(words)}"
            if program == "iprobe":
                if (
                    words[0].startswith("-") or words[0] == "COMMAND" or words[0].endswith(":")
                ):  # its own options; a message
                    continue
                command = words.pop(0)
                assert command in COMMANDS, about
                key, run = command, (builddir / "cli" / "iprobe", command, "--help")
            else:
                key = program
                run = (
                    root / program if "/" in program else builddir / PROGRAMS[program] / program,
                    "--help",
                )
                assert run[0].exists(), about
            if key not in helps:
                text = sh(*run).stdout
                helps[key] = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", text))
            for word in words:
                option = re.match(r"--?[a-zA-Z][a-z-]*", word)
                if option:
                    assert option[0] in helps[key], about
            shown += 1
    assert shown > 60


def choices(text, pattern):
    """The strings of a list in a source."""
    found = re.search(pattern, text, re.DOTALL)
    assert found, pattern
    return re.findall(r'"([\w.]+)"', found[1])


def untold(words, *texts):
    return [
        word
        for word in words
        if not all(re.search(rf"(?<![\w.]){re.escape(word)}(?![\w])", text) for text in texts)
    ]


def test_lists_of_the_sources_stand_in_help_and_pages(root, builddir, sh):
    """A format, a column or a key of a rule that is added to its list is told to users, too."""
    pages = root / "docs" / "man"
    for source, pattern, page, command, least in [
        (
            "cli/export/cmd_export.c",
            r"\} formats\[\] = \{\n(.*?)\n\};",
            "iprobe-export.1",
            "export",
            6,
        ),
        ("config/rule.c", r"when_keys\[\] = \{(.*?)\};", "iprobe-probes.d.5", None, 8),
        ("config/rule.c", r"do_keys\[\] = \{(.*?)\};", "iprobe-probes.d.5", None, 4),
        ("config/rule.c", r" rule_keys\[\] = \{(.*?)\};", "iprobe-probes.d.5", None, 9),
    ]:
        words = choices((root / source).read_text(encoding="utf-8"), pattern)
        texts = [(pages / f"{page}.rst").read_text(encoding="utf-8")]
        if command:
            texts.append(sh(builddir / "cli" / "iprobe", command, "--help").stdout)
        assert len(words) >= least and not untold(words, *texts), source
    text = (root / "cli" / "report" / "report_columns.c").read_text(encoding="utf-8")
    words = re.findall(r'\] = \{(?:\.name = )?"([\w.]+)"', text)
    told = (pages / "iprobe-report.1.rst").read_text(encoding="utf-8")
    helped = sh(builddir / "cli" / "iprobe", "report", "--help").stdout
    assert len(words) >= 13 and not untold(words, told, helped)


def test_a_choice_that_is_not_told_is_found():
    assert choices('x[] = {"a",\n  "b.c"};\ny[] = {"d"};', r"x\[\] = \{(.*?)\};") == ["a", "b.c"]
    assert untold(["p99", "p99.9", "p9"], "p99.9, p99", "p99 p99.9 p95") == ["p9"]
