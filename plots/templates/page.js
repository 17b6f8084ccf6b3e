"use strict";
// What the scripts of pages share: charts of curves, texts for copying, buttons.
const data = JSON.parse(document.getElementById("data").textContent);
const said = document.getElementById("said");
const makers = {};  // by the name of a button's data-copy, where no element of that name holds the text
function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", {numeric: true});
}
const SVG = "http://www.w3.org/2000/svg";
function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
}
const short = value => String(Number(value.toPrecision(3)));
function chart(name, x, y) {
  const points = x.map((at, i) => [at, y[i]]).filter(point => point[1] !== null);
  if (points.length === 0) return null;
  const ys = points.map(point => point[1]), low = Math.min(...ys), high = Math.max(...ys);
  const log = /loss/.test(name) && low > 0 && high / low > 20, map = log ? Math.log10 : value => value;
  const bottom = log ? map(low) : Math.min(0, low), top = log ? map(high) : Math.max(high, /loss/.test(name) ? 0 : 1) || 1;
  const px = at => 58 + (at - x[0]) / (x[x.length - 1] - x[0] || 1) * 350;
  const py = at => 110 - (map(at) - bottom) / (top - bottom || 1) * 88;
  const best = /loss/.test(name) ? low : high;
  const svg = element("svg", {viewBox: "0 0 420 146", role: "img",
    "aria-label": `${name}: ${short(ys[0])} at step ${points[0][0]}, ${short(ys[ys.length - 1])} at step ` +
      `${points[points.length - 1][0]}, best ${short(best)}`});
  svg.append(element("text", {x: 58, y: 13, class: "heading"}, name + (log ? " (log)" : "")));
  svg.append(element("path", {d: "M58 20V110H408", fill: "none", stroke: "#222"}));
  for (const at of log ? [low, Math.sqrt(low * high), high] : [bottom, (bottom + top) / 2, top]) {
    svg.append(element("line", {x1: 58, x2: 408, y1: py(at), y2: py(at), class: "grid"}));
    svg.append(element("text", {x: 52, y: py(at) + 4, "text-anchor": "end"}, short(at)));
  }
  for (const at of [x[0], x[x.length - 1]])
    svg.append(element("text", {x: px(at), y: 127, "text-anchor": at === x[0] ? "start" : "end"}, String(at)));
  svg.append(element("text", {x: 233, y: 142, "text-anchor": "middle"}, "training step"));
  svg.append(element("path", {d: points.map((point, i) => `${i ? "L" : "M"}${px(point[0]).toFixed(1)} ${py(point[1]).toFixed(1)}`).join(""),
    fill: "none", stroke: "#0072B2", "stroke-width": 1.8}));
  if (points.length === 1) svg.append(element("circle", {cx: px(points[0][0]), cy: py(points[0][1]), r: 3, fill: "#0072B2"}));
  return svg;
}

// --- copying
const field = value => value === null ? "" : /[",\n\r]/.test(String(value)) ? `"${String(value).replace(/"/g, '""')}"` : String(value);
const latex = value => value === null ? "--" : String(value).replace(/[\\{}$&#%_~^]/g, sign =>
  ({"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"})[sign] || "\\" + sign);
function textOf(name) {
  if (makers[name]) return makers[name]();
  const source = document.getElementById(name);
  if (source.tagName !== "TABLE") return source.textContent;
  return [...source.rows].map(row => [...row.cells].map(cell => field(cell.textContent)).join(",")).join("\n") + "\n";
}
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (refused) {  // a page from a file, in some browsers
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
for (const button of document.querySelectorAll("[data-copy]"))
  button.addEventListener("click", async () => {
    const words = button.textContent;
    await copy(textOf(button.dataset.copy));
    said.textContent = "Copied.";
    button.textContent = "Copied";
    button.focus();
    setTimeout(() => { button.textContent = words; }, 1200);
  });
for (const part of document.querySelectorAll(".screen")) part.hidden = false;

