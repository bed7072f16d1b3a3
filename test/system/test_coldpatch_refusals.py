# SPDX-License-Identifier: Apache-2.0
"""What coldpatch refuses: exit 1, one line, the file as it was."""

import os
import random
import re
import shutil
import struct
import subprocess

import pytest

from iptest.coldpatching import (
    C_PROGRAM,
    FULL,
    coldpatch,
    compile_,
    file_offset,
    from_c,
    refused,
    shop,
    small,
)
from iptest.probe_list import read_list


def test_refuses_what_was_not_instrumented(coldpatch, tmp_path):
    line = refused(coldpatch, from_c(tmp_path, C_PROGRAM, instrument=False))
    assert (
        line == f"no probes: {tmp_path}/program was not compiled with -finstrument-functions (use "
        f"iprobe-cc)"
    )


def test_one_line_whatever_the_name(coldpatch, tmp_path):
    path = tmp_path / "two\nlines\x1b[1m"
    shutil.copy(from_c(tmp_path, C_PROGRAM, instrument=False), path)
    coldpatch.refuses(path)
    path.write_bytes(b"no ELF")
    coldpatch.refuses(path)


def test_refuses_without_build_id(coldpatch, tmp_path):
    refused(
        coldpatch,
        from_c(tmp_path, C_PROGRAM, "-Wl,--build-id=none", build_id=False),
        "build-id",
        "-Wl,--build-id",
    )


def test_refuses_static(coldpatch, tmp_path):
    refused(coldpatch, from_c(tmp_path, C_PROGRAM, "-static"), "static", "link it dynamically")


def test_refuses_a_module_with_its_own_tracer(coldpatch, tmp_path):
    own = """
        __attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *a, void *b) { (void)a; (void)b; }
        __attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *a, void *b) { (void)b; (void)a; }
        """
    refused(coldpatch, from_c(tmp_path, own + C_PROGRAM), "own tracer", "0x")
    refused(coldpatch, from_c(tmp_path, own + C_PROGRAM, "-shared", "-fPIC"), "own tracer", "0x")


@pytest.mark.parametrize("flags", [["-no-pie", "-fno-pie"], ["-pie", "-fPIE"]])
def test_refuses_calls_through_registers(coldpatch, tmp_path, flags):
    refused(
        coldpatch,
        from_c(tmp_path, C_PROGRAM, "-mcmodel=large", "-O2", *flags),
        "__cyg_profile_func_",
    )


def test_refuses_taken_addresses(coldpatch, tmp_path):
    taken = (
        "void __cyg_profile_func_exit(void *, void *); "
        "void *volatile p = (void *)__cyg_profile_func_exit;"
    )
    refused(coldpatch, from_c(tmp_path, taken + C_PROGRAM), "__cyg_profile_func_exit", "0x")
    loaded = """void __cyg_profile_func_exit(void *, void *);
        void *get(void) { return (void *)__cyg_profile_func_exit; }"""
    refused(
        coldpatch,
        from_c(tmp_path, loaded + C_PROGRAM, "-fno-plt"),
        "(in get)",
        "takes the function's address",
    )


ASSEMBLY = """
	.text
	.globl extra
	.type extra,@function
extra:
	{body}
	ret
	.size extra,.-extra
	.section .note.GNU-stack,"",@progbits
"""


def with_assembly(tmp_path, body, *flags):
    source = tmp_path / "extra.s"
    source.write_text(ASSEMBLY.replace("{body}", body))
    module = compile_(
        tmp_path / "program",
        ["-x", "c", "-", "-x", "assembler", source],
        *flags,
        stdin="void extra(void);\n"
        + C_PROGRAM.replace("return twice", "if (argc > 5) extra(); return twice"),
    )
    source.unlink()
    return module


@pytest.mark.parametrize(
    "body,words",
    [
        ("testl %eax,%eax\n\tjne __cyg_profile_func_exit@PLT", ["conditional jump", "(in extra)"]),
        ("jmp __cyg_profile_func_enter@PLT", ["tail call"]),
        ("notrack jmp *__cyg_profile_func_exit@GOTPCREL(%rip)", ["unknown form", "(in extra)"]),
        ("call *__cyg_profile_func_exit@GOTPCREL(%rip)", None),
        ("ds call *__cyg_profile_func_exit@GOTPCREL(%rip)", ["takes the function"]),
        (
            "movq __cyg_profile_func_enter@GOTPCREL(%rip),%rax\n\tcall *%rax",
            ["takes the function's address"],
        ),
        (
            "pushq __cyg_profile_func_enter@GOTPCREL(%rip)\n\tpopq %rax",
            ["takes the function's address"],
        ),
        (
            "leaq __cyg_profile_func_enter@PLT(%rip),%rax\n\tcall *%rax",
            ["takes the function's address"],
        ),
        ("cmpq $0,__cyg_profile_func_enter@GOTPCREL(%rip)", ["takes the function's address"]),
        # a call that hides in what looks like a longer instruction, behind bytes that are none
        (
            ".byte 0x06,0x48,0xb8\n\tcall __cyg_profile_func_enter@PLT\n\tnop\n\tnop\n\tnop",
            ["does not decode"],
        ),
        # the same behind data that decodes, but that the code jumps across
        (
            "jmp 1f\n\t.byte 0x48,0xb8\n1:\tcall __cyg_profile_func_enter@PLT\n\tnop\n\tnop\n\tnop",
            ["does not decode"],
        ),
        ("call __cyg_profile_func_enter@PLT\n\tjmp .-3", ["not decode"]),
        (".byte 0x06\n\tcall __cyg_profile_func_enter@PLT", ["do", "not decode"]),
    ],
)
def test_refuses_other_references(coldpatch, tmp_path, body, words):
    module = with_assembly(tmp_path, body)
    if words is None:  # the one among them that is well
        coldpatch.ok(module)
        return
    line = refused(coldpatch, module, *words)
    assert re.search(r"0x[0-9a-f]+", line)


def test_kept_relocations_must_agree(coldpatch, tmp_path):
    """Of -Wl,-q: a relocation that is at no call means that the decoding is wrong."""
    refused(
        coldpatch,
        with_assembly(
            tmp_path,
            ".reloc .+1, R_X86_64_PLT32, __cyg_profile_func_enter-4\n\tnopl 64(%rax)\n\tnop",
            "-Wl,-q",
        ),
        "0x",
    )


def test_coincidences_in_constants_are_no_sites(coldpatch, shop, tmp_path):
    """The bytes of a call inside a longer instruction of a function that decodes well are left
    alone.
    """
    module = with_assembly(tmp_path, "movabsq $0x1122334455667788,%rax")
    data = bytearray(module.read_bytes())
    where = data.index(bytes.fromhex("8877665544332211"))
    symbols = subprocess.run(["nm", module], capture_output=True, text=True, check=True).stdout
    extra = int(re.search(r"([0-9a-f]+) T extra", symbols)[1], 16)
    disassembly = subprocess.run(
        ["objdump", "-d", module], capture_output=True, text=True, check=True
    ).stdout
    stub = int(re.search(r"([0-9a-f]+) <__cyg_profile_func_enter@plt>:", disassembly)[1], 16)
    data[where : where + 5] = b"\xe8" + struct.pack("<i", stub - (extra + 2 + 5))
    module.write_bytes(data)
    truth = len(re.findall(r"call .*<__cyg_profile_func_\w+@plt>", disassembly))
    assert coldpatch.json(module)[0]["sites"] == truth
    assert module.read_bytes()[where : where + 8] == data[where : where + 8]


def test_refuses_what_was_changed_after_patching(coldpatch, small, tmp_path):
    coldpatch.ok("--list", tmp_path / "list", small)
    data = small.read_bytes()
    probe = read_list(tmp_path / "list").probes[3]
    at = file_offset(data, probe.offset)
    small.write_bytes(data[:at] + b"\x90" + data[at + 1 :])
    refused(coldpatch, small, f"0x{probe.offset:x}", "not a NOP")

    at = data.index(b"iprobePL")
    for where, what in ((8, b"\x63"), (16, b"\x03"), (28, b"\xff\xff\xff"), (90, b"\x55")):
        small.write_bytes(data[: at + where] + what + data[at + where + len(what) :])
        refused(coldpatch, small)
    small.write_bytes(data)
    coldpatch.ok(small)


def test_refuses_a_list_of_another_build(coldpatch, small, tmp_path):
    coldpatch.ok(small)
    data = small.read_bytes()
    identity = bytes.fromhex(coldpatch.json(small)[0]["build_id"])
    at = data.index(identity)
    small.write_bytes(data[:at] + bytes(20) + data[at + 20 :])
    refused(coldpatch, small, "another build")


# --- bad input


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01" + bytes(9), bytes(4096)]
)
def test_no_elf(coldpatch, tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    refused(coldpatch, path, str(path))


def test_no_file(coldpatch, tmp_path):
    assert "No such file" in coldpatch.refuses(tmp_path / "absent")
    assert str(tmp_path) in coldpatch.refuses(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    coldpatch.refuses(tmp_path / "fifo")
    coldpatch.refuses("/dev/null")


def test_other_machines(coldpatch, small):
    data = bytearray(small.read_bytes())
    struct.pack_into("<H", data, 18, 183)
    small.write_bytes(data)
    refused(coldpatch, small, "183", "x86-64")
    data[4] = 1  # 32 bits
    small.write_bytes(data)
    refused(coldpatch, small)


def test_objects_and_archives(coldpatch, tmp_path):
    subprocess.run(
        ["gcc", "-finstrument-functions", "-c", "-x", "c", "-", "-o", tmp_path / "o.o"],
        input=C_PROGRAM,
        text=True,
        check=True,
    )
    refused(coldpatch, tmp_path / "o.o")
    subprocess.run(["ar", "rc", tmp_path / "lib.a", tmp_path / "o.o"], check=True)
    refused(coldpatch, tmp_path / "lib.a")


def test_truncated(coldpatch, small):
    data = small.read_bytes()
    lengths = {1, 15, 16, 63, 64, 65, 120, 1000, len(data) - 1, len(data) - 64, len(data) - 65}
    lengths |= {len(data) * i // 40 for i in range(1, 40)}
    for length in sorted(lengths):
        small.write_bytes(data[:length])
        refused(coldpatch, small, str(small))


def test_damaged(coldpatch, small, tmp_path):
    """Whatever the bytes are: no crash, and either one line and the old file, or a new file that
    is complete.
    """
    data = small.read_bytes()
    chance = random.Random(7)
    (shoff,) = struct.unpack_from("<Q", data, 40)
    places = [(0, 64), (64, 64 + 13 * 56), (shoff, len(data)), (0, len(data))]
    for round_ in range(600 if FULL else 120):
        damaged = bytearray(data)
        low, high = places[round_ % len(places)]
        for _ in range(chance.choice((1, 1, 2, 8))):
            damaged[chance.randrange(low, high)] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
        small.write_bytes(damaged)
        done = coldpatch("--list", tmp_path / "list", small)
        assert done.returncode in (0, 1), (round_, done)
        if done.returncode:
            assert len(done.stderr.splitlines()) == 1, (round_, done)
            assert small.read_bytes() == bytes(damaged)
        else:
            assert coldpatch.ok(small)
        only = set(os.listdir(tmp_path)) - {"list"}
        assert only == {"small"}, (round_, only)
