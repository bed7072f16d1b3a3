# SPDX-License-Identifier: Apache-2.0
"""Compiles programs of test/programs by iprobe-cc or by a plain compiler, once a session for each way asked for."""

import os
import pathlib
import shutil
import subprocess
import tempfile

COMPILERS = {"gcc": ("gcc", "g++"), "clang": ("clang", "clang++")}


def compilers():
    """Those to test with."""
    wanted = os.environ.get("IPROBE_TEST_COMPILERS", "gcc,clang").split(",")
    return [name for name in wanted if shutil.which(COMPILERS[name][0])]


class Programs:
    def __init__(self, source, top, builddir):
        self.source, self.builddir = pathlib.Path(source), pathlib.Path(builddir)
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="programs-", dir=top))
        self.top.chmod(0o755)
        self.made = {}

    def _compile(self, out, sources, flags, compiler, prepared, placement="instrument"):
        cxx = any(str(s).endswith(".cc") for s in sources)
        real = COMPILERS[compiler][cxx]
        env = dict(os.environ)
        command = real
        if prepared:
            command = str(self.builddir / "coldpatch" / ("iprobe-c++" if cxx else "iprobe-cc"))
            env["IPROBE_CC"] = real
            env["IPROBE_PLACEMENT"] = placement
        args = [command, *flags, "-o", str(out), *map(str, sources), *[f for f in flags if f.startswith("-l")]]
        done = subprocess.run(args, env=env, cwd=out.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(args)}\n{done.stdout}{done.stderr}"

    def folder(self, *key):
        path = self.top / "-".join(str(k).strip("-") for k in key)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
        return path

    def simple(self, name, compiler="gcc", opt="-O2", prepared=True, extra=(), placement="instrument", suffix="c"):
        """A program of one file; its path."""
        key = (name, compiler, opt, prepared, tuple(extra), placement)
        if key not in self.made:
            folder = self.folder("simple", compiler, opt, "prepared" if prepared else "plain", len(self.made))
            flags = [opt, "-g", "-pthread", *extra, "-lm"]
            self._compile(folder / name, [self.source / f"{name}.{suffix}"], flags, compiler, prepared, placement)
            self.made[key] = folder / name
        return self.made[key]

    def library(self, name, compiler="gcc", opt="-O2", placement="instrument"):
        """A shared library of one file, built by iprobe-cc; its path."""
        key = ("library", name, compiler, opt, placement)
        if key not in self.made:
            folder = self.folder("library", compiler, opt, placement, len(self.made))
            self._compile(folder / f"lib{name}.so", [self.source / f"{name}.c"], [opt, "-g", "-fPIC", "-shared"], compiler, True,
                          placement)
            self.made[key] = folder / f"lib{name}.so"
        return self.made[key]

    def plugins(self, placement="fentry", extra=()):
        """(loading, version 1 of its library, version 2)."""
        key = ("plugins", placement, *extra)
        if key not in self.made:
            folder = self.folder(*key)
            made = [folder / "loading", folder / "libplug1.so", folder / "libplug2.so"]
            self._compile(made[0], [self.source / "loading.c"], ["-O2", "-g", "-pthread", *extra], "gcc", True, placement)
            for version in (1, 2):
                self._compile(made[version], [self.source / "plugin.c"],
                              ["-O2", "-g", "-fPIC", "-shared", f"-DVERSION={version}", *extra], "gcc", True, placement)
            self.made[key] = made
        return self.made[key]

    def trees(self, compiler, opt, placement="instrument", extra=()):
        """The folder with all tree_* programs, their library and the log; the log itself is never instrumented."""
        key = ("trees", compiler, opt, placement, *extra)
        if key not in self.made:
            folder = self.folder("trees", compiler, opt, placement, *extra)
            # the programs log inlined functions as well, which this placement does not see
            whole = ["-fno-inline"] if placement == "fentry" else []
            link = [*extra, f"-L{folder}", "-Wl,-rpath,$ORIGIN"]
            self._compile(folder / "libtree_log.so", [self.source / "tree_log.c"], [opt, "-fPIC", "-shared", *extra], compiler,
                          False)
            self._compile(folder / "libtree_lib.so", [self.source / "tree_lib.c"],
                          [opt, *whole, "-g", "-fPIC", "-shared", *link, "-ltree_log"], compiler, True, placement)
            for source in sorted(self.source.glob("tree_*.c*")):
                if source.stem in ("tree_log", "tree_lib"):
                    continue
                libs = ["-ltree_lib", "-ltree_log"] if source.stem == "tree_start" else ["-ltree_log"]
                self._compile(folder / source.stem, [source], [opt, *whole, "-g", "-pthread", *link, *libs], compiler, True,
                              placement)
            self.made[key] = folder
        return self.made[key]
