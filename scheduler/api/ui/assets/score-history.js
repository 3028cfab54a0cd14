// The history of scores: a chart of the best score by number of trees, and the current speed of the search.

import { get, path } from "./api.js";
import { el, setChildren, svg } from "./dom.js";
import { count, hasEnded } from "./format.js";

const REFRESH = 20000; // while the job is running, the trees are loaded again this often
const RATE_WINDOW = 10; // seconds over which the speed is measured
const MIN_QUIET = 5; // seconds without a new tree after which there is no current speed
const HEIGHT = 150;
const MARGIN = { left: 40, right: 10, top: 12, bottom: 24 };

export function scoreHistory(job, signal) {
  const chart = scoreChart();
  const best = [];
  const samples = [];
  let trees = [];
  let planned = job.planned ?? 1;
  let latest = job;
  let lastProgress = "";
  let movedAt = performance.now() / 1000;

  function draw() {
    chart.show({ best, trees, planned: hasEnded(latest.state) ? latest.trees : planned });
  }

  function update(next) {
    latest = next;
    planned = next.planned ?? planned;
    if (next.best_score !== null && (best.at(-1)?.trees ?? -1) < next.trees) best.push({ trees: next.trees, score: next.best_score });
    const now = performance.now() / 1000;
    if (samples.at(-1)?.trees !== next.trees) samples.push({ now, trees: next.trees });
    const progress = [next.state, next.trees, next.rows_read, next.pairs_screened, next.shuffles_done, next.rules].join();
    if (progress !== lastProgress) [lastProgress, movedAt] = [progress, now];
    while (samples.length > 2 && now - samples[0].now > RATE_WINDOW) samples.shift();
    draw();
  }

  /** Return trees per second: recently, or on average if the job has ended; null if unknown. */
  function rate() {
    if (hasEnded(latest.state)) return latest.seconds > 0 && latest.trees ? latest.trees / latest.seconds : null;
    if (latest.state !== "running" || samples.length < 2) return null;
    const seconds = samples.at(-1).now - samples[0].now;
    const gap = seconds / (samples.length - 1);
    if (quiet() > Math.max(MIN_QUIET, 3 * gap)) return null; // an old speed says nothing about a search that has stopped
    return seconds > 0.2 ? (samples.at(-1).trees - samples[0].trees) / seconds : null;
  }

  /** Return the seconds since the last progress. */
  const quiet = () => performance.now() / 1000 - movedAt;

  /** Load the trees from before this page was opened; of very many, a sample. */
  async function load() {
    const loaded = latest.trees ? await loadTrees(latest.id, signal).catch(() => []) : [];
    if (signal.aborted || !loaded.length) return;
    trees = loaded;
    rebuildBest();
    draw();
  }

  /** Compute the best score up to the last loaded tree from the trees; keep later points. */
  function rebuildBest() {
    const last = trees.at(-1).number + 1;
    const later = best.filter((point) => point.trees > last);
    best.length = 0;
    for (const { number, score } of trees) if (!best.length || score > best.at(-1).score) best.push({ trees: number + 1, score });
    best.push({ trees: last, score: best.at(-1).score }, ...later);
    if (hasEnded(latest.state) && latest.best_score !== null) best.push({ trees: latest.trees, score: latest.best_score });
  }

  if (job.trees && !hasEnded(job.state)) load(); // for a job that has ended, the page loads it after the last event
  const timer = setInterval(() => document.hidden || latest.state !== "running" || load(), REFRESH);
  signal.addEventListener("abort", () => clearInterval(timer));
  return { element: chart.element, update, rate, quiet, load };
}

async function loadTrees(id, signal) {
  const { numbers, scores } = await get(path("jobs", id, "score-history"), { signal });
  return numbers.map((number, index) => ({ number, score: scores[index] }));
}

/** A step line of the best score, and dots for the scores of single trees. */
function scoreChart() {
  const element = el("div", { class: "chart" });
  let data = { best: [], trees: [], planned: 1 };
  // A single point shows no more than the numbers next to the chart.
  const content = () => (data.best.length + data.trees.length > 1 ? drawChart(data, Math.max(260, element.clientWidth)) : null);
  const draw = () => element.isConnected && setChildren(element, content());
  new ResizeObserver(draw).observe(element);
  const show = (next) => ((data = next), draw());
  return { element, show };
}

function drawChart({ best, trees, planned }, width) {
  const scores = [...best.map((point) => point.score), ...trees.map((tree) => tree.score)];
  const low = Math.floor(10 * Math.min(1, ...scores) - 0.2) / 10;
  const high = Math.min(1, Math.ceil(10 * Math.max(0, ...scores) + 0.2) / 10);
  const last = Math.max(1, planned, best.at(-1)?.trees ?? 0);
  const x = (number) => MARGIN.left + ((width - MARGIN.left - MARGIN.right) * number) / last;
  const y = (value) => MARGIN.top + ((HEIGHT - MARGIN.top - MARGIN.bottom) * (high - value)) / Math.max(0.1, high - low);
  const current = best.at(-1);
  return svg(
    "svg",
    { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": chartLabel(current) },
    ...axes(x, y, low, high, last, width),
    ...trees.map((tree) => svg("circle", { class: "tree", cx: x(tree.number + 1), cy: y(tree.score), r: trees.length > 400 ? 1 : 1.6 })),
    best.length && svg("path", { class: "best", d: stepPath(best, x, y) }),
    current && svg("circle", { class: "current", cx: x(current.trees), cy: y(current.score), r: 3.5 }),
  );
}

const chartLabel = (current) => (current ? `Best F1 ${current.score.toFixed(3)} after ${count(current.trees)} trees` : "No trees yet");

function axes(x, y, low, high, last, width) {
  const ticks = high - low > 0.35 ? [low, (low + high) / 2, high] : [low, high];
  return [
    ...ticks.map((tick) => svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) })),
    ...ticks.map((tick) => svg("text", { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, tick.toFixed(2))),
    svg("text", { x: MARGIN.left, y: HEIGHT - 5 }, "0"),
    svg("text", { x: width - MARGIN.right, y: HEIGHT - 5, "text-anchor": "end" }, `${count(last)} trees`),
  ];
}

function stepPath(best, x, y) {
  const steps = best.slice(1).map((point) => `H${x(point.trees).toFixed(1)}V${y(point.score).toFixed(1)}`);
  return `M${x(best[0].trees).toFixed(1)} ${y(best[0].score).toFixed(1)}${steps.join("")}`;
}
