/* Figures, theme, printing, and the start of the page. */
import { root } from "./data.js";
import { el } from "./elements.js";
import { makeFilters, makeSortable, rules, table } from "./table.js";
import { drawHistograms } from "./histograms.js";
import { makeOpenable, openFromAddress } from "./detail.js";
import { drawPrecision } from "./precision.js";
import { drawSimilarity } from "./similarity.js";
import { drawCoverage } from "./coverage.js";
import { drawFeatureUse, drawSearch } from "./search.js";

const DRAW = { scatter: drawPrecision, heat: drawSimilarity, rows: drawCoverage, use: drawFeatureUse, history: drawSearch };

function drawFigures(only, widest = Infinity) {
  for (const [name, draw] of Object.entries(DRAW)) {
    const place = document.querySelector(`#figure-${name} .picture`);
    if (place && (!only || only.includes(name))) draw(place, Math.min(widest, Math.floor(place.clientWidth)));
  }
}


const dark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
const CANVASES = ["heat", "rows"];
const PAPER = 660; // pixels that fit on A4 and on Letter, upright

function makeThemes() {
  const button = el("button", { type: "button" });
  const say = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("maabo-theme", root.dataset.theme); } catch { /* a file may not be allowed to remember */ }
    say();
    drawFigures(CANVASES);
  });
  dark.addEventListener("change", () => { say(); drawFigures(CANVASES); });
  document.getElementById("tools").append(button);
  say();
}

function restoreTheme() {
  try {
    const theme = localStorage.getItem("maabo-theme");
    if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  } catch { /* nothing is remembered, then */ }
}

function makePrintable() {
  let before;
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    drawFigures(null, PAPER);
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    drawFigures();
  });
}

function redrawWhenResized() {
  let [width, waiting] = [window.innerWidth, 0];
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      drawFigures();
      rules.filter((rule) => rule.detail).forEach(drawHistograms);
    }, 120);
  });
}

root.classList.add("with-script");
restoreTheme();
makeThemes();
makePrintable();
redrawWhenResized();
if (table) {
  makeFilters();
  makeSortable();
  makeOpenable();
  window.addEventListener("hashchange", openFromAddress);
  openFromAddress();
}
// After the first paint: the rules are there to be read, pictures may come a moment later.
requestAnimationFrame(() => setTimeout(() => {
  drawFigures();
  root.dataset.drawn = "yes";
}));
