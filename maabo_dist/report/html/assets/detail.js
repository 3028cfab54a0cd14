/* The evidence of a finding, in its card. */
import { PART_NAMES, figures, similarityMatrices } from "./data.js";
import { count, el, makeSection, percent, twoDecimals } from "./elements.js";
import { byId, rules, showAllCards } from "./cards.js";
import { term } from "./terms.js";
import { drawHistograms, makeHistograms } from "./histograms.js";
import { makeTree } from "./tree.js";

const SMALLEST_TREE = 0.8;

export function makeOpenable() {
  for (const rule of rules) {
    rule.button = el("button", { type: "button", class: "small", "aria-expanded": "false", "aria-label": `${rule.id}, evidence`, onclick: () => toggle(rule) }, "Evidence");
    rule.card.querySelector(".finding-tools").prepend(rule.button);
  }
}

function toggle(rule, open = rule.button.getAttribute("aria-expanded") !== "true") {
  rule.button.setAttribute("aria-expanded", String(open));
  if (rule.detail) rule.detail.remove();
  rule.detail = open ? makeDetail(rule) : null;
  if (open) {
    rule.card.append(rule.detail);
    rule.button.setAttribute("aria-controls", `detail-${rule.id}`);
    drawHistograms(rule);
    fitTree(rule.detail);
  } else rule.button.removeAttribute("aria-controls");
  // A page that contains the report may keep in its address what is open.
  rule.card.dispatchEvent(new CustomEvent("evidence", { bubbles: true, detail: { open } }));
}

/** Make a tree that is slightly too wide a little smaller, so that it need not be scrolled. */
function fitTree(panel) {
  const tree = panel.querySelector(".scroll > svg");
  if (tree && tree.width.baseVal.value * SMALLEST_TREE <= tree.parentElement.clientWidth) tree.classList.add("fitted");
}

/** Open the evidence of a finding and go there; return false if there is no finding of this id. */
export function openRule(id) {
  const rule = byId.get(id);
  if (!rule) return false;
  if (rule.card.hidden) {
    document.getElementById("filters").reset();
    showAllCards();
  }
  toggle(rule, true);
  rule.card.scrollIntoView();
  rule.button.focus({ preventScroll: true });
  return true;
}

function makeDetail(rule) {
  return el(
    "div",
    { class: "panel", id: `detail-${rule.id}`, role: "region", "aria-label": `Evidence for ${rule.id}` },
    el("div", { class: "pictures" }, makeHistograms(rule), makeTree(rule)),
    el("div", {}, makeEvidence(rule), makeDropped(rule), makeStandIns(rule), makeDisplaced(rule), makeSimilar(rule), makeCode(rule)),
  );
}

function makeEvidence(rule) {
  const { json } = rule;
  const names = ["train", "validation", "holdout"].filter((name) => json[name]);
  const line = (label, cell) =>
    el("tr", {}, el("th", { scope: "row" }, label), names.map((name) => el("td", { class: "number" }, cell(json[name], name))));
  const interval = (name) => {
    const [low, high] = rule.intervals[name];
    return low === null ? "–" : `${twoDecimals(low)}–${twoDecimals(high)}`;
  };
  const q = json.holdout && json.holdout.q;
  return makeSection(
    "Evidence",
    el(
      "table",
      { class: "plain" },
      el("thead", {}, el("tr", {}, el("td", {}), names.map((name) => el("th", { scope: "col", class: "number" }, PART_NAMES[name])))),
      el(
        "tbody",
        {},
        line("rows covered", (support) => `${count(support.n)} of ${count(support.rows)}`),
        line(term("precision", "precision"), (support) => twoDecimals(support.precision)),
        line(term("interval", "95 % interval"), (_, name) => interval(name)),
        line(term("recall", "recall"), (support) => twoDecimals(support.recall)),
        line(term("lift", "lift"), (support) => twoDecimals(support.lift)),
      ),
    ),
    el(
      "p",
      { class: "hint" },
      term("gini", "Gini"), ` ${json.gini.toFixed(3)}. ${count(json.unique)} training rows are covered by no other rule. `,
      json.certificate && [term("certificate", "Certified"), ": ", term("adjusted-p", "adjusted p"), ` ${pValueText(json.certificate.p)}, by ${METHODS[json.certificate.method]}.`],
      json.certificate || q === null || q === undefined ? null : [`Held-out test: p ${pValueText(json.holdout.p)}, `, term("q", "q"), ` ${pValueText(q)}.`],
      json.stability && json.stability.repeats ? ` Came back in ${json.stability.returns} of ${json.stability.repeats} repeats.` : null,
    ),
  );
}
const METHODS = { bound: "a bound on the number of possible rules", shuffles: "searches on shuffled labels" };
const pValueText = (value) => (value < 0.001 ? "< 0.001" : `= ${value.toFixed(3)}`);

function makeDropped(rule) {
  if (!rule.dropped.length) return null;
  return makeSection(
    "Dropped",
    el("p", { class: "hint" }, "Conditions of its leaf that the rows do not support."),
    el("ul", {}, rule.dropped.map((text) => el("li", {}, text))),
  );
}

function makeStandIns(rule) {
  if (!rule.stand_ins.length) return null;
  return makeSection(
    "Columns that stand in",
    el("p", { class: "hint" }, "In other certified rules on nearly the same rows."),
    el("ul", {}, rule.stand_ins.map((text) => el("li", {}, text))),
  );
}

function makeDisplaced(rule) {
  const { displaced, displaced_total: total } = rule.json;
  if (!total) return null;
  const items = displaced.map((entry, place) =>
    el("li", {}, entry.text, " → ", rule.displaced[place], " ", el("small", {}, `n ${count(entry.n)}, Gini ${entry.gini.toFixed(3)}, similarity ${twoDecimals(entry.similarity)}`)),
  );
  const [title, hint, first] = rule.json.certificate
    ? ["Also seen as", "Certified rules that cover nearly the same rows.", "most similar"]
    : ["Near-equivalents", "Reliable leaves that this rule made redundant.", "purest"];
  const more = total > displaced.length ? `The ${first} of ${count(total)}.` : "";
  return makeSection(title, el("p", { class: "hint" }, `${hint} ${more}`), el("ul", {}, items));
}

function makeSimilar(rule) {
  const entries = figures && rule.place < figures.rule_count ? nearest(rule) : nearestByDocument(rule);
  if (!entries.length) return null;
  const items = entries.map(([other, note]) =>
    el("li", {}, el("a", { href: `#${other.id}` }, other.id), ` if ${other.if} then ${other.then} `, el("small", {}, note)),
  );
  return makeSection("Similar rules", el("ul", {}, items));
}

function nearest(rule) {
  const size = figures.rule_count;
  const [logic, rows] = [similarityMatrices().logic, similarityMatrices().rows].map((all) => all.subarray(rule.place * size, (rule.place + 1) * size));
  return [...Array(size).keys()]
    .filter((place) => place !== rule.place && logic[place] + rows[place] > 0)
    .sort((a, b) => Math.max(logic[b], rows[b]) - Math.max(logic[a], rows[a]) || a - b)
    .slice(0, 4)
    .map((place) => [rules[place], `conditions ${logic[place]} %, rows ${rows[place]} %`]);
}

function nearestByDocument(rule) {
  const near = rule.json.most_similar;
  return near && byId.has(near.rule) ? [[byId.get(near.rule), `conditions ${percent(near.similarity)}`]] : [];
}

/** The finding as text, SQL, pandas and JSON, to read or to copy by hand. */
function makeCode(rule) {
  const texts = { Text: rule.json.text, SQL: rule.sql, Python: rule.pandas, JSON: `${JSON.stringify(rule.json, null, 2)}\n` };
  const shown = Object.entries(texts).map(([name, text]) => el("details", {}, el("summary", {}, name), el("pre", { tabindex: "0", "aria-label": `${rule.id} as ${name}` }, text)));
  const section = makeSection("As code", shown);
  section.classList.add("copying");
  return section;
}
