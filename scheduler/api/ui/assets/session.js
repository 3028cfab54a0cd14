// The access token, stored for as long as the tab is open, and public information about the server.

const KEY = "maabo.token";
let current = load();

/** @type {{version: string, needs_token: boolean, flower: string|null}} */
export const about = { version: "", needs_token: false, flower: null };

export function token() {
  return current;
}

export function signIn(text) {
  current = text;
  try {
    sessionStorage.setItem(KEY, text);
  } catch {
    // Storage is blocked: the token lasts until the page is left.
  }
}

/** Forget the token; the sign-in form shows `reason`. */
export function signOut(reason = "") {
  current = null;
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Nothing was stored.
  }
  dispatchEvent(new CustomEvent("maabo:signed-out", { detail: reason }));
}

function load() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}
