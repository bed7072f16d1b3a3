# SPDX-License-Identifier: Apache-2.0
"""
One word, one meaning (docs/glossary.md): names of files, structs and enums of C are made of its
words, and no name has a word that it forbids.
"""

import os
import re
import subprocess

import test_rooms

PREFIXES = ("ip", "cold", "rt", "cli")
ITEM = re.compile(r"(?m)^- (`[^:]*):")


def words_of(text):
    """The words in `...` and in (brackets) of the text before a definition."""
    quoted = re.findall(r"`([^`]+)`", text)
    forms = re.findall(r"\(([^)]*)\)", text)
    return set(re.findall(r"[a-z0-9]+", " ".join(quoted + forms)))


def glossary(root):
    """(words that names may have, words that they may not)"""
    text = (root / "docs" / "glossary.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", text))
    known = set()
    for item in ITEM.findall(sections["Words"]):
        known |= words_of(item)
    own_names = re.search(r"(?ms)^Commands, formats.*?\n\n", sections["Words"])
    known |= words_of(own_names[0]) if own_names else set()
    ordinary = sections["Ordinary words"]
    known |= set(" ".join(re.findall(r"(?m)^    (.*)$", ordinary)).split())
    known |= words_of(re.sub(r"(?m)^    .*$", "", ordinary))
    banned = set()
    for item in ITEM.findall(sections["Words that no name has"]):
        banned |= words_of(item)
    return known, banned


def singulars(word):
    """A word, and what it may be the plural of."""
    found = [word]
    if word.endswith("ies"):
        found.append(word[:-3] + "y")
    if word.endswith("es"):
        found.append(word[:-2])
    if word.endswith("s"):
        found.append(word[:-1])
    return found


def parts(name):
    return [part for part in name.lower().split("_") if part]


def types(text):
    """Structs and enums with a prefix of ours, as a text defines them."""
    return re.findall(rf"\b(?:struct|enum) ((?:{'|'.join(PREFIXES)})_\w+)\s*\{{", text)


def unknown(root, names, known):
    """[(file, name, word)]: words of file names and of types that the glossary does not have."""
    found = []
    for file in names:
        stem = os.path.splitext(os.path.basename(file))[0]
        wanted = [(stem, parts(stem))]
        text = (root / file).read_text(encoding="utf-8")
        wanted += [(name, parts(name)[1:]) for name in types(text)]
        found += [
            (file, name, word)
            for name, words in wanted
            for word in words
            if not known.intersection(singulars(word))
        ]
    return found


def forbidden(names, banned):
    """[(name, word)]: words that the glossary forbids in names of files, types and functions."""
    return sorted(
        {
            (name, word)
            for name in names
            for word in parts(re.sub(r"\W", "_", name))
            if banned.intersection(singulars(word))
        }
    )


def functions(text):
    """Functions that a file of C defines or declares at the left margin."""
    return re.findall(
        r"(?m)^(?!typedef|return|else)[a-z][\w \t*]*?[ *](\w+)\([^;{]*(?:;|\n\{)", text
    )


def sources_of_all(root):
    done = subprocess.run(
        ["git", "ls-files", "*.c", "*.h", "*.S", "*.py"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split() if done.returncode == 0 else test_rooms.sources(root)


def names_in(root, files):
    """Names of files, and of the types and functions of those in C."""
    found = set(files)
    for file in files:
        if file.endswith((".c", ".h")):
            text = (root / file).read_text(encoding="utf-8")
            found.update(types(text))
            found.update(functions(text))
    return found


def test_names_are_made_of_words_of_the_glossary(root):
    known, _ = glossary(root)
    names = test_rooms.sources(root)
    assert len(names) > 300 and len(known) > 300
    assert not unknown(root, names, known)


def test_no_name_has_a_forbidden_word(root):
    _, banned = glossary(root)
    rooms = test_rooms.sources(root)
    names = names_in(root, rooms) | set(sources_of_all(root))
    assert len(banned) > 20 and {"ip_plan_match", "ip_stop", "session/attach.c"} <= names
    assert not forbidden(names, banned)


def test_no_word_is_allowed_and_forbidden(root):
    known, banned = glossary(root)
    assert not known & banned


def test_every_word_is_used(root):
    """The list does not outlive the names."""
    known, _ = glossary(root)
    used = set()
    for file in test_rooms.sources(root):
        text = (root / file).read_text(encoding="utf-8")
        stem = os.path.splitext(os.path.basename(file))[0]
        for name in [stem, *types(text), *file.split("/")[:-1]]:
            for word in parts(name.replace(".", "_")):
                used.update(singulars(word))
    assert not sorted(word for word in known if not used.intersection(singulars(word)))


def test_a_word_outside_the_glossary_is_found(tmp_path):
    for name, text in [
        ("common/probe_list.h", "struct ip_probe_lists {\n\tint n;\n};\n"),
        ("common/probe_wobble.c", "struct local {\n\tint n;\n};\n"),
        ("common/list.h", "enum ip_probe_gizmo {\n\tA,\n};\nint ip_probe_flip(int n);\n"),
        ("common/limbo.c", "static int probes(void)\n{\n\treturn 0;\n}\n"),
    ]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").write_text(
        "## Words\n\n- `probe`: a site.\n- `list` (lists): all of them.\n\n"
        "## Ordinary words\n\n    here there\n\n"
        "## Words that no name has\n\n- `flip`: say `remap`.\n- `limbo`: say `list`.\n"
    )
    known, banned = glossary(tmp_path)
    assert known == {"probe", "list", "lists", "here", "there"} and banned == {"flip", "limbo"}
    names = [str(path.relative_to(tmp_path)) for path in sorted((tmp_path / "common").iterdir())]
    assert unknown(tmp_path, names, known | banned) == [
        ("common/list.h", "ip_probe_gizmo", "gizmo"),
        ("common/probe_wobble.c", "probe_wobble", "wobble"),
    ]
    assert forbidden(names_in(tmp_path, names), banned) == [
        ("common/limbo.c", "limbo"),
        ("ip_probe_flip", "flip"),
    ]
