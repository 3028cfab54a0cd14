/* Similarity of rules, as a matrix. */
import { figures, similarityMatrices } from "./data.js";
import { cssColour, el, svg } from "./elements.js";
import { rules } from "./cards.js";

let measure = "logic";

export function drawSimilarity(place, width) {
  const size = figures.rule_count;
  const square = similarityMatrices()[measure];
  const order = figures.similarity.order[measure];
  const labelled = size <= 30;
  const margin = labelled ? 34 : 0;
  const cell = Math.max(1, Math.min(40, Math.floor((Math.min(width, 480) - margin) / size)));
  const scale = window.devicePixelRatio || 1;
  const side = cell * size;
  const canvas = el("canvas", { role: "img", width: Math.round(side * scale), height: Math.round(side * scale), "aria-label": `Similarity of ${size} rules, two by two, ${measure === "logic" ? "by conditions" : "by covered rows"}` });
  canvas.style.width = canvas.style.height = `${side}px`;
  const brush = canvas.getContext("2d");
  const [hue, step] = [cssColour("--heat"), (side * scale) / size];
  const edge = (place) => Math.round(place * step);
  brush.fillStyle = cssColour("--grid");
  brush.fillRect(0, 0, canvas.width, canvas.height);
  const gap = step >= 8 ? scale : 0;
  order.forEach((a, row) =>
    order.forEach((b, column) => {
      const value = square[a * size + b] / 100;
      if (!value) return;
      brush.fillStyle = `rgba(${hue}, ${Math.max(0.06, value)})`;
      brush.fillRect(edge(column), edge(row), edge(column + 1) - edge(column) - gap, edge(row + 1) - edge(row) - gap);
    }),
  );
  const readout = el("p", { class: "readout" }, "0 % is blank, 100 % is strongest. Point at a square.");
  canvas.addEventListener("mousemove", (event) => {
    const [row, column] = [event.offsetY, event.offsetX].map((at) => Math.min(size - 1, Math.max(0, Math.floor((at / side) * size))));
    const [a, b] = [rules[order[row]], rules[order[column]]];
    readout.textContent = `${a.id} and ${b.id}: ${square[order[row] * size + order[column]]} % (${a.if} / ${b.if})`;
  });
  const choose = (name, text) =>
    el("button", { type: "button", "aria-pressed": String(measure === name), onclick: () => { measure = name; drawSimilarity(place, width); place.querySelector(`[data-measure="${name}"]`).focus(); }, "data-measure": name }, text);
  const frame = el("div", { class: "picture" }, canvas);
  if (labelled) {
    frame.style.paddingLeft = frame.style.paddingTop = `${margin}px`;
    frame.style.width = `${side + margin}px`;
    const middle = (number) => margin + ((number + 0.5) * side) / size;
    const names = svg("svg", { width: side + margin, height: side + margin, "aria-hidden": "true" }, order.flatMap((number, at) => [
      svg("text", { x: margin - 6, y: middle(at) + 4, "text-anchor": "end" }, rules[number].id),
      svg("text", { x: 0, y: 0, transform: `translate(${middle(at) + 4} ${margin - 6}) rotate(-90)` }, rules[number].id),
    ]));
    names.style.position = "absolute";
    names.style.inset = "0";
    names.style.pointerEvents = "none";
    frame.append(names);
  }
  place.replaceChildren(
    el("div", { class: "switch", role: "group", "aria-label": "Similarity by" }, choose("logic", "by conditions"), choose("rows", "by covered rows")),
    frame,
    readout,
  );
}
