// Sorts and filters the table of runs, shows the curves of one, copies. Without it the page is all there, as it was written.
const table = document.getElementById("runs-table"), body = table.tBodies[0], rows = [...body.rows];
const heads = [...table.tHead.rows[0].cells], filter = document.getElementById("filter"), pick = document.getElementById("label");
const panel = document.getElementById("curve");
const words = rows.map(row => [...row.cells].map(cell => cell.textContent).join(" \u0001 ").toLowerCase());
rows.forEach((row, i) => { row.run = i; row.tabIndex = -1; });

const shownRows = () => [...body.rows].filter(row => !row.hidden);
function rove(row) {  // one row of the table is on the way of the tab key; arrows go to the others
  for (const other of body.querySelectorAll("tr[tabindex='0']")) other.tabIndex = -1;
  if (row) row.tabIndex = 0;
}

// --- sorting
function sortBy(column) {
  const down = heads[column].getAttribute("aria-sort") === "ascending";
  heads.forEach(head => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = row => data.rows[row.run][column];
  const order = [...rows].sort((a, b) => {
    const x = value(a), y = value(b);
    if (x === null || y === null) return (x === null) - (y === null) || a.run - b.run;  // what is not there comes last
    return (down ? -1 : 1) * compare(x, y) || a.run - b.run;
  });
  body.append(...order);
  rove(shownRows()[0]);
  said.textContent = `Sorted by ${data.columns[column].name}, ${down ? "descending" : "ascending"}.`;
}
heads.forEach((head, i) => head.querySelector("button").addEventListener("click", () => sortBy(i)));

// --- filtering: words that a row must hold, or conditions such as eval_loss<0.01
function columnOf(name) {
  const is = column => column.key.toLowerCase() === name || column.name.toLowerCase() === name ||
    column.key.toLowerCase().split(".").pop() === name;
  return data.columns.findIndex(is);
}
function test(word) {
  const parts = /^([^<>=]+)(<=|>=|=|<|>)(.+)$/.exec(word), column = parts ? columnOf(parts[1]) : -1;
  if (column < 0) return row => words[row.run].includes(word);
  const wanted = parts[3], number = wanted.trim() !== "" && Number.isFinite(Number(wanted)) ? Number(wanted) : wanted;
  return row => {
    const value = data.rows[row.run][column];
    if (value === null) return false;
    const by = typeof value === "number" && typeof number === "number" ? value - number
      : compare(String(value).toLowerCase(), String(wanted));
    return {"=": by === 0, "<": by < 0, ">": by > 0, "<=": by <= 0, ">=": by >= 0}[parts[2]];
  };
}
function applyFilter() {
  const tests = filter.value.toLowerCase().split(/\s+/).filter(Boolean).map(test);
  const labels = data.columns.findIndex(column => column.key === "label");
  let shown = 0;
  for (const row of rows) {
    const keep = tests.every(one => one(row)) && (pick.value === "" || data.rows[row.run][labels] === pick.value);
    row.hidden = !keep;
    shown += keep;
  }
  document.getElementById("count").textContent = `${shown} of ${rows.length} runs`;
  rove(shownRows()[0]);
}
filter.addEventListener("input", applyFilter);
pick.addEventListener("change", applyFilter);

// --- curves of the row under the pointer or the keyboard
function showCurves(row) {
  for (const other of body.querySelectorAll(".shown")) other.classList.remove("shown");
  row.classList.add("shown");
  const values = data.rows[row.run], curves = data.curves[row.run];
  const says = data.columns.map((column, i) => [column, values[i]])
    .filter(([column, value]) => value !== null && !/^(id|status|verdict|steps|state_size|d_dot|(eval|test)_.*)$/.test(column.key));
  const head = document.createElement("p");
  head.textContent = says.map(([column, value]) => `${column.name} ${typeof value === "number" ? short(value) : value}`).join(" \u00b7 ");
  const charts = document.createElement("div");
  data.curve_names.forEach((name, i) => {
    const made = curves && curves[i + 1] ? chart(name, data.steps[curves[0]], curves[i + 1]) : null;
    if (made) charts.append(made);
  });
  if (!charts.childElementCount) charts.textContent = "This run has no curves.";
  panel.replaceChildren(head, charts);
  panel.hidden = false;
}
body.addEventListener("mouseover", event => { const row = event.target.closest("tr"); if (row) showCurves(row); });
body.addEventListener("focusin", event => { const row = event.target.closest("tr"); if (row) { showCurves(row); rove(row); } });
body.addEventListener("keydown", event => {
  const list = shownRows(), at = list.indexOf(event.target.closest("tr"));
  const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: list.length - 1, PageDown: at + 20, PageUp: at - 20}[event.key];
  if (event.key === "Escape") panel.hidden = true;
  if (to === undefined || at < 0) return;
  event.preventDefault();
  const row = list[Math.min(Math.max(to, 0), list.length - 1)];
  rove(row);
  row.focus();
});
document.getElementById("runs").addEventListener("mouseleave", () => {
  if (!body.contains(document.activeElement)) panel.hidden = true;
});

// --- copying
const shownValues = () => shownRows().map(row => data.rows[row.run]);
Object.assign(makers, {
  "runs-csv": () => [data.columns.map(column => column.key), ...shownValues()].map(line => line.map(field).join(",")).join("\n") + "\n",
  "runs-latex": () => {
    const keep = data.columns.map((column, i) => i).filter(i => data.columns[i].key !== "id");
    const lines = shownValues().map(row => keep.map(i => latex(typeof row[i] === "number" ? short(row[i]) : row[i])).join(" & ") + " \\\\");
    const head = keep.map(i => latex(data.columns[i].name)).join(" & ") + " \\\\";
    return ["% needs \\usepackage{booktabs,longtable}", `\\begin{longtable}{${keep.map(i => data.columns[i].number ? "r" : "l").join("")}}`,
      "\\toprule", head, "\\midrule", "\\endhead", ...lines, "\\bottomrule", "\\end{longtable}"].join("\n") + "\n";
  },
});
document.getElementById("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([makers["runs-csv"]()], {type: "text/csv"}));
  link.download = "runs.csv";
  link.click();
  URL.revokeObjectURL(link.href);
});

// --- a line in front of the others
for (const figure of document.querySelectorAll("figure")) {
  const front = line => {
    figure.classList.toggle("has-front", line !== null);
    for (const part of figure.querySelectorAll("[data-line]")) part.classList.toggle("front", part.dataset.line === line);
  };
  for (const part of figure.querySelectorAll("[data-line]")) {
    part.addEventListener("mouseenter", () => front(part.dataset.line));
    part.addEventListener("mouseleave", () => front(null));
  }
}
applyFilter();
