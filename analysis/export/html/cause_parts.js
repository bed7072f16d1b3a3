/* What a search of causes tells, as words. */
const result = data.result, meta = data.meta;

const PARTS = 4, PART_SHARE = 0.05; /* of a difference: smaller parts are not shown */

/* A difference with its sign. */
const signed = ns => (ns < 0 ? "−" : "+") + time(Math.abs(ns));

/* What a thread did in a part of the time. */
function part(p) {
  const who = p.thread ? `${p.thread} (${p.tid})` : p.tid ? `thread ${p.tid}` : "";
  if (p.kind === "self") return "on a CPU";
  if (p.kind === "queued") return "the thread that serves it did nothing that was recorded";
  if (p.kind === "fault") return "in page faults";
  if (p.kind === "interrupt") return `interrupted: ${p.object}`;
  if (p.kind === "preempted")
    return "waiting for a CPU" + (who || p.object ? `, which ${who || p.object} had` : "");
  if (p.kind !== "blocked") return "not known";
  return `blocked on ${p.object}` + (who ? `, ${p.holder ? "held" : "ended"} by ${who}` +
    (p.in ? ` in ${shownOf(p.in)}` : "") : "");
}

/* What is wrong with the trace. */
const flaws = () => [
  result.lost && `${plural(result.lost, "event")} lost`,
  meta.damaged && "the trace is damaged: what follows the damage is not here",
  meta.late && `times are coarse: up to ${time(meta.late)} late`,
  !result.kernel && !data.variance && "the trace has no events of the kernel (--kernel): whether " +
    "the threads ran or waited is not known",
];

/* The functions by number, and what people see of a whole name. */
const functions = new Map(), shownNames = new Map();
for (let i = 0; i < data.functions.length; i += 3) {
  const name = data.functions[i + 1];
  functions.set(data.functions[i],
    { name, shown: data.functions[i + 2], colour: colour(name) });
  shownNames.set(name, data.functions[i + 2]);
}
const shownOf = name => shownNames.get(name) || name;
