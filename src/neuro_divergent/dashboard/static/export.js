// Charts as files, and a comparison as one HTML file.

import { download, h } from "./tools.js";

function resolved(text) {
  const style = getComputedStyle(document.documentElement);
  return text.replace(/var\((--\w+)\)/g, (_, name) => style.getPropertyValue(name).trim());
}

export function asSvg(chart) {
  const copy = chart.svg.cloneNode(true);
  const [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number);
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = chart.title;
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ width, height, fill: "var(--paper)" })) paper.setAttribute(name, value);
  copy.prepend(title, paper);
  for (const [name, value] of Object.entries({ width, height })) copy.setAttribute(name, value);
  copy.removeAttribute("tabindex");
  return resolved(new XMLSerializer().serializeToString(copy));
}

export async function asPng(chart, scale = 2) {
  const url = URL.createObjectURL(new Blob([asSvg(chart)], { type: "image/svg+xml" }));
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = h("canvas", { width: image.width * scale, height: image.height * scale });
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.drawImage(image, 0, 0);
  URL.revokeObjectURL(url);
  canvas.toBlob((blob) => download(`${chart.title}.png`, blob), "image/png");
}

// A spreadsheet runs a cell that begins with one of these.
function cell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function asCsv(chart) {
  const rows = [["series", "x", "y", "low", "high"]];
  for (const one of chart.series) one.x.forEach((x, place) => rows.push([one.name, x, one.y?.[place], one.low?.[place], one.high?.[place]]));
  return `${rows.map((row) => row.map(cell).join(",")).join("\n")}\n`;
}

export function asPage(title, parts, charts) {
  const page = document.implementation.createHTMLDocument(title);
  const style = page.createElement("style");
  style.textContent = "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}table{border-collapse:collapse;margin:.6rem 0 1.4rem}th,td{padding:.3rem .9rem .3rem 0;border-bottom:1px solid #dde2e7;text-align:left;overflow-wrap:anywhere}td.number,th.number{text-align:right}svg{max-width:100%;height:auto}.soft{color:#57606a}";
  const meta = page.createElement("meta");
  meta.setAttribute("http-equiv", "Content-Security-Policy");
  meta.setAttribute("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:");
  const charset = page.createElement("meta");
  charset.setAttribute("charset", "utf-8");
  page.head.prepend(charset, meta);
  page.head.append(style);
  const heading = page.createElement("h1");
  heading.textContent = title;
  page.body.append(heading);
  for (const part of parts) {
    const copy = page.importNode(part, true);
    copy.querySelectorAll("button, input, select, .tools").forEach((item) => item.replaceWith(item.tagName === "BUTTON" ? item.textContent : ""));
    copy.querySelectorAll("a").forEach((link) => link.replaceWith(link.textContent));
    page.body.append(copy);
  }
  for (const chart of charts) {
    const name = page.createElement("h2");
    name.textContent = chart.title;
    const drawn = new DOMParser().parseFromString(asSvg(chart), "image/svg+xml").documentElement;
    const legend = page.createElement("p");
    legend.setAttribute("class", "soft");
    chart.visible().forEach((one, place) => {
      const item = page.createElement("span");
      item.setAttribute("style", `border-left:14px solid ${resolved(one.colour || `var(--c${place % 8})`)};padding-left:6px;margin-right:14px`);
      item.textContent = one.name;
      legend.append(item);
    });
    page.body.append(name, page.importNode(drawn, true), legend);
  }
  return `<!doctype html>\n${page.documentElement.outerHTML}`;
}
