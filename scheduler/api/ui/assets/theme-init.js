// Applies the chosen theme before anything is drawn, so that no page flashes in the other theme.
try {
  const theme = localStorage.getItem("maabo.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: use the theme of the system.
}
