// The rules of a job, and the funnel from leaves to rules.

import { copyText, el, setText, updateChildren } from "./dom.js";
import { classText, conditionTexts, count, percent, plural, score } from "./format.js";
import { replaceOptions } from "./settings.js";

const COLOURS = 8;

/** A list that keeps the elements of rules that have not changed. */
export function ruleList() {
  const list = el("ol", { class: "rules" });
  const cards = new Map();
  const failedHeading = el("li", { class: "failed-heading" }, el("h3", {}, "Did not hold up on unseen rows"));
  let first = true;

  /** @param {any} document  the result, preliminary or final */
  function show(document) {
    const elements = document.rules.flatMap((rule, index) => {
      const isFirstFailed = hasFailed(rule) && !document.rules.slice(0, index).some(hasFailed);
      return isFirstFailed ? [failedHeading, card(rule)] : [card(rule)];
    });
    const texts = new Set(document.rules.map((rule) => rule.text));
    for (const text of cards.keys()) if (!texts.has(text)) cards.delete(text);
    updateChildren(list, elements);
    first = false;

    function card(rule) {
      const existing = cards.get(rule.text);
      if (existing?.content === JSON.stringify(rule)) return existing.element;
      const element = ruleCard(rule, document);
      if (!existing && !first) element.classList.add("added");
      cards.set(rule.text, { element, content: JSON.stringify(rule) });
      return element;
    }
  }
  return { element: list, show };
}

/** True for a finding that failed on held-out rows; these come last. */
const hasFailed = (rule) => rule.certificate !== null && rule.verdict === "failed";

function ruleCard(rule, document) {
  const { classes } = document.dataset;
  const colour = classes.indexOf(rule.class) % COLOURS;
  return el(
    "li",
    { class: "rule" },
    rule.certificate ? verdictBadge(rule) : null,
    el("p", { class: "sentence" }, ...(rule.certificate ? findingSentence : ruleSentence)(rule, document.dataset, colour)),
    el("div", { class: "evidence" }, countsBar(rule.counts, classes), el("dl", {}, ...evidence(rule)), copyButton(rule)),
    el("p", { class: "muted verdict" }, verdictText(rule)),
    alsoText(rule) ? el("p", { class: "muted also" }, alsoText(rule)) : null,
  );
}

/** The verdict as in the report, with a sign, so that it does not depend on its colour. */
function verdictBadge({ verdict, certificate }) {
  const names = { "held up": "✓ Held up", "weaker than in training": "↘ Weaker", failed: "✕ Failed" };
  const name = names[verdict] ?? (certificate.tentative ? "~ Tentative" : "– Not tested");
  return el("span", { class: `badge ${name.slice(2).toLowerCase().replace(" ", "-")}` }, name);
}

/** Other wordings of a finding: columns that stand in for each other, or another rule on nearly the same rows. */
function alsoText({ certificate, stand_ins: standIns, displaced, displaced_total: total }) {
  if (!certificate || !displaced.length) return "";
  const [first] = standIns;
  const wording = first ? `${first.column} in place of ${first.instead_of}, correlation ${first.correlation.toFixed(2)}` : `seen as ${displaced[0].text}`;
  return `Also ${wording}${total > 1 ? `; ${count(total - 1)} more` : ""}.`;
}

/** What the held-out rows say, and how likely chance is. */
function verdictText(rule) {
  const rows = rule.holdout ? plural(rule.holdout.n, "row") : "";
  const verdict = {
    "held up": `Held up on ${rows} the search never saw`,
    "weaker than in training": `Weaker on ${rows} the search never saw than on the rows it used`,
    failed: `Failed on ${rows} the search never saw`,
  }[rule.verdict] ?? "Not tested on rows the search never saw";
  if (!rule.certificate) return `${verdict}.`;
  const p = rule.certificate.p < 0.001 ? "below 0.001" : Number(rule.certificate.p.toPrecision(2));
  const tentative = rule.certificate.tentative && rule.verdict === "not tested" ? " Tentative: it is certified, but with so little evidence to spare that a smaller sample may not confirm it." : "";
  return `${verdict}. Probability that chance gives the search a rule this strong: ${p}.${tentative}`;
}

const FEW_ROWS = 20; // a share of fewer rows is given as it was counted

/** `85 of 100 rows with plan = basic have churn = yes; usually 21 of 100.`: the words of the report. */
function findingSentence(rule, dataset, colour) {
  const isTested = rule.holdout?.n > 0 && rule.verdict !== "not tested";
  const parts = isTested ? [rule.holdout] : [rule.train, rule.validation];
  const [hits, rows] = [(part) => part.counts[rule.class], (part) => part.n].map((read) => parts.reduce((sum, part) => sum + read(part), 0));
  const share = rows < FEW_ROWS ? `${count(hits)} of ${count(rows)}${isTested ? " unseen" : ""}` : ofHundred(hits / rows);
  const conditions = conditionTexts(rule.conditions).flatMap((text, index) => [index ? " and " : " with ", el("span", { class: "condition" }, text)]);
  const base = dataset.base_rates?.[rule.class];
  return [el("b", {}, share), rows === 1 ? " row" : " rows", ...conditions, " have ", el("span", { class: `consequence c${colour}` }, classText(rule.class, dataset)), base == null ? "." : `; usually ${ofHundred(base)}.`];
}

/** `96 of 100`; never all or none of them unless it is so. */
function ofHundred(share) {
  const rounded = Math.round(100 * share);
  if (rounded === 100 && share < 1) return "more than 99 of 100";
  return rounded === 0 && share > 0 ? "fewer than 1 of 100" : `${rounded} of 100`;
}

/** IF … AND … THEN …, with the keywords set apart from the data. */
function ruleSentence(rule, dataset, colour) {
  const keyword = (text) => el("span", { class: "keyword" }, text);
  const texts = conditionTexts(rule.conditions);
  const conditions = (texts.length ? texts : ["always"]).flatMap((text, index) => [index ? " " : "", keyword(index ? "and" : "if"), " ", el("span", { class: "condition" }, text)]);
  return [...conditions, " ", keyword("then"), " ", el("span", { class: `consequence c${colour}` }, classText(rule.class, dataset))];
}

/** A bar of the rows that the rule covers, by class. */
function countsBar(counts, classes) {
  const total = Math.max(1, Object.values(counts).reduce((sum, each) => sum + each, 0));
  const segments = classes.map((name, index) => ({ name, index, rows: counts[name] ?? 0 })).filter((segment) => segment.rows);
  const label = segments.map((segment) => `${segment.name}: ${count(segment.rows)}`).join(", ");
  return el("span", { class: "counts", role: "img", "aria-label": `Training rows: ${label}`, title: label }, ...segments.map((segment) => {
    const element = el("span", { class: `segment c${segment.index % COLOURS}` });
    element.style.flexGrow = String(segment.rows / total);
    return element;
  }));
}

function evidence(rule) {
  const splits = [rule.train, rule.validation, rule.holdout].filter(Boolean);
  const precision = splits.map((split) => (split.precision === null ? "–" : percent(split.precision))).join(" → ");
  // The sentence of a finding has its share already.
  if (rule.certificate) return [el("div", {}, el("dt", {}, "training rows covered"), el("dd", {}, count(rule.n)))];
  const facts = [["precision", precision], ["rows", count(rule.n)], ["Gini", score(rule.gini)]];
  return facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}

/** Explains the numbers of each rule, and how rules were certified. */
export function legend({ rules, certificate }) {
  if (certificate) return `${certificateText(certificate)}.`;
  return `Precision on training and validation rows${rules.some((rule) => rule.holdout) ? ", and on rows that the search never saw" : ""}; training rows covered, by class.`;
}

function certificateText({ level, shuffles, planned, seconds }) {
  const searches = `${plural(shuffles, "search", "searches")} on shuffled labels (${seconds.toFixed(1)} s)`;
  const bound = "a bound on the number of possible rules";
  const method = !shuffles ? bound : shuffles < planned ? `${bound}; ${searches} could add none` : searches;
  return `Certified: adjusted p ≤ ${level} by ${method}`;
}

function copyButton(rule) {
  const button = el("button", { type: "button", class: "plain copy", "aria-label": `Copy: ${rule.text}` }, "Copy");
  button.addEventListener("click", async () => {
    await copyText(rule.text).then(() => setText(button, "Copied"), () => setText(button, "Copy failed"));
    setTimeout(() => setText(button, "Copy"), 2000);
  });
  return button;
}

const FUNNEL_STEPS = [
  ["leaves", "leaves of all trees"], ["large", "with enough rows"], ["pure", "pure enough"],
  ["distinct", "distinct"], ["supported", "supported by the data"], ["certified", "certified"], ["rules", "on different rows: the findings"],
];

/** The number of leaves after each selection step, with bars on a logarithmic scale. */
export function funnel(counts) {
  const length = (number) => Math.log10(1 + number) / Math.log10(1 + Math.max(1, counts.leaves));
  // Purity is a criterion of the paper's selection only, which certifies nothing.
  const isStep = ([key]) => counts[key] != null && (key !== "pure" || counts.certified == null);
  return el("ol", { class: "funnel" }, ...FUNNEL_STEPS.filter(isStep).map(([key, label]) => {
    const bar = el("span", { class: "bar" });
    bar.style.width = `${100 * length(counts[key])}%`;
    return el("li", { "data-step": key }, el("span", { class: "number" }, count(counts[key])), el("span", { class: "track" }, bar), el("span", { class: "muted" }, label));
  }));
}

/** Why there are no rules, and why classes have none. */
export const reasons = (document) => [
  ...(document.no_rules_reason ? [document.no_rules_reason] : []),
  ...document.missing_classes.map((record) => record.text),
].map((text) => el("p", { class: "reason-text" }, replaceOptions(text)));

export function rulesTitle({ rules, certificate, partial }) {
  const noun = certificate ? "finding" : "rule";
  const title = rules.length ? plural(rules.length, noun) : `No ${noun}s`;
  return partial ? `${title} so far` : title;
}
