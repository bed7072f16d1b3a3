# SPDX-License-Identifier: Apache-2.0
"""
What the compiler itself put where, read from its assembly and from the linked file by binutils:
nothing of iprobe. A count is a Counter of (function that holds the code, kind); kinds are those
of iptest.probe_list.
"""

import bisect
import collections
import re
import subprocess

from iptest.probe_list import (
    ENTRY,
    EXIT,
    FLAGS_DEAD,
    FORM_RETURN,
    FORM_TAIL,
    REGS_ALL,
    TAIL_EXIT,
    idle,
)

HOOK = re.compile(r"\s(call|jmp|callq|jmpq)\s+\*?__cyg_profile_func_(enter|exit)\b")


def lines_by_function(text):
    """(function, line) of each line of assembly that stands in a function."""
    functions = set(re.findall(r"\.type\s+([\w.$]+),\s*[@%]function", text))
    here = None
    for line in text.splitlines():
        label = re.match(r'"?([\w.$]+)"?:', line)
        if label and label[1] in functions:
            here = label[1]
        elif here:
            yield here, line


def hooks_in_assembly(text):
    """Calls of the hooks that -finstrument-functions made; a jmp is both the call and the
    return.
    """
    found = collections.Counter()
    for function, line in lines_by_function(text):
        hook = HOOK.search(line)
        if hook:
            jumps = hook[1].startswith("jmp")
            found[function, ENTRY if hook[2] == "enter" else TAIL_EXIT if jumps else EXIT] += 1
    return found


def hooks_in_file(path):
    """The same from a linked file, for where no assembly is to be had (link-time optimisation)."""
    text = subprocess.run(
        ["objdump", "-d", "-w", path], capture_output=True, text=True, check=True
    ).stdout
    found, here = collections.Counter(), None
    for line in text.splitlines():
        label = re.match(r"[0-9a-f]+ <(.*)>:$", line)
        if label:
            here = label[1]
            continue
        hook = re.search(r"\b(call|jmp)\b.*<__cyg_profile_func_(enter|exit)(@[\w.]+)?>$", line)
        if (
            hook
            and here
            and not here.endswith("@plt")
            and not here.startswith("__cyg_profile_func")
        ):
            found[
                here, ENTRY if hook[2] == "enter" else TAIL_EXIT if hook[1] == "jmp" else EXIT
            ] += 1
    return found


def marks_in_assembly(text):
    """Hooks that the compiler inlined: programs/inline_hooks.h."""
    found = collections.Counter()
    for function, line in lines_by_function(text):
        mark = re.search(r"#mark (entry|exit)$", line)
        if mark:
            found[function, ENTRY if mark[1] == "entry" else EXIT] += 1
    return found


def sleds_in_assembly(text):
    """Calls of __fentry__ at entries and XRay's sleds at exits; and the functions that have no
    entry, and with it no exit.
    """
    kinds = {
        f".Lxray_sled_{n}": (ENTRY, EXIT, TAIL_EXIT)[int(kind, 16)]
        for n, kind in re.findall(r"\.quad\s+\.Lxray_sled_(\d+)-.*\n.*\n\s+\.byte\s+0x(\d\d)", text)
    }
    found, functions = collections.Counter(), set()
    for function, line in lines_by_function(text):
        functions.add(function)
        if re.search(r"\bcallq?\s+__fentry__\b", line):
            found[function, ENTRY] += 1
        elif line.rstrip(":") in kinds:
            found[function, kinds[line.rstrip(":")]] += 1
    without = {f for f in functions if not found[f, ENTRY]}
    for function in without:
        del found[function, EXIT], found[function, TAIL_EXIT]
    return found, without


FENTRY_RETURN = re.compile(r"\.byte\s+0x0?f,\s*0x1f,\s*0x44,\s*0x0?0,\s*0x0?0$")


def fentry_in_assembly(text):
    """
    What -pg -mfentry -minstrument-return=nop5 made: a call at each entry, a NOP before each
    return or jump; and the functions that have no entry.
    """
    found, functions, waiting = collections.Counter(), set(), False
    for function, line in lines_by_function(text):
        functions.add(function)
        line = line.split("#")[0].strip()
        if re.search(
            r"\b(callq?\s+\*?|movabsq\s+\$)__fentry__\b", line
        ):  # the large code model loads the address first
            found[function, ENTRY] += 1
        elif FENTRY_RETURN.search(line):
            waiting = True
        elif waiting and line and line[0] != "." and not line.endswith(":"):
            returns = re.match(r"(rep |bnd )?retq?\b", line)
            assert returns or re.match(
                r"(notrack |bnd )?jmpq?\b", line
            ), f"a NOP stands in front of {line!r}"
            found[function, EXIT if returns else TAIL_EXIT] += 1
            waiting = False
    without = {f for f in functions if not found[f, ENTRY]}
    for function in without:
        if re.match(r"_ZT[chv]", function):
            # Of some of the thunks that it makes gcc marks the exit and not the entry: no function
            # of anybody's.
            del found[function, EXIT], found[function, TAIL_EXIT]
    return found, without


def check_fentry_code(path, probes):
    """
    In the linked file: an entry is its function's first instruction (but for endbr64), and in a
    function that has one each return, and each jump to another function, is a site or has one
    right in front of it.
    """
    text = subprocess.run(
        ["objdump", "-d", "-w", "--no-show-raw-insn", path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    by_address = {p.offset: p for p in probes}
    at = Symbols(path).of
    for block in text.split("\n\n"):
        head = re.match(r"(?:\n*Disassembly.*\n\n?)?([0-9a-f]+) <(.*)>:\n", block)
        if not head:
            continue
        name = head[2]
        code = [
            (int(m[1], 16), m[2].strip())
            for m in re.finditer(r"^\s*([0-9a-f]+):\t(.*)$", block, re.M)
        ]
        entries = [a for a, _ in code if a in by_address and by_address[a].kind == ENTRY]
        if not entries and not name.endswith(".cold"):
            continue
        if entries:
            before = [what for a, what in code if a < entries[0]]
            assert len(entries) == 1 and all(
                re.match("endbr|nop|xchg +%ax,%ax", what) for what in before
            ), f"{name}: entries at {list(map(hex, entries))}"
        for i, (_, what) in enumerate(code[1:], 1):
            jump = re.match(r"(?:bnd |notrack |data16 )*jmp\s+([0-9a-f]+) <([^+>]+)>", what)
            if jump and 0 < int(jump[1], 16) - code[-1][0] <= 15:
                jump = None  # to its own end, behind a call that never returns: nobody gets there
            want = None
            if re.match(r"(repz? |bnd )?ret", what):
                want = EXIT
            elif jump and at.get(jump[2].removesuffix(".cold")) != at.get(
                name.removesuffix(".cold")
            ):
                want = TAIL_EXIT
            before = i - 1
            while before and "nop" in code[before][1] and code[before][0] not in by_address:
                before -= 1  # what is left of a longer sled
            site = by_address.get(code[i][0])
            if not site or site.form not in (FORM_RETURN, FORM_TAIL):
                site = by_address.get(code[before][0])
            if want and (entries or site):
                assert (
                    site and site.kind == want
                ), f"{name}: no site before {what!r} at {code[i][0]:#x}"


class Symbols:
    """Functions of a linked file, by address and by name."""

    def __init__(self, path):
        text = subprocess.run(
            ["nm", "--defined-only", str(path)], capture_output=True, text=True, check=True
        ).stdout
        self.at = collections.defaultdict(set)
        for line in text.splitlines():
            address, kind, name = line.split(" ", 2)
            if kind in "tTwWiu":
                self.at[int(address, 16)].add(name)
        self.addresses = sorted(self.at)
        # Local functions of several files may have one name (in a static link libstdc++'s too):
        # they count as one.
        self.of = {
            name: address for address in reversed(self.addresses) for name in self.at[address]
        }

    def holder(self, address):
        """Address of the function that holds this one."""
        at = self.addresses[bisect.bisect_right(self.addresses, address) - 1]
        return min(self.of[name] for name in self.at[at])

    def counts(self, counter):
        """A count by address instead of by name: functions may have several."""
        found = collections.Counter()
        for (name, kind), n in counter.items():
            found[self.of[name], kind] += n
        return found

    @staticmethod
    def without_kinds(counter):
        found = collections.Counter()
        for (at, _), n in counter.items():
            found[at, "site"] += n
        return found

    def sites(self, probes):
        return collections.Counter((self.holder(p.offset), p.kind) for p in probes)

    def differences(self, sites, truth):
        """For people: what the two do not agree on."""
        kinds = {ENTRY: "entry", EXIT: "exit", TAIL_EXIT: "tail-exit"}
        return [
            f"{' = '.join(sorted(self.at[at]))}: {kinds.get(kind, kind)}: listed "
            f"{sites[at, kind]}, compiled {truth[at, kind]}"
            for at, kind in sorted(set(sites) | set(truth))
            if sites[at, kind] != truth[at, kind]
        ]


class Image:
    """The bytes of an ELF file by link-time address."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        text = subprocess.run(
            ["readelf", "-lW", str(path)], capture_output=True, text=True, check=True
        ).stdout
        self.segments = [
            tuple(int(x, 16) for x in m.groups())
            for m in re.finditer(r"LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", text)
        ]

    def bytes(self, address, length):
        for offset, start, size in self.segments:
            if start <= address and address + length <= start + size:
                return self.data[offset + address - start :][:length]
        raise AssertionError(f"{address:#x} is not in the file")


def check_idle(path, probes):
    """Each site holds exactly the idle form of its length."""
    image = Image(path)
    for p in probes:
        want = idle(p).hex()
        have = image.bytes(p.offset, p.length).hex()
        assert have == want, f"site {p.offset:#x} of {p.function.name} holds {have}, not {want}"


def left_out(probes):
    """
    Functions with a site that is never live: it crosses a page behind its first byte, everything
    is live there, the flags too, and no single byte makes a harmless instruction of whatever
    follows (common/arch/x86_64/site.c).
    """
    return {
        p.function.name
        for p in probes
        if p.regs == REGS_ALL and not p.flags & FLAGS_DEAD and p.offset % 4096 == 4095
    }


def check_no_relocation_in_text(path):
    text = subprocess.run(
        ["readelf", "-dW", str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert "TEXTREL" not in text
