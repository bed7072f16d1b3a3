/* Short calls, one by one, as far as the page has them. They are packed by spans of time
 * (analysis/export/timeline_details.h); a span is unpacked when it becomes visible. */
const shortCalls = (function () {
  const longest = data.details.longest, limit = data.details.limit;
  const VISIBLE = 24, KEPT = 96; /* spans that are unpacked for one view, and held in memory */
  const able = typeof DecompressionStream === "function";
  const spans = [];
  let rows = [], changed = () => {}, uses = 0;
  {
    const packed = data.details.spans;
    for (let i = 0, from = 0; i < packed.length; i += 3) {
      spans.push({
        from, to: packed[i], calls: packed[i + 1], text: packed[i + 2], used: 0, state: "packed" });
      from = packed[i];
      if (!packed[i + 2]) spans[spans.length - 1].state = packed[i + 1] ? "missing" : "open";
    }
  }
  data.details.spans = null;
  const kept = data.details.kept, missing = data.details.left_out;

  /* Reads the columns of a span. Throws where they are no such columns. */
  function decode(bytes, span) {
    const columns = [];
    let at = 0;
    const number = (limits = { at, end: bytes.length }) => {
      let value = 0, scale = 1, byte;
      do {
        if (limits.at >= limits.end || scale > 2 ** 49) throw new RangeError("torn details");
        byte = bytes[limits.at++];
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte & 128);
      return value;
    };
    const head = { at: 0, end: bytes.length }, sizes = [number(head), number(head), number(head)];
    at = head.at;
    for (const size of [...sizes, Infinity]) {
      columns.push({ at, end: Math.min(at + size, bytes.length) });
      at = columns[columns.length - 1].end;
    }
    const [sections, gaps, lengths, fns] = columns, parts = [];
    while (sections.at < sections.end) {
      const row = rows[number(sections)], n = number(sections);
      if (!row || n > lengths.end - lengths.at) throw new RangeError("torn details");
      const part = {
        span, n, start: new Float64Array(n), length: new Float64Array(n), fn: new Uint32Array(n) };
      let last = span.to - number(sections);
      for (let i = 0; i < n; i++) {
        part.start[i] = last += i ? number(gaps) : 0;
        last += part.length[i] = number(lengths);
        part.fn[i] = number(fns);
        if (part.fn[i] >= functions.length) throw new RangeError("torn details");
      }
      parts.push([row, part]);
    }
    return parts;
  }

  async function unpack(span) {
    span.state = "unpacking";
    try {
      const bytes = Uint8Array.from(atob(span.text), c => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      const parts = decode(new Uint8Array(await new Response(stream).arrayBuffer()), span);
      for (const [row, part] of parts) row.parts.push(part);
      span.rows = parts.map(([row]) => row);
      span.state = "open";
    } catch (e) {
      span.state = "torn";
    }
    changed();
  }

  /* Forgets the spans that were not visible for the longest time. */
  function forget() {
    const open = spans.filter(s => s.state === "open" && s.text);
    if (open.length <= KEPT) return;
    open.sort((a, b) => a.used - b.used);
    for (const span of open.slice(0, open.length - KEPT)) {
      for (const row of span.rows) row.parts = row.parts.filter(part => part.span !== span);
      span.rows = null;
      span.state = "packed";
    }
  }

  /* The spans whose calls may be visible from a to b. */
  function of(a, b) {
    let lo = 0, hi = spans.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (spans[mid].to < a) lo = mid + 1; else hi = mid;
    }
    let end = lo;
    while (end < spans.length && spans[end].from <= b + longest) end++;
    return spans.slice(lo, end);
  }

  /* Unpacks what is visible from a to b, where that is not too much. Returns what there is:
   * `open`: calls may be drawn one by one; `gaps`: times [from, to] for which the sums stand;
   * `text`: what a person is told. */
  function look(a, b) {
    if (!spans.length) return { open: false, gaps: [[a, b]], text: "each call is shown" };
    const visible = of(a, b), wanted = visible.filter(s => s.text);
    if (wanted.length > VISIBLE || !able)
      return {
        open: false, gaps: [[a, b]], text: !able
          ? "short calls are summed up: this browser cannot unpack their details"
          : "short calls are summed up: zoom in to see each" };
    uses++;
    for (const span of wanted) {
      span.used = uses;
      if (span.state === "packed") unpack(span);
    }
    forget();
    const gaps = visible.filter(s => s.state !== "open").map(s => [s.from, s.to]),
      none = visible.some(s => s.state === "missing" || s.state === "torn");
    return {
      open: true, gaps, none, text:
        visible.some(s => s.state === "unpacking") ? "unpacking short calls"
          : !none ? "each call is shown"
          : "short calls are summed up: " + (limit ? "beyond the limit of export --details"
            : "the page was made without details") };
  }

  /* The time with details, from and to, that is nearest to time t; undefined: there is none. */
  function nearest(t) {
    const far = s => Math.max(s.from - t, t - s.to, 0);
    const span = spans.filter(s => s.text && s.state !== "torn")
      .reduce((best, s) => !best || far(s) < far(best) ? s : best, undefined);
    /* calls that begin at its end may belong to the next span */
    return span &&
      { from: span.from, to: Math.max((span.from + span.to) / 2, span.to - longest - 1) };
  }

  /* What the page tells at its head of so many short calls. */
  function note(summed) {
    const all = `${plural(summed, "short call")} ${summed === 1 ? "is" : "are"} summed up in the ` +
      "timeline, by slices of time";
    return !kept ? all : all + (missing
      ? `; zoomed in, it has ${count(kept)} of them: the others did not fit into its ` +
        `${(limit / 2 ** 20).toPrecision(3)} MiB of details`
      : ", until you zoom in");
  }

  /* Times [from, to] of which the page has details. */
  const known = () => missing ? spans.filter(s => s.text).map(s => [s.from, s.to]) : [];

  return {
    look, note, known, nearest, connect: (all, run) => { rows = all; changed = run; },
    waits: () => spans.some(s => s.state === "unpacking") };
})();
