/* The histogram of F0 on log-log axes: its peaks with their numbers, and which calls are
 * searched. */
const peaks = (function () {
  const canvas = $("view").querySelector("canvas"), LEFT = 64, TOP = 30, BOTTOM = 46, HEIGHT = 260;
  const bins = result.buckets, most = Math.max(1, ...bins.map(b => b.calls));
  const begin = b => Math.log2(b.from_ns || Math.max(0.5, b.to_ns / 2));
  const end = b => b.to_ns === null ? begin(b) + 1 : Math.log2(b.to_ns);
  const low = bins.length ? begin(bins[0]) : 0,
    high = bins.length ? end(bins[bins.length - 1]) : 1;
  let selected = -1; /* a bin */

  /* Durations that were asked for, and percentiles, may lie within a bin. */
  const overlaps = (bin, range) => Boolean(range) &&
    (bin.to_ns === null || bin.to_ns > range.from_ns) &&
    (range.to_ns === null || bin.from_ns < range.to_ns);
  const isSearched = bin => overlaps(bin, result.searched);
  const isUsual = bin => !isSearched(bin) && overlaps(bin, result.usual);
  /* The peaks cover all calls, and have no gaps between them. */
  const peakOf = bin => result.peaks.find(p =>
    bin.from_ns >= p.from_ns && (p.to_ns === null || bin.from_ns < p.to_ns));
  const isChosen = p => p.number !== null && p.number === result.peak;

  const width = () => Math.max(320, Math.min(1100, canvas.parentElement.clientWidth - 24));
  const x = log => LEFT + (log - low) / (high - low) * (width() - LEFT - 10);
  /* a single call has a height, too */
  const y = calls => HEIGHT - BOTTOM -
    Math.log(2 * calls) / Math.log(2 * most) * (HEIGHT - BOTTOM - TOP);

  /* Marks at powers of ten, or of two where there are few of these. */
  function marks() {
    const some = [], few = (high - low) / Math.log2(10) < 2;
    for (let ns = few ? 2 ** Math.ceil(low) : 10 ** Math.ceil(low / Math.log2(10) - 1e-9);
      Math.log2(ns) <= high + 1e-9; ns *= few ? 2 : 10)
      some.push(ns);
    return some;
  }

  function drawAxes(c) {
    const bottom = HEIGHT - BOTTOM;
    c.strokeStyle = css("--line");
    c.fillStyle = css("--soft");
    for (let n = 1; n <= most; n *= 10) {
      c.beginPath();
      c.moveTo(LEFT, Math.round(y(n)) + 0.5);
      c.lineTo(width(), Math.round(y(n)) + 0.5);
      c.stroke();
      c.textAlign = "right";
      c.fillText(count(n), LEFT - 6, y(n) + 4);
    }
    c.textAlign = "center";
    for (const ns of marks()) {
      const at = x(Math.log2(ns));
      c.beginPath();
      c.moveTo(at, bottom);
      c.lineTo(at, bottom + 5);
      c.stroke();
      c.fillText(time(ns).replace(/\.0+ /, " "), Math.min(at, width() - 28), bottom + 17);
    }
    c.textAlign = "left";
    c.fillText("calls", 4, 14);
  }

  /* A range of durations as a line below the axis, with its name. */
  function drawRange(c, range, name, colour, row) {
    if (!range) return;
    const left = Math.max(LEFT, x(Math.max(low, Math.log2(range.from_ns || 1)))),
      right = Math.min(x(high), range.to_ns === null ? x(high) : x(Math.log2(range.to_ns))),
      at = HEIGHT - BOTTOM + 24 + 11 * row;
    c.fillStyle = colour;
    c.fillRect(left, at, Math.max(3, right - left), 4);
    c.fillStyle = css("--front");
    const w = c.measureText(name).width;
    if (right + 6 + w < width()) c.fillText(name, right + 6, at + 6);
    else {
      c.textAlign = "right";
      c.fillText(name, left - 6, at + 6);
      c.textAlign = "left";
    }
  }

  function drawPeaks(c) {
    c.textAlign = "center";
    for (const p of result.peaks) {
      const bin = bins.find(b => b.from_ns === p.top_ns);
      if (!bin) continue;
      const at = (x(begin(bin)) + x(end(bin))) / 2, top = y(bin.calls) - 12;
      if (p.refused) {
        c.fillStyle = css("--soft");
        c.fillText("too few", at, top + 8);
        continue;
      }
      c.beginPath();
      c.arc(at, top, 9, 0, 2 * Math.PI);
      c.fillStyle = isChosen(p) ? css("--mark") : css("--back");
      c.fill();
      c.strokeStyle = css(isChosen(p) ? "--mark" : "--front");
      c.lineWidth = 1.5;
      c.stroke();
      c.lineWidth = 1;
      c.fillStyle = css(isChosen(p) ? "--back" : "--front");
      c.fillText(String(p.number), at, top + 4);
    }
    c.textAlign = "left";
    c.strokeStyle = css("--soft");
    c.setLineDash([3, 3]);
    for (const p of result.peaks.slice(1)) {
      const at = Math.round(x(Math.log2(p.from_ns))) + 0.5;
      c.beginPath();
      c.moveTo(at, TOP - 10);
      c.lineTo(at, HEIGHT - BOTTOM);
      c.stroke();
    }
    c.setLineDash([]);
  }

  function draw() {
    if (!canvas.parentElement.clientWidth) return;
    canvas.style.width = width() + "px";
    const c = context(canvas, width(), HEIGHT), bottom = HEIGHT - BOTTOM;
    c.font = font;
    drawAxes(c);
    bins.forEach((bin, i) => {
      const left = x(begin(bin)), w = Math.max(1, x(end(bin)) - left - 1);
      c.fillStyle = isSearched(bin) ? css("--mark") : isUsual(bin) ? "#44bb99" : css("--bar");
      c.fillRect(left, y(bin.calls), w, bottom - y(bin.calls));
      if (i !== selected) return;
      c.strokeStyle = css("--front");
      c.lineWidth = 2;
      c.strokeRect(left - 1, y(bin.calls) - 1, w + 2, bottom - y(bin.calls) + 2);
      c.lineWidth = 1;
    });
    c.strokeStyle = css("--front");
    c.beginPath();
    c.moveTo(LEFT, bottom + 0.5);
    c.lineTo(width(), bottom + 0.5);
    c.stroke();
    drawRange(c, result.searched, "searched", css("--mark"), 0);
    drawRange(c, result.usual, "usual", "#44bb99", 1);
    drawPeaks(c);
  }

  const bounds = b => b.to_ns === null ? `${time(b.from_ns)} or more`
    : `${time(b.from_ns)} to ${time(b.to_ns)}`;

  function peakText(p) {
    return p.refused ? `${plural(p.count, "call")} of ${bounds(p)}: too few for a peak`
      : `Peak ${p.number}${isChosen(p) ? ", which is searched" : ""}: ` +
        `${plural(p.count, "call")} of ${bounds(p)}`;
  }

  function describe(bin) {
    const p = peakOf(bin);
    return [`${plural(bin.calls, "call")} of ${bounds(bin)}, ${percent(bin.calls, result.calls)}` +
      (isSearched(bin) ? "; searched" : isUsual(bin) ? "; usual" : ""), p ? peakText(p) : ""];
  }

  function select(i) {
    selected = bins[i] ? i : -1;
    page.note(...selected < 0 ? [""] : describe(bins[selected]));
    document.body.dataset.bin = selected < 0 ? "" : bins[selected].from_ns;
    draw();
    page.remember();
  }

  /* The bin at the top of a peak. */
  function selectPeak(number) {
    const p = result.peaks.find(one => one.number === number);
    if (p) select(bins.findIndex(b => b.from_ns === p.top_ns));
    return Boolean(p);
  }

  const at = e => bins.findIndex(b => e.offsetX >= x(begin(b)) && e.offsetX < x(end(b)));
  canvas.addEventListener("click", e => select(at(e)));
  canvas.addEventListener("pointermove", e => {
    const i = at(e);
    tip(i < 0 ? null : describe(bins[i]).filter(Boolean).join("\n"), e);
  });
  canvas.addEventListener("pointerleave", () => tip(null));

  function key(name) {
    const last = bins.length - 1;
    if (/^[1-9]$/.test(name)) return selectPeak(Number(name));
    if (name === "ArrowRight") select(Math.min(last, selected + 1));
    else if (name === "ArrowLeft") select(selected < 0 ? last : Math.max(0, selected - 1));
    else if (name === "Home") select(0);
    else if (name === "End") select(last);
    else if (name === "Escape") select(-1);
    else return false;
    return true;
  }

  function table() {
    return {
      caption: "How many calls lasted how long",
      head: ["from", "below", "calls", "share", "peak", "looked at as"],
      rows: bins.map(b => {
        const p = peakOf(b), top = p && p.top_ns === b.from_ns;
        return { cells: [time(b.from_ns), b.to_ns === null ? "" : time(b.to_ns), count(b.calls),
          percent(b.calls, result.calls), !p ? "" : p.refused ? "too few"
            : `${p.number}${top ? ", its top" : ""}${isChosen(p) ? ", searched" : ""}`,
          isSearched(b) ? "searched" : isUsual(b) ? "usual" : ""] };
      }) };
  }

  return { canvas, draw, key, table, select, bounds, peakText,
    state: () => selected < 0 ? {} : { bin: selected } };
})();
