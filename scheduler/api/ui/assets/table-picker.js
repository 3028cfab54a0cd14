// Choose a table: drop or select a file to upload, or use an uploaded table.

import { get, path, readProblem, withToken } from "./api.js";
import { token } from "./session.js";
import { el, setChildren, setText } from "./dom.js";
import { ago, bytes, count, percent } from "./format.js";

const TYPES = { csv: "text/csv", parquet: "application/vnd.apache.parquet" };
const MAX_RECENT = 5;

/**
 * @param {(dataset: any) => void} chosen  called with the details of the table
 * @param {string|undefined} initial  ID of a table to start with
 */
export function tablePicker(chosen, signal, initial) {
  const input = el("input", { type: "file", id: "file", accept: ".csv,.parquet,text/csv", class: "visually-hidden" });
  const status = el("p", { class: "upload-status", role: "status" });
  const error = el("p", { class: "error", role: "alert" });
  const bar = el("progress", { max: 1, hidden: true, "aria-label": "Upload" });
  const recent = el("div", { class: "recent-tables" });
  const zone = el(
    "label",
    { class: "drop", htmlFor: "file" },
    el("strong", {}, "Drop a table here, or choose a file"),
    el("span", { class: "muted" }, "CSV with a header line, or Parquet"),
  );
  const element = el("div", { class: "picker" }, input, zone, bar, status, error, recent);

  async function open(id) {
    try {
      const dataset = await get(path("datasets", id), { signal });
      element.dataset.chosen = "yes";
      setText(status, `${dataset.name}: ${count(dataset.rows)} rows, ${count(dataset.columns)} columns`);
      zone.querySelector("strong").textContent = "Choose another table";
      chosen(dataset);
    } catch (problem) {
      if (!signal.aborted) setText(error, problem.message);
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
      if (!signal.aborted) setText(error, [problem.message, problem.remedy].filter(Boolean).join(" "));
    } finally {
      bar.hidden = true;
      input.value = "";
    }
  }

  input.addEventListener("change", () => input.files.length && upload(input.files[0]));
  acceptDrops(zone, upload);
  if (initial) open(initial);
  showRecent(recent, open, signal);
  return element;
}

function acceptDrops(zone, upload) {
  const enter = (event) => (event.preventDefault(), zone.classList.add("over"));
  const leave = () => zone.classList.remove("over");
  zone.addEventListener("dragover", enter);
  zone.addEventListener("dragleave", leave);
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    leave();
    if (event.dataTransfer.files.length) upload(event.dataTransfer.files[0]);
  });
}

/** List the newest uploaded tables. */
async function showRecent(element, open, signal) {
  const page = await get(`${path("datasets")}?limit=200`, { signal }).catch(() => ({ items: [] }));
  const tables = page.items.slice(-MAX_RECENT).reverse();
  if (!tables.length || signal.aborted) return;
  const item = (table) =>
    el("li", {}, el("button", { type: "button", class: "plain", onclick: () => open(table.id) }, table.name),
      el("span", { class: "muted" }, ` ${count(table.rows)} × ${count(table.columns)}, ${ago(table.created)}`));
  setChildren(element, el("h3", {}, "Or use an uploaded table"), el("ul", {}, ...tables.map(item)));
}

/** Upload with XMLHttpRequest, because `fetch` does not report the progress of uploads. */
function sendFile(file, signal, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `${path("datasets")}?name=${encodeURIComponent(file.name.slice(0, 200))}`);
    const type = TYPES[file.name.toLowerCase().split(".").pop()] ?? file.type;
    const sentToken = token();
    const headers = withToken(type ? { "Content-Type": type } : {});
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => event.lengthComputable && progress(event.loaded / event.total));
    request.addEventListener("load", () => {
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText));
      else reject(readProblem(request.status, request.responseText, sentToken));
    });
    request.addEventListener("error", () => reject(new Error("The connection was lost during the upload.")));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(file);
  });
}
