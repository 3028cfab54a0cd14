// The preview of a table: what each column holds, the first rows, and what was noticed and handled.

import { REASONS } from "./column-choice.js";
import { el, setChildren, setText, svg } from "./dom.js";
import { bytes, count, number, percent, plural } from "./format.js";

const MAX_SHOWN = 60;
const MAX_NOTICED = 6;
const MANY_MISSING = 0.05;
const KINDS = { number: "number", pair: "two values", level: "text", other: "other" };
const USES = { date: "date", identifier: "ID", empty: "empty", constant: "one value", unsupported: "not usable" };
const [SPARK_WIDTH, SPARK_HEIGHT] = [112, 28];

/**
 * @param {any} dataset
 * @param {ReturnType<import("./column-choice.js").columnChoice>} choice
 * @param {() => void} changed  called when users use a column or leave it out
 */
export function tablePreview(dataset, choice, changed) {
  const summary = el("p", { class: "chosen" });
  const header = el("thead");
  const body = el("tbody");
  const hiddenCount = el("p", { class: "hint" });
  const noticed = el("ul", { class: "noticed" });
  const filter = el("input", { type: "search", class: "finder", id: "column-filter", placeholder: "Find a column", "aria-label": "Find a column" });
  const scroller = el("div", { class: "preview", tabIndex: 0, role: "region", "aria-label": "Preview of the table" },
    el("table", {}, el("caption", { class: "visually-hidden" }, `Columns and first rows of ${dataset.name}`), header, body));
  filter.addEventListener("input", () => show());
  // The edge fades out while there are more columns to the right.
  const showEdge = () => scroller.classList.toggle("continues", scroller.scrollLeft + scroller.clientWidth < scroller.scrollWidth - 1);
  scroller.addEventListener("scroll", showEdge);
  new ResizeObserver(showEdge).observe(scroller);

  function show() {
    const text = filter.value.toLowerCase();
    const matching = choice.columns.map((column, index) => ({ column, index })).filter(({ column }) => column.name.toLowerCase().includes(text));
    const shown = [...matching].sort((one, other) => rank(other.column) - rank(one.column)).slice(0, MAX_SHOWN);
    const focused = document.activeElement?.dataset?.column;
    setChildren(header, el("tr", {}, ...shown.map(({ column }) => headerCell(column))));
    setChildren(body, ...dataset.sample.map((row) => el("tr", {}, ...shown.map(({ column, index }) => bodyCell(column, row[index])))));
    setText(hiddenCount, matching.length > shown.length ? `${count(shown.length)} of ${plural(matching.length, "column")} are shown. Type a name to find the others.` : "");
    if (focused) header.querySelector(`[data-column="${CSS.escape(focused)}"]`)?.focus();
    showSummary();
    showNoticed();
    showEdge();
  }

  const rank = (column) => Number(column === choice.target());

  function showSummary() {
    const used = choice.columns.filter((column) => column !== choice.target() && !choice.reason(column)).length;
    const leftOut = choice.columns.length - used - (choice.target() ? 1 : 0);
    setText(summary, `${plural(dataset.rows, "row")}, ${plural(dataset.columns, "column")}, ${bytes(dataset.size)}. ${plural(used, "column")} used${leftOut ? `, ${count(leftOut)} left out` : ""}.`);
  }

  function use(column, isUsed) {
    choice.setUsed(column.name, isUsed);
    show();
    changed();
  }

  function headerCell(column) {
    const isTarget = column === choice.target();
    const reason = choice.reason(column);
    const box = el("input", { type: "checkbox", checked: !reason, disabled: isTarget || ["empty", "unsupported"].includes(reason), "data-column": column.name, "aria-label": `Use ${column.name}` });
    box.addEventListener("change", () => use(column, box.checked));
    return el(
      "th",
      { scope: "col", class: isTarget ? "target" : reason ? "left-out" : "" },
      el("label", { class: "use" }, box, el("span", { class: "column", title: column.name }, column.name)),
      el("span", { class: "badges" }, el("span", { class: "badge" }, USES[column.use] ?? KINDS[column.kind]),
        isTarget ? el("span", { class: "badge accent" }, "to explain") : reason ? el("span", { class: "badge warn" }, reason === "leak" ? "likely leak" : "left out") : null),
      sparkline(column),
      el("span", { class: "range" }, rangeText(column)),
      el("span", { class: column.missing ? "missing some" : "missing" }, column.missing ? `${percent(column.missing / dataset.rows)} missing` : "complete"),
    );
  }

  function bodyCell(column, text) {
    const className = column === choice.target() ? "target" : choice.reason(column) ? "left-out" : "";
    const isEmpty = text === null || text === undefined;
    return el("td", { class: [className, column.kind === "number" ? "number" : "", isEmpty ? "gap" : ""].join(" ").trim() }, isEmpty ? (text === null ? "missing" : "") : text);
  }

  /** What was noticed: columns that were left out first, then dates, gaps and the file itself. */
  function showNoticed() {
    const items = [...leftOut(), ...dates(), ...gaps(), ...dataset.notes.map((text) => ({ text: plainNote(text) }))];
    const more = items.length - MAX_NOTICED;
    const list = items.map(noticedItem);
    const rest = () => el("li", {}, el("details", {}, el("summary", {}, `${count(more)} more`), el("ul", { class: "noticed" }, ...list.slice(MAX_NOTICED))));
    setChildren(noticed, ...(more > 1 ? [...list.slice(0, MAX_NOTICED), rest()] : list));
    noticedSection.hidden = !items.length;
  }

  const leftOut = () => Object.keys(REASONS).flatMap((reason) => choice.columns.filter((column) => choice.reason(column) === reason)
    .map((column) => ({ column, text: REASONS[reason], canUse: ["leak", "identifier"].includes(reason) })));

  const dates = () => choice.columns.filter((column) => column.use === "date" && !choice.reason(column))
    .map((column) => ({ column, text: `is a date, ${column.first} to ${column.last}; parts such as its month and weekday are used.` }));

  function gaps() {
    const share = (column) => column.missing / dataset.rows;
    const target = choice.target();
    const columns = choice.columns.filter((column) => column !== target && !choice.reason(column) && share(column) >= MANY_MISSING);
    const most = columns.sort((one, other) => other.missing - one.missing).slice(0, 5).map((column) => `${column.name} ${percent(share(column))}`);
    const text = `Missing cells: ${most.join(", ")}${columns.length > 5 ? ` and ${count(columns.length - 5)} more columns` : ""}. A rule covers a row with a missing value only if it says so.`;
    const unlabelled = { column: target, text: `is missing in ${percent(target ? share(target) : 0)} of the rows, which are not used.` };
    return [...(target?.missing ? [unlabelled] : []), ...(columns.length ? [{ text }] : [])];
  }

  function noticedItem({ column, text, canUse }) {
    return el("li", {}, el("span", {}, column && el("strong", {}, column.name), column ? ` ${text}` : text),
      canUse && " ", canUse && el("button", { type: "button", class: "plain", "aria-label": `Use ${column.name} anyway`, onclick: () => use(column, true) }, "Use it anyway"));
  }

  const noticedSection = el("div", { class: "noticed-section" }, el("h3", {}, "Noticed and handled"), noticed);
  const element = el("div", {}, summary, noticedSection, choice.columns.length > 12 && filter, scroller, hiddenCount);
  return { element, show };
}

/** A small histogram: bars of values, or of the most frequent texts. */
function sparkline({ histogram = [], frequent = [], use }) {
  if (!histogram.length || use === "identifier") return el("span", { class: "spark" });
  const most = Math.max(...histogram);
  const width = SPARK_WIDTH / Math.max(6, histogram.length);
  const bars = histogram.map((cells, index) => {
    const height = cells ? Math.max(1.5, (SPARK_HEIGHT * cells) / most) : 0;
    return svg("rect", { x: (index * width).toFixed(1), y: (SPARK_HEIGHT - height).toFixed(1), width: Math.max(1, width - 1.5).toFixed(1), height: height.toFixed(1), rx: 1 },
      frequent[index] !== undefined && svg("title", {}, `${frequent[index]}: ${count(cells)}`));
  });
  return svg("svg", { class: "spark", width: SPARK_WIDTH, height: SPARK_HEIGHT, viewBox: `0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`, "aria-hidden": "true" }, ...bars);
}

/** What a note of the server says about the file, for people who do not know its encoding. */
const plainNote = (text) => text.replace(/^.* is not UTF-8: .* It was read as (.*)\.$/, "The file was read as $1 text. Check that letters with accents look right.");

function rangeText(column) {
  if (column.first) return `${column.first} to ${column.last}`;
  if (column.kind === "number" && column.smallest !== null) return `${number(column.smallest, 4)} to ${number(column.largest, 4)}`;
  if (column.frequent?.length && column.distinct <= 3) return column.frequent.join(", ");
  return column.distinct ? plural(column.distinct, "value") : "";
}
