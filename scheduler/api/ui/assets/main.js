// The router: `#/`, `#/new`, `#/jobs/<id>`, and the sign-in page where a token is needed.

import { get, path } from "./api.js";
import { el, setChildren } from "./dom.js";
import { showJob } from "./job-page.js";
import { showJobs } from "./jobs-page.js";
import { showNewJob } from "./new-job-page.js";
import { about, signOut, token } from "./session.js";
import { showSignIn } from "./sign-in.js";
import { setUpTheme } from "./theme.js";

const main = document.getElementById("main");
const signOutButton = document.getElementById("sign-out");
const RETRY_INTERVAL = 3000;
let leave = new AbortController();
let first = true;

const ROUTES = [
  [/^#\/?$/, "jobs", "Jobs", showJobs],
  [/^#\/new(?:\?table=([\w-]{1,64}))?$/, "new", "New job", showNewJob],
  [/^#\/jobs\/([0-9a-f]{32})$/, "job", "Job", showJob],
];

/** Show the page of the current address. Each page gets a signal that is aborted when the page is left. */
function show(reason = "") {
  leave.abort();
  leave = new AbortController();
  const needsToken = about.needs_token && !token();
  showTenant();
  const [, name, title, page, match] = needsToken ? [null, "sign-in", "Sign in", showSignIn] : findRoute();
  document.title = `${title} · maabo`;
  for (const link of document.querySelectorAll("[data-route]")) {
    if (link.dataset.route === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  setChildren(main);
  main.dataset.page = name;
  page(main, leave.signal, needsToken ? { reason, done: show } : match?.[1]);
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
  for (const route of ROUTES) {
    const match = (location.hash || "#/").match(route[0]);
    if (match) return [...route, match];
  }
  return [null, "none", "Page not found", showNotFound];
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
  const flower = document.getElementById("flower");
  if (about.flower) Object.assign(flower, { href: about.flower, hidden: false });
  show();
}

start();
