// Wide tables scroll sideways; this makes them reachable with the keyboard. The theme puts tables into these elements.
document$.subscribe(() => requestAnimationFrame(() => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    table.tabIndex = 0;
    table.setAttribute("role", "region");
    table.setAttribute("aria-label", "Table");
  }
}));
