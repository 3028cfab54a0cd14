// The router, and the sign-in page where a token is needed.
//
//     #/?table=ID                        the jobs, of all tables or of one
//     #/new?table=ID  #/new?from=JOB     a new job on a table, or an earlier job with changes
//     #/tables                           all tables
//     #/jobs/JOB                         a job
//     #job=JOB&finding=R3&filter=TEXT    a job with an opened finding, or with some of its findings
//     #/compare?one=JOB&other=JOB        the findings of two jobs

import { get, path } from "./api.js";
import { showComparison } from "./compare-page.js";
import { el, setChildren } from "./dom.js";
import { showJob } from "./job-page.js";
import { showJobs } from "./jobs-page.js";
import { showNewJob } from "./new-job-page.js";
import { about, signOut, token } from "./session.js";
import { showSignIn } from "./sign-in.js";
import { showTables } from "./tables-page.js";
import { setUpTheme } from "./theme.js";
import { acceptDrops } from "./upload.js";

const main = document.getElementById("main");
const signOutButton = document.getElementById("sign-out");
const RETRY_INTERVAL = 3000;
let leave = new AbortController();
let first = true;

const ROUTES = {
  "/": ["jobs", "Jobs", showJobs],
  "/new": ["new", "New job", showNewJob],
  "/tables": ["tables", "Tables", showTables],
  "/compare": ["compare", "Comparison", showComparison],
};
const JOB = ["job", "Job", showJob];

/** Show the page of the current address. Each page gets a signal that is aborted when the page is left. */
function show(reason = "") {
  leave.abort();
  leave = new AbortController();
  const needsToken = about.needs_token && !token();
  showTenant();
  const [name, title, page, options] = needsToken ? ["sign-in", "Sign in", showSignIn, { reason, done: show }] : findRoute();
  document.title = `${title} · maabo`;
  for (const link of document.querySelectorAll("[data-route]")) {
    if (link.dataset.route === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  setChildren(main);
  main.dataset.page = name;
  page(main, leave.signal, options);
  if (!first) (main.querySelector("[autofocus], h1") ?? main).focus({ preventScroll: true });
  if (!first) scrollTo(0, 0);
  first = false;
}

/** Show the tenant of the token. */
async function showTenant() {
  const element = document.getElementById("tenant");
  signOutButton.hidden = !token();
  if (!token()) return Object.assign(element, { hidden: true, textContent: "" });
  if (element.textContent) return;
  const quota = await get(path("quota")).catch(() => null);
  if (quota && token()) Object.assign(element, { hidden: false, textContent: quota.tenant });
}

function findRoute() {
  const address = location.hash.slice(1) || "/";
  if (address.startsWith("job=")) return [...JOB, Object.fromEntries(new URLSearchParams(address))];
  const [place, query] = address.split("?");
  const options = Object.fromEntries(new URLSearchParams(query));
  const job = place.match(/^\/jobs\/([0-9a-f]{32})$/)?.[1];
  if (job) return [...JOB, { ...options, job }];
  return ROUTES[place] ? [...ROUTES[place], options] : ["none", "Page not found", showNotFound, {}];
}

function showNotFound(root) {
  root.append(
    el("h1", { tabIndex: -1 }, "Page not found"),
    el("p", {}, "There is no page at this address. ", el("a", { href: "#/" }, "Back to the jobs"), "."),
  );
}

/** Load information about the server, and try again until it answers. */
async function loadAbout() {
  for (;;) {
    try {
      return Object.assign(about, await get(path("about")));
    } catch {
      setChildren(main, el("h1", {}, "The server cannot be reached"), el("p", {}, "Trying again…"));
      await new Promise((resolve) => setTimeout(resolve, RETRY_INTERVAL));
    }
  }
}

async function start() {
  setUpTheme(document.getElementById("theme"));
  signOutButton.addEventListener("click", () => signOut());
  addEventListener("hashchange", (event) => {
    if (new URL(event.newURL).hash === "#main") return history.replaceState(null, "", event.oldURL), main.focus();
    show();
  });
  addEventListener("maabo:signed-out", (event) => ((about.needs_token = true), show(event.detail)));
  await loadAbout();
  acceptDrops(() => !about.needs_token || token(), () => (location.hash = "#/new"));
  const flower = document.getElementById("flower");
  if (about.flower) Object.assign(flower, { href: about.flower, hidden: false });
  show();
}

start();
