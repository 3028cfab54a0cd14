// Which page is shown: `#/`, `#/new`, `#/jobs/<id>`; and whether somebody has to sign in first.

import { get, path } from "./api.js";
import { el, fill } from "./dom.js";
import { showJob } from "./job.js";
import { showJobs } from "./jobs.js";
import { about, signOut, token } from "./session.js";
import { showSignIn } from "./signin.js";
import { showSubmit } from "./submit.js";
import { setUpTheme } from "./theme.js";

const main = document.getElementById("main");
const signOutButton = document.getElementById("sign-out");
let leave = new AbortController();
let first = true;
const MEET_EVERY = 3000;

const ROUTES = [
  [/^#\/?$/, "jobs", "Jobs", showJobs],
  [/^#\/new(?:\?table=([\w-]{1,64}))?$/, "new", "New job", showSubmit],
  [/^#\/jobs\/([0-9a-f]{32})$/, "job", "Job", showJob],
];

/** Show the page that the address names. Each gets a signal that says when it is left. */
function show(why = "") {
  leave.abort();
  leave = new AbortController();
  const needed = about.needs_token && !token();
  showTenant();
  const [, name, title, page, match] = needed ? [null, "sign-in", "Sign in", showSignIn] : found();
  document.title = `${title} · maabo`;
  for (const link of document.querySelectorAll("[data-route]")) {
    if (link.dataset.route === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  fill(main);
  main.dataset.page = name;
  page(main, leave.signal, needed ? { why, done: show } : match?.[1]);
  if (!first) (main.querySelector("[autofocus], h1") ?? main).focus({ preventScroll: true });
  if (!first) scrollTo(0, 0);
  first = false;
}

/** Whose jobs these are, where there are several to be. */
async function showTenant() {
  const place = document.getElementById("tenant");
  signOutButton.hidden = !token();
  if (!token()) return Object.assign(place, { hidden: true, textContent: "" });
  if (place.textContent) return;
  const quota = await get(path("quota")).catch(() => null);
  if (quota && token()) Object.assign(place, { hidden: false, textContent: quota.tenant });
}

function found() {
  for (const route of ROUTES) {
    const match = (location.hash || "#/").match(route[0]);
    if (match) return [...route, match];
  }
  return [null, "none", "Nothing here", showNothing];
}

function showNothing(root) {
  root.append(
    el("h1", { tabIndex: -1 }, "Nothing here"),
    el("p", {}, "This address names no page. ", el("a", { href: "#/" }, "To the jobs"), "."),
  );
}

/** Ask the server who it is, until it answers. */
async function meet() {
  for (;;) {
    try {
      return Object.assign(about, await get(path("about")));
    } catch {
      fill(main, el("h1", {}, "The server cannot be reached"), el("p", {}, "Trying again…"));
      await new Promise((resolve) => setTimeout(resolve, MEET_EVERY));
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
  await meet();
  const flower = document.getElementById("flower");
  if (about.flower) Object.assign(flower, { href: about.flower, hidden: false });
  show();
}

start();
