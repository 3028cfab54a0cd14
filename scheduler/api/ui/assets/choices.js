// The three choices that every job needs, in plain words: what to explain, how thorough, and whether to check the findings.

import { isQuantity } from "./column-choice.js";
import { el, setChildren, setText } from "./dom.js";
import { count, number, percent, plural } from "./format.js";

const THOROUGH_TREES = 100000;
const MAX_OPTIONS = 1000; // a longer list is replaced by a text field
const MIN_CHECK_ROWS = 200; // with fewer rows, the search needs all of them
const DEFAULT_CHECK_ROWS = 1000; // from here on, the server keeps rows by default
const CHECK_SHARE = 0.2;
const MAX_BAR_CLASSES = 6;

/**
 * @param {any} dataset
 * @param {ReturnType<import("./column-choice.js").columnChoice>} choice
 * @param {any} settings  the form of all settings, which holds the values
 * @param {{targetChanged: () => void, changed: () => void}} events
 */
export function plainChoices(dataset, choice, settings, events) {
  const target = targetChoice(choice, events.targetChanged);
  const division = divisionChoice(settings, events.changed);
  const effort = effortChoice(settings, events.changed);
  const check = checkChoice(dataset, settings, events.changed);

  function show() {
    target.show(dataset);
    division.show(choice.target());
    effort.show();
    check.show();
  }
  const element = el("div", { class: "choices" }, target.element, division.element, effort.element, check.element);
  return { element, show, focusTarget: () => target.field.focus(), showTargetError: target.showError, setDefaults: check.setDefault };
}

function targetChoice(choice, changed) {
  const names = choice.columns.map((column) => column.name);
  const isLong = names.length > MAX_OPTIONS;
  const attributes = { id: "target", "aria-describedby": "target-hint target-error" };
  const field = isLong
    ? el("input", { ...attributes, type: "text", autocomplete: "off", spellcheck: false, placeholder: "Name of a column" })
    : el("select", attributes, el("option", { value: "" }, "Choose a column"), ...names.map((name) => el("option", { value: name }, name)));
  const hint = el("p", { class: "hint", id: "target-hint" });
  const bar = el("div", { class: "class-bar" });
  const error = el("p", { class: "error", id: "target-error" });
  field.addEventListener("change", () => {
    choice.setTarget(field.value);
    changed();
  });

  function show(dataset) {
    const column = choice.target();
    if (column || !isLong) field.value = column?.name ?? "";
    setText(hint, column ? (column.name === dataset.target ? "Suggested, because of its name and values." : "") : "The column whose values you want to understand, such as churn or survived.");
    setChildren(bar, column && classBar(column));
  }
  const element = el("div", { class: "choice" }, el("label", { htmlFor: "target" }, "What do you want to explain?"), field, hint, bar, error);
  const showError = (message) => {
    setText(error, message);
    if (message) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  };
  return { element, field, show, showError };
}

/** The shares of the values of a column that has few. */
function classBar(column) {
  const texts = column.frequent?.length ? column.frequent : column.distinct === 2 ? [number(column.smallest), number(column.largest)] : [];
  if (!texts.length || column.distinct > MAX_BAR_CLASSES) return isQuantity(column) ? null : el("p", { class: "hint" }, plural(column.distinct, "different value"));
  const total = column.histogram.reduce((sum, each) => sum + each, 0) || 1;
  const share = (index) => column.histogram[index] / total;
  const bar = el("div", { class: "counts", "aria-hidden": "true" }, ...texts.map((_, index) => {
    const segment = el("span", { class: `segment c${index % 8}` });
    segment.style.flexGrow = String(share(index));
    return segment;
  }));
  const legend = el("ul", { class: "class-legend" }, ...texts.map((text, index) => el("li", {}, el("span", { class: `dot segment c${index % 8}`, "aria-hidden": "true" }), el("span", { class: "class-name", title: text }, text), ` ${percent(share(index))}`)));
  return el("div", {}, bar, legend);
}

/** A quantity is divided into two classes; the form of all settings has more ways. */
function divisionChoice(settings, changed) {
  const options = { median: "above the middle value (the median)", mean: "above the average" };
  const select = el("select", { id: "division" });
  const element = el("div", { class: "choice", hidden: true }, el("label", { htmlFor: "division" }, "Which values are high?"), select,
    el("p", { class: "hint" }, "This column is a quantity. The findings explain what makes it high or low."));
  select.addEventListener("change", () => {
    settings.set("target_above", select.value);
    changed();
  });

  function show(column) {
    element.hidden = !isQuantity(column);
    settings.showDivision(isQuantity(column));
    const [above, quantiles] = [settings.get("target_above"), settings.get("target_quantiles")];
    if (element.hidden) return above !== null && settings.set("target_above", null);
    if (above === null && quantiles === null) settings.set("target_above", "median");
    const current = settings.get("target_above");
    const custom = quantiles !== null ? `in ${quantiles} classes of equal size` : current in options ? null : `above ${current}`;
    const entries = [...Object.entries(options), ...(custom ? [["", custom]] : [])];
    setChildren(select, ...entries.map(([value, text]) => el("option", { value, selected: custom ? !value : value === current }, text)));
  }
  return { element, show };
}

function effortChoice(settings, changed) {
  const option = (value, title, text) => {
    const input = el("input", { type: "radio", name: "effort", value, id: `effort-${value}` });
    input.addEventListener("change", () => {
      settings.set("trees", value === "fast" ? null : THOROUGH_TREES);
      changed();
    });
    return { input, element: el("label", { class: "segment-option" }, input, el("span", {}, el("strong", {}, title), el("span", { class: "hint" }, text))) };
  };
  const options = { fast: option("fast", "Fast", "enough for most tables"), thorough: option("thorough", "Thorough", "tries up to ten times as many combinations") };
  const custom = el("p", { class: "hint" });

  function show() {
    const trees = settings.get("trees");
    options.fast.input.checked = trees === null;
    options.thorough.input.checked = trees === THOROUGH_TREES;
    setText(custom, trees === null || trees === THOROUGH_TREES ? "" : `Set under Advanced: ${typeof trees === "number" ? count(trees) : trees} trees.`);
  }
  const element = el("fieldset", { class: "choice" }, el("legend", {}, "How thorough?"),
    el("div", { class: "segments" }, ...Object.values(options).map((each) => each.element)), custom);
  return { element, show };
}

function checkChoice(dataset, settings, changed) {
  const field = el("input", { type: "checkbox", id: "check", "aria-describedby": "check-hint" });
  const hint = el("p", { class: "hint", id: "check-hint" });
  const share = dataset.rows >= DEFAULT_CHECK_ROWS ? null : CHECK_SHARE;
  const set = (isOn) => settings.set("holdout", isOn ? share : 0);
  field.addEventListener("change", () => {
    set(field.checked);
    changed();
  });

  function show() {
    const current = settings.get("holdout");
    const kept = current === null ? (dataset.rows >= DEFAULT_CHECK_ROWS ? CHECK_SHARE : 0) : current;
    field.checked = kept > 0;
    const few = `With only ${plural(dataset.rows, "row")}, the search needs all of them.`;
    setText(hint, kept > 0 ? `The search does not see ${percent(kept)} of the rows. Each finding is checked on them.` : dataset.rows < MIN_CHECK_ROWS ? few : "The findings are not checked on rows that the search has not seen.");
  }
  const element = el("div", { class: "choice check" }, field, el("label", { htmlFor: "check" }, "Keep some rows for a check"), hint);
  return { element, show, setDefault: () => set(dataset.rows >= MIN_CHECK_ROWS) };
}
