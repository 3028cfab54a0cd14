/* What the report does beyond standing there: sorting, filtering, opening rules, pictures, themes, copying.
   Everything is drawn from the JSON in #data. Text from data enters the page as text nodes only, never as HTML. */
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const figures = data.figures;
  const root = document.documentElement;
  const COLOURS = 8;
  const PART_NAMES = { train: "training", validation: "validation", holdout: "held out" };
  const later = data.parts.holdout ? "holdout" : "validation";

  // ---- making elements ------------------------------------------------------------------------------------------

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === false || value === null || value === undefined) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) {
      if (child !== null && child !== undefined) node.append(child);
    }
    return node;
  }
  const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
  const svg = (name, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
  const drawing = (width, height, label, ...children) =>
    svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);

  const count = (value) => value.toLocaleString("en-US");
  const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
  const two = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));
  const short = (value) => String(Number(value.toPrecision(5)));
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
  const ruler = document.createElement("canvas").getContext("2d");
  function wide(text, strong) {
    ruler.font = `${strong ? "600 " : ""}11px ${getComputedStyle(document.body).fontFamily}`;
    return ruler.measureText(text).width;
  }
  /** As much of a text as there is room for in a picture. */
  function fit(text, room, strong = false) {
    if (wide(text, strong) <= room) return text;
    let [low, high] = [0, Math.min(text.length, 200)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (wide(`${text.slice(0, middle)}…`, strong) <= room) low = middle;
      else high = middle - 1;
    }
    return `${text.slice(0, low)}…`;
  }
  const mark = (place, own, classes) => (classes <= COLOURS ? `c${place}` : place === own ? "c0" : "rest");
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const bytes = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));

  // ---- rules: order, filters, sorting ----------------------------------------------------------------------------

  const table = document.querySelector("table.rules");
  const rules = data.rules.map((rule, place) => ({
    ...rule,
    place,
    id: rule.json.id,
    body: document.getElementById(rule.json.id),
    search: `${rule.json.id} ${rule.json.text}`.toLowerCase(),
    keys: keysOf(rule, place),
  }));
  const byId = new Map(rules.map((rule) => [rule.id, rule]));

  function keysOf(rule, place) {
    const { json } = rule;
    const tested = json.holdout || json.validation;
    return {
      order: place,
      text: rule.if.toLowerCase(),
      purity: json.n ? json.counts[json.class] / json.n : 0,
      n: json.n,
      gini: json.gini,
      train: json.train.precision,
      validation: json.validation.precision,
      holdout: json.holdout && json.holdout.precision,
      strip: tested.precision,
      lift: tested.lift,
      q: json.holdout && json.holdout.q,
      unique: json.unique,
      stability: json.stability && json.stability.share,
    };
  }

  const ASCENDING = new Set(["order", "text", "gini", "q"]);
  let sorted = { key: "order", down: false };

  function sortBy(key, down) {
    sorted = { key, down };
    const side = down ? -1 : 1;
    const missing = (value) => value === null || value === undefined;
    const order = [...rules].sort((a, b) => {
      const [x, y] = [a.keys[key], b.keys[key]];
      if (missing(x) || missing(y)) return missing(x) - missing(y) || a.place - b.place;
      return (x < y ? -side : x > y ? side : 0) || a.place - b.place;
    });
    table.append(...order.map((rule) => rule.body));
    for (const head of table.querySelectorAll("thead th")) {
      if (head.dataset.key === key) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const chooser = document.getElementById("sort");
    if (chooser) chooser.value = key;
  }

  function makeSortable() {
    for (const head of table.querySelectorAll("thead th")) {
      const { key } = head.dataset;
      const press = () => sortBy(key, sorted.key === key ? !sorted.down : !ASCENDING.has(key));
      head.replaceChildren(el("button", { type: "button", onclick: press }, ...head.childNodes));
    }
    table.querySelector("thead th").setAttribute("aria-sort", "ascending");
  }

  function makeFilters() {
    const form = document.getElementById("filters");
    const options = (values) => values.map(([value, text]) => el("option", { value }, cut(text, 60)));
    const classes = data.classes.map((name, place) => [String(place), name]);
    const columns = [...new Set(rules.flatMap((rule) => rule.columns))].sort((a, b) => a.localeCompare(b, "en"));
    const byClass = el("select", { id: "class" }, options([["", "all"], ...classes]));
    const byColumn = el("select", { id: "feature" }, options([["", "all"], ...columns.map((name) => [name, name])]));
    const text = el("input", { id: "text", type: "search", placeholder: "age, R7, > 0.5 …", autocomplete: "off", spellcheck: "false" });
    const heads = [...table.querySelectorAll("thead th")].filter((head) => head.dataset.key !== "strip");
    const sorts = heads.map((head) => [head.dataset.key, head.textContent.trim()]);
    const chooser = el("select", { id: "sort", onchange: () => sortBy(chooser.value, !ASCENDING.has(chooser.value)) }, options(sorts));
    const clear = el("button", { type: "reset" }, "Clear");
    form.append(
      el("label", {}, "Class", byClass),
      el("label", {}, "Feature", byColumn),
      el("label", {}, "Text", text),
      el("label", { class: "narrow" }, "Sort by", chooser),
      clear,
    );
    form.hidden = false;
    const apply = () => filter(byClass.value, byColumn.value, text.value);
    form.addEventListener("input", apply);
    form.addEventListener("reset", () => setTimeout(apply));
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  function filter(ofClass, column, text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const rule of rules) {
      const fits =
        (ofClass === "" || rule.own === Number(ofClass)) &&
        (column === "" || rule.columns.includes(column)) &&
        words.every((word) => rule.search.includes(word));
      rule.body.hidden = !fits;
      shown += fits;
    }
    const some = ofClass !== "" || column !== "" || words.length;
    document.getElementById("shown").textContent = some ? `${shown} of ${rules.length} rules` : "";
  }

  // ---- opening a rule ----------------------------------------------------------------------------------------------

  function makeOpenable() {
    for (const rule of rules) {
      const cell = rule.body.querySelector("th");
      rule.button = el(
        "button",
        { type: "button", "aria-expanded": "false", "aria-label": `${rule.id}, details`, onclick: () => toggle(rule) },
        rule.id,
      );
      cell.replaceChildren(rule.button);
    }
    table.addEventListener("click", (event) => {
      const row = event.target.closest("tr.rule");
      if (!row || event.target.closest("button, a") || String(window.getSelection())) return;
      toggle(byId.get(row.parentElement.id));
    });
  }

  function toggle(rule, open = rule.button.getAttribute("aria-expanded") !== "true") {
    rule.button.setAttribute("aria-expanded", String(open));
    if (rule.detail) rule.detail.remove();
    rule.detail = open ? detailOf(rule) : null;
    if (open) {
      rule.body.append(rule.detail);
      rule.button.setAttribute("aria-controls", `detail-${rule.id}`);
      drawDetail(rule);
    } else rule.button.removeAttribute("aria-controls");
  }

  function openFromAddress() {
    const rule = byId.get(decodeURIComponent(location.hash.slice(1)));
    if (!rule) return;
    if (rule.body.hidden) {
      document.getElementById("filters").reset();
      filter("", "", "");
    }
    toggle(rule, true);
    rule.body.scrollIntoView();
    rule.button.focus({ preventScroll: true });
  }

  function detailOf(rule) {
    const panel = el(
      "div",
      { class: "panel", id: `detail-${rule.id}`, role: "region", "aria-label": `${rule.id} in detail` },
      el("div", { class: "pictures" }, multiplesOf(rule), treeOf(rule)),
      el("div", {}, evidenceOf(rule), droppedOf(rule), displacedOf(rule), similarOf(rule), copyOf(rule)),
    );
    // On paper the rows are a table without the column of lines.
    const across = table.querySelectorAll("thead th:not([data-key=strip])").length;
    const cell = el("td", { colspan: across, role: "cell" }, panel);
    return el("tr", { class: "detail", role: "row" }, cell);
  }

  const part = (title, ...content) => el("section", {}, el("h3", {}, title), ...content);

  function evidenceOf(rule) {
    const { json } = rule;
    const names = ["train", "validation", "holdout"].filter((name) => json[name]);
    const line = (label, cell) =>
      el("tr", {}, el("th", { scope: "row" }, label), names.map((name) => el("td", { class: "number" }, cell(json[name], name))));
    const interval = (name) => {
      const [low, high] = rule.intervals[name];
      return low === null ? "–" : `${two(low)}–${two(high)}`;
    };
    const q = json.holdout && json.holdout.q;
    return part(
      "Evidence",
      el(
        "table",
        { class: "plain" },
        el("thead", {}, el("tr", {}, el("td", {}), names.map((name) => el("th", { scope: "col", class: "number" }, PART_NAMES[name])))),
        el(
          "tbody",
          {},
          line("rows covered", (support) => `${count(support.n)} of ${count(support.rows)}`),
          line("precision", (support) => two(support.precision)),
          line("95 % interval", (_, name) => interval(name)),
          line("recall", (support) => two(support.recall)),
          line("lift", (support) => two(support.lift)),
        ),
      ),
      el(
        "p",
        { class: "hint" },
        `Gini ${json.gini.toFixed(3)}. ${count(json.unique)} training rows are covered by no other rule.`,
        q === null ? null : ` Held-out test: p ${small(json.holdout.p)}, q ${small(q)}.`,
        json.stability && json.stability.repeats ? ` Came back in ${json.stability.returns} of ${json.stability.repeats} repeats.` : null,
      ),
    );
  }
  const small = (value) => (value < 0.001 ? "< 0.001" : `= ${value.toFixed(3)}`);

  function droppedOf(rule) {
    if (!rule.dropped.length) return null;
    return part(
      "Dropped",
      el("p", { class: "hint" }, "Conditions of its leaf that the rows do not support."),
      el("ul", {}, rule.dropped.map((text) => el("li", {}, text))),
    );
  }

  function displacedOf(rule) {
    const { displaced, displaced_total: total } = rule.json;
    if (!total) return null;
    const items = displaced.map((entry, place) =>
      el("li", {}, entry.text, " → ", rule.displaced[place], " ", el("small", {}, `n ${count(entry.n)}, Gini ${entry.gini.toFixed(3)}, similarity ${two(entry.similarity)}`)),
    );
    const more = total > displaced.length ? `The purest of ${count(total)}.` : "";
    return part("Near-equivalents", el("p", { class: "hint" }, `Reliable leaves that this rule made redundant. ${more}`), el("ul", {}, items));
  }

  function similarOf(rule) {
    const entries = figures && rule.place < figures.pictured ? nearest(rule) : nearestByDocument(rule);
    if (!entries.length) return null;
    const items = entries.map(([other, said]) =>
      el("li", {}, el("a", { href: `#${other.id}` }, other.id), ` if ${other.if} then ${other.then} `, el("small", {}, said)),
    );
    return part("Similar rules", el("ul", {}, items));
  }

  function nearest(rule) {
    const size = figures.pictured;
    const [logic, rows] = [squares().logic, squares().rows].map((all) => all.subarray(rule.place * size, (rule.place + 1) * size));
    return [...Array(size).keys()]
      .filter((place) => place !== rule.place && logic[place] + rows[place] > 0)
      .sort((a, b) => Math.max(logic[b], rows[b]) - Math.max(logic[a], rows[a]) || a - b)
      .slice(0, 4)
      .map((place) => [rules[place], `conditions ${logic[place]} %, rows ${rows[place]} %`]);
  }

  function nearestByDocument(rule) {
    const near = rule.json.most_similar;
    return near && byId.has(near.rule) ? [[byId.get(near.rule), `conditions ${percent(near.similarity)}`]] : [];
  }

  let kept = null;
  const squares = () => (kept ||= { logic: bytes(figures.similarity.logic), rows: bytes(figures.similarity.rows) });

  function copyOf(rule) {
    const said = el("span", { role: "status", class: "hint" });
    const texts = { text: rule.json.text, SQL: rule.sql, pandas: rule.pandas, JSON: `${JSON.stringify(rule.json, null, 2)}\n` };
    const box = el("div", { class: "copy" });
    const press = async (name) => {
      const done = await copied(texts[name]);
      said.textContent = done ? `${name} copied` : "Copying is not allowed here; take it from below.";
      box.querySelector("pre")?.remove();
      box.append(el("pre", { tabindex: "0", "aria-label": `${rule.id} as ${name}` }, texts[name]));
    };
    box.append(...Object.keys(texts).map((name) => el("button", { type: "button", onclick: () => press(name) }, name)), said);
    const section = part("Copy as", box);
    section.classList.add("copying");
    return section;
  }

  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = el("textarea", { class: "quiet", "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  // ---- histograms --------------------------------------------------------------------------------------------------

  function multiplesOf(rule) {
    if (!rule.marks.length) return null;
    return part(
      "Where it holds",
      el("p", { class: "hint" }, "Training rows by class. What satisfies the condition is lit."),
      el("div", { class: "multiples" }, rule.marks.map(multiple)),
    );
  }

  function multiple(entry) {
    const histogram = figures.histograms[entry.histogram];
    return el(
      "div",
      { class: "multiple" },
      el("h4", {}, entry.text),
      el("div", { class: "histogram" }),
      histogram.missing ? el("p", {}, missingText(histogram)) : null,
    );
  }

  function missingText(histogram) {
    const cells = histogram.missing === 1 ? "1 missing cell" : `${count(histogram.missing)} missing cells`;
    return histogram.fill === null || histogram.fill === undefined ? `${cells} count as one of these.` : `${cells} count as ${short(histogram.fill)}.`;
  }

  function drawDetail(rule) {
    rule.detail.querySelectorAll(".histogram").forEach((place, number) => {
      const entry = rule.marks[number];
      const conditions = entry.conditions.map((condition) => rule.json.conditions[condition]);
      const width = Math.max(180, place.clientWidth || 260);
      const histogram = figures.histograms[entry.histogram];
      const draw = histogram.kind === "levels" ? levels : numbers;
      place.replaceChildren(draw(rule, histogram, conditions, width, entry.text));
    });
  }

  /** [group, css class] of the classes as a histogram stacks them: the rule's own class stands on the axis. */
  function stack(rule) {
    const groups = figures.classes.length;
    const own = figures.classes.indexOf(data.classes[rule.own]);
    const order = [...Array(groups).keys()].sort((a, b) => (b === own) - (a === own) || a - b);
    return order.map((group) => [group, mark(group, own, groups)]);
  }

  function numbers(rule, histogram, conditions, width, label) {
    const [height, base, top] = [104, 84, 14];
    const bars = histogram.counts[0].length;
    const single = histogram.kind === "values";
    const values = single ? histogram.values : null;
    const pad = single ? 14 : 1;
    const low = single ? values[0] : histogram.low;
    const high = single ? values[values.length - 1] : histogram.high;
    const x = (value) => pad + (width - 2 * pad) * (high > low ? (value - low) / (high - low) : 0.5);
    const totals = histogram.counts[0].map((_, bar) => sum(histogram.counts.map((row) => row[bar])));
    const y = (value) => base - ((base - top) * value) / Math.max(1, ...totals);
    let [from, to] = [-Infinity, Infinity];
    for (const condition of conditions) {
      if (condition.op === ">") from = Math.max(from, condition.value);
      else to = Math.min(to, condition.value);
    }
    const [left, right] = [from === -Infinity ? 0 : x(from), to === Infinity ? width : x(to)];
    const parts = [svg("rect", { class: "region", x: left, y: top - 4, width: Math.max(0, right - left), height: base - top + 4 })];
    const gap = single ? Math.min(18, ...values.slice(1).map((value, place) => 0.8 * (x(value) - x(values[place])))) : 0;
    for (let bar = 0; bar < bars; bar++) {
      const start = single ? x(values[bar]) - Math.max(2, gap) / 2 : x(low + ((high - low) * bar) / bars);
      const end = single ? start + Math.max(2, gap) : x(low + ((high - low) * (bar + 1)) / bars) - 0.6;
      const pieces = single
        ? [[start, end, values[bar] > from && values[bar] <= to]]
        : [[start, Math.min(end, left), false], [Math.max(start, left), Math.min(end, right), true], [Math.max(start, right), end, false]];
      let at = 0;
      for (const [group, css] of stack(rule)) {
        const rows = histogram.counts[group][bar];
        for (const [a, b, lit] of pieces) {
          if (rows && b > a) parts.push(svg("rect", { class: lit ? css : `${css} off`, x: a, y: y(at + rows), width: b - a, height: y(at) - y(at + rows) }));
        }
        at += rows;
      }
    }
    parts.push(svg("path", { class: "axisline", d: `M0 ${base + 0.5}H${width}` }));
    parts.push(svg("text", { x: 0, y: base + 15 }, short(low)), svg("text", { x: width, y: base + 15, "text-anchor": "end" }, short(high)));
    const bounds = [from, to].filter(Number.isFinite);
    parts.push(...bounds.map((value) => svg("path", { class: "threshold", d: `M${x(value)} ${top - 4}V${base + 4}` })));
    // Two labels that would meet are one.
    const labels = bounds.length === 2 && right - left < 56 ? [[(left + right) / 2, bounds.map(short).join(" – ")]] : bounds.map((value) => [x(value), short(value)]);
    for (const [at, text] of labels) {
      const half = 3.4 * text.length;
      const anchor = at < half ? "start" : at > width - half ? "end" : "middle";
      parts.push(svg("text", { class: "strong", x: anchor === "start" ? 0 : anchor === "end" ? width : at, y: 7, "text-anchor": anchor }, text));
    }
    return drawing(width, height, `Histogram by class, ${label} lit`, ...parts);
  }

  function levels(rule, histogram, conditions, width, label) {
    const [step, name] = [19, Math.min(110, width * 0.4)];
    const shown = histogram.shown.map((level) => (level === null ? "other or missing" : level));
    const totals = shown.map((_, bar) => sum(histogram.counts.map((row) => row[bar])));
    const scale = (width - name - 46) / Math.max(1, ...totals);
    const lit = (level) =>
      conditions.every(({ op, value }) => {
        if (op === "=") return level === value;
        if (op === "!=") return level !== value;
        return level === (op === "is missing" ? "missing" : "present");
      });
    const parts = shown.flatMap((text, bar) => {
      const on = lit(histogram.levels[bar]);
      const y = bar * step;
      let at = name;
      const pieces = stack(rule).map(([group, css]) => {
        const length = histogram.counts[group][bar] * scale;
        at += length;
        return svg("rect", { class: on ? css : `${css} off`, x: at - length, y: y + 2, width: length, height: step - 6 });
      });
      return [
        svg("text", { class: on ? "strong" : "", x: name - 8, y: y + 12, "text-anchor": "end" }, fit(text, name - 8, on), svg("title", {}, text)),
        ...pieces,
        svg("text", { x: at + 6, y: y + 12 }, count(totals[bar])),
      ];
    });
    return drawing(width, shown.length * step + 4, `Rows of each level by class, ${label} lit`, ...parts);
  }

  // ---- the tree a rule came from ---------------------------------------------------------------------------------

  function treeOf(rule) {
    if (!rule.tree) return null;
    const { source } = rule.json;
    const lost = rule.dropped.length ? " Dashed: a condition that the rule does without." : "";
    return part(
      "The tree it came from",
      el("p", { class: "hint" }, `Tree ${count(source.tree + 1)} on ${source.subset.join(", ")}; best depth ${source.depth}, macro F1 ${source.score === null ? "–" : source.score.toFixed(3)}. Bars are class counts; ${narrow() ? "the first branch" : "upwards"} is yes.${lost}`),
      el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Tree of ${rule.id}` }, treePicture(rule)),
    );
  }

  const narrow = () => document.documentElement.clientWidth < 700;

  function treePicture(rule) {
    const plan = narrow() ? outlined(rule.tree) : spread(rule.tree);
    const [edges, nodes] = [[], []];
    const order = stack(rule);
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
      if (node.text) nodes.push(svg("text", { class: node.way ? "strong" : "ink", x, y: y - 9 - (node.leaf ? 3 : 0) }, fit(node.text, plan.room, Boolean(node.way)), svg("title", {}, node.text)));
      spot.children.forEach((child, number) => {
        const lit = node.way === (number ? "no" : "yes");
        edges.push(svg("path", { class: `edge${lit ? " lit" : ""}${lit && !node.kept ? " lost" : ""}`, d: plan.edge(spot, child) }));
        draw(child);
      });
    };
    draw(plan.top);
    const words = [];
    for (let node = rule.tree; node.way; node = node[node.way]) words.push(`${node.text}: ${node.way}`);
    return drawing(Math.ceil(plan.width), Math.ceil(plan.height), `Decision tree; way to the rule: ${words.join(", ") || "its root"}`, ...edges, ...nodes);
  }

  /** From left to right: each node in the middle of what is below it. */
  function spread(tree) {
    const texts = [];
    const rows = { next: 0, deep: 0 };
    const place = (node, depth) => {
      rows.deep = Math.max(rows.deep, depth);
      if (node.text) texts.push(wide(node.text, true));
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
  function outlined(tree) {
    const rows = { next: 0, deep: 0 };
    const nodes = (node) => 1 + (node.more || 0) + (node.yes ? nodes(node.yes) + nodes(node.no) : 0);
    const place = (node, depth, onWay) => {
      rows.deep = Math.max(rows.deep, depth);
      const open = onWay && node.way && node.yes;
      const spot = { node, x: 10 + depth * 20, y: 20 + 38 * rows.next++, more: open ? node.more : nodes(node) - 1 };
      spot.children = open ? [place(node.yes, depth + 1, node.way === "yes"), place(node.no, depth + 1, node.way === "no")] : [];
      return spot;
    };
    const top = place(tree, 0, true);
    const edge = (spot, child) => `M${spot.x + 4} ${spot.y + 6}V${child.y}H${child.x - 6}`;
    return { top, edge, room: 240 - 10 * rows.deep, width: 10 + rows.deep * 20 + 190, height: 12 + 38 * rows.next };
  }

  // ---- figures -----------------------------------------------------------------------------------------------------

  const DRAW = { scatter, heat, rows: coverage, use, history: searched };

  function drawFigures(only, widest = Infinity) {
    for (const [name, draw] of Object.entries(DRAW)) {
      const place = document.querySelector(`#figure-${name} .picture`);
      if (place && (!only || only.includes(name))) draw(place, Math.min(widest, Math.floor(place.clientWidth)));
    }
  }

  function ticks(low, high, wanted) {
    const rough = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
    const result = [];
    for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-6; value += step) result.push(Number(value.toPrecision(10)));
    return result;
  }

  function scatter(place, width) {
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
      parts.push(svg("path", { class: "gridline", d: `M${left} ${y(tick)}H${width - right}` }), svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
    }
    for (const tick of ticks(0, highX, width < 480 ? 4 : 7)) {
      parts.push(svg("path", { class: "axisline", d: `M${x(tick)} ${height - bottom}v4` }), svg("text", { x: x(tick), y: height - bottom + 17, "text-anchor": "middle" }, `${short(100 * tick)} %`));
    }
    parts.push(svg("path", { class: "axisline", d: `M${left} ${height - bottom}H${width - right}` }));
    parts.push(svg("text", { x: width - right, y: height - 4, "text-anchor": "end" }, "rows covered"), svg("text", { x: 0, y: 6 }, "precision"));
    const used = [...new Set(rules.map((rule) => rule.own))];
    for (const own of used.filter((own) => data.rates[own] > lowY)) {
      parts.push(svg("path", { class: `rate ${mark(own, own, data.classes.length)}`, d: `M${left} ${y(data.rates[own])}H${width - right}` }));
    }
    const named = points.length <= 24;
    for (const { rule, spots } of points) {
      const css = mark(rule.own, rule.own, data.classes.length);
      const [[a, b], [c, d]] = [spots[0], spots[spots.length - 1]].map(([n, p]) => [x(n), y(p)]);
      const angle = Math.atan2(d - b, c - a);
      const wing = (turn) => `${c - 7 * Math.cos(angle + turn)} ${d - 7 * Math.sin(angle + turn)}`;
      const moved = Math.hypot(c - a, d - b) > 3;
      parts.push(
        svg(
          "g",
          { class: "mark", "data-rule": rule.id, onclick: () => (location.hash = `#${rule.id}`) },
          svg("title", {}, `${rule.id}: if ${rule.if} then ${rule.then}\n${spots.map(([n, p], number) => `${number ? PART_NAMES[later] : "training"}: precision ${two(p)}, ${percent(n)} of rows`).join("\n")}`),
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

  let measure = "logic";

  function heat(place, width) {
    const size = figures.pictured;
    const square = squares()[measure];
    const order = figures.similarity.order[measure];
    const labelled = size <= 30;
    const margin = labelled ? 34 : 0;
    const cell = Math.max(1, Math.min(40, Math.floor((Math.min(width, 480) - margin) / size)));
    const scale = window.devicePixelRatio || 1;
    const side = cell * size;
    const canvas = el("canvas", { role: "img", width: Math.round(side * scale), height: Math.round(side * scale), "aria-label": `Similarity of ${size} rules, two by two, ${measure === "logic" ? "by conditions" : "by covered rows"}` });
    canvas.style.width = canvas.style.height = `${side}px`;
    const brush = canvas.getContext("2d");
    const [hue, step] = [colour("--heat"), (side * scale) / size];
    const edge = (place) => Math.round(place * step);
    brush.fillStyle = colour("--grid");
    brush.fillRect(0, 0, canvas.width, canvas.height);
    const gap = step >= 8 ? scale : 0;
    order.forEach((a, row) =>
      order.forEach((b, column) => {
        const value = square[a * size + b] / 100;
        if (!value) return;
        brush.fillStyle = `rgba(${hue}, ${Math.max(0.06, value)})`;
        brush.fillRect(edge(column), edge(row), edge(column + 1) - edge(column) - gap, edge(row + 1) - edge(row) - gap);
      }),
    );
    const readout = el("p", { class: "readout" }, "0 % is blank, 100 % is strongest. Point at a square.");
    canvas.addEventListener("mousemove", (event) => {
      const [row, column] = [event.offsetY, event.offsetX].map((at) => Math.min(size - 1, Math.max(0, Math.floor((at / side) * size))));
      const [a, b] = [rules[order[row]], rules[order[column]]];
      readout.textContent = `${a.id} and ${b.id}: ${square[order[row] * size + order[column]]} % (${a.if} / ${b.if})`;
    });
    const choose = (name, text) =>
      el("button", { type: "button", "aria-pressed": String(measure === name), onclick: () => { measure = name; heat(place, width); place.querySelector(`[data-measure="${name}"]`).focus(); }, "data-measure": name }, text);
    const frame = el("div", { class: "picture" }, canvas);
    if (labelled) {
      frame.style.paddingLeft = frame.style.paddingTop = `${margin}px`;
      frame.style.width = `${side + margin}px`;
      const middle = (number) => margin + ((number + 0.5) * side) / size;
      const names = svg("svg", { width: side + margin, height: side + margin, "aria-hidden": "true" }, order.flatMap((number, at) => [
        svg("text", { x: margin - 6, y: middle(at) + 4, "text-anchor": "end" }, rules[number].id),
        svg("text", { x: 0, y: 0, transform: `translate(${middle(at) + 4} ${margin - 6}) rotate(-90)` }, rules[number].id),
      ]));
      names.style.position = "absolute";
      names.style.inset = "0";
      names.style.pointerEvents = "none";
      frame.append(names);
    }
    place.replaceChildren(
      el("div", { class: "switch", role: "group", "aria-label": "Similarity by" }, choose("logic", "by conditions"), choose("rows", "by covered rows")),
      frame,
      readout,
    );
  }

  function coverage(place, width) {
    const { groups, shown, rows, bits } = figures.coverage;
    const size = figures.pictured;
    const packed = bytes(bits);
    const stride = Math.ceil(shown / 8);
    const labelled = size <= 60 && width > 500;
    const margin = labelled ? 36 : 0;
    const across = width - margin;
    const line = size <= 12 ? 16 : size <= 30 ? 11 : size <= 60 ? 9 : size <= 120 ? 4 : 3;
    const scale = window.devicePixelRatio || 1;
    const [pixels, tall] = [Math.floor(across * scale), Math.round(size * line * scale)];
    const canvas = el("canvas", { width: pixels, height: tall, role: "img", "aria-label": coverageText() });
    canvas.style.width = `${across}px`;
    canvas.style.height = `${size * line}px`;
    const brush = canvas.getContext("2d");
    const blank = colour("--grid");
    brush.fillStyle = blank;
    brush.fillRect(0, 0, pixels, tall);
    const gap = 3 * scale;
    const room = pixels - gap * (groups.length - 1);
    const spans = [];
    let [start, at] = [0, 0];
    for (const group of groups) {
      const length = (room * group.shown) / shown;
      spans.push({ ...group, at, from: start, length });
      start += group.shown;
      at += length + gap;
    }
    for (const span of spans) {
      brush.fillStyle = colour(`--${mark(span.class, span.class, data.classes.length)}`);
      const columns = Math.max(1, Math.ceil(span.length));
      for (let rule = 0; rule < size; rule++) {
        const y = Math.round(rule * line * scale);
        const high = Math.max(1, Math.round((rule + 1) * line * scale) - y - (line > 4 ? scale : 0));
        for (let column = 0; column < columns; column++) {
          const first = span.from + Math.floor((column * span.shown) / columns);
          const last = span.from + Math.max(Math.floor(((column + 1) * span.shown) / columns), Math.floor((column * span.shown) / columns) + 1);
          let held = 0;
          for (let row = first; row < last; row++) held += (packed[rule * stride + (row >> 3)] >> (7 - (row & 7))) & 1;
          if (!held) continue;
          brush.globalAlpha = Math.max(0.15, held / (last - first));
          brush.fillRect(Math.round(span.at) + column, y, 1, high);
        }
      }
      brush.globalAlpha = 1;
    }
    for (const span of spans.slice(1)) brush.clearRect(Math.round(span.at - gap), 0, gap, tall);
    const head = svg("svg", { width, height: 40, "aria-hidden": "true" });
    let previous = null;
    for (const span of spans) {
      const [x, length] = [margin + span.at / scale, span.length / scale];
      if (span.part !== previous) head.append(svg("text", { class: "ink", x, y: 12 }, fit(PART_NAMES[span.part], Math.max(30, partWidth(spans, span.part) / scale))));
      previous = span.part;
      head.append(svg("rect", { class: mark(span.class, span.class, data.classes.length), x, y: 32, width: length, height: 5 }));
      const share = percent(span.covered / Math.max(1, span.rows));
      const name = data.classes[span.class];
      const texts = [`${name}: ${share} covered`, `${name}: ${share}`, `${cut(name, 12)}: ${share}`, `${share} covered`, share];
      const text = texts.find((candidate) => wide(candidate) < length - 4);
      if (text) head.append(svg("text", { x, y: 27 }, text));
    }
    const frame = el("div", { class: "picture" }, canvas);
    frame.style.paddingLeft = `${margin}px`;
    if (labelled) {
      const every = line >= 9 ? 1 : 10;
      const names = svg("svg", { width: margin, height: size * line, "aria-hidden": "true" }, rules.slice(0, size).filter((_, number) => number % every === 0).map((rule, number) =>
        svg("text", { x: margin - 6, y: (number * every + 0.5) * line + 3.5, "text-anchor": "end" }, rule.id)));
      names.style.position = "absolute";
      names.style.left = names.style.top = "0";
      frame.append(names);
    }
    const readout = el("p", { class: "readout" }, shown < rows ? `${count(shown)} of ${count(rows)} rows, drawn so that parts and classes keep their shares.` : `All ${count(rows)} rows.`);
    canvas.addEventListener("mousemove", (event) => {
      const rule = rules[Math.min(size - 1, Math.max(0, Math.floor(event.offsetY / line)))];
      readout.textContent = `${rule.id}: if ${rule.if} then ${rule.then}`;
    });
    canvas.addEventListener("click", (event) => (location.hash = `#${rules[Math.min(size - 1, Math.floor(event.offsetY / line))].id}`));
    place.replaceChildren(head, frame, readout);
  }
  const partWidth = (spans, name) => sum(spans.filter((span) => span.part === name).map((span) => span.length));

  function coverageText() {
    const told = figures.coverage.groups.map((group) => `${PART_NAMES[group.part]} rows of class ${data.classes[group.class]}: ${percent(group.covered / Math.max(1, group.rows))} covered`);
    return `Rows covered by at least one rule. ${told.slice(0, 12).join("; ")}`;
  }

  function use(place, width) {
    const { features, pairs, high, trees } = figures.use;
    if (!features.length) return;
    const step = 20;
    const name = Math.min(width * 0.34, 12 + Math.max(...features.map((feature) => wide(feature.name))));
    const grid = width > 480 ? Math.min(step * features.length, width * 0.4) : 0;
    const cell = grid / features.length;
    const long = width - name - grid - 44;
    const most = Math.max(...features.map((feature) => Math.max(feature.high / high, feature.trees / trees)));
    const strongest = Math.max(1, ...pairs.flatMap((row, a) => row.filter((_, b) => b < a)));
    const parts = features.flatMap((feature, row) => {
      const y = row * step;
      const tick = name + (long * feature.trees) / trees / most;
      const squares = grid
        ? pairs[row].slice(0, row).map((value, column) =>
            value ? svg("rect", { class: "pair", "fill-opacity": Math.max(0.08, value / strongest), x: width - grid + column * cell, y: y + (step - cell) / 2 + 0.5, width: Math.max(1, cell - 1), height: Math.max(1, cell - 1) }, svg("title", {}, `${feature.name} and ${features[column].name}: ${count(value)} of ${count(high)} best trees`)) : svg("rect", { class: "region", x: width - grid + column * cell, y: y + (step - cell) / 2 + 0.5, width: Math.max(1, cell - 1), height: Math.max(1, cell - 1) }))
        : [];
      return [
        svg("text", { class: "ink", x: name - 8, y: y + 14, "text-anchor": "end" }, fit(feature.name, name - 8), svg("title", {}, feature.name)),
        svg("rect", { class: "usebar", x: name, y: y + 5, width: (long * feature.high) / high / most, height: step - 9 }),
        svg("path", { class: "usetick", d: `M${tick} ${y + 3}v${step - 5}` }),
        svg("text", { x: name + Math.max((long * feature.high) / high / most, tick - name) + 5, y: y + 14 }, percent(feature.high / high)),
        ...squares,
      ];
    });
    const text = features.slice(0, 10).map((feature) => `${feature.name} ${percent(feature.high / high)}`).join(", ");
    const told = pairs.flatMap((row, a) => row.slice(0, a).map((value, b) => [value, a, b])).filter(([value]) => value).sort((x, y) => y[0] - x[0]).slice(0, 3);
    const said = told.map(([value, a, b]) => `${features[b].name} + ${features[a].name} (${count(value)})`).join(", ");
    place.replaceChildren(
      drawing(width, features.length * step + 4, `Features of the ${count(high)} best of ${count(trees)} trees: ${text}`, ...parts),
      el("p", { class: "readout" }, `The best ${count(high)} of ${count(trees)} trees.${said ? ` Most frequent pairs: ${said}.` : ""}`),
    );
  }

  function searched(place, width) {
    const { history, random } = figures;
    if (!history.shown.length) return;
    const [left, right, top] = [40, 34, 12];
    const [tall, low] = [220, 96];
    const gap = 34;
    const height = top + tall + gap + low + 34;
    const total = Math.max(history.trees, random ? random.trees : 0);
    const x = (tree) => left + ((width - left - right) * (tree + 1)) / total;
    const scores = [...history.scores, ...(random ? random.scores : [])];
    const [least, best] = [Math.min(...scores), Math.max(...scores)];
    const y = (score) => top + tall - (tall * (score - least)) / Math.max(1e-9, best - least);
    const bestPath = (run) =>
      `${run.best.map(([tree, score], number) => (number ? `H${x(tree).toFixed(1)}V${y(score).toFixed(1)}` : `M${x(tree).toFixed(1)} ${y(score).toFixed(1)}`)).join("")}H${x(run.trees - 1).toFixed(1)}`;
    const found = Math.max(1, ...[history, random].filter(Boolean).flatMap((run) => run.found.map((step) => step[1])));
    const floor = top + tall + gap + low;
    const z = (rulesFound) => floor - (low * rulesFound) / found;
    const foundPath = (run) => `M${x(-1)} ${floor}${run.found.map(([tree, number]) => `H${x(tree).toFixed(1)}V${z(number).toFixed(1)}`).join("")}H${x(run.trees - 1).toFixed(1)}`;
    const parts = [];
    for (const tick of ticks(least, best > least ? best : least + 1e-3, 4)) {
      parts.push(svg("path", { class: "gridline", d: `M${left} ${y(tick)}H${width - right}` }), svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
    }
    for (const tick of ticks(0, total, width < 480 ? 3 : 6)) {
      parts.push(svg("text", { x: x(tick - 1), y: floor + 17, "text-anchor": "middle" }, count(Math.round(tick))));
    }
    parts.push(
      svg("path", { class: "points", d: history.shown.map((tree, number) => `M${x(tree).toFixed(1)} ${y(history.scores[number]).toFixed(1)}h0`).join("") }),
      random ? svg("path", { class: "other", d: bestPath(random) }) : null,
      svg("path", { class: "best", d: bestPath(history) }),
      svg("text", { x: 0, y: 4 }, "macro F1"),
      svg("text", { class: "strong", x: width - right + 5, y: y(best) + 4 }, best.toFixed(3).replace(/^0/, "")),
      svg("path", { class: "axisline", d: `M${left} ${floor + 0.5}H${width - right}` }),
      random ? svg("path", { class: "other", d: foundPath(random) }) : null,
      svg("path", { class: "best", d: foundPath(history) }),
      svg("text", { x: 0, y: top + tall + gap - 12 }, "rules found"),
      svg("text", { class: "strong", x: width - right + 5, y: z(history.found.length ? history.found[history.found.length - 1][1] : 0) + 4 }, String(rules.length)),
      svg("text", { x: width - right, y: height - 2, "text-anchor": "end" }, "trees"),
    );
    const beside = random ? ` Dashed: a random search, best ${random.best[random.best.length - 1][1].toFixed(3)}.` : "";
    place.replaceChildren(
      drawing(width, height, `Scores of ${count(history.trees)} trees, from ${least.toFixed(3)} to ${best.toFixed(3)}`, ...parts),
      el("p", { class: "readout" }, `${history.shown.length < history.trees ? `The best and the worst of each stretch of ${count(history.trees)} trees.` : `All ${count(history.trees)} trees.`}${beside}`),
    );
  }

  // ---- theme, print, start -----------------------------------------------------------------------------------------

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const CANVASES = ["heat", "rows"];
  const PAPER = 660; // pixels that fit on A4 and on Letter, upright

  function makeThemes() {
    const button = el("button", { type: "button" });
    const say = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("maabo-theme", root.dataset.theme); } catch { /* a file may not be allowed to remember */ }
      say();
      drawFigures(CANVASES);
    });
    dark.addEventListener("change", () => { say(); drawFigures(CANVASES); });
    document.getElementById("tools").append(button);
    say();
  }

  function recallTheme() {
    try {
      const theme = localStorage.getItem("maabo-theme");
      if (theme === "dark" || theme === "light") root.dataset.theme = theme;
    } catch { /* nothing is remembered, then */ }
  }

  function makePrintable() {
    let before;
    window.addEventListener("beforeprint", () => {
      before = root.dataset.theme;
      root.dataset.theme = "light";
      drawFigures(null, PAPER);
    });
    window.addEventListener("afterprint", () => {
      if (before) root.dataset.theme = before;
      else delete root.dataset.theme;
      drawFigures();
    });
  }

  function redrawWhenResized() {
    let [width, waiting] = [window.innerWidth, 0];
    window.addEventListener("resize", () => {
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        drawFigures();
        rules.filter((rule) => rule.detail).forEach(drawDetail);
      }, 120);
    });
  }

  root.classList.add("with-script");
  recallTheme();
  makeThemes();
  makePrintable();
  redrawWhenResized();
  if (table) {
    makeFilters();
    makeSortable();
    makeOpenable();
    window.addEventListener("hashchange", openFromAddress);
    openFromAddress();
  }
  // After the first paint: the rules are there to be read, pictures may come a moment later.
  requestAnimationFrame(() => setTimeout(() => {
    drawFigures();
    root.dataset.drawn = "yes";
  }));
})();
