// The columns of a table: which one is explained, and which are left out.

import { el, fill, say } from "./dom.js";
import { count, number, plural } from "./text.js";

const SHOWN = 150;
const NAMED_TARGETS = ["target", "class", "label", "y", "outcome"];
const KINDS = { number: "number", pair: "two texts", level: "text", other: "cannot be mined" };
const MOST_CLASSES = 20;
const MOST_LEVELS = 50;

/** The column that is probably meant: one with a telling name, or the last. */
export function guessTarget(columns) {
  const named = columns.find((column) => NAMED_TARGETS.includes(column.name.toLowerCase()));
  return (named ?? columns.at(-1))?.name ?? null;
}

/** Why a column would be refused; null if it would not. */
export function unusable(column, rows, mostLevels) {
  if (column.kind === "other") return "holds what cannot be mined";
  if (column.missing === rows) return "is empty";
  if (column.kind === "number") return null;
  if (column.distinct > mostLevels) return `has more than ${mostLevels} texts`;
  return column.distinct >= 10 && column.distinct === rows - column.missing ? "tells the rows apart" : null;
}

/** Whether a target has to be cut into classes. */
export const isQuantity = (column) => column?.kind === "number" && column.distinct > MOST_CLASSES;

/**
 * @param {any} dataset
 * @param {(target: any) => void} changed
 */
export function columnPicker(dataset, changed) {
  const columns = dataset.features;
  let target = guessTarget(columns);
  const excluded = new Set(columns.filter((column) => column.name !== target && unusable(column, dataset.rows, MOST_LEVELS)).map((column) => column.name));
  const chosen = el("p", { class: "chosen" });
  const list = el("ul", { class: "columns" });
  const rest = el("p", { class: "soft" });
  const filter = el("input", { type: "search", id: "column-filter", placeholder: "Find a column", "aria-label": "Find a column" });
  filter.addEventListener("input", () => show());
  const targetColumn = () => columns.find((column) => column.name === target);

  function show() {
    const words = filter.value.toLowerCase();
    const found = columns.filter((column) => column.name.toLowerCase().includes(words));
    found.sort((one, other) => urgency(other) - urgency(one));
    fill(list, ...found.slice(0, SHOWN).map(row));
    say(rest, found.length > SHOWN ? `and ${count(found.length - SHOWN)} more; type to find one of them` : "");
    summarize();
  }

  /** The target and what was left out without being asked for come first, where they are seen. */
  function urgency(column) {
    return column.name === target ? 2 : Number(unusable(column, dataset.rows, MOST_LEVELS) !== null);
  }

  function summarize() {
    const used = columns.length - excluded.size - (excluded.has(target) ? 0 : 1);
    fill(chosen, "Explain ", el("strong", {}, target ?? "–"), ` by ${plural(used, "column")}`,
      excluded.size ? `; ${count(excluded.size)} left out` : "");
  }

  function row(column) {
    const isTarget = column.name === target;
    const use = el("input", { type: "checkbox", checked: isTarget || !excluded.has(column.name), disabled: isTarget });
    const pick = el("input", { type: "radio", name: "target", checked: isTarget, "aria-label": `Explain ${column.name}` });
    const element = el(
      "li",
      { class: isTarget ? "target" : excluded.has(column.name) ? "out" : "" },
      el("label", { class: "use" }, use, el("span", {}, el("span", { class: "column" }, column.name), el("span", { class: "soft" }, describe(column, dataset.rows)))),
      el("label", { class: "pick" }, pick, "explain this"),
    );
    use.addEventListener("change", () => {
      if (use.checked) excluded.delete(column.name);
      else excluded.add(column.name);
      element.classList.toggle("out", !use.checked);
      summarize();
      changed(targetColumn());
    });
    pick.addEventListener("change", () => {
      target = column.name;
      excluded.delete(target);
      show();
      list.querySelector(".target input[type=radio]")?.focus();
      changed(targetColumn());
    });
    return element;
  }

  show();
  const value = () => ({ target, exclude: [...excluded].filter((name) => name !== target) });
  const element = el("div", {}, chosen, columns.length > 12 && filter, list, rest);
  return { element, value, target: targetColumn };
}

function describe(column, rows) {
  const why = unusable(column, rows, MOST_LEVELS);
  const parts = [why && `left out, as it ${why}`, KINDS[column.kind]];
  if (column.smallest !== null && column.largest !== null) parts.push(`${number(column.smallest)} to ${number(column.largest)}`);
  if (column.distinct !== null) parts.push(plural(column.distinct, "value"));
  if (column.levels?.length) parts.push(column.levels.slice(0, 4).join(", ") + (column.distinct > 4 ? ", …" : ""));
  if (column.missing) parts.push(`${count(column.missing)} missing`);
  return parts.filter(Boolean).join(" · ");
}
