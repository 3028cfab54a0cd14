// The best score by the number of trees: a line of steps, with the scores of single trees as dots where they are known.

import { el, fill, svg } from "./dom.js";
import { count } from "./text.js";

const HEIGHT = 150;
const EDGE = { left: 40, right: 10, top: 12, bottom: 24 };

export function scoreChart() {
  const place = el("div", { class: "chart" });
  let shown = { best: [], trees: [], planned: 1 };
  // A single point says no more than the figures beside the chart do.
  const drawn = () => (shown.best.length + shown.trees.length > 1 ? picture(shown, Math.max(260, place.clientWidth)) : null);
  const draw = () => place.isConnected && fill(place, drawn());
  new ResizeObserver(draw).observe(place);
  const show = (next) => ((shown = next), draw());
  return { element: place, show };
}

function picture({ best, trees, planned }, width) {
  const scores = [...best.map((point) => point.score), ...trees.map((tree) => tree.score)];
  const low = Math.floor(10 * Math.min(1, ...scores) - 0.2) / 10;
  const high = Math.min(1, Math.ceil(10 * Math.max(0, ...scores) + 0.2) / 10);
  const last = Math.max(1, planned, best.at(-1)?.trees ?? 0);
  const x = (number) => EDGE.left + ((width - EDGE.left - EDGE.right) * number) / last;
  const y = (value) => EDGE.top + ((HEIGHT - EDGE.top - EDGE.bottom) * (high - value)) / Math.max(0.1, high - low);
  const now = best.at(-1);
  return svg(
    "svg",
    { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label(now) },
    ...axes(x, y, low, high, last, width),
    ...trees.map((tree) => svg("circle", { class: "tree", cx: x(tree.number + 1), cy: y(tree.score), r: trees.length > 400 ? 1 : 1.6 })),
    best.length && svg("path", { class: "best", d: steps(best, x, y) }),
    now && svg("circle", { class: "now", cx: x(now.trees), cy: y(now.score), r: 3.5 }),
  );
}

const label = (now) => (now ? `Best F1 ${now.score.toFixed(3)} after ${count(now.trees)} trees` : "No tree yet");

function axes(x, y, low, high, last, width) {
  const ticks = high - low > 0.35 ? [low, (low + high) / 2, high] : [low, high];
  return [
    ...ticks.map((tick) => svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(tick), y2: y(tick) })),
    ...ticks.map((tick) => svg("text", { x: EDGE.left - 8, y: y(tick) + 4, "text-anchor": "end" }, tick.toFixed(2))),
    svg("text", { x: EDGE.left, y: HEIGHT - 5 }, "0"),
    svg("text", { x: width - EDGE.right, y: HEIGHT - 5, "text-anchor": "end" }, `${count(last)} trees`),
  ];
}

function steps(best, x, y) {
  const rest = best.slice(1).map((point) => `H${x(point.trees).toFixed(1)}V${y(point.score).toFixed(1)}`);
  return `M${x(best[0].trees).toFixed(1)} ${y(best[0].score).toFixed(1)}${rest.join("")}`;
}
