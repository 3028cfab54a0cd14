/* Precision against coverage: an arrow for each rule. */
import { COLOURS, PART_NAMES, data, goToRule, later } from "./data.js";
import { classMark, drawing, el, percent, shortNumber, svg, twoDecimals } from "./elements.js";
import { rules } from "./cards.js";

export function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  const result = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-6; value += step) result.push(Number(value.toPrecision(10)));
  return result;
}

export function drawPrecision(place, width) {
  const height = Math.min(460, Math.max(280, width * 0.62));
  const [left, right, top, bottom] = [44, 16, 14, 40];
  const points = rules
    .map((rule) => ({ rule, ends: ["train", later].map((name) => rule.json[name]) }))
    .filter(({ ends }) => ends[0].precision !== null)
    .map(({ rule, ends }) => ({ rule, spots: ends.filter((end) => end.precision !== null).map((end) => [end.n / Math.max(1, end.rows), end.precision]) }));
  const all = points.flatMap((point) => point.spots);
  const highX = Math.max(0.02, ...all.map((spot) => spot[0])) * 1.06;
  const lowY = Math.max(0, Math.min(0.9, ...all.map((spot) => spot[1])) - 0.05);
  const x = (share) => left + ((width - left - right) * share) / highX;
  const y = (share) => height - bottom - ((height - top - bottom) * (share - lowY)) / (1 - lowY);
  const parts = [];
  for (const tick of ticks(lowY, 1, 5)) {
    parts.push(svg("path", { class: "gridline", d: `M${left} ${y(tick)}H${width - right}` }), svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, shortNumber(tick)));
  }
  for (const tick of ticks(0, highX, width < 480 ? 4 : 7)) {
    parts.push(svg("path", { class: "axisline", d: `M${x(tick)} ${height - bottom}v4` }), svg("text", { x: x(tick), y: height - bottom + 17, "text-anchor": "middle" }, `${shortNumber(100 * tick)} %`));
  }
  parts.push(svg("path", { class: "axisline", d: `M${left} ${height - bottom}H${width - right}` }));
  parts.push(svg("text", { x: width - right, y: height - 4, "text-anchor": "end" }, "rows covered"), svg("text", { x: 0, y: 6 }, "precision"));
  const used = [...new Set(rules.map((rule) => rule.own))];
  for (const own of used.filter((own) => data.rates[own] > lowY)) {
    parts.push(svg("path", { class: `rate ${classMark(own, own, data.classes.length)}`, d: `M${left} ${y(data.rates[own])}H${width - right}` }));
  }
  const named = points.length <= 24;
  for (const { rule, spots } of points) {
    const css = classMark(rule.own, rule.own, data.classes.length);
    const [[a, b], [c, d]] = [spots[0], spots[spots.length - 1]].map(([n, p]) => [x(n), y(p)]);
    const angle = Math.atan2(d - b, c - a);
    const wing = (turn) => `${c - 7 * Math.cos(angle + turn)} ${d - 7 * Math.sin(angle + turn)}`;
    const moved = Math.hypot(c - a, d - b) > 3;
    parts.push(
      svg(
        "g",
        { class: "mark", "data-rule": rule.id, onclick: () => goToRule(rule.id) },
        svg("title", {}, `${rule.id}: if ${rule.if} then ${rule.then}\n${spots.map(([n, p], number) => `${number ? PART_NAMES[later] : "training"}: precision ${twoDecimals(p)}, ${percent(n)} of rows`).join("\n")}`),
        moved ? svg("path", { class: `arrow ${css}`, d: `M${a} ${b}L${c} ${d}`, "fill-opacity": 0 }) : null,
        moved ? svg("path", { class: css, d: `M${wing(0.42)}L${c} ${d}L${wing(-0.42)}Z` }) : svg("circle", { class: css, cx: c, cy: d, r: 3.5 }),
        moved ? svg("circle", { class: `${css} start`, cx: a, cy: b, r: 2.6 }) : null,
        named ? svg("text", { x: c + (c > width - 44 ? -8 : 7), y: d + (d > b ? 13 : -5), "text-anchor": c > width - 44 ? "end" : "start" }, rule.id) : null,
      ),
    );
  }
  const legend = data.classes.length <= COLOURS ? used.sort((a, b) => a - b).map((own) => el("li", {}, svg("svg", { class: "dot", viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("circle", { class: `c${own}`, cx: 5, cy: 5, r: 5 })), data.classes[own])) : [];
  place.replaceChildren(
    drawing(width, height, `Precision against coverage of ${rules.length} rules; the table above has the numbers.`, ...parts),
    legend.length ? el("ul", { class: "legend" }, legend) : "",
  );
}
