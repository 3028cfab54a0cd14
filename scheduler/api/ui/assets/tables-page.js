// The list of all uploaded tables.

import { call, get, path } from "./api.js";
import { confirmButton, el, setChildren, setText } from "./dom.js";
import { ago, bytes, count, plural } from "./format.js";

const PAGE_SIZE = 200;

export async function showTables(root, signal) {
  const notice = el("p", { class: "notice", role: "status" });
  const filter = el("input", { type: "search", class: "finder", placeholder: "Find a table", "aria-label": "Find a table", hidden: true });
  const list = el("ul", { class: "tables" });
  root.append(
    el("div", { class: "heading" }, el("h1", { tabIndex: -1 }, "Tables"), el("a", { class: "button main", href: "#/new" }, "New job")),
    filter, notice, list,
  );
  let tables = [];
  const show = () => {
    const text = filter.value.toLowerCase();
    const matching = tables.filter((table) => table.name.toLowerCase().includes(text));
    filter.hidden = tables.length < 8;
    setChildren(list, ...(tables.length ? matching.map(row) : [emptyList()]));
  };
  const remove = async (table) => {
    try {
      await call("DELETE", path("datasets", table.id));
      tables = tables.filter((each) => each !== table);
      show();
    } catch (problem) {
      setText(notice, problem.message);
    }
  };
  const row = (table) => el(
    "li", {},
    el("a", { class: "name", href: `#/new?table=${table.id}` }, table.name),
    el("span", { class: "muted" }, `${plural(table.rows, "row")}, ${plural(table.columns, "column")}`),
    el("span", { class: "muted" }, `${bytes(table.size)}, ${ago(table.created)}`),
    el("span", { class: "row-actions" }, el("a", { href: `#/?table=${table.id}`, "aria-label": `Jobs on ${table.name}` }, "Jobs"),
      confirmButton("Delete", "Really delete?", () => remove(table), { class: "plain", "aria-label": `Delete ${table.name}` })),
  );
  filter.addEventListener("input", show);
  try {
    tables = await loadTables(signal);
    show();
  } catch (problem) {
    if (!signal.aborted) setText(notice, problem.message);
  }
}

/** Load all tables, newest first. */
export async function loadTables(signal) {
  const tables = [];
  let next = null;
  do {
    const page = await get(`${path("datasets")}?limit=${PAGE_SIZE}${next ? `&cursor=${encodeURIComponent(next)}` : ""}`, { signal });
    tables.push(...page.items);
    next = page.next;
  } while (next);
  return tables.reverse();
}

function emptyList() {
  return el("li", { class: "empty" }, el("h2", {}, "No tables yet"), el("p", {}, "Drop a CSV or Excel file anywhere on this page."),
    el("a", { class: "button main", href: "#/new" }, "Choose a file"));
}
