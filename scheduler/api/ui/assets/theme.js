// The button that switches between the light and the dark theme.

const KEY = "maabo.theme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");

/** @param {HTMLButtonElement} button */
export function setUpTheme(button) {
  button.addEventListener("click", () => {
    setTheme(currentTheme() === "dark" ? "light" : "dark");
    updateLabel(button);
  });
  systemDark.addEventListener("change", () => updateLabel(button));
  updateLabel(button);
}

const systemTheme = () => (systemDark.matches ? "dark" : "light");
const currentTheme = () => document.documentElement.dataset.theme ?? systemTheme();

/** Choosing the theme of the system makes the page follow the system again. */
function setTheme(theme) {
  const followSystem = theme === systemTheme();
  if (followSystem) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (followSystem) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Storage is blocked: the choice lasts until the page is closed.
  }
}

function updateLabel(button) {
  button.textContent = `${currentTheme() === "dark" ? "Light" : "Dark"} theme`;
}
