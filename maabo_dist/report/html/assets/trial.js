/* Try a row: a form filled from a row of the table, and the findings that match what it holds. */
import { data, figures } from "./data.js";
import { classMark, el, svg } from "./elements.js";
import { rules } from "./cards.js";
import { failingConditions } from "./matcher.js";

const OTHER = "\u0000other";

export function makeTrial() {
  const place = document.getElementById("try-row");
  const examples = figures?.examples;
  if (!place || !examples) return;
  const fields = examples.fields.map(makeField);
  const actual = el("p", { class: "hint" });
  const results = el("div", { class: "try-results", role: "status", "aria-label": "Findings that match" });
  const chooser = el("select", { id: "try-example", onchange: () => fill(Number(chooser.value)) }, examples.rows.map(({ cells }, number) => el("option", { value: number }, exampleName(examples.fields, cells))));
  const update = () => showMatches(results, new Map(fields.map((field) => [field.column, field.read()])));

  function fill(number) {
    fields.forEach((field, index) => field.write(examples.rows[number].cells[index]));
    actual.textContent = `In the table, this row has ${className(examples.rows[number].class)}.`;
    update();
  }
  const form = el("form", { class: "try-form", "aria-label": "A row", oninput: (event) => event.target !== chooser && update(), onsubmit: (event) => event.preventDefault() },
    el("div", { class: "try-top" }, el("div", { class: "try-field" }, el("label", { for: "try-example" }, "Start from"), chooser), el("button", { type: "button", class: "small", onclick: () => fill(Number(chooser.value)) }, "Reset")),
    actual,
    el("div", { class: "try-fields" }, fields.map((field) => field.element)));
  place.replaceChildren(form, results);
  fill(0);
}

/** `A row of R1 and R3`. */
function exampleName(fields, cells) {
  const row = new Map(fields.map(({ column }, index) => [column, cells[index]]));
  const matching = rules.filter((rule) => !failingConditions(rule.json.conditions, row).length).map((rule) => rule.id);
  return matching.length ? `A row of ${matching.slice(0, 4).join(", ")}${matching.length > 4 ? " …" : ""}` : `A row without a ${data.noun}`;
}

const className = (place) => data.class_texts[place];

/** An input for a column; empty means that the cell is missing. */
function makeField({ column, label, kind, levels, low, high, hours, days }, index) {
  const id = `try-${index}`;
  let input;
  if (kind === "levels") {
    const options = levels.map((level) => el("option", { value: level }, level === OTHER ? "another value" : level));
    input = el("select", { id }, el("option", { value: "", "data-missing": true }, "missing"), options);
  } else if (kind === "number") input = el("input", { id, type: "number", step: "any", placeholder: "missing", title: `${low} to ${high} in the table` });
  else input = el("input", { id, type: !days ? "time" : hours ? "datetime-local" : "date" });
  // A level may be the empty text, so missing is recognised by its position.
  const isMissing = () => (kind === "levels" ? input.selectedIndex === 0 : input.value === "");
  const read = () => (isMissing() ? null : kind === "number" ? Number(input.value) : kind === "date" && !days ? `1900-01-01T${input.value}` : input.value);
  const write = (cell) => {
    if (kind === "levels") input.selectedIndex = cell === null ? 0 : 1 + Math.max(0, levels.indexOf(levels.includes(cell) ? cell : OTHER));
    else if (cell === null) input.value = "";
    else input.value = kind === "number" ? String(cell) : !days ? cell.slice(11) : hours ? cell : cell.slice(0, 10);
  };
  return { column, read, write, element: el("div", { class: "try-field" }, el("label", { for: id }, label), input) };
}

function showMatches(place, cells) {
  const tried = rules.map((rule) => ({ rule, failing: failingConditions(rule.json.conditions, cells) }));
  const matching = tried.filter(({ failing }) => !failing.length);
  // Of the others, those that lack least come first.
  const others = tried.filter(({ failing }) => failing.length).sort((a, b) => a.failing.length - b.failing.length || a.rule.keys.usefulness - b.rule.keys.usefulness);
  const text = matching.length ? `${matching.length} of ${rules.length} ${rules.length === 1 ? `${data.noun} matches` : `${data.noun}s match`}` : `No ${data.noun} matches this row`;
  place.replaceChildren(
    el("h3", {}, text),
    el("ul", {}, [...matching, ...others].slice(0, Math.max(12, matching.length)).map(showMatch)),
  );
}

function showMatch({ rule, failing }) {
  const lacks = new Set(failing);
  const conditions = rule.conditions.map((text, index) => el("span", { class: lacks.has(index) ? "fails" : "holds" }, el("span", { "aria-hidden": "true" }, lacks.has(index) ? "✕ " : "✓ "), text, lacks.has(index) ? el("span", { class: "quiet" }, " (fails)") : null));
  const dot = svg("svg", { class: "dot", viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("circle", { class: classMark(rule.own, rule.own, data.classes.length), cx: 5, cy: 5, r: 5 }));
  return el("li", { class: failing.length ? "no-match" : "match", "data-rule": rule.id }, el("p", {}, el("a", { href: `#${rule.id}` }, rule.id), " ", dot, el("b", {}, rule.then), failing.length ? "" : el("span", { class: "hint" }, ` ${rule.share}`)), el("p", { class: "try-conditions" }, conditions));
}
