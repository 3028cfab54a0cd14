/* The cards of the findings: filters, order, and buttons that copy a finding. */
import { data } from "./data.js";
import { copyText, el, truncate } from "./elements.js";

export let rules = [];
export let byId = new Map();

/** Connect the findings in the data with their cards. */
export function readCards() {
  rules = data.rules.map((rule, place) => ({
    ...rule,
    place,
    id: rule.json.id,
    card: document.getElementById(rule.json.id),
    search: `${rule.json.id} ${rule.json.text} ${rule.json.verdict}`.toLowerCase(),
    keys: sortKeys(rule),
  }));
  byId = new Map(rules.map((rule) => [rule.id, rule]));
  [...document.querySelectorAll(".finding")].forEach((card, place) => (byId.get(card.id).keys.usefulness = place));
  rules.forEach(addCopyButtons);
}

const SORTS = [
  ["usefulness", "usefulness"],
  ["rows", "rows covered"],
  ["precision", "precision"],
  ["lift", "lift"],
  ["p", "adjusted p-value"],
  ["order", "order of selection"],
  ["text", "conditions"],
];
const ASCENDING = new Set(["usefulness", "order", "text", "p"]);
// Fewer findings are seen at a glance.
const MIN_FILTERED = 6;
// Of more findings, the first ones are shown until a reader asks for the others.
const MAX_FIRST = 30;
let limit = MAX_FIRST;
let matches = () => true;

function sortKeys(rule) {
  const { json } = rule;
  const tested = json.holdout || json.validation;
  return {
    rows: json.train.n + json.validation.n,
    precision: tested.precision,
    lift: tested.lift,
    p: json.certificate && json.certificate.p,
    order: Number(json.id.slice(1)),
    text: rule.if.toLowerCase(),
  };
}

function sortBy(key) {
  const side = ASCENDING.has(key) ? 1 : -1;
  const missing = (value) => value === null || value === undefined;
  const order = [...rules].sort((a, b) => {
    const [x, y] = [a.keys[key], b.keys[key]];
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a.place - b.place;
    return (x < y ? -side : x > y ? side : 0) || a.place - b.place;
  });
  for (const list of document.querySelectorAll(".cards")) list.append(...order.map((rule) => rule.card).filter((card) => card.parentElement === list));
  showMatching();
}

/** Show the first cards that match the filter, in their current order; return how many match. */
function showMatching() {
  let matching = 0;
  let last = 0;
  for (const card of document.querySelectorAll(".finding")) {
    const fits = matches(byId.get(card.id));
    matching += fits;
    last += fits && card.parentElement.id === "cards"; // findings that failed are few
    card.hidden = !fits || last > limit;
  }
  const button = document.getElementById("more-findings");
  if (button) {
    button.hidden = last <= limit;
    button.textContent = `Show ${last - limit} more ${data.noun}s`;
  }
  return matching;
}

/** A button that shows the findings after the first ones. */
function makeMoreButton() {
  const cards = document.getElementById("cards");
  if (!cards || rules.length <= MAX_FIRST) return;
  const showAll = () => {
    const next = document.querySelector("#cards .finding[hidden]");
    limit = Infinity;
    showMatching();
    next?.querySelector("button.small")?.focus({ preventScroll: true });
  };
  cards.after(el("button", { type: "button", id: "more-findings", class: "small more-findings", onclick: showAll }));
  showMatching();
}

export function makeFilters() {
  const form = document.getElementById("filters");
  limit = MAX_FIRST;
  matches = () => true;
  makeMoreButton();
  if (rules.length < MIN_FILTERED) return;
  const options = (values) => values.map(([value, text]) => el("option", { value }, truncate(text, 60)));
  const classes = data.classes.map((name, place) => [String(place), name]);
  const columns = [...new Set(rules.flatMap((rule) => rule.columns))].sort((a, b) => a.localeCompare(b, "en"));
  const byClass = el("select", { id: "class" }, options([["", "all"], ...classes]));
  const byColumn = el("select", { id: "feature" }, options([["", "all"], ...columns.map((name) => [name, name])]));
  const text = el("input", { id: "text", type: "search", placeholder: "age, R7, held up …", autocomplete: "off", spellcheck: "false" });
  const sorts = SORTS.filter(([key]) => rules.some((rule) => rule.keys[key] !== null && rule.keys[key] !== undefined));
  const chooser = el("select", { id: "sort", onchange: () => sortBy(chooser.value) }, options(sorts));
  form.replaceChildren(
    el("label", {}, "Class", byClass),
    el("label", {}, "Column", byColumn),
    el("label", {}, "Text", text),
    el("label", {}, "Sort by", chooser),
    el("button", { type: "reset" }, "Clear"),
  );
  form.hidden = false;
  const apply = () => filter(byClass.value, byColumn.value, text.value);
  form.addEventListener("input", apply);
  form.addEventListener("reset", () => setTimeout(() => (apply(), sortBy("usefulness"))));
  form.addEventListener("submit", (event) => event.preventDefault());
}

/** Show all findings, whatever the filter. */
export function showAllCards() {
  limit = Infinity;
  filter("", "", "");
}

export function filter(ofClass, column, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  matches = (rule) =>
    (ofClass === "" || rule.own === Number(ofClass)) &&
    (column === "" || rule.columns.includes(column)) &&
    words.every((word) => rule.search.includes(word));
  const matching = showMatching();
  const some = ofClass !== "" || column !== "" || words.length;
  document.getElementById("filter-status").textContent = some ? `${matching} of ${rules.length} match` : "";
}

function addCopyButtons(rule) {
  const message = el("span", { role: "status", class: "hint" });
  const texts = { SQL: rule.sql, Python: rule.pandas, Text: `${rule.sentence}\n` };
  const press = async (name) => {
    const done = await copyText(texts[name]);
    message.textContent = done ? `${name} copied` : "Copying is not allowed here; the evidence has the text.";
    setTimeout(() => (message.textContent = ""), 4000);
  };
  const buttons = Object.keys(texts).map((name) => el("button", { type: "button", class: "small", "aria-label": `Copy ${rule.id} as ${name}`, onclick: () => press(name) }, name));
  rule.card.querySelector(".finding-tools").append(el("span", { class: "copy" }, el("span", { class: "hint" }, "Copy"), ...buttons, message));
}
