/* What all views of the page share: functions, times, search. */
const functions = data.functions, meta = data.meta;
const nfunctions = functions.length;
/* In the flame graph of waits objects stand below functions: they have a name, and no calls. */
if (data.waits) for (const name of data.waits.objects) functions.push({ name });
/* Times in the document count from the first event. People see times since the session
 * began, which are those of `iprobe dump` and `iprobe trim`. */
const since = ns => time(meta.begin + ns);

/* When something of that length was, with as many digits as tell it from its neighbours. */
function when(ns, length) {
  const at = meta.begin + ns, { value, unit } = exact(at, at, Math.max(1, length / 1000));
  return `${value} ${unit}`;
}

/* What people see of a function's name: the short name where there is one. The whole name is in
 * tooltips and details. */
const shown = i => functions[i].short || functions[i].name;

/* The note that the times of a function end at a tail call. */
function untilTail(f) {
  return `until its tail call, in ${percent(f.untilTail, f.calls)} of the calls`;
}

const colours = functions.map(f => colour(f.name));

/* The colour for x from -1 to 1: from blue over light grey to orange. */
function difference(x) {
  const from = [221, 221, 221], to = x < 0 ? [68, 119, 170] : [238, 119, 51];
  const s = Math.min(1, Math.abs(x));
  return "rgb(" + from.map((c, i) => Math.round(c + (to[i] - c) * s)).join(",") + ")";
}

/* The colour for x from 0 to 1: the map cividis (Nuñez, Anderton, Renslow, 2018), by some of its
 * points. */
function heat(x) {
  const points = [
    [0, 34, 78], [53, 69, 107], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];
  const at = Math.min(Math.max(x, 0), 1) * (points.length - 1),
    i = Math.min(Math.floor(at), points.length - 2);
  return "rgb(" +
    points[i].map((c, k) => Math.round(c + (points[i + 1][k] - c) * (at - i))).join(",") + ")";
}

/* By function: whether the search matches it; null where there is no search. */
let matches = null;

function find(text) {
  const wanted = matcher(text);
  if (wanted === undefined) return "no regular expression";
  if (!wanted) {
    matches = null;
    return "";
  }
  matches = functions.map(f => wanted(f.name) || Boolean(f.short) && wanted(f.short));
  let n = 0, objects = 0, calls = 0, self = 0, all = 0;
  functions.forEach((f, i) => {
    all += f.self || 0;
    if (!matches[i]) return;
    if (i < nfunctions) n++; else objects++;
    calls += f.calls || 0;
    self += f.self || 0;
  });
  const waited = objects ? plural(objects, "object") + " of waits" : "";
  if (n === 0) return waited || "nothing matches";
  const inclusive = flame.inclusive(matches);
  return `${waited && waited + ", "}${plural(n, "function")}, ${plural(calls, "call")}: ` +
    `inclusive ${inclusive.atLeast ? "at least " : ""}` +
    `${percent(inclusive.time, inclusive.all)} (${time(inclusive.time)}), ` +
    `self ${percent(self, all)} (${time(self)})`;
}
