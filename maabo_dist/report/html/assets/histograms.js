/* Histograms of the columns that a rule uses. */
import { data, figures } from "./data.js";
import { classMark, count, drawing, el, fitText, makeSection, shortNumber, sum, svg } from "./elements.js";

export function makeHistograms(rule) {
  if (!rule.marks.length) return null;
  return makeSection(
    "Where it holds",
    el("p", { class: "hint" }, "Training rows by class. Rows that satisfy the condition are highlighted."),
    el("div", { class: "multiples" }, rule.marks.map(makeHistogram)),
  );
}

function makeHistogram(entry) {
  const histogram = figures.histograms[entry.histogram];
  return el(
    "div",
    { class: "multiple" },
    el("h4", {}, entry.text),
    el("div", { class: "histogram" }),
    histogram.missing ? el("p", {}, missingText(histogram)) : null,
  );
}

function missingText(histogram) {
  const cells = histogram.missing === 1 ? "1 missing cell" : `${count(histogram.missing)} missing cells`;
  if (histogram.apart) return `${cells} not shown.`;
  return histogram.fill === null || histogram.fill === undefined ? `${cells} treated as one of these.` : `${cells} treated as ${shortNumber(histogram.fill)}.`;
}

export function drawHistograms(rule) {
  rule.detail.querySelectorAll(".histogram").forEach((place, number) => {
    const entry = rule.marks[number];
    const conditions = entry.conditions.map((condition) => rule.json.conditions[condition]);
    const width = Math.max(180, place.clientWidth || 260);
    const histogram = figures.histograms[entry.histogram];
    const draw = histogram.kind === "levels" ? drawLevels : drawNumbers;
    place.replaceChildren(draw(rule, histogram, conditions, width, entry.text));
  });
}

/** [group, css class] of the classes as a histogram stacks them: the rule's own class stands on the axis. */
export function stackOrder(rule) {
  const groups = figures.classes.length;
  const own = figures.classes.indexOf(data.classes[rule.own]);
  const order = [...Array(groups).keys()].sort((a, b) => (b === own) - (a === own) || a - b);
  return order.map((group) => [group, classMark(group, own, groups)]);
}

function drawNumbers(rule, histogram, conditions, width, label) {
  const [height, base, top] = [104, 84, 14];
  const bars = histogram.counts[0].length;
  const single = histogram.kind === "values";
  const values = single ? histogram.values : null;
  const pad = single ? 14 : 1;
  const low = single ? values[0] : histogram.low;
  const high = single ? values[values.length - 1] : histogram.high;
  const x = (value) => pad + (width - 2 * pad) * (high > low ? (value - low) / (high - low) : 0.5);
  const totals = histogram.counts[0].map((_, bar) => sum(histogram.counts.map((row) => row[bar])));
  const y = (value) => base - ((base - top) * value) / Math.max(1, ...totals);
  let [from, to] = [-Infinity, Infinity];
  for (const condition of conditions) {
    if (condition.op === ">") from = Math.max(from, condition.value);
    else if (condition.op === ">=") from = Math.max(from, condition.value - 0.5); // whole numbers
    else to = Math.min(to, condition.value);
  }
  const [left, right] = [from === -Infinity ? 0 : x(from), to === Infinity ? width : x(to)];
  const parts = [svg("rect", { class: "region", x: left, y: top - 4, width: Math.max(0, right - left), height: base - top + 4 })];
  const gap = single ? Math.min(18, ...values.slice(1).map((value, place) => 0.8 * (x(value) - x(values[place])))) : 0;
  for (let bar = 0; bar < bars; bar++) {
    const start = single ? x(values[bar]) - Math.max(2, gap) / 2 : x(low + ((high - low) * bar) / bars);
    const end = single ? start + Math.max(2, gap) : x(low + ((high - low) * (bar + 1)) / bars) - 0.6;
    const pieces = single
      ? [[start, end, values[bar] > from && values[bar] <= to]]
      : [[start, Math.min(end, left), false], [Math.max(start, left), Math.min(end, right), true], [Math.max(start, right), end, false]];
    let at = 0;
    for (const [group, css] of stackOrder(rule)) {
      const rows = histogram.counts[group][bar];
      for (const [a, b, lit] of pieces) {
        if (rows && b > a) parts.push(svg("rect", { class: lit ? css : `${css} off`, x: a, y: y(at + rows), width: b - a, height: y(at) - y(at + rows) }));
      }
      at += rows;
    }
  }
  parts.push(svg("path", { class: "axisline", d: `M0 ${base + 0.5}H${width}` }));
  parts.push(svg("text", { x: 0, y: base + 15 }, shortNumber(low)), svg("text", { x: width, y: base + 15, "text-anchor": "end" }, shortNumber(high)));
  const bounds = [from, to].filter(Number.isFinite);
  parts.push(...bounds.map((value) => svg("path", { class: "threshold", d: `M${x(value)} ${top - 4}V${base + 4}` })));
  // Two labels that would meet are one.
  const labels = bounds.length === 2 && right - left < 56 ? [[(left + right) / 2, bounds.map(shortNumber).join(" – ")]] : bounds.map((value) => [x(value), shortNumber(value)]);
  for (const [at, text] of labels) {
    const half = 3.4 * text.length;
    const anchor = at < half ? "start" : at > width - half ? "end" : "middle";
    parts.push(svg("text", { class: "strong", x: anchor === "start" ? 0 : anchor === "end" ? width : at, y: 7, "text-anchor": anchor }, text));
  }
  return drawing(width, height, `Histogram by class, ${label} highlighted`, ...parts);
}

function drawLevels(rule, histogram, conditions, width, label) {
  const [step, name] = [19, Math.min(110, width * 0.4)];
  const labels = histogram.labels.map((level) => (level === null ? "other or missing" : level));
  const totals = labels.map((_, bar) => sum(histogram.counts.map((row) => row[bar])));
  const scale = (width - name - 46) / Math.max(1, ...totals);
  const lit = (level) =>
    conditions.every(({ op, value }) => {
      if (op === "=") return level === value;
      if (op === "!=") return level !== value;
      if (op === "in") return value.includes(level);
      if (op === "not in") return level === null || !value.includes(level);
      return level === (op === "is missing" ? "missing" : "present");
    });
  const parts = labels.flatMap((text, bar) => {
    const on = lit(histogram.levels[bar]);
    const y = bar * step;
    let at = name;
    const pieces = stackOrder(rule).map(([group, css]) => {
      const length = histogram.counts[group][bar] * scale;
      at += length;
      return svg("rect", { class: on ? css : `${css} off`, x: at - length, y: y + 2, width: length, height: step - 6 });
    });
    return [
      svg("text", { class: on ? "strong" : "", x: name - 8, y: y + 12, "text-anchor": "end" }, fitText(text, name - 8, on), svg("title", {}, text)),
      ...pieces,
      svg("text", { x: at + 6, y: y + 12 }, count(totals[bar])),
    ];
  });
  return drawing(width, labels.length * step + 4, `Rows of each level by class, ${label} highlighted`, ...parts);
}
