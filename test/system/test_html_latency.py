# SPDX-License-Identifier: Apache-2.0
"""iprobe export --format html: latencies by intervals, as iprobe hist has them, and the histogram
of each in a browser.
"""

import json

import pytest
from test_hist_intervals import phases
from test_html import browser, document, export  # noqa: F401
from test_html_browser import View

import tracegen

LEFT, RIGHT, ESCAPE = "\ue012", "\ue014", "\ue00c"


@pytest.mark.parametrize("seed", [1, 4])
def test_intervals_are_those_of_hist(me, seed):
    trace = tracegen.random_trace(seed)
    directory = trace.write(me.dir() / "trace")
    ticks = max(call.end for call in trace.calls) - trace.start
    interval = ticks * 1_000_000_000 // trace.hz // 50
    data = document(export(me, directory, "--interval", f"{interval}ns"))["latency"]
    known = json.loads(
        me.iprobe("hist", "--interval", f"{interval}ns", "--json", directory).stdout
    )
    names = [f["name"] for f in document(export(me, directory))["functions"]]
    assert data["ns"] == interval and data["begin"] <= 0
    zero = document(export(me, directory))["meta"]["begin"]
    shown = {names[int(index)]: one for index, one in data["functions"].items()}
    assert {f["function"] for f in known["functions"]} == set(shown)
    for f in known["functions"]:
        one = shown[f["function"]]
        heat = {
            (at // data["buckets"], at % data["buckets"]): n
            for at, n in zip(one["heat"][::2], one["heat"][1::2])
        }
        assert heat == {
            ((i["begin_ns"] - zero - data["begin"]) // interval, b["from_ns"].bit_length()): b[
                "calls"
            ]
            for i in f["intervals"]
            for b in i["buckets"]
        }
        assert [
            (distance / data["parts"], bool(changed))
            for distance, changed in zip(one["changes"][1::3], one["changes"][2::3])
        ] == [
            (pytest.approx(i["distance_bins"], abs=0.001), i["changed"])
            for i in f["intervals"]
            if i["distance_bins"] is not None
        ]


def test_equal_parts_have_changes_too(me):
    _, directory = phases(me, (100, 5000), (3_000, 2000))
    data = document(export(me, directory))
    assert data["latency"]["slices"] == 96 and data["latency"]["begin"] == 0
    names = [f["name"] for f in data["functions"]]
    changes = data["latency"]["functions"][str(names.index("work"))]["changes"]
    at = [s for s, changed in zip(changes[::3], changes[2::3]) if changed]
    # 5.5 ms of 13.5 ms
    assert at and all(38 <= s <= 41 for s in at)


@pytest.mark.slow
def test_in_a_browser(me, browser):  # noqa: F811
    """A key or a click shows the histogram of an interval; the address has it."""
    _, directory = phases(me, (100, 950), (3_000, 250))
    path = export(me, directory, "--interval", "200us")
    page = View(browser, path, "#latency?function=work")
    interval, column = "#latency-interval", "#latency-in"
    assert not page.find(interval).text and not page.find(column).is_displayed()
    page.press(RIGHT)
    assert "181 calls" in page.find(interval).text or "182 calls" in page.find(interval).text
    assert page.find(column).is_displayed()
    page.until(lambda: "interval=0" in page.address())
    for _ in range(6):
        page.press(RIGHT)
    assert "changed" in page.find(interval).text or "distance" in page.find(interval).text
    calls = page.run(
        "return [...document.querySelectorAll('#latency tbody tr')]"
        ".map(r => r.cells[3].textContent)"
    )
    assert calls[0] == "0" and int(calls[-1]) > 20, calls  # all of this interval are slow
    page.until(lambda: "interval=6" in page.address())
    again = View(browser, path, "#" + page.address())
    assert again.find(interval).text
    again.press(LEFT)
    again.press(ESCAPE)
    assert not again.find(interval).text and not again.find(column).is_displayed()
    again.click("#heat", 90, 10)
    assert "calls" in again.find(interval).text
    again.press("t")
    cells = browser.find_elements("css selector", "#latency .as-table tbody tr td:last-child")
    assert any("changed" in cell.text for cell in cells)
    assert again.colours("#heat") > 3
    again.clean()


@pytest.mark.slow
def test_hostile_addresses(me, browser):  # noqa: F811
    _, directory = phases(me, (100, 950), (3_000, 250))
    path = export(me, directory, "--interval", "200us")
    for hostile in ("interval=-5", "interval=x", "interval=1e99", "interval=99999"):
        page = View(browser, path, f"#latency?function=work&{hostile}")
        assert not page.find("#latency-interval").text
        page.clean()
