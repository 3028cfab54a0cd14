// Where a table comes from: a file that is dropped or chosen, or one that was uploaded before.

import { get, path, refused, withToken } from "./api.js";
import { token } from "./session.js";
import { el, fill, say } from "./dom.js";
import { ago, bytes, count, percent } from "./text.js";

const TYPES = { csv: "text/csv", parquet: "application/vnd.apache.parquet" };

/**
 * @param {(dataset: any) => void} chosen  called with the table's details
 * @param {string|undefined} wanted  the id of a table to begin with
 */
export function tablePicker(chosen, signal, wanted) {
  const input = el("input", { type: "file", id: "file", accept: ".csv,.parquet,text/csv", class: "unseen" });
  const told = el("p", { class: "told", role: "status" });
  const error = el("p", { class: "error", role: "alert" });
  const bar = el("progress", { max: 1, hidden: true, "aria-label": "Upload" });
  const before = el("div", { class: "before" });
  const zone = el(
    "label",
    { class: "drop", htmlFor: "file" },
    el("strong", {}, "Drop a table here, or choose a file"),
    el("span", { class: "soft" }, "CSV with a header line, or Parquet"),
  );
  const element = el("div", { class: "picker" }, input, zone, bar, told, error, before);

  async function open(id) {
    try {
      const dataset = await get(path("datasets", id), { signal });
      element.dataset.chosen = "yes";
      say(told, `${dataset.name}: ${count(dataset.rows)} rows, ${count(dataset.columns)} columns`);
      zone.querySelector("strong").textContent = "Another table";
      chosen(dataset);
    } catch (problem) {
      if (!signal.aborted) say(error, problem.message);
    }
  }

  async function upload(file) {
    say(error, "");
    Object.assign(bar, { hidden: false, value: 0 });
    say(told, `Sending ${file.name} (${bytes(file.size)})`);
    try {
      const dataset = await sendFile(file, signal, (share) => {
        bar.value = share;
        say(told, share < 1 ? `Sending ${file.name}: ${percent(share)}` : `Reading ${file.name}`);
      });
      await open(dataset.id);
    } catch (problem) {
      say(told, "");
      if (!signal.aborted) say(error, [problem.message, problem.remedy].filter(Boolean).join(" "));
    } finally {
      bar.hidden = true;
      input.value = "";
    }
  }

  input.addEventListener("change", () => input.files.length && upload(input.files[0]));
  acceptDrops(zone, upload);
  if (wanted) open(wanted);
  earlier(before, open, signal);
  return element;
}

function acceptDrops(zone, upload) {
  const over = (event) => (event.preventDefault(), zone.classList.add("over"));
  const out = () => zone.classList.remove("over");
  zone.addEventListener("dragover", over);
  zone.addEventListener("dragleave", out);
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    out();
    if (event.dataTransfer.files.length) upload(event.dataTransfer.files[0]);
  });
}

/** The few newest tables that were uploaded before. */
async function earlier(place, open, signal) {
  const found = await get(`${path("datasets")}?limit=200`, { signal }).catch(() => ({ items: [] }));
  const tables = found.items.slice(-5).reverse();
  if (!tables.length || signal.aborted) return;
  const one = (table) =>
    el("li", {}, el("button", { type: "button", class: "plain", onclick: () => open(table.id) }, table.name),
      el("span", { class: "soft" }, ` ${count(table.rows)} × ${count(table.columns)}, ${ago(table.created)}`));
  fill(place, el("h3", {}, "Or one that is here already"), el("ul", {}, ...tables.map(one)));
}

/** By XMLHttpRequest: `fetch` does not tell how much has been sent. */
function sendFile(file, signal, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `${path("datasets")}?name=${encodeURIComponent(file.name.slice(0, 200))}`);
    const type = TYPES[file.name.toLowerCase().split(".").pop()] ?? file.type;
    const sent = token();
    const headers = withToken(type ? { "Content-Type": type } : {});
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => event.lengthComputable && progress(event.loaded / event.total));
    request.addEventListener("load", () => {
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText));
      else reject(refused(request.status, request.responseText, sent));
    });
    request.addEventListener("error", () => reject(new Error("The connection was lost while the table was sent.")));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(file);
  });
}
