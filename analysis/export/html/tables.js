/* The table of the functions' figures, and the histogram of one function. */
const figures = (function () {
  const columns = [
    ["name", "function"], ["module", "module"], ["calls", "calls", count],
    ["total", "total", time], ["self", "self", time], ["min", "min", time], ["avg", "avg", time],
    ["p50", "p50", time], ["p90", "p90", time], ["p99", "p99", time], ["p999", "p99.9", time],
    ["max", "max", time], ["threads", "threads", count]];
  const head = $("functions").querySelector("thead"), body = $("functions").querySelector("tbody");
  let by = "total", down = true, rowsMost = 300;
  const downAtFirst = key => key !== "name" && key !== "module";
  const row = element("tr");
  for (const [key, label] of columns) {
    const th = element("th", null, { scope: "col", "data-key": key }),
      button = element("button", label);
    button.addEventListener("click", () => {
      down = by === key ? !down : downAtFirst(key);
      by = key;
      draw();
      page.remember(true);
    });
    th.append(button);
    row.append(th);
  }
  head.append(row);

  function draw() {
    const most = document.body.dataset.printing ? 60 : rowsMost;
    const list = functions.map((f, i) => i)
      .filter(i => functions[i].calls !== undefined && (!matches || matches[i]));
    const order = down ? -1 : 1;
    list.sort((a, b) => {
      const x = functions[a][by], y = functions[b][by];
      return order * (typeof x === "string" ? x.localeCompare(y) : (x || 0) - (y || 0));
    });
    for (const th of head.querySelectorAll("th"))
      th.setAttribute("aria-sort",
        th.dataset.key !== by ? "none" : down ? "descending" : "ascending");
    body.replaceChildren(...list.slice(0, most).map(i => {
      const tr = element("tr");
      for (const [key, , format] of columns) {
        const td = element("td");
        if (key === "name") {
          const button = element("button", shown(i), { title: functions[i].name });
          button.addEventListener("click", () => page.function(i));
          td.append(button);
          if (functions[i].untilTail)
            td.append(element("span", " " + untilTail(functions[i]), { class: "marks" }));
        } else td.textContent = format ? format(functions[i][key]) : functions[i][key];
        tr.append(td);
      }
      return tr;
    }));
    $("more").hidden = list.length <= most;
    $("more").textContent = document.body.dataset.printing
      ? `${count(list.length - most)} more are not printed` : `show all ${count(list.length)}`;
  }

  $("more").addEventListener("click", () => {
    rowsMost = Infinity;
    draw();
  });

  function state() {
    return by === "total" && down ? {} : { by, order: down ? "down" : "up" };
  }

  function restore(params) {
    const wanted = columns.find(([key]) => key === params.get("by"));
    by = wanted ? wanted[0] : "total";
    down = params.get("order") ? params.get("order") === "down" : downAtFirst(by);
    draw();
  }

  return { draw, state, restore };
})();

/* The table of what functions wait for; a click on one shows its waits in the flame graph. */
const waiting = (function () {
  if (!waits) return null;
  const columns = [
    ["name", "function"], ["calls", "calls", count], ["elapsed", "elapsed", time],
    ["cpu", "on a CPU", time], ["runqueue", "run queue", time], ["blocked", "blocked", time],
    ["unknown", "unknown", time], ...(data.waits.idle ? [["idle", "idle", time]] : []),
    ["objects", "waits for"]];
  const head = $("waiting").querySelector("thead"), body = $("waiting").querySelector("tbody");
  let by = "blocked", down = true;
  const rows = [];
  const list = data.waits.functions;
  for (let i = 0; i < list.length; i++) {
    const [fn, calls, elapsed, cpu, runqueue, unknown] = list.slice(i, i + 6), objects = [];
    for (i += 6; list[i] >= 0; i += 3)
      objects.push({ name: waits.object(list[i]), ns: list[i + 1], times: list[i + 2] });
    const idle = data.waits.functions_idle[rows.length];
    rows.push({ fn, name: shown(fn), calls, elapsed, cpu, runqueue, unknown, idle, objects,
      blocked: Math.max(0, elapsed - cpu - runqueue - unknown - idle) });
  }
  const row = element("tr");
  for (const [key, label] of columns) {
    const th = element("th", null, { scope: "col", "data-key": key }),
      button = element("button", label);
    button.addEventListener("click", () => {
      down = by === key ? !down : key !== "name";
      by = key;
      draw();
      page.remember(true);
    });
    th.append(button);
    row.append(th);
  }
  head.append(row);

  const value = (r, key) => key === "objects" ? r.objects.length : r[key];

  function draw() {
    const most = document.body.dataset.printing ? 60 : Infinity, order = down ? -1 : 1;
    const wanted = r => !matches || matches[r.fn] ||
      r.objects.some(o => matches[nfunctions + data.waits.objects.indexOf(o.name)]);
    const found = rows.filter(wanted).sort((a, b) => by === "name"
      ? order * a.name.localeCompare(b.name) : order * (value(a, by) - value(b, by)));
    for (const th of head.querySelectorAll("th"))
      th.setAttribute("aria-sort",
        th.dataset.key !== by ? "none" : down ? "descending" : "ascending");
    body.replaceChildren(...found.slice(0, most).map(r => {
      const tr = element("tr");
      for (const [key, , format] of columns) {
        const td = element("td");
        if (key === "name") {
          const button = element("button", r.name, { title: functions[r.fn].name });
          button.addEventListener("click", () => page.waits(r.fn));
          td.append(button);
        } else if (key === "objects") {
          const items = element("ul");
          for (const o of r.objects) items.append(element("li", waits.list([o], 1)));
          td.append(items);
        } else td.textContent = format(r[key]);
        tr.append(td);
      }
      return tr;
    }));
    const left = data.waits.functions_left_out + Math.max(0, found.length - most);
    $("waiting-left").textContent = left ? `${count(left)} more are not shown.` : "";
  }

  const state = () => by === "blocked" && down ? {} : { by, order: down ? "down" : "up" };

  function restore(params) {
    const wanted = columns.find(([key]) => key === params.get("by"));
    by = wanted ? wanted[0] : "blocked";
    down = params.get("order") ? params.get("order") === "down" : by !== "name";
    draw();
  }

  return { draw, state, restore, key: () => false };
})();
