# SPDX-License-Identifier: Apache-2.0
"""
Text reaches a terminal or a log by common/print.h alone, which cleans it. Both the sources and
what was built of them are looked at.
"""

import os
import re
import subprocess

import pytest

# What writes by itself, and why it may.
ALLOWED = {
    # formats with escapes of their own, for programs
    "analysis/export/export_chrome.c",
    "analysis/export/export_html.c",
    "analysis/export/export_perfetto.c",
    "analysis/export/export_off_cpu.c",
    "analysis/export/export_pprof.c",
    "analysis/export/export_stacks.c",
    "analysis/export/html_document.c",
    "analysis/export/perfetto_kernel.c",
    "analysis/export/stack_text.c",
    "analysis/trim/trim_write.c",
    # puts a screen that was composed by ip_print() to its place, line by line
    "cli/screen/screen.c",
    # one line of the log by one write, in which nothing but plain ASCII stands as it is
    "iprobed/authorize.c",
}
LIBRARIES = [
    "access",
    "analysis",
    "coldpatch",
    "collector",
    "common",
    "config",
    "fperf",
    "hotpatcher",
    "iprobed",
    "session",
    "trace_writer",
]
WRITERS = (
    r"printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|putc|fputc|fwrite|perror|psignal|"
    r"dprintf|vdprintf|putchar_unlocked|putc_unlocked|fputs_unlocked|puts_unlocked|fwrite_unlocked"
)
CALL = re.compile(rf"(?<![\w.>])({WRITERS})\s*\(")
TO_PEOPLE = re.compile(
    rf"(?<![\w.>])(?:(?:{WRITERS})\s*\([^;]*?\b(?:stdout|stderr|STD(?:OUT|ERR)_FILENO)\b"
    r"|(?:printf|vprintf|puts|putchar|perror|psignal)\s*\("
    r"|write\s*\(\s*(?:1|2|STD(?:OUT|ERR)_FILENO)\s*,)"
)


def code_of(path):
    """Without comments, and with strings empty."""
    text = path.read_text(encoding="utf-8")
    return re.sub(
        r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'',
        lambda m: '""' if m.group()[0] in "\"'" else "",
        text,
        flags=re.S,
    )


def sources(root, *folders):
    found = [path for folder in folders for path in (root / folder).rglob("*.[ch]")]
    assert found
    return sorted(found)


def statement_at(code, at):
    return " ".join(code[at : code.find(";", at) + 1].split())[:100]


def test_commands_print_through_one_function(root):
    wrong = [
        f"{path.relative_to(root)}: {statement_at(code, m.start())}"
        for path in sources(root, "cli", "analysis")
        if str(path.relative_to(root)) not in ALLOWED
        for code in [code_of(path)]
        for m in CALL.finditer(code)
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_else_writes_to_the_terminal(root):
    wrong = []
    for path in sources(root, *LIBRARIES):
        code = "" if str(path.relative_to(root)) in ALLOWED else code_of(path)
        wrong += [
            f"{path.relative_to(root)}: {statement_at(code, m.start())}"
            for m in TO_PEOPLE.finditer(code)
        ]
    assert not wrong, "\n".join(wrong)


def arguments_of(text, at):
    """Of the call whose parenthesis opens at `at`; strings as they are."""
    found, depth, begin = [], 0, at + 1
    for m in re.finditer(r'"(?:[^"\\\n]|\\.)*"|[(),]', text[at:]):
        if m.group() == "(":
            depth += 1
        elif m.group() == ")" and depth == 1:
            return [*found, text[begin : at + m.start()]]
        elif m.group() == ")":
            depth -= 1
        elif m.group() == "," and depth == 1:
            found.append(text[begin : at + m.start()])
            begin = at + m.end()
    return found


def test_arguments_have_no_newlines(root):
    """They would be printed as \\x0a."""
    wrong = []
    for path in sources(root, "cli", "analysis", *LIBRARIES):
        text = path.read_text(encoding="utf-8")
        wrong += [
            f"{path.relative_to(root)}: {' '.join(argument.split())}"
            for m in re.finditer(r"\bip_print\(", text)
            for argument in arguments_of(text, m.end() - 1)[2:]
            if re.search(r'"[^"]*(?<!\\)\\n', argument)
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("program", ["iprobe", "fperf", "iprobed"])
def test_no_object_of_a_command_calls_stdio(root, program):
    """What macros may have hidden from the others."""
    build = os.environ.get("IPROBE_BUILD") or root / "build"
    folder = os.path.join(build, "cli", f"{program}.p")
    objects = [
        name
        for name in sorted(os.listdir(folder))
        if name.endswith(".o") and not name.startswith(".._")
    ]
    assert objects
    wrong = []
    for name in objects:
        if any(path.removeprefix("cli/").replace("/", "_") + ".o" == name for path in ALLOWED):
            continue
        undefined = subprocess.run(
            ["nm", "-u", os.path.join(folder, name)], capture_output=True, text=True, check=True
        ).stdout
        wrong += [
            f"{name}: {symbol}"
            for symbol in re.findall(r" U (\w+)", undefined)
            if re.fullmatch(rf"(?:__)?(?:{WRITERS}|_IO_putc)(?:_chk)?", symbol)
        ]
    assert not wrong, "\n".join(wrong)


def test_it_would_be_found(tmp_path):
    (tmp_path / "cli").mkdir()
    (tmp_path / "analysis").mkdir()
    (tmp_path / "cli" / "bad.c").write_text(
        '/* printf(x) */ int f(void) { snprintf(b, 1, "puts("); ip_print(stdout, "x"); return\n'
        "fputs\n(s, out); }\n"
    )
    with pytest.raises(AssertionError, match="fputs"):
        test_commands_print_through_one_function(tmp_path)
    for folder in LIBRARIES:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "good.c").write_text(
            'static void f(FILE *out) { fprintf(out, "%s", stdout_name); write(3, s, n); }\n'
        )
    test_nothing_else_writes_to_the_terminal(tmp_path)
    for text in (
        'fprintf(\n\tstderr, "x");',
        "fputs(a ? b : c,\n stdout);",
        "write(2, s, n);",
        'dprintf(STDERR_FILENO, "%s", s);',
        "perror(s);",
    ):
        (tmp_path / "common" / "good.c").write_text(f"void f(void) {{ {text} }}\n")
        with pytest.raises(AssertionError):
            test_nothing_else_writes_to_the_terminal(tmp_path)


def printing(root):
    """Files of the engine, the daemon and the analysis that print."""
    rooms = [name for name in LIBRARIES if name not in ("common", "coldpatch")]
    return [
        f"{path.relative_to(root)}"
        for room in rooms
        for path in sorted((root / room).rglob("*.[ch]"))
        if re.search(r"\bip_v?print(?:_lines)?\s*\(\s*(?:stdout|stderr)\b", code_of(path))
    ]


def test_only_commands_print(root):
    """Everything else hands its lines on: errors (error.h), notices (notice.h), results."""
    assert not printing(root)


def test_who_else_prints_is_found(tmp_path):
    (tmp_path / "session").mkdir()
    (tmp_path / "session" / "a.c").write_text('/* ip_print(stderr) */ void f(void) { g("x"); }\n')
    assert not printing(tmp_path)
    (tmp_path / "session" / "b.c").write_text("void f(void) { ip_print(\n\tstderr, t); }\n")
    assert printing(tmp_path) == ["session/b.c"]
