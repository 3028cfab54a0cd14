/* The start of a report, in a file of its own and on the page of a job: cards, explanations, a row to try, and figures. */
import { root, setData } from "./data.js";
import { makeFilters, readCards, rules } from "./cards.js";
import { makeTerms } from "./terms.js";
import { makeTrial } from "./trial.js";
import { drawHistograms } from "./histograms.js";
import { makeOpenable, openRule } from "./detail.js";
import { drawPrecision } from "./precision.js";
import { drawSimilarity } from "./similarity.js";
import { drawCoverage } from "./coverage.js";
import { drawFeatureUse, drawSearch } from "./search.js";

const DRAW = { scatter: drawPrecision, heat: drawSimilarity, rows: drawCoverage, use: drawFeatureUse, history: drawSearch };

function followLink(event) {
  const link = event.target.closest("a[href^='#']");
  if (!link) return;
  event.preventDefault();
  const id = link.getAttribute("href").slice(1);
  if (!openRule(id)) document.getElementById(id)?.scrollIntoView();
}

export function drawFigures(only, widest = Infinity) {
  for (const [name, draw] of Object.entries(DRAW)) {
    const place = document.querySelector(`#figure-${name} .picture`);
    if (place && (!only || only.includes(name))) draw(place, Math.min(widest, Math.floor(place.clientWidth)));
  }
}

/**
 * Start the report in `container`, which holds its HTML. In a file of its own, addresses lead to findings; on another
 * page (`embedded`) the address is not the report's, so links are followed here.
 */
export function startReport(container, value, { embedded = false } = {}) {
  setData(value, embedded ? openRule : (id) => (location.hash = `#${id}`));
  if (embedded) container.addEventListener("click", followLink);
  container.classList.add("with-script");
  readCards();
  makeFilters();
  makeOpenable();
  makeTerms(container);
  makeTrial();
  // After the first paint: the findings are there to be read, pictures may come a moment later.
  requestAnimationFrame(() => setTimeout(() => {
    drawFigures();
    root.dataset.drawn = "yes";
  }));
  return { open: openRule, redraw: () => (drawFigures(), rules.filter((rule) => rule.detail).forEach(drawHistograms)) };
}
