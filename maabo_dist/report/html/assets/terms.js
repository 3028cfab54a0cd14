/* Explanations of terms and verdicts: the browser opens them on a click, this adds hovering and their position. */
import { el } from "./elements.js";

const HOVER_DELAY = 180;

export const term = (key, text) => el("button", { type: "button", class: "term", popovertarget: `about-${key}` }, text);

export function makeTerms(container) {
  if (!HTMLElement.prototype.showPopover) return;
  let waiting = 0;
  const target = (event) => event.target.closest?.("[popovertarget]");
  const popover = (button) => document.getElementById(button.getAttribute("popovertarget"));
  container.addEventListener("pointerover", (event) => {
    const button = event.pointerType === "mouse" && target(event);
    if (!button) return;
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const box = popover(button);
      if (box.matches(":popover-open")) return;
      box.dataset.hovered = "yes";
      box.showPopover();
      place(box, button);
    }, HOVER_DELAY);
  });
  container.addEventListener("pointerout", (event) => {
    const button = event.pointerType === "mouse" && target(event);
    if (!button) return;
    clearTimeout(waiting);
    const box = popover(button);
    if (box.dataset.hovered && box.matches(":popover-open")) box.hidePopover();
  });
  // A click keeps open what hovering opened.
  container.addEventListener("click", (event) => {
    const button = target(event);
    if (!button) return;
    clearTimeout(waiting);
    event.preventDefault();
    const box = popover(button);
    const open = box.matches(":popover-open");
    if (open && !box.dataset.hovered) return box.hidePopover();
    delete box.dataset.hovered;
    if (!open) box.showPopover();
    place(box, button);
  });
  for (const box of container.querySelectorAll("[popover]")) {
    box.addEventListener("toggle", (event) => event.newState === "closed" && delete box.dataset.hovered);
  }
}

/** Below the button, or above it where there is no room. */
function place(box, button) {
  const spot = button.getBoundingClientRect();
  const [width, height] = [box.offsetWidth, box.offsetHeight];
  const left = Math.max(8, Math.min(spot.left, document.documentElement.clientWidth - width - 8));
  const below = spot.bottom + 6;
  const top = below + height < window.innerHeight ? below : Math.max(8, spot.top - height - 6);
  Object.assign(box.style, { position: "fixed", inset: "auto", margin: "0", left: `${left}px`, top: `${top}px` });
}
