# SPDX-License-Identifier: Apache-2.0
"""
The page of iprobe export --format html in a browser: where it leads by address, mouse and keys,
what it says, and what it is to those who do not see it, or print it.
"""

import re
import time

import pytest
from test_html import STAYS, Page, browser, chain, document, export  # noqa: F401
from test_html_details import spans

import tracegen

pytestmark = pytest.mark.slow
ENTER, ESCAPE, BACK, RIGHT = "\ue007", "\ue00c", "\ue003", "\ue014"
HEAD, AXIS, ROW = 20, 26, 16  # as in timeline.js


class View(Page):
    def __init__(self, browser, path, query=""):
        browser.get("about:blank")
        super().__init__(browser, f"{path}{query}")

    def run(self, script, *args):
        return self.browser.execute_script(script, *args)

    def texts(self, keys="\ue000"):
        """What the canvases show after these keys: [text]."""
        self.run(
            """
            const of = CanvasRenderingContext2D.prototype;
            window.plain = window.plain || of.fillText;
            window.texts = [];
            of.fillText = function (text) {
              window.texts.push(text);
              return window.plain.apply(this, arguments);
            };"""
        )
        self.press(keys)
        self.run("window.dispatchEvent(new Event('resize'))")
        return self.run("return window.texts")

    def until(self, good):
        end = time.monotonic() + 20
        while not good():
            assert time.monotonic() < end, (self.address(), self.get("seen"))
            time.sleep(0.02)

    def address(self):
        return self.browser.current_url.partition("#")[2]

    def window(self):
        return int(self.get("from")), int(self.get("to"))

    def drag(self, css, x, y, dx, *keys):
        from selenium.webdriver import ActionChains  # pylint: disable=import-outside-toplevel

        canvas = self.find(css)
        actions = ActionChains(self.browser, duration=20).move_to_element_with_offset(
            canvas, x - canvas.size["width"] // 2, y - canvas.size["height"] // 2
        )
        for key in keys:
            actions.key_down(key)
        actions.click_and_hold().move_by_offset(dx // 2, 0).move_by_offset(dx - dx // 2, 0)
        actions.release()
        for key in keys:
            actions.key_up(key)
        actions.perform()

    def double_click(self, css, x, y):
        from selenium.webdriver import ActionChains  # pylint: disable=import-outside-toplevel

        canvas = self.find(css)
        ActionChains(self.browser, duration=20).move_to_element_with_offset(
            canvas, x - canvas.size["width"] // 2, y - canvas.size["height"] // 2
        ).double_click().perform()

    def clean(self):
        assert self.browser.get_log("browser") == []


def program(me, *options, start=0, last=0, pids=(1000,)):
    """main calls outer (600 ticks, of which 400 are in inner, 100 of these in outer again) and
    other (200 ticks), in a thread of each process; 1 tick is 1 us. last: a call so much later.
    """
    trace = tracegen.Trace(hz=1_000_000)
    trace.now += start
    for i, pid in enumerate(pids):
        t = trace.thread(i, tid=pid, pid=pid, stack=tracegen.STACK - i * 0x1000000)
        trace.extra_lines.append(f"thread\t{pid}\tname {pid}")
        t.call("main")
        trace.now += 200
        t.call("outer")
        trace.now += 200
        t.call("inner")
        trace.now += 300
        t.call("outer")
        trace.now += 100
        for _ in range(3):
            t.ret()
        t.call("other")
        trace.now += 200
        t.ret()
        t.ret()
        if last:
            trace.now += last
            t.call("last")
            t.ret()
        t.flush()
    return export(me, trace.write(me.dir() / "trace"), *options)


def test_address(me, browser):  # noqa: F811
    path = program(me)
    page = View(browser, path, "#flame")
    assert page.get("tab") == "flame"
    page = View(browser, path, "#functions")
    assert page.get("tab") == "functions"
    page = View(browser, path)
    assert page.get("tab") == "timeline"
    page.press("+")
    page.until(lambda: "from=" in page.address())
    page.press("+")
    first = page.window()
    page.press("2")
    assert page.address() == "flame"
    page.press("3")
    page.find("th[data-key=self] button").click()
    assert page.address() == "functions?by=self&order=down"
    browser.back()
    page.until(lambda: page.address() == "functions")
    assert page.find("th[data-key=total]").get_attribute("aria-sort") == "descending"
    browser.back()
    browser.back()
    page.until(lambda: page.get("tab") == "timeline" and page.window() == first)
    browser.forward()
    page.until(lambda: page.get("tab") == "flame")
    # a link leads to the same: zoom, selection, search
    page.press("1")
    page.press("0")
    page.click("#timeline canvas", 500, AXIS + HEAD + ROW + 8)
    assert page.get("selected") == "outer"
    page.press(ENTER)
    page.press("/")
    page.press("inner")
    page.until(lambda: "search=inner" in page.address() and "call=" in page.address())
    window, link = page.window(), page.address()
    again = View(browser, path, "#" + link)
    assert again.window() == window and again.get("matches") == "1"
    assert again.get("selected") == "outer" and again.address() == link
    # the flame graph's, too
    again.press(ESCAPE)
    again.press(ESCAPE)
    again.press("2")
    again.click("#flame canvas", 100, 2 * 18 + 9)
    assert again.get("focus") == "outer"
    again.drag("#flame canvas", 100, 2 * 18 + 9, 300)
    part = again.get("part")
    assert part != "0.0000 1.0000"
    again.until(lambda: "part=" in again.address())
    same = View(browser, path, "#" + again.address())
    assert same.get("focus") == "outer" and same.get("part") == part
    same.clean()


HOSTILE = [
    "#timeline?from=99999999999999999999&to=-1&thread=__proto__&call=1e9.x",
    "#timeline?from=900&to=100&call=99999.1",
    "#flame?node=99999999&part=9.999999-0.000000",
    "#flame?node=__proto__&part=1.000000-0.000000&search=%2F(",
    "#functions?by=__proto__&order=sideways",
    "#latency?function=%3Cimg%20src=x%20onerror=alert(1)%3E",
    "#constructor?x",
]


def test_hostile_addresses(me, browser):  # noqa: F811
    path = program(me)
    for query in HOSTILE:
        page = View(browser, path, query)
        for tab in "2341":
            page.press(tab)
        start, end = page.window()
        assert 0 <= start < end, query
        page.clean()


def test_zoom_by_mouse_and_back(me, browser):  # noqa: F811
    page = View(browser, program(me))
    canvas = "#timeline canvas"
    width = page.find(canvas).size["width"]
    whole = page.window()
    page.drag(canvas, width // 4, 100, width // 4)
    start, end = page.window()
    assert abs(start - whole[1] / 4) < whole[1] / 50 and abs(end - whole[1] / 2) < whole[1] / 50
    page.drag(canvas, 300, 100, 100, "\ue008")  # Shift: move
    assert page.window()[0] < start and page.window()[1] - page.window()[0] in range(
        end - start - 2, end - start + 3
    )
    page.press(BACK)
    assert page.window() == whole
    page.double_click(canvas, width // 4, AXIS + HEAD + ROW + 8)  # a call
    assert page.window()[1] - page.window()[0] < whole[1]
    page.double_click(canvas, width // 2, 5)  # no call
    assert page.window() == whole
    # the flame graph: drag, double click, key
    page.press("2")
    page.drag("#flame canvas", 100, 9, 300)
    part = page.get("part")
    assert part != "0.0000 1.0000"
    page.press("+")
    assert page.get("part") != part
    page.press(BACK)
    assert page.get("part") == "0.0000 1.0000" and page.get("focus") == "all"
    page.click("#flame canvas", 100, 2 * 18 + 9)
    assert page.get("focus") == "outer"
    page.double_click("#flame canvas", 100, 3 * 18 + 9)
    assert page.get("focus") == "all"
    page.clean()


def test_axis(me, browser):  # noqa: F811
    """However deep the zoom is, no two neighbours say the same; digits that all of them share are
    there once.
    """
    path = program(me, start=123_456_789, last=654_321_987)
    assert document(path)["meta"]["begin"] == 123_456_789_000
    page = View(browser, path)
    deep = 0
    for _ in range(36):
        texts = page.texts("+")
        labels = [t for t in texts if re.fullmatch(r"\+?[\d.]+ (ns|µs|ms|s)", t)]
        assert len(labels) >= 3, texts
        based = [t for t in labels if not t.startswith("+")]
        if len(labels) > len(based):
            deep += 1
            assert len(based) == 1 and max(map(len, labels[1:])) <= 9, labels
        else:
            assert max(map(len, labels)) <= 10
        assert all(a != b for a, b in zip(labels, labels[1:])), labels
    start, end = page.window()
    assert deep > 10 and end - start <= 100
    page.clean()


def test_search_tells_inclusive_from_self(me, browser):  # noqa: F811
    """outer has 600 of 1,000 us with all that it calls, and 300 by itself: its inner call is not
    counted twice.
    """
    page = View(browser, program(me))
    for wanted, inclusive, own in (
        ("outer", "60.0 % (600 µs)", "30.0 % (300 µs)"),
        ("inner", "40.0 % (400 µs)", "30.0 % (300 µs)"),
        ("/outer|inner", "60.0 % (600 µs)", "60.0 % (600 µs)"),
        ("main", "100.0 % (1.00 ms)", "20.0 % (200 µs)"),
    ):
        page.press("/")
        page.press(wanted)
        found = page.find("#found").text
        assert f"inclusive {inclusive}" in found and f"self {own}" in found, (wanted, found)
        page.press(ESCAPE)
    page.clean()


def test_shares_in_frames(me, browser):  # noqa: F811
    page = View(browser, program(me), "#flame")
    texts = page.texts("0")
    for name, share in (("main", "100.0 %"), ("outer", "60.0 %"), ("other", "20.0 %")):
        assert texts[texts.index(name) + 1] == share, texts
    page.clean()


def test_narrow_boxes_have_the_end_of_the_name(me, browser):  # noqa: F811
    """What a function lies in goes first, from the left; "::" in brackets separates nothing."""
    path = program(me)
    text = path.read_text(encoding="utf-8")
    functions = "".join(
        re.search(rf"^function {name}\(.*?^}}\n", text, re.M | re.S)[0]
        for name in ("fitted", "inner", "fittedName")
    )
    page = View(browser, path, "#flame")
    shown = page.run(
        f"""
        const widths = new Map(), c = {{measureText: text => ({{width: text.length}})}};
        {functions}
        return arguments[0].map(([name, room, before]) => fittedName(c, name, room, before));""",
        [
            ["leveldb::(anonymous namespace)::Block::Iter::Seek", 60, ""],
            ["leveldb::(anonymous namespace)::Block::Iter::Seek", 40, ""],
            ["leveldb::(anonymous namespace)::Block::Iter::Seek", 17, ""],
            ["leveldb::(anonymous namespace)::Block::Iter::Seek", 12, ""],
            ["leveldb::(anonymous namespace)::Block::Iter::Seek", 4, ""],
            ["leveldb::(anonymous namespace)::Block::Iter::Seek", 3, ""],
            ["std::map<a::b, c::d>::find", 20, ""],
            ["X::operator ns::T", 13, ""],
            ["plain_name", 6, ""],
            ["a::b::work", 11, "+5.0 % "],
        ],
    )
    assert shown == [
        "leveldb::(anonymous namespace)::Block::Iter::Seek",
        "(anonymous namespace)::Block::Iter::Seek",
        "Block::Iter::Seek",
        "Iter::Seek",
        "Seek",
        "Se…",
        "find",
        "operator ns:…",
        "plain…",
        "+5.0 % work",
    ]
    page.clean()


def test_narrow_calls_have_the_end_of_the_name(me, browser):  # noqa: F811
    trace = tracegen.Trace(hz=1_000_000_000)
    thread = trace.thread()
    name = "leveldb::(anonymous namespace)::Block::Iter::Seek"
    trace.add("seek", linker_name="_ZN7leveldb12_GLOBAL__N_15Block4Iter4SeekEv")
    thread.call("main")
    for ticks in (900, 80):
        thread.call("seek")
        thread.advance(ticks)
        thread.ret()
    thread.ret()
    path = export(me, trace.write(me.dir() / "trace"))
    for view in ("", "#flame"):
        page = View(browser, path, view)
        texts = page.texts("0")
        assert name in texts, texts
        assert view or {"Iter::Seek", "Seek", "Block::Iter::Seek"} & set(texts), texts
        assert not [t for t in texts if t.startswith("leveldb") and t.endswith("…")], texts
    page.clean()


def test_processes_and_names_of_threads(me, browser):  # noqa: F811
    page = View(browser, program(me, pids=(2000, 3000)))
    texts = page.texts("0")
    order = [t.split("  ")[0] for t in texts if re.match(r"process|name", t)]
    assert order == ["process 2000 demo", "process 3000 demo", "name 2000 2000"] + [
        "name 3000 3000"
    ]
    # calls are found where they are drawn
    page.click("#timeline canvas", 100, AXIS + HEAD + HEAD + 8)
    assert page.get("selected") == "main" and "2000" in page.find("#details").text
    # a process alone has no line of its own
    page = View(browser, program(me))
    assert not [t for t in page.texts("0") if t.startswith("process")]
    page.clean()


def test_short_calls_appear(me, browser):  # noqa: F811
    """A call too short to be kept by itself is there when the view comes near. Without the details,
    in a browser that cannot unpack them, and where they are torn, the page says that it has sums.
    """
    _, directory = chain(me, STAYS + 20_000)
    path, near = export(me, directory), "#timeline?from=100000000&to=100020000"
    page = View(browser, path, near)
    page.until(lambda: page.get("seen") == "each call is shown")
    canvas = "#timeline canvas"
    page.click(canvas, 600, AXIS + HEAD + ROW + 8)
    assert page.get("selected") == "work" and "at depth 1" in page.find("#details").text
    first = page.find("#details").text
    page.press("l")
    assert page.get("selected") == "work" and page.find("#details").text != first
    page.press("k")
    assert page.get("selected") == "main"
    # a link to such a call finds it when its details have been unpacked
    page.click(canvas, 600, AXIS + HEAD + ROW + 8)
    page.until(lambda: re.search(r"call=\d+\.[1-9]", page.address()))
    first, link = page.find("#details").text, page.address()
    page = View(browser, path, "#" + link)
    page.until(lambda: page.get("selected") == "work")
    assert page.find("#details").text == first
    page.clean()
    page = View(browser, export(me, directory, "--details", "0"), near)
    assert "summed up" in page.get("seen")
    page.click(canvas, 600, AXIS + HEAD + ROW + 8)
    assert "short call" in page.find("#details").text
    page.clean()
    undo = browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.DecompressionStream"}
    )
    try:
        page = View(browser, path, near)
        assert "cannot unpack" in page.get("seen")
        page.clean()
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", undo)
    # where the limit left details out, a key leads to the nearest that are there
    limit = max(len(text) for *_, text in spans(document(path)))
    less = export(me, directory, "--details", limit)
    page = View(browser, less, "#timeline?from=1600000000&to=1600020000")
    assert "beyond the limit" in page.get("seen") and page.find("#nearest").is_displayed()
    page.press("g")
    page.until(lambda: page.get("seen") == "each call is shown")
    page.clean()
    text = path.read_text()
    torn = re.sub(r'(\d,")(eJ[\w+/]{30})', r"\1eJAAAAAAAA\2", text)
    assert torn != text
    path.write_text(torn)
    page = View(browser, path, near)
    page.until(lambda: "summed up" in (page.get("seen") or ""))
    page.clean()


def test_without_eyes(me, browser):  # noqa: F811
    """Everything has a name and a role; tabs work as tabs do; each picture has a table."""
    page = View(browser, program(me))
    page.find("#keys").click()
    for element in browser.find_elements("css selector", "button, input, select, canvas, [role]"):
        if element.is_displayed() and element.get_attribute("role") not in ("note", "status"):
            assert element.accessible_name, element.get_attribute("outerHTML")
    page.find("#keys").click()
    page.find("#tab-timeline").click()
    page.run("document.getElementById('tab-timeline').focus()")
    for tab in ("flame", "functions", "latency", "timeline"):
        page.press(RIGHT)
        assert page.get("tab") == tab
        focused = page.run("return document.activeElement.id")
        assert focused == f"tab-{tab}"
        assert page.find("#" + focused).get_attribute("aria-selected") == "true"
        assert (
            page.run("return document.querySelectorAll('[role=tab][tabindex=\"0\"]').length") == 1
        )
    # the focus is visible
    outline = page.run("return getComputedStyle(document.activeElement).outlineWidth")
    assert float(outline.removesuffix("px")) >= 2
    assert page.find("#found").get_attribute("aria-live") == "polite"
    page.press("1")
    page.press("t")
    rows = [
        [cell.text for cell in row.find_elements("css selector", "td")]
        for row in browser.find_elements("css selector", "#timeline .as-table tbody tr")
    ]
    assert [row[2] for row in rows] == ["main", "outer", "inner", "outer", "other"]
    assert [row[4] for row in rows] == ["1.00 ms", "600 µs", "400 µs", "100 µs", "200 µs"]
    assert not page.find("#timeline canvas").is_displayed()
    page.find("#timeline .as-table tbody tr:nth-child(3) button").click()
    assert page.get("selected") == "inner"
    page.press("t")
    assert page.find("#timeline canvas").is_displayed()
    page.press("2")
    page.press("t")
    cells = browser.find_elements("css selector", "#flame .as-table tbody td:nth-child(3)")
    assert [cell.text for cell in cells] == ["100.0 %", "60.0 %", "40.0 %", "10.0 %", "20.0 %"]
    page.press("4")
    page.press("t")
    assert browser.find_elements("css selector", "#latency .as-table tbody tr")
    page.clean()


def test_keys_of_the_panel(me, browser):  # noqa: F811
    """Each key that a view takes is in the panel."""
    page = View(browser, program(me))
    page.press("?")
    text = page.find("#help").text
    for key in "1 / t Esc + w s a d h l k j n N g Enter Backspace 0 Home drag wheel Shift".split():
        assert re.search(rf"(?<!\w){re.escape(key)}(?!\w)", text), key
    assert "double click" in text
    page.press("?")
    assert not page.find("#help").is_displayed()
    # from call to call
    page.press("l")
    assert page.get("selected") == "main"
    for key, name in (
        ("j", "outer"),
        ("l", "other"),
        ("h", "outer"),
        ("j", "inner"),
        ("k", "outer"),
    ):
        page.press(key)
        assert page.get("selected") == name, key
    page.clean()


def test_on_paper(me, browser):  # noqa: F811
    """Printing shows all views, one below the other, drawn, in dark on white, without buttons."""
    page = View(browser, program(me))
    page.find("#theme").click()
    theme = page.run("return document.documentElement.dataset.theme")
    page.run(
        """
        addEventListener("beforeprint", () => {
          const drawn = c => new Set(new Uint32Array(c.getContext("2d")
            .getImageData(0, 0, c.width, c.height).data.buffer)).size;
          window.printed = {
            sections: [...document.querySelectorAll("main > section")]
              .map(s => s.getBoundingClientRect().height > 20),
            canvases: [...document.querySelectorAll("canvas")].map(drawn),
            rows: document.querySelectorAll("#functions tbody tr").length,
            nav: document.querySelector("nav").getBoundingClientRect().height,
            wide: document.documentElement.scrollWidth,
            theme: document.documentElement.dataset.theme };
        });"""
    )
    browser.print_page()
    printed = page.run("return window.printed")
    assert printed["sections"] == [True] * 4 and min(printed["canvases"]) > 2, printed
    assert printed["rows"] == 4 and printed["nav"] == 0 and printed["theme"] == "light"
    assert printed["wide"] <= 1200
    assert page.get("printing") is None and page.find("nav").is_displayed()
    assert page.run("return document.documentElement.dataset.theme") == theme
    assert not page.find("#flame").is_displayed()
    page.clean()


def test_what_the_system_prefers(me, browser):  # noqa: F811
    """Dark or light follows the system until a person chooses; nothing moves by itself."""
    path = program(me)

    def prefer(**features):
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": f"prefers-{k}", "value": v} for k, v in features.items()]},
        )

    try:
        theme = "return document.documentElement.dataset.theme"
        prefer(**{"color-scheme": "dark", "reduced-motion": "reduce"})
        page = View(browser, path)
        assert page.run(theme) == "dark"
        prefer(**{"color-scheme": "light"})
        page.until(lambda: page.run(theme) == "light")
        page.find("#theme").click()
        prefer(**{"color-scheme": "light"})
        assert page.run(theme) == "dark"
        page.press("1")
        page.press("+")
        assert page.run("return document.getAnimations().length") == 0
    finally:
        prefer(**{"color-scheme": "", "reduced-motion": ""})


def test_short_names(me, browser):  # noqa: F811
    """Where a function has a short name, people see that, and the whole one as a tooltip."""
    path = program(me)
    text = path.read_text()
    assert text.count('"name":"inner"') == 1
    path.write_text(text.replace('"name":"inner"', '"short":"in<…>","name":"inner"'))
    page = View(browser, path, "#functions")
    buttons = {
        b.text: b.get_attribute("title")
        for b in browser.find_elements("css selector", "#functions tbody button")
    }
    assert buttons == {"main": "main", "outer": "outer", "other": "other", "in<…>": "inner"}
    page.press("2")
    assert "in<…>" in page.texts("0")
    page.click("#flame canvas", 100, 3 * 18 + 9)
    assert page.find("#details b").text == "inner"
    for wanted in ("inner", "in<"):  # both names are found
        page.press("/")
        page.press(wanted)
        assert page.get("matches") == "1"
        page.press(ESCAPE)
    page.clean()
