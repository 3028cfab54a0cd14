/* The search: features of its best trees, scores and rules found. */
import { figures } from "./data.js";
import { count, drawing, el, fitText, percent, shortNumber, svg, textWidth } from "./elements.js";
import { rules } from "./cards.js";
import { ticks } from "./precision.js";

export function drawFeatureUse(place, width) {
  const { features, pairs, high, trees } = figures.use;
  if (!features.length) return;
  const step = 20;
  const name = Math.min(width * 0.34, 12 + Math.max(...features.map((feature) => textWidth(feature.name))));
  const grid = width > 480 ? Math.min(step * features.length, width * 0.4) : 0;
  const cell = grid / features.length;
  const long = width - name - grid - 44;
  const most = Math.max(...features.map((feature) => Math.max(feature.high / high, feature.trees / trees)));
  const strongest = Math.max(1, ...pairs.flatMap((row, a) => row.filter((_, b) => b < a)));
  const parts = features.flatMap((feature, row) => {
    const y = row * step;
    const tick = name + (long * feature.trees) / trees / most;
    const squares = grid
      ? pairs[row].slice(0, row).map((value, column) =>
          value ? svg("rect", { class: "pair", "fill-opacity": Math.max(0.08, value / strongest), x: width - grid + column * cell, y: y + (step - cell) / 2 + 0.5, width: Math.max(1, cell - 1), height: Math.max(1, cell - 1) }, svg("title", {}, `${feature.name} and ${features[column].name}: ${count(value)} of ${count(high)} best trees`)) : svg("rect", { class: "region", x: width - grid + column * cell, y: y + (step - cell) / 2 + 0.5, width: Math.max(1, cell - 1), height: Math.max(1, cell - 1) }))
      : [];
    return [
      svg("text", { class: "ink", x: name - 8, y: y + 14, "text-anchor": "end" }, fitText(feature.name, name - 8), svg("title", {}, feature.name)),
      svg("rect", { class: "usebar", x: name, y: y + 5, width: (long * feature.high) / high / most, height: step - 9 }),
      svg("path", { class: "usetick", d: `M${tick} ${y + 3}v${step - 5}` }),
      svg("text", { x: name + Math.max((long * feature.high) / high / most, tick - name) + 5, y: y + 14 }, percent(feature.high / high)),
      ...squares,
    ];
  });
  const text = features.slice(0, 10).map((feature) => `${feature.name} ${percent(feature.high / high)}`).join(", ");
  const frequent = pairs.flatMap((row, a) => row.slice(0, a).map((value, b) => [value, a, b])).filter(([value]) => value).sort((x, y) => y[0] - x[0]).slice(0, 3);
  const names = frequent.map(([value, a, b]) => `${features[b].name} + ${features[a].name} (${count(value)})`).join(", ");
  place.replaceChildren(
    drawing(width, features.length * step + 4, `Features of the ${count(high)} best of ${count(trees)} trees: ${text}`, ...parts),
    el("p", { class: "readout" }, `The best ${count(high)} of ${count(trees)} trees.${names ? ` Most frequent pairs: ${names}.` : ""}`),
  );
}

export function drawSearch(place, width) {
  const { history, random } = figures;
  if (!history.plotted.length) return;
  const [left, right, top] = [40, 34, 12];
  const [tall, low] = [220, 96];
  const gap = 34;
  const height = top + tall + gap + low + 34;
  const total = Math.max(history.trees, random ? random.trees : 0);
  const x = (tree) => left + ((width - left - right) * (tree + 1)) / total;
  const scores = [...history.scores, ...(random ? random.scores : [])];
  const [least, best] = [Math.min(...scores), Math.max(...scores)];
  const y = (score) => top + tall - (tall * (score - least)) / Math.max(1e-9, best - least);
  const bestPath = (run) =>
    `${run.best.map(([tree, score], number) => (number ? `H${x(tree).toFixed(1)}V${y(score).toFixed(1)}` : `M${x(tree).toFixed(1)} ${y(score).toFixed(1)}`)).join("")}H${x(run.trees - 1).toFixed(1)}`;
  const most = Math.max(1, ...[history, random].filter(Boolean).flatMap((run) => run.rules.map((step) => step[1])));
  const floor = top + tall + gap + low;
  const z = (rulesFound) => floor - (low * rulesFound) / most;
  const foundPath = (run) => `M${x(-1)} ${floor}${run.rules.map(([tree, number]) => `H${x(tree).toFixed(1)}V${z(number).toFixed(1)}`).join("")}H${x(run.trees - 1).toFixed(1)}`;
  const parts = [];
  for (const tick of ticks(least, best > least ? best : least + 1e-3, 4)) {
    parts.push(svg("path", { class: "gridline", d: `M${left} ${y(tick)}H${width - right}` }), svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, shortNumber(tick)));
  }
  for (const tick of ticks(0, total, width < 480 ? 3 : 6)) {
    parts.push(svg("text", { x: x(tick - 1), y: floor + 17, "text-anchor": "middle" }, count(Math.round(tick))));
  }
  parts.push(
    svg("path", { class: "points", d: history.plotted.map((tree, number) => `M${x(tree).toFixed(1)} ${y(history.scores[number]).toFixed(1)}h0`).join("") }),
    random ? svg("path", { class: "other", d: bestPath(random) }) : null,
    svg("path", { class: "best", d: bestPath(history) }),
    svg("text", { x: 0, y: 4 }, "macro F1"),
    svg("text", { class: "strong", x: width - right + 5, y: y(best) + 4 }, best.toFixed(3).replace(/^0/, "")),
    svg("path", { class: "axisline", d: `M${left} ${floor + 0.5}H${width - right}` }),
    random ? svg("path", { class: "other", d: foundPath(random) }) : null,
    svg("path", { class: "best", d: foundPath(history) }),
    svg("text", { x: 0, y: top + tall + gap - 12 }, "rules found"),
    svg("text", { class: "strong", x: width - right + 5, y: z(history.rules.length ? history.rules[history.rules.length - 1][1] : 0) + 4 }, String(rules.length)),
    svg("text", { x: width - right, y: height - 2, "text-anchor": "end" }, "trees"),
  );
  const beside = random ? ` Dashed: a random search, best ${random.best[random.best.length - 1][1].toFixed(3)}.` : "";
  place.replaceChildren(
    drawing(width, height, `Scores of ${count(history.trees)} trees, from ${least.toFixed(3)} to ${best.toFixed(3)}`, ...parts),
    el("p", { class: "readout" }, `${history.plotted.length < history.trees ? `The best and the worst of each stretch of ${count(history.trees)} trees.` : `All ${count(history.trees)} trees.`}${beside}`),
  );
}
