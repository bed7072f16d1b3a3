/* The document, and the functions that all views share: formats, colours, search. */
const data = JSON.parse(document.getElementById("data").textContent);
const functions = data.functions, meta = data.meta;
const nfunctions = functions.length;
/* In the flame graph of waits objects stand below functions: they have a name, and no calls. */
if (data.waits) for (const name of data.waits.objects) functions.push({ name });
const $ = id => document.getElementById(id);

const count = n => n.toLocaleString("en-US");
const plural = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;

/* Nanoseconds with three digits, and a unit. */
function time(ns) {
  if (ns === undefined || ns === null) return "";
  const units = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
  let at = 0;
  while (at < 3 && Math.abs(ns) >= 999.5 * units[at][1]) at++;
  const value = ns / units[at][1];
  return (at === 0 ? Math.round(value) : value.toPrecision(value < 1000 ? 3 : 4)) +
    " " + units[at][0];
}

/* Times in the document count from the first event. People see times since the session
 * began, which are those of `iprobe dump` and `iprobe trim`. */
const since = ns => time(meta.begin + ns);

/* Nanoseconds exactly, in the unit that fits the power of ten, with digits down to that of step. */
function exact(ns, largest, step) {
  const units = [["ns", 0], ["µs", 3], ["ms", 6], ["s", 9]];
  const [unit, power] = units.filter(([, p], i) => i === 0 || largest >= 10 ** p).pop();
  const digits = Math.max(0, power - Math.floor(Math.log10(step) + 1e-9));
  return { value: (ns / 10 ** power).toFixed(digits), unit, digits };
}

/* When something of that length was, with as many digits as tell it from its neighbours. */
function when(ns, length) {
  const at = meta.begin + ns, { value, unit } = exact(at, at, Math.max(1, length / 1000));
  return `${value} ${unit}`;
}

/* Where an axis from a to b (ns) has its marks, about most of them, and what they say: no two of
 * them the same. Where that needs many digits, base has those that all marks share, once. */
function axis(a, b, most) {
  const wanted = Math.max(1, (b - a) / Math.max(2, most)),
    power = 10 ** Math.floor(Math.log10(wanted) + 1e-9),
    step = [1, 2, 5, 10].map(k => k * power).find(s => s >= wanted * (1 - 1e-9)),
    marks = [];
  const whole = exact(b, b, step), deep = whole.value.replace(".", "").length > 6;
  const round = 10 ** Math.ceil(Math.log10(Math.max(1, b - a)) - 1e-9),
    base = deep ? Math.floor(a / round) * round : 0;
  for (let t = Math.ceil(a / step) * step; t <= b; t += step) {
    const one = exact(t - base, deep ? Math.max(round, b - base) : b, step);
    marks.push({ at: t, text: `${deep ? "+" : ""}${one.value} ${one.unit}` });
  }
  const shared = exact(base, b, round);
  return { marks, step, base: deep ? `${shared.value} ${shared.unit}` : "" };
}

/* A share in percent. */
function percent(part, whole) {
  if (!whole) return "0 %";
  const value = 100 * part / whole;
  return (value && value < 0.1 ? "< 0.1" : value.toFixed(1)) + " %";
}

/* What people see of a function's name: the short name where there is one. The whole name is in
 * tooltips and details. */
const shown = i => functions[i].short || functions[i].name;

/* The note that the times of a function end at a tail call. */
function untilTail(f) {
  return `until its tail call, in ${percent(f.untilTail, f.calls)} of the calls`;
}

/* Paul Tol's light scheme: its colours can be told apart with every kind of colour vision, and dark
 * text is readable on each. A function has the same colour in all views. */
const palette = [
  "#77aadd", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00", "#eedd88", "#ee8866", "#ffaabb"];
const colours = functions.map(f => {
  let h = 2166136261;
  for (let i = 0; i < f.name.length; i++) h = Math.imul(h ^ f.name.charCodeAt(i), 16777619);
  return palette[(h >>> 8) % palette.length];
});

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
  let wanted;
  if (!text) {
    matches = null;
    return "";
  }
  const expression = /^\/(.*)\/?$/.exec(text);
  if (expression) {
    try {
      const re = new RegExp(expression[1].replace(/\/$/, ""), "i");
      wanted = name => re.test(name);
    } catch (e) {
      return "no regular expression";
    }
  } else {
    const low = text.toLowerCase();
    wanted = name => name.toLowerCase().includes(low);
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

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* Gives the canvas the resolution of the screen. Returns its context, which uses CSS pixels. */
function context(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return c;
}

const font = "12px system-ui, sans-serif";

/* Returns as much of the text as fits. Each character of the font is measured once. */
const widths = new Map();
function fitted(c, text, room) {
  let sum = 0;
  for (let i = 0; i < text.length; i++) {
    let w = widths.get(text[i]);
    if (w === undefined) widths.set(text[i], w = c.measureText(text[i]).width);
    if (sum + w > room) return i > 2 ? text.slice(0, i - 1) + "…" : "";
    sum += w;
  }
  return text;
}

/* Returns the name without the first namespace or class that it lies in; "": it lies in none. What
 * stands in brackets, or behind "operator", is no such thing. */
function inner(name) {
  const end = name.search(/\boperator\b/), n = end < 0 ? name.length : end;
  let depth = 0;
  for (let i = 0; i < n; i++) {
    if ("<([{".includes(name[i])) depth++;
    else if (">)]}".includes(name[i]) && name[i - 1] !== "-") depth--;
    else if (!depth && name.startsWith("::", i)) return name.slice(i + 2);
  }
  return "";
}

/* Returns what fits of a function's name, behind a text: its end tells most, so what the function
 * lies in goes first. */
function fittedName(c, name, room, before = "") {
  for (let rest = name; rest; rest = inner(rest))
    if (fitted(c, before + (name = rest), room) === before + rest) break;
  return fitted(c, before + name, room);
}

function element(tag, text, attributes) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  for (const key in attributes || {}) e.setAttribute(key, attributes[key]);
  return e;
}
