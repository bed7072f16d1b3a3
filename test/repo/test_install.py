# SPDX-License-Identifier: Apache-2.0
"""meson install puts things where a distribution would, and an installed copy works from any
prefix.
"""

import json
import os
import re
import shutil

import pytest


@pytest.fixture(scope="module")
def prefix(builddir, sh, tmp_path_factory):
    """An installed copy, moved to a place that no build has heard of."""
    base = tmp_path_factory.mktemp("install")
    sh("meson", "install", "-C", builddir, "--no-rebuild", "--quiet", "--destdir", base / "dest")
    options = json.loads(sh("meson", "introspect", "--buildoptions", builddir).stdout)
    installed = next(o["value"] for o in options if o["name"] == "prefix")
    shutil.move(base / "dest" / installed.lstrip("/"), base / "moved")
    return base / "moved"


def test_layout(prefix, root, builddir, sh):
    for name in ("iprobe", "iprobe-cc", "iprobe-c++", "coldpatch"):
        assert (prefix / "bin" / name).stat().st_mode & 0o111 == 0o111
    assert len(list(prefix.glob("lib/**/iprobe/libiprobe-rt.so"))) == 1
    assert (prefix / "include" / "iprobe" / "trace_format.h").exists()
    for name in ("guide", "how-it-works", "limits", "performance", "placements"):
        assert (prefix / "share" / "doc" / "iprobe" / f"{name}.md").exists()
    assert {p.name for p in (prefix / "share" / "doc" / "iprobe" / "examples").iterdir()} == {
        "callers.c",
        "orders.c",
        "points.c",
        "shapes.cc",
    }
    assert (prefix / "share" / "iprobe" / "tracecompass.xml").read_bytes() == (
        root / "analysis" / "export" / "tracecompass.xml"
    ).read_bytes()
    for name in ("coldpatch", "fperf", "iprobe", "iprobed"):
        assert (prefix / "share" / "bash-completion" / "completions" / name).exists()
        assert (prefix / "share" / "zsh" / "site-functions" / f"_{name}").exists()
    for name in ("probe.h", "payload.h"):
        assert (prefix / "include" / "iprobe" / name).read_bytes() == (
            root / "include" / "iprobe" / name
        ).read_bytes()
    pages = {p.name for p in (root / "docs" / "man").glob("*.rst")}
    if any((builddir / "docs").glob("*.1")):
        assert {p.name + ".rst" for p in (prefix / "share" / "man").glob("man?/*")} == pages


def test_installed_documents_link_to_installed_ones(prefix):
    """Pages, walks and pictures: what an installed document links to has been installed, too."""
    documents = list((prefix / "share" / "doc" / "iprobe").rglob("*.md"))
    assert len(documents) > 7
    for document in documents:
        for link in re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8")):
            assert (
                link.startswith("http") or (document.parent / link).exists()
            ), f"{document.name}: {link}"


def test_pkg_config_leads_to_the_header(prefix, root, sh, tmp_path):
    """From any prefix; and the program needs nothing else."""
    where = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "share" / "pkgconfig")}
    flags = sh(
        "pkg-config", "--define-prefix", "--cflags", "--libs", "iprobe", env=where
    ).stdout.split()
    assert flags == [f"-I{prefix}/include"]
    sh("cc", *flags, "-O2", root / "examples" / "points.c", "-o", "points", cwd=tmp_path)
    assert sh(tmp_path / "points", "100").stdout.startswith("100 requests, ")


def test_works_from_any_prefix(prefix, root, sh, tmp_path):
    sh(
        prefix / "bin" / "iprobe-c++",
        "-O2",
        root / "examples" / "shapes.cc",
        "-o",
        "shapes",
        cwd=tmp_path,
    )
    done = sh(prefix / "bin" / "iprobe", "run", "--", "./shapes", "30", cwd=tmp_path)
    assert done.stdout == "20 shapes, area 11502.8, 10 refused\n"
    report = json.loads(sh(prefix / "bin" / "iprobe", "report", "--json", cwd=tmp_path).stdout)
    assert "main" in {f["function"].removesuffix("()") for f in report["functions"]}


def test_no_path_of_the_build_is_left(prefix, builddir):
    for name in ("iprobe", "coldpatch", "iprobe-cc"):
        data = (prefix / "bin" / name).read_bytes()
        assert b"RUNPATH" not in data and str(builddir / "runtime").encode() not in data
