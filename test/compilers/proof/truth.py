# SPDX-License-Identifier: Apache-2.0
"""
What the compiler itself put where, read from its assembly and from the linked file by binutils: nothing of iprobe.
A count is a Counter of (function that holds the code, kind); kinds are those of iptest.probe_list.
"""

import bisect
import collections
import re
import subprocess

from iptest.probe_list import ENTRY, EXIT, FORM_CALL, FORM_JUMP, FORM_RETURN, TAIL_EXIT

IDLE = {
    (FORM_CALL, 5): "0f1f440000", (FORM_CALL, 6): "660f1f440000", (FORM_JUMP, 5): "0f1f440000",
    (FORM_RETURN, 5): "c30f1f4000", (FORM_RETURN, 6): "c30f1f440000",
}

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
    """Calls of the hooks that -finstrument-functions made; a jmp is both the call and the return."""
    found = collections.Counter()
    for function, line in lines_by_function(text):
        hook = HOOK.search(line)
        if hook:
            jumps = hook[1].startswith("jmp")
            found[function, ENTRY if hook[2] == "enter" else TAIL_EXIT if jumps else EXIT] += 1
    return found


def hooks_in_file(path):
    """The same from a linked file, for where no assembly is to be had (link-time optimisation)."""
    text = subprocess.run(["objdump", "-d", "-w", path], capture_output=True, text=True, check=True).stdout
    found, here = collections.Counter(), None
    for line in text.splitlines():
        label = re.match(r"[0-9a-f]+ <(.*)>:$", line)
        if label:
            here = label[1]
            continue
        hook = re.search(r"\b(call|jmp)\b.*<__cyg_profile_func_(enter|exit)(@[\w.]+)?>$", line)
        if hook and here and not here.endswith("@plt") and not here.startswith("__cyg_profile_func"):
            found[here, ENTRY if hook[2] == "enter" else TAIL_EXIT if hook[1] == "jmp" else EXIT] += 1
    return found


class Symbols:
    """Functions of a linked file, by address and by name."""

    def __init__(self, path):
        text = subprocess.run(["nm", "--defined-only", str(path)], capture_output=True, text=True, check=True).stdout
        self.at = collections.defaultdict(set)
        for line in text.splitlines():
            address, kind, name = line.split(" ", 2)
            if kind in "tTwWiu":
                self.at[int(address, 16)].add(name)
        self.addresses = sorted(self.at)
        self.of = {name: address for address, names in self.at.items() for name in names}

    def holder(self, address):
        """Address of the function that holds this one."""
        return self.addresses[bisect.bisect_right(self.addresses, address) - 1]

    def counts(self, counter):
        """A count by address instead of by name: functions may have several."""
        found = collections.Counter()
        for (name, kind), n in counter.items():
            found[self.of[name], kind] += n
        return found

    def sites(self, probes):
        return collections.Counter((self.holder(p.offset), p.kind) for p in probes)

    def differences(self, sites, truth):
        """For people: what the two do not agree on."""
        kinds = {ENTRY: "entry", EXIT: "exit", TAIL_EXIT: "tail-exit"}
        return [f"{' = '.join(sorted(self.at[at]))}: {kinds.get(kind, kind)}: listed {sites[at, kind]}, compiled {truth[at, kind]}"
                for at, kind in sorted(set(sites) | set(truth)) if sites[at, kind] != truth[at, kind]]


class Image:
    """The bytes of an ELF file by link-time address."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        text = subprocess.run(["readelf", "-lW", str(path)], capture_output=True, text=True, check=True).stdout
        self.segments = [tuple(int(x, 16) for x in m.groups()) for m in
                         re.finditer(r"LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", text)]

    def bytes(self, address, length):
        for offset, start, size in self.segments:
            if start <= address and address + length <= start + size:
                return self.data[offset + address - start:][:length]
        raise AssertionError(f"{address:#x} is not in the file")


def check_idle(path, probes):
    """Each site holds exactly the idle form of its length."""
    image = Image(path)
    for p in probes:
        want = IDLE[p.form, p.length]
        have = image.bytes(p.offset, p.length).hex()
        assert have == want, f"site {p.offset:#x} of {p.function.name} holds {have}, not {want}"


def check_no_relocation_in_text(path):
    text = subprocess.run(["readelf", "-dW", str(path)], capture_output=True, text=True, check=True).stdout
    assert "TEXTREL" not in text
