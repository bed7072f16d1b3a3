/* The page around the views: tabs, address, keys, search, tables, print, theme, details. */
const page = (function () {
  const views = {
    timeline, flame, latency, waiting,
    functions: { ...figures, key: () => false } };
  const names = ["timeline", "flame", "functions", "latency", ...waits ? ["waiting"] : []];
  let current = "timeline", chosen = false;

  function show(tab, focusIt = true) {
    settle();
    current = tab;
    document.body.dataset.tab = tab;
    for (const name of names) {
      $(name).hidden = name !== tab;
      $("tab-" + name).setAttribute("aria-selected", name === tab);
      $("tab-" + name).tabIndex = name === tab ? 0 : -1;
    }
    tip(null);
    views[tab].draw();
    const inner = $(tab).dataset.table ? $(tab).querySelector(".as-table")
      : views[tab].canvas || $(tab).querySelector(".scroll");
    if (focusIt) inner.focus({ preventScroll: true });
    remember(true);
  }

  /* The address: the view, and its state as the query behind it. A link leads to the same; back
   * and forward go from one to the next. A movement is one step, however many events it has. */
  let timer = 0, written = "", restoring = false;

  function address() {
    const params = new URLSearchParams(views[current].state());
    if ($("search").value) params.set("search", $("search").value);
    const query = params.toString();
    return "#" + current + (query ? "?" + query : "");
  }

  function write() {
    timer = 0;
    const now = address();
    if (now === written) return;
    written = now;
    try {
      history.pushState(null, "", now);
    } catch (e) { /* a page inside of another one may have no address */ }
  }

  function remember(soon) {
    if (restoring) return;
    clearTimeout(timer);
    if (soon) write(); else timer = setTimeout(write, 250);
  }

  /* Writes what is not written yet. */
  function settle() {
    if (timer) remember(true);
  }

  /* Does what is no step of its own. */
  function quietly(run) {
    const before = restoring;
    restoring = true;
    try {
      run();
    } finally {
      restoring = before;
    }
  }

  function restore() {
    const [name, query] = location.hash.slice(1).split("?", 2),
      params = new URLSearchParams(query || ""), tab = names.includes(name) ? name : "timeline";
    clearTimeout(timer);
    timer = 0;
    quietly(() => {
      if ($("search").value !== (params.get("search") || "")) search(params.get("search") || "");
      show(tab, document.activeElement === document.body || tab !== current);
      views[tab].restore(params);
    });
    written = address();
  }

  /* Describes the selected call. */
  function details(fn, what, where, more) {
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
        `self ${time(f.self)}` + (f.max === undefined ? ""
        : `, p50 ${time(f.p50)}, p99 ${time(f.p99)}, max ${time(f.max)}`)));
    if (more) panel.append(element("p", more));
    if (f.untilTail)
      panel.append(element("p", "Times are " + untilTail(f) +
        ": who it jumps to is not known, or has no probes."));
    if (current !== "flame")
      panel.append(button("Flame graph", () => { show("flame"); flame.show(fn); }));
    if (Object.hasOwn(data.latency.functions, fn))
      panel.append(button("Latency", () => { latency.show(fn); show("latency"); }));
    panel.append(button("Search for it", () => search(f.name)));
  }

  /* The flame graph of what a function waits for. */
  function waitsOf(fn) {
    $("flame-of").value = "off-cpu";
    $("flame-of").dispatchEvent(new Event("change"));
    show("flame");
    if (!flame.show(fn)) details(fn, "It was never off the CPU, as far as is known.", "");
  }

  /* Describes what is selected, and is no call. */
  function note(title, ...lines) {
    const first = element("p");
    first.append(element("b", title));
    document.body.dataset.selected = title;
    $("details").replaceChildren(first, ...lines.map(line => element("p", line)));
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
    remember();
  }

  /* What the canvas of the view shows, as a table. Each view calls this when it has drawn. */
  const open = new Set(), shownTables = new Map();

  function table() {
    if (!open.has(current) || !views[current].table) return;
    const box = $(current).querySelector(".as-table"), now = views[current].table();
    const content = JSON.stringify([now.caption, now.rows.map(row => row.cells)]);
    if (shownTables.get(current) === content) return; /* whoever reads it stays where they are */
    shownTables.set(current, content);
    fill(box, now, row => row.fn === undefined ? undefined : functions[row.fn].name);
  }

  function asTable(on) {
    const box = $(current).querySelector(".as-table");
    if (!box) return;
    if (on) open.add(current); else open.delete(current);
    $(current).dataset.table = on ? "yes" : "";
    box.hidden = !on;
    $(current).querySelector(".to-table").setAttribute("aria-pressed", on);
    views[current].draw();
  }

  function theme(value) {
    document.documentElement.dataset.theme = value;
    views[current].draw();
  }

  function help(on) {
    $("help").hidden = !on;
    $("keys").setAttribute("aria-expanded", on);
    views[current].draw();
  }

  /* On paper all views stand one below the other, in dark text on white. */
  let before = "", unfolded = false;
  function print(on) {
    const body = document.body;
    if (on === Boolean(body.dataset.printing)) return;
    if (on) {
      before = document.documentElement.dataset.theme;
      body.dataset.printing = "yes";
      unfolded = $("processes").open;
      $("processes").open = true;
      $("timeline").querySelector("canvas").style.height =
        Math.min(timeline.fullHeight(), 1600) + "px";
    } else {
      delete body.dataset.printing;
      $("processes").open = unfolded;
      $("timeline").querySelector("canvas").style.height = "";
    }
    document.documentElement.dataset.theme = on ? "light" : before;
    quietly(() => {
      for (const name of on ? names : [current]) views[name].draw();
    });
  }

  /* Of several processes: each one. */
  function listProcesses() {
    const some = data.processes, box = $("processes"), made = element("table"),
      head = element("tr"), body = element("tbody"), thead = element("thead");
    const names = some.slice(0, 8).map(p => `${p.name} ${p.pid}`).join(", ");
    const columns = [["process", p => `${p.pid} ${p.name}`], ["threads", p => count(p.threads)],
      ["events", p => count(p.events)], ["lost", p => count(p.lost)],
      ["sites", p => p.sites ? count(p.sites) : ""], ["stops", p => count(p.stops)],
      ["longest stop", p => p.stops ? time(p.longest) : ""], ["command", p => p.command || ""]];
    box.querySelector("summary").textContent = `${count(meta.processes)} processes: ${names}` +
      (meta.processes > 8 ? ` and ${count(meta.processes - 8)} more` : "");
    for (const [name] of columns) head.append(element("th", name, { scope: "col" }));
    thead.append(head);
    for (const p of some) {
      const tr = element("tr");
      for (const [, cell] of columns) tr.append(element("td", cell(p)));
      body.append(tr);
    }
    made.append(thead, body);
    box.querySelector("div").append(made);
    if (some.length < meta.processes)
      box.querySelector("div").append(
        element("p", `${count(meta.processes - some.length)} more are not listed.`));
    box.hidden = false;
  }

  /* What the page is about: the command that all processes have, or how they were chosen. */
  function subject() {
    const commands = new Set(data.processes.map(p => p.command)), names = [
      ...new Set(data.processes.map(p => p.name))];
    if (data.processes.length < 2 && meta.processes < 2) return meta.command || meta.dir;
    if (commands.size === 1 && data.processes[0].command) return data.processes[0].command;
    return names.slice(0, 4).join(", ") + (names.length > 4 ? ", …" : "") +
      (meta.service ? ` (${meta.service})` : "");
  }

  function begin() {
    const notes = [], several = meta.processes > 1;
    const stops = data.processes.reduce((sum, p) => sum + p.stops, 0),
      longest = Math.max(0, ...data.processes.map(p => p.longest));
    document.title = "iprobe: " + subject();
    $("title").textContent = subject();
    $("facts").textContent = [
      meta.host && `on ${meta.host}`,
      several ? meta.service && `chosen by ${meta.service}` : meta.pid && `process ${meta.pid}`,
      meta.start,
      `recorded for ${time(meta.recorded)}` + (meta.begin && meta.events
        ? `, first event after ${time(meta.begin)}` : ""),
      plural(meta.events, "event"), plural(meta.threads, "thread"),
      plural(nfunctions, "function") +
        (meta.probed > nfunctions ? ` of ${count(meta.probed)}` : ""),
      stops && `${plural(stops, "stop")}, none longer than ${time(longest)}`,
    ].filter(Boolean).join(" · ");
    if (several) listProcesses();
    if (meta.lost) notes.push(`${plural(meta.lost, "event")} lost`);
    if (meta.invalid) notes.push(`${plural(meta.invalid, "word")} of its rings were no records`);
    if (meta.damaged) notes.push("the trace is damaged: what follows the damage is not here");
    if (meta.late) notes.push(`times are coarse: up to ${time(meta.late)} late`);
    if (meta.other) notes.push(`compared with ${meta.other}`);
    if (meta.summed) notes.push(shortCalls.note(meta.summed));
    if (meta.deeper) notes.push(`${count(meta.deeper)} calls are deeper than the timeline goes`);
    if (meta.beyond)
      notes.push(`${count(meta.beyond)} calls are not in the timeline: there are too many threads`);
    if (meta.unranked)
      notes.push(`${plural(meta.unranked, "function")} with a shorter total ` +
        `${meta.unranked === 1 ? "has" : "have"} no histogram`);
    $("notes").textContent = notes.join(" · ");
    const dark = matchMedia("(prefers-color-scheme: dark)");
    document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
    dark.addEventListener("change", () => {
      if (!chosen) theme(dark.matches ? "dark" : "light");
    });
    if (waits) {
      notes.push(...waits.notes());
      $("notes").textContent = notes.join(" · ");
      $("tab-waiting").hidden = $("help-waits").hidden = false;
      $("help-views").textContent = "1 2 3 4 5";
      waits.legend($("states"));
    } else for (const id of ["waiting", "tab-waiting", "states"]) $(id).remove();
    for (const name of names) $("tab-" + name).addEventListener("click", () => show(name));
    document.querySelector("[role=tablist]").addEventListener("keydown", tabKey);
    $("search").addEventListener("input", e => search(e.target.value));
    $("theme").addEventListener("click", () => {
      chosen = true;
      theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    });
    $("keys").addEventListener("click", () => help($("help").hidden));
    for (const b of document.querySelectorAll(".to-table"))
      b.addEventListener("click", () => asTable(!open.has(current)));
    /* the description of the new selection may need more lines than that of the old one */
    const resized = new ResizeObserver(() => {
      if (!document.body.dataset.printing) views[current].draw();
    });
    resized.observe(document.querySelector("main"));
    resized.observe(timeline.canvas);
    document.addEventListener("keydown", key);
    addEventListener("popstate", restore);
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
    restore();
    document.body.dataset.ready = "yes";
  }

  /* The keys of a list of tabs. */
  function tabKey(e) {
    const at = names.indexOf(current), last = names.length - 1;
    const to = { ArrowLeft: at ? at - 1 : last, ArrowRight: at < last ? at + 1 : 0, Home: 0,
      End: last }[e.key];
    if (to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    show(names[to], false);
    $("tab-" + names[to]).focus();
    e.preventDefault();
    e.stopPropagation();
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
    } else if (/^[1-9]$/.test(e.key) && names[e.key - 1]) show(names[e.key - 1]);
    else if (e.key === "/") $("search").focus();
    else if (e.key === "?") help($("help").hidden);
    else if (e.key === "t") asTable(!open.has(current));
    else if (["BUTTON", "SUMMARY"].includes(e.target.tagName) && e.key === "Enter") return;
    else if (!views[current].key(e.key)) return;
    e.preventDefault();
  }

  /* the views use these functions as soon as they are drawn */
  return { details, note, waits: waitsOf, table, remember, quietly, function: fromTable,
    begin };
})();
page.begin();
