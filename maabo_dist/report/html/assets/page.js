/* The report as a file: theme, printing, resizing, and findings that an address names. */
import { root } from "./data.js";
import { el } from "./elements.js";
import { drawFigures, startReport } from "./front.js";

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
const CANVASES = ["heat", "rows"];
const PAPER = 660; // pixels that fit on A4 and on Letter, upright

function makeThemes() {
  const button = el("button", { type: "button" });
  const showOther = () => (button.textContent = isDark() ? "Light theme" : "Dark theme");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("maabo-theme", root.dataset.theme); } catch { /* a file may not be allowed to remember */ }
    showOther();
    drawFigures(CANVASES);
  });
  dark.addEventListener("change", () => { showOther(); drawFigures(CANVASES); });
  document.getElementById("tools").append(button);
  showOther();
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

function redrawWhenResized(redraw) {
  let [width, waiting] = [window.innerWidth, 0];
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 120);
  });
}

root.classList.add("with-script");
restoreTheme();
makeThemes();
makePrintable();
const report = startReport(document.getElementById("briefing"), JSON.parse(document.getElementById("data").textContent));
const openFromAddress = () => report.open(decodeURIComponent(location.hash.slice(1)));
redrawWhenResized(report.redraw);
window.addEventListener("hashchange", openFromAddress);
openFromAddress();
