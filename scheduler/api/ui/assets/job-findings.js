// The findings of a finished job: the report of the job, shown in the page by the report's own modules.

import { path, send } from "./api.js";
import { startReport } from "./briefing.js";
import { el, setChildren } from "./dom.js";
import { replaceOptions } from "./settings.js";

/**
 * Show the findings in `place`. Return a function that opens the finding of an ID.
 * @returns {Promise<(id: string) => boolean>}
 */
export async function showFindings(place, job, signal) {
  const text = await (await send(path("jobs", job, "report"), { signal })).text();
  // A parsed document runs no scripts and loads nothing; only its element `briefing` is used.
  const report = new DOMParser().parseFromString(text, "text/html");
  const briefing = document.importNode(report.getElementById("briefing"), true);
  const headline = briefing.querySelector(".headline");
  headline.replaceWith(el("h2", { class: "headline" }, ...headline.childNodes)); // the page has an h1
  for (const line of briefing.querySelectorAll(".missing, .empty, .notes li")) nameSettings(line);
  setChildren(place, briefing);
  const { open, redraw } = startReport(briefing, JSON.parse(report.getElementById("data").textContent), { embedded: true });
  let width = innerWidth;
  addEventListener("resize", () => innerWidth !== width && ((width = innerWidth), redraw()), { signal });
  return open;
}

/** Replace options of the command line by the labels of the form. */
function nameSettings(line) {
  for (const node of line.childNodes) if (node.nodeType === Node.TEXT_NODE) node.data = replaceOptions(node.data);
}
