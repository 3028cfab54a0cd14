// The sign-in page. The token is checked before it is accepted.

import { el, setText } from "./dom.js";
import { get, path } from "./api.js";
import { signIn, signOut } from "./session.js";

/** @param {{reason: string, done: () => void}} options */
export function showSignIn(root, _signal, { reason, done }) {
  const error = el("p", { class: "error", id: "token-error", role: "alert" }, reason);
  const field = el("input", {
    id: "token", name: "token", type: "password", autocomplete: "current-password", spellcheck: false,
    autofocus: true, placeholder: "maabo_…", "aria-describedby": "token-error token-help", required: true,
  });
  const button = el("button", { class: "main" }, "Sign in");
  const form = el(
    "form",
    { class: "sign-in", noValidate: true },
    el("h1", { tabIndex: -1 }, "Sign in"),
    el("p", { class: "muted", id: "token-help" }, "Enter an access token of this server. It is kept until you close this tab."),
    el("label", { htmlFor: "token" }, "Token"),
    field,
    error,
    button,
    el("p", { class: "hint" }, "Operators create tokens with ", el("code", {}, "python -m scheduler token create"), "."),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text) return setText(error, "Enter a token."), field.focus();
    button.disabled = true;
    signIn(text);
    try {
      await get(path("quota"));
      done();
    } catch (problem) {
      // An invalid token has signed out already, which shows this form again with the reason.
      if (problem.status !== 401) signOut(problem.message);
    }
  });
  root.append(form);
}
