// Sorts and filters the atlas, shows a cell's curves and command, draws a setting against the state. Without it the table is all there.
const table = document.getElementById("grid-table"), body = table.tBodies[0], rows = [...body.rows];
const heads = [...table.tHead.rows[0].cells], panel = document.getElementById("curve"), kept = 4;  // columns before the settings
const filter = document.getElementById("filter"), family = document.getElementById("family"), view = document.getElementById("view");
rows.forEach((row, i) => { row.at = i; });
const words = rows.map(row => [...row.cells].slice(0, 2).map(cell => cell.textContent).join(" ").toLowerCase());
const isValue = cell => cell.state === "value", ran = cell => cell.n !== null;
const rated = rate => String(rate).replace(/^0\./, ".");

// --- what cells show
const views = {
  "median [interval]": [cell => cell.value, cell => null],
  "verdict": [cell => cell.verdict, cell => cell.verdict],
  "window of rates": [cell => cell.rates_solved, cell => cell.rates_tried === null ? "" : cell.rates_solved === 0 ? `none of ${cell.rates_tried}`
    : `${rated(cell.rate_from)} to ${rated(cell.rate_to)}, ${cell.rates_solved} of ${cell.rates_tried}`],
  "best rate": [cell => cell.learning_rate, cell => rated(cell.learning_rate) + (cell.edge ? `* (${cell.edge})` : "")],
  "milliseconds a step": [cell => cell.ms_per_step, cell => cell.ms_per_step === null ? "" : short(cell.ms_per_step)],
  "state (floats)": [cell => cell.state_size, cell => cell.state_size === null ? "" : String(cell.state_size)],
  "parameters": [cell => cell.parameters, cell => cell.parameters === null ? "" : String(cell.parameters)],
  "seeds": [cell => cell.n, cell => String(cell.n)],
};
for (const name in views) view.append(new Option(name));
const written = rows.map(row => [...row.cells].map(cell => [...cell.childNodes].map(node => node.cloneNode(true))));
function showView() {
  const says = views[view.value][1];
  for (const row of rows)
    data.cells[row.at].forEach((cell, c) => {
      const text = ran(cell) ? says(cell) : null, place = row.cells[c + kept];
      if (text === null) place.replaceChildren(...written[row.at][c + kept].map(node => node.cloneNode(true)));
      else place.textContent = text;
    });
}
view.addEventListener("change", showView);

// --- sorting
function worth(row, column) {
  if (column < kept) {
    const text = row.cells[column].textContent;
    return column < 2 ? text : text === "" ? null : Number(text);
  }
  const cell = data.cells[row.at][column - kept];
  if (!ran(cell) || (view.selectedIndex === 0 && !isValue(cell))) return null;
  return views[view.value][0](cell);
}
function sortBy(column) {
  const best = column >= kept && view.selectedIndex === 0 && !data.columns[column - kept].loss;  // the best comes first
  const before = heads[column].getAttribute("aria-sort");
  const down = before === null ? best : before === "ascending";
  heads.forEach(head => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...[...rows].sort((a, b) => {
    const x = worth(a, column), y = worth(b, column);
    if (x === null || y === null) return (x === null) - (y === null) || a.at - b.at;  // what is not there comes last
    return (down ? -1 : 1) * compare(x, y) || a.at - b.at;
  }));
  said.textContent = `Sorted by ${heads[column].textContent}, ${down ? "descending" : "ascending"}.`;
}
heads.forEach((head, i) => head.querySelector("button").addEventListener("click", () => sortBy(i)));

// --- filtering
function applyFilter() {
  const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const keep = wanted.every(word => words[row.at].includes(word)) && (family.value === "" || data.rows[row.at].family === family.value);
    row.hidden = !keep;
    shown += keep;
  }
  document.getElementById("count").textContent = `${shown} of ${rows.length} rows.`;
  drawFront();
}
filter.addEventListener("input", applyFilter);
family.addEventListener("change", applyFilter);

// --- one cell: its numbers, curves and command
const quoted = text => /^[\w.,=/:+-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
function commandOf(r, c) {
  const cell = data.cells[r][c], row = data.rows[r], where = [["label", row.label.replace(/ \(yours\)$/, "")], ...Object.entries(data.columns[c].where)];
  if (cell.layer) where.push(["model.layer", cell.layer]);
  if (cell.learning_rate !== null) where.push(["train.learning_rate", cell.learning_rate]);
  return ["crosstalk", "run", row.mine ? "YOURS.toml" : data.study, ...where.flatMap(([key, value]) => ["--where", `${key}=${value}`])].map(quoted).join(" ");
}
function showCell(r, c) {
  for (const other of body.querySelectorAll(".shown")) other.classList.remove("shown");
  rows[r].cells[c + kept].classList.add("shown");
  const cell = data.cells[r][c], column = data.columns[c], head = document.createElement("p"), charts = document.createElement("div");
  const says = [`${data.rows[r].name}${cell.layer ? `, layer ${cell.layer}` : ""}`, column.title];
  if (!ran(cell)) {
    says.push(cell.state);
  } else {
    if (isValue(cell)) says.push(`${column.metric} ${short(cell.value)}${cell.n > 1 ? ` [${short(cell.lo)}, ${short(cell.hi)}]` : ""}`);
    else says.push(cell.state);
    says.push(`${cell.n} seed${cell.n === 1 ? "" : "s"}`, cell.verdict);
    if (cell.learning_rate !== null) says.push(`rate ${rated(cell.learning_rate)}${cell.edge ? `, the ${cell.edge} tried: a better one may lie beyond` : ""}`);
    for (const name of ["window of rates", "milliseconds a step", "state (floats)", "parameters"])
      if (views[name][1](cell) !== "") says.push(`${name}: ${views[name][1](cell)}`);
    for (let run = cell.runs[0]; run < cell.runs[1]; ++run) {
      const curves = data.curves[run];
      data.curve_names.forEach((name, i) => {
        const made = curves && curves[i + 1] ? chart(name, data.steps[curves[0]], curves[i + 1]) : null;
        if (made) charts.append(made);
      });
    }
    const command = document.createElement("code");
    command.textContent = commandOf(r, c);
    charts.append(command);
  }
  head.textContent = says.join(" \u00b7 ");
  panel.replaceChildren(head, charts);
  panel.hidden = false;
}
for (const row of rows)
  [...row.cells].slice(kept).forEach((place, c) => {
    place.tabIndex = -1;
    place.addEventListener("click", () => showCell(row.at, c));
    place.addEventListener("focus", () => showCell(row.at, c));
  });
if (rows.length && rows[0].cells[kept]) rows[0].cells[kept].tabIndex = 0;
body.addEventListener("keydown", event => {
  const place = event.target.closest("td"), list = [...body.rows].filter(row => !row.hidden);
  if (event.key === "Escape") panel.hidden = true;
  const to = {ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1]}[event.key];
  if (!to || !place) return;
  event.preventDefault();
  const row = list[list.indexOf(place.parentElement) + to[0]], next = row && row.cells[place.cellIndex + to[1]];
  if (next && next.cellIndex >= kept) next.focus();
});

// --- a setting against the state, with its front
const colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#555555"], setting = document.getElementById("setting");
const families = [...new Set(data.rows.map(row => row.family))].sort();
data.columns.forEach((column, c) => setting.append(new Option(column.title, c)));
const measured = c => rows.filter(row => isValue(data.cells[row.at][c]) && data.cells[row.at][c].state_size !== null);
// At first the recall of most pairs; where there is none, the setting with the most results.
const score = (column, c) => (column.where["task.name"] === "mqar" || column.where["task.name"] === "recall") && measured(c).length ?
  1e6 + Number(column.where["task.pairs"] || column.where["task.associations"] || 0) : measured(c).length;
setting.value = String(data.columns.map(score).reduce((best, value, c, all) => value > all[best] ? c : best, 0));
function drawFront() {
  const c = Number(setting.value), column = data.columns[c], place = document.getElementById("front");
  const points = measured(c).filter(row => !row.hidden).map(row => ({row: row.at, x: data.cells[row.at][c].state_size, y: data.cells[row.at][c].value}));
  if (!points.length) return place.replaceChildren("No row that is shown has a result and a state here.");
  const good = (a, b) => column.loss ? a < b : a > b;
  const front = points.filter(p => !points.some(q => q.x <= p.x && !good(p.y, q.y) && (q.x < p.x || good(q.y, p.y))))
    .sort((a, b) => a.x - b.x);
  const xs = points.map(p => Math.log2(p.x)), ys = points.map(p => p.y);
  const left = Math.floor(Math.min(...xs)) - .3, right = Math.ceil(Math.max(...xs)) + .3;
  const low = column.loss ? Math.min(...ys) * .97 : 0, high = column.loss ? Math.max(...ys) * 1.03 : Math.max(1, ...ys);
  const px = x => 60 + (Math.log2(x) - left) / (right - left) * 620, py = y => 330 - (y - low) / (high - low || 1) * 300;
  const svg = element("svg", {viewBox: "0 0 700 390", role: "img", class: "wide",
    "aria-label": `${column.title}: ${column.metric} against floats of state, ${points.length} rows; front: ` +
      front.map(p => data.rows[p.row].name).join(", ")});
  for (let i = 0; i <= 4; ++i) {
    const y = low + (high - low) * i / 4;
    svg.append(element("line", {x1: 60, x2: 680, y1: py(y), y2: py(y), class: "grid"}), element("text", {x: 54, y: py(y) + 4, "text-anchor": "end"}, short(y)));
  }
  const every = Math.max(1, Math.ceil((right - left) / 9));
  for (let e = Math.ceil(left); e <= right; e += every)
    svg.append(element("text", {x: px(2 ** e), y: 350, "text-anchor": "middle"}, String(2 ** e)));
  svg.append(element("path", {d: "M60 30V330H680", fill: "none", stroke: "#222"}),
    element("text", {x: 370, y: 374, "text-anchor": "middle", class: "axis"}, "State (floats)"),
    element("text", {x: 60, y: 18, class: "axis"}, `${column.title}: ${column.metric}`));
  if (column.chance !== null && column.chance >= low && column.chance <= high)
    svg.append(element("line", {x1: 60, x2: 680, y1: py(column.chance), y2: py(column.chance), stroke: "#555", "stroke-dasharray": "2 4"}),
      element("text", {x: 676, y: py(column.chance) - 4, "text-anchor": "end"}, "chance"));
  svg.append(element("path", {d: front.map((p, i) => i ? `H${px(p.x)}V${py(p.y)}` : `M${px(p.x)} ${py(p.y)}`).join("") + "H680",
    fill: "none", stroke: "#888", "stroke-width": 1.4}));
  for (const p of points) {
    const row = data.rows[p.row], dot = element("circle", {cx: px(p.x), cy: py(p.y), r: row.mine ? 7 : 4.5,
      fill: colours[families.indexOf(row.family) % colours.length], stroke: row.mine ? "#000" : "#fff", "stroke-width": row.mine ? 2 : .8, class: "spot"});
    dot.append(element("title", {}, `${row.name}: ${short(p.y)} with ${p.x} floats`));
    dot.addEventListener("click", () => showCell(p.row, c));
    svg.append(dot);
  }
  const boxes = [];  // names stand where they lie over no other
  for (const p of [...front, ...points.filter(q => data.rows[q.row].mine && !front.includes(q))]) {
    const name = data.rows[p.row].name, width = name.length * 7, right = px(p.x) + 8 + width > 690;
    const x = right ? px(p.x) - 8 : px(p.x) + 8;
    let y = py(p.y) - 6;
    const lies = at => boxes.some(box => Math.abs(box.y - at) < 14 && box.x0 < (right ? x : x + width) && (right ? x - width : x) < box.x1);
    while (lies(y) && y < 318) y += 14;
    boxes.push({x0: right ? x - width : x, x1: right ? x : x + width, y});
    svg.append(element("text", {x, y, "text-anchor": right ? "end" : "start"}, name));
  }
  const legend = document.createElement("ul");
  legend.className = "legend";
  families.filter(Boolean).forEach(name => {
    const item = document.createElement("li"), mark = element("svg", {width: 14, height: 14});
    mark.append(element("circle", {cx: 7, cy: 7, r: 5, fill: colours[families.indexOf(name) % colours.length]}));
    item.append(mark, ` ${name}`);
    legend.append(item);
  });
  place.replaceChildren(svg, legend);
}
setting.addEventListener("change", drawFront);
applyFilter();

// --- ranks of settings, and places of one's own
function fill(id, lines, heads) {  // a cell is a text, or [text, small text, background]
  const place = document.getElementById(id);
  lines.forEach((line, r) => {
    const row = place.insertRow();
    line.forEach((cell, c) => {
      const [text, small, colour] = Array.isArray(cell) ? cell : [cell];
      const made = document.createElement(r === 0 || (heads && c === 0) ? "th" : "td");
      made.textContent = text;
      if (c === 0) made.className = "name";
      if (small) {
        const part = document.createElement("small");
        part.textContent = ` ${small}`;
        made.append(part);
      }
      if (colour) made.style.background = colour;
      row.append(made);
    });
  });
}
const ranks = data.columns.map(() => data.columns.map(() => ""));
for (const [a, b, value, lo, hi, n] of data.ranks)
  ranks[a][b] = ranks[b][a] = [value.toFixed(2), lo === null ? String(n) : `[${lo.toFixed(2)}, ${hi.toFixed(2)}] ${n}`,
    `rgb(${value < 0 ? "213 94 0" : "0 114 178"} / ${(.4 * Math.abs(value)).toFixed(2)})`];
if (data.ranks.length) fill("rank-table", [["", ...data.columns.map(column => column.title)],
  ...ranks.map((line, c) => [data.columns[c].title, ...line])], true);
else document.getElementById("ranks").hidden = true;
if (document.getElementById("mine-table")) {
  const signed = value => value === null ? "?" : (value > 0 ? "+" : "") + short(value);
  const beside = one => `${data.rows[one.row].name} ${signed(one.difference)} [${signed(one.lo)}, ${signed(one.hi)}], ${one.wins}/${one.n}` +
    (one.told ? ", told from 0" : "");
  fill("mine-table", [["Memory", "Setting", "Value", "Place", "Neighbours: next better, next worse"], ...data.places.map(place => {
    const cell = data.cells[place.row][place.column], value = isValue(cell);
    return [data.rows[place.row].name, [data.columns[place.column].title, place.otherwise && `trained otherwise: ${place.otherwise}`],
      value ? [short(cell.value), cell.n > 1 ? `[${short(cell.lo)}, ${short(cell.hi)}]` : ""] : cell.state,
      value ? `${place.place} of ${place.of}` : "none", place.neighbours.map(beside).join("; ")];
  })], true);
  document.getElementById("told-by").textContent = data.told_by;
}
