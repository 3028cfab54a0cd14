// Sign-in with a token, which is tried out before it is kept.

import { el, say } from "./dom.js";
import { get, path } from "./api.js";
import { signIn, signOut } from "./session.js";

/** @param {{why: string, done: () => void}} given */
export function showSignIn(root, _signal, { why, done }) {
  const error = el("p", { class: "error", id: "token-error", role: "alert" }, why);
  const field = el("input", {
    id: "token", name: "token", type: "password", autocomplete: "current-password", spellcheck: false,
    autofocus: true, placeholder: "maabo_…", "aria-describedby": "token-error token-help", required: true,
  });
  const button = el("button", { class: "main" }, "Sign in");
  const form = el(
    "form",
    { class: "sign-in", noValidate: true },
    el("h1", { tabIndex: -1 }, "Sign in"),
    el("p", { class: "soft", id: "token-help" }, "With a token of this server. It is kept until you close this tab."),
    el("label", { htmlFor: "token" }, "Token"),
    field,
    error,
    button,
    el("p", { class: "hint" }, "An operator makes one with ", el("code", {}, "python -m scheduler token create"), "."),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text) return say(error, "Give a token."), field.focus();
    button.disabled = true;
    signIn(text);
    try {
      await get(path("quota"));
      done();
    } catch (problem) {
      // One that is not valid has brought this form again, with the reason.
      if (problem.status !== 401) signOut(problem.message);
    }
  });
  root.append(form);
}
