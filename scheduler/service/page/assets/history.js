// How the search went: the best score by trees, from events as they come and from the trees that were grown before.

import { get, path } from "./api.js";
import { scoreChart } from "./chart.js";
import { hasEnded } from "./text.js";

const PAGE = 200;
const MOST_PAGES = 10; // beyond that, the report has the whole of it
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

  /** The trees from the first on, as far as they are few enough to be read. */
  async function complete() {
    if (!latest.trees || latest.trees > PAGE * MOST_PAGES) return;
    const found = [];
    let next = null;
    try {
      do {
        const page = await get(`${path("jobs", latest.id, "trees")}?limit=${PAGE}${next ? `&cursor=${encodeURIComponent(next)}` : ""}`, { signal });
        found.push(...page.items.filter((tree) => tree.score !== null));
        next = page.next;
      } while (next && found.length < PAGE * MOST_PAGES);
    } catch {
      return;
    }
    trees = found.map(({ number, score }) => ({ number, score }));
    refill(found);
    draw();
  }

  /** With all trees known, the best so far is known at each of them. */
  function refill(found) {
    const later = best.filter((point) => point.trees > found.length);
    best.length = 0;
    for (const tree of found) if (!best.length || tree.score > best.at(-1).score) best.push({ trees: tree.number + 1, score: tree.score });
    if (best.length) best.push({ trees: found.length, score: best.at(-1).score });
    best.push(...later);
  }

  if (job.trees) complete();
  return { element: chart.element, take, rate, complete };
}
