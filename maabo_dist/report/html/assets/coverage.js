/* The rows that each rule covers. */
import { PART_NAMES, data, decodeBytes, figures, goToRule } from "./data.js";
import { classMark, count, cssColour, el, fitText, percent, sum, svg, textWidth, truncate } from "./elements.js";
import { rules } from "./cards.js";

export function drawCoverage(place, width) {
  const { groups, sampled, rows, bits } = figures.coverage;
  const size = figures.rule_count;
  const packed = decodeBytes(bits);
  const stride = Math.ceil(sampled / 8);
  const labelled = size <= 60 && width > 500;
  const margin = labelled ? 36 : 0;
  const across = width - margin;
  const line = size <= 12 ? 16 : size <= 30 ? 11 : size <= 60 ? 9 : size <= 120 ? 4 : 3;
  const scale = window.devicePixelRatio || 1;
  const [pixels, tall] = [Math.floor(across * scale), Math.round(size * line * scale)];
  const canvas = el("canvas", { width: pixels, height: tall, role: "img", "aria-label": coverageText() });
  canvas.style.width = `${across}px`;
  canvas.style.height = `${size * line}px`;
  const brush = canvas.getContext("2d");
  const blank = cssColour("--grid");
  brush.fillStyle = blank;
  brush.fillRect(0, 0, pixels, tall);
  const gap = 3 * scale;
  const room = pixels - gap * (groups.length - 1);
  const spans = [];
  let [start, at] = [0, 0];
  for (const group of groups) {
    const length = (room * group.sampled) / sampled;
    spans.push({ ...group, at, from: start, length });
    start += group.sampled;
    at += length + gap;
  }
  for (const span of spans) {
    brush.fillStyle = cssColour(`--${classMark(span.class, span.class, data.classes.length)}`);
    const columns = Math.max(1, Math.ceil(span.length));
    for (let rule = 0; rule < size; rule++) {
      const y = Math.round(rule * line * scale);
      const high = Math.max(1, Math.round((rule + 1) * line * scale) - y - (line > 4 ? scale : 0));
      for (let column = 0; column < columns; column++) {
        const first = span.from + Math.floor((column * span.sampled) / columns);
        const last = span.from + Math.max(Math.floor(((column + 1) * span.sampled) / columns), Math.floor((column * span.sampled) / columns) + 1);
        let held = 0;
        for (let row = first; row < last; row++) held += (packed[rule * stride + (row >> 3)] >> (7 - (row & 7))) & 1;
        if (!held) continue;
        brush.globalAlpha = Math.max(0.15, held / (last - first));
        brush.fillRect(Math.round(span.at) + column, y, 1, high);
      }
    }
    brush.globalAlpha = 1;
  }
  for (const span of spans.slice(1)) brush.clearRect(Math.round(span.at - gap), 0, gap, tall);
  const head = svg("svg", { width, height: 40, "aria-hidden": "true" });
  let previous = null;
  for (const span of spans) {
    const [x, length] = [margin + span.at / scale, span.length / scale];
    if (span.part !== previous) head.append(svg("text", { class: "ink", x, y: 12 }, fitText(PART_NAMES[span.part], Math.max(30, partWidth(spans, span.part) / scale))));
    previous = span.part;
    head.append(svg("rect", { class: classMark(span.class, span.class, data.classes.length), x, y: 32, width: length, height: 5 }));
    const share = percent(span.covered / Math.max(1, span.rows));
    const name = data.classes[span.class];
    const texts = [`${name}: ${share} covered`, `${name}: ${share}`, `${truncate(name, 12)}: ${share}`, `${share} covered`, share];
    const text = texts.find((candidate) => textWidth(candidate) < length - 4);
    if (text) head.append(svg("text", { x, y: 27 }, text));
  }
  const frame = el("div", { class: "picture" }, canvas);
  frame.style.paddingLeft = `${margin}px`;
  if (labelled) {
    const every = line >= 9 ? 1 : 10;
    const names = svg("svg", { width: margin, height: size * line, "aria-hidden": "true" }, rules.slice(0, size).filter((_, number) => number % every === 0).map((rule, number) =>
      svg("text", { x: margin - 6, y: (number * every + 0.5) * line + 3.5, "text-anchor": "end" }, rule.id)));
    names.style.position = "absolute";
    names.style.left = names.style.top = "0";
    frame.append(names);
  }
  const readout = el("p", { class: "readout" }, sampled < rows ? `${count(sampled)} of ${count(rows)} rows, drawn so that parts and classes keep their shares.` : `All ${count(rows)} rows.`);
  canvas.addEventListener("mousemove", (event) => {
    const rule = rules[Math.min(size - 1, Math.max(0, Math.floor(event.offsetY / line)))];
    readout.textContent = `${rule.id}: if ${rule.if} then ${rule.then}`;
  });
  canvas.addEventListener("click", (event) => goToRule(rules[Math.min(size - 1, Math.floor(event.offsetY / line))].id));
  place.replaceChildren(head, frame, readout);
}
const partWidth = (spans, name) => sum(spans.filter((span) => span.part === name).map((span) => span.length));

function coverageText() {
  const shares = figures.coverage.groups.map((group) => `${PART_NAMES[group.part]} rows of class ${data.classes[group.class]}: ${percent(group.covered / Math.max(1, group.rows))} covered`);
  return `Rows covered by at least one rule. ${shares.slice(0, 12).join("; ")}`;
}
