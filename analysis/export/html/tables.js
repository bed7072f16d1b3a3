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

const latency = (function () {
  const all = data.latency.functions, body = $("latency").querySelector("tbody"),
    canvas = $("heat"), choose = $("latency-function");
  const listed = Object.keys(all).map(Number)
    .sort((a, b) => functions[b].total - functions[a].total);
  let cells = null, low = 0, high = 0;
  for (const i of listed) choose.append(element("option", shown(i), { value: i }));
  /* at first the function with the longest self time is chosen */
  if (listed.length)
    choose.value = listed.reduce((a, b) => functions[b].self > functions[a].self ? b : a);
  const first = choose.value;
  choose.addEventListener("change", () => {
    draw();
    page.remember(true);
  });

  /* Bucket b holds the calls that lasted from 2^(b - 1) ns up to, but not including, 2^b ns. */
  const lower = b => b ? 2 ** (b - 1) : 0;

  function draw() {
    const i = Number(choose.value), f = functions[i], l = all[i];
    if (!l) {
      $("latency-facts").textContent = "No call has ended.";
      return;
    }
    const counts = new Map();
    for (let k = 0; k < l.buckets.length; k += 2) counts.set(l.buckets[k], l.buckets[k + 1]);
    low = Math.min(...counts.keys());
    high = Math.max(...counts.keys());
    const sum = [...counts.values()].reduce((a, b) => a + b, 0),
      most = Math.max(...counts.values());
    $("latency-facts").textContent =
      `${plural(sum, "call")}, from ${time(f.min)} to ${time(f.max)}; ` +
      `p50 ${time(f.p50)}, p99 ${time(f.p99)}` +
      (f.untilTail ? `; ${untilTail(f)}` : "");
    const rows = [];
    for (let b = low; b <= high; b++) {
      const calls = counts.get(b) || 0, tr = element("tr"), cell = element("td"),
        fill = element("span", null, { class: "fill" });
      fill.style.width = calls ? `max(1px, ${70 * calls / most}%)` : "0";
      cell.append(fill);
      const marks = [["p50", f.p50], ["p90", f.p90], ["p99", f.p99], ["p99.9", f.p999]]
        .filter(m => m[1] >= lower(b) && m[1] < lower(b + 1));
      if (marks.length)
        cell.append(element("span", "← " + marks.map(m => m[0]).join(", "), { class: "marks" }));
      tr.append(element("td", time(lower(b))), element("td", count(calls)),
        element("td", percent(calls, sum)), cell);
      rows.push(tr);
    }
    body.replaceChildren(...rows);
    drawHeat(l);
    page.table();
  }

  function drawHeat(l) {
    const width = Math.max(300, Math.min(1200, $("latency").clientWidth - 30)), gutter = 70,
      slices = data.latency.slices;
    const row = 14, height = (high - low + 1) * row + 20, w = (width - gutter) / slices;
    canvas.style.width = width + "px";
    const c = context(canvas, width, height);
    let most = 1;
    c.font = font;
    cells = new Map();
    for (let k = 0; k < l.heat.length; k += 2) {
      cells.set(l.heat[k], l.heat[k + 1]);
      most = Math.max(most, l.heat[k + 1]);
    }
    for (const [at, n] of cells) {
      const s = Math.floor(at / data.latency.buckets), b = at % data.latency.buckets;
      c.fillStyle = heat(Math.log1p(n) / Math.log1p(most));
      c.fillRect(gutter + s * w, (high - b) * row, Math.max(1, w - 0.5), row - 1);
    }
    c.fillStyle = css("--soft");
    for (let b = low; b <= high; b++) c.fillText(time(lower(b)), 0, (high - b) * row + 11);
    c.fillText(since(0), gutter, height - 6);
    c.textAlign = "right";
    c.fillText(since(meta.duration), width, height - 6);
    c.textAlign = "left";
    $("heat-legend").textContent =
      `A cell is ${time(meta.duration / slices)} wide and a power of two high; ` +
      `dark is one call, bright up to ${count(most)}. Times go up.`;
    canvas.onpointermove = e => {
      const s = Math.floor((e.offsetX - gutter) / w), b = high - Math.floor(e.offsetY / row);
      const n = s >= 0 && s < slices && b >= low && b <= high
        ? cells.get(s * data.latency.buckets + b) : 0;
      page.tip(n ? `${plural(n, "call")} of ${time(lower(b))} to ${time(lower(b + 1))} ` +
        `that began from ${since(s * meta.duration / slices)} on` : null, e);
    };
    canvas.onpointerleave = () => page.tip(null);
  }

  function show(i) {
    if (!all[i]) return false;
    choose.value = i;
    return true;
  }

  /* The heat map: how many calls began in each slice of time, and how long they lasted. */
  function table() {
    const slices = new Map(), buckets = data.latency.buckets;
    for (const [at, n] of cells || []) {
      const s = Math.floor(at / buckets), b = at % buckets,
        one = slices.get(s) || { n: 0, low: b, high: b };
      slices.set(s, { n: one.n + n, low: Math.min(one.low, b), high: Math.max(one.high, b) });
    }
    return {
      caption: "Calls over time: how many began when, and how long they lasted",
      head: ["from", "calls", "at least", "less than"],
      rows: [...slices].sort((a, b) => a[0] - b[0]).map(([s, one]) => ({
        cells: [since(s * meta.duration / data.latency.slices), count(one.n), time(lower(one.low)),
          time(lower(one.high + 1))] })) };
  }

  const state = () => choose.value === first ? {} : { function: functions[choose.value].name };

  function restore(params) {
    const wanted = params.get("function");
    const i = listed.find(one => functions[one].name === wanted);
    choose.value = i === undefined ? first : i;
    draw();
  }

  return { draw, show, table, state, restore, key: () => false };
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
