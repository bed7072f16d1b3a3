/* The page around one view: address, keys, search, theme, table, print, details. */
const page = (function () {
  let timer = 0, written = "", restoring = false, asTable = false, shownTable = "", before = "",
    chosen = false;

  /* The address has the state of the view: a link leads to the same, and back and forward go from
   * one to the next. A movement is one step, however many events it has. */
  function address() {
    const params = new URLSearchParams(view.state());
    if ($("search") && $("search").value) params.set("search", $("search").value);
    const query = params.toString();
    return query ? "#" + query : "#";
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

  function restore() {
    const params = new URLSearchParams(location.hash.slice(1));
    clearTimeout(timer);
    timer = 0;
    restoring = true;
    try {
      if ($("search")) {
        $("search").value = params.get("search") || "";
        find($("search").value);
      }
      view.restore(params);
    } finally {
      restoring = false;
    }
    written = address();
  }

  /* Describes what is selected; "": nothing is. */
  function note(title, ...lines) {
    const first = element("p");
    document.body.dataset.selected = title;
    if (title) first.append(element("b", title));
    else first.textContent = "Click something to see what it is.";
    $("details").replaceChildren(first,
      ...lines.filter(Boolean).map(line => element("p", line)));
  }

  /* What the canvas shows, as a table. The view calls this when it has drawn. */
  function table() {
    if (!asTable) return;
    const now = view.table(), content = JSON.stringify([now.caption, now.rows.map(r => r.cells)]);
    if (shownTable === content) return; /* whoever reads it stays where they are */
    shownTable = content;
    fill($("view").querySelector(".as-table"), now, row => row.name);
  }

  function showTable(on) {
    asTable = on;
    $("view").dataset.table = on ? "yes" : "";
    $("view").querySelector(".as-table").hidden = !on;
    $("view").querySelector(".to-table").setAttribute("aria-pressed", on);
    view.draw();
  }

  function find(text) {
    const wanted = matcher(text);
    if (wanted === undefined) {
      $("found").textContent = "no regular expression";
      view.search(null);
      return;
    }
    const n = view.search(wanted);
    $("found").textContent = !wanted ? "" : n ? plural(n, "function") : "nothing matches";
    document.body.dataset.matches = wanted ? n : "";
  }

  function theme(value) {
    document.documentElement.dataset.theme = value;
    view.draw();
  }

  function help(on) {
    $("help").hidden = !on;
    $("keys").setAttribute("aria-expanded", on);
    view.draw();
  }

  /* On paper: dark text on white, and all that scrolls in its full length. */
  function print(on) {
    const body = document.body;
    if (on === Boolean(body.dataset.printing)) return;
    if (on) {
      before = document.documentElement.dataset.theme;
      body.dataset.printing = "yes";
    } else delete body.dataset.printing;
    theme(on ? "light" : before);
  }

  function key(e) {
    const typing = ["INPUT", "SELECT"].includes(e.target.tagName);
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "Escape" && $("search") && $("search").value) {
      $("search").value = "";
      find("");
      view.draw();
      remember();
      if (typing) view.canvas.focus();
    } else if (typing) return;
    else if (e.key === "/" && $("search")) $("search").focus();
    else if (e.key === "?") help($("help").hidden);
    else if (e.key === "t") showTable(!asTable);
    else if (["BUTTON", "SUMMARY"].includes(e.target.tagName) && e.key === "Enter") return;
    else if (!view.key(e.key)) return;
    e.preventDefault();
  }

  function begin() {
    document.title = "iprobe: " + view.title();
    $("title").textContent = view.title();
    $("facts").textContent = [meta.command || meta.dir, meta.host && `on ${meta.host}`,
      meta.pid && `process ${meta.pid}`, meta.start, ...view.facts()].filter(Boolean).join(" · ");
    $("notes").textContent = view.notes().join(" · ");
    const dark = matchMedia("(prefers-color-scheme: dark)");
    document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
    view.begin();
    dark.addEventListener("change", () => {
      if (!chosen) theme(dark.matches ? "dark" : "light");
    });
    if ($("search")) $("search").addEventListener("input", e => {
      find(e.target.value);
      view.draw();
      remember();
    });
    $("theme").addEventListener("click", () => {
      chosen = true;
      theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    });
    $("keys").addEventListener("click", () => help($("help").hidden));
    $("view").querySelector(".to-table").addEventListener("click", () => showTable(!asTable));
    const resized = new ResizeObserver(() => {
      if (!document.body.dataset.printing) view.draw();
    });
    resized.observe(document.querySelector("main"));
    document.addEventListener("keydown", key);
    addEventListener("popstate", restore);
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
    note("");
    restore();
    document.body.dataset.ready = "yes";
  }

  return { remember, note, table, begin };
})();
page.begin();
