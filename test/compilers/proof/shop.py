# SPDX-License-Identifier: Apache-2.0
"""A folder to build in, by the plain compiler or by iprobe-cc, and what became of the files."""

import json
import os
import pathlib
import shlex
import subprocess

from iptest import time_scale
from iptest.actor import Result


class Shop:
    """
    compiler: gcc or clang. way: "plain", a placement, or a placement with "ccache " in front.
    Commands run in `folder` with CC and CXX set accordingly.
    """

    def __init__(self, folder, tools, way="plain", compiler="gcc"):
        self.folder, self.tools, self.way, self.compiler = (
            pathlib.Path(folder),
            tools,
            way,
            compiler,
        )
        self.folder.mkdir(exist_ok=True)
        self.prepared = way != "plain"
        self.placement = way.removeprefix("ccache ")
        cc, cxx = compiler, {"gcc": "g++", "clang": "clang++"}[compiler]
        self.env = {}
        if self.prepared:
            self.env = {"IPROBE_CC": cc, "IPROBE_PLACEMENT": self.placement}
            cc, cxx = str(tools / "iprobe-cc"), str(tools / "iprobe-c++")
        if way.startswith("ccache"):
            self.env["CCACHE_DIR"] = str(self.folder.parent / "ccache")
            cc, cxx = "ccache " + cc, "ccache " + cxx
        self.cc, self.cxx = cc.split(), cxx.split()
        self.env.update(CC=cc, CXX=cxx)

    def environment(self, **more):
        env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("IPROBE_", "MAKE", "CCACHE", "CFLAGS", "LDFLAGS"))
        }
        return {**env, "LC_ALL": "C", **self.env, **more}

    def run(self, *command, cwd=None, stdin="", **env):
        command = [str(c) for c in command]
        done = subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=self.environment(**env),
            input=stdin,
            text=True,
            capture_output=True,
            check=False,
            timeout=time_scale.scaled(300),
            errors="replace",
        )
        return Result(
            [f"{k}={shlex.quote(v)}" for k, v in {**self.env, **env}.items()] + command,
            done.returncode,
            done.stdout,
            done.stderr,
        )

    def ok(self, *command, **more):
        done = self.run(*command, **more)
        assert done.returncode == 0 and "iprobe-c" not in done.stderr.replace(
            str(self.tools), ""
        ), repr(done)
        return done

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def sites(self, name):
        """How many probes a file has."""
        done = subprocess.run(
            [self.tools.parent / "cli" / "iprobe", "list", "--json", self.folder / name],
            capture_output=True,
            text=True,
            check=False,
            timeout=time_scale.scaled(60),
        )
        if done.returncode:
            return 0
        return sum(len(m["probes"]) for m in json.loads(done.stdout)["modules"])

    def has_probes(self, *names):
        for name in names:
            assert (self.sites(name) > 0) == self.prepared, name

    def times(self, *patterns):
        """When files were last changed."""
        return {
            str(p.relative_to(self.folder)): p.stat().st_mtime_ns
            for pattern in patterns
            for p in self.folder.rglob(pattern)
        }
