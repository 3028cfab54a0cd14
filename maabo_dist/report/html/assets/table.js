/* The table of rules: order, filters, sorting. */
import { data } from "./data.js";
import { el, truncate } from "./elements.js";

export const table = document.querySelector("table.rules");
export const rules = data.rules.map((rule, place) => ({
  ...rule,
  place,
  id: rule.json.id,
  body: document.getElementById(rule.json.id),
  search: `${rule.json.id} ${rule.json.text}`.toLowerCase(),
  keys: sortKeys(rule, place),
  failed: Boolean(rule.json.certificate) && rule.json.verdict === "failed",
}));
const failedHeading = document.querySelector("table.rules > tbody.heading");
export const byId = new Map(rules.map((rule) => [rule.id, rule]));

function sortKeys(rule, place) {
  const { json } = rule;
  const tested = json.holdout || json.validation;
  return {
    order: place,
    text: rule.if.toLowerCase(),
    purity: json.n ? json.counts[json.class] / json.n : 0,
    n: json.n,
    gini: json.gini,
    train: json.train.precision,
    validation: json.validation.precision,
    holdout: json.holdout && json.holdout.precision,
    strip: tested.precision,
    lift: tested.lift,
    q: json.holdout && json.holdout.q,
    p: json.certificate && json.certificate.p,
    verdict: ["held up", "weaker than in training", "not tested", "failed"].indexOf(json.verdict),
    unique: json.unique,
    stability: json.stability && json.stability.share,
  };
}

const ASCENDING = new Set(["order", "text", "gini", "q", "p", "verdict"]);
let sorted = { key: "order", down: false };

function sortBy(key, down) {
  sorted = { key, down };
  const side = down ? -1 : 1;
  const missing = (value) => value === null || value === undefined;
  const order = [...rules].sort((a, b) => {
    if (a.failed !== b.failed) return a.failed - b.failed;
    const [x, y] = [a.keys[key], b.keys[key]];
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a.place - b.place;
    return (x < y ? -side : x > y ? side : 0) || a.place - b.place;
  });
  const bodies = (failed) => order.filter((rule) => rule.failed === failed).map((rule) => rule.body);
  table.append(...bodies(false), ...(failedHeading ? [failedHeading] : []), ...bodies(true));
  for (const head of table.querySelectorAll("thead th")) {
    if (head.dataset.key === key) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  const chooser = document.getElementById("sort");
  if (chooser) chooser.value = key;
}

export function makeSortable() {
  for (const head of table.querySelectorAll("thead th")) {
    const { key } = head.dataset;
    const press = () => sortBy(key, sorted.key === key ? !sorted.down : !ASCENDING.has(key));
    head.replaceChildren(el("button", { type: "button", onclick: press }, ...head.childNodes));
  }
  table.querySelector("thead th").setAttribute("aria-sort", "ascending");
}

export function makeFilters() {
  const form = document.getElementById("filters");
  const options = (values) => values.map(([value, text]) => el("option", { value }, truncate(text, 60)));
  const classes = data.classes.map((name, place) => [String(place), name]);
  const columns = [...new Set(rules.flatMap((rule) => rule.columns))].sort((a, b) => a.localeCompare(b, "en"));
  const byClass = el("select", { id: "class" }, options([["", "all"], ...classes]));
  const byColumn = el("select", { id: "feature" }, options([["", "all"], ...columns.map((name) => [name, name])]));
  const text = el("input", { id: "text", type: "search", placeholder: "age, R7, > 0.5 …", autocomplete: "off", spellcheck: "false" });
  const heads = [...table.querySelectorAll("thead th")].filter((head) => head.dataset.key !== "strip");
  const sorts = heads.map((head) => [head.dataset.key, head.textContent.trim()]);
  const chooser = el("select", { id: "sort", onchange: () => sortBy(chooser.value, !ASCENDING.has(chooser.value)) }, options(sorts));
  const clear = el("button", { type: "reset" }, "Clear");
  form.append(
    el("label", {}, "Class", byClass),
    el("label", {}, "Feature", byColumn),
    el("label", {}, "Text", text),
    el("label", { class: "narrow" }, "Sort by", chooser),
    clear,
  );
  form.hidden = false;
  const apply = () => filter(byClass.value, byColumn.value, text.value);
  form.addEventListener("input", apply);
  form.addEventListener("reset", () => setTimeout(apply));
  form.addEventListener("submit", (event) => event.preventDefault());
}

export function filter(ofClass, column, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let matching = 0;
  for (const rule of rules) {
    const fits =
      (ofClass === "" || rule.own === Number(ofClass)) &&
      (column === "" || rule.columns.includes(column)) &&
      words.every((word) => rule.search.includes(word));
    rule.body.hidden = !fits;
    matching += fits;
  }
  if (failedHeading) failedHeading.hidden = rules.every((rule) => !rule.failed || rule.body.hidden);
  const some = ofClass !== "" || column !== "" || words.length;
  document.getElementById("filter-status").textContent = some ? `${matching} of ${rules.length} rules` : "";
}
