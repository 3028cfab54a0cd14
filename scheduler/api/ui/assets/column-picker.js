// The columns of a table: choose the target, and exclude columns.

import { el, setChildren, setText } from "./dom.js";
import { count, number, plural } from "./format.js";

const MAX_SHOWN = 150;
const TARGET_NAMES = ["target", "class", "label", "y", "outcome"];
const KINDS = { number: "number", pair: "two values", level: "text", other: "unsupported" };
const MAX_CLASSES = 20;
const MAX_LEVELS = 50;

/** Guess the target: a column with a typical name, or the last one. */
function guessTarget(columns) {
  const named = columns.find((column) => TARGET_NAMES.includes(column.name.toLowerCase()));
  return (named ?? columns.at(-1))?.name ?? null;
}

/** Return why a column cannot be used as a feature; null if it can. */
function unusableReason(column, rows) {
  if (column.kind === "other") return "unsupported type";
  if (column.missing === rows) return "empty";
  if (column.kind === "number") return null;
  if (column.distinct > MAX_LEVELS) return `more than ${MAX_LEVELS} different values`;
  return column.distinct >= 10 && column.distinct === rows - column.missing ? "ID-like, every value is unique" : null;
}

/** True if a target has to be divided into classes. */
export const isNumeric = (column) => column?.kind === "number" && column.distinct > MAX_CLASSES;

/**
 * @param {any} dataset
 * @param {(target: any) => void} changed
 */
export function columnPicker(dataset, changed) {
  const columns = dataset.features;
  let target = guessTarget(columns);
  const excluded = new Set(columns.filter((column) => column.name !== target && unusableReason(column, dataset.rows)).map((column) => column.name));
  const summary = el("p", { class: "chosen" });
  const list = el("ul", { class: "columns" });
  const hiddenCount = el("p", { class: "muted" });
  const filter = el("input", { type: "search", id: "column-filter", placeholder: "Find a column", "aria-label": "Find a column" });
  filter.addEventListener("input", () => show());
  const targetColumn = () => columns.find((column) => column.name === target);

  function show() {
    const text = filter.value.toLowerCase();
    const matching = columns.filter((column) => column.name.toLowerCase().includes(text));
    matching.sort((one, other) => rank(other) - rank(one));
    setChildren(list, ...matching.slice(0, MAX_SHOWN).map(row));
    setText(hiddenCount, matching.length > MAX_SHOWN ? `and ${count(matching.length - MAX_SHOWN)} more; type to find them` : "");
    showSummary();
  }

  /** The target and automatically excluded columns come first. */
  function rank(column) {
    return column.name === target ? 2 : Number(unusableReason(column, dataset.rows) !== null);
  }

  function showSummary() {
    const used = columns.length - excluded.size - (excluded.has(target) ? 0 : 1);
    setChildren(summary, "Target ", el("strong", {}, target ?? "–"), `, ${plural(used, "column")} used`,
      excluded.size ? `, ${count(excluded.size)} excluded` : "");
  }

  function row(column) {
    const isTarget = column.name === target;
    const use = el("input", { type: "checkbox", checked: isTarget || !excluded.has(column.name), disabled: isTarget });
    const pick = el("input", { type: "radio", name: "target", checked: isTarget, "aria-label": `Use ${column.name} as target` });
    const element = el(
      "li",
      { class: isTarget ? "target" : excluded.has(column.name) ? "excluded" : "" },
      el("label", { class: "use" }, use, el("span", {}, el("span", { class: "column" }, column.name), el("span", { class: "muted" }, describe(column, dataset.rows)))),
      el("label", { class: "pick" }, pick, "target"),
    );
    use.addEventListener("change", () => {
      if (use.checked) excluded.delete(column.name);
      else excluded.add(column.name);
      element.classList.toggle("excluded", !use.checked);
      showSummary();
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
  const element = el("div", {}, summary, columns.length > 12 && filter, list, hiddenCount);
  return { element, value, target: targetColumn };
}

function describe(column, rows) {
  const reason = unusableReason(column, rows);
  const parts = [reason && `excluded: ${reason}`, KINDS[column.kind]];
  if (column.smallest !== null && column.largest !== null) parts.push(`${number(column.smallest)} to ${number(column.largest)}`);
  if (column.distinct !== null) parts.push(plural(column.distinct, "value"));
  if (column.levels?.length) parts.push(column.levels.slice(0, 4).join(", ") + (column.distinct > 4 ? ", …" : ""));
  if (column.missing) parts.push(`${count(column.missing)} missing`);
  return parts.filter(Boolean).join(" · ");
}
