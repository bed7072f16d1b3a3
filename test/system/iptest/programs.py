# SPDX-License-Identifier: Apache-2.0
"""
Compiles programs of test/programs by iprobe-cc or by a plain compiler, once a session for each way
asked for.

Where IPROBE_TEST_PROGRAMS names a folder, what was compiled is kept there, and taken from there
by tests that run on another kernel, where a compiler takes minutes. Who sets it has it emptied
when the compiler or a program changes.
"""

import hashlib
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

    def _compile(
        self, out, sources, flags, compiler, prepared, placement="instrument", variables=()
    ):
        cxx = any(str(s).endswith(".cc") for s in sources)
        real = COMPILERS[compiler][cxx]
        env = dict(os.environ)
        command = real
        if prepared:
            command = str(self.builddir / "coldpatch" / ("iprobe-c++" if cxx else "iprobe-cc"))
            env["IPROBE_CC"] = real
            env["IPROBE_PLACEMENT"] = placement
            env.update(variables)
        args = [
            command,
            *flags,
            "-o",
            str(out),
            *map(str, sources),
            *[f for f in flags if f.startswith("-l")],
        ]
        kept = self._kept(
            args,
            out,
            real,
            placement if prepared else "",
            *(f"{name}={value}" for name, value in variables),
        )
        if kept and kept.exists():
            shutil.copy(kept, out)
            return
        done = subprocess.run(
            args, env=env, cwd=out.parent, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(args)}\n{done.stdout}{done.stderr}"
        if kept:
            self._keep(out, kept)

    def _kept(self, args, out, *how):
        """Where a program made so is kept; None: nowhere. The folder it is made in is of no
        matter.
        """
        store = os.environ.get("IPROBE_TEST_PROGRAMS")
        if not store:
            return None
        key = "\0".join([*(str(arg).replace(str(out.parent), "") for arg in args), *how])
        return pathlib.Path(store) / hashlib.sha256(key.encode()).hexdigest()

    @staticmethod
    def _keep(out, kept):
        """Complete where it has its name: others may keep the same at the same time. On a
        read-only one nothing is kept.
        """
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as new:
                pass
            shutil.copy(out, new.name)
            os.rename(new.name, kept)
        except OSError:
            pass

    def folder(self, *key):
        path = self.top / "-".join(str(k).strip("-") for k in key)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
        return path

    def simple(
        self,
        name,
        compiler="gcc",
        opt="-O2",
        prepared=True,
        extra=(),
        placement="instrument",
        suffix="c",
    ):
        """A program of one file; its path."""
        key = (name, compiler, opt, prepared, tuple(extra), placement)
        if key not in self.made:
            folder = self.folder(
                "simple", compiler, opt, "prepared" if prepared else "plain", len(self.made)
            )
            flags = [opt, "-g", "-pthread", *extra, "-lm"]
            self._compile(
                folder / name,
                [self.source / f"{name}.{suffix}"],
                flags,
                compiler,
                prepared,
                placement,
            )
            self.made[key] = folder / name
        return self.made[key]

    def generated(self, name, write, version, flags, placement="fentry", suffix="c"):
        """A program whose one file write(path) writes, always the same for one `version`; its
        path.
        """
        key = ("generated", name, version, flags, placement)
        if key not in self.made:
            folder = self.folder("generated", name, len(self.made))
            write(folder / f"{name}.{suffix}")
            self._compile(
                folder / name,
                [folder / f"{name}.{suffix}"],
                [f'-DVERSION="{version}"', *flags],
                "gcc",
                True,
                placement,
            )
            self.made[key] = folder / name
        return self.made[key]

    def library(self, name, compiler="gcc", opt="-O2", placement="instrument"):
        """A shared library of one file, built by iprobe-cc; its path."""
        key = ("library", name, compiler, opt, placement)
        if key not in self.made:
            folder = self.folder("library", compiler, opt, placement, len(self.made))
            self._compile(
                folder / f"lib{name}.so",
                [self.source / f"{name}.c"],
                [opt, "-g", "-fPIC", "-shared"],
                compiler,
                True,
                placement,
            )
            self.made[key] = folder / f"lib{name}.so"
        return self.made[key]

    def plugins(self, placement="fentry", extra=()):
        """(loading, version 1 of its library, version 2)."""
        key = ("plugins", placement, *extra)
        if key not in self.made:
            folder = self.folder(*key)
            made = [folder / "loading", folder / "libplug1.so", folder / "libplug2.so"]
            self._compile(
                made[0],
                [self.source / "loading.c"],
                ["-O2", "-g", "-pthread", *extra],
                "gcc",
                True,
                placement,
            )
            for version in (1, 2):
                self._compile(
                    made[version],
                    [self.source / "plugin.c"],
                    ["-O2", "-g", "-fPIC", "-shared", f"-DVERSION={version}", *extra],
                    "gcc",
                    True,
                    placement,
                )
            self.made[key] = made
        return self.made[key]

    def tails(self, compiler="gcc", extra=(), variables=()):
        """tail_times, with its library, built by iprobe-c++ in placement fentry at -O2.
        variables: of the environment, (name, value).
        """
        key = ("tails", compiler, *extra, *(f"{name}={value}" for name, value in variables))
        if key not in self.made:
            folder = self.folder(*key)
            self._compile(
                folder / "libtail_lib.so",
                [self.source / "tail_lib.c"],
                ["-O2", "-g", "-fPIC", "-shared", *extra],
                compiler,
                True,
                "fentry",
                variables,
            )
            self._compile(
                folder / "tail_times",
                [self.source / "tail_times.cc"],
                ["-O2", "-g", *extra, f"-L{folder}", "-Wl,-rpath,$ORIGIN", "-ltail_lib"],
                compiler,
                True,
                "fentry",
                variables,
            )
            self.made[key] = folder / "tail_times"
        return self.made[key]

    def trees(self, compiler, opt, placement="instrument", extra=()):
        """The folder with all tree_* programs, their library and the log; the log itself is
        never instrumented.
        """
        key = ("trees", compiler, opt, placement, *extra)
        if key not in self.made:
            folder = self.folder("trees", compiler, opt, placement, *extra)
            # the programs log inlined functions as well, which this placement does not see
            whole = ["-fno-inline"] if placement == "fentry" else []
            link = [*extra, f"-L{folder}", "-Wl,-rpath,$ORIGIN"]
            self._compile(
                folder / "libtree_log.so",
                [self.source / "tree_log.c"],
                [opt, "-fPIC", "-shared", *extra],
                compiler,
                False,
            )
            self._compile(
                folder / "libtree_lib.so",
                [self.source / "tree_lib.c"],
                [opt, *whole, "-g", "-fPIC", "-shared", *link, "-ltree_log"],
                compiler,
                True,
                placement,
            )
            for source in sorted(self.source.glob("tree_*.c*")):
                if source.stem in ("tree_log", "tree_lib"):
                    continue
                libs = (
                    ["-ltree_lib", "-ltree_log"] if source.stem == "tree_start" else ["-ltree_log"]
                )
                self._compile(
                    folder / source.stem,
                    [source],
                    [opt, *whole, "-g", "-pthread", *link, *libs],
                    compiler,
                    True,
                    placement,
                )
            self.made[key] = folder
        return self.made[key]
