// The rules of a job: a list in which new ones appear where they belong, and others stay where they are.

import { el, fill, say } from "./dom.js";
import { copy } from "./files.js";
import { classText, conditionTexts, count, percent, plural, score } from "./text.js";

const COLOURS = 8;

export function ruleList() {
  const list = el("ol", { class: "rules" });
  const known = new Map();
  let first = true;

  /** @param {any} document  the result so far, or the final one */
  function show(document) {
    const wanted = document.rules.map((rule) => {
      const before = known.get(rule.text);
      if (before?.content === JSON.stringify(rule)) return before.element;
      const element = card(rule, document);
      if (!before && !first) element.classList.add("arrives");
      known.set(rule.text, { element, content: JSON.stringify(rule) });
      return element;
    });
    const texts = new Set(document.rules.map((rule) => rule.text));
    for (const text of known.keys()) if (!texts.has(text)) known.delete(text);
    const same = wanted.length === list.children.length && wanted.every((element, place) => list.children[place] === element);
    if (!same) fill(list, ...wanted);
    first = false;
  }
  return { element: list, show };
}

function card(rule, document) {
  const { classes } = document.dataset;
  const colour = classes.indexOf(rule.class) % COLOURS;
  return el(
    "li",
    { class: "rule" },
    el("p", { class: "sentence" }, ...sentence(rule, document.dataset, colour)),
    el("div", { class: "evidence" }, countsBar(rule.counts, classes), el("dl", {}, ...evidence(rule)), copyButton(rule)),
  );
}

/** IF … AND … THEN …, with the words that are not from the table set apart. */
function sentence(rule, dataset, colour) {
  const word = (text) => el("span", { class: "word" }, text);
  const texts = conditionTexts(rule.conditions);
  const conditions = (texts.length ? texts : ["always"]).flatMap((text, place) => [place ? " " : "", word(place ? "and" : "if"), " ", el("span", { class: "condition" }, text)]);
  return [...conditions, " ", word("then"), " ", el("span", { class: `consequence c${colour}` }, classText(rule.class, dataset))];
}

/** How many rows of each class the rule covers. */
function countsBar(counts, classes) {
  const all = Math.max(1, Object.values(counts).reduce((sum, each) => sum + each, 0));
  const parts = classes.map((name, place) => ({ name, place, rows: counts[name] ?? 0 })).filter((part) => part.rows);
  const label = parts.map((part) => `${part.name}: ${count(part.rows)}`).join(", ");
  return el("span", { class: "counts", role: "img", "aria-label": `Training rows: ${label}`, title: label }, ...parts.map((part) => {
    const piece = el("span", { class: `part c${part.place % COLOURS}` });
    piece.style.flexGrow = String(part.rows / all);
    return piece;
  }));
}

function evidence(rule) {
  const parts = [rule.train, rule.validation, rule.holdout].filter(Boolean);
  const precision = parts.map((part) => (part.precision === null ? "–" : percent(part.precision))).join(" → ");
  const facts = [["precision", precision], ["rows", count(rule.n)], ["Gini", score(rule.gini)]];
  return facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}

/** What the figures of each rule are. */
export const legend = (document) =>
  `Precision on training and validation rows${document.rules.some((rule) => rule.holdout) ? ", and on rows that the search never saw" : ""}; training rows covered, by class`;

function copyButton(rule) {
  const button = el("button", { type: "button", class: "plain copy", "aria-label": `Copy: ${rule.text}` }, "Copy");
  button.addEventListener("click", async () => {
    await copy(rule.text).then(() => say(button, "Copied"), () => say(button, "Cannot copy"));
    setTimeout(() => say(button, "Copy"), 2000);
  });
  return button;
}

const SIEVES = [
  ["leaves", "leaves of all trees"], ["large", "with enough rows"], ["pure", "pure enough"],
  ["distinct", "distinct"], ["supported", "supported by the rows"], ["rules", "dissimilar: the rules"],
];

/** How many leaves each sieve left; bars by the logarithm, since the first has thousands and the last has ten. */
export function funnel(counts) {
  const length = (number) => Math.log10(1 + number) / Math.log10(1 + Math.max(1, counts.leaves));
  return el("ol", { class: "funnel" }, ...SIEVES.filter(([key]) => counts[key] !== undefined).map(([key, words]) => {
    const bar = el("span", { class: "bar" });
    bar.style.width = `${100 * length(counts[key])}%`;
    return el("li", { "data-sieve": key }, el("span", { class: "number" }, count(counts[key])), el("span", { class: "track" }, bar), el("span", { class: "soft" }, words));
  }));
}

export const rulesTitle = (document) => (document.partial ? `${plural(document.rules.length, "rule")} so far` : plural(document.rules.length, "rule"));
