/* The tree that a rule was read from. */
import { count, drawing, el, fitText, makeSection, sum, svg, textWidth } from "./elements.js";
import { stackOrder } from "./histograms.js";

export function makeTree(rule) {
  if (!rule.tree) return null;
  const { source } = rule.json;
  const hasPath = rule.tree.next || rule.tree.leaf;
  const lost = rule.dropped.length && hasPath ? " Dashed: a dropped condition." : "";
  const apart = hasPath ? "" : " It has no branch for this rule, which was found by trying combinations of these columns directly.";
  return makeSection(
    "Source tree",
    el("p", { class: "hint" }, `Tree ${count(source.tree + 1)} on ${source.subset.join(", ")}; best depth ${source.depth}, macro F1 ${source.score === null ? "–" : source.score.toFixed(3)}. Bars are class counts; ${isNarrow() ? "the first branch" : "the upper branch"} is yes.${lost}${apart}`),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Tree of ${rule.id}` }, drawTree(rule)),
  );
}

const isNarrow = () => document.documentElement.clientWidth < 700;

function drawTree(rule) {
  const plan = isNarrow() ? layOutDown(rule.tree) : layOutAcross(rule.tree);
  const [edges, nodes] = [[], []];
  const order = stackOrder(rule);
  const draw = (spot) => {
    const { node, x, y } = spot;
    const total = Math.max(1, sum(node.counts));
    let at = x;
    const bar = order.map(([group, css]) => {
      const length = (44 * node.counts[group]) / total;
      at += length;
      return svg("rect", { class: css, x: at - length, y: y - 4, width: length, height: 8 });
    });
    const more = spot.more ? ` +${spot.more}` : "";
    nodes.push(...bar, svg("text", { x: x + (node.leaf ? 53 : 49), y: y + 4 }, `${count(sum(node.counts))}${more}`, spot.more ? svg("title", {}, `${spot.more} more nodes`) : null));
    if (node.leaf) nodes.push(svg("rect", { class: "leafbox", x: x - 4, y: y - 8, width: 52, height: 16, rx: 4 }));
    if (node.text) nodes.push(svg("text", { class: node.next ? "strong" : "ink", x, y: y - 9 - (node.leaf ? 3 : 0) }, fitText(node.text, plan.room, Boolean(node.next)), svg("title", {}, node.text)));
    spot.children.forEach((child, number) => {
      const lit = node.next === (number ? "no" : "yes");
      edges.push(svg("path", { class: `edge${lit ? " lit" : ""}${lit && !node.kept ? " lost" : ""}`, d: plan.edge(spot, child) }));
      draw(child);
    });
  };
  draw(plan.top);
  const words = [];
  for (let node = rule.tree; node.next; node = node[node.next]) words.push(`${node.text}: ${node.next}`);
  return drawing(Math.ceil(plan.width), Math.ceil(plan.height), `Decision tree; path to the rule: ${words.join(", ") || (rule.tree.leaf ? "its root" : "none")}`, ...edges, ...nodes);
}

/** From left to right: each node in the middle of what is below it. */
function layOutAcross(tree) {
  const texts = [];
  const rows = { next: 0, deep: 0 };
  const place = (node, depth) => {
    rows.deep = Math.max(rows.deep, depth);
    if (node.text) texts.push(textWidth(node.text, true));
    const children = node.yes ? [place(node.yes, depth + 1), place(node.no, depth + 1)] : [];
    const row = children.length ? (children[0].row + children[1].row) / 2 : rows.next++;
    return { node, depth, row, y: 20 + row * 33, more: node.more, children };
  };
  const top = place(tree, 0);
  const step = Math.min(190, 24 + Math.max(80, ...texts));
  const move = (spot) => ((spot.x = 6 + spot.depth * step), spot.children.forEach(move));
  move(top);
  const edge = (spot, child) => {
    const [startX, endX] = [spot.x + 49 + 7 * String(count(sum(spot.node.counts))).length, child.x - 5];
    const middle = Math.min(startX + 14, (startX + endX) / 2);
    return `M${startX} ${spot.y}C${middle + 22} ${spot.y} ${middle} ${child.y} ${endX} ${child.y}`;
  };
  return { top, edge, room: step - 12, width: 12 + rows.deep * step + 110, height: 24 + rows.next * 33 };
}

/** For a narrow page: downwards, the way to the rule alone; what branches off it is folded. */
function layOutDown(tree) {
  const rows = { next: 0, deep: 0 };
  const nodes = (node) => 1 + (node.more || 0) + (node.yes ? nodes(node.yes) + nodes(node.no) : 0);
  const place = (node, depth, onWay) => {
    rows.deep = Math.max(rows.deep, depth);
    const open = onWay && node.next && node.yes;
    const spot = { node, x: 10 + depth * 20, y: 20 + 38 * rows.next++, more: open ? node.more : nodes(node) - 1 };
    spot.children = open ? [place(node.yes, depth + 1, node.next === "yes"), place(node.no, depth + 1, node.next === "no")] : [];
    return spot;
  };
  const top = place(tree, 0, true);
  const edge = (spot, child) => `M${spot.x + 4} ${spot.y + 6}V${child.y}H${child.x - 6}`;
  return { top, edge, room: 240 - 10 * rows.deep, width: 10 + rows.deep * 20 + 190, height: 12 + 38 * rows.next };
}
