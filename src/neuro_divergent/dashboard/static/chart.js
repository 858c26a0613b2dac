// Charts as SVG: lines, bands, points and bars; zoom by dragging or by keys; export as PNG, SVG and CSV.
// The server thins long curves, so a chart never has more than a few thousand points.

import { download, figure, h, s } from "./tools.js";
import { asCsv, asPng, asSvg } from "./export.js";
import { logTicks, ticks } from "./ticks.js";

export const COLOURS = Array.from({ length: 8 }, (_, number) => `var(--c${number})`);
const HEIGHT = 250, LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 34;
const LABEL = 92, EDGE = 5;  // the width of a label below the axis, and how far a point may stand out

export function chart(title, options = {}) {
  return new Chart(title, options);
}

class Chart {
  // options: note, xlabel, ylabel, log, canLog, height, onZoom(from, to), xText(value), bars
  constructor(title, options) {
    this.title = title;
    this.options = options;
    this.series = [];
    this.hidden = new Set();
    this.log = Boolean(options.log);
    this.zoom = null;
    this.cursor = null;
    this.svg = s("svg", { tabindex: 0, role: "img", "aria-label": title });
    this.tip = h("div", { class: "tip", hidden: true, "aria-live": "polite" });
    this.legend = h("div", { class: "legend" });
    this.note = h("span", {}, options.note || "");
    const tool = (text, act, label, pressed) => h("button", { type: "button", onclick: act, "aria-label": `${text}: ${label}, ${title}`, title: label, "aria-pressed": pressed }, text);
    this.logButton = tool("log", () => this.setLog(!this.log), "Logarithmic scale", String(this.log));
    this.resetButton = tool("reset", () => this.setZoom(null), "Show everything");
    this.resetButton.hidden = true;
    const tools = h("div", { class: "tools" }, this.resetButton, options.canLog === false ? null : this.logButton,
      tool("PNG", () => asPng(this), "Save as PNG"), tool("SVG", () => download(`${title}.svg`, asSvg(this), "image/svg+xml"), "Save as SVG"),
      tool("CSV", () => download(`${title}.csv`, asCsv(this), "text/csv"), "Save as CSV"));
    this.element = h("figure", { class: `chart ${options.wide ? "wide" : ""}` }, h("figcaption", {}, title, this.note, tools), this.svg, this.legend, this.tip);
    this.listen();
    new ResizeObserver(() => { if (this.element.clientWidth !== this.width) this.draw(); }).observe(this.element);
  }

  setLog(log) {
    this.log = log;
    this.logButton.setAttribute("aria-pressed", String(log));
    this.draw();
  }

  setZoom(zoom) {
    this.zoom = zoom;
    this.resetButton.hidden = zoom === null;
    this.draw();
    if (this.options.onZoom) this.options.onZoom(zoom);
  }

  // series: [{name, x, y, colour, dash, width, soft, points, low, high, area}]
  update(series, note) {
    this.series = series;
    if (note !== undefined) this.note.textContent = note;
    this.draw();
    return this;
  }

  visible() {
    return this.series.filter((one) => !this.hidden.has(one.name));
  }

  ranges() {
    let [x0, x1, y0, y1, positive] = [Infinity, -Infinity, Infinity, -Infinity, Infinity];
    for (const one of this.visible()) {
      one.x.forEach((x, place) => {
        if (this.zoom && (x < this.zoom[0] || x > this.zoom[1])) return;
        for (const y of [one.y[place], one.low?.[place], one.high?.[place]]) {
          if (y === null || y === undefined) continue;
          if (x < x0) x0 = x;
          if (x > x1) x1 = x;
          if (y < y0) y0 = y;
          if (y > y1) y1 = y;
          if (y > 0 && y < positive) positive = y;
        }
      });
    }
    if (x0 > x1) return null;
    if (this.zoom) [x0, x1] = this.zoom;
    if (this.options.bars || this.options.zero) y0 = Math.min(0, y0);
    if (x0 === x1 || this.options.bars) [x0, x1] = [x0 - 0.5, x1 + 0.5];
    const log = this.log && positive < Infinity;
    if (log) y0 = positive;
    if (y0 === y1) [y0, y1] = log ? [y0 / 2, y1 * 2] : [y0 - Math.abs(y0 || 1) / 2, y1 + Math.abs(y1 || 1) / 2];
    const pad = log ? 0 : (y1 - y0) * 0.05;
    return { x0, x1, y0: this.options.bars ? y0 : y0 - pad, y1: y1 + pad, log };
  }

  draw() {
    this.width = this.element.clientWidth;
    const width = Math.max(220, this.width - 24), height = this.options.height || HEIGHT;
    const range = this.ranges();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren();
    this.drawLegend();
    if (!range) {
      this.svg.append(s("text", { x: width / 2, y: height / 2, "text-anchor": "middle", fill: "var(--soft)", "font-size": 13 }, "No values yet"));
      this.scale = null;
      return;
    }
    const right = width - RIGHT, bottom = height - BOTTOM, move = range.log ? Math.log10 : (value) => value;
    const [low, high] = [move(range.y0), move(range.y1)];
    const x = (value) => LEFT + ((value - range.x0) / (range.x1 - range.x0)) * (right - LEFT);
    const y = (value) => bottom - ((move(Math.max(value, range.log ? range.y0 : -Infinity)) - low) / (high - low)) * (bottom - TOP);
    const back = (place) => range.x0 + ((place - LEFT) / (right - LEFT)) * (range.x1 - range.x0);
    this.scale = { x, y, back, width, height, right, bottom, range };
    this.drawAxes(range, x, y, right, bottom, width, height);
    const clip = `clip${(Chart.count = (Chart.count || 0) + 1)}`;
    const area = s("g", { "clip-path": `url(#${clip})` });
    this.svg.append(s("clipPath", { id: clip }, s("rect", { x: LEFT - EDGE, y: TOP - EDGE, width: right - LEFT + 2 * EDGE, height: bottom - TOP + 2 * EDGE })), area);
    this.visible().forEach((one) => this.drawSeries(area, one, x, y));
    this.mark = s("g", {});
    this.svg.append(this.mark);
    this.svg.setAttribute("aria-label", this.summary());
  }

  drawAxes(range, x, y, right, bottom, width, height) {
    const text = (value, at, anchor) => s("text", { ...at, "text-anchor": anchor, fill: "var(--soft)", "font-size": 11, "font-family": "system-ui, sans-serif" }, value);
    for (const value of range.log ? logTicks(range.y0, range.y1) : ticks(range.y0, range.y1, 5)) {
      this.svg.append(s("line", { x1: LEFT, x2: right, y1: y(value), y2: y(value), stroke: "var(--grid)" }), text(figure(value, 3), { x: LEFT - 6, y: y(value) + 4 }, "end"));
    }
    const label = this.options.xText || ((value) => figure(value));
    const room = Math.max(1, Math.floor((right - LEFT) / LABEL)), whole = this.visible().every((one) => one.x.every(Number.isInteger));
    const places = this.options.bars ? this.visible()[0]?.x.filter((_, place, all) => place % Math.ceil(all.length / room) === 0) || [] : ticks(range.x0, range.x1, Math.max(2, Math.min(8, room)), whole);
    for (const value of places) this.svg.append(text(label(value), { x: x(value), y: bottom + 15 }, "middle"));
    this.svg.append(s("line", { x1: LEFT, x2: right, y1: bottom, y2: bottom, stroke: "var(--line)" }));
    if (this.options.xlabel) this.svg.append(text(this.options.xlabel, { x: right, y: height - 4 }, "end"));
    if (this.options.ylabel) this.svg.append(text(this.options.ylabel, { x: 2, y: height - 4 }, "start"));
  }

  drawSeries(area, one, x, y) {
    const colour = one.colour || COLOURS[this.series.indexOf(one) % 8];
    if (one.low) {
      const upper = one.x.map((value, place) => `${x(value).toFixed(1)},${y(one.high[place]).toFixed(1)}`);
      const lower = one.x.map((value, place) => `${x(value).toFixed(1)},${y(one.low[place]).toFixed(1)}`).reverse();
      area.append(s("path", { d: `M${[...upper, ...lower].join("L")}Z`, fill: colour, "fill-opacity": one.opacity || 0.16 }));
      return;
    }
    if (this.options.bars) {
      const wide = Math.max(2, Math.min(28, (x(1) - x(0)) / (this.visible().length + 0.6)));
      const shift = (this.visible().indexOf(one) - (this.visible().length - 1) / 2) * wide;
      one.x.forEach((value, place) => {
        if (one.y[place] === null) return;
        const top = y(Math.max(0, one.y[place])), base = y(Math.min(0, one.y[place]));
        area.append(s("rect", { x: x(value) + shift - wide / 2 + 0.5, y: top, width: Math.max(1, wide - 1), height: Math.max(0.5, base - top), fill: colour }));
      });
      return;
    }
    if (one.points) {
      one.x.forEach((value, place) => {
        if (one.y[place] !== null) area.append(s("circle", { cx: x(value).toFixed(1), cy: y(one.y[place]).toFixed(1), r: one.size || 3.2, fill: one.colours?.[place] || colour, "fill-opacity": 0.85 }));
      });
      if (one.points === "only") return;
    }
    let path = "", pen = false;
    one.x.forEach((value, place) => {
      const own = one.y[place];
      if (own === null || own === undefined) { pen = false; return; }
      path += `${pen ? "L" : "M"}${x(value).toFixed(1)},${y(own).toFixed(1)}`;
      pen = true;
    });
    if (one.x.length === 1 && one.y[0] !== null) area.append(s("circle", { cx: x(one.x[0]), cy: y(one.y[0]), r: 3, fill: colour }));
    area.append(s("path", { d: path, fill: "none", stroke: colour, "stroke-width": one.width || 1.7, "stroke-dasharray": one.dash, "stroke-opacity": one.soft ? 0.38 : null, "stroke-linejoin": "round" }));
  }

  drawLegend() {
    const shown = this.series.filter((one) => !one.quiet && one.x.length);
    this.legend.hidden = shown.length < 2;
    const names = shown.map((one) => `${one.name}${one.colour || ""}`).join("\n");
    if (names === this.legendOf) return;
    this.legendOf = names;
    this.legend.replaceChildren(...shown.map((one) => {
      const colour = one.colour || COLOURS[this.series.indexOf(one) % 8];
      const line = s("svg", { viewBox: "0 0 16 8", "aria-hidden": "true" }, one.low ? s("rect", { width: 16, height: 8, fill: colour, "fill-opacity": 0.3 }) : one.points === "only" ? s("circle", { cx: 8, cy: 4, r: 3.2, fill: colour }) : s("line", { x1: 0, x2: 16, y1: 4, y2: 4, stroke: colour, "stroke-width": 2.4, "stroke-dasharray": one.dash, "stroke-opacity": one.soft ? 0.5 : null }));
      const button = h("button", { type: "button", "aria-pressed": "true", onclick: () => {
        if (!this.hidden.delete(one.name)) this.hidden.add(one.name);
        button.setAttribute("aria-pressed", String(!this.hidden.has(one.name)));
        this.draw();
      } }, line, one.name);
      return button;
    }));
  }

  summary() {
    const parts = this.visible().filter((one) => !one.low && !one.soft).slice(0, 6).map((one) => {
      const last = one.y.findLast((value) => value !== null);
      return `${one.name}: last ${figure(last)}`;
    });
    return `${this.title}. ${parts.join("; ")}. Arrow keys read values, plus and minus zoom, 0 shows everything.`;
  }

  listen() {
    let begun = null, box = null;
    const place = (event) => {
      const rect = this.svg.getBoundingClientRect();
      return ((event.clientX - rect.left) / rect.width) * (this.scale?.width || 1);
    };
    this.svg.addEventListener("pointerdown", (event) => {
      if (!this.scale || event.button !== 0 || event.pointerType === "touch") return;
      begun = place(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!this.scale) return;
      const now = place(event);
      if (begun !== null) {
        box?.remove();
        box = s("rect", { x: Math.min(begun, now), y: TOP, width: Math.abs(now - begun), height: this.scale.bottom - TOP, fill: "var(--accent)", "fill-opacity": 0.15 });
        this.svg.append(box);
      } else this.showAt(this.scale.back(now));
    });
    this.svg.addEventListener("pointerup", (event) => {
      const now = place(event);
      box?.remove();
      if (begun !== null && this.scale && Math.abs(now - begun) > 6 && !this.options.bars) this.setZoom([this.scale.back(Math.min(begun, now)), this.scale.back(Math.max(begun, now))]);
      begun = box = null;
    });
    this.svg.addEventListener("dblclick", () => this.setZoom(null));
    this.svg.addEventListener("pointerleave", () => this.hideTip());
    this.svg.addEventListener("blur", () => this.hideTip());
    this.svg.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(event) {
    if (!this.scale) return;
    const { x0, x1 } = this.scale.range, middle = this.cursor ?? (x0 + x1) / 2, size = x1 - x0;
    const acts = {
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), Home: () => this.showAt(x0), End: () => this.showAt(x1),
      "+": () => this.setZoom([middle - size / 4, middle + size / 4]), "-": () => this.setZoom(this.zoom && [middle - size, middle + size]),
      0: () => this.setZoom(null), Escape: () => this.hideTip(),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  step(direction) {
    const xs = [...new Set(this.visible().flatMap((one) => one.x))].sort((a, b) => a - b);
    const now = this.cursor ?? this.scale.range.x0;
    const next = direction > 0 ? xs.find((value) => value > now) : xs.findLast((value) => value < now);
    if (next !== undefined) this.showAt(next);
  }

  showAt(value) {
    const { x, y, range } = this.scale;
    if (value < range.x0 || value > range.x1) { this.hideTip(); return; }
    const lines = [];
    let at = null;
    for (const one of this.visible()) {
      const place = nearest(one.x, value);
      if (place < 0 || (one.y && one.y[place] === null)) continue;
      if (at === null) at = one.x[place];
      lines.push(`${one.name}: ${one.low ? `${figure(one.low[place])} to ${figure(one.high[place])}` : figure(one.y[place], 5)}`);
    }
    if (at === null) return;
    this.cursor = at;
    this.mark.replaceChildren(s("line", { x1: x(at), x2: x(at), y1: TOP, y2: this.scale.bottom, stroke: "var(--soft)", "stroke-dasharray": "3 3" }),
      ...this.visible().filter((one) => !one.low && !this.options.bars).map((one) => {
        const place = nearest(one.x, at);
        return place >= 0 && one.y[place] !== null ? s("circle", { cx: x(one.x[place]), cy: y(one.y[place]), r: 3.2, fill: one.colour || COLOURS[this.series.indexOf(one) % 8] }) : "";
      }));
    const text = this.options.xText || ((number) => `${this.options.xlabel || "x"} ${figure(number, 7)}`);
    this.tip.replaceChildren(h("b", {}, text(at)), ...lines.slice(0, 14).map((line) => h("div", {}, line)));
    this.tip.hidden = false;
    const rect = this.svg.getBoundingClientRect(), left = (x(at) / this.scale.width) * rect.width;
    this.tip.style.top = `${this.svg.offsetTop + 6}px`;
    this.tip.style.left = left > rect.width / 2 ? "" : `${this.svg.offsetLeft + left + 14}px`;
    this.tip.style.right = left > rect.width / 2 ? `${rect.width - left + 22}px` : "";
  }

  hideTip() {
    this.tip.hidden = true;
    this.cursor = null;
    this.mark?.replaceChildren();
  }
}

function nearest(xs, value) {
  let best = -1;
  for (let place = 0; place < xs.length; place++) if (best < 0 || Math.abs(xs[place] - value) < Math.abs(xs[best] - value)) best = place;
  return best;
}
