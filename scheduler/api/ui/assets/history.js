// How the search went: the best score by trees, from events as they come and from the trees that were grown before.

import { get, path } from "./api.js";
import { scoreChart } from "./chart.js";
import { hasEnded } from "./text.js";

const AGAIN = 20000; // while it goes on, the trees are asked for anew
const WINDOW = 10; // seconds over which the rate is told

export function scoreHistory(job, signal) {
  const chart = scoreChart();
  const best = [];
  const marks = [];
  let trees = [];
  let planned = job.planned ?? 1;
  let latest = job;

  function draw() {
    chart.show({ best, trees, planned: hasEnded(latest.state) ? latest.trees : planned });
  }

  function take(next) {
    latest = next;
    planned = next.planned ?? planned;
    if (next.best_score !== null && (best.at(-1)?.trees ?? -1) < next.trees) best.push({ trees: next.trees, score: next.best_score });
    const now = performance.now() / 1000;
    if (marks.at(-1)?.trees !== next.trees) marks.push({ now, trees: next.trees });
    while (marks.length > 2 && now - marks[0].now > WINDOW) marks.shift();
    draw();
  }

  /** Trees a second: lately, or on the whole when it is over; null where that cannot be told. */
  function rate() {
    if (hasEnded(latest.state)) return latest.seconds > 0 && latest.trees ? latest.trees / latest.seconds : null;
    if (latest.state !== "running" || marks.length < 2) return null;
    const seconds = marks.at(-1).now - marks[0].now;
    return seconds > 0.2 ? (marks.at(-1).trees - marks[0].trees) / seconds : null;
  }

  /** The trees that were grown before this page was opened; of very many, some from all over the search. */
  async function complete() {
    const found = latest.trees ? await readTrees(latest, signal).catch(() => []) : [];
    if (signal.aborted || !found.length) return;
    trees = found;
    refill();
    draw();
  }

  /** Up to the last of these trees, the best of those that are known is told at each. */
  function refill() {
    const last = trees.at(-1).number + 1;
    const later = best.filter((point) => point.trees > last);
    best.length = 0;
    for (const { number, score } of trees) if (!best.length || score > best.at(-1).score) best.push({ trees: number + 1, score });
    best.push({ trees: last, score: best.at(-1).score }, ...later);
    if (hasEnded(latest.state) && latest.best_score !== null) best.push({ trees: latest.trees, score: latest.best_score });
  }

  if (job.trees && !hasEnded(job.state)) complete(); // of one that has ended, whoever follows it asks at its end
  const timer = setInterval(() => document.hidden || latest.state !== "running" || complete(), AGAIN);
  signal.addEventListener("abort", () => clearInterval(timer));
  return { element: chart.element, take, rate, complete };
}

async function readTrees({ id }, signal) {
  const { numbers, scores } = await get(path("jobs", id, "score-history"), { signal });
  return numbers.map((number, place) => ({ number, score: scores[place] }));
}
