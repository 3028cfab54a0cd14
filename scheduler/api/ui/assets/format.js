// Formats numbers, times and rules as text.

const grouped = new Intl.NumberFormat("en");

export const STATES = {
  queued: "Queued", running: "Running", mining: "Choosing findings", paused: "Paused",
  done: "Done", failed: "Failed", cancelled: "Cancelled",
};
export const hasEnded = (state) => ["done", "failed", "cancelled"].includes(state);

/** What a job does before and after it tries combinations of columns; an empty text while it tries them. */
export function stageText(job) {
  if (job.rows) return `${job.state === "running" ? "Drawing a sample of the rows" : "Counting all rows"}: ${percent((job.rows_read ?? 0) / job.rows)}`;
  if (job.pairs) return `Comparing columns with each other: ${percent((job.pairs_screened ?? 0) / job.pairs)}`;
  return job.shuffles ? `Checking against chance: ${count(job.shuffles_done ?? 0)} of ${count(job.shuffles)} repetitions` : "";
}

export const count = (number) => grouped.format(number);
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
export const score = (number) => (number === null || number === undefined ? "–" : number.toFixed(3));
/** With a decimal near 0 % and 100 %, so that these are shown only for exact values. */
export const percent = (share) => `${(100 * share).toFixed((share > 0 && share < 0.1) || (share > 0.99 && share < 1) ? 1 : 0)} %`;

/** `850 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(seconds) {
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 172800) return pair(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  const days = whole / 86400;
  return days < 1000 ? `${Math.round(days)} days` : `${(days / 365.25).toPrecision(2)} years`;
}

/** `a few seconds`, `about 20 seconds`, `about 3 minutes`: of an estimate, no more than can be known. */
export function roughDuration(seconds) {
  if (seconds < 10) return "a few seconds";
  const units = [[60, "second", 10], [3600, "minute", 60], [172800, "hour", 3600], [Infinity, "day", 86400]];
  const [, unit, size] = units.find(([limit]) => seconds < 0.9 * limit);
  const amount = unit === "second" ? 10 * Math.max(1, Math.round(seconds / 10)) : Math.max(1, Math.round(seconds / size));
  return `about ${plural(amount, unit)}`;
}

const pair = (large, unit, small, other) => (small ? `${large} ${unit} ${small} ${other}` : `${large} ${unit}`);

/** `just now`, `5 min ago`. */
export function ago(time) {
  const seconds = Math.max(0, Date.now() / 1000 - time);
  if (seconds < 5) return "just now";
  if (seconds < 3600) return `${duration(seconds < 60 ? seconds : seconds - (seconds % 60))} ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(time * 1000).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
}

export function bytes(size) {
  const units = ["bytes", "kB", "MB", "GB"];
  const step = Math.min(units.length - 1, size > 0 ? Math.floor(Math.log10(size) / 3) : 0);
  return `${step ? (size / 1000 ** step).toPrecision(3) : size} ${units[step]}`;
}

/** With six significant digits by default; large numbers in full, as years and sums are usually written. */
export function number(value, digits = 6) {
  const size = Math.abs(value);
  if (size >= 1e6 && size < 1e15) return String(Number(value.toFixed(digits - 5)));
  if (size === 0 || (size >= 1e-4 && size < 1e6)) return String(Number(value.toPrecision(digits)));
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  return `${Number(mantissa)}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`; // 3.2e-07, as in the other outputs
}

const BOUNDS = ["<=", ">", ">="];

/** Return the conditions of a rule as texts, with the bounds of each column merged: `3 < x ≤ 7`. */
export function conditionTexts(conditions) {
  const groups = new Map();
  conditions.forEach((condition, index) => {
    const bound = BOUNDS.includes(condition.op);
    const key = bound ? `column ${condition.feature} ${condition.part?.part}` : `${index}`;
    groups.set(key, [...(groups.get(key) ?? []), condition]);
  });
  return [...groups.values()].map(groupText);
}

function groupText(group) {
  const { feature, op, value, part } = group[0];
  const signs = { "=": "=", "!=": "≠" };
  let text = `${feature} ${op}`;
  if (op in signs) text = `${feature} ${signs[op]} ${value}`;
  if (op === "in") text = `${feature} is ${levelsText(value)}`;
  if (op === "not in") text = `${feature} is other than ${levelsText(value)}`;
  if (BOUNDS.includes(op) && part) text = dateText(feature, part, bounds(group, ">"), bounds(group, "<="));
  else if (BOUNDS.includes(op)) text = interval(feature, bounds(group, ">"), bounds(group, "<="), bounds(group, ">="));
  const comma = Array.isArray(value) ? "," : ""; // after a list with an "or"
  return group.every((each) => each.or_missing) ? `(${text}${comma} or missing)` : text;
}

/** `C or Q`; of many levels the first ones. */
function levelsText(levels) {
  if (levels.length > 6) return `${levels.slice(0, 3).join(", ")} … (${levels.length - 3} more)`;
  return [levels.slice(0, -1).join(", "), ...levels.slice(-1)].filter((text) => text).join(" or ");
}

/** Bounds on a part of a date, in whole numbers: `joined: weekday ≥ Saturday`, `joined ≤ 2024-06-30`. */
function dateText(feature, part, above, atMost) {
  const name = part.part === "days" ? feature : `${feature}: ${part.part}`;
  const least = above.length ? Math.floor(Math.max(...above)) + 1 : null;
  const most = atMost.length ? Math.floor(Math.min(...atMost)) : null;
  if (least !== null && least === most) return `${name} = ${partText(part, least)}`;
  if (most === null) return `${name} ≥ ${partText(part, least)}`;
  return `${least === null ? "" : `${partText(part, least)} ≤ `}${name} ≤ ${partText(part, most)}`;
}

function partText({ part, first }, value) {
  const long = (date, field) => new Intl.DateTimeFormat("en", { [field]: "long", timeZone: "UTC" }).format(date);
  if (part === "month") return long(Date.UTC(2024, value - 1, 1), "month");
  if (part === "weekday") return long(Date.UTC(2024, 0, value), "weekday"); // 1 January 2024 was a Monday
  return part === "days" ? new Date(Date.parse(first) + 86400000 * value).toISOString().slice(0, 10) : String(value);
}

const bounds = (group, op) => group.filter((each) => each.op === op).map((each) => each.value);

/** Bounds of up to eight digits are not rounded. */
const bound = (value) => (value.toExponential().replace(/[-.]|e.*/g, "").length <= 8 ? String(value) : number(value));

/** The tightest bounds, with enough digits to distinguish them. */
function interval(feature, above, atMost, atLeast) {
  const [low, high] = [Math.max(...above, ...atLeast), Math.min(...atMost)];
  if (!atMost.length) return `${feature} ${atLeast.length ? "≥" : ">"} ${bound(low)}`;
  if (low === -Infinity) return `${feature} ≤ ${bound(high)}`;
  if (atLeast.length) return low === high ? `${feature} = ${bound(low)}` : `${bound(low)} ≤ ${feature} ≤ ${bound(high)}`;
  if (bound(low) !== number(low) || bound(high) !== number(high)) return `${bound(low)} < ${feature} ≤ ${bound(high)}`;
  let digits = 6;
  while (digits < 17 && low !== high && number(low, digits) === number(high, digits)) digits += 1;
  return `${number(low, digits)} < ${feature} ≤ ${number(high, digits)}`;
}

/** The prediction of a rule; the names of classes that were made from a number are conditions themselves. */
export function classText(name, { classes, target }) {
  const split = classes[0].lastIndexOf(" ≤ ");
  const stem = classes[0].slice(0, split);
  const areConditions = split > 0 && classes.at(-1).startsWith(`${stem} > `) && target.startsWith(`${stem} `);
  return areConditions ? name : `${target} = ${name}`;
}
