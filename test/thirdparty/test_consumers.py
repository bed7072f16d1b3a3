# SPDX-License-Identifier: Apache-2.0
"""
Exports, read by the viewers that they are made for: speedscope (npm's package, in a headless
browser) and go tool pprof. What is not there, or cannot be fetched, is skipped. callgrind_annotate
and babeltrace2 are in test/system, since they are at hand wherever the tests run.

speedscope reads four of the formats, and so stands in for flamegraph.pl (folded) and KCachegrind
(callgrind), of which the one is neither in Debian nor in npm and the other shows figures in
windows only.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("IPROBE_BUILD", ROOT / "build")).resolve()
SPEEDSCOPE = "speedscope@1.25.0"
sys.path.insert(0, str(ROOT / "test"))

import tracegen  # noqa: E402

# Nanoseconds: with callees, alone; of all 29,000.
KNOWN = {"main": (29_000, 1000), "parse": (25_000, 25_000), "eval": (8000, 3000)}


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """main calls parse (twice, 10 us each) and eval, which calls parse (5 us) and itself (1 us)."""
    made = tracegen.Trace(hz=1_000_000_000)
    thread = made.thread()

    def call(name, ticks, inner=()):
        thread.call(name)
        thread.advance(ticks)
        for args in inner:
            call(*args)
        thread.ret()

    call(
        "main",
        1000,
        [("parse", 10_000), ("parse", 10_000), ("eval", 2000, [("parse", 5000), ("eval", 1000)])],
    )
    return made.write(tmp_path_factory.mktemp("trace") / "data")


def export(trace, form, path):
    subprocess.run(
        [BUILD / "cli" / "iprobe", "export", "--format", form, "-o", path, trace],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    return path


@pytest.fixture(scope="module")
def speedscope(tmp_path_factory):
    """Its page, out of npm's package: nothing of that is run but what a browser runs."""
    folder = tmp_path_factory.mktemp("speedscope")
    if not shutil.which("npm"):
        pytest.skip("no npm, from which speedscope would come")
    try:
        done = subprocess.run(
            ["npm", "pack", SPEEDSCOPE, "--ignore-scripts", "--silent"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        done = None
    packages = list(folder.glob("*.tgz"))
    if done is None or done.returncode or not packages:
        pytest.skip(f"npm cannot fetch {SPEEDSCOPE}")
    with tarfile.open(packages[0]) as package:
        package.extractall(folder)
    return folder / "package" / "dist" / "release" / "index.html"


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="python3-selenium is not installed"
    )
    driver, program = shutil.which("chromedriver"), shutil.which("chromium")
    if not driver or not program:
        pytest.skip("no chromium with chromium-driver")
    options = webdriver.ChromeOptions()
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu-sandbox",
        "--disable-dev-shm-usage",
        "--window-size=1200,800",
        "--use-gl=swiftshader",
        "--enable-unsafe-swiftshader",
        "--ignore-gpu-blocklist",
    ):
        options.add_argument(argument)
    options.binary_location = program
    chrome = webdriver.Chrome(service=webdriver.chrome.service.Service(driver), options=options)
    yield chrome
    chrome.quit()


def sandwich(browser, page, path, tmp_path):
    """{function: (total %, self %)} of speedscope's table, as its command line opens a file."""
    from selenium.webdriver.support.ui import (
        WebDriverWait,
    )  # pylint: disable=import-outside-toplevel

    script = tmp_path / "profile.js"
    script.write_text(
        f"speedscope.loadFileFromBase64({json.dumps(path.name)}, "
        f"{json.dumps(base64.b64encode(path.read_bytes()).decode())})"
    )
    browser.get("about:blank")
    browser.get(f"file://{page}#localProfilePath={script}")
    WebDriverWait(browser, 60).until(
        lambda b: "Sandwich" in b.find_element("tag name", "body").text
        or "went wrong" in b.find_element("tag name", "body").text
    )
    body = browser.find_element("tag name", "body")
    assert "went wrong" not in body.text, body.text
    body.send_keys("3")
    WebDriverWait(browser, 60).until(lambda b: len(b.find_elements("tag name", "tr")) > 1)
    rows = {}
    for row in browser.find_elements("tag name", "tr"):
        cells = [cell.text for cell in row.find_elements("tag name", "td")]
        shares = [re.search(r"\(<?([\d.]+)%\)", cell) for cell in cells]
        if len(cells) == 3 and all(shares[:2]):
            rows[cells[2].strip()] = tuple(float(share[1]) for share in shares[:2])
    return rows


@pytest.mark.parametrize(
    "form,name",
    [
        ("chrome", "trace.json"),
        ("folded", "stacks.folded"),
        ("callgrind", "callgrind.out.1"),
        ("pprof", "profile.pb.gz"),
    ],
)
def test_speedscope(trace, speedscope, browser, tmp_path, form, name):
    shown = sandwich(browser, speedscope, export(trace, form, tmp_path / name), tmp_path)
    assert shown.keys() == KNOWN.keys(), shown
    for function, known in KNOWN.items():
        assert shown[function] == pytest.approx([100 * ns / 29_000 for ns in known], abs=1), (
            function,
            shown,
        )


@pytest.mark.skipif(not shutil.which("go"), reason="go is not installed")
def test_go_tool_pprof(trace, tmp_path):
    profile = export(trace, "pprof", tmp_path / "profile.pb.gz")
    top = {}
    for index, unit, options in (("time", "ns", ["-unit=ns"]), ("calls", "", [])):
        done = subprocess.run(
            ["go", "tool", "pprof", "-top", *options, f"-sample_index={index}", profile],
            check=True,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        for line in done.stdout.splitlines():
            row = re.match(rf" *(\d+){unit} +[\d.]+% +[\d.]+% +(\d+){unit} +[\d.]+% +(\S+)$", line)
            if row:
                top[row[3], index] = int(row[1]), int(row[2])
    assert {f: top[f, "time"][::-1] for f in KNOWN} == KNOWN
    assert {f: top[f, "calls"][0] for f in KNOWN} == {"main": 1, "parse": 3, "eval": 2}
