/* The page around the views: tabs, keys, search, theme, details. */
const page = (function () {
  const views = { timeline, flame, functions: { draw: figures.draw, key: () => false }, latency };
  const names = Object.keys(views);
  let current = "timeline";

  function show(tab) {
    current = tab;
    document.body.dataset.tab = tab;
    for (const name of names) {
      $(name).hidden = name !== tab;
      $("tab-" + name).setAttribute("aria-selected", name === tab);
    }
    tip(null);
    views[tab].draw();
    if (views[tab].canvas) views[tab].canvas.focus({ preventScroll: true });
  }

  function tip(text, e) {
    $("tip").hidden = !text;
    if (!text) return;
    $("tip").textContent = text;
    const box = $("tip").getBoundingClientRect();
    $("tip").style.left = Math.max(0, Math.min(e.clientX + 12, innerWidth - box.width - 4)) + "px";
    $("tip").style.top = (e.clientY + 18 + box.height > innerHeight
      ? e.clientY - box.height - 8 : e.clientY + 18) + "px";
  }

  function button(label, run) {
    const b = element("button", label);
    b.addEventListener("click", run);
    return b;
  }

  /* Describes the selected call. */
  function details(fn, what, where) {
    const panel = $("details");
    delete document.body.dataset.selected;
    if (fn === undefined) {
      panel.replaceChildren(element("p", "Click a call to see what it is."));
      return;
    }
    const f = functions[fn], title = element("p");
    document.body.dataset.selected = f.name;
    title.append(element("b", f.name),
      ` ${f.module || ""}${f.file ? ", " + f.file + (f.line ? ":" + f.line : "") : ""}`);
    panel.replaceChildren(title, element("p", what), element("p", where));
    if (f.calls !== undefined)
      panel.append(element("p", `All calls: ${count(f.calls)}, total ${time(f.total)}, ` +
        `self ${time(f.self)}, p50 ${time(f.p50)}, p99 ${time(f.p99)}, max ${time(f.max)}`));
    if (f.untilTail)
      panel.append(element("p", "Times are " + untilTail(f) +
        ": who it jumps to is not known, or has no probes."));
    if (current !== "flame")
      panel.append(button("Flame graph", () => { show("flame"); flame.show(fn); }));
    if (latency.show(fn))
      panel.append(button("Latency", () => { latency.show(fn); show("latency"); }));
    panel.append(button("Search for it", () => search(f.name)));
  }

  function fromTable(fn) {
    details(fn, "", "");
    if (latency.show(fn)) show("latency");
  }

  function search(text) {
    $("search").value = text;
    $("found").textContent = find(text);
    document.body.dataset.matches = matches ? matches.filter(Boolean).length : "";
    views[current].draw();
  }

  function theme(value) {
    document.documentElement.dataset.theme = value;
    views[current].draw();
  }

  function help(open) {
    $("help").hidden = !open;
    $("keys").setAttribute("aria-expanded", open);
    views[current].draw();
  }

  function begin() {
    const notes = [];
    document.title = "iprobe: " + (meta.command || meta.dir);
    $("title").textContent = meta.command || meta.dir;
    $("facts").textContent = [
      meta.host && `on ${meta.host}`, meta.pid && `process ${meta.pid}`, meta.start,
      time(meta.duration), plural(meta.events, "event"), plural(meta.threads, "thread"),
      plural(functions.length, "function")].filter(Boolean).join(" · ");
    if (meta.lost) notes.push(`${plural(meta.lost, "event")} lost`);
    if (meta.invalid) notes.push(`${plural(meta.invalid, "word")} of its rings were no records`);
    if (meta.damaged) notes.push("the trace is damaged: what follows the damage is not here");
    if (meta.late) notes.push(`times are coarse: up to ${time(meta.late)} late`);
    if (meta.other) notes.push(`compared with ${meta.other}`);
    if (meta.summed)
      notes.push(
        `${count(meta.summed)} short calls are summed up in the timeline, by slices of time`);
    if (meta.deeper) notes.push(`${count(meta.deeper)} calls are deeper than the timeline goes`);
    if (meta.beyond)
      notes.push(`${count(meta.beyond)} calls are not in the timeline: there are too many threads`);
    if (meta.unranked)
      notes.push(`${plural(meta.unranked, "function")} with a shorter total ` +
        `${meta.unranked === 1 ? "has" : "have"} no histogram`);
    $("notes").textContent = notes.join(" · ");
    document.documentElement.dataset.theme =
      matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    for (const name of names) $("tab-" + name).addEventListener("click", () => show(name));
    $("search").addEventListener("input", e => search(e.target.value));
    $("theme").addEventListener("click", () =>
      theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
    $("keys").addEventListener("click", () => help($("help").hidden));
    /* the description of the new selection may need more lines than that of the old one */
    new ResizeObserver(() => views[current].draw()).observe(document.querySelector("main"));
    document.addEventListener("keydown", key);
    show("timeline");
    document.body.dataset.ready = "yes";
  }

  function key(e) {
    const typing = ["INPUT", "SELECT"].includes(e.target.tagName);
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "Escape" && $("search").value) {
      search("");
      if (typing) views[current].canvas?.focus();
    } else if (typing) {
      if (e.key === "Enter" && current === "timeline" && e.target.id === "search")
        timeline.key("n");
      return;
    } else if (e.key >= "1" && e.key <= "4") show(names[e.key - 1]);
    else if (e.key === "/") $("search").focus();
    else if (e.key === "?") help($("help").hidden);
    else if (e.target.tagName === "BUTTON" && e.key === "Enter") return;
    else if (!views[current].key(e.key)) return;
    e.preventDefault();
  }

  /* the views use these functions as soon as they are drawn */
  return { details, tip, function: fromTable, begin };
})();
page.begin();
