# SPDX-License-Identifier: Apache-2.0
"""
The Debian packages: built once as docs/packaging.md tells, judged by lintian, installed in a root
that holds nothing but what they depend on, used there, and purged. Also the tarball of a release,
and the spec file.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest

from conftest import PATIENCE

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = {"iprobe", "libiprobe-rt", "iprobe-dev", "iprobed"}
LIB = "usr/lib/x86_64-linux-gnu/iprobe/"
BASH = "usr/share/bash-completion/completions/"
ZSH = "usr/share/zsh/vendor-completions/"
GIT = ["git", "-c", f"safe.directory={ROOT}"]

PROGRAM = r"""
#include <stdio.h>
#include <unistd.h>
static __attribute__((noinline)) int twice(int n)
{
	__asm__ volatile("" : "+r"(n));
	return 2 * n;
}
int main(int argc, char **argv)
{
	int sum = 0;
	for (int i = 0; i < 10; i++)
		sum += twice(i);
	printf("%d\n", sum);
	fflush(stdout);
	if (argc > 1)
		for (;;) { twice(sum); usleep(1000); }
	return 0;
}
"""

# Prints a line of JSON for each way to record: from the start, a static program, attached to.
USE = """
set -e
cd /tmp
iprobe-cc -O2 -g program.c -o program
iprobe-cc -O2 -g -static program.c -o program-static
for name in program program-static; do
    iprobe run -q -o $name.data -- ./$name >$name.out
    test "$(cat $name.out)" = 90
    iprobe report --json $name.data | tr -d '\\n'; echo
done
LD_PRELOAD=@LIB@libiprobe-rt.so ./program forever >/dev/null &
sleep 0.5
iprobe attach $! -q -f twice --duration 300ms -o attached.data
iprobe report --json attached.data | tr -d '\\n'; echo
fperf list-events >/dev/null
iprobe list -f '*,!@memory' program >/dev/null
iprobed --check
rm -rf program* attached.data
"""

pytestmark = pytest.mark.slow


def tool(name, package):
    if not shutil.which(name):
        pytest.skip(f"no {name} here ({package}): run scripts/install-deps test")


def copy_of_the_sources(folder):
    """What git knows or would take; without git, all but build folders."""
    done = subprocess.run(
        [*GIT, "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        ignore = shutil.ignore_patterns("build*", "__pycache__")
        shutil.copytree(ROOT, folder, symlinks=True, ignore=ignore)
        return
    for name in filter(None, done.stdout.split("\0")):
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


@pytest.fixture(scope="module")
def built(sh, tmp_path_factory):
    """The folder with the packages and the .changes file."""
    tool("dpkg-buildpackage", "dpkg-dev")
    tool("dh", "debhelper")
    folder = tmp_path_factory.mktemp("packages")
    copy_of_the_sources(folder / "iprobe")
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CC", "CXX", "CFLAGS", "DEB_"))
    }
    env["DEB_BUILD_OPTIONS"] = "nocheck noautodbgsym parallel=2"
    sh("dpkg-buildpackage", "-b", "-us", "-uc", cwd=folder / "iprobe", timeout=500, env=env)
    shutil.rmtree(folder / "iprobe")
    return folder


@pytest.fixture(scope="module")
def debs(built):
    """Name of each package -> its file."""
    found = {path.name.split("_")[0]: path for path in built.glob("*.deb")}
    assert set(found) == PACKAGES
    return found


def files_of(sh, deb):
    lines = sh("dpkg-deb", "-c", deb).stdout.splitlines()
    return {
        line.split(None, 5)[5].removeprefix("./").split(" -> ")[0]
        for line in lines
        if not line.endswith("/")
    }


def test_lintian_has_nothing_to_say(built, sh):
    tool("lintian", "lintian")
    done = sh("lintian", "--allow-root", "--tag-display-limit", "0", *built.glob("*.changes"))
    assert done.stdout == ""


def test_version_is_that_of_the_program(debs, sh, root):
    build = (root / "meson.build").read_text(encoding="utf-8")
    version = re.search(r"version: '([^']+)'", build)[1]
    for deb in debs.values():
        assert sh("dpkg-deb", "-f", deb, "Version").stdout.strip() == version
    spec = (root / "packaging" / "iprobe.spec").read_text(encoding="utf-8")
    assert re.search(rf"^Version: +{re.escape(version)}$", spec, re.M)


# What each package has besides documents and manual pages.
FILES = {
    "libiprobe-rt": {LIB + "libiprobe-rt.so", LIB + "32/libiprobe-rt.so"},
    "iprobe": {
        "etc/iprobe/probes.d/examples.yaml",
        "usr/bin/fperf",
        "usr/bin/iprobe",
        "usr/share/iprobe/tracecompass.xml",
        LIB + "libiprobe-papi.so",
        BASH + "fperf",
        BASH + "iprobe",
        ZSH + "_fperf",
        ZSH + "_iprobe",
    },
    "iprobe-dev": {
        *(
            f"usr/bin/{name}"
            for name in (
                "coldpatch",
                "iprobe-c++",
                "iprobe-cc",
                "iprobe-gcc-ar",
                "iprobe-gcc-nm",
                "iprobe-gcc-ranlib",
                "iprobe-llvm-ar",
                "iprobe-llvm-nm",
                "iprobe-llvm-ranlib",
            )
        ),
        *(f"usr/include/iprobe/{name}.h" for name in ("payload", "probe", "trace_format")),
        *(
            f"usr/libexec/iprobe/{name}"
            for name in (
                "include/iprobe/probe.h",
                "stage/as",
                "stage/fentry.specs",
                "stage/fentry_p.specs",
                "stage/gcc_plugin/iprobe_entries.so",
                "stage/inline.specs",
                "stage/include/iprobe_inline.h",
                "stage/include/iprobe_large.h",
            )
        ),
        *(LIB + name for name in ("iprobe-inlined.ar", "iprobe-room.o", "iprobe-rt.o")),
        "usr/share/pkgconfig/iprobe.pc",
        BASH + "coldpatch",
        ZSH + "_coldpatch",
    },
    "iprobed": {
        "etc/iprobe/probes.d/rules.yaml",
        "lib/systemd/system/iprobed.service",
        "lib/systemd/system/iprobed.socket",
        "usr/bin/iprobed",
        BASH + "iprobed",
        ZSH + "_iprobed",
    },
}


@pytest.mark.parametrize("name", FILES)
def test_each_package_has_its_files(debs, sh, name):
    found = files_of(sh, debs[name])
    documents = {path for path in found if re.match("usr/share/(doc|lintian)/", path)}
    pages = {path for path in found if path.startswith("usr/share/man/")}
    assert found - documents - pages == FILES[name]
    assert f"usr/share/doc/{name}/copyright" in documents
    assert f"usr/share/doc/{name}/changelog.gz" in documents


def test_manual_pages_go_with_their_programs(debs, sh, root):
    pages = {
        name: {
            pathlib.Path(path).name.removesuffix(".gz")
            for path in files_of(sh, deb)
            if path.startswith("usr/share/man/")
        }
        for name, deb in debs.items()
    }
    assert pages["iprobe-dev"] == {"coldpatch.1", "iprobe-cc.1", "iprobe-c++.1", "iprobe-probe.3"}
    assert pages["iprobed"] == {"iprobed.8"} and not pages["libiprobe-rt"]
    written = {path.name.removesuffix(".rst") for path in (root / "docs" / "man").glob("*.rst")}
    assert set.union(*pages.values()) == written


def test_papi_is_no_dependency(debs, sh):
    """It is loaded where its names are asked for."""
    assert "papi" not in sh("dpkg-deb", "-f", debs["iprobe"], "Depends").stdout
    assert "libpapi" in sh("dpkg-deb", "-f", debs["iprobe"], "Recommends").stdout


def test_unpacked_anywhere(debs, sh, tmp_path, root):
    """Programs of 32 bits, and programs that pkg-config leads to the headers."""
    for deb in debs.values():
        sh("dpkg-deb", "-x", deb, tmp_path)
    (tmp_path / "program.c").write_text(PROGRAM, encoding="utf-8")
    where = {**os.environ, "PKG_CONFIG_PATH": str(tmp_path / "usr" / "share" / "pkgconfig")}
    flags = sh("pkg-config", "--define-prefix", "--cflags", "iprobe", env=where).stdout.split()
    assert flags == [f"-I{tmp_path}/usr/include"]
    sh("cc", *flags, "-O2", root / "examples" / "points.c", "-o", "points", cwd=tmp_path)
    sh(
        "cc",
        *flags,
        "-O2",
        "-shared",
        "-fPIC",
        root / "examples" / "callers.c",
        "-o",
        "callers.so",
        cwd=tmp_path,
    )
    if subprocess.run(
        ["cc", "-m32", "program.c", "-o", "plain"], cwd=tmp_path, capture_output=True, check=False
    ).returncode:
        pytest.skip("cc -m32 makes no programs here (gcc-multilib)")
    programs = tmp_path / "usr" / "bin"
    sh(programs / "iprobe-cc", "-m32", "-O2", "program.c", "-o", "program", cwd=tmp_path)
    done = sh(programs / "iprobe", "run", "-q", "--", "./program", cwd=tmp_path)
    assert done.stdout == "90\n"
    assert '"twice"' in sh(programs / "iprobe", "report", "--json", cwd=tmp_path).stdout


def dependencies(sh, debs):
    """Names that the packages depend on, but for each other; the first of alternatives."""
    fields = [sh("dpkg-deb", "-f", deb, "Depends").stdout.strip() for deb in debs.values()]
    clauses = [clause.strip() for field in fields for clause in field.split(",") if clause.strip()]
    return sorted({re.match(r"[^ |(]+", clause)[0] for clause in clauses} - PACKAGES)


def names_in(folder):
    """Of all files, but for what dpkg, passwd and adduser note down for themselves."""
    own = (
        "var/lib/dpkg",
        "var/log",
        "var/cache",
        "etc/group-",
        "etc/gshadow-",
        "etc/.pwd.lock",
        "run/adduser",
    )
    found = set()
    for path, folders, names in os.walk(folder):
        found |= {os.path.relpath(os.path.join(path, name), folder) for name in folders + names}
    return {name for name in found if not name.startswith(own)}


class System:
    """A root with the packages in it."""

    def __init__(self, root, folder, debs):
        self.command = [root / "scripts" / "clean-root", "--run", folder, "--"]
        self.folder = folder
        self.before = names_in(folder)
        self.group = (folder / "etc/group").read_text(encoding="utf-8")
        for deb in debs.values():
            shutil.copy(deb, folder / "var" / "cache")
        self.debs = [f"/var/cache/{deb.name}" for deb in debs.values()]

    def run(self, *words, timeout=120):
        done = subprocess.run(
            [*self.command, *words],
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=timeout * PATIENCE,
            check=False,
        )
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert done.returncode == 0, f"{words}: exit code {done.returncode}\n{said}"
        return done.stdout

    def install(self):
        self.run("dpkg", "--force-unsafe-io", "-i", *self.debs)


@pytest.fixture(scope="module")
def system(debs, sh, root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("root") / "root"
    made = subprocess.run(
        [root / "scripts" / "clean-root", folder, *dependencies(sh, debs)],
        capture_output=True,
        text=True,
        timeout=300 * PATIENCE,
        check=False,
    )
    if made.returncode == 77:
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr
    one = System(root, folder, debs)
    one.install()
    yield one
    shutil.rmtree(folder)


def test_nothing_is_started_or_enabled_unasked(system):
    """The socket is what the package is for; the service is for rules, which root writes."""
    wants = system.folder / "etc/systemd/system"
    enabled = {str(path.relative_to(wants)) for path in wants.rglob("iprobed*")}
    assert enabled == {"sockets.target.wants/iprobed.socket"}
    for path in ("run/iprobe", "var/lib/iprobe"):
        assert not (system.folder / path).exists()
    group = (system.folder / "etc/group").read_text(encoding="utf-8")
    assert re.search(r"^iprobe:[^:]*:\d+:$", group, re.M)


def test_installing_again_changes_nothing(system):
    names, group = names_in(system.folder), (system.folder / "etc/group").read_bytes()
    system.install()
    system.run("/var/lib/dpkg/info/iprobed.postinst", "configure", "0.1.0")
    assert names_in(system.folder) == names
    assert (system.folder / "etc/group").read_bytes() == group


def test_builds_and_records(system):
    (system.folder / "tmp" / "program.c").write_text(PROGRAM, encoding="utf-8")
    said = system.run("sh", "-c", USE.replace("@LIB@", "/" + LIB))
    reports = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    calls = [{row["function"]: row["calls"] for row in report["functions"]} for report in reports]
    assert len(calls) == 3 and calls[0]["twice"] == calls[1]["twice"] == 10, said
    assert set(calls[2]) == {"twice"} and calls[2]["twice"] > 10, said


def test_purge_leaves_nothing(system):
    """Not even of what rules have recorded. A removal keeps configuration."""
    (system.folder / "var/lib/iprobe/rule").mkdir(parents=True, exist_ok=True)
    system.run("dpkg", "--remove", *sorted(PACKAGES))
    assert (system.folder / "etc/iprobe/probes.d/rules.yaml").exists()
    system.run("dpkg", "--purge", *sorted(PACKAGES))
    try:
        assert names_in(system.folder) - system.before == set()
        assert (system.folder / "etc/group").read_text(encoding="utf-8") == system.group
        assert not list((system.folder / "var/lib/dpkg/info").glob("*iprobe*"))
    finally:
        system.install()


def test_release_tarball(root, sh, tmp_path):
    """meson dist packs what is committed, all of it, and nothing else."""
    if not (root / ".git").exists():
        pytest.skip("this is no git checkout")
    build = tmp_path / "build"
    sh("meson", "setup", build, root, "-Dtests=disabled", "-Dman=disabled")
    sh("meson", "dist", "-C", build, "--no-tests", "--allow-dirty", "--formats", "gztar")
    with tarfile.open(next((build / "meson-dist").glob("iprobe-*.tar.gz"))) as archive:
        names = {member.name.partition("/")[2] for member in archive if not member.isdir()}
    done = sh(*GIT, "ls-tree", "-r", "--name-only", "HEAD", cwd=root)
    assert names == set(done.stdout.splitlines())
    assert {"debian/rules", "check"} <= names


def test_spec_file_is_read(root, sh):
    tool("rpmspec", "rpm")
    assert "%{" not in sh("rpmspec", "-P", root / "packaging" / "iprobe.spec").stdout
