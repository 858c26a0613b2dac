// A value by layer and step as a map of colours, on a logarithmic scale.

import { figure, h, s } from "./tools.js";
import { download } from "./tools.js";

const ROW = 13, LEFT = 210, TOP = 4, WIDTH = 900;

export function heat(title, found) {
  const values = found.values.flat().filter((value) => value !== null && value > 0);
  const low = Math.log10(Math.min(...values)), high = Math.log10(Math.max(...values));
  const height = TOP + found.names.length * ROW + 24, cell = (WIDTH - LEFT) / Math.max(1, found.steps.length);
  const svg = s("svg", { class: "heat", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${title} by layer and step, from ${figure(10 ** low)} (pale) to ${figure(10 ** high)} (strong)` });
  found.names.forEach((name, row) => {
    svg.append(s("text", { x: LEFT - 6, y: TOP + row * ROW + 10, "text-anchor": "end", fill: "var(--soft)", "font-size": 9.5 }, name.length > 36 ? `…${name.slice(-35)}` : name));
    found.values[row].forEach((value, place) => {
      if (value === null) return;
      const share = value > 0 ? (Math.log10(value) - low) / (high - low || 1) : 0;
      svg.append(s("rect", { x: LEFT + place * cell, y: TOP + row * ROW, width: cell + 0.3, height: ROW - 1, fill: "var(--c0)", "fill-opacity": (0.06 + 0.94 * share).toFixed(3) }, s("title", {}, `${name}, step ${found.steps[place]}: ${figure(value)}`)));
    });
  });
  if (found.steps.length) svg.append(...[[LEFT, "start", found.steps[0]], [WIDTH, "end", found.steps.at(-1)]].map(([x, anchor, step]) => s("text", { x, y: height - 6, "text-anchor": anchor, fill: "var(--soft)", "font-size": 10 }, `step ${step}`)));
  const rows = [["name", ...found.steps], ...found.names.map((name, row) => [`"${name.replaceAll('"', '""')}"`, ...found.values[row]])];
  return h("figure", { class: "chart" }, h("figcaption", {}, title, h("span", {}, `${figure(10 ** low)} to ${figure(10 ** high)}, logarithmic`), h("div", { class: "tools" }, h("button", { type: "button", "aria-label": `CSV: save ${title}`, onclick: () => download(`${title}.csv`, `${rows.map((row) => row.join(",")).join("\n")}\n`, "text/csv") }, "CSV"))), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title} by layer` }, svg));
}
