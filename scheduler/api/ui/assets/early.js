// Before anything is drawn, so that no page flashes in the other theme.
try {
  const chosen = localStorage.getItem("maabo.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Where nothing may be kept, the system's theme it is.
}
