// Who is signed in: a token, kept for as long as the tab is. And what the server says of itself.

const KEY = "maabo.token";
let held = read();

/** @type {{version: string, needs_token: boolean, flower: string|null}} */
export const about = { version: "", needs_token: false, flower: null };

export function token() {
  return held;
}

export function signIn(text) {
  held = text;
  try {
    sessionStorage.setItem(KEY, text);
  } catch {
    // Then it is known until the page is left.
  }
}

/** Forget the token; `why` is shown where one is asked for. */
export function signOut(why = "") {
  held = null;
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Nothing was kept.
  }
  dispatchEvent(new CustomEvent("maabo:signed-out", { detail: why }));
}

function read() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}
