// The button that goes from the system's theme to the other one and back.

const KEY = "maabo.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** @param {HTMLButtonElement} button */
export function setUpTheme(button) {
  button.addEventListener("click", () => {
    choose(current() === "dark" ? "light" : "dark");
    label(button);
  });
  dark.addEventListener("change", () => label(button));
  label(button);
}

function current() {
  return document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
}

/** The system's own theme is followed again when it is chosen. */
function choose(theme) {
  const own = theme === (dark.matches ? "dark" : "light");
  if (own) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (own) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // It lasts as long as the page, then.
  }
}

function label(button) {
  const other = current() === "dark" ? "Light" : "Dark";
  button.textContent = other;
  button.setAttribute("aria-label", `${other} theme`);
}
