// Choose a table: drop or select a file to upload, or use an uploaded table.

import { get, path } from "./api.js";
import { el, setChildren, setText } from "./dom.js";
import { ago, bytes, count, percent, plural } from "./format.js";
import { loadTables } from "./tables-page.js";
import { ACCEPT, receiveFiles, sendFile } from "./upload.js";

const MAX_RECENT = 5;

/**
 * @param {(dataset: any) => void} chosen  called with the details of the table
 * @param {string|undefined} initial  ID of a table to start with
 */
export function tablePicker(chosen, signal, initial) {
  const input = el("input", { type: "file", id: "file", accept: ACCEPT, class: "visually-hidden" });
  const status = el("p", { class: "upload-status", role: "status" });
  const error = el("p", { class: "error", role: "alert" });
  const bar = el("progress", { max: 1, hidden: true, "aria-label": "Upload" });
  const recent = el("div", { class: "recent-tables" });
  const zone = el(
    "label",
    { class: "drop", htmlFor: "file" },
    el("strong", {}, "Drop a table anywhere, or choose a file"),
    el("span", { class: "muted" }, "CSV, Excel, TSV or Parquet, with the column names in the first row"),
  );
  const element = el("div", { class: "picker" }, input, zone, bar, status, error, recent);

  async function open(id) {
    setText(error, "");
    try {
      const dataset = await get(path("datasets", id), { signal });
      element.dataset.chosen = "yes";
      setText(status, "");
      setChildren(zone, el("strong", {}, "Choose another table"));
      chosen(dataset);
    } catch (problem) {
      if (!signal.aborted) setText(error, explain(problem));
    }
  }

  async function upload(file) {
    setText(error, "");
    Object.assign(bar, { hidden: false, value: 0 });
    setText(status, `Uploading ${file.name} (${bytes(file.size)})`);
    try {
      const dataset = await sendFile(file, signal, (share) => {
        bar.value = share;
        setText(status, share < 1 ? `Uploading ${file.name}: ${percent(share)}` : `Reading ${file.name}`);
      });
      await open(dataset.id);
    } catch (problem) {
      setText(status, "");
      if (!signal.aborted) setText(error, explain(problem));
    } finally {
      bar.hidden = true;
      input.value = "";
    }
  }

  input.addEventListener("change", () => input.files.length && upload(input.files[0]));
  if (initial) open(initial);
  receiveFiles(upload, signal);
  showRecent(recent, open, signal);
  return element;
}

const explain = (problem) => [problem.message, problem.remedy].filter(Boolean).join(" ");

/** List the newest uploaded tables. */
async function showRecent(element, open, signal) {
  const tables = await loadTables(signal).catch(() => []);
  if (!tables.length || signal.aborted) return;
  const item = (table) =>
    el("li", {}, el("button", { type: "button", class: "plain", onclick: () => open(table.id) }, table.name),
      el("span", { class: "muted" }, ` ${plural(table.rows, "row")}, ${plural(table.columns, "column")}, ${ago(table.created)}`));
  setChildren(element, el("h2", {}, "Or use an earlier table"), el("ul", {}, ...tables.slice(0, MAX_RECENT).map(item)),
    tables.length > MAX_RECENT && el("p", {}, el("a", { href: "#/tables" }, `All ${count(tables.length)} tables`)));
}
