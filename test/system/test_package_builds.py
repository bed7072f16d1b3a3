# SPDX-License-Identifier: Apache-2.0
"""Packages of a program and its library, built by iprobe-cc as docs/package-builds.md tells: by
debhelper, rpmbuild and CPack, stripped as usual. The probes are there afterwards, in the package or
in that of the debug symbols.
"""

import json
import os
import re
import shutil
import subprocess

import pytest

from iptest import actor as actors

from conftest import SOURCE_ROOT

PAGE = SOURCE_ROOT / "docs" / "package-builds.md"
VERSION = "1.0"
SOURCES = {
    "desk.h": "struct order { int id; const char *text; };\nint price(const struct order *o);\n"
    "int item(int id);\n",
    "price.c": '#include "desk.h"\nint price(const struct order *o) { return item(o->id) + 1; }\n',
    "item.c": '#include "desk.h"\nint item(int id) { __asm__ volatile("" : "+r"(id)); return id * 2'
    "; }\n",
    "desk.c": """#include <stdio.h>
#include <unistd.h>
#include "desk.h"
__attribute__((noinline)) int serve(int id)
{
	struct order o = {id, "an order"};
	return price(&o);
}
int main(int argc, char **argv)
{
	int sum = 0;
	for (int i = 0; i < 10; i++)
		sum += serve(i);
	printf("%d\\n", sum);
	fflush(stdout);
	for (; argc > 1; usleep(1000))
		sum += serve(1);
	return !argv[0];
}
""",
    # the compiler is set here, as many do: docs/package-builds.md tells how to get past that
    "Makefile": """CC = gcc
all: libdesk.so.1 libdesk.a desk
LIB = price.o item.o
price.o item.o: CFLAGS += -fPIC
libdesk.so.1: $(LIB)
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libdesk.so.1 -o $@ $(LIB)
libdesk.a: $(LIB)
	ar rcs $@ $(LIB)
desk: desk.o libdesk.so.1
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ desk.o ./libdesk.so.1
install:
	install -D desk $(DESTDIR)/usr/bin/desk
	install -D libdesk.so.1 $(DESTDIR)/usr/lib/libdesk.so.1
	install -D -m 644 libdesk.a $(DESTDIR)/usr/lib/libdesk.a
clean:
	rm -f *.o *.a *.so.1 desk
""",
}
CONTROL = "".join(
    [
        "Source: desk\nMaintainer: N <n@example.org>\nBuild-Depends: debhelper-compat (= 13)\n"
        "Rules-Requires-Root: no\nStandards-Version: 4.6.2\n",
        *(
            f"\nPackage: {name}\nArchitecture: any\n"
            "Depends: ${shlibs:Depends}, ${misc:Depends}\n"
            f"Description: test\n A part of the test: {name}.\n"
            for name in ("desk", "libdesk1", "libdesk-dev")
        ),
    ]
)
DEBIAN = {
    "control": CONTROL,
    "changelog": f"desk ({VERSION}) unstable; urgency=low\n\n  * Test.\n\n -- N <n@example.org>  "
    "Wed, 01 Jan 2025 00:00:00 +0000\n",
    "rules": "#!/usr/bin/make -f\n%:\n\tdh $@\n",
    "desk.install": "usr/bin/desk\n",
    "libdesk1.install": "usr/lib/libdesk.so.1\n",
    "libdesk-dev.install": "usr/lib/libdesk.a\n",
    "source/format": "3.0 (native)\n",
}
FUNCTIONS = {"desk": {"main", "serve"}, "libdesk.so.1": {"price", "item"}}


def run(*args, cwd=None, timeout=120, **env):
    done = subprocess.run(
        [str(a) for a in args],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C.UTF-8", **env},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{args}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def tool(name):
    if not shutil.which(name):
        pytest.skip(f"no {name} here: run scripts/install-deps test")


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="ascii")


def compiler(builddir):
    return builddir / "coldpatch" / "iprobe-cc"


def deb_build(builddir, folder, rules=""):
    """As the page says for a makefile that sets CC itself; the folder with the packages."""
    source = folder / "desk-1.0"
    write(source, SOURCES)
    write(source / "debian", {**DEBIAN, "rules": DEBIAN["rules"] + rules})
    (source / "debian" / "rules").chmod(0o755)
    assert "MAKEFLAGS='CC=iprobe-cc" in PAGE.read_text(encoding="utf-8")
    clean = {k: "" for k in ("CC", "CXX", "CFLAGS", "DEB_BUILD_OPTIONS") if k in os.environ}
    env = {**clean, "MAKEFLAGS": f"CC={compiler(builddir)}"}
    done = run("dpkg-buildpackage", "-b", "-us", "-uc", "-d", cwd=source, DH_VERBOSE="1", **env)
    (folder / "log").write_text(done.stdout + done.stderr, encoding="utf-8")
    shutil.rmtree(source)
    return folder


def unpack(folder, names, root):
    for name in names:
        (deb,) = folder.glob(f"{name}_{VERSION}_*.deb")
        run("dpkg-deb", "-x", deb, root)
    return root


@pytest.fixture(scope="module")
def debs(builddir, tmp_path_factory):
    tool("dpkg-buildpackage")
    tool("dh")
    return deb_build(builddir, tmp_path_factory.mktemp("one"))


def functions(builddir, what, *options):
    listed = run(builddir / "cli" / "iprobe", "list", "--json", *options, what)
    return {p["function"] for m in json.loads(listed.stdout)["modules"] for p in m["probes"]}


def sections(path):
    return run("readelf", "-SW", path).stdout


def both(root):
    return {"desk": root / "usr/bin/desk", "libdesk.so.1": root / "usr/lib/libdesk.so.1"}


def test_the_package_has_the_probes(debs, builddir, tmp_path):
    """Stripped as any other package: no symbols, no debug information, nothing exported anew."""
    root = unpack(debs, ["desk", "libdesk1"], tmp_path)
    for name, path in both(root).items():
        assert ".symtab" not in sections(path) and ".debug_info" not in sections(path)
        assert FUNCTIONS[name] <= functions(builddir, path)
    exported = run("nm", "-D", "--defined-only", root / "usr/lib/libdesk.so.1").stdout
    assert sorted(re.findall(r" T (\w+)", exported)) == ["item", "price"]
    needed = run("dpkg-deb", "-f", *debs.glob("desk_*.deb"), "Depends").stdout
    assert "libdesk1" in needed and "iprobe" not in needed


def test_a_process_is_recorded_by_the_debug_symbols(debs, builddir, me, tmp_path):
    """The program and its library ship without lists, as the page tells; files and lines, and
    values with their types, come from -dbgsym.
    """
    root = unpack(debs, ["desk", "libdesk1"], me.dir() / "root")
    symbols = unpack(debs, ["desk-dbgsym", "libdesk1-dbgsym"], me.dir() / "symbols")
    for path in both(root).values():
        run("objcopy", "-R", ".iprobe.probes", path)
        assert ".iprobe.probes" not in sections(path)
    folder = symbols / "usr" / "lib" / "debug"
    for name, path in both(root).items():
        assert FUNCTIONS[name] <= functions(builddir, path, "--list", folder)
    program = root / "usr/bin/desk"
    proc = me.popen(["env", f"LD_LIBRARY_PATH={root / 'usr/lib'}", program, "on"])
    assert proc.stdout.readline() == "100\n"
    refused = me.iprobe("attach", proc.pid, "--duration", "100ms")
    assert "install its debug symbols (-dbgsym" in actors.one_line(refused)
    trace = me.dir() / "trace"
    done = me.iprobe(
        *("attach", proc.pid, "--list", folder, "-f", "serve,price,item", "--args", "--retval"),
        *("--duration", "300ms", "-o", trace),
    )
    assert done.returncode == 0, repr(done)
    rows = json.loads(me.iprobe("report", "--json", trace).stdout)["functions"]
    calls = {row["function"]: row["calls"] for row in rows}
    assert set(calls) == {"serve", "price", "item"} and min(calls.values()) > 20
    assert max(calls.values()) - min(calls.values()) <= 1
    assert {row["file"].rpartition("/")[2] for row in rows} == {"desk.c", "price.c", "item.c"}
    shown = me.iprobe("dump", trace).stdout
    assert "serve(id=1)" in shown and "serve = 3" in shown
    status = me.iprobe("status", "--json", proc.pid, "--list", folder)
    assert json.loads(status.stdout)["patched"] == 0
    actors.end(proc)


def test_values_by_the_debug_symbols(debs, root):
    """In a root where all is installed, as in a container."""
    place = unpack(
        debs, ["desk", "libdesk1", "desk-dbgsym", "libdesk1-dbgsym"], root.dir() / "root"
    )
    for path in both(place).values():
        run("objcopy", "-R", ".iprobe.probes", path)
    for line in run("ldd", "/bin/true").stdout.splitlines():
        found = re.search(r"(/\S+) \(0x", line)
        if found:
            (place / found[1][1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(found[1], place / found[1][1:])
    proc = root.popen(["chroot", place, "/usr/bin/desk", "on"])
    assert proc.stdout.readline() == "100\n"
    trace = root.dir() / "trace"
    done = root.iprobe(
        *("attach", proc.pid, "-f", "serve", "--args", "--retval", "--duration", "200ms"),
        *("-o", trace),
    )
    assert done.returncode == 0, repr(done)
    shown = root.iprobe("dump", trace).stdout
    assert "serve(id=1)" in shown and "serve = 3" in shown
    actors.end(proc)


def test_the_static_library_keeps_its_sites(debs, builddir, tmp_path):
    unpack(debs, ["libdesk-dev"], tmp_path)
    write(tmp_path, {name: SOURCES[name] for name in ("desk.h", "desk.c")})
    run(compiler(builddir), "-O2", "-g", "desk.c", "usr/lib/libdesk.a", "-o", "desk", cwd=tmp_path)
    assert {"serve", "price", "item"} <= functions(builddir, tmp_path / "desk")


def test_dwz_was_run(debs):
    """And has left the lists where they were, as the other tests show."""
    tool("dwz")
    log = (debs / "log").read_text(encoding="utf-8")
    for path in ("debian/desk/usr/bin/desk", "debian/libdesk1/usr/lib/libdesk.so.1"):
        assert re.search(rf"(?m)^\s*dwz .*{path}", log), log


def test_another_build_and_the_recipe_that_takes_the_list_off(debs, builddir, tmp_path):
    """What is built in another folder is the same, byte for byte; but for the program, whose list
    the lines for debian/rules take off, as they stand on the page.
    """
    page = PAGE.read_text(encoding="utf-8")
    recipe = re.search(r"(?m)^execute_after_dh_strip:\n(?:\t.*\n)+", page)[0]
    rules = "\n" + recipe.replace("debian/server", "debian/desk")
    again = deb_build(builddir, tmp_path / "a" / "longer" / "path", rules)
    names = sorted(path.name for path in debs.glob("*.deb"))
    assert len(names) == 5 and names == sorted(path.name for path in again.glob("*.deb"))
    differ = [name for name in names if (debs / name).read_bytes() != (again / name).read_bytes()]
    assert [name.split("_")[0] for name in differ] == ["desk"]
    root = unpack(again, ["desk", "libdesk1"], tmp_path / "root")
    assert ".iprobe.probes" not in sections(both(root)["desk"])
    assert ".iprobe.probes" in sections(both(root)["libdesk.so.1"])
    symbols = unpack(again, ["desk-dbgsym"], tmp_path / "symbols") / "usr" / "lib" / "debug"
    assert FUNCTIONS["desk"] <= functions(builddir, both(root)["desk"], "--list", symbols)


SPEC = """
Name: desk
Version: 1.0
Release: 1
Summary: test
License: none
Source0: desk-1.0.tar.gz
%description
test
%debug_package
%prep
%setup -q
%build
make CFLAGS='-O2 -g'
%install
%make_install
%files
/usr/bin/desk
/usr/lib/libdesk.*
"""


def rpm_build(builddir, folder, head):
    write(folder / "SPECS", {"desk.spec": head + SPEC})
    write(folder / "desk-1.0", SOURCES)
    (folder / "SOURCES").mkdir()
    run("tar", "czf", "SOURCES/desk-1.0.tar.gz", "desk-1.0", cwd=folder)
    flags = {"MAKEFLAGS": f"CC={compiler(builddir)}"}
    run("rpmbuild", "--define", f"_topdir {folder}", "-bb", "SPECS/desk.spec", cwd=folder, **flags)
    root = folder / "root"
    root.mkdir()
    for package in (folder / "RPMS").rglob("*.rpm"):
        run("bash", "-c", f"rpm2cpio {package} | cpio -id --quiet", cwd=root)
    return root


def test_rpmbuild(builddir, tmp_path):
    """With the two lines of the page the debug symbols have the list; without them iprobe says
    what is wrong.
    """
    for name in ("rpmbuild", "rpm2cpio", "cpio", "find-debuginfo", "eu-strip"):
        tool(name)
    page = PAGE.read_text(encoding="utf-8")
    head = re.search(r"(?m)^%undefine _unique_build_ids\n%global .*\n", page)[0]
    root = rpm_build(builddir, tmp_path / "kept", head)
    debug = root / "usr" / "lib" / "debug"
    for name, path in both(root).items():
        assert ".iprobe.probes" not in sections(path)
        assert FUNCTIONS[name] <= functions(builddir, path, "--list", debug)
    root = rpm_build(builddir, tmp_path / "changed", "")
    done = subprocess.run(
        [builddir / "cli/iprobe", "list", both(root)["desk"], "--list", root / "usr/lib/debug"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "debugedit -i" in done.stderr and "docs/package-builds.md" in done.stderr


def test_cpack(builddir, tmp_path):
    for name in ("cmake", "cpack", "dpkg-deb"):
        tool(name)
    write(tmp_path, SOURCES)
    write(
        tmp_path,
        {
            "CMakeLists.txt": """cmake_minimum_required(VERSION 3.18)
project(desk VERSION 1.0 LANGUAGES C)
add_library(desklib SHARED price.c item.c)
add_executable(desk desk.c)
target_link_libraries(desk desklib)
install(TARGETS desk desklib RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "N <n@example.org>")
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)
include(CPack)
"""
        },
    )
    run(
        *("cmake", "-B", "build", f"-DCMAKE_C_COMPILER={compiler(builddir)}"),
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        cwd=tmp_path,
    )
    run("cmake", "--build", "build", cwd=tmp_path)
    run("cpack", "-G", "DEB", "-D", "CPACK_STRIP_FILES=ON", cwd=tmp_path / "build")
    for deb in (tmp_path / "build").glob("*.deb"):
        run("dpkg-deb", "-x", deb, tmp_path / "root")
    (program,) = (tmp_path / "root").rglob("bin/desk")
    assert ".symtab" not in sections(program)
    assert FUNCTIONS["desk"] <= functions(builddir, program)
