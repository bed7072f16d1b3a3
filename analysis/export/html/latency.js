/* The histogram of one function, over all of the time and in one interval, and its heat map. */
const latency = (function () {
  const all = data.latency.functions, body = $("latency").querySelector("tbody"),
    canvas = $("heat"), choose = $("latency-function");
  const listed = Object.keys(all).map(Number)
    .sort((a, b) => functions[b].total - functions[a].total);
  const { slices, buckets } = data.latency;
  /* slice: the interval that is chosen; -1: none. bySlice: of each interval its calls by bucket. */
  let cells = null, low = 0, high = 0, slice = -1, bySlice = new Map(), changes = new Map();
  for (const i of listed) choose.append(element("option", shown(i), { value: i }));
  /* at first the function with the longest self time is chosen */
  if (listed.length)
    choose.value = listed.reduce((a, b) => functions[b].self > functions[a].self ? b : a);
  const first = choose.value;
  choose.addEventListener("change", () => {
    slice = -1;
    draw();
    page.remember(true);
  });

  /* Bucket b holds the calls that lasted from 2^(b - 1) ns up to, but not including, 2^b ns. */
  const lower = b => b ? 2 ** (b - 1) : 0;
  /* The first interval may begin before the first event. */
  const from = s => Math.max(0, data.latency.begin + s * data.latency.ns);
  const until = s => Math.min(meta.duration, data.latency.begin + (s + 1) * data.latency.ns);
  const sumOf = calls => [...calls.values()].reduce((a, b) => a + b, 0);

  function read(l) {
    cells = new Map();
    bySlice = new Map();
    changes = new Map();
    for (let k = 0; k < l.heat.length; k += 2) {
      const s = Math.floor(l.heat[k] / buckets);
      cells.set(l.heat[k], l.heat[k + 1]);
      if (!bySlice.has(s)) bySlice.set(s, new Map());
      bySlice.get(s).set(l.heat[k] % buckets, l.heat[k + 1]);
    }
    for (let k = 0; k < l.changes.length; k += 3)
      changes.set(l.changes[k],
        { distance: l.changes[k + 1] / data.latency.parts, changed: l.changes[k + 2] });
  }

  /* How far an interval is from those before, as people read it. */
  function distance(s) {
    const one = changes.get(s);
    return one ? one.distance.toFixed(2) + (one.changed ? ", changed" : "") : "";
  }

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
    read(l);
    if (!bySlice.has(slice)) slice = -1;
    const part = bySlice.get(slice) || new Map();
    const sum = sumOf(counts), inPart = sumOf(part),
      most = Math.max(...counts.values()) / sum,
      mostIn = slice < 0 ? 0 : Math.max(...part.values()) / inPart;
    $("latency-facts").textContent =
      `${plural(sum, "call")}, from ${time(f.min)} to ${time(f.max)}; ` +
      `p50 ${time(f.p50)}, p99 ${time(f.p99)}` +
      (f.untilTail ? `; ${untilTail(f)}` : "");
    $("latency-interval").textContent = slice < 0 ? "" :
      `From ${when(from(slice), data.latency.ns)} to ${when(until(slice), data.latency.ns)}: ` +
      plural(inPart, "call") +
      (changes.has(slice) ? `; distance to those before ${distance(slice)}` : "");
    $("latency-in").hidden = slice < 0;
    const rows = [];
    for (let b = low; b <= high; b++) {
      const calls = counts.get(b) || 0, tr = element("tr"), cell = element("td"),
        fill = element("span", null, { class: "fill" });
      const scale = 70 / Math.max(most, mostIn), inside = part.get(b) || 0;
      fill.style.width = calls ? `max(1px, ${scale * calls / sum}%)` : "0";
      cell.append(fill);
      const marks = [["p50", f.p50], ["p90", f.p90], ["p99", f.p99], ["p99.9", f.p999]]
        .filter(m => m[1] >= lower(b) && m[1] < lower(b + 1));
      if (marks.length)
        cell.append(element("span", "← " + marks.map(m => m[0]).join(", "), { class: "marks" }));
      if (slice >= 0) {
        const second = element("span", null, { class: "fill interval" });
        second.style.width = inside ? `max(1px, ${scale * inside / inPart}%)` : "0";
        cell.append(second);
      }
      tr.append(element("td", time(lower(b))), element("td", count(calls)),
        element("td", percent(calls, sum)),
        ...slice < 0 ? [] : [element("td", count(inside))], cell);
      rows.push(tr);
    }
    body.replaceChildren(...rows);
    drawHeat();
    page.table();
  }

  function drawHeat() {
    const width = Math.max(300, Math.min(1200, $("latency").clientWidth - 30)), gutter = 70;
    const row = 14, marks = 8, height = (high - low + 1) * row + marks + 20,
      w = (width - gutter) / slices, most = [...cells.values()].reduce((a, b) => Math.max(a, b), 1);
    canvas.style.width = width + "px";
    const c = context(canvas, width, height);
    c.font = font;
    for (const [at, n] of cells) {
      const s = Math.floor(at / buckets), b = at % buckets;
      c.fillStyle = heat(Math.log1p(n) / Math.log1p(most));
      c.fillRect(gutter + s * w, (high - b) * row, Math.max(1, w - 0.5), row - 1);
    }
    c.fillStyle = css("--mark");
    for (const [s, { changed }] of changes)
      if (changed) c.fillRect(gutter + s * w, height - 20 - marks + 2, Math.max(2, w - 0.5), 5);
    if (slice >= 0) {
      c.strokeStyle = css("--front");
      c.lineWidth = 2;
      c.strokeRect(gutter + slice * w - 1, 1, Math.max(2, w) + 1, height - 22);
    }
    c.fillStyle = css("--soft");
    for (let b = low; b <= high; b++) c.fillText(time(lower(b)), 0, (high - b) * row + 11);
    c.fillText(since(from(0)), gutter, height - 6);
    c.textAlign = "right";
    c.fillText(since(until(slices - 1)), width, height - 6);
    c.textAlign = "left";
    $("heat-legend").textContent =
      `A cell is ${time(data.latency.ns)} wide and a power of two high; ` +
      `dark is one call, bright up to ${count(most)}. Times go up. ` +
      "A mark below: the interval differs from those before by more than chance makes. " +
      "A click shows the histogram of an interval.";
    const sliceAt = e => Math.floor((e.offsetX - gutter) / w);
    canvas.onpointermove = e => {
      const s = sliceAt(e), b = high - Math.floor(e.offsetY / row);
      const n = s >= 0 && s < slices && b >= low && b <= high ? cells.get(s * buckets + b) : 0;
      tip(n ? `${plural(n, "call")} of ${time(lower(b))} to ${time(lower(b + 1))} ` +
        `that began from ${since(from(s))} on` +
        (changes.has(s) ? `; distance to those before: ${distance(s)}` : "") : null, e);
    };
    canvas.onpointerleave = () => tip(null);
    canvas.onclick = e => select(Math.max(-1, sliceAt(e)));
  }

  /* Chooses an interval; one without calls, or the same again: none. */
  function select(s) {
    slice = s !== slice && bySlice.has(s) ? s : -1;
    draw();
    page.remember();
  }

  /* The next interval with calls on one side. */
  function step(by) {
    const all = [...bySlice.keys()].sort((a, b) => a - b),
      to = slice < 0 ? (by > 0 ? all[0] : all[all.length - 1])
        : all[all.indexOf(slice) + by];
    if (to !== undefined) select(to);
  }

  function key(name) {
    if (name === "ArrowRight") step(1);
    else if (name === "ArrowLeft") step(-1);
    else if (name === "Escape" && slice >= 0) select(-1);
    else return false;
    return true;
  }

  function show(i) {
    if (!all[i]) return false;
    if (choose.value !== String(i)) slice = -1;
    choose.value = i;
    return true;
  }

  /* The heat map: how many calls began in each slice of time, and how long they lasted. */
  function table() {
    return {
      caption: "Calls over time: how many began when, how long they lasted, and how far that is " +
        "from those before, in powers of two",
      head: ["from", "calls", "at least", "less than", "distance"],
      rows: [...bySlice].sort((a, b) => a[0] - b[0]).map(([s, calls]) => ({
        cells: [since(from(s)), count(sumOf(calls)), time(lower(Math.min(...calls.keys()))),
          time(lower(Math.max(...calls.keys()) + 1)), distance(s)] })) };
  }

  const state = () => ({
    ...choose.value === first ? {} : { function: functions[choose.value].name },
    ...slice < 0 ? {} : { interval: slice } });

  function restore(params) {
    const wanted = params.get("function");
    const i = listed.find(one => functions[one].name === wanted);
    choose.value = i === undefined ? first : i;
    slice = params.get("interval") === null ? -1 : Number(params.get("interval"));
    draw();
  }

  return { draw, show, table, state, restore, key };
})();
