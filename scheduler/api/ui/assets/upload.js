// Files that users drop or choose: sent to the server, with progress. A file can be dropped anywhere on any page.

import { path, readProblem, withToken } from "./api.js";
import { el } from "./dom.js";
import { token } from "./session.js";

export const ACCEPT = ".csv,.tsv,.txt,.xlsx,.parquet,text/csv";
const TYPES = {
  csv: "text/csv", txt: "text/csv", tsv: "text/tab-separated-values", tab: "text/tab-separated-values",
  xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", parquet: "application/vnd.apache.parquet",
};

let receiver = null;
let dropped = null;

/** Let a page receive dropped files until it is left. A file that was dropped on another page is passed on at once. */
export function receiveFiles(receive, signal) {
  receiver = receive;
  signal.addEventListener("abort", () => receiver === receive && (receiver = null));
  const file = dropped;
  dropped = null;
  if (file) receive(file);
}

/** Accept files dropped anywhere; `open` shows the page for a new job. */
export function acceptDrops(isAllowed, open) {
  const overlay = el("div", { class: "drop-overlay", hidden: true }, el("p", {}, "Drop the table to open it"));
  document.body.append(overlay);
  const holdsFiles = (event) => isAllowed() && [...(event.dataTransfer?.types ?? [])].includes("Files");
  let depth = 0; // dragenter and dragleave are sent for each element below the pointer
  const hide = () => ((depth = 0), (overlay.hidden = true));
  addEventListener("dragenter", (event) => holdsFiles(event) && ((depth += 1), (overlay.hidden = false)));
  addEventListener("dragleave", () => (depth -= 1) <= 0 && hide());
  addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    hide();
    if (!holdsFiles(event)) return;
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (!file) return;
    if (receiver) return receiver(file);
    dropped = file;
    open();
  });
}

/** Upload with XMLHttpRequest, because `fetch` does not report the progress of uploads. */
export function sendFile(file, signal, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `${path("datasets")}?name=${encodeURIComponent(file.name.slice(0, 200))}`);
    const type = TYPES[file.name.toLowerCase().split(".").pop()] ?? "application/octet-stream";
    const sentToken = token();
    for (const [name, value] of Object.entries(withToken({ "Content-Type": type }))) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => event.lengthComputable && progress(event.loaded / event.total));
    request.addEventListener("load", () => {
      if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText));
      else reject(readProblem(request.status, request.responseText, sentToken));
    });
    request.addEventListener("error", () => reject(new Error("The connection was lost during the upload. Choose the file again.")));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(file);
  });
}
