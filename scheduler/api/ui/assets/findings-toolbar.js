// Search, filter and sort the findings of a job, and open the one that the address names.
//
// The findings are elements whose IDs are those of the rules (`R1`, `R2`, …), whoever draws them.

import { copyText, el, setChildren, setText } from "./dom.js";
import { classText, plural } from "./format.js";
import { absoluteLink, jobAddress, keepView } from "./permalinks.js";

const MIN_RULES = 4; // fewer can be seen at once
const VERDICTS = { "held up": "Held up", "weaker than in training": "Weaker", failed: "Failed", "not tested": "Not tested" };
const lastPrecision = (rule) => [rule.holdout, rule.validation, rule.train].find((split) => split && split.precision !== null)?.precision ?? 0;
const SORTS = {
  precision: ["Most reliable first", (one, other) => lastPrecision(other) - lastPrecision(one)],
  rows: ["Most rows first", (one, other) => other.n - one.n],
  conditions: ["Shortest first", (one, other) => one.conditions.length - other.conditions.length],
};

/**
 * @param {HTMLElement} container  holds the findings
 * @param {string} job
 * @param {import("./permalinks.js").View} view  what the address asks for
 */
export function findingsToolbar(container, job, view) {
  const search = el("input", { type: "search", id: "finding-filter", placeholder: "Search in the findings", "aria-label": "Search in the findings", value: view.filter ?? "" });
  const label = el("select", { "aria-label": "Class" });
  const verdict = el("select", { "aria-label": "Verdict" });
  const sort = el("select", { "aria-label": "Order" }, option("", "Most useful first", view.sort), ...Object.entries(SORTS).map(([key, [text]]) => option(key, text, view.sort)));
  const shown = el("p", { class: "hint", role: "status" });
  const element = el("div", { class: "findings-toolbar", hidden: true }, search, label, verdict, sort, shown);
  let rules = [];
  let wasOpened = false;

  element.addEventListener("input", () => {
    Object.assign(view, { filter: search.value.trim(), class: label.value, verdict: verdict.value, sort: sort.value });
    keepView(job, view);
    apply();
  });
  // An opened finding becomes part of the address. `toggle` events do not bubble.
  container.addEventListener("toggle", (event) => {
    const id = event.target.closest?.("[id^=R]")?.id;
    if (!id || !rules.some((rule) => rule.id === id)) return;
    if (event.target.open) view.finding = id;
    else if (view.finding === id) delete view.finding;
    keepView(job, view);
  }, true);

  /** @param {any} document  the result, whose findings have been drawn */
  function show(document) {
    rules = document.rules;
    const classes = [...new Set(rules.map((rule) => rule.class))];
    const verdicts = [...new Set(rules.map((rule) => rule.verdict))];
    setChildren(label, option("", "All classes", view.class), ...classes.map((name) => option(name, classText(name, document.dataset), view.class)));
    setChildren(verdict, option("", "All verdicts", view.verdict), ...verdicts.map((name) => option(name, VERDICTS[name] ?? name, view.verdict)));
    label.hidden = classes.length < 2;
    verdict.hidden = verdicts.length < 2;
    element.hidden = rules.length < MIN_RULES && !isFiltered();
    apply();
    if (!wasOpened && view.finding && !document.partial) (wasOpened = true), open(view.finding);
  }

  const isFiltered = () => Boolean(view.filter || view.class || view.verdict);

  function matches(rule, element_) {
    const text = `${rule.id} ${rule.text} ${element_.textContent}`.toLowerCase();
    return (!view.class || rule.class === view.class) && (!view.verdict || rule.verdict === view.verdict)
      && (view.filter ?? "").toLowerCase().split(/\s+/).every((word) => text.includes(word));
  }

  function apply() {
    const cards = rules.map((rule) => ({ rule, card: find(rule.id) })).filter(({ card }) => card);
    const visible = cards.filter(({ rule, card }) => {
      card.hidden = !matches(rule, card);
      return !card.hidden;
    });
    reorder(cards);
    for (const heading of container.querySelectorAll(".failed-heading")) heading.hidden = Boolean(view.sort) || !visible.some(({ rule }) => rule.verdict === "failed");
    setText(shown, isFiltered() ? `${plural(visible.length, "finding")} of ${rules.length}` : "");
  }

  /** Move the findings that have the same parent into the chosen order. */
  function reorder(cards) {
    const parents = new Set(cards.map(({ card }) => card.parentElement));
    if (!SORTS[view.sort] || parents.size !== 1) return;
    const [parent] = parents;
    const sorted = [...cards].sort((one, other) => SORTS[view.sort][1](one.rule, other.rule));
    if (sorted.some(({ card }, index) => parent.children[index] !== card)) parent.prepend(...sorted.map(({ card }) => card));
  }

  const find = (id) => container.querySelector(`#${CSS.escape(id)}`);

  function open(id) {
    const card = find(id);
    if (!card) return setText(shown, `There is no finding ${id} in this job.`), void (element.hidden = false);
    const details = card.matches("details") ? card : card.querySelector("details");
    if (details) details.open = true;
    card.classList.add("linked");
    card.scrollIntoView({ block: "start" });
    if (!card.hasAttribute("tabindex")) card.tabIndex = -1;
    card.focus({ preventScroll: true });
  }

  return { element, show, needsOrder: () => Boolean(view.sort) };
}

function option(value, text, current) {
  return el("option", { value, selected: value === (current ?? "") }, text);
}

/** A button that copies the link to a finding. */
export function linkButton(job, id) {
  const button = el("button", { type: "button", class: "plain copy-link", "aria-label": `Copy a link to ${id}` }, "Link");
  button.addEventListener("click", async () => {
    await copyText(absoluteLink(jobAddress(job, { finding: id }))).then(() => setText(button, "Link copied"), () => setText(button, "Copy failed"));
    setTimeout(() => setText(button, "Link"), 2000);
  });
  return button;
}
